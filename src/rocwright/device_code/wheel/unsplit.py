"""Set split wheels back: each host with device wheels becomes the fat wheel of its name.

The fat wheel offers no device wheels and has no archives; METADATA is as it was before the split. Other
members are taken over as they are compressed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from rocwright.binary.view import spooled
from rocwright.device_code.kpack import SUFFIX, Archive, read_archive
from rocwright.device_code.origin import is_origin
from rocwright.device_code.source import MemberReader, archives_among, not_beside, open_path
from rocwright.device_code.split_file import read_split
from rocwright.device_code.tree.names import package_of
from rocwright.device_code.unsplit import FatPlan, TargetChoice, plan_fat, prove_fat
from rocwright.device_code.unsplit_library import LibraryUnsplit, not_split, told
from rocwright.device_code.wheel.builds import require_same_build
from rocwright.device_code.wheel.device_wheel import DevicePackage, without_offers
from rocwright.device_code.wheel.outputs import publish, require_elsewhere, workspace
from rocwright.device_code.wheel.scan import Scan, scan_wheel
from rocwright.device_code.wheel.sets import (
    SplitSet,
    VerifiedWheel,
    is_device_wheel,
    origins_in,
    required,
    served_by,
    split_sets,
    verified,
)
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.gpu import base_targets
from rocwright.wheel.read import Wheel, installed_path, open_wheel
from rocwright.wheel.stream import WheelStream, opened
from rocwright.wheel.write import BytesSource, FileSource, Member, Taken, check_names, write_members


class UnsplitWheel(msgspec.Struct, frozen=True):
    """A fat wheel; `size` in bytes, 0 after a dry run.

    `libraries` were set back, `files` of device wheels, such as databases, came in beside them. `missing` are
    file names of device wheels that the host offers and that were not given.
    """

    path: str
    size: int
    libraries: tuple[LibraryUnsplit, ...]
    files: int
    missing: tuple[str, ...]


class WheelUnsplit(msgspec.Struct, frozen=True):
    """What was written, in the order of the hosts' names."""

    wheels: tuple[UnsplitWheel, ...]

    @property
    def objects(self) -> int:
        """Code objects in all libraries."""
        return sum(one.objects for wheel in self.wheels for one in wheel.libraries)

    @property
    def identical(self) -> int:
        """Those of them that were read back and compared."""
        return sum(one.identical for wheel in self.wheels for one in wheel.libraries)


def unsplit_wheels(
    paths: Sequence[Path],
    output_dir: Path,
    *,
    targets: Collection[str] = (),
    threads: int = 2,
    dry_run: bool = False,
    note: Callable[[str], None] = lambda text: None,
) -> WheelUnsplit:
    """Set wheels of `split_wheel` or `merge_wheels` back, with the code for these targets (none: all).

    `paths` are hosts with their device wheels, or wheels that were merged for a family. All fat wheels appear
    together at the end, or none; with `dry_run` all is read and decided, and nothing written. The same inputs
    give the same bytes.

    Raises `UsageError` for a wheel that was not split or would be replaced; `InvalidWheel`, `InvalidArchive`
    for one that is damaged; `InvalidInput` when a host, its archives or a target is missing, when code is of
    another build, or when several builds of a host are given; `NoSpace`.
    """
    sets = _sets([open_wheel(path) for path in {path.resolve(): path for path in paths}.values()])
    for one in sets:
        require_elsewhere(one.hosts[0].path, output_dir)
    written: list[UnsplitWheel] = []
    with ExitStack() as stack:
        if dry_run:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rocwright-unsplit-")))
        else:
            work = stack.enter_context(workspace(output_dir / sets[0].file))
        for one in sets:
            with ExitStack() as its:
                back = _Unsplit(one, work, its, threads, note)
                back.plan(targets)
                written.append(back.told(output_dir) if dry_run else back.write(output_dir))
        if not dry_run:
            publish(work, [one.file for one in sets], output_dir)
    return WheelUnsplit(tuple(written))


def _sets(wheels: Sequence[Wheel]) -> tuple[SplitSet, ...]:
    """Hosts with their device wheels, and wheels that hold both already."""
    whole = [wheel for wheel in wheels if _is_whole(wheel)]
    others = [wheel for wheel in wheels if wheel not in whole]
    alone = tuple(SplitSet(wheel.path.name, (wheel,), (), {}) for wheel in whole)
    sets = (*(split_sets(others) if others else ()), *alone)
    for one in sets:
        several = [wheel for same in (one.hosts, *one.devices.values()) for wheel in same[1:]]
        if several or [other.file for other in sets].count(one.file) > 1:
            raise UsageError(
                f"{one.file} is given in several builds",
                next_step="merge them first with `rocwright kpack merge`, or leave one of them out",
            )
    return tuple(sorted(sets, key=lambda one: one.file))


def _is_whole(wheel: Wheel) -> bool:
    """Whether a wheel has archives of its own libraries."""
    return any(member.name.endswith(SUFFIX) for member in wheel.members) and not is_device_wheel(wheel)


class _Unsplit:
    """One host's way to the fat wheel in the work directory."""

    def __init__(
        self, one: SplitSet, work: Path, stack: ExitStack, threads: int, note: Callable[[str], None]
    ) -> None:
        self.set, self.work, self.stack, self.threads, self.note = one, work, stack, threads, note
        self.host = one.hosts[0]
        self.plans: dict[str, FatPlan] = {}
        self.devices: list[VerifiedWheel] = []
        self.proven: dict[str, int] = {}

    def plan(self, targets: Collection[str]) -> None:
        """Verify the host and the device wheels that are wanted, and decide about each library."""
        self.note(f"{self.set.file}: verifying")
        self.source = self.stack.enter_context(opened(self.host))
        self.scan: Scan = scan_wheel(self.source, self.work, threads=self.threads)
        given = {
            package: self.stack.enter_context(opened(wheel)) for package, wheel in self.set.given().items()
        }
        archives = dict(self._archives([self.source, *given.values()]))
        choice = TargetChoice(targets)
        for name, file in self.scan.further.items():
            split = read_split(name, file)
            if split is None:
                continue
            library = installed_path(self.host, self.host.member[name])
            its = archives_among(library, split.marker, archives)
            if not its:
                raise not_beside(f"{name} in {self.set.file}")
            self.plans[name] = plan_fat(split, [archives[path] for path in its], choice)
        if not self.plans and not given:
            raise not_split(self.set.file, self.host.path)
        if not self.plans:  # databases alone
            choice.there |= {word for package, one in given.items() for word in served_by(package, one.wheel)}
        choice.require_all(self.set.file)
        wanted = _wanted(given, targets)
        self._require_groups(wanted)
        self.devices = [verified(source, self.threads) for source in wanted]
        require_same_build(VerifiedWheel(self.host, self.source, self.scan.digests), self.devices)

    def _require_groups(self, wanted: Sequence[WheelStream]) -> None:
        """Databases of a group of targets lie in a wheel of their own, which those of its targets require."""
        names = {name for source in wanted for name in required(source.wheel)}
        for package in self.set.packages:
            if package.name in names and package not in self.set.given():
                raise InvalidInput(
                    f"{self.set.file} needs {self.set.device_file(package)} for these targets",
                    where=self.host.path,
                    next_step="give that wheel as well",
                )

    def _archives(self, sources: Sequence[WheelStream]) -> Iterator[tuple[str, Archive]]:
        """Each archive by the place where it is installed."""
        for source in sources:
            whole = open_path(source.wheel.path)
            for member in source.wheel.members:
                if member.name.endswith(SUFFIX):
                    file = MemberReader(source, whole, member).open()
                    yield installed_path(source.wheel, member), read_archive(file)

    def told(self, output_dir: Path) -> UnsplitWheel:
        """What the fat wheel is to hold."""
        libraries = tuple(told(plan, self.proven.get(name, 0)) for name, plan in self.plans.items())
        path = self.work / self.set.file
        return UnsplitWheel(
            path=str(output_dir / self.set.file),
            size=path.stat().st_size if path.exists() else 0,
            libraries=libraries,
            files=len(self._files()),
            missing=self.set.missing,
        )

    def write(self, output_dir: Path) -> UnsplitWheel:
        """Write the libraries, then the wheel; read both again."""
        fat = {}
        for number, (name, plan) in enumerate(self.plans.items()):
            self.note(f"{name}: {plan.objects} code objects")
            fat[name] = self.work / f"fat-{number}"
            with fat[name].open("wb") as stream:
                stream.writelines(plan.pieces())
        members = list(self._members({name: FileSource(path) for name, path in fat.items()}))
        target, record = self.work / self.set.file, f"{self.host.dist_info}/RECORD"
        check_names([*(member.name for member in members), record], case_matters="linux" in self.set.file)
        with target.open("wb") as stream:
            write_members(stream, members, record, threads=self.threads)
        for path in fat.values():
            path.unlink()
        self._prove(target)
        return self.told(output_dir)

    def _prove(self, target: Path) -> None:
        """From the finished wheel: RECORD against every file, code objects against the archives."""
        with opened(open_wheel(target)) as source:
            verified(source, self.threads)
            for name, plan in self.plans.items():
                pieces = source.inflated(source.wheel.member[name])
                self.proven[name] = prove_fat(plan, spooled(target / name, pieces, self.work))

    def _files(self) -> dict[str, VerifiedWheel]:
        """What device wheels bring beside archives: databases, at the places that they had before."""
        found: dict[str, VerifiedWheel] = {}
        for device in self.devices:
            for member in device.wheel.members:
                name = member.name
                if name.startswith(f"{device.wheel.dist_info}/") or _is_split_only(device, name):
                    continue
                if name in found or name in self.host.member:
                    there = found[name].wheel.path.name if name in found else self.set.file
                    raise InvalidInput(
                        f"{name} is in {there} and {device.wheel.path.name}",
                        where=device.wheel.path,
                        next_step="split the wheel again as it was built",
                    )
                found[name] = device
        return found

    def _members(self, fat: Mapping[str, FileSource]) -> Iterator[Member | Taken]:
        """The host's members in its order; before its `.dist-info` what device wheels bring."""
        host = VerifiedWheel(self.host, self.source, self.scan.digests)
        info = f"{self.host.dist_info}/"
        owner = {member.name: host for member in self.host.members} | self._files()
        for name in sorted(owner, key=lambda name: name.startswith(info)):
            if name == f"{info}RECORD" or (owner[name] is host and _is_split_only(host, name)):
                continue
            if name in fat:
                yield Member(name, fat[name], mode=self.host.member[name].sound_mode)
            elif name == f"{info}METADATA":
                text = without_offers(self.host, host.metadata())
                yield Member(name, BytesSource(text), mode=self.host.member[name].sound_mode)
            else:
                yield owner[name].taken(name)


def _is_split_only(one: VerifiedWheel, name: str) -> bool:
    """Whether a member is there only because the wheel was split."""
    return name.endswith(SUFFIX) or (is_origin(name) and name in dict(origins_in(one)))


def _wanted(given: Mapping[DevicePackage, WheelStream], targets: Collection[str]) -> list[WheelStream]:
    """The device wheels with code or files for these targets (none: all that are given)."""
    words = {package_of(target) for target in base_targets(targets)}
    return [
        source
        for package, source in given.items()
        if not words or words.intersection(served_by(package, source.wheel))
    ]
