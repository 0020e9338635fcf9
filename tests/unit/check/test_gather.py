"""Facts of whole wheels, of files that are none, and of archives damaged in one place."""

from __future__ import annotations

import os
import re
import stat
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
from gather_wheels import INFO, METADATA, NAME, flip, place, put, write

from rocwright.check.facts import Facts, Fault, Headers, Member
from rocwright.check.gather import gather, gather_all
from rocwright.check.gather.look import Look
from rocwright.check.gather.members import Batch
from rocwright.check.gather.wheel import Gathered, begin, finish, read
from wheels import record_row

TEXT = b"".join(b"line %d of a text that compresses\n" % i for i in range(30_000))
LARGE = TEXT * 6  # above what is held in memory


def test_a_good_wheel(tmp_path: Path) -> None:
    files = {
        "demo/__init__.py": b"",
        "demo/text": TEXT,
        "torch/version.py": b"hip = '7.1'\n",
        f"{INFO}/licenses/COPYING": b"all of it",
        f"{INFO}/NOTICE.txt": b"n",
        f"{INFO}/sboms/demo.cdx.json": b"{}",
        f"{INFO}/entry_points.txt": b"[console_scripts]\n",
        "demo/LICENSE": b"of something else",
    }
    metadata = METADATA + b"Requires-Dist: rocm==7.1\nProvides-Extra: all\nRequires-Python: >=3.10\n"
    path = write(tmp_path, files, stored=["demo/text"], modes={"demo/text": 0o100755}, metadata=metadata)
    facts = gather(path)
    assert facts.path == path
    assert (facts.kind, facts.project, facts.version) == ("wheel", "demo", "1.0")
    assert facts.size == path.stat().st_size
    assert facts.tags == facts.wheel_tags == {"py3-none-linux_x86_64"}
    assert facts.unreadable is facts.bomb is facts.structure is None
    assert facts.damaged == facts.record == ()
    assert facts.dist_infos == (INFO,)
    assert [member.name for member in facts.members] == [
        *files, f"{INFO}/METADATA", f"{INFO}/WHEEL", f"{INFO}/RECORD",
    ]  # fmt: skip
    assert facts.members[1] == Member("demo/text", len(TEXT), len(TEXT), 0, 0, 0o100755)
    assert (facts.members[0].size, stat.S_ISREG(facts.members[0].mode)) == (0, True)
    assert facts.headers == Headers("2.4", "demo", "1.0", ("rocm==7.1",), ("all",), ">=3.10")
    assert facts.texts == {
        "torch/version.py": "hip = '7.1'\n",
        f"{INFO}/sboms/demo.cdx.json": "{}",
        f"{INFO}/entry_points.txt": "[console_scripts]\n",
    }
    assert facts.licences == (f"{INFO}/licenses/COPYING", f"{INFO}/NOTICE.txt")
    assert facts.sboms == (f"{INFO}/sboms/demo.cdx.json",)
    assert facts.elf == facts.pe == facts.code == facts.archives == ()


def test_files_come_in_the_order_they_were_given_in_with_any_number_of_threads(tmp_path: Path) -> None:
    paths = [write(tmp_path / str(n), {f"demo/{n}": TEXT[: n * 1000]}) for n in range(9)]
    paths += [tmp_path / "gone-1-py3-none-any.whl", paths[3]]
    for threads in (1, 2, 5):
        found = gather_all(paths, threads=threads)
        assert [facts.path for facts in found] == paths
        assert [facts.members[0].name for facts in found[:9]] == [f"demo/{n}" for n in range(9)]
        assert found[9].unreadable and found[10] == found[3]
    assert gather_all([]) == []


# Files that are no wheel.


def unreadable(path: Path) -> str:
    facts = gather(path)
    assert facts.unreadable is not None
    assert (facts.members, facts.damaged, facts.bomb) == ((), (), None)
    return facts.unreadable


def test_what_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / NAME
    assert unreadable(path) == "No such file or directory"
    path.write_bytes(b"")
    assert unreadable(path) == "it is empty"
    path.write_bytes(bytes(200_000))
    assert unreadable(path) == "it is not a zip archive, or its end is missing"
    path.write_bytes(write(tmp_path / "good", {"demo/text": TEXT}).read_bytes()[:-10])
    assert unreadable(path) == "it is not a zip archive, or its end is missing"
    path.unlink()
    path.mkdir()
    assert unreadable(path) == "it is not a regular file"
    path.rmdir()
    os.mkfifo(path)  # to read from which would wait for ever
    assert unreadable(path) == "it is not a regular file"
    path.unlink()
    path.symlink_to(path)
    assert "symbolic links" in unreadable(path)


@pytest.mark.parametrize(
    "name", ["demo.whl", "demo-1.0.whl", "demo-one-py3-none-any.whl", ".whl", "demo-1.0-py3-none.whl"]
)
def test_a_name_that_is_no_wheel_name(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, {}, name=name)
    assert "not a wheel name" in unreadable(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, {})
    path.chmod(0)
    assert unreadable(path) == "Permission denied"


def test_a_directory_cut_at_its_front(tmp_path: Path) -> None:
    path = write(tmp_path, {"demo/text": TEXT})
    entry, _, _ = place(path, "demo/text")
    assert "damaged" in unreadable(put(path, entry, b"PK\0\0"))


def test_a_directory_too_large_to_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, {"demo/text": TEXT})
    size = 200 << 20
    with path.open("r+b") as stream:
        stream.truncate(size)
        stream.seek(size)
        stream.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 150 << 20, 0, 0))
    assert unreadable(path) == "its zip directory has 157,286,400 bytes, more than that of any real wheel"


def test_a_large_wheel_whose_old_end_record_only_points_to_the_new_one(tmp_path: Path) -> None:
    """As other tools than Python's write it: 0xffffffff wherever the record of zip64 tells more."""
    small, path = write(tmp_path / "small", {"demo/text": TEXT}), tmp_path / NAME
    with path.open("wb") as stream:
        stream.seek(100 << 20)
        with zipfile.ZipFile(stream, "w") as archive, zipfile.ZipFile(small) as source:
            for info in source.infolist():
                archive.writestr(info.filename, source.read(info))
        stream.flush()
        size, start = struct.unpack("<LL", path.read_bytes()[-10:-2])
        end = stream.seek(-22, 2)
        stream.write(struct.pack("<4sQHHLLQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 4, 4, size, start))
        stream.write(struct.pack("<4sLQL", b"PK\6\7", 0, end, 1))
        stream.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0))
    facts = gather(path)
    assert (facts.unreadable, facts.structure, facts.record) == (None, None, ())


def test_more_members_than_any_wheel_has(tmp_path: Path) -> None:
    entry = b"PK\1\2" + bytes(42) + b"x"
    count = 200_100
    path = tmp_path / NAME
    directory = entry * count
    path.write_bytes(directory + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, len(directory), 0, 0))
    assert re.fullmatch(
        "its zip directory has about 200,[01].. members, more than any real wheel", unreadable(path)
    )


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, {"demo/large": LARGE})
    opened = begin(path)
    batch = Batch(opened.members, 0)
    gathered = Gathered()
    flip(path, 50)
    gathered.add(read(opened, batch, Look(), lambda _: None))
    assert finish(opened, gathered).unreadable == "it changed while it was read"
    path.unlink()
    assert read(opened, batch, Look(), lambda _: None) == "No such file or directory"


# Damage inside.


def large_and_small(folder: Path) -> Path:
    files = {"demo/small": TEXT[:5000], "demo/stored": TEXT[:5000], "demo/middle": TEXT, "demo/large": LARGE,
             "demo/large-stored": LARGE, "demo/last": b"last"}  # fmt: skip
    return write(folder, files, stored=["demo/stored", "demo/large-stored"])


NAMES = ["demo/small", "demo/stored", "demo/middle", "demo/large", "demo/large-stored"]


@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_bit_is_found_in_its_member_alone(name: str, tmp_path: Path) -> None:
    path = large_and_small(tmp_path)
    good = gather(path)
    assert good.damaged == good.record == ()
    _, _, start = place(path, name)
    facts = gather(flip(path, start + good.members[[m.name for m in good.members].index(name)].packed // 2))
    assert [fault.member for fault in facts.damaged] == [name]
    assert facts.record == ()
    assert facts.unreadable is None
    assert facts.headers.name == "demo"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        (16, 1, "not what the archive records"),
        (24, 100, "longer than the 100 bytes"),
        (24, 1 << 23, "not what the archive records"),
        (20, 60, "do not end where they should|not what the archive records"),
        (42, 7, "no header at offset 0x7"),
    ],
    ids=["crc", "shorter", "longer", "packed", "offset"],
)
def test_a_directory_that_contradicts_its_member(
    name: str, field: int, value: int, says: str, tmp_path: Path
) -> None:
    path = large_and_small(tmp_path)
    entry, _, _ = place(path, name)
    facts = gather(put(path, entry + field, struct.pack("<I", value)))
    if facts.bomb is not None:  # an offset inside another member
        assert field == 42 and "share bytes" in facts.bomb
        return
    [fault] = facts.damaged
    assert fault.member == name
    assert re.search(says, fault.what) or name.endswith("stored"), fault.what


def test_a_header_of_another_member(tmp_path: Path) -> None:
    path = large_and_small(tmp_path)
    for name in NAMES:
        _, header, _ = place(path, name)
        put(path, header + 30 + 5, b"XX")
    assert gather(path).damaged == tuple(Fault(name, "its header names another file") for name in NAMES)


def test_a_stream_that_would_never_end_is_left_where_it_leaves_its_size(tmp_path: Path) -> None:
    path = write(tmp_path, {"demo/zeros": bytes(300 << 20)})
    entry, _, _ = place(path, "demo/zeros")
    put(path, entry + 24, struct.pack("<I", 5 << 20))
    assert gather(path).damaged == (Fault("demo/zeros", "it is longer than the 5242880 bytes recorded"),)


def test_members_that_no_installer_reads_are_no_damage(tmp_path: Path) -> None:
    path = write(tmp_path, {"demo/x": b"x", "demo/y": b"y"})
    entry, _, _ = place(path, "demo/x")
    put(path, entry + 8, struct.pack("<H", 1))  # encrypted
    entry, _, _ = place(path, "demo/y")
    put(path, entry + 10, struct.pack("<H", 12))  # bzip2
    facts = gather(path)
    assert facts.damaged == facts.record == ()
    assert (facts.members[0].flags, facts.members[1].method) == (1, 12)


@pytest.mark.parametrize(
    ("field", "value"), [(8, 0), (14, 1), (18, 7), (22, 7)], ids=["method", "crc", "packed", "size"]
)
def test_a_local_header_that_tells_streaming_readers_something_else(
    field: int, value: int, tmp_path: Path
) -> None:
    path = large_and_small(tmp_path)
    names = ["demo/small", "demo/middle", "demo/large"]
    for name in names:
        _, header, _ = place(path, name)
        put(path, header + field, struct.pack("<H" if field == 8 else "<I", value))
    told = "its local header contradicts the directory"
    assert gather(path).damaged == tuple(Fault(name, told) for name in names)


# Bombs.


def forge(path: Path, name: str, size: int) -> Path:
    entry, _, _ = place(path, name)
    return put(path, entry + 24, struct.pack("<I", size))


def test_members_that_claim_to_explode_are_not_inflated(tmp_path: Path) -> None:
    path = write(tmp_path, {"demo/x": TEXT, "demo/y": b"damaged"})
    packed = gather(path).members[0].packed
    flip(path, place(path, "demo/y")[2])
    forge(path, "demo/x", (1 << 30) + 1)
    facts = gather(path)
    assert facts.bomb == f"demo/x has {packed:,} bytes and unpacks to 1,073,741,825"
    assert facts.damaged == ()
    assert facts.members[0].size == (1 << 30) + 1


def test_what_unpacks_to_a_gigabyte_is_no_bomb_yet(tmp_path: Path) -> None:
    path = forge(write(tmp_path, {"demo/x": TEXT}), "demo/x", (1 << 30) - 1000)
    facts = gather(path)
    assert facts.bomb is None
    assert [fault.member for fault in facts.damaged] == ["demo/x"]


def test_many_members_that_explode_together(tmp_path: Path) -> None:
    files = {f"demo/{number}": TEXT for number in range(5)}
    path = write(tmp_path, files)
    for name in files:
        forge(path, name, 300 << 20)
    facts = gather(path)
    assert facts.bomb is not None and facts.bomb.startswith("its members have ")


def test_members_that_share_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, {"demo/kernel": TEXT, "demo/other": TEXT})
    _, first, _ = place(path, "demo/kernel")
    entry, _, _ = place(path, "demo/other")
    facts = gather(put(path, entry + 42, struct.pack("<I", first)))
    assert facts.bomb == "demo/kernel and demo/other share bytes of the archive"


# RECORD.


def record_of(folder: Path, rows: str, files: dict[str, bytes] | None = None) -> tuple[Fault, ...]:
    facts = gather(write(folder, files or {"demo/x": b"x"}, record=rows))
    assert facts.damaged == ()
    return facts.record


OTHERS = record_row(f"{INFO}/METADATA", METADATA) + record_row(
    f"{INFO}/WHEEL", b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n"
)


@pytest.mark.parametrize(
    ("rows", "faults"),
    [
        (record_row("demo/x", b"x"), []),
        ("", [("demo/x", "RECORD does not list it")]),
        (record_row("demo/x", b"y"), [("demo/x", "its digest is not the one in RECORD")]),
        (record_row("demo/x", b"x")[:-2] + "2\n", [("demo/x", "its size is not the one in RECORD")]),
        (record_row("demo/x", b"x")[:-2] + "\n", []),
        ("demo/x,,\n", [("demo/x", "RECORD has no digest for it")]),
        (record_row("demo/x", b"x") * 2, [("demo/x", "RECORD lists it more than once")]),
        (
            record_row("demo/x", b"x") + record_row("demo/y", b"y"),
            [("demo/y", "RECORD lists it, but it is not there")],
        ),
        ("demo/x\n", [(f"{INFO}/RECORD", "RECORD line 1 is not path,digest,size: 'demo/x'")]),
        ("demo/x,md5=AA,1\n", [(f"{INFO}/RECORD", "RECORD digest 'md5=AA' is not sha256")]),
    ],
    ids=["right", "missing", "digest", "size", "no-size", "no-digest", "twice", "extra", "malformed", "md5"],
)
def test_record(rows: str, faults: list[tuple[str, str]], tmp_path: Path) -> None:
    assert record_of(tmp_path, rows + OTHERS) == tuple(Fault(*fault) for fault in faults)


def test_signatures_need_no_row(tmp_path: Path) -> None:
    files = {f"{INFO}/RECORD.jws": b"{}", f"{INFO}/RECORD.p7s": b"s"}
    assert record_of(tmp_path, OTHERS, files) == ()
    assert record_of(tmp_path, OTHERS + f"{INFO}/RECORD.jws,,\n", files) == ()


def without(path: Path, *names: str) -> Path:
    copy = path.parent / "without" / path.name
    copy.parent.mkdir()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(copy, "w") as new:
        for info in old.infolist():
            if info.filename not in names:
                new.writestr(info, old.read(info))
    return copy


def test_parts_of_the_dist_info_that_are_missing(tmp_path: Path) -> None:
    path = write(tmp_path, {"demo/x": b"x"})
    facts = gather(without(path, f"{INFO}/RECORD"))
    assert facts.record == (Fault(f"{INFO}/RECORD", "it is missing"),)
    assert facts.structure == f"{NAME} has no {INFO}/RECORD that can be read"
    facts = gather(without(write(tmp_path / "b", {}), f"{INFO}/METADATA", f"{INFO}/WHEEL"))
    assert facts.headers == Headers()
    assert facts.wheel_tags == frozenset()
    assert "METADATA" in (facts.structure or "")
    facts = gather(without(write(tmp_path / "c", {}), f"{INFO}/RECORD", f"{INFO}/METADATA", f"{INFO}/WHEEL"))
    assert facts.dist_infos == facts.record == ()
    assert "it has: none" in (facts.structure or "")


def test_an_archive_without_members(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / NAME, "w"):
        pass
    facts = gather(tmp_path / NAME)
    assert facts.unreadable is None
    assert "exactly one .dist-info" in (facts.structure or "")


def test_a_second_dist_info_leaves_the_own_one_in_charge(tmp_path: Path) -> None:
    other = "aaa-2.dist-info"
    facts = gather(write(tmp_path, {f"{other}/METADATA": b"Name: aaa\n", f"{other}/RECORD": b"nonsense,"}))
    assert facts.dist_infos == (other, INFO)
    assert facts.headers.name == "demo"
    assert facts.record == ()
    assert "exactly one .dist-info" in (facts.structure or "")


def test_a_dist_info_of_another_project(tmp_path: Path) -> None:
    facts = gather(write(tmp_path, {"demo/x": b"x"}, name="other-2-py3-none-any.whl"))
    assert facts.headers.name == "demo"
    assert facts.record == ()
    assert "belongs to another wheel" in (facts.structure or "")


def test_metadata_that_is_no_text(tmp_path: Path) -> None:
    facts = gather(write(tmp_path, {}, metadata=b"Name: demo\nVersion: 1.0\nSummary: \xff\xfe\nnonsense\n"))
    assert facts.headers.name == "demo"
    assert facts.unreadable is None


def test_texts_above_all_measure_are_left_out(tmp_path: Path) -> None:
    facts = gather(write(tmp_path, {"torch/version.py": b"#" * ((4 << 20) + 1), "torch/__init__.py": b"#"}))
    assert list(facts.texts) == ["torch/__init__.py"]
    assert facts.damaged == facts.record == ()


def test_a_record_of_very_many_files_is_read(tmp_path: Path) -> None:
    """As one of eighty thousand small files is; no other text may be as long."""
    names = [f"demo/{'x' * 50_000}{number}" for number in range(100)]
    path = write(tmp_path, dict.fromkeys(names, b""))
    with zipfile.ZipFile(path) as archive:
        assert archive.getinfo(f"{INFO}/RECORD").file_size > 4 << 20
    facts = gather(path)
    assert (facts.structure, facts.record, facts.damaged) == (None, (), ())


def test_what_is_no_text_in_metadata_can_be_written_as_json(tmp_path: Path) -> None:
    facts = gather(write(tmp_path, {}, metadata=METADATA + b"Odd\xf5: x\nLicense: \xff\xff\n"))
    for text in (*facts.headers.unparsed, facts.headers.license or ""):
        assert text.encode().decode() == text


def test_more_requirements_than_any_package_has(tmp_path: Path) -> None:
    lines = "".join(f"Requires-Dist: x{number}\n" for number in range(10_001))
    headers = gather(write(tmp_path, {}, metadata=METADATA + lines.encode())).headers
    assert len(headers.requires) == 10_000
    assert headers.unparsed == ("Requires-Dist, 10,001 times",)
    fewer = gather(
        write(tmp_path, {}, metadata=METADATA + lines.removesuffix("Requires-Dist: x10000\n").encode())
    )
    assert fewer.headers.unparsed == ()


# Names.


def test_a_member_twice(tmp_path: Path) -> None:
    path = write(tmp_path, {"demo/x": b"x", "torch/version.py": b"first"})
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("torch/version.py", b"second")
    facts = gather(path)
    assert [member.name for member in facts.members].count("torch/version.py") == 2
    assert facts.record == facts.damaged == ()
    assert facts.texts == {"torch/version.py": "second"}
    assert facts.structure == f"{NAME} contains torch/version.py twice"


def renamed(path: Path, old: bytes, new: bytes, *, utf8: bool) -> Path:
    """Other bytes for a name, of the same length, in header and directory."""
    entry, header, _ = place(path, old.decode())
    for at, flags in ((header + 30, header + 6), (entry + 46, entry + 8)):
        put(path, at, new)
        put(path, flags, struct.pack("<H", 0x800 if utf8 else 0))
    return path


def test_names_in_other_alphabets(tmp_path: Path) -> None:
    path = renamed(write(tmp_path, {"demo/xxx": b"x"}), b"demo/xxx", "demo/ü\0".encode(), utf8=True)
    facts = gather(path)
    assert facts.members[0].name == "demo/ü\0"
    assert facts.damaged == ()
    assert "names no file" in (facts.structure or "")
    path = renamed(write(tmp_path, {"demo/xx": b"x"}), b"demo/xx", b"demo/\x81\xff", utf8=False)
    assert gather(path).members[0].name == "demo/ü\xa0"  # code page 437
    assert gather(path).damaged == ()


def test_a_name_that_claims_to_be_utf8(tmp_path: Path) -> None:
    path = renamed(write(tmp_path, {"demo/xx": b"x"}), b"demo/xx", b"demo/\xff\xff", utf8=True)
    assert "utf-8" in unreadable(path)


def test_folders_are_left_out_unless_they_claim_to_have_content(tmp_path: Path) -> None:
    path = write(tmp_path, {"demo/": b"", "demo/odd/": b"content"})
    assert gather(path).members[0].name == "demo/odd/"


def test_data_descriptors_and_bytes_before_the_archive(tmp_path: Path) -> None:
    class Forward:
        def __init__(self, path: Path) -> None:
            self.stream = path.open("wb")

        def write(self, data: bytes) -> int:
            return self.stream.write(data)

        def flush(self) -> None:
            self.stream.flush()

    good = write(tmp_path, {"demo/x": TEXT, "demo/large": LARGE})
    path = tmp_path / "b" / NAME
    path.parent.mkdir()
    forward = Forward(path)
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(forward, "w") as new:
        for info in old.infolist():
            new.writestr(zipfile.ZipInfo(info.filename), old.read(info), zipfile.ZIP_DEFLATED)
    forward.stream.close()
    facts = gather(path)
    assert facts.members[0].flags & 8
    assert facts.damaged == facts.record == ()
    path.write_bytes(b"#!/bin/sh\nexit\n" + path.read_bytes())
    assert gather(path).damaged == gather(path).record == ()


@pytest.mark.slow
def test_a_byte_changed_anywhere_is_found_or_harmless_and_never_an_error(tmp_path: Path) -> None:
    """Every byte of a small wheel, one after the other."""
    names = ["demo/x", "demo/y.py", f"{INFO}/METADATA", f"{INFO}/WHEEL", f"{INFO}/RECORD"]
    path = write(tmp_path, {"demo/x": zlib.compress(TEXT[:3000]), "demo/y.py": TEXT[:1000]})
    good, data = gather(path), path.read_bytes()
    harmless = set()
    for name in names:
        entry, header, start = place(path, name)
        # Versions of tools, flags, times; the number of a disk, internal attributes, those of DOS.
        harmless.update(range(header + 4, header + 8), range(header + 10, header + 14))
        harmless.update(range(entry + 4, entry + 10), range(entry + 12, entry + 16))
        harmless.update(range(entry + 34, entry + 40))
        # The last bits of a stream, up to a whole byte.
        harmless.add(start + struct.unpack_from("<I", data, entry + 20)[0] - 1)
    # Of the last entry, lengths beyond the end; of the end, disks, how many members there are, a comment.
    end = len(data) - 22
    harmless.update(range(entry + 28, entry + 34), range(end + 4, end + 12), range(end + 20, end + 22))
    silent = set()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= (0x01, 0x80, 0xFF)[at % 3]
        path.write_bytes(changed)
        if gather(path, threads=1) == good:
            silent.add(at)
    assert silent <= harmless


def test_facts_are_the_same_for_any_reader(tmp_path: Path) -> None:
    path = large_and_small(tmp_path)
    assert isinstance(gather(path), Facts)
    with zipfile.ZipFile(path) as archive:
        assert [(m.name, m.size, m.packed) for m in gather(path).members] == [
            (info.filename, info.file_size, info.compress_size) for info in archive.infolist()
        ]
