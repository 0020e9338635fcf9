"""The stamp of an expanded devel tree: what it was made of, quick to compare with what is installed."""

import os

DIRECTORY_VARIABLE = "ROCM_SDK_DEVEL_DIR"
STAMP = ".rocm-sdk-expanded"
INIT = "__init__.py"  # makes the tree a package, so that its place can be found by its name


class DevelError(RuntimeError):
    """The devel tree cannot be had; the message says why and what to do."""


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
