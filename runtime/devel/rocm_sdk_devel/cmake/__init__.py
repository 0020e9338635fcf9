"""The entry point `cmake.prefix`: scikit-build-core searches the expanded devel tree for CMake packages.

It asks importlib.resources for the directory of this package, as it finds packages that bring CMake files
as they are. These files exist only once the tree is expanded, so this package says that it lies there.
"""

import os
import pathlib

from rocm_sdk import _devel


class _Tree:
    """What importlib.resources of any Python version asks a loader for: where the package's files are."""

    def __init__(self, root):
        self._root = pathlib.Path(root)

    def files(self):
        return self._root

    def get_resource_reader(self, _name):
        return self


_root = _devel.root()
__path__ = []
__spec__.loader = _Tree(_root)
__spec__.origin = os.path.join(_root, "__init__.py")
