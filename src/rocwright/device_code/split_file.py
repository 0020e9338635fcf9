"""Read a split library as one whose device code is put back: its marker, and wrappers that all lead there."""

from __future__ import annotations

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.elf import Elf, read_elf
from rocwright.binary.view import Mapped
from rocwright.device_code.host import MARKER_SECTION
from rocwright.device_code.kpack import Marker, read_marker
from rocwright.device_code.wrappers import SPLIT_MAGIC, Unsplittable, Wrapper, read_wrappers
from rocwright.errors import InvalidInput

_NUMBER = 0xFFFFFFFF  # the half of a wrapper's reserved word that holds its number


class SplitFile(msgspec.Struct, frozen=True):
    """A split library: `marker` leads to archives, `wrappers` ask them for code."""

    name: str
    file: Mapped
    elf: Elf
    marker: Marker
    wrappers: tuple[Wrapper, ...]

    @property
    def kernel(self) -> str:
        """Its name in archives, as readers spell it."""
        return self.marker.kernel.replace("\\", "/")


def read_split(name: str, file: Mapped) -> SplitFile | None:
    """A split library; None for any other file.

    Raises `InvalidElf`, `InvalidArchive` for one that is damaged, `InvalidInput` where its wrappers are not
    as a split leaves them.
    """
    if file.read_at(0, len(fmt.SUPPORTED)) != fmt.SUPPORTED:
        return None
    elf = read_elf(file)
    section = elf.sections.get(MARKER_SECTION)
    if section is None:
        return None
    marker = read_marker(file, section.offset, section.size)
    try:
        wrappers = read_wrappers(elf, file)
    except Unsplittable as reason:
        raise unreturnable(name, file, str(reason)) from reason
    numbers = [wrapper.reserved & _NUMBER for wrapper in wrappers]
    odd = [w for w in wrappers if w.magic != SPLIT_MAGIC or w.version != 1 or w.pointer != section.addr]
    if odd or numbers != list(range(len(wrappers))) or not wrappers:
        which = f"wrapper {odd[0].index} does not lead to its marker" if odd else "wrappers are not numbered"
        raise unreturnable(name, file, which)
    return SplitFile(name, file, elf, marker, wrappers)


def unreturnable(name: str, file: Mapped, reason: str) -> InvalidInput:
    """The error for a split library that cannot be made fat."""
    return InvalidInput(
        f"the device code of {name} cannot be put back: {reason}",
        where=file.path,
        next_step="take the fat library that was split, or split it again",
    )
