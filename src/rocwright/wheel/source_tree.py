"""What the source tree of a Python project says in PKG-INFO and pyproject.toml; nothing of it is run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from rocwright.data.toml import plain
from rocwright.errors import InvalidData, InvalidInput

_FIELD = re.compile(r"^(Name|Version):[ \t]*(\S+)[ \t]*$", re.MULTILINE)


def read_text(path: Path) -> str | None:
    """The text of a file of the tree, None when it is not there; raises `InvalidInput` naming it."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput(
            f"{path} cannot be read: {why}", where=path, next_step="check the project out again"
        ) from error


def pkg_info(directory: Path) -> tuple[str, str]:
    """Name and version as PKG-INFO of an unpacked sdist writes them, each empty where it does not.

    Raises `InvalidInput` where it cannot be read.
    """
    text = read_text(directory / "PKG-INFO") or ""
    found: dict[str, str] = {}
    for key, value in _FIELD.findall(text.partition("\n\n")[0]):
        found.setdefault(key, value)
    return found.get("Name", ""), found.get("Version", "")


def pyproject_table(directory: Path, name: str) -> dict[str, Any]:
    """The table `[name]` of pyproject.toml; empty without one.

    Raises `InvalidInput` where the file cannot be read, `InvalidData` where it is not TOML.
    """
    path = directory / "pyproject.toml"
    text = read_text(path)
    table = {} if text is None else plain(text, where=str(path)).get(name, {})
    return table if isinstance(table, dict) else {}


def build_requires(directory: Path) -> tuple[str, ...]:
    """What pyproject.toml requires for a build.

    Raises as `pyproject_table`, and `InvalidData` for a text that is no requirement.
    """
    listed = pyproject_table(directory, "build-system").get("requires", [])
    texts = tuple(str(text) for text in listed) if isinstance(listed, list) else ()
    for text in texts:
        try:
            Requirement(text)
        except InvalidRequirement as error:
            path = directory / "pyproject.toml"
            raise InvalidData(
                f"{path} requires {text!r}, which is not a requirement", where=path, next_step="correct it"
            ) from error
    return texts
