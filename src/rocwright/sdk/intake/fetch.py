"""Fetch a distribution's ROCm packages with its own client, as any user, without touching the system.

apt gets a private state and cache directory; only the machine's list of sources is read, or for another
distribution than the machine's that of the table. What a machine has itself counts as installed there, so
that apt tells what else a ROCm needs. Packages are kept in a cache with their sha256, so a second run needs
no network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from rocwright.errors import CommandFailed, IntegrityError, InvalidData, MissingTool, Unreachable
from rocwright.sdk.intake.deb import unpack_each
from rocwright.sdk.intake.distribution import Distribution, this_machine, upstream
from rocwright.system import process
from rocwright.system.console import human_bytes
from rocwright.system.files import atomic_directory, remove_tree, require_space, verify_sha256, write_text

# 'URI' file-name size HASH:digest
_URI = re.compile(r"^'[^']+' (?P<file>\S+) (?P<size>\d+) (?P<hash>\S*)\s*$")
_RESOLVED = "resolved.json"
# The package whose version is that of a distribution's ROCm.
_HIP = "libamdhip64-dev"
_RETRY = "check the network and /etc/apt/sources.list*, then run again; or give --rocm-prefix DIR"
# Of a package that a machine has itself: newer than whatever is asked for.
_INSTALLED = """\
Package: {name}
Status: install ok installed
Version: 9999:1
Architecture: amd64
Multi-Arch: allowed
Maintainer: nobody
Description: a machine has it

"""
# Of all versions that the sources have, those of this ROCm.
_PREFERENCES = "Package: /./\nPin: version {version}*\nPin-Priority: 990\n"


class Package(msgspec.Struct, frozen=True):
    """One package file of the cache; `sha256` comes from the distribution's signed index."""

    file: str
    size: int
    sha256: str


class _Resolved(msgspec.Struct, frozen=True):
    """What was asked for, and the package files that it comes to."""

    asked: tuple[str, ...]
    packages: tuple[Package, ...]


class Fetched(msgspec.Struct, frozen=True):
    """The packages that make up a ROCm, and where they lie."""

    distribution: str
    rocm_version: str
    directory: str
    packages: tuple[Package, ...]

    @property
    def size(self) -> int:
        """Bytes of all package files."""
        return sum(package.size for package in self.packages)


def fetch(
    distribution: Distribution,
    cache: Path,
    *,
    log: Path,
    refresh: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> Fetched:
    """Bring the distribution's ROCm packages into `cache` and verify every one.

    A complete cache is used without asking the network; `refresh` asks for newer versions. Raises
    `MissingTool` without apt or the distribution's keys, `Unreachable` when a mirror does not answer, lacks a
    package or has another ROCm by now, `IntegrityError` when a file differs from the sha256 in the
    distribution's signed index.
    """
    machine, _ = this_machine()
    # A machine's own list has the suites of its release, from its own mirror; one more has to be named.
    foreign = (
        distribution.apt_sources if machine != distribution.name or len(distribution.apt_sources) > 1 else ()
    )
    world = _World(cache / distribution.name, log, distribution, foreign)
    packages = world.bring(
        (*distribution.packages, *foreign, distribution.rocm_version, "without", *distribution.system),
        lambda: _of_rocm(distribution, world),
        refresh,
        note,
    )
    return Fetched(
        distribution=f"{distribution.id} {distribution.version_id}",
        rocm_version=distribution.rocm_version,
        directory=str(world.debs),
        packages=packages,
    )


def fetch_packages(
    names: Sequence[str],
    directory: Path,
    *,
    log: Path,
    refresh: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> tuple[Package, ...]:
    """Bring these packages of the machine's distribution into `directory`/debs, verified; raises as `fetch`.

    Nothing of what they depend on comes with them.
    """
    world = _World(directory, log)

    return world.bring(names, lambda: world.files(names), refresh, note)


def _of_rocm(distribution: Distribution, world: _World) -> tuple[Package, ...]:
    """The distribution's packages and what they depend on."""
    # Of what it would install apt tells names and versions, of what it would download the sha256, too.
    found = {_name(file): _version(file) for file in world.listed("install", *distribution.packages)}
    missing = sorted(set(distribution.packages) - set(found))
    if missing:
        raise Unreachable(f"apt names no file for {', '.join(missing)}", where=world.log, next_step=_RETRY)
    hip = found.get(_HIP)
    if hip is not None and upstream(hip) != distribution.rocm_version:
        raise Unreachable(
            f"{distribution.name} no longer has ROCm {distribution.rocm_version}: its {_HIP} is {hip}",
            where=world.log,
            next_step="write a row of [[distributions.distribution]] for what it has into rocwright.toml, "
            "or give any ROCm installation with --rocm-prefix DIR",
        )
    return world.files(f"{name}={version}" for name, version in found.items())


def apt_options(state: Path) -> list[str]:
    """Options that give apt a private world below `state`; the machine's sources and keys stay in use."""
    status = state / "status"
    for part in ("state/lists/partial", "cache/archives/partial"):
        (state / part).mkdir(parents=True, exist_ok=True)
    status.touch()
    settings = {
        "Dir::State": state / "state",
        "Dir::State::status": status,
        "Dir::Cache": state / "cache",
        "Debug::NoLocking": 1,
        # No switch to the user _apt, which cannot read a private directory.
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
        "Acquire::Retries": 3,
        "Acquire::http::Timeout": 30,
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


class _World(msgspec.Struct, frozen=True):
    """apt in a private world below `directory`, whose downloads lie in `debs`.

    For a `distribution` its `system` is installed there, and its version of ROCm comes before others.
    """

    directory: Path
    log: Path
    distribution: Distribution | None = None
    sources: tuple[str, ...] = ()

    @property
    def debs(self) -> Path:
        return self.directory / "debs"

    def options(self) -> list[str]:
        state = self.directory / "apt"
        options = apt_options(state)
        if self.distribution is None:
            return options
        installed = (_INSTALLED.format(name=name) for name in self.distribution.system)
        write_text(state / "status", "".join(installed))
        version = self.distribution.rocm_version
        write_text(state / "preferences", _PREFERENCES.format(version=version))
        etc = {"preferences": state / "preferences", "preferencesparts": "/dev/null"}
        if self.sources:
            write_text(state / "sources.list", "\n".join(self.sources) + "\n")
            etc |= {"sourcelist": state / "sources.list", "sourceparts": "/dev/null"}
        return options + [word for key, value in etc.items() for word in ("-o", f"Dir::Etc::{key}={value}")]

    def run(self, *arguments: str, cwd: Path, next_step: str) -> str:
        try:
            apt = process.find_program("apt-get", purpose="fetch ROCm from the distribution", package="apt")
        except MissingTool as error:
            raise MissingTool(
                error.what, next_step="give any ROCm installation with --rocm-prefix DIR instead"
            ) from error
        try:
            done = process.run(
                [str(apt), *self.options(), *arguments],
                cwd=cwd,
                log=self.log,
                env={"LC_ALL": "C"},
                drop_env=["LANGUAGE"],
            )
        except CommandFailed as error:
            raise Unreachable(
                f"apt-get {arguments[0]} failed: {_reason(error.tail)}", where=self.log, next_step=next_step
            ) from error
        return done.stdout

    def update(self) -> None:
        """Have apt read the newest lists."""
        self.directory.mkdir(parents=True, exist_ok=True)
        _require_keys(self.sources)
        self.run("update", cwd=self.directory, next_step=_RETRY)

    def listed(self, command: str, *names: str) -> dict[str, re.Match[str]]:
        """What apt says of each file that it would bring for a command, by file name."""
        words = ("--print-uris", "--no-install-recommends", command, *names)
        told = self.run(*words, cwd=self.directory, next_step=_RETRY)
        return {match["file"]: match for match in map(_URI.match, told.splitlines()) if match}

    def files(self, names: Iterable[str]) -> tuple[Package, ...]:
        """The package file of each name, which may say a version: `NAME=VERSION`."""
        asked = tuple(names)
        packages: list[Package] = []
        for file, match in sorted(self.listed("download", *asked).items()):
            kind, _, digest = match["hash"].partition(":")
            if kind != "SHA256":
                raise IntegrityError(
                    f"the package index gives no sha256 for {file}",
                    next_step="use an index that is signed with SHA256",
                )
            packages.append(Package(file, int(match["size"]), digest))
        if len(packages) != len(asked):
            raise Unreachable(
                f"apt names {len(packages)} files for {len(asked)} packages",
                where=self.log,
                next_step=_RETRY,
            )
        return tuple(packages)

    def bring(
        self,
        asked: Sequence[str],
        resolve: Callable[[], tuple[Package, ...]],
        refresh: bool,
        note: Callable[[str], None],
    ) -> tuple[Package, ...]:
        """The packages for what is asked for: those of the cache's list for it, or what `resolve` finds."""
        kept = self.directory / _RESOLVED
        resolved = _read_resolved(kept) if kept.exists() and not refresh else None
        if resolved is None or resolved.asked != tuple(asked):
            note("asking apt for versions")
            self.update()
            resolved = _Resolved(tuple(asked), resolve())
        self._download(resolved.packages, note)
        write_text(kept, msgspec.json.format(msgspec.json.encode(resolved), indent=1).decode() + "\n")
        return resolved.packages

    def _download(self, packages: Sequence[Package], note: Callable[[str], None]) -> None:
        for package in packages:
            have = self.debs / package.file
            if have.exists():
                verify_sha256(have, package.sha256)
        missing = [package for package in packages if not (self.debs / package.file).exists()]
        if not missing:
            return
        size = sum(package.size for package in missing)
        require_space(self.directory, size, purpose="the package cache")
        # Downloaded beside and moved one by one after the check, so an interrupted download is never
        # taken for a package, and what is complete is not fetched twice.
        landing = self.directory / "debs.partial"
        remove_tree(landing)
        landing.mkdir(parents=True)
        self.debs.mkdir(parents=True, exist_ok=True)
        note(f"downloading {len(missing)} packages, {human_bytes(size)}")
        self.run(
            "download",
            *(f"{_name(package.file)}={_version(package.file)}" for package in missing),
            cwd=landing,
            next_step="the mirror may have moved on: run again with --refresh; or give --rocm-prefix DIR",
        )
        for package in missing:
            arrived = landing / package.file
            if not arrived.exists():
                raise Unreachable(
                    f"apt-get did not download {package.file}",
                    where=self.log,
                    next_step="see that log for the reason, then run again",
                )
            verify_sha256(arrived, package.sha256)
            arrived.replace(self.debs / package.file)
        remove_tree(landing)


def _require_keys(sources: Sequence[str]) -> None:
    """Raise `MissingTool` for keys that lines of apt's sources name and this machine lacks."""
    for line in sources:
        for key in re.findall(r"signed-by=([^\s\]]+)", line):
            if not Path(key).exists():
                raise MissingTool(
                    f"{key} is not there: the keys that sign the other distribution's packages",
                    next_step="install them (of Debian: the package debian-archive-keyring) and run again",
                )


def _reason(tail: str) -> str:
    wrong = [line for line in tail.splitlines() if line.startswith("E:")]
    return (wrong or tail.splitlines() or ["no output"])[-1]


def _read_resolved(path: Path) -> _Resolved:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Resolved)
    except msgspec.DecodeError as error:
        raise InvalidData(
            f"the package cache's list is damaged: {error}",
            where=path,
            next_step=f"delete {path} and run again",
        ) from error


def _name(file: str) -> str:
    return file.split("_", 1)[0]


def _version(file: str) -> str:
    # An epoch's colon is written %3a in file names.
    return file.split("_", 2)[1].replace("%3a", ":")


def unpack(fetched: Fetched, target: Path, *, log: Path, threads: int = 2) -> None:
    """Unpack all packages into the new directory `target`, each into one of its own, all or nothing."""
    directory = Path(fetched.directory)
    unpack_each([directory / package.file for package in fetched.packages], target, log=log, threads=threads)


def unpack_packages(
    packages: Sequence[Package], directory: Path, target: Path, *, log: Path, threads: int = 2
) -> None:
    """Unpack packages that lie in `directory` over each other into the new `target`, all or nothing."""
    process.find_program("dpkg-deb", purpose="unpack Debian packages", package="dpkg")
    # The largest first: one package holds most of the bytes and would otherwise be started last.
    queue = sorted(packages, key=lambda package: -package.size)
    with atomic_directory(target) as beside, ThreadPoolExecutor(max_workers=threads) as pool:

        def one(package: Package) -> None:
            process.run(["dpkg-deb", "--extract", str(directory / package.file), str(beside)], log=log)

        for done in [pool.submit(one, package) for package in queue]:
            done.result()
