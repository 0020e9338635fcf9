"""Facts of sdists: what is in them, and archives that are damaged or made to explode."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from rocwright.check.facts import Headers, Member
from rocwright.check.gather import gather, sdist

PKG_INFO = b"Metadata-Version: 2.4\nName: rocm\nVersion: 7.1\nRequires-Dist: rocm-sdk-core==7.1\n"


def tar(files: Mapping[str, bytes], **entries: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            archive.addfile(info, io.BytesIO(data))
        for info in entries.values():
            archive.addfile(info)
    return out.getvalue()


def entry(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def write(folder: Path, data: bytes, name: str = "rocm-7.1.tar.gz") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(data, 1))
    return path


def test_a_good_sdist(tmp_path: Path) -> None:
    long = "rocm-7.1/" + "a" * 300
    files = {"rocm-7.1/PKG-INFO": PKG_INFO, "rocm-7.1/src/x.py": b"x" * 5000, long: b"y"}
    path = write(tmp_path, tar(files, folder=entry("rocm-7.1/src", tarfile.DIRTYPE)))
    facts = gather(path)
    assert (facts.kind, facts.project, facts.version) == ("sdist", "rocm", "7.1")
    assert facts.size == path.stat().st_size
    assert facts.unreadable is facts.bomb is None
    assert facts.headers == Headers("2.4", "rocm", "7.1", ("rocm-sdk-core==7.1",))
    mode = stat.S_IFREG | 0o644
    assert facts.members == (
        Member("rocm-7.1/PKG-INFO", len(PKG_INFO), mode=mode),
        Member("rocm-7.1/src/x.py", 5000, mode=mode),
        Member(long, 1, mode=mode),
    )


def test_names_of_projects_are_spelled_in_one_way(tmp_path: Path) -> None:
    facts = gather(write(tmp_path, tar({}), "Rocm_SDK-7.1.tar.gz"))
    assert (facts.project, facts.version, facts.headers) == ("rocm-sdk", "7.1", Headers())


def test_links_and_devices_are_told_by_their_mode(tmp_path: Path) -> None:
    data = tar(
        {},
        link=entry("rocm-7.1/link", tarfile.SYMTYPE, "/etc/passwd"),
        device=entry("rocm-7.1/device", tarfile.CHRTYPE),
        pipe=entry("../pipe", tarfile.FIFOTYPE),
    )
    modes = {member.name: stat.S_IFMT(member.mode) for member in gather(write(tmp_path, data)).members}
    assert modes == {
        "rocm-7.1/link": stat.S_IFLNK,
        "rocm-7.1/device": stat.S_IFCHR,
        "../pipe": stat.S_IFIFO,
    }


@pytest.mark.parametrize("name", ["rocm.tar.gz", "rocm-one.tar.gz", "-7.1.tar.gz"])
def test_a_name_that_is_no_sdist_name(name: str, tmp_path: Path) -> None:
    unreadable = gather(write(tmp_path, tar({}), name)).unreadable
    assert unreadable is not None and "not an sdist name" in unreadable


def test_what_is_no_sdist(tmp_path: Path) -> None:
    path = tmp_path / "rocm-7.1.tar.gz"
    assert gather(path).unreadable == "No such file or directory"
    path.write_bytes(b"")
    assert gather(path).unreadable == "it is empty"
    path.write_bytes(bytes(200_000))
    assert "the archive is damaged: Not a gzipped file" in (gather(path).unreadable or "")
    assert "the archive is damaged" in (gather(write(tmp_path, b"no tar archive" * 100)).unreadable or "")
    path.unlink()
    path.mkdir()
    assert gather(path).unreadable == "it is not a regular file"


@pytest.mark.slow
def test_every_damaged_byte_is_survived(tmp_path: Path) -> None:
    path = write(tmp_path, tar({"rocm-7.1/PKG-INFO": PKG_INFO, "rocm-7.1/x": bytes(range(200))}))
    good, data = gather(path), path.read_bytes()
    plain = gzip.decompress(data)
    for cut in range(0, len(data), 7):
        path.write_bytes(data[:cut])
        assert gather(path).unreadable is not None, cut
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x10
        path.write_bytes(changed)
        # What gzip's header says of time and system, and other ways to write the same.
        assert gather(path) != good or gzip.decompress(bytes(changed)) == plain, at


def test_an_archive_that_explodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, tar({"rocm-7.1/zeros": bytes(8 << 20), "rocm-7.1/PKG-INFO": PKG_INFO}))
    assert gather(path).bomb is None
    monkeypatch.setattr(sdist, "_HARMLESS", 4 << 20)
    facts = gather(path)
    assert facts.bomb == f"it has {facts.size:,} bytes and unpacks to more than 4,194,304"
    assert (facts.members, facts.unreadable) == ((), None)


def test_zeros_behind_the_archive_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdist, "_HARMLESS", 4 << 20)
    assert gather(write(tmp_path, tar({}) + bytes(8 << 20))).bomb is not None


def test_a_header_that_would_fill_the_memory(tmp_path: Path) -> None:
    info = entry("x", tarfile.XHDTYPE)
    info.size = 1 << 30
    path = write(tmp_path, info.tobuf() + bytes(20 << 20))
    assert gather(path).bomb == "a header in it claims to have 1,073,741,824 bytes"


def test_more_members_than_any_sdist_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, tar({f"rocm-7.1/{number}": b"" for number in range(11)}))
    monkeypatch.setattr(sdist, "_MOST_MEMBERS", 11)
    assert len(gather(path).members) == 11
    monkeypatch.setattr(sdist, "_MOST_MEMBERS", 10)
    assert gather(path).bomb == "it has more than 10 members"
