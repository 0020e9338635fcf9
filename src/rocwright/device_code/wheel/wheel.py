"""Split a wheel: a host wheel of the same name without device code, and a device wheel for each GPU target.

Members that do not change are taken over as they are compressed. All wheels appear together at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from rocwright.binary.view import Mapped
from rocwright.device_code.archives import DEFAULT_LEVEL, store
from rocwright.device_code.kpack import DIRECTORY, PLACEHOLDER, SUFFIX, Marker
from rocwright.device_code.origin import SplitOrigin, joint_build, owner_of, pack_origin
from rocwright.device_code.split import Kept, LibraryPlan, plan_library
from rocwright.device_code.wheel.device_wheel import (
    DevicePackage,
    device_dist_info,
    device_filename,
    device_metadata,
    device_prefix,
    device_wheel_file,
    host_metadata,
    licence_members,
    plan_packages,
)
from rocwright.device_code.wheel.outputs import publish, require_elsewhere, workspace
from rocwright.device_code.wheel.scan import Scan, scan_wheel
from rocwright.device_code.wheel.selectors import DeviceChoice, plan_choice, write_selectors
from rocwright.errors import IntegrityError, InvalidInput, UsageError
from rocwright.model.variants import split_label
from rocwright.system.files import link_or_copy, sha256_file
from rocwright.wheel.metadata import add_headers
from rocwright.wheel.read import Wheel, open_wheel, read_member
from rocwright.wheel.stream import WheelStream, opened
from rocwright.wheel.write import BytesSource, FileSource, Member, Taken, check_names, write_members

_SIGNATURES = ("RECORD.jws", "RECORD.p7s")


class DeviceWheel(msgspec.Struct, frozen=True):
    """A written device wheel: `target` is a base target or a group, `targets` its archives' full ones."""

    path: str
    size: int
    target: str
    targets: tuple[str, ...]
    files: int


class Left(msgspec.Struct, frozen=True):
    """A member with device code that stays in the host, and why."""

    member: str
    reason: str


class WheelSplit(msgspec.Struct, frozen=True):
    """What became of a wheel; sizes in bytes.

    `changed` is False for a wheel that is in the output as it was. `objects` counts code objects as the
    runtime does, once for each wrapper and target; `identical` those whose archived form was unpacked again
    and equals the original. `undigested` members have no digest in the source's RECORD. `selectors` are the
    wheels that choose among the device wheels.
    """

    source: str
    fat_size: int
    host: str
    host_size: int
    changed: bool
    overlay_root: str | None
    device: tuple[DeviceWheel, ...]
    targets: tuple[str, ...]
    libraries: int
    objects: int
    identical: int
    already_split: int
    kept: tuple[Left, ...]
    unplaced: tuple[Left, ...]
    undigested: int
    selectors: tuple[str, ...] = ()


def split_wheel(
    path: Path,
    output_dir: Path,
    *,
    overlay_root: str | None = None,
    prefix: str | None = None,
    device_requires: Sequence[str] = (),
    variants: bool = False,
    level: int = DEFAULT_LEVEL,
    threads: int = 2,
    note: Callable[[str], None] = lambda text: None,
) -> WheelSplit:
    """Split one wheel into `output_dir`; a wheel without device code to split is copied as it is.

    `overlay_root` is the directory in the wheel below which archives lie and libraries are named (default:
    the package that holds them). `prefix` begins the names of device wheels (default `amd-<name>-device-`);
    `device_requires` are further requirements of each target's wheel, with `@GFXARCH@` for the target.
    With `variants`, selectors are written as well, and the host requires them (`plan_choices`).
    `level` is that of zstd. The same wheel gives the same bytes for any `threads`.

    Raises `UsageError` when the output would replace the wheel itself, an option does not fit it, or it is
    itself a variant,
    `InvalidWheel`, `InvalidElf` or `InvalidBundle` for one that is damaged, `NoSpace` when the disk is full;
    then nothing is left in `output_dir`.
    """
    wheel = open_wheel(path)
    require_elsewhere(path, output_dir)
    _require_plain(path)
    with opened(wheel) as source, workspace(output_dir / path.name) as work:
        note(f"{path.name}: verifying {len(wheel.members)} files")
        scan = scan_wheel(source, work, threads=threads)
        split = _Split(wheel, source, scan, _overlay_root(wheel, scan, overlay_root), work, threads)
        plans = split.plan(note)
        if not plans and not scan.databases:
            link_or_copy(path, work / path.name)
            packages: tuple[DevicePackage, ...] = ()
            choice: DeviceChoice | None = None
        else:
            targets = {target for plan in plans.values() for target in plan.targets}
            packages = plan_packages(
                wheel,
                targets,
                scan.databases,
                prefix=prefix or device_prefix(wheel),
                requires=device_requires,
            )
            choice = plan_choice(wheel, packages) if variants else None
            split.write(plans, packages, choice, level=level, note=note)
        device = tuple(_written(wheel, package, work, output_dir) for package in packages)
        host_size = (work / path.name).stat().st_size
        selectors = [one.name for one in write_selectors([choice] if choice else [], work)]
        written = [device_filename(wheel, package) for package in packages]
        publish(work, [path.name, *written, *selectors], output_dir)
    return WheelSplit(
        source=str(path),
        fat_size=path.stat().st_size,
        host=str(output_dir / path.name),
        host_size=host_size,
        changed=bool(packages),
        overlay_root=split.root if plans else None,
        device=device,
        targets=tuple(sorted({target for one in device for target in one.targets})),
        libraries=len(plans),
        objects=sum(plan.objects for plan in plans.values()),
        identical=split.identical,
        already_split=split.already,
        kept=_left(scan.kept),
        unplaced=_left(scan.unplaced),
        undigested=scan.undigested,
        selectors=tuple(str(output_dir / name) for name in selectors),
    )


def _require_plain(path: Path) -> None:
    label = split_label(path.name)[1]
    if label is not None:
        raise UsageError(
            f"{path.name} is the variant {label}: its other variants would have the same device wheels",
            next_step="split the wheel that it was made of",
        )


class _Split:
    """One wheel's way from its plans to the files in the work directory."""

    def __init__(
        self, wheel: Wheel, source: WheelStream, scan: Scan, root: str, work: Path, threads: int
    ) -> None:
        self.wheel, self.source, self.scan, self.root = wheel, source, scan, root
        self.work, self.threads = work, threads
        self.group = wheel.name.replace("-", "_")
        self.identical = self.already = 0

    def plan(self, note: Callable[[str], None]) -> dict[str, LibraryPlan]:
        """A plan for each library that can be split; reasons for the others go into the scan."""
        plans = {}
        for name in [*self.scan.fat, *self.scan.further]:
            # Taken out: what is not split needs no room any more.
            file = self.scan.fat.pop(name, None) or self.scan.further.pop(name)
            found = plan_library(file, self._marker(name, file))
            if isinstance(found, LibraryPlan):
                self._require_within(name)
                plans[name] = found
                note(f"{name}: {found.objects} code objects for {len(found.targets)} targets")
            elif isinstance(found, Kept) and found.already:
                self.already += 1
            elif isinstance(found, Kept):
                self.scan.kept[name] = found.reason
        return plans

    def _marker(self, name: str, file: Mapped) -> Marker:
        below = name.removeprefix(f"{self.root}/") if self.root else name
        path = f"{'../' * below.count('/')}{DIRECTORY}/{self.group}_{PLACEHOLDER}{SUFFIX}"
        return Marker((path,), below)

    def _require_within(self, name: str) -> None:
        if self.root and not name.startswith(f"{self.root}/"):
            raise UsageError(
                f"{name} in {self.wheel.path.name} lies outside the overlay root {self.root}",
                next_step="name a directory that holds all libraries with device code, or leave it out",
            )

    def write(
        self,
        plans: Mapping[str, LibraryPlan],
        packages: Sequence[DevicePackage],
        choice: DeviceChoice | None,
        *,
        level: int,
        note: Callable[[str], None],
    ) -> None:
        """Archives first, then the host, then one device wheel after the other."""
        metadata = read_member(self.wheel, f"{self.wheel.dist_info}/METADATA")
        new_metadata = host_metadata(self.wheel, metadata, packages)
        if choice is not None:
            new_metadata = add_headers(new_metadata, [f"Requires-Dist: {choice.requirement}"])
        archives = {target: self._archive(target) for package in packages for target in package.archives}
        build = joint_build({plan.kernel: plan.build for plan in plans.values()})
        # A wheel with databases alone has no library whose build they could be of.
        origin = SplitOrigin(self.group, build, targets=tuple(sorted(archives))) if build else None
        parts = {package.name: self._part(origin, package) for package in packages} if origin else {}
        files = [self._beside(one.name) for one in (*parts.values(), *([origin] if origin else ()))]
        self._require_free([*archives.values(), *files])
        stored = store(
            list(plans.values()),
            self._file,
            self.group,
            level=level,
            threads=self.threads,
            # RECORD's digests were compared when the members were read.
            verified=not self.scan.undigested,
        )
        self.identical = stored.identical
        objects = sum(plan.objects for plan in plans.values())
        if stored.identical != objects:
            raise IntegrityError(f"{objects} code objects became {stored.identical}", where=self.wheel.path)
        note(f"{self.wheel.path.name}: {objects} code objects stored, writing wheels")
        self._write(
            self.wheel.path.name,
            self.wheel.dist_info,
            [*self._said(origin), *self._host_members(plans, new_metadata)],
        )
        for package in packages:
            self._write(
                device_filename(self.wheel, package),
                device_dist_info(self.wheel, package),
                [*self._said(self._told(parts, package)), *self._device_members(package, metadata)],
            )
            for target in package.archives:
                self._file(target).unlink()

    def _archive(self, target: str) -> str:
        return self._beside(f"{self.group}_{target}{SUFFIX}")

    def _beside(self, name: str) -> str:
        """Where a file of that name lies in the directory of archives."""
        return f"{self.root}/{DIRECTORY}/{name}" if self.root else f"{DIRECTORY}/{name}"

    @staticmethod
    def _part(origin: SplitOrigin, package: DevicePackage) -> SplitOrigin:
        its = tuple(target for target in origin.targets if owner_of(target) == package.target)
        return msgspec.structs.replace(origin, part=package.target, targets=its)

    def _told(self, parts: Mapping[str, SplitOrigin], package: DevicePackage) -> SplitOrigin | None:
        """What a device wheel says, with the digests of archives that are written."""
        part = parts.get(package.name)
        if part is None:
            return None
        return part.of_part(part.part, {target: sha256_file(self._file(target)) for target in part.targets})

    def _said(self, origin: SplitOrigin | None) -> Iterator[Member]:
        """The file that says what a wheel was split from."""
        if origin is not None:
            yield Member(self._beside(origin.name), BytesSource(pack_origin(origin)))

    def _file(self, target: str) -> Path:
        return self.work / f"{self.group}_{target}{SUFFIX}"

    def _require_free(self, names: Sequence[str]) -> None:
        double = sorted(set(names) & self.wheel.member.keys())
        if double:
            raise InvalidInput(
                f"{self.wheel.path.name} has a file {double[0]} already",
                where=self.wheel.path,
                next_step="split the wheel as it was built, not one that was split and changed afterwards",
            )

    def _host_members(self, plans: Mapping[str, LibraryPlan], metadata: bytes) -> Iterator[Member | Taken]:
        info = self.wheel.dist_info
        dropped = {f"{info}/{name}" for name in ("RECORD", *_SIGNATURES)} | self.scan.databases.keys()
        for member in self.wheel.members:
            if member.name in dropped:
                continue
            mode = member.sound_mode
            if member.name in plans:
                yield Member(member.name, plans[member.name].host, mode=mode)
            elif member.name == f"{info}/METADATA":
                yield Member(member.name, BytesSource(metadata), mode=mode)
            else:
                yield self._taken(member.name)

    def _device_members(self, package: DevicePackage, metadata: bytes) -> Iterator[Member | Taken]:
        for target in package.archives:
            yield Member(self._archive(target), FileSource(self._file(target)))
        for name in package.files:
            yield self._taken(name)
        info = device_dist_info(self.wheel, package)
        for name in licence_members(self.wheel, metadata):
            yield self._taken(name, f"{info}/{name.removeprefix(self.wheel.dist_info + '/')}")
        wheel_file = read_member(self.wheel, f"{self.wheel.dist_info}/WHEEL")
        yield Member(f"{info}/METADATA", BytesSource(device_metadata(self.wheel, metadata, package)))
        yield Member(f"{info}/WHEEL", BytesSource(device_wheel_file(wheel_file)))

    def _taken(self, name: str, new_name: str | None = None) -> Taken:
        member = self.wheel.member[name]
        return Taken(
            name=new_name or name,
            packed=self.source.packed(member),
            size=member.size,
            crc=member.crc,
            sha256=self.scan.digests[name],
            deflated=member.method != 0,
            mode=member.sound_mode,
        )

    def _write(self, filename: str, dist_info: str, members: Sequence[Member | Taken]) -> None:
        record = f"{dist_info}/RECORD"
        check_names([*(member.name for member in members), record], case_matters="linux" in filename)
        with (self.work / filename).open("wb") as stream:
            write_members(stream, members, record, threads=self.threads)


def _overlay_root(wheel: Wheel, scan: Scan, wanted: str | None) -> str:
    """The directory that archives go below: as asked for, else the package that holds all device code."""
    if wanted is not None:
        return "/".join(part for part in wanted.split("/") if part not in ("", "."))
    parts: tuple[str, ...] | None = None
    for name in [*scan.fat, *scan.databases]:
        its = PurePosixPath(name).parts[:-1]
        parts = its if parts is None else _common(parts, its)
    for length in range(1, len(parts or ()) + 1):
        directory = "/".join((parts or ())[:length])
        if f"{directory}/__init__.py" in wheel.member:
            return directory
    return "/".join(parts or ())


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    return one[:same]


def _left(reasons: Mapping[str, str]) -> tuple[Left, ...]:
    return tuple(Left(name, reason) for name, reason in sorted(reasons.items()))


def _written(wheel: Wheel, package: DevicePackage, work: Path, output_dir: Path) -> DeviceWheel:
    name = device_filename(wheel, package)
    size = (work / name).stat().st_size
    return DeviceWheel(str(output_dir / name), size, package.target, package.archives, len(package.files))
