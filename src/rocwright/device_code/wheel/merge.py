"""Put split wheels together again: those of several builds in one set, or one wheel for a GPU family.

Members are taken over as they are compressed, after every wheel was read whole and compared with its RECORD.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from rocwright.device_code.origin import SplitOrigin, limited, pack_origin
from rocwright.device_code.wheel.builds import require_same_build
from rocwright.device_code.wheel.device_wheel import (
    DevicePackage,
    with_offers,
    with_requirements,
    without_offers,
)
from rocwright.device_code.wheel.outputs import publish, workspace
from rocwright.device_code.wheel.sets import (
    SplitSet,
    VerifiedWheel,
    family_members,
    host_origins,
    require_same,
    served_by,
    serving,
    split_sets,
    verified,
)
from rocwright.errors import InvalidInput, UsageError
from rocwright.system.files import link_or_copy
from rocwright.wheel.read import Wheel, open_wheel
from rocwright.wheel.stream import opened
from rocwright.wheel.write import BytesSource, Member, Taken, check_names, write_members

_MOST_NAMED = 10
_WINDOW = 64 << 20


class MergedWheel(msgspec.Struct, frozen=True):
    """A written wheel; `size` in bytes.

    `family` is the one it was merged for. `targets` are the base targets of the device code in it: none for
    a host, and for a group's wheel those that it serves. `changed` is False for an input as it was.
    """

    path: str
    size: int
    family: str | None
    targets: tuple[str, ...]
    changed: bool


class WheelMerge(msgspec.Struct, frozen=True):
    """What was written; `missing` are file names of device wheels that a host offers and that were not given.

    With families, `missing` is empty: what a family needs was there.
    """

    wheels: tuple[MergedWheel, ...]
    missing: tuple[str, ...] = ()


def merge_wheels(
    paths: Sequence[Path],
    output_dir: Path,
    *,
    families: Iterable[str] | None = None,
    threads: int = 2,
    note: Callable[[str], None] = lambda text: None,
) -> WheelMerge:
    """Merge wheels that `split_wheel` wrote, of one or several projects, builds and directories.

    Wheels of one file name must hold the same files; hosts may offer different device wheels. Without
    `families` the result is each host, offering the device wheels of all builds, and these wheels. With
    families (or targets), `<output_dir>/<family>/<host>` is one wheel with the host's files and those of the
    device wheels of exactly these targets, groups that serve one of them included; it offers no device
    wheels, and requires of other projects what they did. The same inputs give the same bytes.

    All wheels appear together at the end, or none. Raises `UsageError` for a wheel that was not split or
    would be replaced; `InvalidWheel` for one that is damaged; `InvalidInput` when wheels of one name differ
    (naming the files, and what was not split), when a device wheel's host or a family's target is missing,
    when its code is of another build of the host, or when a file is in two wheels.
    """
    sets = split_sets([open_wheel(path) for path in {path.resolve(): path for path in paths}.values()])
    chosen = _chosen(sets, families)
    _require_apart(paths, output_dir, chosen)
    written: list[MergedWheel] = []
    with workspace(output_dir / sets[0].file) as work:
        for one in sets:
            with ExitStack() as stack:
                merge = _Merge(one, work, stack, threads)
                merge.verify(note)
                if chosen is None:
                    note(f"merging {one.file}")
                    written += merge.combine()
                for family, devices in (chosen or {}).items():
                    note(f"merging {one.file} for {family}")
                    written.append(merge.whole(family, devices[one.file]))
        _publish(work, [wheel.path for wheel in written], output_dir)
    placed = (
        MergedWheel(str(output_dir / one.path), one.size, one.family, one.targets, one.changed)
        for one in written
    )
    missing = () if chosen is not None else tuple(name for one in sets for name in one.missing)
    return WheelMerge(tuple(placed), missing)


_Devices = Mapping[DevicePackage, Wheel]


def _chosen(
    sets: Sequence[SplitSet], families: Iterable[str] | None
) -> dict[str, dict[str, _Devices]] | None:
    """Family → host file name → its device wheels for that family."""
    if families is None:
        return None
    members = family_members(families, sets)
    return {
        family: {one.file: serving(one, family, targets) for one in sets}
        for family, targets in members.items()
    }


def _require_apart(paths: Iterable[Path], output_dir: Path, families: Iterable[str] | None) -> None:
    # Not by inode: an output that is a hard link to its input may be written again.
    directories = [output_dir] if families is None else [output_dir / family for family in families]
    for path in paths:
        if any(path.resolve() == (directory / path.name).resolve() for directory in directories):
            raise UsageError(
                f"the merge would replace {path.name} itself",
                next_step="choose another output directory than the wheels'",
            )


def _publish(work: Path, names: Sequence[str], output_dir: Path) -> None:
    made = []
    try:
        for directory in {(output_dir / name).parent: None for name in names}:
            if not directory.exists():
                directory.mkdir()
                made.append(directory)
        publish(work, names, output_dir)
    except BaseException:
        for directory in made:
            directory.rmdir()
        raise


class _Merge:
    """One host's way from verified inputs to the files in the work directory."""

    def __init__(self, one: SplitSet, work: Path, stack: ExitStack, threads: int) -> None:
        self.set, self.work, self.threads, self.stack = one, work, threads, stack
        self.inputs: dict[Path, VerifiedWheel] = {}

    def verify(self, note: Callable[[str], None]) -> None:
        """Read all wheels; raises unless those of one file name hold the same."""
        builds = (self.set.hosts, *self.set.devices.values())
        note(f"{self.set.file}: verifying {sum(map(len, builds))} wheels")
        for same in builds:
            first, *others = (self._read(wheel) for wheel in same)
            for other in others:
                require_same(first, other, self.work)
        devices = [self.inputs[wheel.path] for same in self.set.devices.values() for wheel in same]
        require_same_build(self.inputs[self.set.hosts[0].path], devices)

    def _read(self, wheel: Wheel) -> VerifiedWheel:
        source = self.stack.enter_context(opened(wheel))
        self.inputs[wheel.path] = found = verified(source, self.threads)
        return found

    def combine(self) -> Iterator[MergedWheel]:
        """The host that offers all device wheels, and each of these as it is."""
        hosts = [self.inputs[host.path] for host in self.set.hosts]
        first = hosts[0]
        plain = without_offers(first.wheel, first.metadata())
        metadata = with_offers(first.wheel, plain, self.set.packages)
        said = host_origins(hosts)
        same = next((h for h in hosts if h.metadata() == metadata and host_origins((h,)) == said), None)
        if same is not None:
            link_or_copy(same.wheel.path, self.work / self.set.file)
        else:
            self._write(self.set.file, _members(first, metadata, (), said))
        yield self._written(self.set.file, None, (), changed=same is None)
        for package, wheel in self.set.given().items():
            name = wheel.path.name
            link_or_copy(wheel.path, self.work / name)
            yield self._written(name, None, served_by(package, wheel), changed=False)

    def whole(self, family: str, devices: _Devices) -> MergedWheel:
        """One wheel with the files of the host and these device wheels."""
        host = self.inputs[self.set.hosts[0].path]
        plain = without_offers(host.wheel, host.metadata())
        metadata = with_requirements(plain, self.set.packages, devices.values())
        name = f"{family}/{self.set.file}"
        (self.work / family).mkdir(exist_ok=True)
        hosts = [self.inputs[one.path] for one in self.set.hosts]
        words = {package.target for package in devices}
        said = {name: limited(origin, words) for name, origin in host_origins(hosts).items()}
        its = [self.inputs[one.path] for one in devices.values()]
        self._write(name, _members(host, metadata, its, said))
        targets = tuple(package.target for package in devices if not package.is_group)
        return self._written(name, family, targets, changed=True)

    def _write(self, name: str, members: Sequence[Member | Taken]) -> None:
        record = f"{self.set.hosts[0].dist_info}/RECORD"
        check_names([*(member.name for member in members), record], case_matters="linux" in name)
        with (self.work / name).open("wb") as stream:
            write_members(stream, members, record, threads=self.threads)

    def _written(
        self, name: str, family: str | None, targets: tuple[str, ...], *, changed: bool
    ) -> MergedWheel:
        return MergedWheel(name, (self.work / name).stat().st_size, family, targets, changed)


def _members(
    host: VerifiedWheel,
    metadata: bytes,
    devices: Sequence[VerifiedWheel],
    origins: Mapping[str, SplitOrigin],
) -> list[Member | Taken]:
    """The host's files, those of device wheels before its `.dist-info`; theirs says nothing new.

    `origins` are the members that name targets, as the result has them.
    """
    info = f"{host.wheel.dist_info}/"
    owner = {member.name: host for member in host.wheel.members}
    for device in devices:
        for member in device.wheel.members:
            if member.name.startswith(f"{device.wheel.dist_info}/"):
                continue
            if member.name in owner:
                raise InvalidInput(
                    f"{member.name} is in {owner[member.name].wheel.path.name} and {device.wheel.path.name}",
                    where=device.wheel.path,
                    next_step="split the wheel again as it was built",
                )
            owner[member.name] = device
    members: list[Member | Taken] = []
    for name in sorted(owner, key=lambda name: name.startswith(info)):
        if name == f"{info}METADATA":
            mode = host.wheel.member[name].sound_mode
            members.append(Member(name, BytesSource(metadata), mode=mode))
        elif name in origins:
            members.append(Member(name, BytesSource(pack_origin(origins[name]))))
        elif name != f"{info}RECORD":
            members.append(owner[name].taken(name))
    return members
