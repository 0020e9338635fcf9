"""Gather, apply the rules, sum up: the whole visit."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

import msgspec

from rocwright.binary.elf import Elf, is_elf, read_elf
from rocwright.compat.doctor import mend
from rocwright.compat.doctor.environment import gather_environment, import_torch
from rocwright.compat.doctor.facts import Case, DoctorTable, Environment, Machine, Need, TorchImport
from rocwright.compat.doctor.machine import gather_machine, this_user
from rocwright.compat.doctor.observations import Diagnosis, Installed, Looked, Observation
from rocwright.compat.doctor.rules import ENVIRONMENT, MACHINE
from rocwright.compat.doctor.rules.machine import building, emulators
from rocwright.compat.doctor.rules.packages import whose
from rocwright.compat.doctor.rules.torch import kind_of
from rocwright.data import load_table
from rocwright.errors import InvalidElf
from rocwright.model.channels import LandingTable
from rocwright.model.device_files import DeviceFiles, known_targets
from rocwright.model.findings import Finding
from rocwright.model.gpu import Families, base_targets, is_target
from rocwright.model.indexes import IndexTable
from rocwright.model.platforms import Platforms
from rocwright.model.sets import SetManifest, set_id


def diagnose(
    *,
    root: Path = Path("/"),
    environ: Mapping[str, str] | None = None,
    which: Callable[[str], str | None] = shutil.which,
    work_dir: Path | None = None,
    python: Path | None = None,
    asked: bool = True,
    manifest: SetManifest | None = None,
    index: str = "",
    deep: bool = False,
    import_: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> Diagnosis:
    """Everything at once; reads only, and never guesses a GPU.

    The machine is looked at below `root`. With `python` its environment is looked at as well (where nobody
    `asked` for it, only if it has anything of ROCm or torch): compared with `manifest` where that is given,
    file by file with `deep`, and with `import_` torch is imported there in a process of its own, whose errors
    `note` is told. `index` is where packages come from, for the commands.
    Raises `MissingTool` where `python` is no interpreter.
    """
    environ = os.environ if environ is None else environ
    table = load_table("doctor", DoctorTable)
    machine = gather_machine(table, root=root, environ=environ, user=this_user(), platform=sys.platform)
    environment = gather_environment(python, table, deep=deep) if python is not None else None
    if environment is not None and not asked and not environment.family and environment.torch is None:
        environment = None
    imported = None
    if import_ and python is not None and environment is not None and environment.torch is not None:
        imported = import_torch(python, table, note=note)
    case = make_case(machine, table, environment, imported, manifest=manifest, index=index)
    if environment is not None:
        needs = unmet_needs(environment, machine, load_table("platforms", Platforms), root)
        case = msgspec.structs.replace(case, needs=needs)
    found = [seen for rule in MACHINE for seen in rule(case)]
    found += building(which, work_dir or Path.cwd(), environ)
    if root == Path("/") and machine.system != "windows":
        # Of another machine only some directories were copied.
        found += emulators(environ, python)
    return Diagnosis(
        tuple(gpu.target for gpu in machine.gpus),
        (*found, *judge(case)),
        _looked(case) if environment is not None else None,
    )


def judge(case: Case) -> tuple[Observation, ...]:
    """What the rules say of the environment; nothing without one."""
    if case.environment is None:
        return ()
    return tuple(seen for rule in ENVIRONMENT for seen in rule(case))


def make_case(
    machine: Machine,
    table: DoctorTable,
    environment: Environment | None = None,
    imported: TorchImport | None = None,
    *,
    manifest: SetManifest | None = None,
    index: str = "",
) -> Case:
    """The facts with the tables that the rules compare them with."""
    families, indexes = load_table("families", Families), load_table("indexes", IndexTable)
    targets = _targets(machine, environment) if environment is not None else []
    if environment is not None and not index:
        index = mend.package_index(indexes, families, targets, mend.rocm_version(environment))
    row = indexes.at(index)
    return Case(
        machine=machine,
        table=table,
        known=tuple(sorted(known_targets(load_table("device_files", DeviceFiles), families))),
        families=families.families,
        pythons=load_table("landing", LandingTable).pythons,
        environment=environment,
        imported=imported,
        manifest=manifest,
        set_id=set_id(manifest) if manifest is not None else "",
        index=index,
        extras=tuple(f"device-{target}" for target in targets) if row and row.extras else (),
    )


def _targets(machine: Machine, environment: Environment) -> list[str]:
    """Those of the GPUs here; without one, those that the packages were chosen for."""
    targets = [gpu.target for gpu in machine.gpus]
    targets = targets or [target for marker in environment.devices for target in marker.serves]
    targets = targets or [target for served in environment.targets.values() for target in served]
    return list(base_targets(filter(is_target, targets)))


def _looked(case: Case) -> Looked:
    environment = case.environment
    assert environment is not None
    installed = (
        Installed(
            one.name,
            one.version,
            one.directory,
            whose(one, case.manifest)[0] if case.manifest is not None else None,
        )
        for one in environment.family
    )
    return Looked(
        environment.python,
        environment.full,
        kind_of(environment),
        tuple(sorted(installed, key=lambda one: (one.name, one.version))),
    )


def import_failed(found: Diagnosis) -> Finding | None:
    """The finding that torch cannot be imported, if that was tried and failed."""
    return next((finding for finding in found.findings if finding.rule == "import"), None)


def wrong_torch(found: Diagnosis) -> Finding | None:
    """The finding that torch is not for ROCm, if there is a torch and it is so."""
    wrong = (seen for seen in found.observations if (seen.id, seen.verdict) == ("torch", "wrong"))
    return next((seen.finding for seen in wrong), None)


# -- gather which libraries the libraries of an environment need and nobody has; read from their headers


_SYSTEM = ("lib", "usr/lib", "lib64", "usr/lib64", "lib/*-linux-*", "usr/lib/*-linux-*", "usr/local/lib")


def unmet_needs(
    environment: Environment, machine: Machine, platforms: Platforms, root: Path = Path("/")
) -> tuple[Need, ...]:
    """Each library that is needed and is neither in the environment nor on the system, with who needs it.

    Where a library is looked for is not followed, only whether there is one of the name: what loads it may
    have loaded it before. A torch that is not for ROCm is no concern of ours: its libraries are in other
    packages.
    """
    if environment.torch is not None and not environment.torch.hip:
        return ()
    found = list(_headers(environment))
    have = {PurePosixPath(path).name for _, path, _ in found}
    have |= {elf.soname for _, _, elf in found if elf.soname}
    have |= {name for place in machine.places for name in place.libraries}
    have |= _names(Path(environment.prefix) / "lib")
    for pattern in _SYSTEM:
        for directory in root.glob(pattern):
            have |= _names(directory)
    first: dict[str, Need] = {}
    for distribution, path, elf in found:
        for name in elf.needed:
            if name not in have and not platforms.on_every(name):
                first.setdefault(name, Need(name, distribution, path))
    return tuple(first[name] for name in sorted(first))


def _headers(environment: Environment) -> Iterator[tuple[str, str, Elf]]:
    """Distribution, path and headers of each library; damaged ones are told of by RECORD."""
    for one in environment.family:
        for path in one.libraries:
            place = Path(one.directory, path)
            try:
                if is_elf(place):
                    yield one.name, path, read_elf(place)
            except (InvalidElf, OSError):
                continue


def _names(directory: Path) -> set[str]:
    try:
        return {entry.name for entry in directory.iterdir() if ".so" in entry.name}
    except OSError:
        return set()
