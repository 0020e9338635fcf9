"""The devel tree: where it is, and whether it is still the one that the installed packages give.

This module is on the way of every compiler call, so it imports little; making the tree is `_expand`'s job.
"""

import os

from . import _dist

DIRECTORY_VARIABLE = "ROCM_SDK_DEVEL_DIR"
TREE = "tree"
STAMP = ".rocm-sdk-expanded"


class DevelError(RuntimeError):
    """The devel tree cannot be had; the message says why and what to do."""


def installed_root():
    """Root of the expanded devel tree, expanded on first use; None when rocm-sdk-devel is not installed."""
    return root() if _dist.directory("devel") else None


def root():
    """Root of the expanded devel tree, expanding it on first use. Raises `DevelError`, `PackageMissing`."""
    module = _dist.require("devel")
    libraries = _dist.package("libraries")
    elsewhere = os.environ.get(DIRECTORY_VARIABLE) or None
    if elsewhere is None and _is_unchanged(module, libraries):
        return os.path.join(module, TREE)
    from . import _expand

    siblings = [entry for entry in (_dist.package("core"), libraries) if entry]
    return _expand.expand(
        module,
        {entry["module"]: entry["distribution"] for entry in siblings},
        distribution=_dist.package("devel")["distribution"],
        libraries=libraries["module"] if libraries else None,
        elsewhere=elsewhere,
    )


def read_stamp(tree):
    """(key, libraries package, files) of a whole tree; None when there is none.

    The stamp is written last and the tree is renamed into place with it, so a stamp means a whole tree.
    """
    try:
        with open(os.path.join(tree, STAMP), encoding="utf-8") as stream:
            key, libraries, *files = stream.read().splitlines()
    except (OSError, ValueError):
        return None
    return key, libraries, files


def state(site, path):
    """A file as a line of the stamp. Whatever replaces or changes the file changes the line.

    A copied environment has other lines, too; then the key decides, which depends on contents only.
    """
    found = os.stat(os.path.join(site, path))
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino} {path}"


def _is_unchanged(module, libraries):
    """Whether the tree in its place was made of just the files that are installed now, by their states."""
    stamp = read_stamp(os.path.join(module, TREE))
    if stamp is None or stamp[1] != (libraries["module"] if libraries else "") or not stamp[2]:
        return False
    site = os.path.dirname(module)
    try:
        return all(state(site, line.split(" ", 4)[4]) == line for line in stamp[2])
    except (OSError, IndexError):
        return False
