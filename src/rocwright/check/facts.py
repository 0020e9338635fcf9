"""Gather what the rules need from a wheel or sdist, once, without unpacking it.

Gathering never stops at the first fault: a damaged part becomes a fact of its own, so that one run reports
everything. Libraries are looked at one after the other through a temporary file, so memory stays small
however large a library is.
"""

from __future__ import annotations

import tarfile
import tempfile
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from packaging.metadata import parse_email
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from rocwright.binary import fatbin
from rocwright.binary.elf import MAGIC, read_elf
from rocwright.errors import InvalidInput, InvalidWheel
from rocwright.system.files import CHUNK, disk_error
from rocwright.wheel.read import Wheel, open_wheel, verify_record

# e_machine at offset 18 of the ELF header; 224 is AMDGPU: device code, no library of the host.
_MACHINE = slice(18, 20)
_AMDGPU = (224).to_bytes(2, "little")
# Sources that rules read; far above any real one.
_LARGEST_TEXT = 4 << 20
_TEXTS = ("torch/version.py", "torch/_rocm_init.py")
_DAMAGE = (zipfile.BadZipFile, zlib.error, tarfile.TarError, EOFError, NotImplementedError, RuntimeError)


@dataclass(frozen=True)
class Member:
    """An entry of the archive's directory, in its order; names may repeat in a malformed wheel."""

    name: str
    flags: int
    method: int


@dataclass(frozen=True)
class ElfFacts:
    """What a host library or program in the wheel says; `problem` when it could not be read."""

    member: str
    soname: str | None = None
    needed: tuple[str, ...] = ()
    rpath: str | None = None
    runpath: str | None = None
    targets: frozenset[str] = frozenset()
    problem: str | None = None


@dataclass(frozen=True)
class Facts:
    """One distribution file.

    `project` and `version` come from the file name (normalised; empty when it is no valid name), `tags` from
    the name, `wheel_tags` from WHEEL, `said_name` to `provides_extra` from METADATA or PKG-INFO as written.
    `unreadable` says why nothing could be gathered, `structure` why the strict reader refuses the wheel,
    `record` what RECORD and the members disagree about.
    """

    path: Path
    kind: str
    project: str = ""
    version: str = ""
    unreadable: str | None = None
    structure: str | None = None
    members: tuple[Member, ...] = ()
    tags: frozenset[str] = frozenset()
    wheel_tags: frozenset[str] = frozenset()
    said_name: str | None = None
    said_version: str | None = None
    requires: tuple[str, ...] = ()
    provides_extra: tuple[str, ...] = ()
    record: tuple[str, ...] = ()
    texts: dict[str, str] = field(default_factory=dict)
    elf: tuple[ElfFacts, ...] = ()

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    @property
    def targets(self) -> frozenset[str]:
        """Every device target that a library in the wheel holds code for."""
        return frozenset[str]().union(*(elf.targets for elf in self.elf))


def gather(path: Path, *, scratch: Path | None = None) -> Facts:
    """Facts of one wheel or sdist. `scratch` is where libraries are unpacked, one at a time."""
    if path.name.endswith(".whl"):
        return _gather_wheel(path, scratch)
    return _gather_sdist(path)


def _gather_wheel(path: Path, scratch: Path | None) -> Facts:
    project, version, tags = "", "", frozenset[str]()
    try:
        name, parsed, _, parsed_tags = parse_wheel_filename(path.name)
        project, version, tags = str(name), str(parsed), frozenset(map(str, parsed_tags))
    except InvalidWheelFilename as error:
        return Facts(path, "wheel", unreadable=f"its name is no wheel name: {error}")
    try:
        with zipfile.ZipFile(path) as archive:
            members = tuple(
                Member(info.orig_filename, info.flag_bits, info.compress_type)
                for info in archive.infolist()
                if not info.is_dir()
            )
            headers = _headers(_dist_info_text(archive, "METADATA"))
            wheel_file = _dist_info_text(archive, "WHEEL")
            texts = {name: text for name in _TEXTS if (text := _text(archive, name)) is not None}
            elf = _all_elf(archive, scratch)
    except _DAMAGE as error:
        return Facts(
            path, "wheel", project, version, tags=tags, unreadable=f"the archive is damaged: {error}"
        )
    except OSError as error:
        return Facts(path, "wheel", project, version, tags=tags, unreadable=error.strerror or str(error))
    structure, record = _strict(path)
    return Facts(
        path,
        "wheel",
        project,
        version,
        structure=structure,
        members=members,
        tags=tags,
        wheel_tags=frozenset(_values(wheel_file or "", "tag")),
        said_name=headers.name,
        said_version=headers.version,
        requires=headers.requires,
        provides_extra=headers.extras,
        record=record,
        texts=texts,
        elf=elf,
    )


def _strict(path: Path) -> tuple[str | None, tuple[str, ...]]:
    """Why the strict reader refuses the wheel, or else what RECORD is wrong about."""
    try:
        wheel: Wheel = open_wheel(path)
        return None, verify_record(wheel)
    except InvalidWheel as error:
        return error.what, ()


@dataclass(frozen=True)
class _Headers:
    name: str | None = None
    version: str | None = None
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()


def _headers(text: str | None) -> _Headers:
    if text is None:
        return _Headers()
    raw, _ = parse_email(text)
    return _Headers(
        raw.get("name"),
        raw.get("version"),
        tuple(raw.get("requires_dist", ())),
        tuple(raw.get("provides_extra", ())),
    )


def _values(text: str, key: str) -> list[str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return [value.strip() for name, _, value in pairs if name.strip().lower() == key]


def _dist_info_text(archive: zipfile.ZipFile, part: str) -> str | None:
    found = [
        name for name in archive.namelist() if name.count("/") == 1 and name.endswith(f".dist-info/{part}")
    ]
    return _text(archive, found[0]) if found else None


def _text(archive: zipfile.ZipFile, name: str) -> str | None:
    """A small text member; None when it is absent or beyond any real size."""
    try:
        info = archive.getinfo(name)
    except KeyError:
        return None
    if info.file_size > _LARGEST_TEXT:
        return None
    return archive.read(info).decode("utf-8", "replace")


def _all_elf(archive: zipfile.ZipFile, scratch: Path | None) -> tuple[ElfFacts, ...]:
    found = []
    with tempfile.TemporaryDirectory(prefix="rocwright-check-", dir=scratch) as folder:
        unpacked = Path(folder) / "member"
        for info in archive.infolist():
            if info.is_dir() or info.file_size < _MACHINE.stop:
                continue
            with archive.open(info) as stream:
                head = stream.read(_MACHINE.stop)
            if head[:4] != MAGIC or head[_MACHINE] == _AMDGPU:
                continue
            _unpack(archive, info, unpacked)
            found.append(_one_elf(info.filename, unpacked))
    return tuple(found)


def _unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path) -> None:
    try:
        out = target.open("wb")
    except OSError as error:
        raise disk_error(error, target) from error
    with out, archive.open(info) as stream:
        while piece := stream.read(CHUNK):
            try:
                out.write(piece)
            except OSError as error:
                raise disk_error(error, target) from error


def _one_elf(member: str, path: Path) -> ElfFacts:
    try:
        elf = read_elf(path)
        targets = fatbin.targets(path)
    except InvalidInput as error:
        return ElfFacts(member, problem=error.what.replace(path.name, Path(member).name))
    return ElfFacts(member, elf.soname, elf.needed, elf.rpath, elf.runpath, targets)


def _gather_sdist(path: Path) -> Facts:
    try:
        name, version = parse_sdist_filename(path.name)
    except InvalidSdistFilename as error:
        return Facts(path, "sdist", unreadable=f"its name is no sdist name: {error}")
    wanted = f"{path.name.removesuffix('.tar.gz')}/PKG-INFO"
    try:
        with tarfile.open(path, "r:gz") as archive:
            text = next(
                (
                    stream.read(_LARGEST_TEXT).decode("utf-8", "replace")
                    for member in archive
                    if member.name == wanted and (stream := archive.extractfile(member)) is not None
                ),
                None,
            )
    except _DAMAGE as error:
        return Facts(
            path,
            "sdist",
            canonicalize_name(name),
            str(version),
            unreadable=f"the archive is damaged: {error}",
        )
    except OSError as error:
        return Facts(path, "sdist", str(name), str(version), unreadable=error.strerror or str(error))
    headers = _headers(text)
    return Facts(
        path,
        "sdist",
        str(name),
        str(version),
        said_name=headers.name,
        said_version=headers.version,
        requires=headers.requires,
        provides_extra=headers.extras,
    )
