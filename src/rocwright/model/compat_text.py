"""Text in rows of the compatibility tables: versions, specifiers, targets; `ValueError` for any other."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from rocwright.model.gpu import InvalidTarget, parse_target


def need_versions(texts: Iterable[str]) -> None:
    """Each is a version."""
    for text in texts:
        try:
            Version(text)
        except InvalidVersion as error:
            raise ValueError(f"{text!r} is no version") from error


def need_specifiers(texts: Iterable[str]) -> None:
    """Each is a version specifier, or empty."""
    for text in texts:
        try:
            SpecifierSet(text)
        except InvalidSpecifier as error:
            raise ValueError(f"{text!r} is no version specifier such as >=2.9") from error


def need_targets(texts: Iterable[str]) -> None:
    """Each is a GPU target."""
    for text in texts:
        try:
            parse_target(text)
        except InvalidTarget as error:
            raise ValueError(error.what) from error
