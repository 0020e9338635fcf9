"""Writes `build_env.json` into a checkout: variables that the wheel build merges into its environment."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rocwright.errors import RocwrightError
from rocwright.sources.lock import LockedSource
from rocwright.sources.tree import state as states
from rocwright.system import files
from rocwright.system.git import Git

_NAME = "build_env.json"


def in_place(repository: Git, wanted: Mapping[str, str]) -> bool:
    """Whether the file says what is wanted, or is absent where nothing is."""
    return _read(repository) == _text(wanted)


def _text(variables: Mapping[str, str]) -> str | None:
    return msgspec.json.encode(dict(variables)).decode() + "\n" if variables else None


def _read(repository: Git) -> str | None:
    """Our file; a project's own one of that name is not ours."""
    if not (repository.git_dir / "rocwright" / _NAME).is_file():
        return None
    path = repository.work_tree / _NAME
    return path.read_text(encoding="utf-8") if path.is_file() else None


def write(repository: Git, locked: LockedSource) -> None:
    """Write or remove the file; raises when the project has one of its own."""
    path, mark = repository.work_tree / _NAME, repository.git_dir / "rocwright" / _NAME
    text = _text(locked.build_env)
    if text is None:
        if mark.is_file():
            path.unlink(missing_ok=True)
            mark.unlink()
        return
    if _NAME in states.tree(repository, locked.commit):
        raise RocwrightError(f"{locked.project} has a {_NAME} of its own", where=path)
    exclude = repository.git_dir / "info" / "exclude"
    lines = exclude.read_text(encoding="utf-8").splitlines() if exclude.is_file() else []
    if f"/{_NAME}" not in lines:
        files.write_text(exclude, "\n".join([*lines, f"/{_NAME}"]) + "\n")
    files.write_text(mark, text)
    files.write_text(path, text)
