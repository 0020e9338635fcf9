"""Decide a fat wheel: torch with ROCm inside, and the extensions that go with it, as one frozen value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from rocwright.builder.fat.linux import ForLinux
from rocwright.builder.fat.platforms import TORCH, ForWindows
from rocwright.builder.fat.texts import INIT, chosen_output
from rocwright.builder.fat.tree import FatTable, RocmFiles, fat_table, read_rocm
from rocwright.builder.fat.wheel import FatPlan, WheelFacts, read_facts, render_bill
from rocwright.device_code.wheel.device_wheel import offered
from rocwright.errors import InvalidWheel, UsageError


def plan_fat(
    wheel: Path,
    rocm: Path,
    *,
    output: Path | None = None,
    also: Sequence[Path] = (),
    platform: str | None = None,
    threads: int = 2,
    note: Callable[[str], None] = lambda text: None,
) -> FatPlan:
    """Plan a torch wheel that runs without ROCm's packages, with the ROCm at `rocm` inside.

    `rocm` is a prefix, the tree that `rocm-sdk path --root` prints, or a site-packages directory. `output` is
    the file, whose name may say another local version, or its directory (default: the wheel's); `also` are
    wheels that require this torch and shall require the fat one. Reads all wheels whole.

    Raises `UsageError` for what is not asked in a way that can be done, `InvalidWheel` for a wheel that is
    damaged, no torch, split or fat already, or whose modules lack the places that are changed,
    `InvalidPrefix` for a directory that is no ROCm for this wheel.
    """
    table = fat_table()
    work = wheel.parent if wheel.parent.is_dir() else None
    facts = [read_facts(path, threads=threads, work=work) for path in (wheel, *also)]
    torch, extensions = facts[0], facts[1:]
    system = _require_torch(torch, platform, table)
    target, version = chosen_output(torch.wheel, output)
    for extension in extensions:
        _require_extension(extension, torch)
    tree = read_rocm(rocm, system, table)
    note(f"{len(tree.files)} files of ROCm {tree.version or 'of unknown version'} in {rocm}")
    decide = ForLinux if system == "linux" else ForWindows
    decided = decide(torch, extensions, tree, table)
    changes = [decided.torch(target, version)]
    changes += [decided.extension(one, target.parent, version) for one in extensions]
    if len({change.output for change in changes}) < len(changes):
        raise UsageError("two of the wheels would be written to the same file", next_step="give each once")
    files = decided.files()
    return FatPlan(
        platform=system,
        rocm=str(rocm),
        rocm_version=tree.version,
        wheels=tuple(changes),
        files=files,
        licences=decided.licences,
        boms={f"sboms/rocm/{path}": str(place) for path, place in sorted(tree.boms.items())},
        bill=render_bill(version, tree.version, files),
        preload=tuple(decided.preload.values()),
        notes=(*decided.notes, *_version_notes(torch, tree)),
    )


def _require_torch(facts: WheelFacts, platform: str | None, table: FatTable) -> str:
    """The wheel's platform; raises for what no fat wheel can be made of."""
    wheel = facts.wheel
    if wheel.name != TORCH or INIT not in wheel.member:
        raise InvalidWheel(
            f"{wheel.path.name} is not a torch wheel",
            where=wheel.path,
            next_step="give a wheel of torch built for ROCm",
        )
    if facts.platform is None or (platform is not None and platform != facts.platform):
        theirs = facts.platform or "neither Linux nor Windows"
        raise UsageError(
            f"{wheel.path.name} is for {theirs}" + (f", not for {platform}" if platform else ""),
            next_step="give a wheel whose tags name one of the two platforms",
        )
    inside = [name for name in wheel.member if name.startswith(f"{table.directory}/")]
    inside += [binary.member for binary in facts.binaries if "amdhip64" in binary.own.lower()]
    if inside:
        raise InvalidWheel(
            f"{wheel.path.name} already has ROCm inside ({inside[0]})",
            where=wheel.path,
            next_step="start from the wheel as it was built",
        )
    if offered(wheel) or any(binary.split for binary in facts.binaries):
        raise InvalidWheel(
            f"the device code of {wheel.path.name} is in separate device wheels",
            where=wheel.path,
            next_step="merge them first: rocwright kpack merge HOST.whl DEVICE.whl… --families TARGETS",
        )
    return facts.platform


def _require_extension(facts: WheelFacts, torch: WheelFacts) -> None:
    wheel, version = facts.wheel, Version(torch.wheel.version)
    pins = [
        pin for pin in _requirements(wheel.metadata.requires_dist) if canonicalize_name(pin.name) == TORCH
    ]
    if not any(pin.specifier.contains(version, prereleases=True) for pin in pins):
        shown = ", ".join(map(str, pins)) or "no torch"
        raise UsageError(
            f"{wheel.path.name} requires {shown}, not torch {version}",
            next_step="--also takes wheels that were built with this torch",
        )
    if facts.platform not in (torch.platform, None):
        raise UsageError(
            f"{wheel.path.name} is for {facts.platform}, torch for {torch.platform}",
            next_step="give wheels for one platform",
        )


def _requirements(lines: Sequence[str]) -> Iterator[Requirement]:
    for line in lines:
        try:
            yield Requirement(line)
        except InvalidRequirement:
            continue


def _version_notes(torch: WheelFacts, tree: RocmFiles) -> Iterator[str]:
    for pin in _requirements(torch.wheel.metadata.requires_dist):
        if canonicalize_name(pin.name) == "rocm" and tree.version:
            try:
                fitting = pin.specifier.contains(Version(tree.version), prereleases=True)
            except InvalidVersion:
                continue
            if not fitting:
                yield f"torch was built for {pin}, but this is ROCm {tree.version}"
