"""Small real wheels and sdists, written with zipfile and tarfile only."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

MakeWheel = Callable[..., Path]


def write_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    body: str = "",
    tag: str = "py3-none-any",
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: >=3.10\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    members = {
        f"{name}/__init__.py": body or f"version = {version!r}\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = ""
    for member, text in members.items():
        data = text.encode()
        digest = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{member},sha256={digest},{len(data)}\n"
    members[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in members.items():
            archive.writestr(zipfile.ZipInfo(member), text)
    return path


@pytest.fixture
def make_wheel(tmp_path: Path) -> MakeWheel:
    def make(name: str, version: str, **options: object) -> Path:
        folder = options.pop("folder", tmp_path / "dist")
        return write_wheel(folder, name, version, **options)

    return make


@pytest.fixture
def make_sdist(tmp_path: Path) -> Callable[[str, str], Path]:
    def make(name: str, version: str) -> Path:
        folder = tmp_path / "dist"
        folder.mkdir(exist_ok=True)
        path = folder / f"{name}-{version}.tar.gz"
        headers = [
            "Metadata-Version: 2.1",
            f"Name: {name}",
            f"Version: {version}",
            "Requires-Dist: rocm-sdk-core",
        ]
        text = "\n".join([*headers, ""]).encode()
        with tarfile.open(path, "w:gz") as archive:
            member = tarfile.TarInfo(f"{name}-{version}/PKG-INFO")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
        return path

    return make
