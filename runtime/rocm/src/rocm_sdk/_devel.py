"""The devel tree: where it is, and whether it is still the one that the installed packages give.

This module is on the way of every compiler call, so it imports little; making the tree is `_expand`'s job.
"""

import os

from . import _dist
from ._stamp import DIRECTORY_VARIABLE, DevelError, read_stamp, state

__all__ = ["DevelError", "installed_root", "root"]


def installed_root():
    """Root of the expanded devel tree, expanded on first use; None when rocm-sdk-devel is not installed."""
    return root() if _dist.directory("devel") else None


def root():
    """Root of the expanded devel tree, expanding it on first use. Raises `DevelError`, `PackageMissing`."""
    module = _dist.require("devel")
    libraries = _dist.package("libraries")
    elsewhere = os.environ.get(DIRECTORY_VARIABLE) or None
    entry = _dist.package("devel")
    tree = os.path.join(os.path.dirname(module), entry["module"])
    if elsewhere is None and _is_unchanged(tree, libraries):
        return tree
    from . import _expand

    siblings = [one for one in (_dist.package("core"), libraries) if one]
    return _expand.expand(
        module,
        tree,
        {one["module"]: one["distribution"] for one in siblings},
        distribution=entry["distribution"],
        libraries=libraries["module"] if libraries else None,
        elsewhere=elsewhere,
    )


def _is_unchanged(tree, libraries):
    """Whether the tree in its place was made of just the files that are installed now, by their states."""
    stamp = read_stamp(tree)
    if stamp is None or stamp[1] != (libraries["module"] if libraries else "") or not stamp[2]:
        return False
    site = os.path.dirname(tree)
    try:
        return all(state(site, line.split(" ", 4)[4]) == line for line in stamp[2])
    except (OSError, IndexError):
        return False
