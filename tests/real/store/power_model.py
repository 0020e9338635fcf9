"""What a disk may hold after a power cut, by what a process asked of the system: a strict model, by a seed.

Only what was synced is sure to be there. Content that was not synced may be what was synced before, all of
it, a part, or zeros. Of the names in a folder that changed since it was synced, each is as it was at any
moment since then, on its own. A folder that was made is there when its own name is.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("recorder.c")


class Change(NamedTuple):
    """A line of the recorder; `acknowledged` besides: a command returned, and `second` says which."""

    operation: str
    path: str
    second: bytes


def build_recorder(folder: Path) -> Path:
    """The recorder as a library to preload."""
    library = folder / "recorder.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl", "-lpthread"], check=True)
    return library


def acknowledge(log: Path, what: str) -> None:
    """Write down that a command has returned."""
    with log.open("a") as stream:
        stream.write(f"acknowledged\t\t{what.encode().hex()}\n")


def changes(log: Path) -> Iterator[Change]:
    """What was recorded, in order."""
    for line in log.read_text().splitlines():
        operation, path, second = line.split("\t")
        yield Change(operation, os.fsdecode(bytes.fromhex(path)), bytes.fromhex(second))


@dataclass(eq=False)
class File:
    """Content as it is, and as it was when it was synced; None: never."""

    now: bytes = b""
    synced: bytes | None = None

    def sync(self) -> None:
        """What the disk has acknowledged."""
        self.synced = self.now

    def after(self, chance: random.Random) -> bytes:
        """The content after a power cut."""
        if self.synced == self.now:
            return self.now
        half = self.now[: chance.randint(0, len(self.now))]
        return chance.choice([self.synced or b"", self.now, half, b"\0" * len(self.now)])


@dataclass(eq=False)
class Folder:
    """Names as they are; and all that each may stand for, the first as it was synced (None: nothing)."""

    now: dict[str, File | Folder] = field(default_factory=dict)
    may: dict[str, list[File | Folder | None]] = field(default_factory=dict)

    def set(self, name: str, what: File | Folder | None) -> None:
        """Let a name stand for something, or for nothing."""
        self.may.setdefault(name, [self.now.get(name)]).append(what)
        if what is None:
            self.now.pop(name, None)
        else:
            self.now[name] = what

    def sync(self) -> None:
        """What the disk has acknowledged."""
        self.may = {}

    def after(self, chance: random.Random) -> dict[str, File | Folder]:
        """The names after a power cut."""
        found = {name: chance.choice(self.may.get(name, [what])) for name, what in self.now.items()}
        gone = {name: chance.choice(self.may[name]) for name in sorted(self.may.keys() - self.now.keys())}
        return {name: what for name, what in (found | gone).items() if what is not None}


class Disk:
    """The folder `root`, which was there before, and what became of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = Folder()

    def _parent(self, path: str) -> tuple[Folder, str]:
        *above, name = Path(path).relative_to(self.root).parts
        folder: File | Folder = self.folder
        for part in above:
            assert isinstance(folder, Folder)
            folder = folder.now[part]
        assert isinstance(folder, Folder)
        return folder, name

    def find(self, path: str) -> File | Folder | None:
        """What a path stands for; None for a file that has lost its name."""
        if path == str(self.root):
            return self.folder
        folder, name = self._parent(path)
        return folder.now.get(name)

    def apply(self, change: Change) -> None:
        """One change happens."""
        if change.operation in ("content", "sync"):
            found = self.find(change.path)
            if change.operation == "sync" and found is not None:
                found.sync()
            elif change.operation == "content" and isinstance(found, File):
                found.now = change.second
            return
        folder, name = self._parent(change.path)
        if change.operation in ("create", "mkdir"):
            folder.set(name, File() if change.operation == "create" else Folder())
        elif change.operation == "remove":
            folder.set(name, None)
        else:
            assert change.operation in ("link", "rename"), change.operation
            other, new = self._parent(os.fsdecode(change.second))
            what = folder.now[name]
            if other.now.get(new) is not what:
                other.set(new, what)
                if change.operation == "rename":
                    folder.set(name, None)

    def cut(self, target: Path, chance: random.Random) -> None:
        """Write what is left after a power cut into `target`."""
        _lay_out(self.folder, target, chance, {})


def _lay_out(folder: Folder, target: Path, chance: random.Random, made: dict[File, bytes]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name, what in folder.after(chance).items():
        if isinstance(what, Folder):
            _lay_out(what, target / name, chance, made)
        else:
            # Two names of one file have one content.
            if what not in made:
                made[what] = what.after(chance)
            (target / name).write_bytes(made[what])


def disk_after(log: Iterable[Change], root: Path) -> tuple[Disk, list[str]]:
    """The disk after these changes, and what was acknowledged by then."""
    disk, said = Disk(root), []
    for change in log:
        if change.operation == "acknowledged":
            said.append(change.second.decode())
        else:
            disk.apply(change)
    return disk, said
