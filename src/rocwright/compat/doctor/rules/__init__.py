"""The rules: pure functions from facts to observations, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rocwright.compat.doctor.facts import Case
from rocwright.compat.doctor.observations import Observation
from rocwright.compat.doctor.rules import devices, libraries, machine, packages, torch

Rule = Callable[[Case], Iterator[Observation]]

# Each looks at the whole case; those of an environment are asked only where there is one.
MACHINE: tuple[Rule, ...] = (
    machine.platform,
    machine.gpu,
    machine.driver,
    machine.container,
    machine.access,
    machine.shared_memory,
    machine.seccomp,
    machine.override,
    machine.visibility,
    machine.system_rocm,
)
ENVIRONMENT: tuple[Rule, ...] = (
    torch.python,
    torch.tags,
    torch.torch,
    torch.shadowed,
    packages.unreadable,
    packages.duplicate,
    packages.overlap,
    packages.requirements,
    packages.mixed,
    devices.device_code,
    devices.device_build,
    packages.from_set,
    packages.files,
    libraries.two_rocms,
    libraries.needed,
    libraries.foreign_libraries,
    libraries.imports,
    libraries.loaded,
)
