"""Wheels with another version, at the door: untouched bytes, names, RECORD, refusals, all or none."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from command_line import status
from rocwright.wheel.read import open_wheel, verify_record
from rocwright.wheel.reversion.plan import plan_reversion
from rocwright.wheel.reversion.versions import parse_rule
from rocwright.wheel.reversion.write import WrittenFile, write_reversion
from wheels import record_digest

OLD, NEW = "2.10.0a0+rocm7.13.0rc2", "2.10.0a0+rocm7.13.0"
ROCM = "7.13.0rc2"
TAG = "cp312-cp312-linux_x86_64"
INFO, NEW_INFO = f"torch-{OLD}.dist-info", f"torch-{NEW}.dist-info"
RELEASE = parse_rule("release")
TIME = (2024, 5, 17, 10, 20, 30)


def files_of(
    name: str, version: str, files: Mapping[str, bytes], requires: Sequence[str] = (), body: str = ""
) -> dict[str, bytes]:
    """All members of a wheel, RECORD last."""
    info = f"{name}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {line}" for line in requires]
    members = {
        **files,
        f"{info}/METADATA": ("\n".join(lines) + "\n" + body).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode(),
    }
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerows((path, record_digest(data), len(data)) for path, data in members.items())
    writer.writerow((f"{info}/RECORD", "", ""))
    return {**members, f"{info}/RECORD": stream.getvalue().encode()}


def pack(path: Path, members: Mapping[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.external_attr = (0o100755 if name.endswith(".sh") else 0o100644) << 16
            archive.writestr(entry, data, method)
    return path


def torch(folder: Path, files: Mapping[str, bytes] | None = None, **options: object) -> Path:
    members = files_of("torch", OLD, FILES if files is None else files, **options)
    return pack(folder / f"torch-{OLD}-{TAG}.whl", members)


FILES = {
    "torch/__init__.py": b"from .version import __version__\n",
    "torch/version.py": f"# {OLD} stays here\n__version__ = '{OLD}'\n".encode(),
    "torch/_rocm_init.py": b"def initialize():\n    f(check_version='7.13.0rc2')\n",
    "torch/lib/libtorch.so": b"\x7fELF" + bytes(range(256)) * 400,
    "torch/tools/run.sh": b"#!/bin/sh\n",
    "torch/with,comma.txt": b"x",
    "torch/gr\xfc\xdfe.txt": b"y",
    f"torch-{OLD}.data/scripts/torchrun": b"#!python\n",
    f"{INFO}/licenses/LICENSE": b"MIT\n",
}


def reversion(folder: Path, *wheels: Path) -> dict[str, WrittenFile]:
    written = write_reversion(plan_reversion(wheels, RELEASE), folder / "out", verify=True)
    return {file.path.name.partition("-")[0]: file for file in written}


def raw(path: Path) -> dict[str, tuple[object, ...]]:
    """What an independent reader finds: bytes as stored, content, mode, time, method, by name."""
    found = {}
    with zipfile.ZipFile(path) as archive, path.open("rb") as stream:
        assert archive.testzip() is None
        for info in archive.infolist():
            stream.seek(info.header_offset + 26)
            names, extras = struct.unpack("<HH", stream.read(4))
            stream.seek(names + extras, 1)
            packed = stream.read(info.compress_size)
            found[info.filename] = (
                packed, archive.read(info), info.external_attr, info.date_time, info.compress_type
            )  # fmt: skip
    return found


def test_untouched_members_keep_every_byte(tmp_path: Path) -> None:
    source = torch(tmp_path)
    made = reversion(tmp_path, source)["torch"]
    assert made.path.name == f"torch-{NEW}-{TAG}.whl"
    assert made.sha256 == hashlib.sha256(made.path.read_bytes()).hexdigest()
    before, after = raw(source), raw(made.path)
    renamed = {name.replace(OLD, NEW): name for name in before}
    assert list(after) == list(renamed)
    edited = {"torch/version.py", "torch/_rocm_init.py", f"{NEW_INFO}/METADATA", f"{NEW_INFO}/RECORD"}
    for new, old in renamed.items():
        if new in edited:
            # Mode and time stay in any case.
            assert after[new][2:4] == before[old][2:4]
            assert after[new][1] != before[old][1]
        else:
            assert after[new] == before[old], new
    assert after["torch/version.py"][1] == f"# {OLD} stays here\n__version__ = '{NEW}'\n".encode()
    assert b"check_version='7.13.0'" in after["torch/_rocm_init.py"][1]
    assert made.left == ("torch/version.py",)
    wheel = open_wheel(made.path)
    assert (wheel.version, wheel.dist_info) == (NEW, NEW_INFO)
    assert verify_record(wheel) == ()


def test_record_has_new_names_and_digests_and_keeps_its_other_lines(tmp_path: Path) -> None:
    source = torch(tmp_path)
    before = raw(source)[f"{INFO}/RECORD"][1].decode().splitlines()
    members = raw(reversion(tmp_path, source)["torch"].path)
    after = members[f"{NEW_INFO}/RECORD"][1].decode().splitlines()
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        name = next(csv.reader([new]))[0]
        if name in ("torch/version.py", "torch/_rocm_init.py", f"{NEW_INFO}/METADATA"):
            assert new == f"{name},{record_digest(members[name][1])},{len(members[name][1])}"
        else:
            assert new == old.replace(OLD, NEW)


def test_the_same_wheel_gives_the_same_bytes(tmp_path: Path) -> None:
    source = torch(tmp_path)
    first = reversion(tmp_path / "a", source)["torch"]
    assert reversion(tmp_path / "b", source)["torch"].sha256 == first.sha256


def test_a_set_keeps_its_pins_and_the_text_of_its_metadata(tmp_path: Path) -> None:
    long = "x" * 300
    body = f"\nRequires-Dist: rocm==7.13.0rc2\nVersion: {OLD}\n"
    requires = [
        'rocm [libraries] == 7.13.0rc2 ; extra == "rocm"',
        "numpy>=1",
        f'{long}; python_version >= "3.10"',
        "rocm-other==7.13.0rc12",
    ]
    wheels = [
        torch(tmp_path, {"torch/a": b""}, requires=requires, body=body),
        pack(
            tmp_path / f"torchvision-0.25.0+rocm{ROCM}-{TAG}.whl",
            files_of("torchvision", f"0.25.0+rocm{ROCM}", {"torchvision/a": b""}, [f"torch=={OLD}"]),
        ),
        pack(tmp_path / f"rocm-{ROCM}-py3-none-any.whl", files_of("rocm", ROCM, {"rocm_sdk/a": b""})),
    ]
    made = reversion(tmp_path, *wheels)
    text = raw(made["torch"].path)[f"{NEW_INFO}/METADATA"][1].decode()
    assert text == (
        f"Metadata-Version: 2.1\nName: torch\nVersion: {NEW}\n"
        'Requires-Dist: rocm [libraries] == 7.13.0 ; extra == "rocm"\n'
        f'Requires-Dist: numpy>=1\nRequires-Dist: {long}; python_version >= "3.10"\n'
        f"Requires-Dist: rocm-other==7.13.0rc12\n{body}"
    )
    assert (
        f"Requires-Dist: torch=={NEW}\n"
        in raw(made["torchvision"].path)["torchvision-0.25.0+rocm7.13.0.dist-info/METADATA"][1].decode()
    )


def test_a_signature_over_record_is_dropped_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    members = files_of("torch", OLD, {"torch/a": b"a"})
    source = pack(tmp_path / f"torch-{OLD}-{TAG}.whl", {**members, f"{INFO}/RECORD.jws": b"{}"})
    assert status("wheel", "reversion", source, "--to", "release", "--output-dir", tmp_path / "out") == 0
    assert f"dropped  {INFO}/RECORD.jws" in capsys.readouterr().out
    with zipfile.ZipFile(tmp_path / f"out/torch-{NEW}-{TAG}.whl") as archive:
        assert not any(name.endswith(".jws") for name in archive.namelist())


def streamed(path: Path, members: Mapping[str, bytes]) -> Path:
    """As a writer makes it that cannot seek back: with data descriptors."""

    class Pipe:
        def __init__(self) -> None:
            self.data = bytearray()

        def flush(self) -> None:
            pass

        def write(self, data: bytes) -> int:
            self.data += data
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    path.write_bytes(pipe.data)
    return path


def test_members_with_data_descriptors(tmp_path: Path) -> None:
    source = streamed(tmp_path / f"torch-{OLD}-{TAG}.whl", files_of("torch", OLD, FILES))
    with zipfile.ZipFile(source) as archive:
        assert all(info.flag_bits & 8 for info in archive.infolist())
    made = reversion(tmp_path, source)["torch"].path
    assert verify_record(open_wheel(made)) == ()
    assert raw(made)["torch/lib/libtorch.so"] == raw(source)["torch/lib/libtorch.so"]
    with zipfile.ZipFile(made) as archive:
        assert not archive.getinfo("torch/version.py").flag_bits & 8


def test_members_that_are_not_listed_in_the_order_they_lie_in(tmp_path: Path) -> None:
    source = torch(tmp_path)
    with zipfile.ZipFile(source, "a") as archive:
        archive.filelist.reverse()
        archive._didModify = True
    made = reversion(tmp_path, source)["torch"].path
    assert list(raw(made)) == [name.replace(OLD, NEW) for name in raw(source)]
    assert verify_record(open_wheel(made)) == ()


def test_extra_fields_and_the_comment_stay(tmp_path: Path) -> None:
    members = files_of("torch", OLD, {"torch/version.py": f"v = '{OLD}'\n".encode(), "torch/z": b"z"})
    source = tmp_path / f"torch-{OLD}-{TAG}.whl"
    stamp = struct.pack("<HHBI", 0x5455, 5, 1, 1_700_000_000)
    with zipfile.ZipFile(source, "w") as archive:
        archive.comment = b"made by hand"
        for name, data in members.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.extra = stamp
            archive.writestr(entry, data)
    made = reversion(tmp_path, source)["torch"].path
    with zipfile.ZipFile(made) as archive:
        assert archive.comment == b"made by hand"
        assert {info.extra for info in archive.infolist()} == {stamp}


def test_a_colon_in_a_name_is_no_drive(tmp_path: Path) -> None:
    source = torch(tmp_path, {"torch/version.py": f"v = '{OLD}'\n".encode(), "torch/at:0": b"x"})
    assert raw(reversion(tmp_path, source)["torch"].path)["torch/at:0"] == raw(source)["torch/at:0"]


def broken(folder: Path, change: str) -> Path:
    """A wheel with one thing wrong."""
    members = files_of("torch", OLD, {"torch/a": b"a" * 99, "torch/b": b"b"})
    record = f"{INFO}/RECORD"
    if change == "unlisted":
        members = {"torch/extra": b"", **members}
    elif change == "listed twice":
        members[record] += members[record].splitlines(keepends=True)[0]
    elif change == "not there":
        members[record] += f"torch/c,{record_digest(b'c')},1\n".encode()
    elif change == "other size":
        members[record] = members[record].replace(b",99\n", b",98\n")
    elif change == "no digest":
        members[record] = members[record].replace(record_digest(b"b").encode(), b"")
    elif change == "no record":
        del members[record]
    elif change == "traversal":
        members = {"../evil": b"", **members}
    elif change == "drive":
        members = {"c:evil": b"", **members}
    elif change == "version":
        members[f"{INFO}/METADATA"] = members[f"{INFO}/METADATA"].replace(b"Version: 2.10", b"Version: 2.11")
    path = pack(folder / f"torch-{OLD}-{TAG}.whl", members, method=0)
    data = bytearray(path.read_bytes())
    if change == "twice":
        with pytest.warns(UserWarning), zipfile.ZipFile(path, "a") as archive:
            archive.writestr("torch/a", b"other")
        return path
    if change == "bzip2":
        return pack(path, members, method=zipfile.ZIP_BZIP2)
    if change == "encrypted":
        for at in (data.index(b"PK\1\2") + 8, 6):
            data[at] |= 1
    elif change == "leading":
        data = bytearray(b"#!/usr/bin/python\n") + data
    elif change == "trailing":
        data += b"more"
    elif change == "cut off":
        del data[-30:]
    elif change == "gap":
        # Members shifted apart: all offsets are right, and nobody owns the bytes between.
        with zipfile.ZipFile(path) as archive:
            second = archive.infolist()[1].header_offset
            count, at = len(archive.infolist()), archive.start_dir
        data[second:second] = b"hidden!!"
        at += 8
        struct.pack_into("<I", data, len(data) - 6, at)
        for number in range(count):
            offset = struct.unpack_from("<I", data, at + 42)[0]
            struct.pack_into("<I", data, at + 42, offset + 8 if number else 0)
            at += 46 + sum(struct.unpack_from("<HHH", data, at + 28))
    elif change == "header":
        data[18] ^= 1  # the packed size in the first local header
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("unlisted", "torch/extra is not listed"),
        ("listed twice", "torch/a is listed twice"),
        ("not there", "torch/c is listed, but missing"),
        ("other size", "torch/a has 99 bytes, not 98"),
        ("no digest", "the digest of torch/b is not a sha256"),
        ("no record", "has no torch-"),
        ("traversal", "'../evil', which is not a plain relative path"),
        ("drive", "'c:evil', which is not a plain relative path"),
        ("version", "calls itself torch 2.11"),
        ("twice", "contains torch/a twice"),
        ("bzip2", "packed in a way that wheels do not use"),
        ("encrypted", "is encrypted"),
        ("leading", "something lies before its first member"),
        ("trailing", "something follows it"),
        ("cut off", "it is cut off"),
        ("gap", "the header of torch/a and the directory contradict"),
        ("header", "the header of torch/a and the directory contradict"),
    ],
)
def test_what_cannot_be_taken_over_is_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str, words: str
) -> None:
    good = pack(tmp_path / f"rocm-{ROCM}-py3-none-any.whl", files_of("rocm", ROCM, {"rocm_sdk/a": b""}))
    bad = broken(tmp_path, change)
    code = status("wheel", "reversion", good, bad, "--to", "release", "--output-dir", tmp_path / "out")
    said = capsys.readouterr().err
    assert code == 3, said
    assert words in " ".join(said.split())
    assert bad.name in said
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


SETS = {
    "a pin outside of the set": ([f"rocm=={ROCM}"], None, f"requires rocm=={ROCM}, which is not among"),
    "a framework outside of the set": (["torchvision==0.25.0+rocm7.13.0rc2"], None, "not among the files"),
    "a pin on another version": (["rocm==7.13.0rc1"], ROCM, "but the set has 7.13.0rc2"),
    "another ROCm": ([], "7.13.0rc1", "several versions of ROCm"),
    "an upper bound": (["rocm>=7.13.0rc1,!=7.13.0"], ROCM, "which 7.13.0 would not satisfy"),
    "an address": (["rocm @ https://example.org/rocm.whl"], ROCM, "an address instead of a version"),
}


@pytest.mark.parametrize("case", SETS)
def test_a_set_that_is_not_closed_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    requires, rocm, words = SETS[case]
    wheels = [torch(tmp_path, {"torch/a": b""}, requires=requires)]
    if rocm is not None:
        wheels.append(pack(tmp_path / f"rocm-{rocm}-py3-none-any.whl", files_of("rocm", rocm, {"r/a": b""})))
    assert status("wheel", "reversion", *wheels, "--to", "release", "--output-dir", tmp_path / "out") == 9
    said = " ".join(capsys.readouterr().err.split())
    assert words in said
    assert not (tmp_path / "out").exists()


def test_a_pin_for_another_platform_may_be_missing(tmp_path: Path) -> None:
    requires = [f'rocm=={ROCM}; sys_platform == "win32"', "triton==3.5.0"]
    plan = plan_reversion([torch(tmp_path, {"torch/a": b""}, requires=requires)], RELEASE)
    assert plan.files[0].requirements == ()


def test_a_file_that_would_keep_its_name_with_other_content_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheels = [
        torch(tmp_path, {"torch/a": b""}, requires=["triton==3.5.0"]),
        pack(
            tmp_path / f"triton-3.5.0-{TAG}.whl", files_of("triton", "3.5.0", {"t": b""}, [f"torch=={OLD}"])
        ),
    ]
    assert status("wheel", "reversion", *wheels, "--to", "release", "--output-dir", tmp_path / "out") == 3
    assert "keep its name with other content" in " ".join(capsys.readouterr().err.split())


def test_a_file_without_rocm_goes_along_as_it_is(tmp_path: Path) -> None:
    triton = pack(tmp_path / f"triton-3.5.0-{TAG}.whl", files_of("triton", "3.5.0", {"triton/a": b""}))
    made = reversion(tmp_path, torch(tmp_path, {"t": b""}, requires=["triton==3.5.0"]), triton)
    assert made["triton"].path.read_bytes() == triton.read_bytes()


def test_the_plan_as_json_and_a_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = torch(tmp_path)
    assert (
        status(
            "wheel", "reversion", source, "--to", "rc3", "--dry-run", "--json", "--output-dir", tmp_path / "o"
        )
        == 0
    )
    said = json.loads(capsys.readouterr().out)
    assert (said["old"], said["new"], said["written"]) == ("7.13.0rc2", "7.13.0rc3", [])
    assert said["files"][0]["name"] == f"torch-2.10.0a0+rocm7.13.0rc3-{TAG}.whl"
    assert not (tmp_path / "o").exists()


def test_damage_inside_a_member_is_found_by_verify_only_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = pack(
        tmp_path / f"torch-{OLD}-{TAG}.whl", files_of("torch", OLD, {"torch/a": b"a" * 99}), method=0
    )
    data = bytearray(source.read_bytes())
    data[data.index(b"aaaa") + 2] = 0x62
    source.write_bytes(data)
    out = tmp_path / "out"
    assert status("wheel", "reversion", source, "--to", "release", "--verify", "--output-dir", out) == 3
    assert "torch/a" in capsys.readouterr().err
    assert list(out.iterdir()) == []
    assert status("wheel", "reversion", source, "--to", "release", "--output-dir", out) == 0


def test_an_unparseable_module_with_the_version_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = torch(tmp_path, {"torch/version.py": f"__version__ = '{OLD}'\nprint 'x'\n".encode()})
    assert status("wheel", "reversion", source, "--to", "release", "--output-dir", tmp_path / "out") == 3
    assert "torch/version.py" in capsys.readouterr().err


def test_files_of_the_set_are_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    triton = pack(tmp_path / f"triton-3.5.0-{TAG}.whl", files_of("triton", "3.5.0", {"triton/a": b""}))
    source = torch(tmp_path, {"t": b""})
    assert status("wheel", "reversion", source, triton, "--to", "release", "--output-dir", tmp_path) == 2
    assert "onto itself" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == [source.name, triton.name]
