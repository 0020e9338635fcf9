"""Debian packages as files: unpack each for itself, read what it says of itself, list what it brought."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from rocwright.errors import CommandFailed, InvalidInput, NoSpace, RocwrightError
from rocwright.system import process
from rocwright.system.files import atomic_directory, walk_files
from rocwright.system.parallel import in_order

LISTING = ".info/packages.json"
_CONTROL = "DEBIAN"


class Control(msgspec.Struct, frozen=True):
    """What a package says of itself; `source` is the name of the source package it was built from."""

    name: str
    version: str
    source: str
    architecture: str


class Brought(msgspec.Struct, frozen=True):
    """A package and the files of a prefix that it brought."""

    name: str
    version: str
    source: str
    architecture: str
    files: tuple[str, ...]


class Listing(msgspec.Struct, frozen=True):
    """Which package every file of a prefix comes from; lies in the prefix as `.info/packages.json`."""

    distribution: str
    packages: tuple[Brought, ...]

    @classmethod
    def of(cls, distribution: str, files: Iterable[tuple[Control, str]]) -> Listing:
        """The listing of (package, path in the prefix); the same for any order of them."""
        found: dict[Control, list[str]] = {}
        for control, path in files:
            found.setdefault(control, []).append(path)
        rows = [
            Brought(one.name, one.version, one.source, one.architecture, tuple(sorted(paths)))
            for one, paths in found.items()
        ]
        return cls(distribution, tuple(sorted(rows, key=lambda row: row.name)))

    @classmethod
    def read(cls, prefix: Path) -> Listing:
        """The listing of a prefix made here."""
        return msgspec.json.decode((prefix / LISTING).read_bytes(), type=cls)

    def write(self, prefix: Path) -> None:
        """Write the listing into a prefix that is being made."""
        path = prefix / LISTING
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


class Unpacked:
    """A package unpacked into a directory of its own: its control data, and its files below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.control = _read_control(root / _CONTROL / "control")

    def entries(self) -> Iterable[tuple[str, Path]]:
        """Every file and link: path relative to the file system's root, and where it lies now."""
        for entry in walk_files(self.root):
            path = entry.relative_to(self.root).as_posix()
            if not path.startswith(_CONTROL + "/"):
                yield path, entry


def unpack_each(debs: Sequence[Path], target: Path, *, log: Path | None = None, threads: int = 2) -> None:
    """Unpack packages, several at once, into `target`/<file name without .deb> each, all or nothing.

    Raises `MissingTool` without dpkg-deb, `InvalidInput` with its message for what is no whole package.
    """
    process.find_program("dpkg-deb", purpose="unpack Debian packages", package="dpkg")
    # The largest first: one package holds most of the bytes and would otherwise be started last.
    queue = sorted(debs, key=lambda deb: (-deb.stat().st_size, deb.name))
    with atomic_directory(target) as beside:

        def one(deb: Path) -> None:
            # With its control data, which would otherwise take a second process.
            command = ["dpkg-deb", "--raw-extract", str(deb), str(beside / deb.stem)]
            try:
                process.run(command, log=log, env={"LC_ALL": "C"}, drop_env=["LANGUAGE"])
            except CommandFailed as error:
                raise _not_unpacked(deb, error) from error

        for _ in in_order(one, ((deb, 0) for deb in queue), threads=threads, window=1):
            pass


def unpacked_packages(directory: Path) -> list[Unpacked]:
    """The packages that `unpack_each` put into `directory`, by name."""
    return [Unpacked(root) for root in sorted(directory.iterdir())]


def _not_unpacked(deb: Path, error: CommandFailed) -> RocwrightError:
    if "No space left on device" in error.tail:
        return NoSpace(f"no space left while unpacking {deb.name}", where=deb)
    said = [line for line in error.tail.splitlines() if "error" in line] or error.tail.splitlines()
    return InvalidInput(
        f"{deb.name} cannot be unpacked: {said[-1] if said else error.what}",
        where=deb,
        next_step="fetch the package again",
    )


def _read_control(path: Path) -> Control:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}", where=path) from error
    fields = {
        key.lower(): value.strip()
        for key, colon, value in (line.partition(":") for line in text.splitlines())
        if colon and not key.startswith((" ", "\t"))
    }
    missing = [name for name in ("package", "version", "architecture") if not fields.get(name)]
    if missing:
        raise InvalidInput(f"the control data of a package lacks {', '.join(missing)}", where=path)
    # A source of another version than the package has it in brackets behind the name.
    source = (fields.get("source") or fields["package"]).split()[0]
    return Control(fields["package"], fields["version"], source, fields["architecture"])
