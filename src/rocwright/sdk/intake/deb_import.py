"""A directory of Debian packages in, a ROCm prefix out: the distribution's own packages, or AMD's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from rocwright.data.overlay import Overlay
from rocwright.errors import InvalidInput, InvalidPrefix
from rocwright.sdk.intake.deb import Control, Listing, Unpacked, lay_out, unpack_each, unpacked_packages
from rocwright.sdk.intake.distribution import Distribution, distributions, upstream
from rocwright.sdk.links import relative_link
from rocwright.system.files import atomic_directory, remove_tree, require_space

# AMD's packages install below a directory of their own.
_OWN = re.compile(r"opt/(rocm[^/]*)/(.+)")
_RUNTIME = re.compile(r"(.*/)?libamdhip64\.so[^/]*")
# Packages are compressed; they need at least this much more room than themselves.
LEAST_GROWTH = 2


class PrefixOfPackages(msgspec.Struct, frozen=True):
    """A prefix made of packages; `origin` is `debian-12`, or `rocm-6.2.0` for AMD's own.

    `left_out` names the packages that brought nothing to it, `missing` those of the distribution's ROCm, and
    those that these depend on, that were not there.
    """

    prefix: str
    origin: str
    packages: int
    left_out: tuple[str, ...]
    missing: tuple[str, ...]


def holds_packages(directory: Path) -> bool:
    """Whether packages of a Linux distribution lie in the directory."""
    return directory.is_dir() and any(entry.suffix in (".deb", ".rpm") for entry in directory.iterdir())


def unpack_packages(
    directory: Path,
    prefix: Path,
    *,
    log: Path | None = None,
    threads: int = 2,
    overlay: Overlay | None = None,
) -> PrefixOfPackages:
    """Make a ROCm prefix of the `*.deb` in `directory`; it appears whole or not at all.

    AMD's packages install below `opt/rocm-X.Y.Z`, which becomes the prefix. Those of a distribution are laid
    out by its table, or by a row of `overlay`. An old `prefix` is replaced.

    Raises `MissingTool` without dpkg-deb; `InvalidInput` for a damaged package, none at all, RPM packages,
    two of one name, several architectures, packages of no known distribution; `InvalidPrefix` for packages of
    two ROCms or one file in two packages.
    """
    debs = _debs(directory)
    require_space(
        prefix.absolute(),
        sum(deb.stat().st_size for deb in debs) * LEAST_GROWTH,
        purpose=f"unpacking {len(debs)} packages",
    )
    unpacked = prefix.with_name(prefix.name + ".unpacked")
    try:
        unpack_each(debs, unpacked, log=log, threads=threads)
        packages = unpacked_packages(unpacked)
        _require_one_of_each(packages, directory)
        name = _own_directory(packages, directory)
        if name is not None:
            _merge(packages, name, prefix)
            missing: set[str] = set()
        else:
            row = _distribution(packages, directory, overlay)
            part, missing = _part_of(row, [package.control for package in packages])
            for package in packages:
                if package.control.name not in part:
                    remove_tree(package.root)
            lay_out(row, unpacked, prefix)
    finally:
        remove_tree(unpacked)
    listing = Listing.read(prefix)
    given = {package.control.name for package in packages}
    return PrefixOfPackages(
        prefix=str(prefix),
        origin=listing.distribution,
        packages=len(debs),
        left_out=tuple(sorted(given - {package.name for package in listing.packages})),
        missing=tuple(sorted(missing)),
    )


def _debs(directory: Path) -> list[Path]:
    found = sorted(directory.glob("*.deb"))
    rpms = sorted(directory.glob("*.rpm"))
    if rpms:
        raise InvalidInput(
            f"{rpms[0].name} is an RPM package; only Debian packages can be unpacked here",
            where=directory,
            next_step="unpack RPM packages with rpm2cpio and give the directory that holds bin/ and lib/",
        )
    if not found:
        raise InvalidInput(
            "there is no *.deb", where=directory, next_step="give a directory with Debian packages of ROCm"
        )
    return found


def _require_one_of_each(packages: Sequence[Unpacked], directory: Path) -> None:
    seen: dict[str, Control] = {}
    for control in (package.control for package in packages):
        other = seen.setdefault(control.name, control)
        if other is not control:
            raise InvalidInput(
                f"{control.name} is there twice: {other.version} and {control.version}",
                where=directory,
                next_step="keep one of them",
            )
    machines = sorted({control.architecture for control in seen.values()} - {"all"})
    if len(machines) > 1:
        raise InvalidInput(f"the packages are for several machines: {', '.join(machines)}", where=directory)


def _own_directory(packages: Iterable[Unpacked], directory: Path) -> str | None:
    """The name of AMD's directory below opt/, or None where the packages are a distribution's."""
    own: dict[str, str] = {}
    elsewhere: dict[str, str] = {}
    for package in packages:
        for path, _ in package.entries():
            match = _OWN.fullmatch(path)
            if match is not None:
                own.setdefault(match[1], package.control.name)
            elif _RUNTIME.fullmatch(path):
                elsewhere.setdefault(path, package.control.name)
    if len(own) > 1 or (own and elsewhere):
        places = [f"opt/{name} ({package})" for name, package in sorted(own.items())]
        places += [f"{path} ({package})" for path, package in elsewhere.items()]
        raise InvalidPrefix(
            f"the packages are of more than one ROCm: {', '.join(places)}",
            where=directory,
            next_step="keep the packages of one",
        )
    return next(iter(own), None)


def _merge(packages: Iterable[Unpacked], name: str, prefix: Path) -> None:
    """Move everything below opt/<name> of all packages into the prefix."""
    owners: dict[str, Control] = {}
    with atomic_directory(prefix) as beside:
        for package in packages:
            for path, place in package.entries():
                match = _OWN.fullmatch(path)
                if match is None:
                    continue
                here = match[2]
                if here in owners:
                    both = f"{owners[here].name} and {package.control.name}"
                    raise InvalidPrefix(
                        f"{path} is in two packages: {both}",
                        next_step="fetch the packages of one release again: rocwright sdk fetch DIR",
                    )
                owners[here] = package.control
                target = beside / here
                target.parent.mkdir(parents=True, exist_ok=True)
                _move(place, target, here, name)
        Listing.of(name, ((control, path) for path, control in owners.items())).write(beside)


def _move(place: Path, target: Path, here: str, name: str) -> None:
    text = str(place.readlink()) if place.is_symlink() else ""
    if text.startswith(f"/opt/{name}/"):
        # Right only where the packages are installed; below the prefix it has to be a way within it.
        target.symlink_to(relative_link(here, text.removeprefix(f"/opt/{name}/")))
    else:
        place.rename(target)


def _distribution(packages: Iterable[Unpacked], directory: Path, overlay: Overlay | None) -> Distribution:
    """The one whose ROCm has the version of most of these."""
    shipped = [upstream(package.control.version) for package in packages]
    scores = [(shipped.count(row.rocm_version), row) for row in distributions(overlay)]
    score, best = max(scores, key=lambda item: item[0])
    if not score:
        known = ", ".join(f"{row.id} {row.version_id} with ROCm {row.rocm_version}" for _, row in scores)
        raise InvalidInput(
            f"these are not ROCm packages of AMD, nor of a known distribution ({known})",
            where=directory,
            next_step="install them and give the directory that holds bin/, include/ and lib/, or write "
            "[[distributions.distribution]] for them into rocwright.toml",
        )
    return best


def _part_of(row: Distribution, given: Iterable[Control]) -> tuple[set[str], set[str]]:
    """Names of those given that are a part of the distribution's ROCm, and of those that are missing.

    A machine's own packages are none, the C library least of all, nor is what only they need.
    """
    by_name = {control.name: control for control in given}
    provided = {name for control in by_name.values() for name in control.provides}.union(row.system)
    needed = {name for control in by_name.values() for group in control.depends for name in group}
    queue = [name for name in by_name if name in row.packages or name not in needed]
    part: set[str] = set()
    missing = set(row.packages) - set(by_name)
    while queue:
        name = queue.pop()
        if name in part or name in row.system:
            continue
        part.add(name)
        for group in by_name[name].depends:
            found = [one for one in group if one in by_name]
            queue += found
            if not found and provided.isdisjoint(group):
                missing.add(group[0])
    return part, missing
