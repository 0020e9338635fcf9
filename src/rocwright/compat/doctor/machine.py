"""Gather the facts of a machine: what the kernel, its devices and this user's rights are. Reads only."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.compat.detector import detect
from rocwright.compat.doctor.facts import Device, DoctorTable, LibraryPlace, Machine, SystemRocm

NODES = "sys/class/kfd/kfd/topology/nodes"
# Variables that change which GPUs a program sees, for what it takes them, or which files it loads.
VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "HSA_OVERRIDE_GFX_VERSION",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PYTHONHOME",
    "PYTHONPATH",
    "ROCM_PATH",
    "ROCR_VISIBLE_DEVICES",
)
_RUNTIMES = ("docker", "containerd", "kubepods", "podman", "libpod", "lxc")
_BLOCKING = re.compile(r"^\s*(?:blacklist|install)\s+amdgpu\b", re.MULTILINE)
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class User(msgspec.Struct, frozen=True):
    """Whose rights count: a name, and the numbers of the groups of this process."""

    name: str
    uid: int
    gids: tuple[int, ...]


def this_user() -> User:
    """The user of this process; by number where the system has no name for it."""
    # There is no such thing on Windows, where nothing of this is looked at.
    if sys.platform == "win32":
        return User(os.environ.get("USERNAME", ""), -1, ())
    else:
        import pwd

        uid = os.getuid()
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            name = str(uid)
        return User(name, uid, tuple(sorted({os.getegid(), *os.getgroups()})))


def gather_machine(
    table: DoctorTable,
    *,
    root: Path = Path("/"),
    environ: Mapping[str, str],
    user: User,
    platform: str,
) -> Machine:
    """What there is below `root` (of another machine: a copy of its /sys, /proc, /dev, /etc and /opt).

    `platform` is as `sys.platform` has it. Of Windows and other systems nothing is looked at.
    """
    variables = {name: environ[name] for name in VARIABLES if name in environ}
    if not platform.startswith("linux"):
        system = "windows" if platform == "win32" else "other"
        return Machine(system=system, nodes=str(root / NODES), driver_listed=False, variables=variables)  # type: ignore[arg-type]
    detected = detect(root / NODES)
    names = _group_names(root)
    path = tuple(filter(None, environ.get("PATH", "").split(":")))
    return Machine(
        system="wsl" if (root / "dev/dxg").exists() else "linux",
        nodes=str(root / NODES),
        driver_listed=(root / NODES).exists(),
        gpus=detected.gpus,
        gpu_problems=detected.problems,
        boards=_boards(root, table),
        driver="loaded" if (root / "sys/module/amdgpu").exists() else "not loaded",
        blocked=_blocked(root),
        kfd=_device(root, "dev/kfd", names),
        render=tuple(
            device
            for path_ in sorted((root / "dev/dri").glob("renderD*"))
            if (device := _device(root, f"dev/dri/{path_.name}", names))
        ),
        user=user.name,
        groups=tuple(names.get(gid, str(gid)) for gid in user.gids),
        enrolled=_enrolled(root, user.name),
        container=_container(root),
        shared_bytes=_shared_bytes(root),
        seccomp=_line(root / "proc/self/status", "Seccomp:") == "2",
        variables=variables,
        path=path,
        places=library_places(root, environ),
        rocms=system_rocms(root),
    )


def _text(path: Path) -> str:
    """A file's text; empty where it is not there or may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _line(path: Path, beginning: str) -> str:
    """What follows the beginning in the first line that has it."""
    found = (line for line in _text(path).splitlines() if line.startswith(beginning))
    return next(found, beginning)[len(beginning) :].strip()


def _boards(root: Path, table: DoctorTable) -> tuple[str, ...]:
    """PCI addresses of AMD's GPUs."""
    found = []
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        vendor, kind = _text(device / "vendor").strip(), _text(device / "class").strip()
        if vendor == table.pci.vendor and kind.startswith(table.pci.classes):
            found.append(device.name)
    return tuple(found)


def _blocked(root: Path) -> tuple[str, ...]:
    """Places that keep the kernel from loading its driver."""
    found = [
        str(Path("/", path.relative_to(root)))
        for folder in ("etc/modprobe.d", "usr/lib/modprobe.d", "run/modprobe.d")
        for path in sorted((root / folder).glob("*.conf"))
        if _BLOCKING.search(_text(path))
    ]
    words = _text(root / "proc/cmdline").split()
    found += [
        f"the kernel's command line ({word})"
        for word in words
        if word == "nomodeset" or (word.startswith("modprobe.blacklist=") and "amdgpu" in word)
    ]
    return tuple(found)


def _device(root: Path, name: str, groups: Mapping[int, str]) -> Device | None:
    path = root / name
    try:
        facts = path.stat()
    except OSError:
        return None
    return Device(
        path=f"/{name}",
        group=groups.get(facts.st_gid, str(facts.st_gid)),
        mode=facts.st_mode & 0o777,
        # What counts, whether by mode or by an access list.
        usable=os.access(path, os.R_OK | os.W_OK),
    )


def _groups(root: Path) -> list[tuple[str, int, list[str]]]:
    """Name, number and members of each group in /etc/group."""
    rows = (line.split(":") for line in _text(root / "etc/group").splitlines())
    return [(row[0], int(row[2]), row[3].split(",")) for row in rows if len(row) == 4 and row[2].isdigit()]


def _group_names(root: Path) -> dict[int, str]:
    return {number: name for name, number, _ in _groups(root)}


def _enrolled(root: Path, user: str) -> tuple[str, ...]:
    return tuple(name for name, _, members in _groups(root) if user in members)


def _container(root: Path) -> str:
    """What kind of container this is; empty outside of one."""
    if (root / "run/.containerenv").exists():
        return "podman"
    if (root / ".dockerenv").exists():
        return "docker"
    said = re.search(r"(?:^|\0)container=([^\0]+)", _text(root / "proc/1/environ"))
    if said:
        return said[1]
    groups = _text(root / "proc/1/cgroup")
    return next((name for name in _RUNTIMES if name in groups), "")


def _shared_bytes(root: Path) -> int | None:
    """The size that /dev/shm was given; None where it has none of its own."""
    for line in _text(root / "proc/mounts").splitlines():
        row = line.split()
        if len(row) > 3 and row[1] == "/dev/shm":  # noqa: S108 - a mount point, not a file of ours
            size = re.search(r"(?:^|,)size=(\d+)([kmg]?)", row[3], re.IGNORECASE)
            return int(size[1]) * _SIZES[size[2].lower()] if size else None
    return None


# -- gather where the loader takes libraries from besides an environment, and the ROCms that a system has


_LIBRARY = re.compile(r".+\.so(\.[0-9.]+)?")
# An include that includes itself must end.
_DEPTH = 5
_VERSION = re.compile(r"\d+(?:\.\d+)+[^\s]*")


def library_places(root: Path, environ: Mapping[str, str]) -> tuple[LibraryPlace, ...]:
    """The directories of LD_LIBRARY_PATH and of the loader's configuration, and the files of LD_PRELOAD.

    Of the system's own directories (/lib, /usr/lib) nothing is told: they come last and everyone has them.
    """
    # An empty word stands for the current directory.
    given = [word or "." for word in environ["LD_LIBRARY_PATH"].split(":")] if _set(environ) else []
    found = [_directory(word, "LD_LIBRARY_PATH", root) for word in dict.fromkeys(given)]
    preloaded = filter(None, re.split(r"[ :]+", environ.get("LD_PRELOAD", "")))
    found += [
        LibraryPlace(word, "LD_PRELOAD", (Path(word).name,), os.path.realpath(word)) for word in preloaded
    ]
    configured = dict.fromkeys(_configured(root, root / "etc/ld.so.conf"))
    found += [_directory(word, "ld.so.conf", root) for word in configured if not _of_the_system(word)]
    return tuple(found)


def _set(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("LD_LIBRARY_PATH"))


def _directory(word: str, via: Literal["LD_LIBRARY_PATH", "ld.so.conf"], root: Path) -> LibraryPlace:
    path = root / word.lstrip("/") if word.startswith("/") else Path(word)
    try:
        names = sorted(entry.name for entry in path.iterdir() if _LIBRARY.fullmatch(entry.name))
    except OSError:
        names = []
    return LibraryPlace(word, via, tuple(names), os.path.realpath(path))


def _configured(root: Path, path: Path, depth: int = 0) -> Iterator[str]:
    """Directories that a file of the loader's configuration names, in order."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        word = line.partition("#")[0].strip()
        if word.startswith("include") and depth < _DEPTH:
            pattern = word[len("include") :].strip()
            base = root if pattern.startswith("/") else path.parent
            for included in sorted(base.glob(pattern.lstrip("/"))) if pattern else []:
                yield from _configured(root, included, depth + 1)
        elif word.startswith("/"):
            yield word


def _of_the_system(word: str) -> bool:
    return re.fullmatch(r"(?:/usr)?/lib(?:32|64|x32)?(?:/[^/]+-linux-[^/]+)?", word.rstrip("/")) is not None


def system_rocms(root: Path) -> tuple[SystemRocm, ...]:
    """ROCm below /opt, and the distribution's own, each once, however many links lead to it."""
    found: dict[Path, SystemRocm] = {}
    for path in sorted([*(root / "opt").glob("rocm*"), *(root / "opt").glob("rocm/core*")]):
        place = next((one for one in (path / "lib", path / "bin") if one.is_dir()), None)
        if place is None:
            continue
        # Native packages of ROCm 10 link /opt/rocm/lib to that of /opt/rocm/core-10.0, and nothing above it.
        real = place.resolve().parent
        # The link /opt/rocm sorts first, and is what people name.
        found.setdefault(real, SystemRocm(f"/{path.relative_to(root)}", _version(real)))
    for pattern in ("usr/lib/*/libamdhip64.so*", "usr/lib64/libamdhip64.so*"):
        for library in sorted(root.glob(pattern)):
            place = library.parent
            version = library.name.partition(".so.")[2]
            found[place] = SystemRocm(f"/{place.relative_to(root)}", version)
    return tuple(found.values())


def _version(path: Path) -> str:
    for name in (".info/version", ".info/version-dev"):
        try:
            text = (path / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        match = _VERSION.match(text.strip())
        if match:
            return match[0]
    match = _VERSION.search(path.resolve().name)
    return match[0] if match else ""
