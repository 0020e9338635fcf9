"""ELF headers written by hand, field by field."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rocwright.binary.elf import PT_DYNAMIC, PT_LOAD, foreign, is_elf, read_elf
from rocwright.binary.elf_edits import plan_rpath
from rocwright.binary.patch import BytePatch, PatchedFile
from rocwright.errors import InvalidElf, InvalidInput

STRINGS = b"\0libneeded.so.1\0libself.so\0$ORIGIN/x\0$ORIGIN/y\0LIB_1.0\0"
NEEDED, SELF, X, Y, VERSION = (
    STRINGS.index(s) for s in (b"libn", b"libself", b"$ORIGIN/x", b"$ORIGIN/y", b"LIB_")
)
DYNAMIC_AT, VERNEED_AT, STRINGS_AT, BASE = 0x100, 0x200, 0x240, 0x10000


def library(dynamic: list[tuple[int, int]], *, spare: int = 1, **fields: int) -> bytearray:
    """A library of one load segment at 0x10000, without section headers."""
    data = bytearray(0x400)
    data[:16] = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = {
        "type": 3,
        "machine": 62,
        "phoff": 64,
        "shoff": 0,
        "phentsize": 56,
        "phnum": 2,
        "shnum": 0,
    } | fields
    struct.pack_into(
        "<HHIQQQIHHHHHH", data, 16, header["type"], header["machine"], 1, 0, header["phoff"], header["shoff"],
        0, 64, header["phentsize"], header["phnum"], 64, header["shnum"], 0,
    )  # fmt: skip
    table = b"".join(struct.pack("<qQ", *entry) for entry in [*dynamic, *[(0, 0)] * (1 + spare)])
    struct.pack_into("<IIQQQQQQ", data, 64, PT_LOAD, 6, 0, BASE, BASE, 0x400, 0x400, 0x1000)
    struct.pack_into(
        "<IIQQQQQQ", data, 120, PT_DYNAMIC, 6, DYNAMIC_AT, BASE + DYNAMIC_AT, 0, len(table), len(table), 8
    )
    data[DYNAMIC_AT : DYNAMIC_AT + len(table)] = table
    struct.pack_into("<HHIIIIHHII", data, VERNEED_AT, 1, 1, NEEDED, 16, 0, 0, 0, 2, VERSION, 0)
    data[STRINGS_AT : STRINGS_AT + len(STRINGS)] = STRINGS
    return data


USUAL = [(5, BASE + STRINGS_AT), (10, len(STRINGS)), (1, NEEDED), (14, SELF)]


def write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "lib.so"
    path.write_bytes(data)
    return path


def test_what_the_dynamic_table_says(tmp_path: Path) -> None:
    entries = [*USUAL, (15, X), (29, Y), (0x6FFFFFFE, BASE + VERNEED_AT), (0x6FFFFFFF, 1)]
    path = write(tmp_path, library(entries, spare=3))
    elf = read_elf(path)
    assert is_elf(path)
    assert (elf.kind, elf.machine, elf.size, elf.interp) == ("dyn", 62, 0x400, None)
    assert (elf.soname, elf.needed) == ("libself.so", ("libneeded.so.1",))
    assert (elf.rpath, elf.runpath) == ("$ORIGIN/x", "$ORIGIN/y")
    assert elf.spare_nulls == 3
    assert elf.versions == {"libneeded.so.1": ("LIB_1.0",)}
    assert elf.sections == {}
    assert elf.offset_of(BASE + 0x123) == 0x123


def test_an_object_without_dynamic_table(tmp_path: Path) -> None:
    elf = read_elf(write(tmp_path, library([], type=1, phnum=0)))
    assert (elf.kind, elf.dynamic, elf.needed, elf.rpath) == ("rel", (), (), None)


def test_not_an_elf_file(tmp_path: Path) -> None:
    script = write(tmp_path, b"#!/bin/sh\n")
    assert not is_elf(script)
    assert not is_elf(tmp_path)
    with pytest.raises(InvalidElf, match="not an ELF file"):
        read_elf(script)


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"\x7fELF\1\1\1" + bytes(9) + b"\3\0\3\0", ("dyn", 3)),  # 32 bits, 386
        (b"\x7fELF\1\1\1" + bytes(9) + b"\2\0\x28\0", ("exec", 40)),  # 32 bits, Arm
        (b"\x7fELF\2\2\1" + bytes(9) + b"\0\1\0\x16", ("rel", 22)),  # big-endian, S/390
        (b"\x7fELF\2\1\1" + bytes(9) + b"\3\0\x3e\0", None),  # what read_elf reads
        (b"\x7fELF\3\1\1" + bytes(9) + b"\3\0\3\0", None),
        (b"\x7fELF\1\0\1" + bytes(9) + b"\3\0\3\0", None),
        (b"\x7fELF\1\1\1" + bytes(9) + b"\x63\0\3\0", None),
        (b"\x7fELF\1\1\1", None),
        (b"#!/bin/sh\n" + bytes(20), None),
    ],
)
def test_files_for_machines_of_another_layout(head: bytes, found: tuple[str, int] | None) -> None:
    assert foreign(head) == found


BAD = {
    "32-bit": (4, b"\x01", "64-bit little-endian"),
    "big-endian": (5, b"\x02", "64-bit little-endian"),
    "unknown-type": (16, b"\x63", "unknown ELF type"),
    "header-size": (54, b"\x20", "not of the 64-bit size"),
    "headers-behind-the-end": (32, b"\xf0\x03", "outside the file"),
    "too-many-headers": (56, b"\xf0\xff", "outside the file"),
    "sections-behind-the-end": (40, b"\xf0\xff\x00\x00\x00\x00\x00\x00", "outside the file"),
    "dynamic-behind-the-end": (128, b"\xf0\xff", "outside the file"),
    "string-table-not-loaded": (DYNAMIC_AT + 8, b"\0\0\0\0\0\0\0\x7f", "in no load segment"),
    "string-behind-the-end": (DYNAMIC_AT + 40, b"\xff\xff\xff", "has no end"),
    "no-terminator": (152, b"\x40", "no DT_NULL"),
}


@pytest.mark.parametrize("name", BAD)
def test_contradictory_headers_are_named(tmp_path: Path, name: str) -> None:
    offset, replacement, message = BAD[name]
    data = library(USUAL)
    data[offset : offset + len(replacement)] = replacement
    with pytest.raises(InvalidElf, match=message) as caught:
        read_elf(write(tmp_path, data))
    assert caught.value.where == str(tmp_path / "lib.so")


@pytest.mark.parametrize("length", [0, 3, 20, 63, 100, 0x108])
def test_truncated_files(tmp_path: Path, length: int) -> None:
    with pytest.raises(InvalidElf):
        read_elf(write(tmp_path, library(USUAL)[:length]))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidElf, match="cannot read"):
        read_elf(tmp_path / "absent.so")


def test_reading_through_a_patch(tmp_path: Path) -> None:
    path = write(tmp_path, library([*USUAL, (15, X)]))
    patch = BytePatch(((STRINGS_AT + X, b"$ORIGIN/z"),), 0x400)
    assert read_elf(PatchedFile(path, patch)).rpath == "$ORIGIN/z"


def test_rpath_already_there(tmp_path: Path) -> None:
    elf = read_elf(write(tmp_path, library([*USUAL, (15, X)])))
    assert plan_rpath(elf, ["$ORIGIN/x"]) is None
    assert plan_rpath(elf, ["$ORIGIN/y"]) is not None


def test_a_runpath_with_the_wanted_text_is_still_changed(tmp_path: Path) -> None:
    path = write(tmp_path, library([*USUAL, (29, X)]))
    after = read_elf(PatchedFile(path, plan_rpath(read_elf(path), ["$ORIGIN/x"])))
    assert (after.rpath, after.runpath) == ("$ORIGIN/x", None)


def test_two_tags_become_one(tmp_path: Path) -> None:
    path = write(tmp_path, library([(15, X), *USUAL, (29, Y)]))
    after = read_elf(PatchedFile(path, plan_rpath(read_elf(path), ["$ORIGIN", "$ORIGIN/lib"])))
    assert (after.rpath, after.runpath) == ("$ORIGIN:$ORIGIN/lib", None)
    assert [entry.tag for entry in after.dynamic] == [15, 5, 10, 1, 14]
    assert after.needed == ("libneeded.so.1",)


def test_a_last_null_is_never_used(tmp_path: Path) -> None:
    path = write(tmp_path, library(USUAL, spare=0))
    after = read_elf(PatchedFile(path, plan_rpath(read_elf(path), ["$ORIGIN"])))
    (table,) = after.segments_of(PT_DYNAMIC)
    assert after.rpath == "$ORIGIN"
    assert table.vaddr >= BASE + 0x400  # it moved, and has a terminator, else it could not be read


def test_no_entries_remove_the_tags(tmp_path: Path) -> None:
    path = write(tmp_path, library([*USUAL, (29, X)]))
    after = read_elf(PatchedFile(path, plan_rpath(read_elf(path), [])))
    assert (after.rpath, after.runpath, after.soname) == (None, None, "libself.so")
    assert plan_rpath(after, []) is None


@pytest.mark.parametrize(
    "entries", [["/opt/rocm/lib"], ["lib"], [""], ["$ORIGIN", "$ORIGIN"], ["$ORIGIN:/usr"], ["$ORIGINAL"]]
)
def test_entries_that_hold_on_one_machine_only_are_refused(tmp_path: Path, entries: list[str]) -> None:
    elf = read_elf(write(tmp_path, library(USUAL)))
    with pytest.raises(InvalidInput):
        plan_rpath(elf, entries)


def test_a_static_program_has_no_rpath(tmp_path: Path) -> None:
    elf = read_elf(write(tmp_path, library([], type=2, phnum=1)))
    with pytest.raises(InvalidElf, match="not dynamically linked"):
        plan_rpath(elf, ["$ORIGIN"])
