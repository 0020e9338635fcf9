"""The control groups of this process: where Linux keeps the limits of containers, services and batch jobs."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import msgspec


class Groups(msgspec.Struct, frozen=True):
    """Directories of one controller, the process's own group first, then those around it as far as is seen.

    `version` is 1 or 2; a limit of any of them holds for the process.
    """

    version: int
    directories: tuple[Path, ...]


def find_groups(controller: str, *, root: Path = Path("/")) -> Groups | None:
    """The groups that limit this process's use of `controller` (`memory`, `cpu`); None where nobody tells.

    Version 1 is looked for first: where both are mounted, a controller belongs to one of them, and one that
    version 1 lists is not in the tree of version 2. `root` stands for the file system's root.

    Source: cgroups(7), proc_pid_mountinfo(5).
    """
    own = _own_groups(_text(root / "proc/self/cgroup"))
    mounts = _mounts(_text(root / "proc/self/mountinfo"))
    for version, name in ((1, controller), (2, "")):
        for mount in mounts:
            if mount.version == version and name in mount.controllers and name in own:
                found = _directories(mount, own[name], root)
                if version == 1 or any((group / f"{controller}.stat").exists() for group in found):
                    return Groups(version, found)
    return None


class _Mount(msgspec.Struct, frozen=True):
    """A mounted tree of groups; `base` is the group that its topmost directory is."""

    version: int
    controllers: frozenset[str]
    base: str
    point: str


def _own_groups(text: str) -> dict[str, str]:
    """Lines such as `4:memory:/docker/1a2b` (version 1) and `0::/user.slice` (version 2, no controller)."""
    own: dict[str, str] = {}
    for line in text.splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3:
            own |= dict.fromkeys(fields[1].split(","), fields[2])
    return own


def _mounts(text: str) -> list[_Mount]:
    """`ID PARENT DEVICE BASE POINT OPTIONS [TAGS…] - TYPE SOURCE OPTIONS`; spaces are written `\\040`."""
    mounts = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        left, right = before.split(), after.split()
        if not separator or len(left) < 5 or len(right) < 3 or right[0] not in ("cgroup", "cgroup2"):
            continue
        base, point = (field.replace("\\040", " ") for field in left[3:5])
        if right[0] == "cgroup":
            mounts.append(_Mount(1, frozenset(right[2].split(",")), base, point))
        else:
            mounts.append(_Mount(2, frozenset([""]), base, point))
    return mounts


def _directories(mount: _Mount, own: str, root: Path) -> tuple[Path, ...]:
    """From the own group up to the topmost that is mounted.

    In a container without a namespace of its own for groups, `own` is the path on the host, of which only the
    part below `base` is mounted. A group that lies outside of what is mounted (`/../x`) leaves the topmost.
    """
    top = root / mount.point.lstrip("/")
    try:
        below = PurePosixPath(own).relative_to(mount.base)
    except ValueError:
        return (top,)
    if ".." in below.parts:
        return (top,)
    group = top / below
    around = [group, *group.parents]
    return tuple(path for path in around[: len(below.parts) + 1] if path.is_dir())


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def read_number(path: Path) -> int | None:
    """The number that a file of a group holds; None where there is no file, or no limit (`max`)."""
    try:
        return int(_text(path))
    except ValueError:
        return None


def read_table(path: Path) -> dict[str, int]:
    """The lines `NAME NUMBER` of a file such as `memory.stat`; empty where there is none."""
    table = {}
    for line in _text(path).splitlines():
        words = line.split()
        if len(words) >= 2 and words[1].isdigit():
            table[words[0].rstrip(":")] = int(words[1])
    return table


def read_words(path: Path) -> tuple[str, ...]:
    """What stands in a file of a group, such as `max 100000`; empty where there is none."""
    return tuple(_text(path).split())
