"""Write the Python packages of a ROCm prefix: core, libraries, devel wheels and the `rocm` sdist."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rocwright.data import load_table
from rocwright.errors import InvalidPrefix, UsageError
from rocwright.model.gpu import Families, matching_family
from rocwright.model.version import parse_version
from rocwright.sdk.devel import DevelPayload, plan_devel
from rocwright.sdk.packages import PackageTable, package_table
from rocwright.sdk.plan import RuntimePlan, Shipped, plan_runtime
from rocwright.sdk.prefix import Prefix
from rocwright.sdk.selector import write_selector_sdist
from rocwright.system.files import PARTIAL, sha256_file, shipped_directory
from rocwright.wheel.metadata import Metadata
from rocwright.wheel.source import BytesSource, FileSource
from rocwright.wheel.write import Member, WheelPlan, write_wheel

_SUMMARIES = {
    "core": "ROCm runtime, compiler and tools",
    "libraries": "ROCm math and communication libraries with device code for {targets}",
    "devel": "ROCm headers, CMake packages and static libraries; expands beside the runtime packages",
}


class PackageFile(msgspec.Struct, frozen=True):
    """One written package: file name, digest, bytes on the wire, bytes once installed."""

    name: str
    sha256: str
    size: int
    installed: int


class BuiltPackages(msgspec.Struct, frozen=True):
    """ROCm as Python packages, in `directory`. `notes` says what of the prefix was left out and why."""

    version: str
    family: str
    targets: tuple[str, ...]
    directory: str
    files: tuple[PackageFile, ...]
    rpath_edits: int
    notes: tuple[str, ...]

    @property
    def paths(self) -> list[Path]:
        """Where the packages lie."""
        return [Path(self.directory) / file.name for file in self.files]


@dataclass(frozen=True)
class SdkPlan:
    """Everything that will be written, decided: the wheels, and the facts the selector needs."""

    version: str
    family: str
    targets: tuple[str, ...]
    wheels: tuple[WheelPlan, ...]
    facts: Mapping[str, object]
    rpath_edits: int
    notes: tuple[str, ...]


def plan_packages(prefix: Prefix, *, family: str | None = None, platform: str = "linux_x86_64") -> SdkPlan:
    """Decide the packages of a prefix in legacy mode: device code stays inside the libraries.

    `family` names the libraries package; without it, a known family with exactly the targets found in the
    code objects is taken. Raises `UsageError` when none fits, `InvalidPrefix` when no library holds device
    code.
    """
    table = package_table()
    version = str(parse_version(prefix.version))
    chosen = choose_family(prefix, family)
    names = {
        "core": "rocm-sdk-core",
        "libraries": f"rocm-sdk-libraries-{_normal(chosen)}",
        "devel": "rocm-sdk-devel",
    }
    modules = {role: "_" + name.replace("-", "_") for role, name in names.items()}
    runtime = plan_runtime(prefix, table, modules)
    devel = plan_devel(prefix, runtime, modules)
    targets = prefix.targets
    wheels = (
        _runtime_wheel("core", names, modules, version, platform, runtime, targets, table),
        _runtime_wheel("libraries", names, modules, version, platform, runtime, targets, table),
        _devel_wheel(names, modules, version, platform, devel),
    )
    present, absent = table.libraries(
        file.path for file in runtime.shipped if file.package in ("core", "libraries")
    )
    facts: dict[str, object] = {
        "version": version,
        "families": {chosen: list(targets)},
        "default_family": chosen,
        "packages": {
            "core": _package(names, modules, "core"),
            "libraries": {chosen: _package(names, modules, "libraries")},
            "devel": _package(names, modules, "devel"),
        },
        "libraries": {name: {"package": package, "path": path} for name, (package, path) in present.items()},
        "absent_libraries": absent,
    }
    notes = [f"{path}: {reason}" for path, reason in devel.left_out]
    return SdkPlan(version, chosen, targets, wheels, facts, runtime.rpath_edits, tuple(notes))


def choose_family(prefix: Prefix, family: str | None) -> str:
    """The family that the libraries package is named after; see `plan_packages`."""
    if not prefix.targets:
        raise InvalidPrefix(
            "no library of the prefix holds device code",
            where=prefix.root,
            next_step="is this a ROCm with rocBLAS, rocSPARSE or another math library?",
        )
    if family is not None:
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", family):
            raise UsageError(f"{family!r} cannot be part of a package name")
        return family
    known = matching_family(prefix.targets, load_table("families", Families).families)
    if known is None:
        raise UsageError(
            f"the targets of this ROCm ({' '.join(prefix.targets)}) are no known family",
            next_step="name one with --family NAME; it becomes part of rocm-sdk-libraries-NAME",
        )
    return known


def build_packages(
    prefix: Prefix,
    directory: Path,
    *,
    family: str | None,
    threads: int = 2,
    level: int = 6,
    note: Callable[[str], None] = lambda _: None,
) -> BuiltPackages:
    """Plan and write all packages into `directory`; ROCm packages of earlier runs in it are removed.

    Members are read from the prefix where they lie; no staging copy is made. Raises as `plan_packages` and
    `write_wheel`; files already written stay, each whole.
    """
    note("planning")
    plan = plan_packages(prefix, family=family)
    directory.mkdir(parents=True, exist_ok=True)
    files: list[PackageFile] = []
    for wheel in plan.wheels:
        note(f"writing {wheel.filename}")
        written = write_wheel(wheel, directory, threads=threads, level=level)
        files.append(PackageFile(written.path.name, written.sha256, written.size, written.stored_bytes))
    sdist = write_selector_sdist(directory, plan.version, plan.facts)
    files.append(PackageFile(sdist.name, sha256_file(sdist), sdist.stat().st_size, 0))
    _remove_stale(directory, {file.name for file in files})
    return BuiltPackages(
        version=plan.version,
        family=plan.family,
        targets=plan.targets,
        directory=str(directory),
        files=tuple(files),
        rpath_edits=plan.rpath_edits,
        notes=plan.notes,
    )


def _remove_stale(directory: Path, written: Collection[str]) -> None:
    """Remove our own packages of earlier runs: an installer would find two versions in one directory."""
    for pattern in ("rocm_sdk_*.whl", "rocm-*.tar.gz", f"rocm*{PARTIAL}"):
        for file in directory.glob(pattern):
            if file.name not in written:
                file.unlink()


def _normal(family: str) -> str:
    return re.sub(r"[-_.]+", "-", family).lower()


def _package(names: Mapping[str, str], modules: Mapping[str, str], role: str) -> dict[str, str]:
    return {"distribution": names[role], "module": modules[role]}


def _init(version: str, targets: Iterable[str] = ()) -> bytes:
    lines = ['"""Files of ROCm; found through the package rocm_sdk."""', "", f"__version__ = {version!r}"]
    if targets:
        lines.append(f"TARGETS = {tuple(targets)!r}")
    return ("\n".join(lines) + "\n").encode()


def _runtime_wheel(
    role: str,
    names: Mapping[str, str],
    modules: Mapping[str, str],
    version: str,
    platform: str,
    runtime: RuntimePlan,
    targets: tuple[str, ...],
    table: PackageTable,
) -> WheelPlan:
    shipped = runtime.of(role)
    if not shipped:
        raise InvalidPrefix(f"no file of the prefix belongs to {names[role]}")
    module = modules[role]
    members = [Member(f"{module}/{file.path}", file.source, file.executable) for file in shipped]
    members.append(
        Member(f"{module}/__init__.py", BytesSource(_init(version, targets if role == "libraries" else ())))
    )
    members += _pure_module(role, module.removeprefix("_"))
    requires = () if role == "core" else (f"rocm-sdk-core=={version}",)
    return WheelPlan(
        name=names[role],
        version=version,
        metadata=Metadata(
            name=names[role],
            version=version,
            summary=_SUMMARIES[role].format(targets=" ".join(targets)),
            requires_python=">=3.8",
            requires_dist=requires,
        ),
        members=tuple(members),
        tag=f"py3-none-{platform}",
        entry_points={"console_scripts": console_commands(shipped, table)} if role == "core" else {},
    )


def _devel_wheel(
    names: Mapping[str, str], modules: Mapping[str, str], version: str, platform: str, payload: DevelPayload
) -> WheelPlan:
    module = modules["devel"]
    members = [
        Member(f"{module}/__init__.py", BytesSource(_init(version))),
        Member(f"{module}/_devel.tar", payload.archive),
        Member(f"{module}/_devel.json", BytesSource(payload.manifest)),
        *_pure_module("devel", module.removeprefix("_")),
    ]
    return WheelPlan(
        name=names["devel"],
        version=version,
        metadata=Metadata(
            name=names["devel"],
            version=version,
            summary=_SUMMARIES["devel"],
            requires_python=">=3.8",
            requires_dist=(f"rocm-sdk-core=={version}",),
        ),
        members=tuple(members),
        tag=f"py3-none-{platform}",
    )


def _pure_module(role: str, module: str) -> list[Member]:
    """The public package of a distribution; named after it, so that no two wheels own one path."""
    source = shipped_directory("runtime") / role / f"rocm_sdk_{role}"
    return [
        Member(f"{module}/{file.relative_to(source).as_posix()}", FileSource(file))
        for file in sorted(source.rglob("*.py"))
    ]


def console_commands(shipped: Iterable[Shipped], table: PackageTable) -> dict[str, str]:
    """Console commands whose program is in the core tree: name to entry point."""
    programs = {
        file.path.rpartition("/")[2]
        for file in shipped
        if file.executable and file.path.rpartition("/")[0] in ("bin", "lib/llvm/bin")
    }
    wanted = (*table.commands.compiler, *table.commands.system)
    # An attribute cannot hold these characters; rocm_sdk_core._cli reverses the spelling.
    spelling = str.maketrans({"-": "_", ".": "_", "+": "p"})
    return {
        name: f"rocm_sdk_core._cli:{name.translate(spelling)}" for name in sorted(wanted) if name in programs
    }
