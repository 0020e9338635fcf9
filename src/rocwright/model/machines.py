"""Says from the first bytes of a code object whether it was made for a target.

The header of an AMDGPU ELF file names its machine and the settings of two features in e_flags; how, depends
on the code object version. Source: LLVM's AMDGPU usage guide, "Header"; numbers in `data/machines.toml`.
"""

from __future__ import annotations

import struct
from functools import cached_property

import msgspec

from rocwright.model.gpu import Target

HEADER_SIZE = 64
_IDENT = b"\x7fELF\x02\x01"
_MACHINE, _FLAGS = struct.Struct("<H"), struct.Struct("<I")
_MACHINE_AT, _FLAGS_AT, _ABI_AT = 18, 48, 8
_EM_AMDGPU = 224
_MACH_MASK = 0xFF
_ABI_V3 = 1
# Version 3 has one bit for each feature (on); from version 4 on two: unsupported, any, off, on.
_BIT_V3 = {"xnack": 0x100, "sramecc": 0x200}
_SHIFT_V4 = {"xnack": 8, "sramecc": 10}
_SETTINGS = ("", "", "-", "+")


class Machines(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The table `data/machines.toml`: base target to machine number, and features a target cannot choose."""

    machines: dict[str, int]
    fixed_features: dict[str, tuple[str, ...]] = {}

    @cached_property
    def names(self) -> dict[int, str]:
        """Machine number to base target."""
        return {number: name for name, number in self.machines.items()}


def is_code_object(head: bytes) -> bool:
    """Whether these first bytes are those of an AMDGPU ELF file."""
    return (
        len(head) >= HEADER_SIZE
        and head.startswith(_IDENT)
        and _MACHINE.unpack_from(head, _MACHINE_AT)[0] == _EM_AMDGPU
    )


def machine_of(head: bytes, table: Machines) -> str | None:
    """The base target in a code object's header, None for a number that is not in the table."""
    return table.names.get(_FLAGS.unpack_from(head, _FLAGS_AT)[0] & _MACH_MASK)


def mismatch(head: bytes, target: Target, table: Machines, *, features: bool = True) -> str | None:
    """Why code with this header (64 bytes) is not code for `target`; None when it is.

    Without `features` only the machine is compared. A target without a row in the table is not judged.
    """
    if not is_code_object(head):
        return "it is not an AMDGPU code object"
    if target.base not in table.machines:
        return None
    (flags,) = _FLAGS.unpack_from(head, _FLAGS_AT)
    name = table.names.get(flags & _MACH_MASK)
    if name != target.base:
        return f"its header says {name or f'machine {flags & _MACH_MASK:#x}'}"
    for feature in _SHIFT_V4 if features else ():
        if feature in table.fixed_features.get(target.base, ()):
            continue
        wanted = next((text[-1] for text in target.features if text[:-1] == feature), "")
        found = _setting(flags, head[_ABI_AT], feature, wanted)
        if found != wanted:
            said = feature + found if found else f"no setting of {feature}"
            return f"its header says {said}"
    return None


def _setting(flags: int, abi: int, feature: str, wanted: str) -> str:
    """`+`, `-`, or nothing for any; version 3 cannot say any, and version 2 says nothing here."""
    if abi < _ABI_V3:
        return wanted
    if abi == _ABI_V3:
        return wanted and ("+" if flags & _BIT_V3[feature] else "-")
    return _SETTINGS[flags >> _SHIFT_V4[feature] & 3]
