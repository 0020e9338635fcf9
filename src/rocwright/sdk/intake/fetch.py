"""Fetch a distribution's ROCm packages with its own client, as any user, without touching the system.

apt gets a private state and cache directory; only the machine's list of sources is read. Packages are
kept in a cache with their sha256, so a second run needs no network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from rocwright.errors import CommandFailed, IntegrityError, InvalidData, MissingTool, Unreachable
from rocwright.sdk.intake.deb import unpack_each
from rocwright.sdk.intake.distribution import Distribution
from rocwright.system import process
from rocwright.system.files import atomic_directory, remove_tree, verify_sha256, write_text

# 'URI' file-name size HASH:digest
_URI = re.compile(r"^'[^']+' (?P<file>\S+) (?P<size>\d+) (?P<hash>\S*)\s*$")
_MANIFEST = "packages.json"


class Package(msgspec.Struct, frozen=True):
    """One package file of the cache; `sha256` comes from the distribution's signed index."""

    file: str
    size: int
    sha256: str


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
    `MissingTool` without apt, `Unreachable` when a mirror does not answer or lacks a package,
    `IntegrityError` when a file differs from the sha256 in the distribution's signed index.
    """
    directory = cache / distribution.name
    packages = fetch_packages(distribution.packages, directory, log=log, refresh=refresh, note=note)
    return Fetched(
        distribution=f"{distribution.id} {distribution.version_id}",
        rocm_version=distribution.rocm_version,
        directory=str(directory / "debs"),
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
    """Bring any packages of the distribution into `directory`/debs, verified; raises as `fetch`."""
    manifest = directory / _MANIFEST
    packages = _read_manifest(manifest) if manifest.exists() and not refresh else ()
    # A list made for another table of packages is no list for this one.
    if {_name(package.file) for package in packages} != set(names):
        note("asking apt for versions")
        packages = _resolve(names, directory, log)
    _download(packages, directory / "debs", directory, log, note)
    write_text(manifest, msgspec.json.format(msgspec.json.encode(packages), indent=1).decode() + "\n")
    return packages


def _read_manifest(path: Path) -> tuple[Package, ...]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=tuple[Package, ...])
    except msgspec.DecodeError as error:
        raise InvalidData(
            f"the package cache's list is damaged: {error}",
            where=path,
            next_step=f"delete {path} and run again",
        ) from error


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


def _apt(arguments: Sequence[str], state: Path, *, cwd: Path, log: Path, next_step: str) -> process.Completed:
    try:
        apt = process.find_program("apt-get", purpose="fetch ROCm from the distribution", package="apt")
    except MissingTool as error:
        raise MissingTool(
            error.what, next_step="give any ROCm installation with --rocm-prefix DIR instead"
        ) from error
    try:
        return process.run(
            [str(apt), *apt_options(state), *arguments],
            cwd=cwd,
            log=log,
            env={"LC_ALL": "C"},
            drop_env=["LANGUAGE"],
        )
    except CommandFailed as error:
        raise Unreachable(
            f"apt-get {arguments[0]} failed: {_reason(error.tail)}", where=log, next_step=next_step
        ) from error


def _reason(tail: str) -> str:
    wrong = [line for line in tail.splitlines() if line.startswith("E:")]
    return (wrong or tail.splitlines() or ["no output"])[-1]


def _resolve(names: Sequence[str], directory: Path, log: Path) -> tuple[Package, ...]:
    state = directory / "apt"
    directory.mkdir(parents=True, exist_ok=True)
    retry = "check the network and /etc/apt/sources.list*, then run again; or give --rocm-prefix DIR"
    _apt(["update"], state, cwd=directory, log=log, next_step=retry)
    listed = _apt(["--print-uris", "download", *names], state, cwd=directory, log=log, next_step=retry)
    packages: list[Package] = []
    for line in listed.stdout.splitlines():
        match = _URI.match(line)
        if match is None:
            continue
        kind, _, digest = match["hash"].partition(":")
        if kind != "SHA256":
            raise IntegrityError(
                f"the package index gives no sha256 for {match['file']}",
                next_step="use an index that is signed with SHA256",
            )
        packages.append(Package(match["file"], int(match["size"]), digest))
    if len(packages) != len(names):
        raise Unreachable(
            f"apt names {len(packages)} files for {len(names)} packages",
            where=log,
            next_step=retry,
        )
    return tuple(sorted(packages, key=lambda package: package.file))


def _download(
    packages: Sequence[Package], debs: Path, directory: Path, log: Path, note: Callable[[str], None]
) -> None:
    for package in packages:
        have = debs / package.file
        if have.exists():
            verify_sha256(have, package.sha256)
    missing = [package for package in packages if not (debs / package.file).exists()]
    if not missing:
        return
    # Downloaded beside and moved one by one after the check, so an interrupted download is never
    # taken for a package, and what is complete is not fetched twice.
    landing = directory / "debs.partial"
    remove_tree(landing)
    landing.mkdir(parents=True)
    debs.mkdir(parents=True, exist_ok=True)
    note(f"downloading {len(missing)} packages")
    names = [f"{_name(package.file)}={_version(package.file)}" for package in missing]
    _apt(
        ["download", *names],
        directory / "apt",
        cwd=landing,
        log=log,
        next_step="the mirror may have moved on: run again with --refresh; or give --rocm-prefix DIR",
    )
    for package in missing:
        arrived = landing / package.file
        if not arrived.exists():
            raise Unreachable(
                f"apt-get did not download {package.file}",
                where=log,
                next_step="see that log for the reason, then run again",
            )
        verify_sha256(arrived, package.sha256)
        arrived.replace(debs / package.file)
    remove_tree(landing)


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
