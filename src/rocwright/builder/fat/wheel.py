"""A wheel that is to bring its own ROCm: what is read of it, verified against its RECORD; what changes and
what goes in, as values; the bill of materials (CycloneDX, PEP 770); and writing it, whole or not at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.elf import read_elf
from rocwright.binary.elf_edits import plan_rpath
from rocwright.binary.patch import Copy, PatchedFile, Splice
from rocwright.binary.pe import read_pe
from rocwright.binary.view import spooled
from rocwright.builder.pins import kept_members, recorded_digests, take
from rocwright.device_code.host import MARKER_SECTION
from rocwright.device_code.wheel.outputs import publish, workspace
from rocwright.errors import InvalidWheel
from rocwright.system.files import require_space
from rocwright.system.parallel import in_order
from rocwright.system.progress import each
from rocwright.wheel.read import Wheel, WheelMember, open_wheel, place_of, read_member
from rocwright.wheel.source import BytesSource, FileSource
from rocwright.wheel.stream import WheelStream, opened
from rocwright.wheel.tags import platform_of
from rocwright.wheel.write import Member, Taken, check_names, write_members


class BundledFile(msgspec.Struct, frozen=True):
    """A file of ROCm: `path` in the wheel, `source` on disk; `rpath` what it gets (Linux libraries)."""

    path: str
    source: str
    size: int
    rpath: tuple[str, ...] | None = None


class WheelChange(msgspec.Struct, frozen=True):
    """What becomes of one wheel: `source` is read, `output` written.

    `texts` are members with new content (their names as in the source), `rpaths` libraries with a new RPATH.
    `dist_info` and `metadata` are those of the output. `dropped` are requirements that it no longer has.
    """

    source: str
    output: str
    version: str
    dist_info: str
    metadata: str
    texts: dict[str, str] = {}
    rpaths: dict[str, tuple[str, ...]] = {}
    dropped: tuple[str, ...] = ()


class FatPlan(msgspec.Struct, frozen=True):
    """Everything that `write_fat` does; torch is the first of `wheels`, the only one with `files`.

    `licences` and `boms` map paths below the new `.dist-info` to files, `bill` is the text of one more bill
    of materials. `preload` are paths below the ROCm inside, in order; `notes` are sentences for the user.
    """

    platform: str
    rocm: str
    rocm_version: str
    wheels: tuple[WheelChange, ...]
    files: tuple[BundledFile, ...]
    licences: dict[str, str] = {}
    boms: dict[str, str] = {}
    bill: str = ""
    preload: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


_WINDOW = 64 << 20
_TEXTS = ("__init__.py", "_rocm_init.py", "version.py")


class Binary(msgspec.Struct, frozen=True):
    """A compiled member and where it is installed; `rpath` has the entries of RPATH or RUNPATH.

    `needed` are names of libraries or DLLs, `own` is what it is called itself. `split` says that its device
    code lies in archives elsewhere.
    """

    member: str
    place: str
    own: str
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    split: bool = False


class WheelFacts(msgspec.Struct, frozen=True):
    """A wheel: `platform` is `linux`, `windows`, or None where its tags tell neither.

    `texts` are modules directly below its packages that speak of version and ROCm.
    """

    wheel: Wheel
    platform: str | None
    binaries: tuple[Binary, ...]
    texts: Mapping[str, str]
    metadata: bytes


def read_facts(path: Path, *, threads: int, work: Path | None = None) -> WheelFacts:
    """Read every member once; compiled ones go through files without a name in `work`.

    Raises `InvalidWheel` when one is damaged or not what RECORD says, `InvalidElf` or `InvalidPe` for a
    library with broken headers.
    """
    wheel = open_wheel(path)
    digests = recorded_digests(wheel)
    with opened(wheel) as source:
        reader = _Reader(source, digests, work)
        members = kept_members(wheel)
        jobs = ((member, min(member.size, _WINDOW // 2)) for member in each(f"reading {path.name}", members))
        with closing(in_order(reader, jobs, threads=threads, window=_WINDOW)) as done:
            binaries = tuple(found for found in done if found is not None)
    texts = {
        name: read_member(wheel, name).decode("utf-8", "surrogateescape")
        for name in wheel.member
        if name.count("/") == 1 and name.endswith(_TEXTS)
    }
    metadata = read_member(wheel, f"{wheel.dist_info}/METADATA")
    return WheelFacts(wheel, platform_of(wheel.tags), binaries, texts, metadata)


class _Reader(msgspec.Struct, frozen=True):
    """Inflates, digests and looks at one member; runs on any thread."""

    source: WheelStream
    digests: Mapping[str, str]
    work: Path | None

    def __call__(self, member: WheelMember) -> Binary | None:
        digest = hashlib.sha256()
        pieces = self._seen(member, digest)
        head = next(pieces, b"")
        binary = None
        if head.startswith(fmt.SUPPORTED) and int.from_bytes(head[18:20], "little") != fmt.EM_AMDGPU:
            binary = self._elf(member, chain([head], pieces))
        elif head.startswith(b"MZ"):
            binary = self._pe(member, chain([head], pieces))
        for _ in pieces:
            pass
        said = self.digests.get(member.name)
        if said is not None and said != digest.hexdigest():
            raise InvalidWheel(
                f"{member.name} in {self.source.wheel.path.name}: its sha256 is {digest.hexdigest()}, "
                f"RECORD says {said}",
                where=self.source.wheel.path,
                next_step="download or build the wheel again",
            )
        return binary

    def _seen(self, member: WheelMember, digest: hashlib._Hash) -> Iterator[bytes]:
        for piece in self.source.inflated(member):
            digest.update(piece)
            yield piece

    def _elf(self, member: WheelMember, pieces: Iterator[bytes]) -> Binary | None:
        elf = read_elf(spooled(self.source.wheel.path / member.name, pieces, self.work))
        if not elf.dynamic:
            return None
        return Binary(
            member=member.name,
            place=place_of(member.name),
            own=elf.soname or member.name.rpartition("/")[2],
            needed=elf.needed,
            rpath=tuple(filter(None, (elf.rpath or elf.runpath or "").split(":"))),
            split=MARKER_SECTION in elf.sections,
        )

    def _pe(self, member: WheelMember, pieces: Iterator[bytes]) -> Binary:
        pe = read_pe(spooled(self.source.wheel.path / member.name, pieces, self.work))
        needed = (*pe.imports, *pe.delay_imports)
        own = member.name.rpartition("/")[2]
        return Binary(member.name, place_of(member.name), own, needed, ())


BILL_PATH = "sboms/rocm.cdx.json"


def render_bill(torch: str, rocm: str, files: Sequence[BundledFile]) -> str:
    """What the torch of version `torch` brings of ROCm, which is of version `rocm` (empty: unknown)."""
    inside: dict[str, object] = {"type": "framework", "name": "ROCm", "bom-ref": "rocm"}
    if rocm:
        inside["version"] = rocm
    inside["components"] = [{"type": "file", "name": file.path} for file in files]
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "library", "name": "torch", "version": torch}},
        "components": [inside],
    }
    return msgspec.json.format(msgspec.json.encode(bill), indent=1).decode() + "\n"


# -- Writing the wheels of a plan


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
        name, mode = self.name(member.name), member.sound_mode
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
