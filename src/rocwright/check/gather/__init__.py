"""Gather what the rules need from a wheel or sdist, once, without unpacking it.

Gathering never stops at the first fault: a damaged part becomes a fact of its own, so that one run reports
everything. Libraries are looked at one after the other through a temporary file, so memory stays small
however large a library is.
"""

from __future__ import annotations

import re
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
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
from rocwright.check.facts import ElfFacts, Facts, Fault, Headers, Member
from rocwright.errors import InvalidInput, InvalidWheel
from rocwright.system.files import CHUNK, disk_error
from rocwright.wheel.read import Wheel, open_wheel, verify_record

# e_machine at offset 18 of the ELF header; 224 is AMDGPU: device code, no library of the host.
_MACHINE = slice(18, 20)
_AMDGPU = (224).to_bytes(2, "little")
# Sources that rules read; far above any real one.
_LARGEST_TEXT = 4 << 20
_TEXTS = ("torch/version.py", "torch/_rocm_init.py")
_LICENCE = re.compile(r"[^/]*\.dist-info/(licenses/|LICEN[CS]E|COPYING|NOTICE)", re.IGNORECASE)
_DAMAGE = (zipfile.BadZipFile, zlib.error, tarfile.TarError, EOFError, NotImplementedError, RuntimeError)


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
                Member(
                    info.orig_filename,
                    info.file_size,
                    info.compress_size,
                    info.compress_type,
                    info.flag_bits,
                    info.external_attr >> 16 if info.create_system == 3 else 0,
                )
                for info in archive.infolist()
                if not info.is_dir()
            )
            headers = _headers(_dist_info_text(archive, "METADATA"))
            wheel_file = _dist_info_text(archive, "WHEEL")
            sboms = tuple(each.name for each in members if ".dist-info/sboms/" in each.name)
            texts = {name: text for name in (*_TEXTS, *sboms) if (text := _text(archive, name)) is not None}
            elf = _all_elf(archive, scratch)
    except _DAMAGE as error:
        return Facts(
            path,
            "wheel",
            project=project,
            version=version,
            tags=tags,
            unreadable=f"the archive is damaged: {error}",
        )
    except OSError as error:
        return Facts(
            path,
            "wheel",
            project=project,
            version=version,
            tags=tags,
            unreadable=error.strerror or str(error),
        )
    structure, record = _strict(path)
    return Facts(
        path,
        "wheel",
        project=project,
        version=version,
        structure=structure,
        members=members,
        tags=tags,
        wheel_tags=frozenset(_values(wheel_file or "", "tag")),
        headers=headers,
        record=record,
        dist_infos=tuple(sorted({top for each in members if (top := _dist_info_of(each.name))})),
        licences=tuple(each.name for each in members if _LICENCE.match(each.name)),
        sboms=sboms,
        texts=texts,
        elf=elf,
    )


def _dist_info_of(name: str) -> str | None:
    top = name.partition("/")[0]
    return top if top.endswith(".dist-info") and top != name else None


def _strict(path: Path) -> tuple[str | None, tuple[Fault, ...]]:
    """Why the strict reader refuses the wheel, or else what RECORD is wrong about."""
    try:
        wheel: Wheel = open_wheel(path)
        return None, tuple(Fault("", what) for what in verify_record(wheel))
    except InvalidWheel as error:
        return error.what, ()


def _headers(text: str | None) -> Headers:
    if text is None:
        return Headers()
    raw, unparsed = parse_email(text)
    return Headers(
        raw.get("metadata_version"),
        raw.get("name"),
        raw.get("version"),
        tuple(raw.get("requires_dist", ())),
        tuple(raw.get("provides_extra", ())),
        raw.get("requires_python"),
        raw.get("license"),
        raw.get("license_expression"),
        tuple(raw.get("license_files", ())),
        tuple(unparsed),
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
    return ElfFacts(
        member,
        elf.kind,
        elf.machine,
        elf.soname,
        elf.needed,
        elf.rpath,
        elf.runpath,
        elf.interp,
        elf.versions,
        targets=targets,
    )


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
            project=canonicalize_name(name),
            version=str(version),
            unreadable=f"the archive is damaged: {error}",
        )
    except OSError as error:
        return Facts(
            path, "sdist", project=str(name), version=str(version), unreadable=error.strerror or str(error)
        )
    headers = _headers(text)
    return Facts(
        path,
        "sdist",
        project=str(name),
        version=str(version),
        headers=headers,
    )


def gather_all(paths: Sequence[Path], *, threads: int = 2) -> list[Facts]:
    """Facts of several files, in their order; the largest are read first."""
    largest_first = sorted(paths, key=lambda path: -path.stat().st_size if path.is_file() else 0)
    with ThreadPoolExecutor(max_workers=threads) as pool:
        done = dict(zip(largest_first, pool.map(gather, largest_first), strict=True))
    return [done[path] for path in paths]
