"""A lock of a set with what it requires from elsewhere: uv resolves that, the set stays as it is."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from rocwright.errors import InvalidInput
from rocwright.model.manifest import FileEntry, SetManifest, set_id
from rocwright.store.index.listed import ListedSet
from rocwright.store.index.lock import for_target, lock_set, quoted
from rocwright.store.layout import metadata_key
from rocwright.store.objects.protocol import ObjectStore, read_there
from rocwright.system import process
from rocwright.system.output import without_login
from rocwright.system.venv import uv_command

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
    """The oldest Python that the set has wheels for, such as 3.10; this one where none names a Python."""
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
