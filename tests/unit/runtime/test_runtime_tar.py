"""The reader of the devel archive against Python's own, on every format that tar has for long names."""

from __future__ import annotations

import io
import tarfile

import fake_rocm as fake
import pytest

NAMES = {
    "short": 3,
    "empty": 0,
    "./dotted": 511,
    "d" * 99 + "/" + "f" * 90: 512,  # ustar's prefix
    "x" * 150: 513,  # no slash to split at
    "ä/" + "ö" * 60: 1,
    "deep/" * 60 + "file": 2000,
}


@pytest.fixture
def tar(in_process):
    from rocm_sdk import _tar

    return _tar


def archive(tar_format: int) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tar_format) as made:
        directory = tarfile.TarInfo("directory")
        directory.type = tarfile.DIRTYPE
        made.addfile(directory)
        for number, (name, size) in enumerate(NAMES.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = size, 0o755 if number % 2 else 0o640
            made.addfile(member, io.BytesIO(bytes([number]) * size))
            link = tarfile.TarInfo(name + "-link")
            link.type, link.linkname = tarfile.SYMTYPE, name
            made.addfile(link)
    return stream.getvalue()


@pytest.mark.parametrize("tar_format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
def test_files_lie_where_tarfile_finds_them(tar, tar_format: int) -> None:
    data = archive(tar_format)
    with tarfile.open(fileobj=io.BytesIO(data)) as reference:
        expected = [(m.name, m.offset_data, m.size, m.mode) for m in reference if m.isfile()]
    assert [name for name, *_ in expected] == list(NAMES)
    assert list(tar.files(memoryview(data))) == expected


@pytest.mark.parametrize("tar_format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
def test_what_is_cut_off_or_changed_is_an_error_or_seen_by_its_digest(tar, tar_format: int) -> None:
    data = archive(tar_format)
    for end in range(0, len(data.rstrip(b"\0")), 256):
        with pytest.raises(ValueError, match=r"ends early|cut off"):
            list(tar.files(data[:end]))
    for position in range(0, len(data), 31):
        changed = bytearray(data)
        changed[position] ^= 0xFF
        try:
            found = list(tar.files(bytes(changed)))
        except ValueError:
            continue
        assert all(start + size <= len(data) for _, start, size, _ in found)


def test_an_archive_of_nothing(tar) -> None:
    assert list(tar.files(fake.devel_tar({}))) == []
