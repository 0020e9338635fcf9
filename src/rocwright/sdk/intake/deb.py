"""Debian packages as files: unpack each for itself, and turn what a distribution's packages brought into a
ROCm prefix that works by itself.

Files are moved, not copied. What the distribution's layout breaks is mended here: RPATHs, CMake files
that are one directory too deep, scripts that look for Perl modules on the system, the version file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.binary.elf import is_loadable, read_elf
from rocwright.binary.elf_edits import plan_rpath, plan_stack
from rocwright.binary.patch import BytePatch
from rocwright.errors import (
    CommandFailed,
    InvalidInput,
    InvalidPrefix,
    NoSpace,
    RocwrightError,
    see_who_may_read,
)
from rocwright.sdk.intake.distribution import Distribution, Placement, place
from rocwright.sdk.links import Providers, rpath_entries
from rocwright.system import process
from rocwright.system.files import atomic_directory, remove_tree, walk_files
from rocwright.system.parallel import in_order
from rocwright.system.progress import counted

LISTING = ".info/packages.json"
_CONTROL = "DEBIAN"


class Control(msgspec.Struct, frozen=True):
    """What a package says of itself; `source` is the name of the source package it was built from.

    `depends` names packages, one of each group; `provides` what else it counts as.
    """

    name: str
    version: str
    source: str
    architecture: str
    depends: tuple[tuple[str, ...], ...] = ()
    provides: tuple[str, ...] = ()


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
            count.add(deb.stat().st_size)

        with counted("unpacking", sum(deb.stat().st_size for deb in queue)) as count:
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
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror}", where=path, next_step=see_who_may_read(path)
        ) from error
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
    depends = tuple(tuple(map(_relation, group.split("|"))) for group in _listed(fields.get("depends")))
    provides = tuple(map(_relation, _listed(fields.get("provides"))))
    return Control(fields["package"], fields["version"], source, fields["architecture"], depends, provides)


def _listed(text: str | None) -> list[str]:
    return text.split(",") if text else []


def _relation(text: str) -> str:
    """The name alone: `perl:any (>= 5.36)` → `perl`."""
    return re.split(r"[\s:(]", text.strip(), maxsplit=1)[0]


class LaidOut(msgspec.Struct, frozen=True):
    """What laying out did: counts of files and links placed, left out, and of each kind of mend."""

    prefix: str
    rocm_version: str
    files: int
    links: int
    left_out: int
    rpaths: int
    cmake_files: int
    size: int


class _Source(msgspec.Struct, frozen=True):
    """Where a file that is to be moved lies, and its package."""

    place: Path
    package: Control


def lay_out(distribution: Distribution, unpacked: Path, prefix: Path) -> LaidOut:
    """Move the files of packages into a new prefix at `prefix`, mended; `unpacked` is used up.

    `unpacked` holds a directory for each package, as `unpack_each` makes them. The prefix lists in
    `.info/packages.json` which package each file comes from. It appears whole or not at all; an old one at
    the same place is replaced. Raises `InvalidPrefix` when two files belong at one place.
    """
    sources, placement = _decide(distribution, unpacked)
    with atomic_directory(prefix) as beside:
        _move(placement, sources, beside)
        cmake_files = sum(
            _mend_cmake(beside / new, old, distribution.triplet)
            for old, new in placement.files
            if new.endswith(".cmake")
        )
        _mend_perl(beside)
        _mend_enumerator(beside)
        _mend_hipcc(beside)
        for path, text in {".info/version": f"{distribution.rocm_version}\n", **distribution.files}.items():
            (beside / path).parent.mkdir(parents=True, exist_ok=True)
            (beside / path).write_text(text, encoding="utf-8")
        brought = ((sources[old].package, new) for old, new in placement.files)
        Listing.of(distribution.name, brought).write(beside)
        rpaths = _mend_elf(beside, [new for _, new in placement.files])
    remove_tree(unpacked)
    files = [file for file in walk_files(prefix) if not file.is_symlink()]
    return LaidOut(
        prefix=str(prefix),
        rocm_version=distribution.rocm_version,
        files=len(files),
        links=len(placement.links),
        left_out=placement.left_out,
        rpaths=rpaths,
        cmake_files=cmake_files,
        size=sum(file.stat().st_size for file in files),
    )


def _decide(distribution: Distribution, unpacked: Path) -> tuple[Mapping[str, _Source], Placement]:
    sources: dict[str, _Source] = {}
    links: dict[str, str] = {}
    for package in unpacked_packages(unpacked):
        for path, place_ in package.entries():
            if path in sources:
                both = f"{sources[path].package.name} and {package.control.name}"
                raise InvalidPrefix(
                    f"{path} is in two packages: {both}",
                    next_step="fetch the packages of one release again: rocwright sdk fetch DIR",
                )
            sources[path] = _Source(place_, package.control)
            if place_.is_symlink():
                links[path] = str(place_.readlink())
    files = sorted(path for path in sources if path not in links)
    return sources, place(distribution, files, links)


def _move(placement: Placement, sources: Mapping[str, _Source], prefix: Path) -> None:
    for old, new in placement.files:
        target = prefix / new
        target.parent.mkdir(parents=True, exist_ok=True)
        sources[old].place.rename(target)
    for here, text in placement.links:
        link = prefix / here
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(text)


# One directory up, whatever the file calls its prefix: _IMPORT_PREFIX, AMD_COMGR_PREFIX.
_PREFIX_STEP = re.compile(r'get_filename_component\((\w*PREFIX) "\$\{\1\}" PATH\)\n')

_CLIMBS_FOUR = re.compile(r'((?:PACKAGE_PREFIX_DIR|_IMPORT_PREFIX) "\$\{\w+\})/\.\./\.\./\.\./\.\.')


def mend_cmake_text(text: str, *, moved_up: bool, triplet: str) -> str:
    """CMake package text for lib/ instead of lib/<triplet>/.

    `moved_up` says that the file itself lay below lib/<triplet>/cmake, so that its way up to the prefix
    is one step shorter now.
    """
    text = text.replace(f"lib/{triplet}/amdgcn", "amdgcn").replace(f"lib/{triplet}", "lib")
    # HIP's package looks for the compiler's own libraries there when another compiler is in use.
    text = text.replace("set(ROCM_PATH /usr)", 'set(ROCM_PATH "${PACKAGE_PREFIX_DIR}")')
    text = text.replace("set(HIP_CLANG_ROOT /usr)", 'set(HIP_CLANG_ROOT "${PACKAGE_PREFIX_DIR}/llvm")')
    if moved_up:
        # Exported targets climb one directory a line; package files spell the way as ../../../..
        text = _PREFIX_STEP.sub("", text, count=1)
        text = _CLIMBS_FOUR.sub(r"\1/../../..", text)
    return text


def _mend_cmake(path: Path, old: str, triplet: str) -> bool:
    # Comments may be in any encoding; what is not UTF-8 goes through unchanged.
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    mended = mend_cmake_text(text, moved_up=f"lib/{triplet}/cmake/" in old, triplet=triplet)
    if mended == text:
        return False
    path.write_text(mended, encoding="utf-8", errors="surrogateescape")
    return True


def _mend_perl(prefix: Path) -> None:
    """Let Perl scripts find the modules that lie in the prefix."""
    if not (prefix / "share/perl5").is_dir():
        return
    for script in sorted((prefix / "bin").glob("roc-obj*")):
        first, newline, rest = script.read_bytes().partition(b"\n")
        if first.startswith(b"#!") and b"perl" in first and not script.is_symlink():
            wanted = b'use FindBin; use lib "$FindBin::RealBin/../share/perl5";\n'
            script.write_bytes(first + newline + wanted + rest)


_LINKS_HIP = b'${toolArgs} . " -lamdhip64 "'


def _mend_hipcc(prefix: Path) -> None:
    """Let programs find HIP's runtime, which is not on the system's search path any more."""
    script = prefix / "bin" / "hipcc.pl"
    if script.is_file() and not script.is_symlink():
        searching = b'${toolArgs} . " -Wl,-rpath,$HIP_LIB_PATH -lamdhip64 "'
        script.write_bytes(script.read_bytes().replace(_LINKS_HIP, searching))


_LISTS_NODES = b"sorted(os.listdir(topology_dir))"


def _mend_enumerator(prefix: Path) -> None:
    """ROCm 5.2's enumerator, which hipcc calls, ends in a traceback on a machine without the GPU driver."""
    script = prefix / "bin" / "rocm_agent_enumerator"
    if script.is_file() and not script.is_symlink():
        guarded = b"sorted(os.listdir(topology_dir) if os.path.isdir(topology_dir) else [])"
        script.write_bytes(script.read_bytes().replace(_LISTS_NODES, guarded))


def _mend_elf(prefix: Path, files: Iterable[str]) -> int:
    """Give ELF files the RPATH that finds their libraries, and an ordinary stack; how many RPATHs changed."""
    elves = {path: read_elf(prefix / path) for path in files if is_loadable(prefix / path)}
    providers = Providers.of((path, elf.soname) for path, elf in elves.items() if elf.soname is not None)
    edited = 0
    for path, elf in elves.items():
        patch = plan_rpath(elf, rpath_entries(path, elf, providers)) if elf.dynamic else None
        if patch is not None:
            _patch_own_file(prefix / path, patch)
            edited += 1
        # Read again: the table of program headers may have moved.
        stack = plan_stack(read_elf(prefix / path)) if elf.dynamic else None
        if stack is not None:
            _patch_own_file(prefix / path, stack)
    return edited


def _patch_own_file(path: Path, patch: BytePatch) -> None:
    """Apply a patch in place. Only for a file of the unfinished prefix: nobody else has it yet."""
    with path.open("r+b") as stream:
        stream.truncate(patch.size)
        for offset, data in patch.edits:
            stream.seek(offset)
            stream.write(data)
