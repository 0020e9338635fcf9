"""Rendered files and those that are there: what differs, and putting them there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path, PurePosixPath

from rocwright.errors import InvalidInput
from rocwright.system.files import atomic_write, disk_error


@dataclass(frozen=True)
class Drift:
    """A file that is not as it is rendered; `diff` is from what is there to what is rendered."""

    path: PurePosixPath
    missing: bool
    diff: str


def drifted(files: Mapping[PurePosixPath, str], root: Path) -> tuple[Drift, ...]:
    """The files below `root` that are missing or stale."""
    found = []
    for path, text in files.items():
        there = _read(root / path)
        if there != text:
            lines = unified_diff(
                (there or "").splitlines(),
                text.splitlines(),
                f"{path} (as it is)",
                f"{path} (rendered)",
                lineterm="",
            )
            found.append(Drift(path, there is None, "\n".join(lines)))
    return tuple(found)


def write_files(files: Mapping[PurePosixPath, str], root: Path) -> tuple[PurePosixPath, ...]:
    """Write what differs; the paths written. Each file is whole or as it was."""
    written = tuple(drift.path for drift in drifted(files, root))
    for path in written:
        with atomic_write(root / path) as stream:
            stream.write(files[path].encode())
    return written


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise InvalidInput(
            "this file is no text", where=path, next_step="remove it, then render again"
        ) from error
    except OSError as error:
        raise disk_error(error, path) from error
