"""Files and trees of files: written, linked, listed."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path


def write(path: Path, data: str | bytes | None = None) -> Path:
    """A file, and the directories that it lies in; without data it holds its own name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else os.fsencode(path.name if data is None else data))
    return path


def script(path: Path, text: str) -> Path:
    """A file that can be run."""
    write(path, text).chmod(0o755)
    return path


def link(path: Path, text: str) -> Path:
    """A symbolic link to `text`, taken as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(text)
    return path


def listing(root: Path) -> dict[str, str]:
    """Path → what is there: `d755`, `l<target>`, `f644 <sha256>`, `=<path>` for one more name of a file."""
    found: dict[str, str] = {}
    first: dict[int, str] = {}
    for path in sorted(root.rglob("*")):
        name, facts = os.fsencode(path.relative_to(root)).decode("latin-1"), path.lstat()
        if path.is_symlink():
            found[name] = "l" + os.readlink(path)  # noqa: PTH115 - a Path would tidy up
        elif path.is_dir():
            found[name] = f"d{stat.S_IMODE(facts.st_mode):o}"
        elif facts.st_ino in first:
            found[name] = "=" + first[facts.st_ino]
        else:
            first[facts.st_ino] = name
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[name] = f"f{stat.S_IMODE(facts.st_mode):o} {digest}"
    return found


def files(root: Path) -> set[str]:
    return {name for name, kind in listing(root).items() if not kind.startswith("d")}
