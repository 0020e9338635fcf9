"""Links, as each system makes them: on Windows not everybody may, and a link takes nothing's place."""

from __future__ import annotations

import shutil
import stat
import sys
from pathlib import Path

if sys.platform == "win32":
    import _winapi

    _NOT_PERMITTED = 1314  # ERROR_PRIVILEGE_NOT_HELD

    def is_link(path: Path) -> bool:
        """Whether it is a link, or a junction, which anybody may make; what it leads to may be missing."""
        try:
            facts = path.lstat()
        except OSError:
            return False
        return stat.S_ISLNK(facts.st_mode) or facts.st_reparse_tag == stat.IO_REPARSE_TAG_MOUNT_POINT

    def make_link(path: Path, target: str) -> None:
        """Let `path` lead to `target`, seen from its directory; a copy where that is not permitted."""
        real = path.parent / target
        try:
            path.symlink_to(target, target_is_directory=real.is_dir())
        except OSError as error:
            if error.winerror != _NOT_PERMITTED:
                raise
            if real.is_dir():
                _winapi.CreateJunction(str(real.resolve()), str(path))
            else:
                shutil.copyfile(real, path)

    def _put(link: Path, path: Path) -> None:
        if is_link(path):
            path.unlink()
        link.rename(path)

    def remove_directory(path: Path) -> None:
        """Remove a tree, with files that nobody may write: git's are such."""

        def permit(call: object, name: str, error: object) -> None:
            Path(name).chmod(stat.S_IWRITE)
            Path(name).unlink()

        if sys.version_info >= (3, 12):
            shutil.rmtree(path, onexc=permit)
        else:
            shutil.rmtree(path, onerror=permit)

else:

    def is_link(path: Path) -> bool:
        """Whether it is a link; what it leads to may be missing."""
        return path.is_symlink()

    def make_link(path: Path, target: str) -> None:
        """Let `path` lead to `target`, seen from its directory."""
        path.symlink_to(target)

    def _put(link: Path, path: Path) -> None:
        link.replace(path)

    def remove_directory(path: Path) -> None:
        """Remove a tree."""
        shutil.rmtree(path)


def turn_link(path: Path, target: str, *, aside: Path) -> None:
    """Let the link `path`, or nothing yet, lead to `target`; in one step where the system has one.

    `aside` is a free name of the same directory.
    """
    make_link(aside, target)
    _put(aside, path)
