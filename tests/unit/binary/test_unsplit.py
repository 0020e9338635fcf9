"""Split libraries set back to fat ones: second readers and the loader find the original's code objects."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from needs import find_llvm_tool, need, needs, needs_lld
from oracle import loader, splitting
from oracle.elf_image import read_image
from oracle.fat_library import build_library, bundle, ccob, code_object
from oracle.fatbin_walk import Wrapper, walk
from oracle.kpack_reader import read_kpack
from rocwright.binary.elf import read_elf
from rocwright.binary.soundness import problems
from rocwright.device_code.archives import split_library
from rocwright.device_code.identity import host_identity
from rocwright.device_code.kpack import Marker, read_archive
from rocwright.device_code.source import open_path
from rocwright.device_code.split_file import read_split
from rocwright.device_code.tree.split import split_tree
from rocwright.device_code.unsplit import TargetChoice, plan_fat, prove_fat
from rocwright.device_code.unsplit_library import unsplit_library
from rocwright.device_code.wrappers import read_wrappers
from rocwright.errors import (
    IntegrityError,
    InvalidArchive,
    InvalidElf,
    InvalidInput,
    RocwrightError,
    UsageError,
)
from unit.check.kpack_cases import in_reference_layout

pytestmark = needs("gcc", "objcopy", "readelf", "strip")

MACH = {"gfx90a": 0x3F, "gfx942": 0x4C, "gfx1100": 0x41}
FEATURES = {"xnack-": 0x200, "xnack+": 0x300}


def code(target: str, number: int, size: int = 5000) -> bytes:
    """A code object that no other target and number give."""
    base, *features = target.split(":")
    noise = random.Random(f"{target} {number}").randbytes(size + 7 * number)
    return code_object(MACH[base], noise, features=sum(FEATURES[name] for name in features))


def unit(number: int, *targets: str) -> dict[str, bytes]:
    return {target: code(target, number) for target in targets}


# The second unit has no code for gfx90a and the plain target's for its variant, the third no variant at all;
# two wrappers lead to the third.
UNITS = [
    unit(0, "gfx90a:xnack-", "gfx90a:xnack+", "gfx942", "gfx1100"),
    unit(1, "gfx942", "gfx1100"),
    unit(2, "gfx90a", "gfx942"),
]
WRAPPERS = (0, 1, 2, 2)


def build(place: Path, units: Sequence[dict[str, bytes]] = UNITS, **layout: object) -> Path:
    version = layout.pop("ccob", None)
    bundles = [bundle(one.items()) for one in units]
    if version is not None:
        bundles = [ccob(one, version) for one in bundles]
    chosen = WRAPPERS if units is UNITS else None
    return build_library(place, bundles=bundles, wrappers=chosen, **layout)


def device(library: Path) -> list[dict[str, bytes]]:
    """Code by target of each wrapper, as the second reader finds it."""
    found = []
    for wrapper in walk(library):
        assert next(iter(wrapper.entries)) == "host-x86_64-unknown-linux-gnu-"
        assert wrapper.entries["host-x86_64-unknown-linux-gnu-"].size == 0
        found.append({name.rpartition("--")[2]: one.data or b"" for name, one in wrapper.device.items()})
    return found


def archives(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((place / ".kpack").iterdir())}


def only(units: Sequence[dict[str, bytes]], *targets: str) -> list[dict[str, bytes]]:
    return [{target: data for target, data in one.items() if target in targets} for one in units]


EXPECTED = [UNITS[number] for number in WRAPPERS]

LAYOUTS: dict[str, dict[str, object]] = {
    "a library": {},
    "nothing behind": {"with_tail": False},
    "nothing behind, writable": {"with_tail": False, "fatbin_flags": "aw"},
    "packed relocations": {"relr": True},
    "without relro": {"relro": False, "with_tail": False},
    "compressed bundles": {"ccob": 3},
    "a program": {"kind": "pie"},
    "a program at a fixed address": {"kind": "exec"},
    "large pages": {"max_page_size": 0x10000, "with_tail": False},
    "lld": {"linker": "lld"},
    "lld, a program": {"linker": "lld", "kind": "pie"},
    "lld, packed relocations": {"linker": "lld", "relr": True},
}


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(layout, id=name, marks=needs_lld if "lld" in name else ())
        for name, layout in LAYOUTS.items()
    ],
)
def test_what_was_split_comes_back_and_splits_as_before(layout: dict[str, object], tmp_path: Path) -> None:
    library = build(tmp_path / "in", **layout)
    first = split_library(library, tmp_path / "split")
    assert first is not None and first.kept is None
    done = unsplit_library(tmp_path / "split" / library.name, tmp_path / "fat")
    fat = tmp_path / "fat" / library.name
    # 4 + 2 + 2 + 2; what the split repeats for gfx90a:xnack- and + is not there twice.
    assert (done.objects, done.identical, done.fat_size) == (10, 10, fat.stat().st_size)
    assert done.targets == ("gfx90a", "gfx90a:xnack+", "gfx90a:xnack-", "gfx942", "gfx1100")
    assert device(fat) == device(library) == EXPECTED
    assert [(one.vaddr, one.form) for one in walk(fat)] == [(one.vaddr, "raw") for one in walk(library)]
    assert len({wrapper.pointer for wrapper in walk(fat)}) == 3
    assert problems(read_elf(fat)) == []
    assert splitting.runs(fat) == ""
    names = [section.name for section in read_image(fat).sections]
    assert names.count(".hip_fatbin") == 1 and ".rocm_kpack_ref" not in names
    assert b"kpack_search_paths" not in fat.read_bytes()
    again = split_library(fat, tmp_path / "again")
    assert again is not None and again.kept is None
    assert archives(tmp_path / "again") == archives(tmp_path / "split")


@pytest.mark.slow
def test_a_host_that_was_split_twice_is_sound(tmp_path: Path) -> None:
    library = build(tmp_path / "in")
    split_library(library, tmp_path / "split")
    unsplit_library(tmp_path / "split/libfat.so", tmp_path / "fat")
    done = splitting.split(tmp_path / "fat/libfat.so", tmp_path / "again")
    assert isinstance(done, splitting.Split)
    assert splitting.findings(done) == []
    assert splitting.loads(done, "gfx942", tmp_path / "work") == []
    # And so on: the second fat library is of the same content.
    split_library(tmp_path / "fat/libfat.so", tmp_path / "more")
    unsplit_library(tmp_path / "more/libfat.so", tmp_path / "most")
    assert device(tmp_path / "most/libfat.so") == EXPECTED
    assert splitting.runs(tmp_path / "most/libfat.so") == ""


TOOLS = {
    "strip": ["strip"],
    "llvm-strip": ["llvm-strip"],
    "objcopy": ["objcopy", "--strip-unneeded"],
    "patchelf": ["patchelf", "--set-rpath", "$ORIGIN/" + "../" * 60],
}


def use(tool: str, file: Path) -> None:
    need(tool)
    program, *words = TOOLS[tool]
    subprocess.run([find_llvm_tool(program) or program, *words, file], check=True, capture_output=True)


def require_loaded(fat: Path, library: Path, place: Path) -> None:
    """The loader gets the original's code from fat wrappers at the original's places."""
    for isa in ("gfx942", "gfx1100"):
        before = loader.load(library, isa=isa, workdir=place)
        after = loader.load(fat, isa=isa, workdir=place)
        assert (after.error, after.error_now) == ("", "")
        assert [one.magic for one in after] == [loader.HIPF] * 4
        assert [one.wrapper for one in after] == [one.wrapper for one in before]
        assert [(one.low, one.high) for one in after] == [(0, 0)] * 4
        assert [one.reason for one in after] == [one.reason for one in before]
        loaded = [None if one.reason else one.read() for one in after]
        assert loaded == [one.get(isa) for one in EXPECTED]


@pytest.mark.parametrize("linker", ["bfd", pytest.param("lld", marks=needs_lld)])
@pytest.mark.parametrize("tool", [None, *TOOLS])
def test_the_loader_finds_fat_wrappers_also_after_the_next_tools(
    tool: str | None, linker: str, tmp_path: Path
) -> None:
    library = build(tmp_path / "in", linker=linker)
    split_library(library, tmp_path / "split")
    unsplit_library(tmp_path / "split/libfat.so", tmp_path / "fat")
    if tool is not None:
        use(tool, tmp_path / "fat/libfat.so")
    shutil.rmtree(tmp_path / "split")  # no archive is looked for
    require_loaded(tmp_path / "fat/libfat.so", library, tmp_path / "work")


@pytest.mark.parametrize("linker", ["bfd", pytest.param("lld", marks=needs_lld)])
@pytest.mark.parametrize("tool", TOOLS)
def test_a_host_that_other_tools_changed_is_set_back(tool: str, linker: str, tmp_path: Path) -> None:
    """A run path makes its identity another one than the marker says, which is that of the split."""
    library = build(tmp_path / "in", linker=linker)
    split_library(library, tmp_path / "split")
    use(tool, tmp_path / "split/libfat.so")
    done = unsplit_library(tmp_path / "split/libfat.so", tmp_path / "fat")
    assert done.identical == 10 and device(tmp_path / "fat/libfat.so") == EXPECTED
    require_loaded(tmp_path / "fat/libfat.so", library, tmp_path / "work")
    assert splitting.runs(tmp_path / "fat/libfat.so") == ""


def test_a_host_that_is_split_has_the_identity_of_the_fat_one(tmp_path: Path) -> None:
    library = build(tmp_path / "in")
    split_library(library, tmp_path / "split")
    unsplit_library(tmp_path / "split/libfat.so", tmp_path / "fat")
    found = set()
    for path in (library, tmp_path / "split/libfat.so", tmp_path / "fat/libfat.so"):
        elf, file = read_elf(path), open_path(path)
        found.add(host_identity(elf, file, read_wrappers(elf, file)))
    assert len(found) == 1


def test_only_the_targets_that_are_asked_for(tmp_path: Path) -> None:
    library = build(tmp_path / "in")
    split_library(library, tmp_path / "split")
    for number, (wanted, targets) in enumerate(
        [
            (["gfx942"], ("gfx942",)),
            (["gfx942", "gfx1100"], ("gfx942", "gfx1100")),
            (["gfx90a"], ("gfx90a", "gfx90a:xnack+", "gfx90a:xnack-")),
            # On that GPU the code for the plain target runs, too, where there is no other.
            (["gfx90a:xnack-"], ("gfx90a", "gfx90a:xnack-")),
        ]
    ):
        place = tmp_path / str(number)
        done = unsplit_library(tmp_path / "split/libfat.so", place, targets=wanted)
        assert done.targets == targets
        assert device(place / "libfat.so") == only(EXPECTED, *targets)
        assert splitting.runs(place / "libfat.so") == ""
    found = loader.load(tmp_path / "3/libfat.so", isa="gfx90a:xnack-", workdir=tmp_path / "work")
    assert [one.reason == "" for one in found] == [True, False, True, True]
    assert found[0].read() == UNITS[0]["gfx90a:xnack-"] and found[2].read() == UNITS[2]["gfx90a"]


def test_archives_in_the_other_parts_of_a_split_are_found(tmp_path: Path) -> None:
    library = build(tmp_path / "rocm/lib")
    shutil.rmtree(library.parent / ".build")
    split_tree(tmp_path / "rocm", tmp_path / "split")
    unsplit_library(tmp_path / "split/generic/lib/libfat.so", tmp_path / "fat")
    assert device(tmp_path / "fat/libfat.so") == EXPECTED


def test_the_mode_stays_and_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    library = build(tmp_path / "in")
    split_library(library, tmp_path / "split")
    (tmp_path / "split/libfat.so").chmod(0o750)
    planned = unsplit_library(tmp_path / "split/libfat.so", tmp_path / "fat", dry_run=True)
    assert not (tmp_path / "fat").exists() and planned.identical == 0
    done = unsplit_library(tmp_path / "split/libfat.so", tmp_path / "fat")
    assert (planned.fat_size, planned.objects, planned.targets) == (done.fat_size, done.objects, done.targets)
    assert (tmp_path / "fat/libfat.so").stat().st_mode & 0o777 == 0o750
    before = (tmp_path / "fat/libfat.so").read_bytes()
    (tmp_path / "fat/libfat.so").write_bytes(b"of an earlier run")
    unsplit_library(tmp_path / "split/libfat.so", tmp_path / "fat")
    assert (tmp_path / "fat/libfat.so").read_bytes() == before


def damaged_code(data: bytearray, wrappers: Sequence[Wrapper]) -> None:
    data[wrappers[1].offset + 5000] ^= 1


def swapped_code(data: bytearray, wrappers: Sequence[Wrapper]) -> None:
    """Two entries of a bundle change places, each with its own size and offset."""
    for name in (b"gfx942", b"gfx1100"):
        assert data.count(name, wrappers[1].offset, wrappers[1].offset + 300) == 1
    at = data.index(b"gfx1100", wrappers[1].offset) - 25 - 24
    other = data.index(b"gfx942", wrappers[1].offset) - 25 - 24
    data[at : at + 16], data[other : other + 16] = data[other : other + 16], data[at : at + 16]


def lost_code(data: bytearray, wrappers: Sequence[Wrapper]) -> None:
    """The bundle says that it has one entry less."""
    data[wrappers[1].offset + 24] -= 1


def another_bundle(data: bytearray, wrappers: Sequence[Wrapper]) -> None:
    """The relocation of wrapper 0 leads to the bundle of wrapper 1."""
    old, new = (struct.pack("<QQ", 8, wrapper.pointer) for wrapper in wrappers[:2])
    at = data.index(old)
    data[at : at + 16] = new


@pytest.mark.parametrize("damage", [damaged_code, swapped_code, lost_code, another_bundle])
def test_what_was_written_is_read_again(damage: Callable[..., None], tmp_path: Path) -> None:
    """The proof itself: it takes the file as written, and none that differs in code."""
    library = build(tmp_path / "in")
    split_library(library, tmp_path / "split")
    split = read_split("libfat.so", open_path(tmp_path / "split/libfat.so"))
    assert split is not None
    its = [read_archive(open_path(path)) for path in sorted((tmp_path / "split/.kpack").iterdir())]
    plan = plan_fat(split, its, TargetChoice())
    fat = tmp_path / "fat.so"
    fat.write_bytes(b"".join(plan.pieces()))
    assert prove_fat(plan, open_path(fat)) == 10
    data = bytearray(fat.read_bytes())
    damage(data, list(walk(fat)))
    (tmp_path / "damaged.so").write_bytes(data)
    with pytest.raises(IntegrityError, match=r"libfat\.so: .*put back"):
        prove_fat(plan, open_path(tmp_path / "damaged.so"))


# -- archives of other writers -----------------------------------------------------------------------------


def rewrite_table(archive: Path, change: Callable[[dict[str, object]], None]) -> None:
    """Change the table of an archive, which is the last in it."""
    data = archive.read_bytes()
    (start,) = struct.unpack_from("<Q", data, 8)
    table = msgspec.msgpack.decode(data[start:])
    change(table)
    archive.write_bytes(data[:start] + msgspec.msgpack.encode(table))


def nameless(archive: Path) -> None:
    """As AMD's tool writes it: no build, no ids."""

    def change(table: dict[str, object]) -> None:
        table.pop("host_builds")
        for rows in table["toc"].values():
            for row in rows.values():
                row.pop("metadata")

    rewrite_table(archive, change)


def test_archives_that_name_neither_build_nor_ids(tmp_path: Path) -> None:
    units = [unit(0, "gfx942", "gfx1100"), unit(1, "gfx942", "gfx1100")]
    library = build(tmp_path / "in", units)
    split_library(library, tmp_path / "split")
    for path in (tmp_path / "split/.kpack").iterdir():
        nameless(path)
        read_kpack(path)
    unsplit_library(tmp_path / "split/libfat.so", tmp_path / "fat")
    assert device(tmp_path / "fat/libfat.so") == units


@pytest.mark.parametrize("layout", [{}, {"with_tail": False}], ids=["tail", "last"])
def test_the_layout_of_amds_own_tool(layout: dict[str, object], tmp_path: Path) -> None:
    """An imitation of it: an empty `.hip_fatbin`, the marker in a segment of its own, no build named."""
    library = build(tmp_path / "in", **layout)
    split_library(library, tmp_path / "split")
    host = tmp_path / "split/libfat.so"
    in_reference_layout(library, host, Marker((".kpack/libfat.so_@GFXARCH@.kpack",), "libfat.so"))
    for path in (tmp_path / "split/.kpack").iterdir():
        nameless(path)
    # The repeated code of gfx90a is that of its variants, too, where no id tells.
    unsplit_library(host, tmp_path / "fat", targets=["gfx942", "gfx1100"])
    fat = tmp_path / "fat/libfat.so"
    assert device(fat) == only(EXPECTED, "gfx942", "gfx1100")
    assert splitting.runs(fat) == ""
    found = loader.load(fat, isa="gfx942", workdir=tmp_path / "work")
    assert [one.read() for one in found] == [one["gfx942"] for one in EXPECTED]
    again = split_library(fat, tmp_path / "again")
    assert again is not None and again.kept is None


# -- what is refused ---------------------------------------------------------------------------------------


@pytest.fixture
def split(tmp_path: Path) -> Path:
    """The directory of a split library."""
    split_library(build(tmp_path / "in"), tmp_path / "split")
    return tmp_path / "split"


def refused(split: Path, kind: type[RocwrightError], targets: Sequence[str] = ()) -> str:
    """The error's text; there is no output, and no trace of one."""
    out = split.parent / "fat"
    for dry_run in (True, False):
        with pytest.raises(kind) as caught:
            unsplit_library(split / "libfat.so", out, targets=targets, dry_run=dry_run)
        assert type(caught.value) is kind
        assert not out.exists() or not list(out.iterdir())
    return f"{caught.value}\n{caught.value.next_step}"


def test_a_target_without_archive_names_those_at_hand(split: Path) -> None:
    text = refused(split, InvalidInput, ["gfx950", "gfx942"])
    assert "for gfx950\n" in text
    assert "there are: gfx90a gfx90a:xnack+ gfx90a:xnack- gfx942 gfx1100;" in text


def test_no_archives(split: Path) -> None:
    shutil.rmtree(split / ".kpack")
    assert "its archives are not beside it" in refused(split, InvalidInput)


def test_no_split_library(split: Path) -> None:
    shutil.copy(split.parent / "in/libfat.so", split / "libfat.so")
    assert "is not split" in refused(split, InvalidInput)
    (split / "libfat.so").write_text("text")
    assert "is not split" in refused(split, InvalidInput)


def test_an_archive_of_another_build(split: Path, tmp_path: Path) -> None:
    other = build(tmp_path / "other", extra_asm=".section .rodata\n.zero 64\n")
    split_library(other, tmp_path / "strange")
    shutil.copy(tmp_path / "strange/.kpack/libfat.so_gfx942.kpack", split / ".kpack")
    text = refused(split, InvalidInput)
    assert "libfat.so_gfx942.kpack is not of " in text and "of build " in text
    # Nobody asks it when its target is not wanted.
    done = unsplit_library(split / "libfat.so", tmp_path / "some", targets=["gfx1100"])
    assert done.targets == ("gfx1100",)


def test_two_archives_with_other_code_for_one_entry(split: Path, tmp_path: Path) -> None:
    units = [*UNITS[:2], {"gfx90a": code("gfx90a", 77), "gfx942": UNITS[2]["gfx942"]}]
    other = build_library(tmp_path / "o", bundles=[bundle(one.items()) for one in units], wrappers=WRAPPERS)
    split_library(other, tmp_path / "strange")
    shutil.copy(tmp_path / "strange/.kpack/libfat.so_gfx90a.kpack", split / ".kpack")
    assert "it has other code for gfx90a of wrapper 2 than" in refused(split, InvalidInput)


def test_code_for_a_wrapper_that_is_not_there(split: Path) -> None:
    def change(table: dict[str, object]) -> None:
        table["toc"]["libfat.so#4"] = table["toc"].pop("libfat.so#3")

    rewrite_table(split / ".kpack/libfat.so_gfx942.kpack", change)
    assert "it has code for wrapper 4 of 4" in refused(split, InvalidInput)


def test_an_entry_from_another_target(split: Path) -> None:
    def change(table: dict[str, object]) -> None:
        row = table["toc"]["libfat.so#1"]["gfx942"]
        row["metadata"]["target"] = "hipv4-amdgcn-amd-amdhsa--gfx1100"

    rewrite_table(split / ".kpack/libfat.so_gfx942.kpack", change)
    assert "its code for gfx942 was built for hipv4-amdgcn-amd-amdhsa--gfx1100" in refused(
        split, InvalidArchive
    )


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def other_size(path: Path) -> None:
    def change(table: dict[str, object]) -> None:
        table["toc"]["libfat.so#1"]["gfx942"]["original_size"] += 1

    rewrite_table(path, change)


@pytest.mark.parametrize("damage", [truncate, empty, other_size])
def test_a_damaged_archive(damage: Callable[[Path], None], split: Path) -> None:
    damage(split / ".kpack/libfat.so_gfx942.kpack")
    out = split.parent / "fat"
    with pytest.raises(InvalidArchive) as caught:
        unsplit_library(split / "libfat.so", out)
    assert "libfat.so_gfx942.kpack" in str(caught.value)
    assert not out.exists() or not list(out.iterdir())


@pytest.mark.parametrize("place", range(100, 5000, 700))
def test_a_flipped_bit_is_refused_or_unpacks_to_what_is_put_back(place: int, split: Path) -> None:
    """Archives have no digests, so not every bit can be told; then both readers agree on the code."""
    path = split / ".kpack/libfat.so_gfx942.kpack"
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    out = split.parent / "fat"
    try:
        unsplit_library(split / "libfat.so", out)
    except RocwrightError:
        assert not out.exists() or not list(out.iterdir())
    else:
        held = {index: code for (_, index, _), code in read_kpack(path).entries.items()}
        assert [one["gfx942"] for one in device(out / "libfat.so")] == [held[n] for n in range(4)]


@pytest.mark.parametrize("keep", [3000, 9000])
def test_a_host_file_that_is_cut(keep: int, split: Path) -> None:
    data = (split / "libfat.so").read_bytes()
    (split / "libfat.so").write_bytes(data[:keep])
    assert "libfat.so" in refused(split, InvalidElf)


def test_wrappers_that_are_not_as_a_split_leaves_them(split: Path) -> None:
    path = split / "libfat.so"
    (section,) = (s for s in read_image(path).sections if s.name == ".hipFatBinSegment")
    whole = path.read_bytes()
    for at, value, says in [
        (0, b"FPIH", "wrapper 1 does not lead to its marker"),
        (4, b"\2\0\0\0", "wrapper 1 does not lead to its marker"),
        (16, b"\0\0\0\0", "wrappers are not numbered"),
    ]:
        data = bytearray(whole)
        data[section.offset + 24 + at : section.offset + 28 + at] = value
        path.write_bytes(data)
        assert f"cannot be put back: {says}" in refused(split, InvalidInput)


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (1 << 40, "its segments are aligned to 1099511627776 bytes"),
        ((1 << 64) - 1, "its segments are aligned to 18446744073709551615 bytes"),
    ],
)
def test_an_alignment_that_would_fill_the_disk(number: int, says: str, split: Path) -> None:
    path = split / "libfat.so"
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, 64 + 48, number)  # p_align of the first segment
    path.write_bytes(data)
    assert says in refused(split, InvalidInput)


def test_forged_files_have_a_named_error_or_come_back_of_a_sane_size(split: Path) -> None:
    """Untrue numbers in headers of the host file, other bytes in archives; the same ones each time."""
    rows = random.Random(33)
    host = split / "libfat.so"
    whole = {path: path.read_bytes() for path in (host, *sorted((split / ".kpack").iterdir()))}
    ends = set()
    for number in range(48):
        path = host if number % 2 else rows.choice(list(whole))
        data = bytearray(whole[path])
        # Program headers stand at the start, section headers at the end.
        at = rows.choice([rows.randrange(16, 900), len(data) - 8 - rows.randrange(2000)])
        data[at : at + 8] = rows.choice(
            [b"\xff" * 8, bytes(8), (1 << rows.randrange(64)).to_bytes(8, "little")]
        )
        path.write_bytes(data)
        try:
            unsplit_library(host, split.parent / "fat")
        except RocwrightError as error:
            ends.add(type(error))
        else:
            ends.add(None)
            assert (split.parent / "fat/libfat.so").stat().st_size < 1 << 20
        path.write_bytes(whole[path])
        assert {path.name for path in (split.parent / "fat").glob("*")} <= {"libfat.so"}
    assert {InvalidElf, InvalidInput, InvalidArchive} <= ends


def test_the_input_is_never_replaced(split: Path) -> None:
    before = (split / "libfat.so").read_bytes()
    with pytest.raises(UsageError, match="would be overwritten"):
        unsplit_library(split / "libfat.so", split)
    assert (split / "libfat.so").read_bytes() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_destination_that_cannot_be_written(split: Path, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(InvalidInput, match="cannot write"):
        unsplit_library(split / "libfat.so", tmp_path / "locked")


def test_a_destination_that_is_a_file(split: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(InvalidInput, match=r"cannot write libfat\.so"):
        unsplit_library(split / "libfat.so", tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"
