"""Sdists with another version: the selectors that rocwright writes, and those of setuptools."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from rocwright.errors import InvalidWheel
from rocwright.sdk.build import write_selector_sdist
from rocwright.wheel.reversion.plan import plan_reversion
from rocwright.wheel.reversion.versions import parse_rule
from rocwright.wheel.reversion.write import write_reversion

OLD, NEW = "7.13.0rc2", "7.13.0"
RELEASE = parse_rule("release")
FACTS = {
    "mode": "kpack",
    "devices": {},
    "known_libraries": {},
    "packages": {"core": {"distribution": "rocm-sdk-core", "module": "_rocm_sdk_core"}},
}


def pack(path: Path, members: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> Path:
    root = path.name.removesuffix(".tar.gz")
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        folder = tarfile.TarInfo(root)
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, data in members.items():
            entry = tarfile.TarInfo(f"{root}/{name}")
            entry.size, entry.mtime, entry.mode, entry.uname = len(data), 1_700_000_000.25, 0o755, "builder"
            archive.addfile(entry, io.BytesIO(data))
        for name, target in (links or {}).items():
            entry = tarfile.TarInfo(f"{root}/{name}")
            entry.type, entry.linkname = tarfile.LNKTYPE, f"{root}/{target}"
            archive.addfile(entry)
    return path


def facts_of(path: Path) -> list[tuple[object, ...]]:
    with tarfile.open(path) as archive:
        return [
            (
                m.name,
                m.mtime,
                m.mode,
                m.uname,
                m.type,
                m.linkname,
                m.isreg() and archive.extractfile(m).read(),
            )
            for m in archive
        ]


def reversion(folder: Path, *paths: Path) -> Path:
    return write_reversion(plan_reversion(paths, RELEASE), folder)[0].path


def test_a_selector_becomes_what_would_have_been_built(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "built").mkdir()
    old = write_selector_sdist(tmp_path / "old", {"version": "7.13.0rc2", **FACTS})
    built = write_selector_sdist(tmp_path / "built", {"version": "7.13.0", **FACTS})
    # It pins the core package, so that has to be among the files, too.
    core = tmp_path / "rocm_sdk_core-7.13.0rc2.tar.gz"
    pack(core, {"PKG-INFO": b"Metadata-Version: 2.1\nName: rocm-sdk-core\nVersion: 7.13.0rc2\n"})
    written = write_reversion(plan_reversion([old, core], RELEASE), tmp_path / "new")
    assert [file.path.name for file in written] == ["rocm-7.13.0.tar.gz", "rocm_sdk_core-7.13.0.tar.gz"]
    assert facts_of(written[0].path) == facts_of(built)


def test_members_keep_order_times_owners_and_links(tmp_path: Path) -> None:
    info = f"Metadata-Version: 2.1\nName: rocm\nVersion: {OLD}\nRequires-Dist: x>={OLD}\n".encode()
    old = pack(
        tmp_path / f"rocm-{OLD}.tar.gz",
        {
            "setup.py": b"from setuptools import setup\nsetup(version='7.13.0rc2')  # 7.13.0rc2\n",
            "src/rocm_sdk/_dist_info.py": b"__version__ = '7.13.0rc2'\n",
            "src/rocm.egg-info/PKG-INFO": info,
            "src/rocm.egg-info/requires.txt": b"\n[libraries]\nrocm==7.13.0rc2\nnumpy==7.13.0rc2\n",
            "PKG-INFO": info,
            "notes.txt": b"7.13.0rc2\n",
            "rocm_set.json": b'{"version": "7.13.0rc2"}',
        },
        {"also.txt": "notes.txt"},
    )
    first = reversion(tmp_path / "a", old)
    before, after = facts_of(old), facts_of(first)
    new_info = f"Metadata-Version: 2.1\nName: rocm\nVersion: {NEW}\nRequires-Dist: x>={OLD}\n".encode()
    edited = {
        "setup.py": b"from setuptools import setup\nsetup(version='7.13.0')  # 7.13.0rc2\n",
        "src/rocm_sdk/_dist_info.py": b"__version__ = '7.13.0'\n",
        "src/rocm.egg-info/PKG-INFO": new_info,
        "src/rocm.egg-info/requires.txt": b"\n[libraries]\nrocm==7.13.0\nnumpy==7.13.0rc2\n",
        "PKG-INFO": new_info,
        "rocm_set.json": b'{"version": "7.13.0"}',
    }
    wanted = []
    for name, mtime, mode, owner, kind, link, data in before:
        new = str(name).replace(OLD, NEW)
        content = edited.get(new.partition("/")[2], data)
        wanted.append((new, mtime, mode, owner, kind, str(link).replace(OLD, NEW), content))
    assert after == wanted
    # No time and no name in the gzip header, so the same again is the same.
    assert first.read_bytes()[:10] == b"\x1f\x8b\x08\0\0\0\0\0\x02\xff"
    assert reversion(tmp_path / "b", old).read_bytes() == first.read_bytes()


@pytest.mark.parametrize("kind", ["outside", "device", "no-info", "other-name", "cut off", "no gzip"])
def test_bad_sdists_are_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"rocm-{OLD}.tar.gz"
    info = f"Metadata-Version: 2.1\nName: rocm\nVersion: {OLD}\n".encode()
    members = {"PKG-INFO": info, "a": bytes(range(256)) * 40}
    if kind == "outside":
        members["../../evil"] = b""
    elif kind == "no-info":
        del members["PKG-INFO"]
    elif kind == "other-name":
        members["PKG-INFO"] = info.replace(b"rocm", b"mcor")
    pack(path, members)
    if kind == "device":
        with gzip.open(path) as stream:
            data = bytearray(stream.read())
        data[156] = ord("3")
        data[148:156] = b"%06o\0 " % sum(data[:148] + b" " * 8 + data[156:512])
        path.write_bytes(gzip.compress(bytes(data)))
    elif kind == "cut off":
        path.write_bytes(path.read_bytes()[:-40])
    elif kind == "no gzip":
        path.write_bytes(b"PK")
    with pytest.raises(InvalidWheel, match=r"rocm-7\.13\.0rc2\.tar\.gz"):
        reversion(tmp_path / "out", path)
    assert not (tmp_path / "out").exists()


def test_json_of_the_set_says_the_version(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    old = write_selector_sdist(tmp_path / "old", {"version": OLD, **FACTS})
    core = pack(
        tmp_path / f"rocm_sdk_core-{OLD}.tar.gz",
        {"PKG-INFO": f"Metadata-Version: 2.1\nName: rocm-sdk-core\nVersion: {OLD}\n".encode()},
    )
    made = reversion(tmp_path / "new", old, core)
    with tarfile.open(made) as archive:
        stream = archive.extractfile("rocm-7.13.0/rocm_set.json")
        assert stream is not None
        assert json.loads(stream.read())["version"] == NEW
