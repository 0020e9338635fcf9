"""What a code object says of its kernels, twice: in its metadata for the runtime, and in their descriptors.

The runtime lays kernel arguments out by the one, and the GPU is started by the other. Source: LLVM's AMDGPU
usage guide, "Code Object Metadata" and "Kernel Descriptor".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.elf import Elf, read_elf
from rocwright.binary.view import View
from rocwright.errors import InvalidElf

_SHT_NOTE = 7
_NOTE = struct.Struct("<III")
_METADATA, _OWNER = 32, b"AMDGPU\0"
# Bytes of LDS, of scratch and of kernel arguments, then the entry's distance from the descriptor.
_DESCRIPTOR = struct.Struct("<III4xq")
_SIZE = 64
_SUFFIX = ".kd"


class KernelSizes(msgspec.Struct, frozen=True):
    """Bytes of LDS, of scratch for each lane, and of kernel arguments."""

    lds: int
    scratch: int
    arguments: int


class DeviceKernel(msgspec.Struct, frozen=True):
    """A kernel: what the metadata says of it and what its descriptor does; None where that is absent.

    `enters` is whether the descriptor leads into code.
    """

    name: str
    metadata: KernelSizes | None
    descriptor: KernelSizes | None
    enters: bool = False

    @property
    def trouble(self) -> str:
        """How the two contradict each other; empty where they agree."""
        if self.metadata is None:
            return "the metadata does not name it"
        if self.descriptor is None:
            return f"it has no descriptor: there is no symbol {self.name}{_SUFFIX}"
        if not self.enters:
            return "its descriptor leads to no code"
        pairs = (
            ("bytes of arguments", self.descriptor.arguments, self.metadata.arguments),
            ("bytes of LDS", self.descriptor.lds, self.metadata.lds),
        )
        # Older compilers leave the size of the arguments out of the descriptor.
        wrong = [f"{of} {what}, the metadata {said}" for what, of, said in pairs if of not in (said, 0)]
        return f"its descriptor says {wrong[0]}" if wrong else ""


def read_kernels(file: View) -> tuple[DeviceKernel, ...]:
    """All kernels of a code object, by name; raises `InvalidElf` for one that is damaged."""
    elf = read_elf(file)
    if elf.machine != fmt.EM_AMDGPU:
        raise InvalidElf(f"{file.path} is no code object of an AMD GPU", where=file.path)
    said = dict(_metadata(elf, file))
    held = dict(_descriptors(elf, file))
    return tuple(
        DeviceKernel(name, said.get(name), *held.get(name, (None, False))) for name in sorted({*said, *held})
    )


def _metadata(elf: Elf, file: View) -> Iterator[tuple[str, KernelSizes]]:
    for section in elf.section_table:
        if section.type != _SHT_NOTE:
            continue
        data = file.read_at(section.offset, section.size)
        at = 0
        while at + _NOTE.size <= len(data):
            owner, size, kind = _NOTE.unpack_from(data, at)
            start = at + _NOTE.size + (owner + 3) // 4 * 4
            if kind == _METADATA and data[at + _NOTE.size :][:owner] == _OWNER:
                yield from _kernels(data[start : start + size], file)
            at = start + (size + 3) // 4 * 4


class _Kernel(msgspec.Struct, rename=lambda name: f".{name}"):
    symbol: str
    kernarg_segment_size: int
    group_segment_fixed_size: int = 0
    private_segment_fixed_size: int = 0


def _kernels(packed: bytes, file: View) -> Iterator[tuple[str, KernelSizes]]:
    try:
        read: dict[str, Any] = msgspec.msgpack.decode(packed, type=dict[str, Any])
        kernels = msgspec.convert(read.get("amdhsa.kernels", []), list[_Kernel])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise InvalidElf(
            f"{file.path} has metadata of its kernels that cannot be read: {error}", where=file.path
        ) from error
    for one in kernels:
        sizes = KernelSizes(
            one.group_segment_fixed_size, one.private_segment_fixed_size, one.kernarg_segment_size
        )
        yield one.symbol.removesuffix(_SUFFIX), sizes


def _descriptors(elf: Elf, file: View) -> Iterator[tuple[str, tuple[KernelSizes, bool]]]:
    table = next((s for s in elf.section_table if s.type == fmt.SHT_DYNSYM), None)
    if table is None or table.link >= len(elf.section_table):
        return
    strings = elf.section_table[table.link]
    text = file.read_at(strings.offset, strings.size)
    rows = file.read_at(table.offset, table.size - table.size % fmt.SYM.size)
    for at, _, _, section, value, _ in fmt.SYM.iter_unpack(rows):
        name = text[at : text.find(b"\0", at)].decode("utf-8", "replace")
        if not section or not name.endswith(_SUFFIX):
            continue
        place = _offset(elf, value)
        data = b"" if place is None else file.read_at(place, min(_SIZE, max(0, file.size - place)))
        if len(data) < _SIZE:
            raise InvalidElf(f"{file.path} has a descriptor outside of the file: {name}", where=file.path)
        lds, scratch, arguments, distance = _DESCRIPTOR.unpack_from(data)
        yield name.removesuffix(_SUFFIX), (KernelSizes(lds, scratch, arguments), _code(elf, value + distance))


def _offset(elf: Elf, vaddr: int) -> int | None:
    for segment in elf.segments_of(fmt.PT_LOAD):
        if segment.vaddr <= vaddr < segment.vaddr + segment.filesz:
            return segment.offset + vaddr - segment.vaddr
    return None


def _code(elf: Elf, vaddr: int) -> bool:
    """Whether code is there, or ends there: a kernel that nobody may run is compiled to no instruction.

    Libraries that are tuned per GPU have such kernels for all the others.
    """
    held = elf.segments_of(fmt.PT_LOAD)
    return any(s.flags & fmt.PF_X and s.vaddr <= vaddr <= s.vaddr + s.filesz for s in held)
