"""Locks of a set (PEP 751), one for each GPU target: every file of it with address, size and sha256.

They hold the set's own files, or what these require from elsewhere, too.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from email.parser import HeaderParser
from pathlib import Path

from msgspec import UNSET
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from rocwright.device_code.tree.names import package_of, packages_of
from rocwright.errors import InvalidInput
from rocwright.model.gpu import is_target
from rocwright.model.sets import FileEntry, SetManifest, set_id
from rocwright.store.index.listed import ListedFile, ListedSet, link, listed_files, newest_last
from rocwright.store.layout import metadata_key, set_prefix
from rocwright.store.objects.protocol import ObjectStore, read_there
from rocwright.system import process
from rocwright.system.redact import without_login
from rocwright.system.venv import uv_command

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
    """What a set's packages of device code are named after: no features, owners for what they own."""
    return packages_of(manifest.targets)


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
    return not is_target(tail) or package_of(tail) == target


def lock_set(one: ListedSet, target: str, *, base_url: str | None) -> str:
    """The lock of a set's own files for one target; `base_url` is the root of the store, ending with `/`.

    With None it leads to the files by their way from beside the set, so that a store can be moved. The
    target is chosen, so wheels that choose are left out: no installer takes variants from a lock yet.
    """
    digest = set_id(one.manifest)
    plain = (file for file in newest_last(listed_files([one])) if file.entry.variant is UNSET)
    listed = [file for file in plain if for_target(file.entry.project, target)]
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


# -- with what the set requires from elsewhere: uv resolves that, the set stays as it is


_TAG = re.compile(r"-cp3(?P<minor>\d+)-")
_NAME = re.compile(r'^name = "(?P<name>[^"]+)"$', re.MULTILINE)
_PACKAGE = "[[packages]]\n"


def lock_third_party(
    store: ObjectStore, one: ListedSet, target: str, *, base_url: str, index_url: str, work: Path
) -> str:
    """The lock of a set for one target, and of everything that its wheels require beyond the set.

    That is resolved from the index at `index_url` alone, for every platform and for Pythons from the oldest
    of the set on; a project of the set is never taken from there. `work` is a directory for files in between.
    Raises `InvalidInput` where the store has no METADATA of a wheel, `CommandFailed` when uv finds no
    solution, `MissingTool` without uv.
    """
    own = lock_set(one, target, base_url=base_url)
    wanted = third_party(store, one, target)
    if not wanted:
        return own
    oldest = oldest_python(one.manifest)
    found = _resolve(wanted, oldest, index_url, work)
    names = {entry.project for entry in one.manifest.files}
    theirs = [block for block in found if (match := _NAME.search(block)) and match["name"] not in names]
    _, *packages = own.split(_PACKAGE)
    head = (
        f"# Set {set_id(one.manifest)} for {target}, and what it requires from {without_login(index_url)}.\n"
        f'lock-version = "1.0"\nrequires-python = {quoted(f">={oldest}")}\ncreated-by = "rocwright"\n'
    )
    blocks = [block.rstrip("\n") for block in (*packages, *theirs)]
    return "\n".join([head, *(f"{_PACKAGE}{block}\n" for block in blocks)])


def third_party(store: ObjectStore, one: ListedSet, target: str) -> tuple[str, ...]:
    """What the wheels for `target` require that is not in the set, sorted: requirements as METADATA has them.

    Of extras, those that wheels of the set ask for count.
    """
    manifest = one.manifest
    requirements = {
        entry.project: list(_requirements(store, entry))
        for entry in manifest.files
        if entry.metadata_sha256 is not None and for_target(entry.project, target)
    }
    extras: dict[str, set[str]] = {}
    for each in requirements.values():
        for requirement in each:
            extras.setdefault(canonicalize_name(requirement.name), set()).update(requirement.extras)
    own = {entry.project for entry in manifest.files}
    wanted = set()
    for project, each in requirements.items():
        for requirement in each:
            if canonicalize_name(requirement.name) not in own and _counts(
                requirement, extras.get(project, set())
            ):
                wanted.add(str(requirement))
    return tuple(sorted(wanted))


def oldest_python(manifest: SetManifest) -> str:
    """The oldest Python that the set has wheels for, such as 3.10; the running Python if none is named."""
    minors = [int(match["minor"]) for entry in manifest.files if (match := _TAG.search(entry.name))]
    return f"3.{min(minors, default=sys.version_info.minor)}"


def _requirements(store: ObjectStore, entry: FileEntry) -> Iterator[Requirement]:
    key = metadata_key(entry.sha256, entry.name)
    data = read_there(store, key)
    if data is None:
        raise InvalidInput(
            f"the store has no METADATA of {entry.name}, so what it requires is not known",
            where=key,
            next_step="adopt the set again with --download, so that its files are in the store",
        )
    headers = HeaderParser().parsestr(data.decode("utf-8", "replace"))
    for line in headers.get_all("Requires-Dist", []):
        try:
            yield Requirement(line)
        except InvalidRequirement as error:
            raise InvalidInput(f"{entry.name} requires {line!r}: {error}", where=key) from error


def _counts(requirement: Requirement, extras: Iterable[str]) -> bool:
    """Whether it holds at all; a marker that asks for an extra is taken off where the extra is asked for."""
    marker = requirement.marker
    if marker is None or "extra" not in str(marker):
        return True
    if not any(marker.evaluate({"extra": extra}) for extra in extras):
        return False
    requirement.marker = None
    return True


def _resolve(wanted: Iterable[str], python: str, index_url: str, work: Path) -> list[str]:
    """The packages of uv's own lock, as text."""
    work.mkdir(parents=True, exist_ok=True)
    source, result = work / "requirements.in", work / "pylock.toml"
    source.write_text("".join(f"{line}\n" for line in wanted), encoding="utf-8")
    process.run(
        [uv_command(), "pip", "compile", "--no-config", "--quiet", "--no-header", "--universal"]
        + ["--format", "pylock.toml", "--python", sys.executable, "--python-version", python]
        + ["--default-index", index_url, "--output-file", str(result), str(source)],
        env={"UV_NO_PROGRESS": "1"},
        drop_env=[name for name in os.environ if name.startswith("UV_") and name != "UV_CACHE_DIR"],
        next_step="see which index has what the set requires",
    )
    _, *blocks = result.read_text(encoding="utf-8").split(_PACKAGE)
    return blocks
