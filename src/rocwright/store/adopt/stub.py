"""Wheels that have the METADATA of a file and nothing else: enough to describe and resolve it."""

from __future__ import annotations

import zipfile
from pathlib import Path

from packaging.utils import parse_wheel_filename

from rocwright.wheel.metadata import render_wheel_file, wheel_filename


def write_stub(folder: Path, name: str, metadata: bytes) -> Path:
    """The wheel of this name with this METADATA, in `folder`."""
    info = "-".join(name.split("-")[:2]) + ".dist-info"
    tag = "-".join(name.removesuffix(".whl").rsplit("-", 3)[1:])
    members = {
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": render_wheel_file(tag, root_is_purelib=False, generator="rocwright"),
    }
    record = "".join(f"{member},,\n" for member in (*members, f"{info}/RECORD"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in {**members, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(zipfile.ZipInfo(member), data)
    return path


def stub_name(project: str, version: str) -> str:
    """The name of a wheel that stands for an sdist."""
    name = wheel_filename(project, version, "py3-none-any")
    parse_wheel_filename(name)
    return name
