from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rocwright.errors import InvalidInput, InvalidWheel
from rocwright.store import pool as metadata
from rocwright.store.pool import describe_files
from wheels import pack_tar

HEAD = "Metadata-Version: 2.1\nName: a\nVersion: 1\n"


def wheel(folder: Path, text: str | bytes, name: str = "a-1-py3-none-any.whl", **others: bytes) -> Path:
    """A wheel with this METADATA; `others` are further members."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a-1.dist-info/METADATA", text)
        for member, data in others.items():
            archive.writestr(member, data)
    return path


def sdist(folder: Path, members: dict[str, bytes], name: str = "a-1.tar.gz") -> Path:
    return pack_tar(folder / name, members)


def refused(path: Path, message: str) -> None:
    with pytest.raises(InvalidWheel, match=message) as caught:
        describe_files([path])
    assert path.name in str(caught.value)


def test_describe_reads_the_file_itself(make_wheel: Callable[..., Path]) -> None:
    path = make_wheel("My_Torch", "2.0+rocm7.1", requires=["rocm[libraries]==7.1", "Typing.Extensions"])
    [entry] = describe_files([path])
    data = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        text = archive.read("My_Torch-2.0+rocm7.1.dist-info/METADATA")
    assert entry.sha256 == hashlib.sha256(data).hexdigest()
    assert entry.metadata_sha256 == hashlib.sha256(text).hexdigest()
    assert (entry.size, entry.project, entry.version) == (len(data), "my-torch", "2.0+rocm7.1")
    assert entry.requires_python == ">=3.10"
    assert entry.depends == ("rocm", "typing-extensions")


def test_describe_reads_an_sdist(make_sdist: Callable[..., Path]) -> None:
    [entry] = describe_files([make_sdist("rocm", "7.1")])
    assert (entry.project, entry.version, entry.metadata_sha256, entry.depends) == (
        "rocm",
        "7.1",
        None,
        ("rocm-sdk-core",),
    )


def test_describe_refuses_what_is_no_distribution(tmp_path: Path, make_wheel: Callable[..., Path]) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InvalidInput, match="neither a wheel nor an sdist"):
        describe_files([tmp_path / "notes.txt"])
    with pytest.raises(InvalidInput, match="is not a file"):
        describe_files([tmp_path / "gone-1-py3-none-any.whl"])
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(bytes(200_000))
    refused(tmp_path / "a-1-py3-none-any.whl", "cannot be read")
    good = make_wheel("a", "1")
    refused(good.rename(good.with_name("a-2-py3-none-any.whl")), "calls itself 'a' '1'")
    with pytest.raises(InvalidInput, match="twice"):
        describe_files([make_wheel("b", "1"), make_wheel("b", "1", folder=tmp_path / "other")])
    refused(make_wheel("c", "1", requires=["rocm[libraries]=={7.1}"]), "requires")


def test_one_name_with_other_bytes_is_told_from_one_that_is_given_twice(
    tmp_path: Path, make_wheel: Callable[..., Path]
) -> None:
    other = make_wheel("b", "1", body="other", folder=tmp_path / "other")
    with pytest.raises(InvalidInput, match="twice, with different bytes"):
        describe_files([make_wheel("b", "1"), other])


def test_all_bad_files_are_named_at_once(tmp_path: Path, make_wheel: Callable[..., Path]) -> None:
    good = make_wheel("good", "1")
    bad = [wheel(tmp_path / "x", "Name: other\nVersion: 1\n"), tmp_path / "c-1-py3-none-any.whl"]
    bad[1].write_bytes(b"PK")
    with pytest.raises(InvalidWheel, match="2 files cannot be taken") as caught:
        describe_files([good, *bad])
    said = str(caught.value)
    assert "a-1-py3-none-any.whl calls itself 'other' '1'" in said
    assert "c-1-py3-none-any.whl cannot be read" in said
    assert "good-1" not in said


@pytest.mark.parametrize(
    "name",
    [
        "torch-2.9.1+rocm_7-final!-cp312-cp312-linux_x86_64.whl",
        "torch-nightly-cp312-cp312-linux_x86_64.whl",
        "torch-2.9.1-linux_x86_64.whl",
        "<b>a<-1-py3-none-any.whl",
        "a-<script>.tar.gz",
        "a.tar.gz",
    ],
)
def test_a_name_no_installer_takes_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(InvalidInput) as caught:
        describe_files([tmp_path / name])
    assert "name" in caught.value.what


def test_a_truncated_wheel_is_refused_at_every_length(
    tmp_path: Path, make_wheel: Callable[..., Path]
) -> None:
    data = make_wheel("a", "1").read_bytes()
    cut = tmp_path / "cut" / "a-1-py3-none-any.whl"
    cut.parent.mkdir()
    for length in [0, 1, 30, len(data) // 2, len(data) - 23, len(data) - 1]:
        cut.write_bytes(data[:length])
        refused(cut, "cannot be read")


def test_a_member_with_damaged_bytes_is_refused(tmp_path: Path) -> None:
    path = wheel(tmp_path, HEAD)
    data = bytearray(path.read_bytes())
    at = data.index(b"METADATA") + len("METADATA")
    data[at : at + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    refused(path, "cannot be read")


def test_metadata_is_there_once(tmp_path: Path) -> None:
    none = tmp_path / "a-1-py3-none-any.whl"
    with zipfile.ZipFile(none, "w") as archive:
        archive.writestr("a/__init__.py", "")
    refused(none, "0 METADATA members")
    refused(wheel(tmp_path, HEAD, **{"b-1.dist-info/METADATA": b""}), "2 METADATA members")


@pytest.mark.parametrize("name", ["../evil.py", "a/../../evil.py", "/etc/evil", "..\\evil.py", "C:\\evil.py"])
def test_a_member_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    refused(wheel(tmp_path, HEAD, **{name: b"x"}), "leads out")


@pytest.mark.parametrize(
    "line", ["Name: b", "name: a", "Version: 2", "Requires-Python: >=3.9\nRequires-Python: >=3.12"]
)
def test_a_field_that_can_only_be_there_once_is_refused_twice(tmp_path: Path, line: str) -> None:
    refused(wheel(tmp_path, HEAD + line + "\n"), "2 times")


def test_what_a_description_says_is_no_field(tmp_path: Path) -> None:
    [entry] = describe_files(
        [wheel(tmp_path, HEAD + "Requires-Dist: x\n\nName: other\nRequires-Dist: other\n")]
    )
    assert (entry.project, entry.depends) == ("a", ("x",))


def test_folded_and_odd_fields(tmp_path: Path) -> None:
    text = HEAD.encode() + b"Summary: \xff\nRequires-Python: >=3.10,\n        <3.14\n"
    [entry] = describe_files([wheel(tmp_path, text)])
    assert entry.requires_python == ">=3.10, <3.14"
    refused(wheel(tmp_path / "bad", HEAD + 'Requires-Python: "><script>\n'), "Requires-Python")


def test_metadata_that_fills_the_memory_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "LARGEST_METADATA", 1000)
    [entry] = describe_files([wheel(tmp_path, HEAD + "\n" + "x" * (1000 - len(HEAD) - 1))])
    assert entry.project == "a"
    bomb = wheel(tmp_path / "bomb", HEAD + "\n" + "x" * 1_000_000)
    refused(bomb, "more than 1,000 bytes")
    # The directory of the archive may lie about the size.
    data = bomb.read_bytes()
    size = struct.pack("<I", 1_000_000 + len(HEAD) + 1)
    assert data.count(size) == 2
    bomb.write_bytes(data.replace(size, struct.pack("<I", 999)))
    with pytest.raises(InvalidWheel):
        describe_files([bomb])


def test_real_limit_holds_a_bomb_of_a_few_kilobytes(tmp_path: Path) -> None:
    path = wheel(tmp_path, HEAD.encode() + b"\n" + bytes((64 << 20) + 1))
    assert path.stat().st_size < 200_000
    refused(path, "more than 67,108,864 bytes")


def test_an_sdist_in_another_compression_is_refused(tmp_path: Path) -> None:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        info = tarfile.TarInfo("a-1/PKG-INFO")
        info.size = len(HEAD)
        archive.addfile(info, io.BytesIO(HEAD.encode()))
    for data in (plain.getvalue(), lzma.compress(plain.getvalue()), b"", gzip.compress(b"no tar at all")):
        (tmp_path / "a-1.tar.gz").write_bytes(data)
        with pytest.raises(InvalidWheel, match=r"a-1\.tar\.gz"):
            describe_files([tmp_path / "a-1.tar.gz"])
    whole = gzip.compress(plain.getvalue())
    (tmp_path / "a-1.tar.gz").write_bytes(whole)
    assert describe_files([tmp_path / "a-1.tar.gz"])[0].project == "a"
    (tmp_path / "a-1.tar.gz").write_bytes(whole[:40])
    refused(tmp_path / "a-1.tar.gz", "cannot be read")


def test_an_sdist_without_pkg_info_of_its_own_is_refused(tmp_path: Path) -> None:
    refused(sdist(tmp_path, {"a-1/a.egg-info/PKG-INFO": HEAD.encode()}), "has no a-1/PKG-INFO")
    refused(sdist(tmp_path, {"a-1/PKG-INFO": b"Name: a\n"}), "calls itself 'a' ''")


def test_an_sdist_that_unpacks_without_end_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "_LARGEST_SDIST", 100_000)
    refused(sdist(tmp_path, {"a-1/zero": bytes(50_000_000), "a-1/PKG-INFO": HEAD.encode()}), "plausible")
