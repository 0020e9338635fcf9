"""Sound splits have no findings; each way of damaging a library or an archive is found and named."""

from __future__ import annotations

import ctypes
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import zstandard
from kpack_cases import (
    KERNEL,
    OBJECTS,
    SEARCH,
    TARGETS,
    Case,
    build_fat,
    build_of,
    code,
    header_of,
    in_reference_layout,
    put,
    relocation_to,
    section,
    split_case,
    with_plain_archive,
    write_archive,
)

from oracle.fat_library import build_library, linkers
from oracle.kpack_reader import read_kpack
from rocwright.binary.view import mapped
from rocwright.device_code.kpack import Marker, pack_marker, parse_marker, read_archive
from rocwright.device_code.verify.report import KpackReport
from rocwright.device_code.verify.verify import verify
from rocwright.errors import ContractBroken, InvalidInput


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("sound")
    return split_case(folder / "prefix", build_fat(folder / "fat"))


@pytest.fixture
def case(sound: Case, tmp_path: Path) -> Case:
    return sound.copy(tmp_path / "prefix")


def found(report: KpackReport) -> set[str]:
    return {finding.rule for finding in report.findings}


def test_a_split_prefix(sound: Case) -> None:
    report = verify([sound.root])
    assert report.findings == ()
    assert report.passed
    assert report.libraries == ("prefix/lib/libfat.so",)
    assert report.targets == TARGETS
    assert report.objects == OBJECTS
    assert report.identical == 0
    assert [note.text for note in report.notes] == [
        "no code for gfx1100 for wrapper 1",
        "no code for gfx90a:xnack+, gfx90a:xnack- for wrappers 0, 1",
    ]


def test_against_the_original(sound: Case) -> None:
    report = verify([sound.host], against=[sound.fat])
    assert report.findings == ()
    assert report.identical == report.objects == OBJECTS
    assert report.compared


def test_a_library_brings_its_archives_and_nothing_else(sound: Case, tmp_path: Path) -> None:
    case = sound.copy(tmp_path / "prefix")
    (case.root / ".kpack" / "other_gfx942.kpack").write_bytes(b"of somebody else")
    (case.root / ".kpack" / "fat_README.kpack").write_bytes(b"no target in its name")
    report = verify([case.host])
    assert report.findings == ()
    assert len(report.archives) == len(TARGETS)


def test_one_archive_alone(sound: Case) -> None:
    report = verify([sound.archive("gfx942")])
    assert report.passed
    assert (report.libraries, report.archives, report.objects) == ((), ("fat_gfx942.kpack",), 3)


@pytest.mark.parametrize("linker", linkers())
@pytest.mark.parametrize(
    "options",
    [{}, {"relr": True}, {"kind": "pie"}, {"kind": "exec"}, {"with_tail": False}, {"max_page_size": 0x10000}],
    ids=["plain", "relr", "pie", "exec", "no tail", "large pages"],
)
def test_every_kind_of_host(tmp_path: Path, linker: str, options: dict[str, object]) -> None:
    case = split_case(tmp_path / "prefix", build_fat(tmp_path / "fat", linker=linker, **options))
    report = verify([case.root], against=[case.fat])
    assert report.findings == ()
    assert report.identical == OBJECTS


def test_the_layout_of_amds_tool(sound: Case, tmp_path: Path) -> None:
    case = sound.copy(tmp_path / "prefix")
    case.host.unlink()
    in_reference_layout(case.fat, case.host, Marker((SEARCH,), KERNEL, build_of(sound.host)))
    assert ctypes.CDLL(str(case.host)).fat_selftest() == 42
    report = verify([case.root], against=[case.fat])
    assert report.findings == ()
    assert report.identical == OBJECTS


def test_archives_without_compression_and_without_notes_on_origin(case: Case) -> None:
    objects = {(KERNEL, i): code("gfx942", str(i).encode()) for i in range(3)}
    with_plain_archive(case.archive("gfx942"), "gfx942", objects)
    report = verify([case.host], against=[case.fat])
    assert report.findings == ()
    assert report.identical == OBJECTS


def test_a_code_object_of_two_frames(case: Case) -> None:
    """AMD's runtime takes frames in a row for one."""
    data = code("gfx1100", b"0")
    path = case.archive("gfx1100")
    frames = [zstandard.ZstdCompressor().compress(piece) for piece in (data[:999], data[999:])]
    whole = zstandard.ZstdCompressor().compress(data)
    write_archive(path, "gfx1100", {(KERNEL, 0): data, (KERNEL, 2): code("gfx1100", b"2")})
    raw = path.read_bytes()
    at = raw.index(whole)
    joined = b"".join(frames)
    grown = len(joined) - len(whole)
    new = raw[: at - 4] + struct.pack("<I", len(joined)) + joined + raw[at + len(whole) :]
    table_at = struct.unpack_from("<Q", raw, 8)[0] + grown
    table = msgspec.msgpack.decode(new[table_at:])
    table["zstd_size"] += grown
    new = new[:8] + struct.pack("<Q", table_at) + new[16:table_at] + msgspec.msgpack.encode(table)
    path.write_bytes(new)
    assert verify([case.host], against=[case.fat]).findings == ()


# What a report says when one thing is wrong.


def wrapper_at(case: Case, index: int) -> int:
    return section(case.host, ".hipFatBinSegment").offset + 24 * index


def wrapper_address(case: Case, index: int) -> int:
    return section(case.host, ".hipFatBinSegment").addr + 24 * index


def stray_pointer(case: Case) -> None:
    """Some other pointer leads behind the marker, where device code was."""
    own = {wrapper_address(case, i) + 8 for i in range(3)}
    table = section(case.host, ".rela.dyn")
    data = case.host.read_bytes()
    marker = section(case.host, ".rocm_kpack_ref")
    for at in range(table.offset, table.offset + table.size, 24):
        place, kind, _ = struct.unpack_from("<QQq", data, at)
        if kind == 8 and place not in own:
            put(case.host, at + 16, struct.pack("<Q", marker.addr + 0x3000))
            return
    raise LookupError


def bytes_again(case: Case) -> None:
    """The fat library, with the marker's section name on some section."""
    marker = Marker((SEARCH,), KERNEL, build_of(case.host))
    case.host.unlink()
    in_reference_layout(case.fat, case.host, marker)
    at = header_of(case.host, ".hip_fatbin")
    put(case.host, at + 4, struct.pack("<I", 1))


def no_marker(case: Case) -> None:
    at = header_of(case.host, ".rocm_kpack_ref")
    put(case.host, at, struct.pack("<I", 0))


def marker_bytes(case: Case, data: bytes) -> None:
    place = section(case.host, ".rocm_kpack_ref")
    assert len(data) == place.size
    put(case.host, place.offset, data)


def renamed_marker(case: Case, old: bytes, new: bytes) -> None:
    place = section(case.host, ".rocm_kpack_ref")
    raw = case.host.read_bytes()[place.offset : place.offset + place.size]
    marker_bytes(case, raw.replace(old, new))


def archive_with(case: Case, target: str, **changes: object) -> None:
    objects = {
        (KERNEL, i): code(target, str(i).encode()) for i in ((0, 1, 2) if target == "gfx942" else (0, 2))
    }
    objects |= changes.pop("more", {})
    write_archive(case.archive(target), target, objects, **changes)


def frame_byte(case: Case) -> None:
    with mapped(case.archive("gfx942")) as file:
        offset, _ = read_archive(file).blobs[1]
    put(case.archive("gfx942"), offset, b"\0")


def with_table(case: Case, change: Callable[[dict], None]) -> None:
    path = case.archive("gfx942")
    data = path.read_bytes()
    (at,) = struct.unpack_from("<Q", data, 8)
    table = msgspec.msgpack.decode(data[at:])
    change(table)
    path.write_bytes(data[:at] + msgspec.msgpack.encode(table))


def grow_first(table: dict) -> None:
    next(iter(table["toc"].values()))["gfx942"]["original_size"] += 1


def shrink_first(table: dict) -> None:
    next(iter(table["toc"].values()))["gfx942"]["original_size"] -= 1


def second_library(case: Case) -> None:
    """Another library with the same name in archives."""
    (case.root / "lib" / "sub").mkdir()
    data = bytearray(case.host.read_bytes())
    data[-1] ^= 1
    other = case.root / "lib2"
    other.mkdir()
    (other / "libfat.so").write_bytes(data + b"\0")


def copied_elsewhere(case: Case) -> None:
    """The same library again, where it leads to no archive."""
    (case.root / "lib" / "deep").mkdir()
    shutil.copy(case.host, case.root / "lib" / "deep")


def move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)


DAMAGES: dict[str, tuple[Callable[[Case], object], str, str]] = {
    "cut library": (
        lambda c: c.host.write_bytes(c.host.read_bytes()[:-100]),
        "kpack-elf",
        "lies outside the file",
    ),
    "unsound headers": (
        lambda c: put(c.host, header_of(c.host, ".comment") + 32, struct.pack("<Q", 1 << 30)),
        "kpack-elf",
        "section .comment ends behind the file",
    ),
    "fat magic": (
        lambda c: put(c.host, wrapper_at(c, 1), b"FPIH"),
        "kpack-wrapper",
        "wrapper 1 has the magic",
    ),
    "version": (lambda c: put(c.host, wrapper_at(c, 1) + 4, b"\2"), "kpack-wrapper", "has version 2"),
    "number": (
        lambda c: put(c.host, wrapper_at(c, 2) + 16, b"\0"),
        "kpack-wrapper",
        "says that it is number 0",
    ),
    "pointer": (
        lambda c: put(c.host, relocation_to(c.host, wrapper_address(c, 0) + 8) + 16, b"\1"),
        "kpack-wrapper",
        "wrapper 0 leads to",
    ),
    "pointer without relocation": (
        lambda c: put(c.host, relocation_to(c.host, wrapper_address(c, 0) + 8), bytes(8)),
        "kpack-wrapper",
        "its relocations do not match the pointers of the wrappers",
    ),
    "no marker section": (no_marker, "kpack-marker", "no section .rocm_kpack_ref"),
    "marker not in memory": (
        lambda c: put(c.host, header_of(c.host, ".rocm_kpack_ref") + 8, b"\0"),
        "kpack-marker",
        "is not loaded into memory",
    ),
    "no marker inside": (
        lambda c: put(c.host, section(c.host, ".rocm_kpack_ref").offset, b"\xc1"),
        "kpack-marker",
        "this is not a kpack marker",
    ),
    "no section headers": (
        lambda c: (put(c.host, 40, bytes(8)), put(c.host, 60, bytes(4))),
        "kpack-marker",
        "without section headers",
    ),
    "pointer into the hole": (stray_pointer, "kpack-reference", "lead to where device code was"),
    "device code left": (bytes_again, "kpack-leftover", "still has"),
    "another library of the same name": (second_library, "kpack-same-name", "archives know both it and"),
    "other search path": (
        lambda c: renamed_marker(c, b"../.kpack/fat_", b"../.kpakk/fat_"),
        "kpack-unreachable",
        "its code is in .kpack/fat_gfx1100.kpack",
    ),
    "library one directory deeper": (
        lambda c: move(c.host, c.root / "lib" / "deep" / "libfat.so"),
        "kpack-unreachable",
        "for gfx1100 it looks at lib/.kpack/fat_gfx1100.kpack",
    ),
    "a copy one directory deeper": (
        copied_elsewhere,
        "kpack-unreachable",
        "for gfx1100 it looks at lib/.kpack/fat_gfx1100.kpack",
    ),
    "other kernel": (
        lambda c: renamed_marker(c, b"lib/libfat", b"lib/libfit"),
        "kpack-missing",
        "lib/libfit.so",
    ),
    "no code for one wrapper": (
        lambda c: write_archive(
            c.archive("gfx942"), "gfx942", {(KERNEL, i): code("gfx942", str(i).encode()) for i in (0, 2)}
        ),
        "kpack-missing",
        "no archive has code for wrapper 1",
    ),
    "code of nobody": (
        lambda c: archive_with(c, "gfx942", more={("lib/libgone.so", 0): code("gfx942")}),
        "kpack-orphan",
        "lib/libgone.so, a library that is not here",
    ),
    "index of no wrapper": (
        lambda c: archive_with(c, "gfx942", more={(KERNEL, 3): code("gfx942")}),
        "kpack-orphan",
        "lib/libfat.so#3 for gfx942",
    ),
    "code in two archives": (
        lambda c: write_archive(
            c.root / ".kpack" / "more_gfx942.kpack", "gfx942", {(KERNEL, 0): code("gfx942")}, group="more"
        ),
        "kpack-twice",
        "is in prefix/.kpack/fat_gfx942.kpack too",
    ),
    "no archive": (
        lambda c: c.archive("gfx942").write_bytes(b"something else"),
        "kpack-archive",
        "this is not a kpack archive",
    ),
    "cut archive": (
        lambda c: c.archive("gfx942").write_bytes(c.archive("gfx942").read_bytes()[:-3]),
        "kpack-archive",
        "table of contents is malformed",
    ),
    "bytes in the header": (
        lambda c: put(c.archive("gfx942"), 20, b"\1"),
        "kpack-archive",
        "bytes 16 to 64 of its header are not zero",
    ),
    "two targets": (
        lambda c: with_table(c, lambda t: t.update(gfx_arches=["gfx942", "gfx950"])),
        "kpack-archive",
        "it must be for one target",
    ),
    "entry for another target": (
        lambda c: archive_with(c, "gfx942", entry_target="gfx950"),
        "kpack-archive",
        "has entries for gfx950",
    ),
    "ordinal out of range": (
        lambda c: with_table(c, lambda t: t["toc"][f"{KERNEL}#0"]["gfx942"].update(ordinal=3)),
        "kpack-archive",
        "has ordinal 3 of 3",
    ),
    "key twice": (
        lambda c: with_table(c, lambda t: t["toc"].update({r"lib\libfat.so#0": t["toc"][f"{KERNEL}#0"]})),
        "kpack-archive",
        "its table has a key twice",
    ),
    "empty code object": (
        lambda c: archive_with(c, "gfx942", more={(KERNEL, 1): b""}),
        "kpack-archive",
        "lib/libfat.so#1 for gfx942 is empty",
    ),
    "object that no entry names": (
        lambda c: archive_with(c, "gfx942", unused=[code("gfx942", b"?")]),
        "kpack-unused",
        "1 of its 4 code objects have no entry",
    ),
    "renamed archive": (
        lambda c: c.archive("gfx942").rename(c.archive("gfx950")),
        "kpack-name",
        "does not end in _gfx942.kpack",
    ),
    "byte of a frame's magic": (frame_byte, "kpack-code", "lib/libfat.so#1 for gfx942 cannot be unpacked"),
    "size too large": (lambda c: with_table(c, grow_first), "kpack-code", "unpacks to"),
    "size too small": (lambda c: with_table(c, shrink_first), "kpack-code", "unpacks to more than"),
    "code for another chip": (
        lambda c: archive_with(c, "gfx942", more={(KERNEL, 1): code("gfx90a")}),
        "kpack-machine",
        "its header says gfx90a",
    ),
    "other feature": (
        lambda c: write_archive(
            c.archive("gfx90a:xnack-"), "gfx90a:xnack-", {(KERNEL, 2): code("gfx90a:xnack+")}
        ),
        "kpack-machine",
        "its header says xnack+",
    ),
    "feature too many": (
        lambda c: archive_with(c, "gfx942", more={(KERNEL, 1): code("gfx942:xnack-")}),
        "kpack-machine",
        "its header says xnack-",
    ),
    "no code object": (
        lambda c: archive_with(c, "gfx942", more={(KERNEL, 1): b"text" * 1000}),
        "kpack-machine",
        "it is not an AMDGPU code object",
    ),
    "unknown machine": (
        lambda c: archive_with(
            c, "gfx942", more={(KERNEL, 1): code("gfx942")[:48] + b"\xee\1\0\0" + code("gfx942")[52:]}
        ),
        "kpack-machine",
        "its header says machine 0xee",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damages_are_found(case: Case, damage: str) -> None:
    change, rule, text = DAMAGES[damage]
    change(case)
    report = verify([case.root])
    assert not report.passed
    hits = [finding for finding in report.findings if finding.rule == rule]
    assert any(text in finding.cause for finding in hits), report.findings
    assert all(finding.next_step for finding in report.findings)


def test_a_split_library_under_two_names_is_one(case: Case) -> None:
    (case.root / "lib" / "libfat.so.1").write_bytes(case.host.read_bytes())
    assert verify([case.root]).findings == ()


def test_a_fat_library_is_noted(case: Case) -> None:
    (case.root / "lib" / "libwhole.so").write_bytes(case.fat.read_bytes())
    report = verify([case.root])
    assert report.passed
    assert [note.text for note in report.notes if note.rule == "kpack-kept"] == [
        "it holds its device code itself, for gfx1100, gfx90a:xnack+, gfx90a:xnack-, gfx942"
    ]


def test_a_damaged_fat_library_is_noted(case: Case, tmp_path: Path) -> None:
    whole = build_library(tmp_path / "x", bundles=[b"neither bundle nor padding"])
    (case.root / "lib" / "libwhole.so").write_bytes(whole.read_bytes())
    notes = [note.text for note in verify([case.root]).notes if note.rule == "kpack-kept"]
    assert len(notes) == 1
    assert "cannot be read" in notes[0]


def test_nothing_to_verify(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("nothing")
    report = verify([tmp_path])
    assert found(report) == {"kpack-nothing"}
    assert not report.passed


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        verify([tmp_path / "gone"])


def test_a_target_without_a_known_number_is_noted(case: Case) -> None:
    write_archive(case.archive("gfx1255"), "gfx1255", {(KERNEL, 0): code("gfx942")})
    report = verify([case.root])
    assert report.passed
    assert ("kpack-unknown-target", "gfx1255") in {(note.rule, note.file) for note in report.notes}


def test_code_may_be_repeated_for_a_more_specific_target(tmp_path: Path) -> None:
    """Wrapper 0 has code for plain gfx90a only; the archive for gfx90a:xnack- holds it again."""
    from oracle.fat_library import bundle

    bundles = [
        bundle([("gfx90a", code("gfx90a", b"0"))]),
        bundle([("gfx90a", code("gfx90a", b"1")), ("gfx90a:xnack-", code("gfx90a:xnack-", b"1"))]),
    ]
    case = split_case(tmp_path / "prefix", build_library(tmp_path / "fat", bundles=bundles))
    report = verify([case.root], against=[case.fat])
    assert report.findings == ()
    with mapped(case.archive("gfx90a:xnack-")) as file:
        assert {entry.index for entry in read_archive(file).entries} == {0, 1}
    # Not any code may stand in: here that of the other wrapper.
    write_archive(
        case.archive("gfx90a:xnack-"),
        "gfx90a:xnack-",
        {(KERNEL, 0): code("gfx90a:xnack-", b"1"), (KERNEL, 1): code("gfx90a:xnack-", b"1")},
    )
    assert found(verify([case.root], against=[case.fat])) == {"kpack-differs"}


def test_long_lists_are_cut(case: Case) -> None:
    archive_with(case, "gfx942", more={(KERNEL, i): code("gfx942") for i in range(3, 30)})
    causes = [finding.cause for finding in verify([case.root]).findings if finding.rule == "kpack-orphan"]
    assert len(causes) == 9
    assert causes[-1] == "and 19 more of this kind"


def test_a_bomb_takes_no_memory(case: Case) -> None:
    """A frame of kilobytes that claims, and holds, far more than a thread's buffer."""
    import resource

    size = 1 << 30
    packer = zstandard.ZstdCompressor(level=1).compressobj(size=size)
    frame = b"".join(packer.compress(bytes(1 << 22)) for _ in range(size >> 22)) + packer.flush()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = case.archive("gfx942")
    from rocwright.device_code.kpack import ArchiveWriter, Entry

    with path.open("wb") as stream:
        writer = ArchiveWriter(stream, "fat", "gfx942")
        for index in range(3):
            writer.enter(Entry(KERNEL, index, "gfx942", writer.add(frame), size))
        writer.close()
    assert "kpack-machine" in found(verify([path]))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10


@pytest.mark.parametrize("seed", range(4))
def test_random_damage_never_raises(case: Case, seed: int) -> None:
    """Findings or none, whatever the bytes; most damage is done to headers and tables."""
    dice = random.Random(seed)
    paths = [case.host, *(case.archive(target) for target in TARGETS)]
    good = {path: path.read_bytes() for path in paths}
    damaged = 0
    for _ in range(25):
        path = dice.choice(paths)
        data = bytearray(good[path])
        for _ in range(dice.choice((1, 2, 8))):
            ends = (dice.randrange(700), len(data) - 1 - dice.randrange(1500), dice.randrange(len(data)))
            at = max(0, min(dice.choice(ends), len(data) - 4))
            data[at : at + 4] = dice.choice((b"\xff\xff\xff\xff", b"\0\0\0\x80", dice.randbytes(4)))
        path.write_bytes(data[: dice.choice((len(data), len(data), dice.randrange(len(data))))])
        damaged += not verify([case.root], against=[case.fat]).passed
        path.write_bytes(good[path])
    assert damaged > 10


def test_a_bit_that_flips_in_packed_code_is_found_without_the_original(case: Case) -> None:
    """Each frame carries a checksum, which AMD's reader compares, too."""
    path = case.archive("gfx942")
    good = path.read_bytes()
    (table_at,) = struct.unpack_from("<Q", good, 8)
    whole, harmless = read_kpack(good).entries, 0
    for at in range(64, table_at, max(1, (table_at - 64) // 50)):
        bad = good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :]
        path.write_bytes(bad)
        if verify([case.root]).passed:
            # One of a frame's flags means nothing.
            harmless += 1
            assert read_kpack(bad).entries == whole, at
    assert harmless < 5


def test_a_report_as_json(case: Case) -> None:
    put(case.host, wrapper_at(case, 1), b"FPIH")
    report = verify([case.root])
    data = msgspec.json.decode(msgspec.json.encode(report.predicate()))
    assert data["passed"] is False
    assert data["schema"] == "rocwright.kpack-report/1"
    assert msgspec.convert(
        {k: v for k, v in data.items() if k not in ("passed", "errors", "warnings")}, KpackReport
    )
    with pytest.raises(ContractBroken, match="wrapper 1 has the magic"):
        report.raise_for_errors()


def test_the_marker_written_is_the_marker_read(sound: Case) -> None:
    place = section(sound.host, ".rocm_kpack_ref")
    data = sound.host.read_bytes()[place.offset : place.offset + place.size]
    read = parse_marker(data)
    assert (read.search_paths, read.kernel) == ((SEARCH,), KERNEL)
    assert pack_marker(read) == data
