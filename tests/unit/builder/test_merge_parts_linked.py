"""Parts with libraries of real linkers, merged: a second reader and the loader find each part's code."""

from __future__ import annotations

import random
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from fat_wheels import of_device, write

from needs import needs, needs_lld
from oracle import loader, splitting
from oracle.fat_library import build_library, bundle, ccob, code_object
from oracle.fatbin_walk import walk
from rocwright.binary.elf import read_elf
from rocwright.binary.soundness import problems
from rocwright.binary.view import mapped
from rocwright.device_code.identity import host_identity
from rocwright.device_code.merge_parts import Part, merge_parts
from rocwright.device_code.wheel.wheel import split_wheel
from rocwright.device_code.wrappers import read_wrappers

pytestmark = [
    needs("gcc", "objcopy", "readelf", "strip"),
    pytest.mark.slow,
]

MACH = {"gfx90a": 0x3F, "gfx942": 0x4C, "gfx1100": 0x41}
LIBRARY = "torch/lib/libfat.so"


def code(target: str, number: int, size: int = 9000) -> bytes:
    """A code object that no other target and number give."""
    return code_object(MACH[target], random.Random(f"{target} {number}").randbytes(size + 7 * number))


def objects(targets: Sequence[str], count: int, size: int = 9000) -> list[dict[str, bytes]]:
    """The code of each of `count` units."""
    return [{target: code(target, number, size) for target in targets} for number in range(count)]


def part(
    place: Path, units: Sequence[Mapping[str, bytes]], *, version: int | None = None, **layout: object
) -> Path:
    """A wheel with one library, whose units have this device code."""
    raw = [bundle(sorted(unit.items())) for unit in units]
    bundles = [ccob(item, version) for item in raw] if version else raw
    # Without a name of its own lld takes the path for one.
    flags = () if layout.get("kind") else ("-Wl,-soname,libfat.so",)
    library = build_library(place / "lib", bundles=bundles, name="libfat.so", ldflags=flags, **layout)
    return write(place / "dist", {"torch/__init__.py": b"x = 1\n", LIBRARY: library.read_bytes()})


def unpacked(wheel: Path, place: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(LIBRARY, place)
    return place / LIBRARY


def identity(library: Path) -> str:
    """That of the build that a library is of."""
    elf = read_elf(library)
    with mapped(library) as file:
        return host_identity(elf, file, read_wrappers(elf, file))


def device(library: Path) -> list[dict[str, bytes]]:
    """Code by target of each wrapper, as the second reader finds it."""
    found = []
    for wrapper in walk(library):
        named = {name.rpartition("--")[2]: entry.data for name, entry in wrapper.device.items()}
        found.append({name: data for name, data in named.items() if data is not None})
    return found


LAYOUTS: dict[str, dict[str, object]] = {
    "a library": {},
    "nothing behind": {"with_tail": False},
    "packed relocations": {"relr": True},
    "without relro": {"relro": False},
    "a program": {"kind": "pie"},
    "a program at a fixed address": {"kind": "exec"},
    "large pages": {"max_page_size": 0x10000},
    "writable": {"fatbin_flags": "aw"},
    "lld": {"linker": "lld"},
    "lld, a program": {"linker": "lld", "kind": "pie"},
    "lld, packed relocations": {"linker": "lld", "relr": True},
}


def layouts() -> list[object]:
    return [
        pytest.param(layout, id=name, marks=needs_lld if "lld" in name else ())
        for name, layout in LAYOUTS.items()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("layout", layouts())
def test_a_library_has_the_code_of_all_parts_and_runs(layout: dict[str, object], tmp_path: Path) -> None:
    one = objects(["gfx90a"], 3)
    two = objects(["gfx942", "gfx1100"], 3, size=20_000)
    parts = [part(tmp_path / "one", one, **layout), part(tmp_path / "two", two, **layout)]
    done = merge_parts([Part(path) for path in parts], tmp_path / "out", targets=list(MACH))
    assert (done.objects, done.libraries, done.shared) == (9, 1, 0)
    assert done.targets == ("gfx90a", "gfx942", "gfx1100")
    merged = unpacked(Path(done.path), tmp_path / "merged")
    assert device(merged) == [a | b for a, b in zip(one, two, strict=True)]
    whole = part(tmp_path / "whole", [a | b for a, b in zip(one, two, strict=True)], **layout)
    assert {identity(merged), *(identity(unpacked(each, each.parent / "x")) for each in parts)} == {
        identity(unpacked(whole, tmp_path / "whole/x"))
    }
    merged.chmod(0o755)
    assert problems(read_elf(merged)) == []
    assert splitting.runs(merged) == ""


@pytest.mark.parametrize("layout", [{}, pytest.param({"linker": "lld"}, marks=needs_lld)], ids=["bfd", "lld"])
def test_the_loader_finds_each_targets_code(layout: dict[str, object], tmp_path: Path) -> None:
    one, two = objects(["gfx90a"], 2), objects(["gfx942"], 2)
    parts = [part(tmp_path / "one", one, **layout), part(tmp_path / "two", two, **layout)]
    done = merge_parts([Part(path) for path in parts], tmp_path / "out")
    merged = unpacked(Path(done.path), tmp_path / "merged")
    for isa, units in (("gfx90a", one), ("gfx942", two)):
        found = loader.load(merged, isa=isa, workdir=tmp_path / isa)
        assert not found.error and [each.read() for each in found] == [unit[isa] for unit in units]


@pytest.mark.parametrize("layout", [{}, pytest.param({"linker": "lld"}, marks=needs_lld)], ids=["bfd", "lld"])
def test_strip_lays_the_merged_library_out_again(layout: dict[str, object], tmp_path: Path) -> None:
    one, two = objects(["gfx90a"], 2), objects(["gfx942"], 2)
    parts = [part(tmp_path / "one", one, **layout), part(tmp_path / "two", two, **layout)]
    done = merge_parts([Part(path) for path in parts], tmp_path / "out")
    merged = unpacked(Path(done.path), tmp_path / "merged")
    subprocess.run(["strip", str(merged)], check=True, capture_output=True)
    found = loader.load(merged, isa="gfx942", workdir=tmp_path / "loaded")
    assert not found.error and [each.read() for each in found] == [unit["gfx942"] for unit in two]


@pytest.mark.slow
@pytest.mark.parametrize("version", [None, 1, 2, 3])
def test_the_split_of_merged_parts_is_that_of_one_build(version: int | None, tmp_path: Path) -> None:
    units = objects(list(MACH), 3)
    whole = part(tmp_path / "whole", units, version=version)
    parts = [
        part(tmp_path / name, [{t: unit[t] for t in targets} for unit in units], version=version)
        for name, targets in (("one", ["gfx942"]), ("two", ["gfx90a", "gfx1100"]))
    ]
    merged = merge_parts([Part(path) for path in parts], tmp_path / "out")
    assert {wrapper.form for wrapper in walk(unpacked(Path(merged.path), tmp_path / "merged"))} == {
        f"ccob{version}" if version else "raw"
    }
    split_wheel(whole, tmp_path / "of-whole")
    split_wheel(Path(merged.path), tmp_path / "of-merged")
    names = sorted(path.name for path in (tmp_path / "of-whole").iterdir() if path.name.startswith("amd_"))
    assert len(names) == 3
    for name in names:
        one, other = (of_device(tmp_path / place / name) for place in ("of-merged", "of-whole"))
        assert one == other


def test_the_order_of_parts_changes_no_device_wheel_and_the_same_order_no_byte(tmp_path: Path) -> None:
    one = part(tmp_path / "one", objects(["gfx90a"], 2))
    two = part(tmp_path / "two", objects(["gfx942"], 2))
    wheels = {
        name: Path(merge_parts([Part(path) for path in order], tmp_path / name, threads=threads).path)
        for name, order, threads in (("a", [one, two], 1), ("b", [one, two], 3), ("c", [two, one], 2))
    }
    assert wheels["a"].read_bytes() == wheels["b"].read_bytes()
    for name in ("a", "c"):
        split_wheel(wheels[name], tmp_path / f"split-{name}")
    device = [sorted((tmp_path / f"split-{name}").glob("amd_*")) for name in ("a", "c")]
    assert [path.read_bytes() for path in device[0]] == [path.read_bytes() for path in device[1]]
