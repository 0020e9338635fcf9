"""GPUs as the table `data/gpus.toml` has them: PCI device ids, chips, targets, names."""

from __future__ import annotations

import re

import msgspec

from rocwright.errors import InvalidData
from rocwright.model.gpu import is_target

_ID = re.compile(r"[0-9a-f]{4}")
_NAMED = re.compile(r"(?P<device>[0-9a-f]{4}):(?P<revisions>[0-9a-f]{2}(?: [0-9a-f]{2})*)")


class Chip(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A chip: its target, whether it is part of a processor, and the PCI device ids that it goes by.

    `processors` are those that an integrated one is part of. `names` maps `DEVICE:REVISION REVISION …`
    (lowercase hex) to what these boards are sold as.
    """

    name: str
    target: str
    ids: tuple[str, ...]
    integrated: bool = False
    processors: tuple[str, ...] = ()
    names: dict[str, str] = {}

    def __post_init__(self) -> None:
        if not is_target(self.target) or ":" in self.target:
            raise InvalidData(f"the chip {self.name} has the target {self.target!r}, which is none")
        for one in self.ids:
            if _ID.fullmatch(one) is None:
                raise InvalidData(f"the chip {self.name} has the id {one!r}; write four lowercase hex digits")
        for key in self.names:
            match = _NAMED.fullmatch(key)
            if match is None or match["device"] not in self.ids:
                raise InvalidData(
                    f"the chip {self.name} names {key!r}",
                    next_step="write DEVICE:REVISION REVISION …, lowercase, with a device of its ids",
                )

    def named(self) -> dict[tuple[str, str], str]:
        """What it is sold as, by device id and PCI revision."""
        found = {}
        for key, name in self.names.items():
            device, _, revisions = key.partition(":")
            found.update({(device, revision): name for revision in revisions.split()})
        return found


class GpuTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table; each device id is that of one chip, each revision has one name."""

    chip: tuple[Chip, ...]

    def __post_init__(self) -> None:
        seen: dict[str, str] = {}
        for chip in self.chip:
            for one in chip.ids:
                if one in seen:
                    raise InvalidData(
                        f"the id {one} is that of {seen[one]} and of {chip.name}",
                        next_step="leave it in one of them",
                    )
                seen[one] = chip.name
            revisions = [word for key in chip.names for word in key.partition(":")[2].split()]
            if len(chip.named()) < len(revisions):
                raise InvalidData(f"the chip {chip.name} has two names for one revision")
