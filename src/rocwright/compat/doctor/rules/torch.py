"""Rules about the Python of an environment and the torch in it: are they there, and do they fit?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePath
from typing import Literal

from rocwright.compat.doctor import mend
from rocwright.compat.doctor.facts import Case, Distribution, Environment
from rocwright.compat.doctor.observations import Observation
from rocwright.errors import InvalidInput
from rocwright.model.platforms import platform_named
from rocwright.model.variants import split_label
from rocwright.wheel.tags import serves

_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_(.+)")
_OLD = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


def python(case: Case) -> Iterator[Observation]:
    """Whether wheels are made for this Python: those of the set where there is one, else the table's."""
    environment = case.environment
    assert environment is not None
    name = f"Python {environment.full}" + (" (free-threaded)" if environment.version.endswith("t") else "")
    if environment.implementation != "cpython":
        detail = f"{name} is {environment.implementation}; wheels are made for CPython"
        yield _python_observation(case, detail)
    elif case.manifest is not None:
        names = [entry.name for entry in case.manifest.files if entry.project == "torch"]
        if names and not any(_fits(name_, environment) for name_ in names):
            detail = (
                f"{name}: the set has no torch for it, but {', '.join(sorted(set(map(_python_of, names))))}"
            )
            yield _python_observation(case, detail)
        else:
            yield Observation("python", "ok", f"{name}, which the set has", section="environment")
    elif environment.version not in case.pythons:
        yield _python_observation(case, f"{name}: wheels are made for {', '.join(case.pythons)}")
    else:
        yield Observation("python", "ok", f"{name}, {environment.python}", section="environment")


def _python_observation(case: Case, detail: str) -> Observation:
    assert case.environment is not None
    best = case.pythons[-2] if len(case.pythons) > 1 else case.pythons[-1]
    step = f"uv venv --python {best} NEW, and install there"
    return Observation("python", "wrong", detail, step, section="environment")


def _tags_of(wheel: str) -> list[str]:
    # pip installs no variant, and uv one that has the tags of its plain wheel.
    pythons, abis, platforms = split_label(wheel)[0].removesuffix(".whl").split("-")[-3:]
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


def tags(case: Case) -> Iterator[Observation]:
    """Whether each installed wheel is for this Python, machine and C library."""
    environment = case.environment
    assert environment is not None
    for one in environment.family:
        cause = _misfit(one, environment)
        if cause:
            detail = f"{one.name} {one.version} {cause}"
            yield Observation("tags", "wrong", detail, _tags_step(one, environment), one.name, "environment")


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


def kind_of(environment: Environment) -> Literal["", "rocm", "cuda", "cpu"]:
    """What torch was built for; empty where there is none."""
    text = environment.torch
    if text is None:
        return ""
    return "rocm" if text.hip else "cuda" if text.cuda else "cpu"


def torch(case: Case) -> Iterator[Observation]:
    """Is there a torch, and for ROCm?"""
    environment = case.environment
    assert environment is not None
    text = environment.torch
    if text is None:
        yield _absent(case, environment)
        return
    version = text.version or "of unknown version"
    if text.hip:
        detail = f"torch {version} for ROCm (HIP {text.hip}), {text.directory}"
        yield Observation("torch", "ok", detail, about="torch", section="environment")
        return
    built = f"CUDA {text.cuda}" if text.cuda else "the CPU only"
    detail = f"torch {version} is built for {built}, like PyPI's, not for ROCm (torch.version.hip is None)"
    step = mend.install(case, _wanted(case), again=True)
    yield Observation("torch", "wrong", detail, step, about="torch", section="environment")


def _absent(case: Case, environment: Environment) -> Observation:
    installed = environment.named("torch")
    if installed is not None and installed.editable:
        detail = f"torch {installed.version} is imported from its sources ({installed.origin}): not inspected"
        return Observation("torch", "note", detail, about="torch", section="environment")
    if installed is not None:
        detail = f"torch {installed.version} is installed, but its package torch/ is gone"
        step = mend.reinstall(case, installed)
        return Observation("torch", "missing", detail, step, "torch", "environment")
    detail = f"no torch in {environment.prefix}"
    return Observation("torch", "missing", detail, mend.install(case, _wanted(case)), "torch", "environment")


def _wanted(case: Case) -> str:
    """The torch of the set where there is one, else the one of the same release for the installed ROCm."""
    if case.manifest is not None:
        version = next((entry.version for entry in case.manifest.files if entry.project == "torch"), "")
        return f"torch=={version}" if version else "torch"
    return f"torch[{','.join(case.extras)}]" if case.extras else "torch"


def shadowed(case: Case) -> Iterator[Observation]:
    """Another torch in front of the installed one."""
    environment = case.environment
    assert environment is not None
    for place in environment.shadows:
        detail = f"PYTHONPATH leads to {place}, whose modules are imported instead of the installed ones"
        yield Observation("shadowed", "wrong", detail, "unset PYTHONPATH", place, "environment")
    text, installed = environment.torch, environment.named("torch")
    if text is None or installed is None or installed.editable or environment.shadows:
        return
    if PurePath(text.directory).parent != PurePath(installed.directory):
        there = f"torch {installed.version} is installed in {installed.directory}"
        detail = f"import finds {text.directory}, but {there}"
        step = f"remove {shlex.quote(text.directory)}, or the entry of sys.path that leads to it"
        yield Observation("shadowed", "wrong", detail, step, "torch", "environment")
