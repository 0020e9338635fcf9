"""Rules about the Python of an environment, and whether the wheels in it are for this system."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rocwright.compat.doctor.facts import Case, Distribution, Environment
from rocwright.compat.doctor.values import Finding
from rocwright.errors import InvalidInput
from rocwright.model.platforms import platform_named
from rocwright.wheel.tags import serves

_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_(.+)")
_OLD = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


def python(case: Case) -> Iterator[Finding]:
    """Whether wheels are made for this Python: those of the set where there is one, else the table's."""
    environment = case.environment
    assert environment is not None
    name = f"Python {environment.full}" + (" (free-threaded)" if environment.version.endswith("t") else "")
    if environment.implementation != "cpython":
        detail = f"{name} is {environment.implementation}; wheels are made for CPython"
        yield _python_finding(case, detail)
    elif case.manifest is not None:
        names = [entry.name for entry in case.manifest.files if entry.project == "torch"]
        if names and not any(_fits(name_, environment) for name_ in names):
            detail = (
                f"{name}: the set has no torch for it, but {', '.join(sorted(set(map(_python_of, names))))}"
            )
            yield _python_finding(case, detail)
        else:
            yield Finding("python", "ok", f"{name}, which the set has", section="environment")
    elif environment.version not in case.pythons:
        yield _python_finding(case, f"{name}: wheels are made for {', '.join(case.pythons)}")
    else:
        yield Finding("python", "ok", f"{name}, {environment.python}", section="environment")


def _python_finding(case: Case, detail: str) -> Finding:
    assert case.environment is not None
    best = case.pythons[-2] if len(case.pythons) > 1 else case.pythons[-1]
    step = f"uv venv --python {best} NEW, and install there"
    return Finding("python", "wrong", detail, step, section="environment")


def _tags_of(wheel: str) -> list[str]:
    pythons, abis, platforms = wheel.removesuffix(".whl").split("-")[-3:]
    return [f"{p}-{a}-{m}" for p in pythons.split(".") for a in abis.split(".") for m in platforms.split(".")]


def _fits(wheel: str, environment: Environment) -> bool:
    return wheel.endswith(".whl") and _serves(_tags_of(wheel), environment)


def _python_of(wheel: str) -> str:
    match = re.search(r"-cp3(\d+)-(\w+)-", wheel)
    return f"3.{match[1]}{'t' if match[2].endswith('t') else ''}" if match else wheel


def _serves(tags: list[str], environment: Environment) -> bool:
    try:
        return serves(tags, environment.version, _system(environment))
    except InvalidInput:
        return True  # a Python that has no tags of its own: the rule about Python tells


def _system(environment: Environment) -> str:
    return platform_named(environment.markers.get("sys_platform", ""))


def tags(case: Case) -> Iterator[Finding]:
    """Whether each installed wheel is for this Python, machine and C library."""
    environment = case.environment
    assert environment is not None
    for one in environment.family:
        cause = _misfit(one, environment)
        if cause:
            detail = f"{one.name} {one.version} {cause}"
            yield Finding("tags", "wrong", detail, _tags_step(one, environment), one.name, "environment")


def _misfit(one: Distribution, environment: Environment) -> str:
    """Why the wheel does not fit; empty where it does, or says nothing."""
    tags_ = list(one.tags)
    if not tags_ or environment.implementation != "cpython":
        return ""
    if not _serves(tags_, environment):
        return (
            f"is a wheel for {_shown(tags_)}, this is Python {environment.version} on {_system(environment)}"
        )
    platforms = [tag.rpartition("-")[2] for tag in tags_]
    if "any" in platforms or _system(environment) == "windows":
        return ""
    machines = [platform for platform in platforms if platform.endswith(f"_{environment.machine}")]
    if not machines:
        return f"is a wheel for {', '.join(platforms)}, this machine is {environment.machine}"
    if environment.libc == "musl" and not any(name.startswith("musllinux") for name in machines):
        return f"is a wheel for glibc ({', '.join(machines)}), this system has musl"
    wanted = [version for version in map(_glibc, machines) if version]
    has = _numbers(environment.libc_version)
    if environment.libc == "glibc" and wanted and has and len(wanted) == len(machines) and min(wanted) > has:
        least = ".".join(map(str, min(wanted)))
        return f"needs glibc {least}, this system has {environment.libc_version}"
    return ""


def _shown(tags_: list[str]) -> str:
    return tags_[0] + (f" and {len(tags_) - 1} more" if len(tags_) > 1 else "")


def _glibc(platform: str) -> tuple[int, ...]:
    match = _MANYLINUX.fullmatch(platform)
    if match:
        return (int(match[1]), int(match[2]))
    return _OLD.get(platform.partition("_")[0], ())


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def _tags_step(one: Distribution, environment: Environment) -> str:
    match = next((found for tag in one.tags if (found := re.match(r"cp3(\d+)-", tag))), None)
    if match and f"3.{match[1]}" != environment.version.rstrip("t"):
        return f"uv venv --python 3.{match[1]} NEW, and install there"
    return "install it on the system that it is for (a container with a newer distribution)"
