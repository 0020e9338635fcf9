"""Builds small, real fat libraries and programs: given bytes as device code, linked by a real linker.

The code is a stand-in for what a HIP compiler emits around device code: one `.hip_fatbin` section with the
bundles, one 24-byte wrapper each in `.hipFatBinSegment`, and a constructor that hands every wrapper to
`__hipRegisterFatBinary` if somebody defines it. Besides it holds what a rewrite can break: unwind tables,
thread-local data, read-only-after-relocation pointers, zero-filled data, a table behind the device code.
`fat_selftest()` returns 42 as long as all of that works in memory.
"""

from __future__ import annotations

import hashlib
import struct
import subprocess
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import zstandard

from needs import find_lld, needs_lld

HOST = "host-x86_64-unknown-linux-gnu-"
DEVICE = "hipv4-amdgcn-amd-amdhsa--"
FAT_MAGIC = 0x48495046
SELFTEST_GOOD = 42


@dataclass(frozen=True)
class Wrapper:
    """One entry of `.hipFatBinSegment`; it points `offset` bytes into bundle number `bundle`.

    `pointer`, an assembler expression, replaces that address ("0", "some_symbol + 8").
    """

    bundle: int = 0
    offset: int = 0
    magic: int = FAT_MAGIC
    version: int = 1
    reserved: int = 0
    pointer: str | None = None


# -- device code -------------------------------------------------------------------------------------------


def code_object(mach: int, payload: bytes = b"", *, features: int = 0, abi: int = 2) -> bytes:
    """A minimal AMDGPU ELF file: header, then `payload`.

    `mach` is the EF_AMDGPU_MACH number, `features` the remaining e_flags, `abi` is EI_ABIVERSION
    (2 = code object v4, 3 = v5). Nobody can run it, but its header is true.
    """
    ident = b"\x7fELF" + bytes([2, 1, 1, 64, abi]) + bytes(7)
    header = struct.pack("<HHIQQQIHHHHHH", 3, 224, 1, 0, 0, 0, mach | features, 64, 56, 0, 64, 0, 0)
    return ident + header + payload


def bundle(entries: Iterable[tuple[str, bytes]], *, host: str | None = HOST, align: int = 4096) -> bytes:
    """An uncompressed offload bundle of `entries`, (target, code) each; the empty host entry comes first.

    A target that starts with "gfx" gets the usual triple in front; any other text is the whole entry id.
    Payloads start at multiples of `align`; the bundle ends with the last payload.
    """
    pairs = [(host, b"")] if host is not None else []
    pairs += [(DEVICE + name if name.startswith("gfx") else name, code) for name, code in entries]
    size = 32 + sum(24 + len(name.encode()) for name, _ in pairs)
    head, body, end = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(pairs)), b"", size
    for name, code in pairs:
        start = -(-end // align) * align
        body += bytes(start - end) + code
        end = start + len(code)
        head += struct.pack("<QQQ", start, len(code), len(name.encode())) + name.encode()
    return head + body


def ccob(raw: bytes, version: int = 2, method: str = "zstd") -> bytes:
    """`raw`, a bundle, in compressed form: header version 1, 2 or 3, method "zstd" or "zlib"."""
    packed = zlib.compress(raw) if method == "zlib" else zstandard.ZstdCompressor(level=3).compress(raw)
    number = {"zlib": 0, "zstd": 1}[method]
    check = hashlib.md5(raw, usedforsecurity=False).digest()[:8]
    sizes = {
        1: struct.pack("<I", len(raw)),
        2: struct.pack("<II", 24 + len(packed), len(raw)),
        3: struct.pack("<QQ", 32 + len(packed), len(raw)),
    }[version]
    return b"CCOB" + struct.pack("<HH", version, number) + sizes + check + packed


# -- linkers -----------------------------------------------------------------------------------------------


def linkers() -> list[object]:
    """Both linkers as pytest parameters; lld is skipped where it is missing."""
    return ["bfd", pytest.param("lld", marks=needs_lld)]


# -- the library -------------------------------------------------------------------------------------------

_SOURCE = r"""
#include <stddef.h>
#include <unwind.h>
extern void **__hipRegisterFatBinary(const void *) __attribute__((weak));
extern const char fat_wrappers[] __attribute__((visibility("hidden")));
extern const unsigned fat_wrapper_count __attribute__((visibility("hidden")));
extern const unsigned fat_tail[4] __attribute__((visibility("hidden")));

__attribute__((constructor)) static void fat_register(void) {
    for (unsigned i = 0; i < fat_wrapper_count; i++)
        if (__hipRegisterFatBinary) __hipRegisterFatBinary(fat_wrappers + 24 * i);
}

static int first = 1, second = 2;
static int *const after_relocation[] = {&first, &second};
static int *volatile writable[] = {&first, &second};
static __thread volatile int per_thread = 5;
static volatile int zeroes[5000];
static const volatile char text[] = "read-only data in front of the device code";

static _Unwind_Reason_Code count_frame(struct _Unwind_Context *c, void *n) {
    (void)c; ++*(int *)n; return _URC_NO_REASON;
}
__attribute__((noinline)) int fat_unwind(void) { int n = 0; _Unwind_Backtrace(count_frame, &n); return n; }
__attribute__((noinline)) static int fat_deeper(volatile int *n) { int m = fat_unwind(); *n += 1; return m; }

__attribute__((visibility("default"))) const void *fat_wrapper(unsigned i) { return fat_wrappers + 24 * i; }
__attribute__((visibility("default"))) unsigned fat_count(void) { return fat_wrapper_count; }
__attribute__((visibility("default"))) int fat_selftest(void) {
    volatile int n = 0;
    for (size_t i = 0; i < 5000; i++) if (zeroes[i]) return 1;
    if (*after_relocation[0] + *after_relocation[1] != 3) return 2;
    if (*writable[0] + *writable[1] != 3) return 3;
    if (per_thread != 5) return 4;
    if (text[0] != 'r' || text[5] != 'o') return 5;
    if (FAT_TAIL && (fat_tail[0] != 0x1234 || fat_tail[3] != 0x9876)) return 6;
    if (fat_deeper(&n) != fat_unwind() + 1) return 7;
    writable[0] = &second;
    if (*writable[0] != 2) return 8;
    writable[0] = &first;
    return 42;
}
#ifdef FAT_MAIN
int main(void) { return fat_selftest() == 42 ? 0 : fat_selftest(); }
#endif
"""

# `__hip_fatbin_` and a hash: what clang calls the bundle of a unit of relocatable device code.
_VERSIONS = "FAT_1 { global: fat_wrapper; fat_count; fat_selftest; fat_unwind; %s; local: *; };\n" % (
    "__hip_fatbin_" + "?" * 15 + "*"
)


def build_library(
    directory: Path,
    *,
    bundles: Sequence[bytes],
    wrappers: Sequence[int | Wrapper] | None = None,
    name: str | None = None,
    kind: str = "so",
    linker: str = "bfd",
    max_page_size: int | None = None,
    relr: bool = False,
    relro: bool = True,
    with_tail: bool = True,
    fatbin_flags: str = "a",
    bundle_align: int = 4096,
    prefix: bytes = b"",
    suffix: bytes = b"",
    extra_asm: str = "",
    ldflags: Sequence[str] = (),
) -> Path:
    """Link a fat library or program in `directory` and return its path.

    `bundles`: the bytes of each item of `.hip_fatbin` (made by `bundle`, `ccob`, or anything at all), each at
    a multiple of `bundle_align`. `wrappers`: one per wrapper, the number of its bundle or a `Wrapper`;
    by default one per bundle in order. `kind`: "so", "pie" or "exec" (fixed address).
    `linker`: "bfd" or "lld". `max_page_size`: alignment of the segments in bytes.
    `relr`: packed relative relocations. `with_tail`: False puts `.hip_fatbin` at the end of its segment.
    `fatbin_flags`: its section flags as the assembler writes them ("a", "aw", "ax").
    `prefix`, `suffix`: bytes of the section before and behind the bundles (with a prefix the section keeps
    its alignment, the first bundle moves to the next multiple).
    `extra_asm`: more assembly; the bundles are the symbols `__hip_fatbin_0`, `__hip_fatbin_1`, ...
    `ldflags`: more arguments of the compiler driver when linking, such as "-Wl,-z,now".
    Raises `LookupError` if the linker is missing.
    """
    directory.mkdir(parents=True, exist_ok=True)
    work = directory / ".build"
    work.mkdir(exist_ok=True)
    flags = ["-O1", "-fvisibility=hidden", "-fasynchronous-unwind-tables"]
    # Else a program at a fixed address takes a function that nobody defines yet for absent for good.
    flags += {"so": ["-fPIC"], "pie": ["-fPIE"], "exec": ["-fno-pie", "-mno-direct-extern-access"]}[kind]
    defines = [f"-DFAT_TAIL={int(with_tail)}"] + ([] if kind == "so" else ["-DFAT_MAIN"])
    (work / "fat.c").write_text(_SOURCE)
    _gcc(work, *flags, *defines, "-c", "fat.c", "-o", "fat.o")
    numbers = range(len(bundles)) if wrappers is None else wrappers
    chosen = [Wrapper(item) if isinstance(item, int) else item for item in numbers]
    assembly = _fatbin_assembly(work, bundles, fatbin_flags, bundle_align, prefix, suffix)
    assembly += _wrapper_assembly(chosen) + _tail_assembly(with_tail) + extra_asm + "\n"
    (work / "device.s").write_text(assembly + '.section .note.GNU-stack,"",@progbits\n')
    _gcc(work, "-c", "device.s", "-o", "device.o")
    (work / "versions").write_text(_VERSIONS)
    target = directory / (name or {"so": "libfat.so", "pie": "fat-pie", "exec": "fat-exec"}[kind])
    link = [*_link_flags(work, kind, linker, max_page_size, relr, relro, with_tail), *ldflags]
    _gcc(work, "fat.o", "device.o", *link, "-o", str(target.resolve()))
    return target


def _gcc(work: Path, *arguments: str) -> None:
    done = subprocess.run(["gcc", *arguments], cwd=work, capture_output=True, text=True)
    assert done.returncode == 0, f"gcc {' '.join(arguments)}\n{done.stderr}"


def _fatbin_assembly(
    work: Path, bundles: Sequence[bytes], flags: str, align: int, prefix: bytes, suffix: bytes
) -> str:
    lines = [f'.section .hip_fatbin,"{flags}",@progbits', f".balign {align}, 0"]
    for label, data in (
        ("prefix", prefix),
        *((str(i), item) for i, item in enumerate(bundles)),
        ("suffix", suffix),
    ):
        if not data and not label.isdigit():
            continue
        (work / f"item-{label}").write_bytes(data)
        if label.isdigit():
            lines += [f".balign {align}, 0", f".hidden __hip_fatbin_{label}", f".globl __hip_fatbin_{label}"]
            lines.append(f"__hip_fatbin_{label}:")
        lines.append(f'.incbin "item-{label}"')
    return "\n".join(lines) + "\n"


def _wrapper_assembly(wrappers: Sequence[Wrapper]) -> str:
    lines = ['.section .hipFatBinSegment,"aw",@progbits', ".balign 8", ".globl fat_wrappers", "fat_wrappers:"]
    for item in wrappers:
        pointer = item.pointer or f"__hip_fatbin_{item.bundle} + {item.offset}"
        lines += [f".long {item.magic}, {item.version}", f".quad {pointer}", f".quad {item.reserved}"]
    lines += [".section .rodata", ".balign 4", ".globl fat_wrapper_count", "fat_wrapper_count:"]
    return "\n".join([*lines, f".long {len(wrappers)}"]) + "\n"


def _tail_assembly(with_tail: bool) -> str:
    section = '.section .fat_tail,"a",@progbits' if with_tail else ".section .rodata"
    return f"{section}\n.balign 16\n.globl fat_tail\nfat_tail:\n.long 0x1234, 0, 0, 0x9876\n"


def _link_flags(
    work: Path, kind: str, linker: str, page: int | None, relr: bool, relro: bool, with_tail: bool
) -> list[str]:
    flags = {"so": ["-shared"], "pie": ["-pie"], "exec": ["-no-pie"]}[kind] + ["-shared-libgcc"]
    if linker == "lld":
        if (program := find_lld()) is None:
            raise LookupError("no ld.lld here; ROCWRIGHT_TEST_LLVM_BIN=DIR names one")
        flags += ["-fuse-ld=lld", f"-B{program.parent}"]
    else:
        flags += ["-fuse-ld=bfd", "-Wl,-z,dynamic-undefined-weak"]
    flags += ["-Wl,-z,relro" if relro else "-Wl,-z,norelro", "-Wl,--build-id=sha1", "-Wl,--hash-style=gnu"]
    flags += ["-Wl,--version-script=versions"] if kind == "so" else ["-Wl,--export-dynamic"]
    flags += [f"-Wl,-z,max-page-size={page}"] if page else []
    if relr:
        flags.append("-Wl,-z,pack-relative-relocs")
    if not with_tail:
        last = ".eh_frame" if linker == "lld" else ".exception_ranges"
        (work / "order").write_text(
            f"SECTIONS {{ .hip_fatbin : {{ *(.hip_fatbin) }} }} INSERT AFTER {last};\n"
        )
        flags.append("-Wl,-T,order")
    return flags
