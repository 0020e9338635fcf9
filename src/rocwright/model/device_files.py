"""Tells from a path alone which GPU target a database or library of ROCm serves.

The rows stand in `data/device_files.toml`, whose head explains them. Nothing is guessed: a path in the area
of a row that seems to name a target, but none that is known, is an `Unplaced`, never a file of the host.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from rocwright.model.gpu import SPIRV, Families, base_targets

_PLACE = "<target>"
_FEATURE = r"(?:xnack|sramecc)"

# What may follow the name of a target, by spelling.
_TAILS = {
    "plain": rf"(?::{_FEATURE}[+-])*",
    "tensile": rf"(?:[:-]{_FEATURE}[+-])*",
    # In hexadecimal only above 64 (0x40), so that an unknown target is less easily taken for a known one.
    "cu-count": r"(?:_[0-9]{1,3}|4[1-9a-f]|[5-9a-f][0-9a-f]|[1-9a-f][0-9a-f]{2})?",
    "family": "",
    "sanitised": rf"(?:_{_FEATURE}_)*",
    "stepping": r"(?:-[a-z][0-9]){2}",
}
# Then the word must be over, or it is another target: of gfx942 nothing is known about gfx942-strict.
_END = r"(?![0-9A-Za-z:+]|-[0-9a-z])"

_LOOKS_LIKE_TARGET = re.compile(rf"gfx[0-9]|{SPIRV}")
_WILDCARD = re.compile(r"gfx(?P<digits>[0-9]+x{1,2})" + _END)
_WHOLE_WORD = re.compile(r"[0-9A-Za-z:+_-]+")


class Handler(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of device files: where they are, and how their paths name the target."""

    name: str
    spelling: Literal["plain", "tensile", "cu-count", "family", "sanitised", "stepping"]
    area: str
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        for pattern in self.names:
            if pattern.count(_PLACE) != 1:
                raise ValueError(f"handler {self.name!r}: {pattern!r} needs exactly one {_PLACE}")


class DeviceFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `data/device_files.toml`."""

    further_targets: tuple[str, ...]
    handler: tuple[Handler, ...]
    group_names: dict[str, str] = {}
    steppings: dict[str, str] = {}


class DeviceFile(msgspec.Struct, frozen=True):
    """A file that serves one base target, or a group of them; exactly one of the two is set.

    `members` are the group's known targets in the hardware's order, and empty for a single target.
    """

    handler: str
    target: str | None
    group: str | None
    members: tuple[str, ...] = ()


class Unplaced(msgspec.Struct, frozen=True):
    """A path in a handler's area that names an unknown target, or several; to be reported, not shipped."""

    handler: str
    word: str
    reason: str


def known_targets(table: DeviceFiles, families: Families) -> frozenset[str]:
    """Every base target that a path may name: those of all families and the table's further ones."""
    return frozenset(table.further_targets).union(*families.families.values())


def classify(path: str, table: DeviceFiles, targets: frozenset[str]) -> DeviceFile | Unplaced | None:
    """Which target the file at `path` serves; None means all of them, so it stays with the host.

    `path` has forward slashes and starts at a ROCm prefix, an artifact's prefix or a wheel's package
    (`torch/lib/rocblas/library/x_gfx942.dat`). Features are dropped: a device package serves a base target.
    """
    rooted = "/" + path.lstrip("/")
    starts = [word.start() for word in _LOOKS_LIKE_TARGET.finditer(rooted)]
    for handler in table.handler if starts else ():
        area = _compiled(handler.area + "**")
        within = [start for start in starts if area.fullmatch(rooted, 0, start)]
        if within:
            return _settle(handler, rooted, within, table, targets)
    return None


def in_database(path: str, table: DeviceFiles) -> bool:
    """Whether a file lies where libraries look for device files; with no target in its path it serves all."""
    rooted = "/" + path.lstrip("/")
    return any(_compiled(handler.area + "**").fullmatch(rooted) for handler in table.handler)


def _settle(
    handler: Handler, path: str, starts: list[int], table: DeviceFiles, targets: frozenset[str]
) -> DeviceFile | Unplaced:
    """One answer out of all words of a path; words that stand where no target is expected do not count."""
    placed: set[DeviceFile] = set()
    for start in starts:
        suffixes = [suffix for prefix, suffix in _places(handler) if prefix.fullmatch(path, 0, start)]
        file, end = _read(handler, path, start, table, targets)
        if file is not None and any(suffix.fullmatch(path, end) for suffix in suffixes):
            placed.add(file)
        elif any(_could_end(suffix, path, start) for suffix in suffixes):
            return _unplaced(handler, path, start, "is not a known target")
    if not placed:
        return _unplaced(handler, path, starts[0], f"stands where {handler.name} keeps no targets")
    if len(placed) > 1:
        return _unplaced(handler, path, starts[0], "is not the only target in the path")
    return placed.pop()


def _unplaced(handler: Handler, path: str, start: int, reason: str) -> Unplaced:
    match = _WHOLE_WORD.match(path, start)
    return Unplaced(handler.name, match[0] if match else "", reason)


def _could_end(suffix: re.Pattern[str], path: str, start: int) -> bool:
    """Whether the place is right, whatever the word that starts there."""
    match = _WHOLE_WORD.match(path, start)
    last = match.end() if match else start
    return any(suffix.fullmatch(path, end) for end in range(start + 1, last + 1))


def _read(
    handler: Handler, path: str, start: int, table: DeviceFiles, targets: frozenset[str]
) -> tuple[DeviceFile | None, int]:
    """The target or group that starts here, and where its spelling ends.

    Only the longest known name counts, whatever follows: gfx1250-strict is no gfx1250.
    """
    names = _names(targets, tuple(table.steppings.items()), handler.spelling == "sanitised")
    name = next((name for name in names if path.startswith(name, start)), None)
    if name is not None:
        tail = _tail(handler.spelling).match(path, start + len(name))
        return (DeviceFile(handler.name, names[name], None), tail.end()) if tail else (None, start)
    group = _WILDCARD.match(path, start) if handler.spelling == "family" else None
    members = _members(group["digits"], targets) if group else ()
    if group is None or not members:
        return None, start
    return DeviceFile(handler.name, None, table.group_names.get(group[0], group[0]), members), group.end()


def _members(digits: str, targets: frozenset[str]) -> tuple[str, ...]:
    """The known targets that `11xx` or `120x` stands for, `x` being one hexadecimal digit."""
    pattern = re.compile("gfx" + digits.replace("x", "[0-9a-f]"))
    return base_targets(target for target in targets if pattern.fullmatch(target))


@functools.cache
def _names(
    targets: frozenset[str], steppings: tuple[tuple[str, str], ...], sanitised: bool
) -> Mapping[str, str]:
    """Spelled name to base target, longest name first."""
    names = {target: target for target in targets} | dict(steppings)
    if sanitised:
        names = {re.sub(r"[^0-9a-z]", "_", name): target for name, target in names.items()}
    return dict(sorted(names.items(), key=lambda item: (-len(item[0]), item[0])))


@functools.cache
def _tail(spelling: str) -> re.Pattern[str]:
    return re.compile(_TAILS[spelling] + _END)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """`**` is any text, `*` any text without a slash, `{a,b}` one of several."""
    parts = []
    for piece in re.split(r"(\*\*|\*|\{[^}]*\})", pattern):
        if piece in ("**", "*"):
            parts.append(".*" if piece == "**" else "[^/]*")
        elif piece.startswith("{"):
            words = (re.escape(word).replace(r"\*", "[^/]*") for word in piece[1:-1].split(","))
            parts.append("(?:" + "|".join(words) + ")")
        else:
            parts.append(re.escape(piece))
    return re.compile("".join(parts), re.DOTALL)


@functools.cache
def _places(handler: Handler) -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    """For each row of names, what stands before and what behind the target."""
    halves = (pattern.split(_PLACE) for pattern in handler.names)
    return tuple((_compiled(handler.area + before), _compiled(after)) for before, after in halves)
