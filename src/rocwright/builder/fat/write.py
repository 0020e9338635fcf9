"""Write a fat wheel, and the extensions that go with it, from their plan: whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from rocwright.binary.elf import read_elf
from rocwright.binary.elf_edits import plan_rpath
from rocwright.binary.patch import Copy, PatchedFile, Splice
from rocwright.binary.view import spooled
from rocwright.builder.fat.wheel import BILL_PATH, BundledFile, FatPlan, WheelChange
from rocwright.builder.pins import kept_members, recorded_digests, take
from rocwright.device_code.wheel.outputs import publish, workspace
from rocwright.system.files import require_space
from rocwright.wheel.read import WheelMember, open_wheel
from rocwright.wheel.source import BytesSource, FileSource
from rocwright.wheel.stream import WheelStream, opened
from rocwright.wheel.write import Member, Taken, check_names, write_members

# ROCm's libraries are at most about five times as large as in a wheel.
_MOST_PACKED = 5


def write_fat(
    plan: FatPlan, *, threads: int = 2, note: Callable[[str], None] = lambda text: None
) -> tuple[Path, ...]:
    """Write the wheels of a plan, torch first; the same plan gives the same bytes for any `threads`.

    Members that do not change are taken over as they are compressed. All wheels appear together at the end.
    Raises `InvalidWheel`, `InvalidElf` or `InvalidInput` for inputs that changed since or cannot be edited,
    `NoSpace` before or while writing; then nothing is left behind.
    """
    outputs = [Path(change.output) for change in plan.wheels]
    sizes = sum(Path(change.source).stat().st_size for change in plan.wheels)
    need = sizes + sum(file.size for file in plan.files) // _MOST_PACKED
    require_space(outputs[0].parent, need, purpose="the fat wheel")
    with workspace(outputs[0].with_name(f"{outputs[0].name}.parts")) as work:
        for change, output in zip(plan.wheels, outputs, strict=True):
            is_torch = change is plan.wheels[0]
            note(f"writing {output.name}" + (f" with {len(plan.files)} files of ROCm" if is_torch else ""))
            _write(change, plan if is_torch else None, work, output.name, threads)
        publish(work, [output.name for output in outputs], outputs[0].parent)
    return tuple(outputs)


def _write(change: WheelChange, plan: FatPlan | None, work: Path, name: str, threads: int) -> None:
    wheel = open_wheel(Path(change.source))
    record = f"{change.dist_info}/RECORD"
    with opened(wheel) as source, (work / name).open("wb") as stream:
        writer = _Members(source, change, work)
        inside, beside = ([], []) if plan is None else (list(plan.files), _texts(plan, change))
        names = [writer.name(member.name) for member in kept_members(wheel)]
        names += [file.path for file in inside] + [member.name for member in beside]
        check_names([*names, record], case_matters="linux" in name)
        write_members(stream, writer.members(inside, beside), record, threads=threads)


def _texts(plan: FatPlan, change: WheelChange) -> list[Member]:
    """Licences and bills of materials of the ROCm inside."""
    copied = sorted({**plan.licences, **plan.boms}.items())
    return [
        *(Member(f"{change.dist_info}/{path}", FileSource(Path(place))) for path, place in copied),
        Member(f"{change.dist_info}/{BILL_PATH}", _text(plan.bill)),
    ]


class _Members:
    """The members of one output, made while they are written."""

    def __init__(self, source: WheelStream, change: WheelChange, work: Path) -> None:
        self.source, self.change, self.work = source, change, work
        self.wheel = source.wheel
        self.digests = recorded_digests(self.wheel)

    def name(self, name: str) -> str:
        """A member's name in the output: `.dist-info` and `.data` carry the version."""
        top, _, rest = name.partition("/")
        stem = self.wheel.dist_info.removesuffix(".dist-info")
        if top == f"{stem}.data":
            return f"{self.change.dist_info.removesuffix('.dist-info')}.data/{rest}"
        return f"{self.change.dist_info}/{rest}" if top == self.wheel.dist_info else name

    def members(self, inside: list[BundledFile], beside: list[Member]) -> Iterator[Member | Taken]:
        """The package, ROCm, and `.dist-info` last, as the wheel specification advises."""
        info = f"{self.wheel.dist_info}/"
        kept = kept_members(self.wheel)
        yield from (self._member(member) for member in kept if not member.name.startswith(info))
        yield from map(_bundled, inside)
        yield from (self._member(member) for member in kept if member.name.startswith(info))
        yield from beside

    def _member(self, member: WheelMember) -> Member | Taken:
        name, mode = self.name(member.name), member.mode or 0o644
        if member.name == f"{self.wheel.dist_info}/METADATA":
            return Member(name, _text(self.change.metadata), mode=mode)
        if member.name in self.change.texts:
            return Member(name, _text(self.change.texts[member.name]), mode=mode)
        if member.name in self.change.rpaths:
            file = spooled(self.wheel.path / member.name, self.source.inflated(member), self.work)
            patch = plan_rpath(read_elf(file), self.change.rpaths[member.name])
            if patch is not None:
                whole = Copy(0, 0, min(file.size, patch.size))
                return Member(name, Splice(file, (whole,), patch), mode=mode)
        return take(self.source, member, self.digests, name=name)


def _text(text: str) -> BytesSource:
    return BytesSource(text.encode("utf-8", "surrogateescape"))


def _bundled(file: BundledFile) -> Member:
    place = Path(file.source)
    facts = place.stat()
    patch = None if file.rpath is None else plan_rpath(read_elf(place), file.rpath)
    return Member(file.path, PatchedFile(place, patch, facts.st_size), executable=bool(facts.st_mode & 0o111))
