"""Whether a version is meant by an entry: nightlies and candidates belong to the release that follows."""

from __future__ import annotations

import re

from packaging.specifiers import InvalidSpecifier, Specifier, SpecifierSet
from packaging.version import Version

from rocwright.model.version import parse_version

_BARE = re.compile(r"[0-9]+(\.[0-9]+)*")


def parse_specifier(text: str) -> SpecifierSet:
    """A version specifier; a bare `2.10` means that release line, `==2.10.*`.

    Raises `packaging.specifiers.InvalidSpecifier`.
    """
    bare = text.strip()
    return SpecifierSet(f"=={bare}.*" if _BARE.fullmatch(bare) else bare)


def is_specifier(text: str) -> bool:
    """Whether `parse_specifier` reads the text."""
    try:
        parse_specifier(text)
    except InvalidSpecifier:
        return False
    return True


def version_fits(specifier: str, version: str) -> bool:
    """Whether a version as a wheel gives it (`2.10.0a0+rocm7.10.0a20251124`) is meant by a specifier.

    A nightly of 2.10 is built from what becomes 2.10, so it is judged as 2.10.0: `>=2.10` and `==2.10.*` mean
    it, `<2.10` does not. Only a clause that names a pre-release or a local version itself
    (`>=2.10.0a20251101`) is compared with the whole version. Raises `InvalidVersion`.
    """
    whole = parse_version(version)
    release = Version(
        ".".join(map(str, whole.release)) + (f".post{whole.post}" if whole.post is not None else "")
    )
    return all(
        clause.contains(whole if _is_exact_about(clause) else release, prereleases=True)
        for clause in parse_specifier(specifier)
    )


def _is_exact_about(clause: Specifier) -> bool:
    if clause.operator == "===":
        return True
    named = Version(clause.version.removesuffix(".*"))
    return named.is_prerelease or named.local is not None
