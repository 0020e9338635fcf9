"""Which kernels a library registers: read out of what real compilers and linkers make of such constructors.

The constructors are written by hand as HIP's compiler makes them; what it makes itself is in tests/real.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from needs import find_lld, find_llvm_tool, needs, needs_lld
from oracle.fat_library import build_library, bundle, code_object
from rocwright.binary.elf import read_elf
from rocwright.binary.view import mapped
from rocwright.device_code.kernels import kernels_of_wrappers

# Two units: the first registers two kernels and a variable, the second one; both also call other functions.
_UNIT = """
extern void **__hipRegisterFatBinary(const void *);
extern void __hipRegisterFunction(void **, const void *, const char *, const char *, unsigned, void *, void *,
                                  void *, void *, int *);
extern int puts(const char *);
static const struct {{ unsigned magic, version; const void *binary, *unused; }} wrapper
    __attribute__((section(".hipFatBinSegment"), used)) = {{ 0x48495046, 1, "", 0 }};
static void *const stub = (void *)puts;
static void registers(void **handle) {{ {calls} }}
__attribute__((constructor)) static void module(void) {{
    void **handle = __hipRegisterFatBinary(&wrapper);
    registers(handle);
    puts("_Z10not_a_kernelv");
}}
"""
_CALL = '__hipRegisterFunction(handle, &stub, "{0}", "{0}", -1u, 0, 0, 0, 0, 0);'
_RUNTIME = """
void **__hipRegisterFatBinary(const void *w) { static void *h; return &h; }
void __hipRegisterFunction(void **m, const void *f, char *d, const char *n, unsigned t, void *a, void *b,
                           void *c, void *e, int *w) {}
"""
WANTED = {"_Z4firstPf", "plain_name", "_Z5otherIiEvT_.1"}


def _compile(target: Path, sources: dict[str, str], *options: str | Path) -> Path:
    for name, text in sources.items():
        (target.parent / name).write_text(text)
    files = [target.parent / name for name in sources]
    subprocess.run(["gcc", "-w", *files, "-o", target, *options], check=True)
    return target


def _library(folder: Path, *options: str, units: tuple[tuple[str, ...], ...] = ()) -> Path:
    units = units or (("_Z4firstPf", "plain_name"), ("_Z5otherIiEvT_.1",))
    runtime = _compile(folder / "libruntime.so", {"runtime.c": _RUNTIME}, "-shared", "-fPIC")
    sources = {
        f"unit{number}.c": _UNIT.format(calls="".join(map(_CALL.format, names)))
        for number, names in enumerate(units)
    }
    return _compile(folder / "made", sources, *options, runtime)


def _names(path: Path) -> frozenset[str] | None:
    with mapped(path) as file:
        found = kernels_of_wrappers(read_elf(file), file)
    return None if found is None else frozenset().union(*found.values())


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3"])
@pytest.mark.parametrize(
    "options",
    [
        ["-shared", "-fPIC"],
        ["-shared", "-fPIC", "-fno-plt"],
        ["-shared", "-fPIC", "-fcf-protection=full", "-Wl,-z,now"],
        ["-shared", "-fPIC", "-Wl,-z,pack-relative-relocs"],
        ["-no-pie", "-fno-pie", "-Wl,--unresolved-symbols=ignore-all", "-nostartfiles"],
    ],
    ids=" ".join,
)
def test_names_that_constructors_register(tmp_path: Path, level: str, options: list[str]) -> None:
    assert _names(_library(tmp_path, level, *options)) == WANTED


@needs_lld
@pytest.mark.parametrize("more", [[], ["-Wl,--pack-dyn-relocs=relr"]], ids=["rela", "relr"])
def test_as_lld_links(tmp_path: Path, more: list[str]) -> None:
    lld = find_lld()
    assert lld is not None
    options = ["-O2", "-shared", "-fPIC", f"-B{lld.parent}", "-fuse-ld=lld", *more]
    assert _names(_library(tmp_path, *options)) == WANTED


def test_a_unit_without_kernels_registers_none(tmp_path: Path) -> None:
    assert _names(_library(tmp_path, "-O2", "-shared", "-fPIC", units=((),))) is None


def test_a_library_without_device_code_registers_none(tmp_path: Path) -> None:
    path = _compile(tmp_path / "libx.so", {"x.c": "int x(void) { return 1; }"}, "-shared", "-fPIC")
    assert _names(path) == frozenset()


def test_a_constructor_that_registers_nothing_is_not_understood(tmp_path: Path) -> None:
    library = build_library(tmp_path, bundles=[bundle([("gfx942", code_object(0x4C))])])
    assert not _names(library)


_ARM = """
.text
module{unit}:
stp x29, x30, [sp, #-16]!
adrp x0, wrapper{unit}
add x0, x0, :lo12:wrapper{unit}
{opens}
adrp x1, stub
add x1, x1, :lo12:stub
adrp x2, name{unit}
add x2, x2, :lo12:name{unit}
mov x3, x2
mov w4, #-1
{registers}
ldp x29, x30, [sp], #16
ret
stub: ret
.section .rodata.names,"a",%progbits
other{unit}: .asciz "not_a_kernel"
name{unit}: .asciz "_Z4name{unit}v"
.section .hipFatBinSegment,"aw",%progbits
.balign 8
wrapper{unit}: .word 0x48495046, 1
.xword stub, 0
.section .init_array,"aw",%init_array
.balign 8
.xword module{unit}
"""
_BY_TABLE = "bl {0}"
_BY_WORD = "adrp x8, :got:{0}\nldr x8, [x8, :got_lo12:{0}]\nblr x8"
# As compilers for older linkers leave a call to what is far away.
_BY_JUMP = "bl far_{0}"
_FAR = """
.text
far_{0}: adrp x16, near_{0}
add x16, x16, :lo12:near_{0}
br x16
near_{0}: bti c
adrp x16, :got:{0}
ldr x17, [x16, :got_lo12:{0}]
br x17
"""


@needs("llvm-mc", "ld.lld")
@pytest.mark.parametrize(
    ("call", "more"),
    [(_BY_TABLE, ""), (_BY_WORD, ""), (_BY_JUMP, _FAR)],
    ids=["linkage table", "word", "far away"],
)
def test_a_library_for_aarch64(tmp_path: Path, call: str, more: str) -> None:
    functions = ("__hipRegisterFatBinary", "__hipRegisterFunction")
    opens, registers = map(call.format, functions)
    for unit in range(2):
        text = _ARM.format(unit=unit, opens=opens, registers=registers)
        text += "".join(map(more.format, functions))
        (tmp_path / f"{unit}.s").write_text(text)
        made = [
            "--triple=aarch64-linux-gnu",
            "--mattr=+bti",
            "--filetype=obj",
            f"{unit}.s",
            "-o",
            f"{unit}.o",
        ]
        subprocess.run([find_llvm_tool("llvm-mc"), *made], cwd=tmp_path, check=True)
    linked = ["-m", "aarch64linux", "-shared", "-soname", "libarm.so", "0.o", "1.o", "-o", "libarm.so"]
    subprocess.run([find_lld(), *linked], cwd=tmp_path, check=True)
    with mapped(tmp_path / "libarm.so") as file:
        wanted = {0: {"_Z4name0v"}, 1: {"_Z4name1v"}}
        assert kernels_of_wrappers(read_elf(file), file) == wanted
