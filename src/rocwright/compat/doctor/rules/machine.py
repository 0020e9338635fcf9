"""Rules about the machine: GPUs, driver, rights, containers, variables, and what building on it needs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from rocwright.compat.doctor.facts import Case, Device
from rocwright.compat.doctor.observations import Observation
from rocwright.emulator.find import emulator_table, find_emulator
from rocwright.errors import InvalidInput, MissingTool

# Measured: prefix 1.9, packages 0.5, build environment 1.9, two test environments and uv's cache 5.6 GB.
_DEMO_SPACE = 10_000_000_000
# Program, what the demo and every build need it for, the Debian package that has it.
PROGRAMS = (
    ("git", "check out sources", "git"),
    ("cc", "compile launchers for links to programs", "gcc"),
    ("g++", "build the PyTorch family", "g++"),
)
_MAKE = ("make", "run the commands of the README", "make")
_LEADING = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH")
_OVERRIDE = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_VISIBILITY = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
_SYSTEMS = {
    "windows": "on Windows only the environment is checked, not GPUs, driver and permissions",
    "other": "there is no ROCm for this system; only the environment is checked",
}


def platform(case: Case) -> Iterator[Observation]:
    """What is not looked at here."""
    system = case.machine.system
    if system in _SYSTEMS:
        yield Observation("platform", "note", _SYSTEMS[system])
    elif system == "wsl":
        yield Observation(
            "platform",
            "note",
            "WSL: GPUs come through /dev/dxg, not through the kernel driver that is asked here",
            "rocminfo",
        )


def gpu(case: Case) -> Iterator[Observation]:
    """Which GPUs there are."""
    facts = case.machine
    targets = [one.target for one in facts.gpus]
    if targets:
        yield Observation("gpu", "ok", ", ".join(targets))
    elif facts.gpu_problems:
        step = "check the permissions of /dev/kfd and /sys/class/kfd"
        yield Observation("gpu", "missing", "; ".join(facts.gpu_problems), step)
    elif facts.system in ("linux", "wsl"):
        reason = "the driver lists none" if facts.driver_listed else f"no {facts.nodes}"
        yield Observation("gpu", "note", f"no AMD GPU ({reason}); building works, kernels cannot run here")


def driver(case: Case) -> Iterator[Observation]:
    """A GPU without its kernel driver."""
    facts = case.machine
    if not facts.boards or facts.gpus or facts.gpu_problems:
        return
    boards = f"the PCI bus has {_count(len(facts.boards), 'AMD GPU')} ({', '.join(facts.boards)})"
    if facts.blocked:
        places = ", ".join(facts.blocked)
        step = f"take it out of {places}, then sudo update-initramfs -u and restart"
        yield Observation("driver", "wrong", f"{boards}, but {places} blocks the driver amdgpu", step)
    elif facts.driver != "loaded":
        step = "sudo modprobe amdgpu"
        if facts.container:
            step += " on the host, not in the container"
        yield Observation("driver", "missing", f"{boards}, but the driver amdgpu is not loaded", step)
    else:
        yield Observation(
            "driver",
            "wrong",
            f"{boards} and amdgpu is loaded, but it offers none of them for computing (no KFD node)",
            "sudo dmesg | grep -i -e amdgpu -e kfd",
        )


def container(case: Case) -> Iterator[Observation]:
    """A container that was not given the devices."""
    facts = case.machine
    if not facts.container or not (facts.gpus or facts.boards or facts.gpu_problems):
        return
    absent = [] if facts.kfd else ["/dev/kfd"]
    absent += [] if facts.render else ["/dev/dri/renderD*"]
    if absent:
        yield Observation(
            "container",
            "missing",
            f"this {facts.container} container has no {' and no '.join(absent)}, the machine has a GPU",
            docker_line(case),
        )


def docker_line(case: Case) -> str:
    """How to start a container with a GPU."""
    row = case.table.container
    words = [*row.devices, *row.groups, row.memory, row.seccomp]
    return f"docker run {' '.join(words)} IMAGE"


def access(case: Case) -> Iterator[Observation]:
    """Rights on the devices, for a machine with a GPU."""
    facts = case.machine
    devices = [one for one in (facts.kfd, *facts.render) if one is not None]
    if not devices:
        if facts.gpus and not facts.container:
            step = "sudo modprobe -r amdgpu && sudo modprobe amdgpu, and look at sudo dmesg"
            yield Observation("access", "missing", "the driver lists GPUs, but there is no /dev/kfd", step)
        return
    refused = [one for one in devices if not one.usable]
    if not refused:
        names = ", ".join(one.path for one in devices)
        yield Observation("access", "ok", f"{facts.user} may use {names}")
        return
    groups = _wanted_groups(case, refused)
    named = ", ".join(f"{one.path} ({one.mode:03o}, group {one.group})" for one in refused)
    detail = f"{facts.user} may not use {named}"
    step = f"sudo usermod -a -G {','.join(groups)} {facts.user}, then log in again"
    if all(name in facts.enrolled and name not in facts.groups for name in groups):
        detail = f"{facts.user} has joined {', '.join(groups)} since this login, and may not use {named} yet"
        step = f"log in again, or: newgrp {groups[0]}"
    elif facts.container:
        options = " ".join(f"--group-add {one}" for one in sorted({device.group for device in refused}))
        step = f"docker run {options} … IMAGE"
    # Without /dev/kfd no GPU works; of several GPUs one may be somebody else's.
    some = any(one.usable for one in facts.render) and (facts.kfd is None or facts.kfd.usable)
    yield Observation("access", "note" if some else "missing", detail, step)


def _wanted_groups(case: Case, refused: list[Device]) -> list[str]:
    """The groups that would let the user in; root's group is nobody's to join."""
    own = [one.group for one in refused if one.group != "root" and one.mode & 0o060 == 0o060]
    return list(dict.fromkeys(own)) or list(case.table.access.groups)


def shared_memory(case: Case) -> Iterator[Observation]:
    """A container's /dev/shm."""
    facts = case.machine
    size = facts.shared_bytes
    if facts.container and size is not None and size < case.table.shared_bytes:
        detail = (
            f"shared memory (/dev/shm) has {size / 1e6:.0f} MB: data loaders with workers fail (Bus error)"
        )
        step = f"start the container with {case.table.container.memory}, or --shm-size=8g"
        yield Observation("shared-memory", "note", detail, step)


def seccomp(case: Case) -> Iterator[Observation]:
    """A container's filter of system calls, where there is a GPU to work with."""
    facts = case.machine
    if facts.container and facts.seccomp and (facts.gpus or facts.boards):
        yield Observation(
            "seccomp",
            "note",
            "system calls are filtered: memory policies (NUMA), profilers and debuggers do not work",
            f"start the container with {case.table.container.seccomp}",
        )


def override(case: Case) -> Iterator[Observation]:
    """HSA_OVERRIDE_GFX_VERSION: programs take every GPU for another one."""
    value = case.machine.variables.get("HSA_OVERRIDE_GFX_VERSION")
    if value is None:
        return
    step = "unset HSA_OVERRIDE_GFX_VERSION"
    match = _OVERRIDE.fullmatch(value)
    if match is None:
        detail = f"HSA_OVERRIDE_GFX_VERSION={value} is not a version such as 10.3.0"
        yield Observation("override", "wrong", detail, step)
        return
    taken = overridden(value)
    others = sorted({one.target for one in case.machine.gpus} - {taken})
    detail = f"HSA_OVERRIDE_GFX_VERSION={value}: programs treat every GPU as {taken}"
    if others:
        detail += f", also {', '.join(others)}, for which kernels of {taken} may crash or compute wrong"
    yield Observation("override", "wrong" if others else "note", detail, step)


def overridden(value: str) -> str:
    """The target that `10.3.0` stands for; empty for other text."""
    match = _OVERRIDE.fullmatch(value)
    if match is None:
        return ""
    major, minor, step = (int(part) for part in match.groups())
    return f"gfx{major}{minor:x}{step:x}"


def visibility(case: Case) -> Iterator[Observation]:
    """Variables that hide GPUs; HIP takes an empty one of its own as not set, ROCr as none."""
    variables = case.machine.variables
    for name in _VISIBILITY:
        value = variables.get(name)
        if value is None or not case.machine.gpus or (not value and name != "ROCR_VISIBLE_DEVICES"):
            continue
        count = len(case.machine.gpus)
        words = [word.strip() for word in value.split(",")]
        # By their ids all of them may be named.
        if set(words) >= {str(number) for number in range(count)} or len(words) >= count > 1:
            continue
        step = f"unset {name}"
        if words[0] in ("", "-1"):
            yield Observation("visibility", "wrong", f"{name}={value}: programs see no GPU", step, about=name)
        else:
            detail = f"{name}={value}: programs do not see all of the {_count(count, 'GPU')}"
            yield Observation("visibility", "note", detail, step, about=name)


def system_rocm(case: Case) -> Iterator[Observation]:
    """ROCms of the system, beside those of environments."""
    facts = case.machine
    if not facts.rocms:
        return
    named = ", ".join(f"{one.path} ({one.version})" if one.version else one.path for one in facts.rocms)
    on_path = [entry for entry in facts.path if "rocm" in entry and entry.startswith("/opt/")]
    if on_path:
        word = ":".join(on_path)
        yield Observation(
            "system-rocm",
            "note",
            f"{named}; {word} is on PATH: hipcc and rocminfo are that ROCm's, not an environment's",
            f"export PATH={':'.join(entry for entry in facts.path if entry not in on_path)}",
        )
    elif len(facts.rocms) > 1:
        detail = f"several ROCms on this system: {named}; wheels bring their own and need none of them"
        yield Observation("system-rocm", "note", detail)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def building(
    which: Callable[[str], str | None], work_dir: Path, environ: Mapping[str, str]
) -> Iterator[Observation]:
    """Each program, ROCm's source, the disk, and variables that lead libraries astray."""
    for program, purpose, package in (*PROGRAMS, _MAKE):
        path = which(program)
        if path:
            yield Observation(program, "ok", path)
        else:
            yield Observation(program, "missing", f"needed to {purpose}", f"apt-get install {package}")
    if which("apt-get") and which("dpkg-deb"):
        yield Observation("rocm-source", "ok", "ROCm can be fetched from the distribution, without root")
    else:
        yield Observation("rocm-source", "missing", "no apt here to fetch ROCm with", "use --rocm-prefix DIR")
    yield _disk(work_dir)
    leading = [name for name in _LEADING if environ.get(name)]
    if leading:
        detail = f"{', '.join(leading)} set: libraries from there may be loaded first"
        yield Observation("environment", "note", detail, f"unset {' '.join(leading)}")


def emulators(environ: Mapping[str, str], python: Path | None) -> Iterator[Observation]:
    """An emulator of AMD GPUs that is here, and the targets that it plays; nothing where there is none."""
    try:
        found = find_emulator(None, environ, python)
    except (MissingTool, InvalidInput) as error:
        variable = emulator_table().variable
        if environ.get(variable):
            yield Observation(
                "emulator", "missing", error.what, f"unset {variable}, or name one that is there"
            )
        return
    plays = ", ".join(found.targets) or "no target"
    detail = f"{found.name} {found.version or found.digest[:12]} ({found.library}) plays {plays}"
    target = next(iter(found.targets), "TARGET")
    step = f"kernels run here without a GPU: rocwright test smoke --emulate {target}"
    yield Observation("emulator", "note", detail, step)


def _disk(directory: Path) -> Observation:
    existing = directory.resolve()
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    detail = f"{free / 1e9:.1f} GB free, the demo needs about {_DEMO_SPACE / 1e9:.0f} GB"
    if free > _DEMO_SPACE:
        return Observation("disk", "ok", detail)
    return Observation("disk", "missing", detail, "free some space, or choose another --work-dir")
