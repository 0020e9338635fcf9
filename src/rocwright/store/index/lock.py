"""Locks of a set (PEP 751), one for each GPU target: every file with its address, size and sha256."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from rocwright.model.gpu import base_targets, is_target
from rocwright.model.manifest import SetManifest, set_id
from rocwright.store.index.html import link
from rocwright.store.index.listed import ListedFile, ListedSet, listed_files, newest_last
from rocwright.store.layout import set_prefix

# Stands for the target in the lock of a set that has none.
NO_TARGET = "none"

_DEVICE = "-device-"
# From a lock of a set to the root of the store.
_UP = "../../"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")


def lock_name(target: str) -> str:
    """`pylock.<target>.toml`: installers take no other form of name."""
    return f"pylock.{target}.toml"


def lock_targets(manifest: SetManifest) -> tuple[str, ...]:
    """The targets of a set without features of theirs: packages of device code know no more."""
    return base_targets(manifest.targets)


def versions(manifest: SetManifest) -> dict[str, list[str]]:
    """The versions of each project of a set, projects in order."""
    found: dict[str, list[str]] = {}
    for entry in sorted(manifest.files, key=lambda entry: entry.project):
        known = found.setdefault(entry.project, [])
        if entry.version not in known:
            known.append(entry.version)
    return found


def for_target(project: str, target: str) -> bool:
    """Whether a project is part of an installation for `target`: all but the device code of others."""
    tail = project.rpartition(_DEVICE)[2] if _DEVICE in project else ""
    return not is_target(tail) or tail == target


def lock_set(one: ListedSet, target: str, *, base_url: str | None) -> str:
    """The lock of a set's own files for one target; `base_url` is the root of the store, ending with `/`.

    With None it leads to the files by their way from beside the set, so that a store can be moved.
    """
    digest = set_id(one.manifest)
    listed = [file for file in newest_last(listed_files([one])) if for_target(file.entry.project, target)]
    by_project: dict[str, list[ListedFile]] = {}
    for file in listed:
        by_project.setdefault(file.entry.project, []).append(file)
    index = None if base_url is None else f"{base_url}{set_prefix(digest)}"
    packages = (_package(project, files, base_url, index) for project, files in by_project.items())
    which = digest if target == NO_TARGET else f"{digest} for {target}"
    return (
        f"""\
# Set {which}: its own files. What these require from elsewhere is not in it.
lock-version = "1.0"
created-by = "rocwright"

{"".join(packages)}""".rstrip("\n")
        + "\n"
    )


def _package(project: str, files: Iterable[ListedFile], base_url: str | None, index: str | None) -> str:
    listed = list(files)
    lines = [
        "[[packages]]",
        f"name = {quoted(project)}",
        f"version = {quoted(listed[0].entry.version)}",
        *_requires_python(listed),
        *([f"index = {quoted(index)}"] if index is not None else []),
    ]
    wheels = [one for one in listed if one.entry.name.endswith(".whl")]
    lines += [f"sdist = {_file(one, base_url)}" for one in listed if one not in wheels][:1]
    if wheels:
        lines += ["wheels = [", *(f"    {_file(one, base_url)}," for one in wheels), "]"]
    return "\n".join(lines) + "\n\n"


def _requires_python(files: list[ListedFile]) -> list[str]:
    """What all of them ask for alike, if it can be read: an installer refuses the whole lock otherwise."""
    said = {one.entry.requires_python for one in files}
    specifier = said.pop() if len(said) == 1 else None
    try:
        return [f"requires-python = {quoted(specifier)}"] if specifier and SpecifierSet(specifier) else []
    except InvalidSpecifier:
        return []


def _file(one: ListedFile, base_url: str | None) -> str:
    entry = one.entry
    said = [f"name = {quoted(entry.name)}"]
    if one.uploaded and _TIME.fullmatch(one.uploaded):
        said.append(f"upload-time = {one.uploaded}")
    if base_url is None and "://" not in one.place:
        said.append(f"path = {quoted(_UP + one.place)}")
    else:
        said.append(f"url = {quoted(link(one.place, base_url or ''))}")
    said += [f"size = {entry.size}", f"hashes = {{ sha256 = {quoted(entry.sha256)} }}"]
    return f"{{ {', '.join(said)} }}"


def quoted(text: str) -> str:
    """A TOML basic string."""
    return '"' + "".join(_ESCAPES.get(char, char) for char in text) + '"'


_ESCAPES = {chr(code): f"\\u{code:04X}" for code in (*range(0x20), 0x7F)} | {'"': '\\"', "\\": "\\\\"}
