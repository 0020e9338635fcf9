"""What sources of a Python project call themselves, read without executing anything of them."""

from __future__ import annotations

import ast
import configparser
from contextlib import suppress
from pathlib import Path

from packaging.utils import canonicalize_name

from rocwright.errors import RocwrightError
from rocwright.wheel.source_tree import pkg_info, pyproject_table, read_text


def identity(place: Path) -> tuple[str, str]:
    """Name and version by PKG-INFO, pyproject.toml, setup.cfg or setup.py; empty for unknown."""
    name = version = ""
    # The build will say what is wrong with what cannot be read.
    with suppress(RocwrightError):
        name, version = pkg_info(place)
    for read in (_of_pyproject, _of_setup_cfg, _of_setup):
        if not name:
            with suppress(RocwrightError):
                name = read(place)
    return canonicalize_name(name), version


def _of_pyproject(place: Path) -> str:
    name = pyproject_table(place, "project").get("name")
    return name if isinstance(name, str) else ""


def _of_setup_cfg(place: Path) -> str:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(read_text(place / "setup.cfg") or "")
    except configparser.Error:
        return ""
    return parser.get("metadata", "name", fallback="").strip()


def _of_setup(place: Path) -> str:
    """The name that setup() is given, where it is a plain text or a name for one."""
    try:
        tree = ast.parse(read_text(place / "setup.py") or "")
    except (SyntaxError, ValueError):
        return ""
    texts = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, str)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "setup":
            for word in node.keywords:
                if word.arg != "name":
                    continue
                if isinstance(word.value, ast.Constant) and isinstance(word.value.value, str):
                    return word.value.value
                if isinstance(word.value, ast.Name):
                    return texts.get(word.value.id, "")
    return ""
