"""Merge the wheels of a build's parts into the wheel of a build for all targets.

Every part has the same host code, and device code for its own targets. The merged wheel is the first part's,
with the device code of all: a whole wheel, which installs, builds other projects and splits like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.elf import read_elf
from rocwright.binary.view import Mapped, spooled
from rocwright.device_code.parts import (
    AGAIN,
    Census,
    Joined,
    Part,
    ReadPart,
    merge_library,
    missing_targets,
    open_parts,
    prove_library,
    read_parts,
    targets_of,
)
from rocwright.device_code.same_host import HostDifference, host_differences
from rocwright.device_code.wheel.outputs import publish, require_elsewhere, workspace
from rocwright.errors import InvalidElf, InvalidInput
from rocwright.model.gpu import in_order
from rocwright.system.files import link_or_copy
from rocwright.wheel.write import Member, Taken, check_names, write_members

__all__ = ["MergedParts", "Part", "merge_parts"]

_SIGNATURES = ("RECORD", "RECORD.jws", "RECORD.p7s")


class MergedParts(msgspec.Struct, frozen=True):
    """A written wheel; `size` in bytes.

    `targets` are those of its device code in full. `objects` counts code objects as the runtime does, once
    for each wrapper and target; all were read back and equal those of the parts. `shared` of them were in
    several parts. `partial` wrappers have no code for some targets, and `apart` kernels are not in all parts:
    both are legitimate, where a kernel is only for some GPUs. `libraries` were merged, `files` for single
    targets came from other parts than the first.
    """

    path: str
    size: int
    parts: int
    targets: tuple[str, ...]
    libraries: int
    objects: int
    shared: int
    partial: int
    apart: int
    files: int


def merge_parts(
    parts: Sequence[Part],
    output_dir: Path,
    *,
    targets: Sequence[str] = (),
    threads: int = 2,
    note: Callable[[str], None] = lambda text: None,
) -> MergedParts:
    """Merge the wheels of all parts into `output_dir`; the first part's host code is taken.

    `targets` are those that the result must have code for (empty: whatever the parts have). Host code must be
    the same in all parts but for addresses, build ids and device code; a target that is in several parts must
    have the same code there. The same parts in the same order give the same bytes.

    Raises `UsageError` for no parts, one given twice or one that would be replaced; `InvalidInput` for parts
    of different builds (naming files, places and both values), without device code or with too few targets;
    `InvalidWheel`, `InvalidElf`, `InvalidBundle` for one that is damaged. Nothing is written then.
    """
    wheels = open_parts(parts)
    for part in parts:
        require_elsewhere(part.path, output_dir)
    name = wheels[0].path.name
    with workspace(output_dir / name) as work, ExitStack() as stack:
        note(f"{name}: verifying {len(parts)} parts")
        read = read_parts(parts, wheels, work, stack, threads=threads)
        note(f"{name}: comparing host code")
        require_same_hosts(read, work)
        census = Census()
        joined, proven = _libraries(read, work, census, note)
        _require_targets(read, census, targets)
        members = _members(read, joined)
        more = len({member.name for member in members} - wheels[0].member.keys())
        if joined or more:
            _write(read[0], members, work / name, threads)
        else:
            link_or_copy(read[0].wheel.path, work / name)
        size = (work / name).stat().st_size
        publish(work, [name], output_dir)
    return MergedParts(
        path=str(output_dir / name),
        size=size,
        parts=len(parts),
        targets=in_order(census.objects),
        libraries=len(joined),
        objects=proven + census.same,
        shared=census.shared,
        partial=census.partial,
        apart=census.apart,
        files=more,
    )


def _libraries(
    parts: Sequence[ReadPart], work: Path, census: Census, note: Callable[[str], None]
) -> tuple[dict[str, Joined], int]:
    """The libraries whose device code differs, merged, and how many of their code objects were compared."""
    joined, proven = {}, 0
    for number, name in enumerate(sorted({name for part in parts for name in part.scan.fat})):
        if len({part.scan.digests[name] for part in parts}) == 1:
            census.take(parts[0].scan.fat[name], len(parts))
            continue
        merged = merge_library(name, parts, work / f"code-{number}", census)
        file = spooled(Path(name), merged.pieces(), work)
        count = prove_library(name, parts, file)
        note(f"{name}: {count} code objects")
        proven += count
        joined[name] = merged
    return joined, proven


def _require_targets(parts: Sequence[ReadPart], census: Census, targets: Sequence[str]) -> None:
    for part in parts:
        there = sorted({target for file in part.scan.fat.values() for target in targets_of(file)})
        if missing := missing_targets(part.part.targets, there):
            raise InvalidInput(
                f"{part.part.path} has no device code for {', '.join(missing)}",
                where=part.part.path,
                next_step=AGAIN,
            )
    if missing := missing_targets(targets, tuple(census.objects)):
        raise InvalidInput(
            f"no part has device code for {', '.join(missing)}",
            where=parts[0].wheel.path,
            next_step="give the wheels of all parts, or fewer targets",
        )


def _members(parts: Sequence[ReadPart], joined: dict[str, Joined]) -> list[Member | Taken]:
    """The first part's members in its order; before its `.dist-info` other parts' files for their targets."""
    owner: dict[str, ReadPart] = {}
    for part in parts:
        for member in part.wheel.members:
            owner.setdefault(member.name, part)
    info = f"{parts[0].wheel.dist_info}/"
    members: list[Member | Taken] = []
    for name in sorted(owner, key=lambda name: name.startswith(info)):
        if name in {f"{info}{each}" for each in _SIGNATURES}:
            continue
        part = owner[name]
        member = part.wheel.member[name]
        mode = member.sound_mode
        if name in joined:
            members.append(Member(name, joined[name], mode=mode))
            continue
        members.append(
            Taken(
                name=name,
                packed=part.source.packed(member),
                size=member.size,
                crc=member.crc,
                sha256=part.scan.digests[name],
                deflated=member.method != 0,
                mode=mode,
            )
        )
    return members


def _write(part: ReadPart, members: Sequence[Member | Taken], target: Path, threads: int) -> None:
    record = f"{part.wheel.dist_info}/RECORD"
    check_names([*(member.name for member in members), record], case_matters="linux" in target.name)
    with target.open("wb") as stream:
        write_members(stream, members, record, threads=threads)


# -- compare all that parts must have in common: every file, but for device code. All differences at once


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
            what = f"{first.wheel.path.name} in {other.label} has different host code than in {first.label}:"
            raise InvalidInput(
                "\n    ".join([what, *shown]), where=other.wheel.path, next_step=_next_step(lines)
            )


def _next_step(lines: Sequence[str]) -> str:
    if any(_CUID in line for line in lines):
        return f"{AGAIN}, which gives each unit a fixed -cuid: otherwise clang derives it from the targets"
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
