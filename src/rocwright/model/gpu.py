"""GPU targets, families and chips: text becomes a type here, once.

A *target* is one instruction set (`gfx90a`), with optional features (`gfx90a:xnack+`, after LLVM's
AMDGPU usage guide), a generic one that runs on several chips (`gfx9-4-generic`), or SPIR-V, which is no
instruction set: the driver compiles it for the chip it finds. A *family* is a named set of base targets. A
*chip* is what a machine has: its PCI device ids say its target, and what it is sold as.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from rocwright.errors import InvalidData, InvalidInput
from rocwright.model.runners import FamilyRow, check_rows

# What the compiler calls code that no chip runs as it is.
SPIRV = "amdgcnspirv"

# `-strict` makes another target, not a feature of the plain one: its code has its own machine number.
_TARGET = re.compile(
    r"(?P<base>gfx[0-9]+[0-9a-f]{2}(?:-strict)?|gfx[0-9]+(?:-[0-9]+)?-generic|" + SPIRV + r")(?P<rest>.*)"
)
_FEATURE = re.compile(r":(?P<name>xnack|sramecc)(?P<sign>[+-])")
_NATURAL = re.compile(r"gfx(?P<major>[0-9]+)(?P<minor>[0-9a-f])(?P<step>[0-9a-f])(?:-strict)?$")
_ID = re.compile(r"[0-9a-f]{4}")
_NAMED = re.compile(r"(?P<device>[0-9a-f]{4}):(?P<revisions>[0-9a-f]{2}(?: [0-9a-f]{2})*)")


class InvalidTarget(InvalidInput):
    """Text that names no GPU target or family."""


class Target(msgspec.Struct, frozen=True, order=True):
    """One instruction set: base name and features in the order written (`xnack+`, `sramecc-`)."""

    base: str
    features: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ":".join((self.base, *self.features))

    @property
    def is_spirv(self) -> bool:
        """Whether this is SPIR-V, compiled for the chip at run time, rather than an instruction set."""
        return self.base == SPIRV


def parse_target(text: str) -> Target:
    """Parse `gfx90a` or `gfx90a:sramecc+:xnack-`; raises `InvalidTarget` naming the text."""
    match = _TARGET.fullmatch(text.strip())
    if match is None:
        raise InvalidTarget(
            f"{text!r} is not a GPU target", next_step="write it like gfx90a or gfx90a:xnack+"
        )
    rest = match["rest"]
    features = tuple(f["name"] + f["sign"] for f in _FEATURE.finditer(rest))
    if "".join(f":{feature}" for feature in features) != rest:
        raise InvalidTarget(
            f"{text!r} has an unknown target feature",
            next_step="known features: xnack+ xnack- sramecc+ sramecc-",
        )
    if len({feature[:-1] for feature in features}) < len(features):
        raise InvalidTarget(f"{text!r} gives a target feature twice", next_step="give each feature once")
    return Target(match["base"], features)


def is_target(text: str) -> bool:
    """Whether text names a target, with or without features."""
    try:
        parse_target(text)
    except InvalidTarget:
        return False
    return True


def parse_targets(text: str) -> tuple[Target, ...]:
    """Parse a list separated by spaces, `,` or `;`, keeping order, dropping repeats."""
    return tuple(dict.fromkeys(parse_target(word) for word in re.split(r"[\s,;]+", text) if word))


def less_specific(target: Target, among: Iterable[Target]) -> list[Target]:
    """Those whose code also runs on `target`: its base with some of its features, most features first."""
    fitting = [o for o in among if o.base == target.base and set(o.features) < set(target.features)]
    return sorted(fitting, key=lambda other: (-len(other.features), str(other)))


def base_targets(targets: Iterable[str]) -> tuple[str, ...]:
    """The base names of target ids, each once, in the hardware's order: gfx906 before gfx1030."""
    return tuple(sorted({parse_target(text).base for text in targets}, key=_order))


def in_order(targets: Iterable[str]) -> tuple[str, ...]:
    """Target ids in the hardware's order, features kept; what is no target stands last."""
    return tuple(sorted(targets, key=lambda text: (_order(text.partition(":")[0]), text)))


def _order(base: str) -> tuple[int, str]:
    match = _NATURAL.match(base)
    return (int(match["major"]), base) if match else (1 << 30, base)


class Families(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The family table: family name to base targets, and what the pipeline builds and tests of them.

    A later row of the same name takes the place of an earlier one. `generic` maps generic targets to those
    that their code runs on, `owners` targets to the one whose package has their code.
    """

    families: dict[str, tuple[str, ...]]
    family: tuple[FamilyRow, ...] = ()
    generic: dict[str, tuple[str, ...]] = {}
    owners: dict[str, str] = {}

    def __post_init__(self) -> None:
        check_rows(self.family, self.families)
        for target, owner in self.owners.items():
            if not is_target(target) or not is_target(owner) or owner in self.owners:
                raise InvalidData(
                    f"[families.owners] {target} = {owner!r} names no target with a package of its own",
                    next_step="write two GPU targets, the second without an owner",
                )


def expand(names: Iterable[str], families: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Base targets of family or target names; raises `InvalidTarget` listing the known families."""
    found: list[str] = []
    for name in names:
        if name in families:
            found.extend(families[name])
        elif any(name in targets for targets in families.values()):
            found.append(name)
        else:
            raise InvalidTarget(
                f"{name!r} is not a known family or target",
                next_step="known families: " + " ".join(sorted(families)),
            )
    return base_targets(found)


def spelled(name: str, known: Iterable[str]) -> str:
    """The known name that this one is in whatever case; what is none of them, as it is."""
    names = tuple(known)
    return name if name in names else next((one for one in names if one.lower() == name.lower()), name)


def matching_family(targets: Iterable[str], families: Mapping[str, tuple[str, ...]]) -> str | None:
    """The first family made of exactly these base targets, or None."""
    wanted = frozenset(targets)
    return next((name for name, members in families.items() if frozenset(members) == wanted), None)


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
            raise InvalidData(
                f"the chip {self.name} has the target {self.target!r}, which is not a GPU target"
            )
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
    """The whole table; each device id is that of one chip, each revision has one name.

    A later chip of the same name takes the place of an earlier one.
    """

    chip: tuple[Chip, ...]

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "chip", tuple({row.name: row for row in self.chip}.values()))
        seen: dict[str, str] = {}
        for chip in self.chip:
            for one in chip.ids:
                if one in seen:
                    raise InvalidData(
                        f"the id {one} is given for {seen[one]} and for {chip.name}",
                        next_step="leave it in one of them",
                    )
                seen[one] = chip.name
            revisions = [word for key in chip.names for word in key.partition(":")[2].split()]
            if len(chip.named()) < len(revisions):
                raise InvalidData(f"the chip {chip.name} has two names for one revision")
