"""Small wheels with real fat libraries inside, and a second look at what a split makes of them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from oracle.fat_library import build_library, bundle, ccob, code_object
from oracle.kpack_reader import Kpack, read_kpack
from wheels import record_row

TAG = "cp311-cp311-linux_x86_64"
VERSION = "2.9.1+rocm7.1"
STEM = f"mini_torch-{VERSION}"
INFO = f"{STEM}.dist-info"
FILENAME = f"{STEM}-{TAG}.whl"

METADATA = f"""Metadata-Version: 2.4
Name: mini-torch
Version: {VERSION}
Summary: a stand-in for torch
Author-email: Somebody <somebody@example.org>
License-Expression: BSD-3-Clause
License-File: LICENSE
Classifier: Programming Language :: Python
Classifier: License :: OSI Approved
Requires-Python: >=3.8
Requires-Dist: numpy>=1 ; extra == "numpy"
Provides-Extra: numpy

Requires-Dist: nothing, for this is the description.
""".encode()

ALPHA = {name: code_object(mach, f"alpha {name} ".encode() * 500) for name, mach in
         [("gfx90a:xnack-", 0x3F), ("gfx90a:xnack+", 0x3F), ("gfx942", 0x4C), ("gfx1100", 0x41)]}  # fmt: skip
BETA = {name: code_object(mach, f"beta {name} ".encode() * 900) for name, mach in
        [("gfx942", 0x4C), ("gfx1100", 0x41)]}  # fmt: skip
GAMMA = {"gfx942": code_object(0x4C, b"gamma gfx942" * 50)}


def fat_bytes(directory: Path) -> dict[str, bytes]:
    """Two libraries: raw bundles of which the second lacks targets, and one compressed bundle."""
    raw = build_library(directory / "raw", bundles=[bundle(ALPHA.items()), bundle(GAMMA.items())])
    packed = build_library(directory / "packed", bundles=[ccob(bundle(BETA.items()), 3)])
    return {"raw": raw.read_bytes(), "packed": packed.read_bytes()}


def usual(libraries: Mapping[str, bytes]) -> dict[str, bytes]:
    """The members of a wheel like torch's."""
    return {
        "torch/__init__.py": b"x = 1\n" * 100,
        "torch/lib/libraw.so": libraries["raw"],
        "torch/_C.so": libraries["packed"],
        "torch/lib/rocblas/library/Kernels_gfx942.hsaco": b"for gfx942 " * 200,
        "torch/lib/rocblas/library/TensileLibrary.dat": b"for all",
        "torch/lib/aotriton.images/amd-gfx11xx/flash/x.aks2": b"for gfx11xx" * 99,
        "torch/lib/two words ü.txt": "grüße".encode() * 99,
        "torch/bin/tool": b"#!/bin/sh\n" * 30,
        f"{INFO}/entry_points.txt": b"[console_scripts]\ntool = torch:tool\n",
        f"{INFO}/licenses/LICENSE": b"You may.\n" * 50,
    }


def write(
    directory: Path,
    members: Mapping[str, bytes],
    *,
    filename: str = FILENAME,
    metadata: bytes = METADATA,
    record: Mapping[str, str | None] | None = None,
    streamed: bool = False,
    wide: bool = False,
) -> Path:
    """A wheel as zipfile writes one: METADATA before the other members, RECORD last.

    `record` replaces rows (None leaves one out); `streamed` gives data descriptors, `wide` zip64 headers.
    """
    stem = "-".join(filename.split("-")[:2])
    info = f"{stem}.dist-info"
    tags = filename.removesuffix(".whl").split("-", 2)[2]
    wheel = f"Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: false\nTag: {tags}\n".encode()
    files = {f"{info}/METADATA": metadata, **members, f"{info}/WHEEL": wheel}
    rows: dict[str, str | None] = {name: record_row(name, data).rstrip() for name, data in files.items()}
    rows |= {f"{info}/RECORD": f"{info}/RECORD,,"} | dict(record or {})
    files[f"{info}/RECORD"] = "".join(f"{row}\n" for row in rows.values() if row is not None).encode()
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / filename
    with path.open("wb") as raw:
        stream = Unseekable(raw) if streamed else raw
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                header = zipfile.ZipInfo(name, (2026, 1, 2, 3, 4, 6))
                header.compress_type = zipfile.ZIP_DEFLATED
                header.external_attr = (0o100755 if name.startswith("torch/bin/") else 0o100664) << 16
                with archive.open(header, "w", force_zip64=wide) as member:
                    member.write(data)
    return path


class Unseekable:
    """A pipe, as far as zipfile can tell: it then writes sizes behind the data."""

    def __init__(self, stream: object) -> None:
        self.write = stream.write
        self.flush = stream.flush


@dataclass(frozen=True)
class Content:
    """A wheel as zipfile reads it."""

    files: dict[str, bytes]
    info: dict[str, zipfile.ZipInfo]

    def text(self, name: str) -> str:
        """The `.dist-info` file of this name."""
        (found,) = (data for path, data in self.files.items() if path.endswith(f".dist-info/{name}"))
        return found.decode()

    def headers(self, key: str) -> list[str]:
        """Values of a header of METADATA."""
        head = self.text("METADATA").partition("\n\n")[0]
        return [line.partition(": ")[2] for line in head.splitlines() if line.startswith(f"{key}: ")]

    def archives(self) -> dict[str, Kpack]:
        """Every archive in it, read by the second reader."""
        return {name: read_kpack(data) for name, data in self.files.items() if name.endswith(".kpack")}


def content(path: Path) -> Content:
    """Read a wheel whole; zipfile compares every CRC, RECORD is compared here."""
    with zipfile.ZipFile(path) as archive:
        infos = {info.filename: info for info in archive.infolist()}
        assert len(infos) == len(archive.infolist())
        files = {name: archive.read(name) for name in infos}
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    expected = [record_row(name, files[name]) for name in infos if name != record]
    assert files[record].decode().replace('"', "") == "".join([*expected, f"{record},,\n"])
    return Content(files, infos)


def of_device(path: Path) -> dict[str, object]:
    """A device wheel's files, archives as what they hold: hosts laid out apart have their own identities."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}
    return {n: read_kpack(data) if n.endswith(".kpack") else data for n, data in members.items()}
