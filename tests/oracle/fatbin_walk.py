"""A second reader of fat libraries: follows each wrapper to its bundle and takes the code objects out.

Written from the formats' descriptions: ELF (the tables through pyelftools), Clang's offload bundles and
their compressed form, and the ELF header of AMDGPU code objects. A deviation is a `ValueError`.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import zstandard
from elftools.elf.elffile import ELFFile

Buffer = mmap.mmap | memoryview | bytes

BUNDLE_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
WRAPPER_MAGIC = 0x48495046
LARGEST_BUNDLE = 1 << 36  # nothing real is beyond; a lying header must not fill the memory
# Relocation types per e_machine: (base + addend, symbol + addend).
RELOCATIONS = {62: (8, 1), 183: (1027, 257)}


@dataclass(frozen=True)
class Code:
    """One entry of a bundle; `data` is None when only digests were asked for."""

    size: int
    sha256: str
    header: bytes  # the first 64 bytes
    data: bytes | None


@dataclass(frozen=True)
class Wrapper:
    """One wrapper and what its bundle holds, the host's entry included.

    `vaddr` is the wrapper's address, `pointer` the bundle's, `offset` and `size` its place in the file,
    `form` is "raw" or "ccob1" to "ccob3", `bundle` the uncompressed bundle (None in digest mode).
    """

    index: int
    vaddr: int
    pointer: int
    offset: int
    size: int
    form: str
    entries: dict[str, Code]
    bundle: bytes | None

    @property
    def device(self) -> dict[str, Code]:
        """The entries that are not the host's."""
        return {name: code for name, code in self.entries.items() if not name.startswith("host-")}


def walk(path: Path | str, *, digest: bool = False) -> Iterator[Wrapper]:
    """Yield the wrappers of a fat library in their order; `digest` keeps no code, only hashes of it."""
    with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        elf = ELFFile(file)
        _require(elf.elfclass == 64 and elf.little_endian, "not a 64-bit little-endian ELF file")
        fatbin = _section(elf, ".hip_fatbin")
        segment = _section(elf, ".hipFatBinSegment")
        start, size = segment["sh_addr"], segment["sh_size"]
        _require(size % 24 == 0, f".hipFatBinSegment has {size} bytes, not a multiple of 24")
        pointers = _pointers(elf, data, [start + at + 8 for at in range(0, size, 24)])
        end = fatbin["sh_offset"] + fatbin["sh_size"]
        for index, pointer in enumerate(pointers):
            vaddr = start + 24 * index
            magic, version = struct.unpack_from("<II", data, segment["sh_offset"] + 24 * index)
            _require(magic == WRAPPER_MAGIC, f"wrapper {index}: magic {magic:#x}")
            _require(version == 1, f"wrapper {index}: version {version}")
            at = pointer - fatbin["sh_addr"]
            _require(
                0 <= at < fatbin["sh_size"], f"wrapper {index} points to {pointer:#x}, outside .hip_fatbin"
            )
            found = _wrapper(data, index, vaddr, pointer, fatbin["sh_offset"] + at, end, digest)
            first = found.offset & -mmap.PAGESIZE
            data.madvise(mmap.MADV_DONTNEED, first, found.offset + found.size - first)  # keeps memory small
            yield found


def gaps(path: Path | str, found: list[Wrapper]) -> list[tuple[int, int]]:
    """The ranges (file offset, size) of `.hip_fatbin` that no wrapper leads to and that are not all zero."""
    with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        section = _section(ELFFile(file), ".hip_fatbin")
        at, end, left = section["sh_offset"], section["sh_offset"] + section["sh_size"], []
        for offset, size in [*sorted({(item.offset, item.size) for item in found}), (end, 0)]:
            _require(offset >= at or offset + size <= at, f"two bundles overlap at {offset:#x}")
            if offset > at and any(data[at:offset]):
                left.append((at, offset - at))
            at = max(at, offset + size)
        return left


# -- from the wrapper to the bundle ------------------------------------------------------------------------


def _section(elf: ELFFile, name: str):
    found = [section for section in elf.iter_sections() if section.name == name]
    _require(len(found) == 1, f"{len(found)} sections {name}")
    return found[0]


def _pointers(elf: ELFFile, data: Buffer, slots: list[int]) -> list[int]:
    """What each slot (vaddr) holds once the loader is through, for a library loaded at address 0."""
    dynamic = {}
    for segment in elf.iter_segments("PT_DYNAMIC"):
        raw = data[segment["p_offset"] : segment["p_offset"] + segment["p_filesz"]]
        dynamic = dict(reversed(list(struct.iter_unpack("<qQ", raw))))
    wanted, found = set(slots), {}
    base, absolute = RELOCATIONS[_machine(data)]
    if 7 in dynamic:  # DT_RELA, DT_RELASZ
        at = _offset(elf, dynamic[7])
        for where, info, addend in struct.iter_unpack("<QQq", data[at : at + dynamic[8]]):
            if where not in wanted:
                continue
            _require(where not in found, f"two relocations at {where:#x}")
            kind, symbol = info & 0xFFFFFFFF, info >> 32
            _require(kind in (base, absolute), f"relocation type {kind} at {where:#x}")
            found[where] = addend
            if kind == absolute:
                found[where] += struct.unpack_from("<Q", data, _offset(elf, dynamic[6] + 24 * symbol + 8))[0]
    packed = _relr(elf, data, dynamic) & wanted
    _require(not packed & found.keys(), "a slot is relocated by RELA and RELR")
    for slot in slots:
        (value,) = struct.unpack_from("<Q", data, _offset(elf, slot))
        if slot not in found:
            relocated = slot in packed or elf["e_type"] == "ET_EXEC"
            _require(relocated, f"the pointer at {slot:#x} has no relocation (in the file: {value:#x})")
            found[slot] = value
    return [found[slot] for slot in slots]


def _machine(data: Buffer) -> int:
    (machine,) = struct.unpack_from("<H", data, 18)
    _require(machine in RELOCATIONS, f"machine {machine}")
    return int(machine)


def _relr(elf: ELFFile, data: Buffer, dynamic: dict[int, int]) -> set[int]:
    """All addresses that DT_RELR relocates: an even word is an address, an odd one a bitmap of 63."""
    if 36 not in dynamic:
        return set()
    at, places, following = _offset(elf, dynamic[36]), set(), 0
    for (word,) in struct.iter_unpack("<Q", data[at : at + dynamic[35]]):
        if word & 1 == 0:
            places.add(word)
            following = word + 8
        else:
            places |= {following + 8 * bit for bit in range(63) if word >> (bit + 1) & 1}
            following += 63 * 8
    return places


def _offset(elf: ELFFile, vaddr: int) -> int:
    for segment in elf.iter_segments("PT_LOAD"):
        if segment["p_vaddr"] <= vaddr < segment["p_vaddr"] + segment["p_filesz"]:
            return int(segment["p_offset"] + vaddr - segment["p_vaddr"])
    raise ValueError(f"no segment holds {vaddr:#x}")


# -- from the bundle to the code ---------------------------------------------------------------------------


def _wrapper(data: Buffer, index: int, vaddr: int, pointer: int, at: int, end: int, digest: bool) -> Wrapper:
    where = f"wrapper {index}, bundle at {at:#x}"
    if data[at : at + 4] == b"CCOB":
        form, size, raw = _unpack(data, at, end, where)
        entries, extent = read_bundle(raw, where, digest)
        _require(extent == len(raw), f"{where}: {len(raw) - extent} bytes behind the uncompressed bundle")
        return Wrapper(index, vaddr, pointer, at, size, form, entries, None if digest else raw)
    with memoryview(data) as whole, whole[at:end] as view:
        entries, size = read_bundle(view, where, digest)
        bundle = None if digest else bytes(view[:size])
    return Wrapper(index, vaddr, pointer, at, size, "raw", entries, bundle)


def read_bundle(data: Buffer, where: str = "bundle", digest: bool = False) -> tuple[dict[str, Code], int]:
    """The entries of the uncompressed bundle at the start of `data`, and its exact size in bytes."""
    _require(bytes(data[:24]) == BUNDLE_MAGIC, f"{where}: {bytes(data[:24])!r} starts no bundle")
    _require(len(data) >= 32, f"{where}: cut short")
    (count,) = struct.unpack_from("<Q", data, 24)
    _require(0 < count <= (len(data) - 32) // 24, f"{where}: {count} entries in {len(data)} bytes")
    at, places = 32, []
    for number in range(count):
        _require(at + 24 <= len(data), f"{where}: entry {number} is cut short")
        offset, size, length = struct.unpack_from("<QQQ", data, at)
        at += 24
        _require(length <= len(data) - at, f"{where}: the id of entry {number} is cut short")
        places.append((bytes(data[at : at + length]).decode(), offset, size))
        at += length
    names = [name for name, _, _ in places]
    _require(len(set(names)) == len(names), f"{where}: an entry twice in {names}")
    end, entries = at, {}
    for name, offset, size in places:
        _require(offset + size <= len(data), f"{where}: {name} ends at {offset + size} of {len(data)}")
        if size:
            _require(offset >= at, f"{where}: {name} lies inside the header")
            end = max(end, offset + size)
        with memoryview(data) as view, view[offset : offset + size] as code:
            entries[name] = _code(code, digest)
    spans = sorted((offset, offset + size) for _, offset, size in places if size)
    _require(all(a[1] <= b[0] for a, b in pairwise(spans)), f"{where}: entries overlap")
    return entries, end


def _code(code: memoryview, digest: bool) -> Code:
    return Code(
        len(code), hashlib.sha256(code).hexdigest(), bytes(code[:64]), None if digest else bytes(code)
    )


def _unpack(data: Buffer, at: int, end: int, where: str) -> tuple[str, int, bytes]:
    """(form, bytes in the file, uncompressed bundle) of a compressed bundle, its hash checked."""
    version, method = struct.unpack_from("<HH", data, at + 4)
    layouts = {1: "<IQ", 2: "<IIQ", 3: "<QQQ"}
    _require(version in layouts, f"{where}: CCOB version {version}")
    _require(method in (0, 1), f"{where}: CCOB method {method}")
    *total, size, check = struct.unpack_from(layouts[version], data, at + 8)
    header = 8 + struct.calcsize(layouts[version])
    _require(size <= LARGEST_BUNDLE, f"{where}: announces {size} bytes")
    stop = at + total[0] if total else end
    _require(at + header < stop <= end, f"{where}: ends at {stop:#x}, the section at {end:#x}")
    with memoryview(data) as view, view[at + header : stop] as packed:
        raw, unused = _inflate(packed, size) if method == 0 else _decompress(packed, size, where)
    _require(len(raw) == size, f"{where}: {len(raw)} bytes uncompressed, announced {size}")
    _require(not total or unused == 0, f"{where}: {unused} bytes behind the compressed data")
    md5 = hashlib.md5(raw, usedforsecurity=False).digest()[:8]
    _require(struct.unpack("<Q", md5)[0] == check, f"{where}: hash {check:#x} does not fit the content")
    return f"ccob{version}", stop - unused - at, raw


def _inflate(packed: memoryview, size: int) -> tuple[bytes, int]:
    decoder = zlib.decompressobj()
    raw = decoder.decompress(packed, size + 1)
    _require(decoder.eof, "the zlib stream is cut short or longer than announced")
    return raw, len(decoder.unused_data)


def _decompress(packed: memoryview, size: int, where: str) -> tuple[bytes, int]:
    announced = zstandard.frame_content_size(packed)
    _require(announced == size, f"{where}: the zstd frame has {announced} bytes, the header says {size}")
    decoder = zstandard.ZstdDecompressor().decompressobj()
    raw = decoder.decompress(packed)
    _require(decoder.eof, f"{where}: the zstd frame is cut short")
    return raw, len(decoder.unused_data)


# -- what the code is for ----------------------------------------------------------------------------------

# EF_AMDGPU_MACH, from "AMDGPU EF_AMDGPU_MACH values" in LLVM's "User Guide for AMDGPU Backend".
MACHINES = {
    0x20: "gfx600", 0x21: "gfx601", 0x22: "gfx700", 0x23: "gfx701", 0x24: "gfx702", 0x25: "gfx703",
    0x26: "gfx704", 0x28: "gfx801", 0x29: "gfx802", 0x2B: "gfx810", 0x3A: "gfx602", 0x3B: "gfx705",
    0x3C: "gfx805", 0x57: "gfx1154", 0x5C: "gfx1172", 0x5D: "gfx1170", 0x5E: "gfx1171",
    0x2A: "gfx803", 0x2C: "gfx900", 0x2D: "gfx902", 0x2E: "gfx904", 0x2F: "gfx906", 0x30: "gfx908",
    0x31: "gfx909", 0x32: "gfx90c", 0x33: "gfx1010", 0x34: "gfx1011", 0x35: "gfx1012", 0x36: "gfx1030",
    0x37: "gfx1031", 0x38: "gfx1032", 0x39: "gfx1033", 0x3D: "gfx1035", 0x3E: "gfx1034", 0x3F: "gfx90a",
    0x40: "gfx940", 0x41: "gfx1100", 0x42: "gfx1013", 0x43: "gfx1150", 0x44: "gfx1103", 0x45: "gfx1036",
    0x46: "gfx1101", 0x47: "gfx1102", 0x48: "gfx1200", 0x49: "gfx1250", 0x4A: "gfx1151", 0x4B: "gfx941",
    0x4C: "gfx942", 0x4E: "gfx1201", 0x4F: "gfx950", 0x51: "gfx9-generic", 0x52: "gfx10-1-generic",
    0x53: "gfx10-3-generic", 0x54: "gfx11-generic", 0x55: "gfx1152", 0x58: "gfx1153", 0x59: "gfx12-generic",
    0x5A: "gfx1251", 0x5B: "gfx12-5-generic", 0x5F: "gfx9-4-generic",
}  # fmt: skip
# e_flags of code objects v4 and newer: (mask, any, off, on); 0 means that the processor has no such feature.
FEATURES = {"xnack": (0x300, 0x100, 0x200, 0x300), "sramecc": (0xC00, 0x400, 0x800, 0xC00)}
FEATURES_V3 = {"xnack": 0x100, "sramecc": 0x200}


def code_object_machine(code: bytes) -> int:
    """EF_AMDGPU_MACH of an AMDGPU code object (its first 64 bytes suffice)."""
    return _flags(code)[0] & 0xFF


def target_of(code: bytes) -> str:
    """The processor with its settled features, such as "gfx90a:xnack-", as the ELF header states it.

    Older code objects (v3) say "on" or "off" but never "any": only what is on is named then.
    """
    flags, abi = _flags(code)
    _require(flags & 0xFF in MACHINES, f"EF_AMDGPU_MACH {flags & 0xFF:#x} is not in the table")
    parts = [MACHINES[flags & 0xFF]]
    for name in ("sramecc", "xnack"):
        mask, _, off, on = FEATURES[name]
        if abi >= 2 and flags & mask in (off, on):
            parts.append(name + ("+" if flags & mask == on else "-"))
        if abi == 1 and flags & FEATURES_V3[name]:
            parts.append(f"{name}+")
    return ":".join(parts)


def mismatch(entry: str, code: bytes) -> str | None:
    """What contradicts that `code` is for the target that the bundle's `entry` names; None if nothing."""
    target = entry.rpartition("--")[2]
    processor, *named = target.split(":")
    built, *settled = target_of(code).split(":")
    if processor.removesuffix("-strict") != built:
        return f"{entry} holds code for {built}"
    v3 = _flags(code)[1] == 1
    expected = {name for name in named if not (v3 and name.endswith("-"))}
    # Without a word about a feature, v3 code has the processor's default, which may be "on".
    extra = {name for name in settled if not (v3 and name.rstrip("+") not in {n.rstrip("+-") for n in named})}
    return f"{entry} holds code for {target_of(code)}" if expected != extra else None


def _flags(code: bytes) -> tuple[int, int]:
    """(e_flags, EI_ABIVERSION) of an AMDGPU HSA code object; ABI 1 is code object v3, 2 is v4, and so on."""
    _require(len(code) >= 64 and code[:4] == b"\x7fELF", f"{code[:4]!r} starts no ELF file")
    _require(code[4] == 2 and code[5] == 1, "the code object is not 64-bit little-endian")
    machine, flags = struct.unpack_from("<H", code, 18)[0], struct.unpack_from("<I", code, 48)[0]
    _require(machine == 224, f"e_machine {machine} is not AMDGPU")
    _require(code[7] == 64 and code[8] >= 1, f"OS ABI {code[7]} version {code[8]}: not HSA, v3 or newer")
    return flags, code[8]


def bundler(program: Path | str, bundle: bytes, target_id: str) -> bytes:
    """What LLVM's own `clang-offload-bundler` takes out of one uncompressed `bundle` for an entry's id."""
    with tempfile.TemporaryDirectory() as directory:
        source, out = Path(directory, "bundle.o"), Path(directory, "out.o")
        source.write_bytes(bundle)
        words = ["--unbundle", "--type=o", f"--targets={target_id}", f"--input={source}", f"--output={out}"]
        done = subprocess.run([str(program), *words], capture_output=True, text=True)
        _require(done.returncode == 0, f"clang-offload-bundler failed for {target_id}: {done.stderr.strip()}")
        return out.read_bytes()


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise ValueError(text)
