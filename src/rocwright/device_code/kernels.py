"""The names of the kernels in a code object."""

from __future__ import annotations

from rocwright.binary import elf as fmt
from rocwright.binary.elf import read_elf
from rocwright.binary.view import View
from rocwright.errors import InvalidElf

_DESCRIPTOR = b".kd"  # what the symbol of a kernel's descriptor ends with


def kernel_names(file: View) -> frozenset[str]:
    """Mangled names of the kernels that a code object defines; none for one that is no AMD GPU's ELF file."""
    try:
        elf = read_elf(file)
    except InvalidElf:
        return frozenset()
    table = next((s for s in elf.section_table if s.type == fmt.SHT_DYNSYM), None)
    if elf.machine != fmt.EM_AMDGPU or table is None or table.link >= len(elf.section_table):
        return frozenset()
    strings = elf.section_table[table.link]
    text = file.read_at(strings.offset, strings.size)
    rows = file.read_at(table.offset, table.size - table.size % fmt.SYM.size)
    names = set()
    for name, _, _, section, _, _ in fmt.SYM.iter_unpack(rows):
        word = text[name : text.find(b"\0", name)]
        if section and word.endswith(_DESCRIPTOR):
            names.add(word.removesuffix(_DESCRIPTOR).decode("utf-8", "replace"))
    return frozenset(names)
