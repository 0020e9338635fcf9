"""Read the wheels of a build's parts, and refuse those that cannot belong together before any is compared."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rocwright.device_code.wheel.device_wheel import offered
from rocwright.device_code.wheel.scan import Scan, scan_wheel
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.gpu import parse_target
from rocwright.wheel.read import Wheel, open_wheel
from rocwright.wheel.stream import WheelStream, opened

AGAIN = "build every part from the same sources, with rocwright build --device-part"


@dataclass(frozen=True)
class Part:
    """A wheel with device code for some targets; `targets` are those it must have (empty: what it has)."""

    path: Path
    targets: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadPart:
    """A part whose members were all verified; `label` tells it from the others in messages."""

    part: Part
    label: str
    wheel: Wheel
    source: WheelStream
    scan: Scan


def open_parts(parts: Sequence[Part]) -> list[Wheel]:
    """The wheels of the parts; raises unless they are several files of one name."""
    if not parts:
        raise UsageError("nothing to merge", next_step="give the wheel of each part")
    seen: dict[Path, Part] = {}
    for part in parts:
        if seen.setdefault(part.path.resolve(), part) is not part:
            raise UsageError(f"{part.path} is given twice", next_step="give the wheel of each part once")
    wheels = [open_wheel(part.path) for part in parts]
    first = wheels[0]
    for wheel in wheels[1:]:
        if wheel.path.name != first.path.name:
            raise InvalidInput(
                f"{wheel.path.name} is no part of {first.path.name}: {_what_differs(first, wheel)}",
                where=wheel.path,
                next_step="give the parts of one build: one project, version, Python and platform",
            )
    for wheel in wheels:
        if offered(wheel):
            raise InvalidInput(
                f"{wheel.path} was split into host and device wheels",
                where=wheel.path,
                next_step="merge the parts as they were built, and split the result",
            )
    return wheels


def _what_differs(first: Wheel, other: Wheel) -> str:
    if first.name != other.name:
        return f"another project, {other.name} and not {first.name}"
    if first.version != other.version:
        return f"another version, {other.version} and not {first.version}"
    tags = ["-".join(wheel.path.stem.split("-")[2:]) for wheel in (first, other)]
    return f"for another Python or platform, {tags[1]} and not {tags[0]}"


def read_parts(
    parts: Sequence[Part], wheels: Sequence[Wheel], work: Path, stack: ExitStack, *, threads: int
) -> list[ReadPart]:
    """Verify every member of every part; `work` takes libraries that are too large for memory.

    Raises `InvalidWheel` and `InvalidElf` for one that is damaged, `InvalidInput` for one without device code
    or without that for the targets it must have.
    """
    found = []
    for part, wheel in zip(parts, wheels, strict=True):
        source = stack.enter_context(opened(wheel))
        scan = scan_wheel(source, work, threads=threads)
        if not scan.fat and len(parts) > 1:
            raise InvalidInput(
                f"{part.path} has no device code" + _reasons(scan), where=part.path, next_step=AGAIN
            )
        found.append(ReadPart(part, str(part.path.parent), wheel, source, scan))
    return found


def _reasons(scan: Scan) -> str:
    return "".join(f"; {name}: {reason}" for name, reason in sorted(scan.kept.items())[:3])


def missing_targets(wanted: Sequence[str], there: Sequence[str]) -> list[str]:
    """Base names of the targets that nothing is there for."""
    have = {parse_target(text).base for text in there}
    return sorted({parse_target(text).base for text in wanted} - have)
