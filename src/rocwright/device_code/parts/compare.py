"""Compare all that parts must have in common: every file, but for device code. All differences at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from rocwright.binary import elf as fmt
from rocwright.binary.elf import read_elf
from rocwright.binary.inside import spooled
from rocwright.binary.view import Mapped
from rocwright.device_code.parts.parts import AGAIN, ReadPart
from rocwright.device_code.same_host import HostDifference, host_differences
from rocwright.errors import InvalidElf, InvalidInput

_MOST_FILES, _MOST_PLACES = 12, 3
_LINE = 96
_CUID = "__hip_cuid_"


def require_same_hosts(parts: Sequence[ReadPart], work: Path) -> None:
    """Raise `InvalidInput` with every file that differs from the first part's, where, and both values."""
    first = parts[0]
    for other in parts[1:]:
        lines = list(islice(_differences(first, other, work), _MOST_FILES + 1))
        if lines:
            shown = lines[:_MOST_FILES] + ["and more"] * (len(lines) > _MOST_FILES)
            what = f"{first.wheel.path.name} in {other.label} has other host code than in {first.label}:"
            raise InvalidInput(
                "\n    ".join([what, *shown]), where=other.wheel.path, next_step=_next_step(lines)
            )


def _next_step(lines: Sequence[str]) -> str:
    if any(_CUID in line for line in lines):
        return f"{AGAIN}, which gives each unit a fixed -cuid: clang hashes it out of the targets"
    return f"{AGAIN}, and --pytorch-rocm-arch with the targets of all parts"


def _differences(first: ReadPart, other: ReadPart, work: Path) -> Iterator[str]:
    mine, theirs = first.wheel.member, other.wheel.member
    own = f"{first.wheel.dist_info}/RECORD"
    for name in sorted(mine.keys() | theirs.keys()):
        if name.startswith(own):
            continue
        if name not in mine or name not in theirs:
            here = first if name in mine else other
            # Files for one target may be in its part only.
            if name not in here.scan.databases:
                yield f"{name}: only in {here.label}"
        elif first.scan.digests[name] != other.scan.digests[name]:
            places = _places(first, other, name, work)
            shown = places[:_MOST_PLACES] + [f"and {len(places) - _MOST_PLACES} more places"] * (
                len(places) > _MOST_PLACES
            )
            if not places and name not in first.scan.fat:
                reason = first.scan.kept.get(name) or "it cannot be taken out"
                shown = [f"its device code differs, and {reason}"]
            yield from (f"{name}: {place}" for place in shown)
        elif mine[name].mode != theirs[name].mode:
            yield f"{name}: mode {mine[name].mode:o} and {theirs[name].mode:o}"


def _places(first: ReadPart, other: ReadPart, name: str, work: Path) -> list[str]:
    """Where two files of one name differ, but for their device code."""
    files = [_file(part, name, work) for part in (first, other)]
    if all(file.read_at(0, len(fmt.MAGIC)) == fmt.MAGIC for file in files):
        try:
            one, two = (read_elf(file) for file in files)
        except InvalidElf as error:
            return [error.what]
        if one.section_table and two.section_table:
            return [str(difference) for difference in host_differences(one, files[0], two, files[1])]
    return [str(_first_difference(*files))]


def _file(part: ReadPart, name: str, work: Path) -> Mapped:
    known = part.scan.fat.get(name) or part.scan.further.get(name)
    path = Path(name)
    return known or spooled(path, part.source.inflated(part.wheel.member[name]), work)


def _first_difference(one: Mapped, other: Mapped) -> HostDifference:
    """The first line that differs in texts, the first bytes in other files."""
    step = 1 << 20
    for start in range(0, max(one.size, other.size) + 1, step):
        pieces = [file.read_at(start, step) for file in (one, other)]
        if pieces[0] != pieces[1]:
            break
    at = next(
        (n for n, (a, b) in enumerate(zip(*pieces, strict=False)) if a != b), min(len(p) for p in pieces)
    )
    texts = [_line(file, start + at) for file in (one, other)]
    return HostDifference("byte ", start + at, *texts)


def _line(file: Mapped, at: int) -> str:
    first = max(0, at - _LINE)
    before = file.read_at(first, at - first).rpartition(b"\n")[2]
    line = before + file.read_at(at, _LINE).partition(b"\n")[0]
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text = ""
    if text.isprintable() and text:
        return repr(text)
    return file.read_at(at, 8).hex(" ") or "its end"
