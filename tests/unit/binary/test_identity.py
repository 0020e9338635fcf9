"""The identity of host code: one for all layouts that device code gives it, another for another build."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from needs import needs, needs_lld
from oracle.fat_library import build_library, bundle
from rocwright.binary.elf import read_elf
from rocwright.binary.view import Mapped, mapped
from rocwright.device_code.kpack import Marker
from rocwright.device_code.split import LibraryPlan, plan_library
from rocwright.errors import InvalidInput
from unit.check.kpack_cases import KERNEL, SEARCH, code

pytestmark = needs("gcc")

LAYOUTS: dict[str, dict[str, object]] = {
    "a library": {},
    "nothing behind": {"with_tail": False},
    "packed relocations": {"relr": True},
    "a program": {"kind": "pie"},
    "a program at a fixed address": {"kind": "exec"},
    "lld": {"linker": "lld"},
    "lld, a program": {"linker": "lld", "kind": "pie"},
    "lld, a program at a fixed address": {"linker": "lld", "kind": "exec"},
    "lld, packed relocations": {"linker": "lld", "relr": True},
}
_READ = (
    ".dynsym",
    ".dynstr",
    ".rela.dyn",
    ".rela.plt",
    ".init_array",
    ".eh_frame_hdr",
    ".hipFatBinSegment",
    ".text",
)
_FUNCTION = """.text
.globl more
.hidden more
more: .cfi_startproc
mov ${0}, %eax
ret
.cfi_endproc
"""
_REGISTERS = """
.weak __hipRegisterFatBinary, __hipRegisterFunction
.text
registers: leaq fat_wrappers(%rip), %rdi
call __hipRegisterFatBinary@PLT
leaq kernel(%rip), %rdx
call __hipRegisterFunction@PLT
ret
.section .rodata
kernel: .asciz "_Z6kernel{0}"
.section .init_array,"aw",@init_array
.balign 8
.quad registers
"""


def identity(folder: Path, targets: dict[str, int], **layout: object) -> str:
    """Of a library whose two units have code of so many bytes, about, for each target."""
    units = [
        bundle([(name, code(name, b"%d" % unit, size // 7)) for name, size in targets.items()])
        for unit in (1, 2)
    ]
    # Without a name of its own lld takes the path for one.
    flags = () if layout.get("kind") else ("-Wl,-soname,libfat.so",)
    library = build_library(folder, bundles=units, ldflags=flags, **layout)
    with mapped(library) as file:
        plan = plan_library(file, Marker((SEARCH,), KERNEL))
        assert isinstance(plan, LibraryPlan)
        return plan.build


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(options, id=name, marks=needs_lld if "lld" in name else ())
        for name, options in LAYOUTS.items()
    ],
)
def test_device_code_of_any_size_changes_nothing(layout: dict[str, object], tmp_path: Path) -> None:
    builds = (
        {"gfx942": 30_000},
        {"gfx1100": 99_000},
        {"gfx906": 131_072},
        {"gfx942": 600_000, "gfx1100": 10_007},
    )
    # A constructor that refers across the device code, as every unit has one.
    found = {
        identity(tmp_path / str(number), targets, extra_asm=_REGISTERS.format("Pf"), **layout)
        for number, targets in enumerate(builds)
    }
    assert len(found) == 1
    assert len(found.pop()) == 32


@pytest.mark.parametrize(
    ("linker", "text"),
    [
        pytest.param("bfd", ".section .rodata\n.long 0x471{0}", id="a constant"),
        pytest.param("bfd", _FUNCTION, id="a function"),
        pytest.param("lld", _FUNCTION, id="a function, lld", marks=needs_lld),
        pytest.param("bfd", _REGISTERS, id="a kernel"),
        pytest.param("lld", _REGISTERS, id="a kernel, lld", marks=needs_lld),
        pytest.param("lld", ".section .rodata\n.zero 8{0}", id="its size", marks=needs_lld),
        pytest.param("bfd", ".text\n.weak puts{0}\ncall puts{0}@PLT", id="a symbol"),
    ],
)
def test_another_host_has_another(linker: str, text: str, tmp_path: Path) -> None:
    found = {
        identity(tmp_path / word, {"gfx942": 30_000}, linker=linker, extra_asm=text.format(word))
        for word in ("1", "2")
    }
    assert len(found) == 2


def test_of_a_damaged_host_nothing_worse_is_told_than_that(tmp_path: Path) -> None:
    library = build_library(
        tmp_path, bundles=[bundle([("gfx942", code("gfx942"))])], extra_asm=_REGISTERS.format("Pf")
    )
    whole = library.read_bytes()
    elf = read_elf(library)
    places = [(0, 64), (elf.phoff, 56 * len(elf.segments)), (elf.shoff, 64 * len(elf.section_table))]
    places += [(s.offset, s.size) for s in elf.section_table if s.size and s.name in _READ]
    draw = random.Random("damaged hosts")
    for number in range(300):
        data = bytearray(whole)
        start, size = draw.choice(places)
        at = start + draw.randrange(size)
        value = draw.choice((0, draw.randrange(256), 1 << 31, 1 << 40, 1 << 60, (1 << 64) - 1))
        edit = value.to_bytes(8, "little")[: draw.choice((1, 8))]
        data[at : at + len(edit)] = edit
        with contextlib.suppress(InvalidInput):
            plan = plan_library(Mapped(Path(f"{number}.so"), bytes(data)), Marker((SEARCH,), KERNEL))
            assert not isinstance(plan, LibraryPlan) or len(plan.build) == 32
