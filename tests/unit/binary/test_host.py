"""Where a host file gets room for what lies behind its device code, and what becomes of the file."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from needs import needs, needs_lld
from oracle import splitting
from oracle.elf_image import INTERP, NOTE, PHDR, PROPERTY, RELRO, read_image
from oracle.fat_library import build_library, bundle, code_object
from oracle.splitting import Split
from rocwright.device_code.split import Kept

pytestmark = needs("gcc", "objcopy", "readelf", "strip")

CODE = 400_000
NO_ROOM = Kept("its program header table has no room for one more segment")


def split(tmp_path: Path, size: int = CODE, **how: Any) -> Split | Kept | None:
    bundles = [bundle([("gfx942", code_object(0x4C, b"\xa5" * size))])]
    return splitting.split(build_library(tmp_path / "in", bundles=bundles, **how), tmp_path / "out")


def right(done: Split | Kept | None, tmp_path: Path) -> Split:
    """A split without a finding, that works in memory."""
    assert isinstance(done, Split), done
    assert splitting.findings(done) == []
    assert splitting.runs(done.host) == ""
    assert splitting.loads(done, "gfx942", tmp_path) == []
    return done


def saved(done: Split) -> int:
    return done.original.stat().st_size - done.host.stat().st_size


# -- ways to get a program header --------------------------------------------------------------------------


@pytest.mark.parametrize("linker", ["bfd", pytest.param("lld", marks=needs_lld)])
@pytest.mark.parametrize("kind", ["so", "pie", "exec"])
def test_nothing_lies_behind_the_code(tmp_path: Path, linker: str, kind: str) -> None:
    done = right(split(tmp_path, linker=linker, kind=kind, with_tail=False), tmp_path)
    old = read_image(done.original)
    (code,) = (section for section in old.sections if section.name == ".hip_fatbin")
    # GNU ld since 2.44 lays a note of a program's start files there.
    notes_behind = any(note.vaddr > code.addr for note in old.of(NOTE))
    assert splitting.room(done) == ("slot" if notes_behind else "not needed")
    assert len(read_image(done.host).segments) == len(old.segments)
    assert saved(done) > CODE - 2 * 4096


@needs_lld
def test_a_library_gives_up_the_header_that_only_programs_need(tmp_path: Path) -> None:
    done = right(split(tmp_path, linker="lld"), tmp_path)
    assert splitting.room(done) == "slot"
    old, new = read_image(done.original), read_image(done.host)
    assert len(old.of(PHDR)) == 1 and not new.of(PHDR)
    assert len(new.segments) == len(old.segments) and len(new.loads()) == len(old.loads()) + 1
    assert saved(done) > CODE - 2 * 4096


@pytest.mark.parametrize("kind", ["pie", "exec"])
def test_a_program_gives_up_a_header_that_repeats_a_note(tmp_path: Path, kind: str) -> None:
    done = right(split(tmp_path, kind=kind), tmp_path)
    if not read_image(done.original).of(PROPERTY):
        pytest.skip("this compiler's start files have no GNU property note")
    assert splitting.room(done) == "slot"
    (gone,) = read_image(done.original).of(PROPERTY)
    notes = {(note.vaddr, note.filesz) for note in read_image(done.host).of(NOTE)}
    assert (gone.vaddr, gone.filesz) in notes


@pytest.mark.parametrize("page", [4 << 10, 64 << 10])
def test_the_writable_segment_begins_earlier_and_relro_protects_that_part(tmp_path: Path, page: int) -> None:
    done = right(split(tmp_path, max_page_size=page), tmp_path)
    assert splitting.room(done) == "join"
    new = read_image(done.host)
    tail = next(section for section in new.sections if section.name == ".fat_tail")
    (relro,) = new.of(RELRO)
    assert relro.vaddr <= tail.addr < tail.addr + tail.size <= relro.end
    assert new.rights(tail.addr, tail.size) == {4}
    assert saved(done) > CODE - 3 * page


def test_read_only_data_never_becomes_writable_for_good(tmp_path: Path) -> None:
    """Without RELRO nothing would protect it again."""
    assert split(tmp_path, relro=False) == NO_ROOM
    assert not (tmp_path / "out").exists()


@needs_lld
@pytest.mark.parametrize("kind", ["so", "pie", "exec"])
def test_instructions_behind_the_code_stay_executable(tmp_path: Path, kind: str) -> None:
    done = split(tmp_path, linker="lld", kind=kind, ldflags=["-Wl,--no-rosegment"])
    assert done == NO_ROOM or right(done, tmp_path)


@needs_lld
@pytest.mark.parametrize("kind", ["pie", "exec"])
def test_interpreter_and_notes_move_beside_the_marker(tmp_path: Path, kind: str) -> None:
    done = right(split(tmp_path, linker="lld", kind=kind), tmp_path)
    assert splitting.room(done) == "notes"
    old, new = read_image(done.original), read_image(done.host)
    assert len(new.segments) == len(old.segments) + 1
    (before,), (after,) = old.of(INTERP), new.of(INTERP)
    fatbin = next(section for section in old.sections if section.name == ".hip_fatbin")
    assert fatbin.addr <= after.vaddr < fatbin.addr + 4096
    assert old.read(before.vaddr, before.filesz) == new.read(after.vaddr, after.filesz)


@needs_lld
@pytest.mark.parametrize("kind", ["pie", "exec"])
@pytest.mark.parametrize("flags", ["aw", "ax"])
def test_notes_gain_no_rights(tmp_path: Path, kind: str, flags: str) -> None:
    done = split(tmp_path, linker="lld", kind=kind, fatbin_flags=flags)
    assert done == NO_ROOM or right(done, tmp_path)


# -- places of the code ------------------------------------------------------------------------------------


@pytest.mark.parametrize("linker", ["bfd", pytest.param("lld", marks=needs_lld)])
def test_code_in_a_segment_of_its_own_far_away(tmp_path: Path, linker: str) -> None:
    """Nothing lies around it; with bfd address and file offset differ."""
    flags = ["-Wl,--section-start=.hip_fatbin=0x4000000"]
    done = right(split(tmp_path, linker=linker, with_tail=False, ldflags=flags), tmp_path)
    fatbin = next(s for s in read_image(done.original).sections if s.name == ".hip_fatbin")
    assert fatbin.addr == 0x4000000 and (fatbin.offset != fatbin.addr or linker == "lld")
    assert saved(done) > CODE - 2 * 4096


def test_code_first_in_its_segment(tmp_path: Path) -> None:
    """Then the marker is put at its end, right before what follows."""
    script = tmp_path / "script"
    script.write_text(
        "SECTIONS { .hip_fatbin 0x3000000 : { *(.hip_fatbin) } .fat_tail : { *(.fat_tail) } }"
        " INSERT AFTER .bss;\n"
    )
    done = right(split(tmp_path, ldflags=[f"-Wl,-T,{script}"]), tmp_path)
    assert splitting.room(done) == "not needed"
    old, new = read_image(done.original), read_image(done.host)
    fatbin = next(s for s in old.sections if s.name == ".hip_fatbin")
    marker = next(s for s in new.sections if s.name == ".rocm_kpack_ref")
    assert any(load.vaddr == fatbin.addr for load in old.loads())
    assert marker.addr + marker.size == fatbin.addr + fatbin.size
    assert saved(done) > CODE - 2 * 4096


@pytest.mark.parametrize("page", [16 << 10, 64 << 10, 2 << 20])
def test_a_hole_smaller_than_the_alignment_stays_in_the_file(tmp_path: Path, page: int) -> None:
    done = right(split(tmp_path, size=9000, max_page_size=page, kind="pie"), tmp_path)
    assert splitting.room(done) == "not needed"
    fatbin = next(s for s in read_image(done.original).sections if s.name == ".hip_fatbin")
    assert b"\xa5" * 5000 in done.original.read_bytes()
    assert fatbin.size < page and b"\xa5" * 5000 not in done.host.read_bytes()


@pytest.mark.parametrize("extra", range(-2, 3))
def test_every_length_around_a_page_boundary(tmp_path: Path, extra: int) -> None:
    """The header of a bundle takes its first page, the code starts in the second."""
    done = right(split(tmp_path, size=2 * 4096 - 64 + extra, kind="pie"), tmp_path)
    lengths = {s.name: s.size for s in read_image(done.original).sections}
    assert lengths[".hip_fatbin"] == 3 * 4096 + extra


def test_what_only_the_file_holds_moves_along(tmp_path: Path) -> None:
    """Debug data and comments behind the segments, and the mode of the file."""
    more = (
        '.section .debug_test,"",@progbits\n.ascii "debug data"\n.section .fat_note,"",@note\n.long 4,4,1\n'
    )
    done = right(split(tmp_path, extra_asm=more + '.ascii "abc\\0"\n.long 7\n'), tmp_path)
    new = read_image(done.host)
    section = next(s for s in new.sections if s.name == ".debug_test")
    assert new.data[section.offset :][:10] == b"debug data"
    assert done.host.stat().st_mode == done.original.stat().st_mode


@pytest.mark.parametrize("extended", ["shnum", "shstrndx"])
def test_counts_that_the_first_section_header_holds(tmp_path: Path, extended: str) -> None:
    """e_shnum 0 and e_shstrndx 0xffff say: look there."""
    bundles = [bundle([("gfx942", code_object(0x4C, b"\xa5" * CODE))])]
    library = build_library(tmp_path / "in", bundles=bundles)
    data = bytearray(library.read_bytes())
    (table,), (count, names) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HH", data, 60)
    if extended == "shnum":
        struct.pack_into("<H", data, 60, 0)
        struct.pack_into("<Q", data, table + 32, count)
    else:
        struct.pack_into("<H", data, 62, 0xFFFF)
        struct.pack_into("<I", data, table + 40, names)
    library.write_bytes(data)
    done = splitting.split(library, tmp_path / "out")
    assert isinstance(done, Split)
    assert splitting.runs(done.host) == ""
    assert splitting.archive_findings(done) == []
    shown = subprocess.run(["readelf", "-SW", done.host], capture_output=True, text=True)
    assert ".rocm_kpack_ref" in shown.stdout and not shown.stderr
