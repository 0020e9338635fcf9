"""Steps from a distribution's packages, or any ROCm prefix, to ROCm's Python packages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from rocwright.engine.graph import Inputs, Note, Step
from rocwright.errors import IntegrityError, InvalidInput
from rocwright.pipeline.options import RunOptions
from rocwright.sdk.build import BuiltPackages, build_packages, make_packages
from rocwright.sdk.intake.deb import LaidOut, lay_out
from rocwright.sdk.intake.distribution import this_distribution
from rocwright.sdk.intake.fetch import Fetched, fetch, unpack
from rocwright.sdk.intake.forms import form_of, read_prefix
from rocwright.sdk.plan.release import Packaging
from rocwright.system.console import human_bytes
from rocwright.system.files import (
    content_digest,
    fingerprint,
    link_or_copy,
    make_directory,
    remove_tree,
    require_space,
    sha256_file,
    shipped_directory,
    walk_files,
)
from rocwright.system.http import Web
from rocwright.system.process import run

# What small packages with raw device code come to, and how much large ones, whose code is compressed, grow.
_PREFIX_SPACE, _GROWTH = 2_200_000_000, 4


class Pinned(msgspec.Struct, frozen=True):
    """What ROCm is made from, so that each machine takes the same: digests of packages or archives by file
    name, or the fingerprint of a prefix. `what` names it for people."""

    kind: str
    what: str
    files: dict[str, str]
    size: int


class PrefixReady(msgspec.Struct, frozen=True):
    """A ROCm prefix to package. `identity` changes whenever its content may have changed."""

    prefix: str
    identity: str
    size: int
    mended: str
    family: str | None
    version: str | None


def rocm_source_steps(options: RunOptions) -> list[Step]:
    """`rocm-fetch`, where ROCm comes from the distribution: what has to be on a machine to name it."""
    return [] if options.rocm_prefix is not None else [_fetch(options)]


def rocm_artifacts_step(options: RunOptions, needs: tuple[str, ...] = ()) -> Step:
    """`rocm-artifacts`: pins what ROCm is made from."""
    if options.rocm_prefix is not None:
        return _pinned_prefix(options, options.rocm_prefix, needs)

    def act(inputs: Inputs, note: Note) -> Pinned:
        fetched = inputs.get("rocm-fetch", Fetched)
        return Pinned("distribution", fetched.distribution, _digests(fetched), fetched.size)

    return Step(
        id="rocm-artifacts",
        result=Pinned,
        act=act,
        needs=(*needs, "rocm-fetch"),
        summary=lambda value: f"{value.what}: {len(value.files)} packages",
    )


def _pinned_prefix(options: RunOptions, prefix: Path, needs: tuple[str, ...]) -> Step:
    def act(_: Inputs, note: Note) -> Pinned:
        note("reading the prefix")
        found = read_prefix(prefix, version=options.rocm_version)
        return Pinned("prefix", f"{found.root}", {"": fingerprint(found.root)}, found.size)

    return Step(
        id="rocm-artifacts",
        result=Pinned,
        act=act,
        needs=needs,
        rooms=("sdk/intake/forms.py", "device_code", "binary"),
        facts=lambda: {"prefix": str(prefix), "fingerprint": fingerprint(prefix)},
        summary=lambda value: f"{value.what}: {human_bytes(value.size)}",
    )


def prefix_step(options: RunOptions) -> Step:
    """`rocm-prefix`: the pinned packages unpacked and laid out, or the given prefix as it is."""
    if options.rocm_prefix is not None:
        return _given_prefix(options, options.rocm_prefix)
    return _prefix(options)


def _fetch(options: RunOptions) -> Step:
    def act(_: Inputs, note: Note) -> Fetched:
        cache = options.cache / "packages"
        log = options.workspace.log("rocm-fetch")
        return fetch(this_distribution(), cache, log=log, refresh=options.refresh, note=note)

    def summary(value: Fetched) -> str:
        return f"{value.distribution}: {len(value.packages)} packages, {human_bytes(value.size)}"

    return Step(
        id="rocm-fetch",
        result=Fetched,
        act=act,
        rooms=("sdk/intake/fetch.py", "data/distributions.toml"),
        facts=lambda: {"cache": str(options.cache), "refresh": options.refresh},
        outputs=lambda value: tuple(Path(value.directory) / package.file for package in value.packages),
        summary=summary,
    )


def _prefix(options: RunOptions) -> Step:
    workspace = options.workspace

    def act(inputs: Inputs, note: Note) -> PrefixReady:
        fetched = inputs.get("rocm-fetch", Fetched)
        require_pinned(inputs.get("rocm-artifacts", Pinned), _digests(fetched), "rocm-fetch")
        distribution = this_distribution()
        unpacked = workspace.root / "unpacked"
        remove_tree(workspace.prefix)
        require_space(workspace.root, max(_PREFIX_SPACE, fetched.size * _GROWTH), purpose="the unpacked ROCm")
        note("unpacking")
        unpack(fetched, unpacked, log=workspace.log("rocm-prefix"), threads=options.jobs)
        note("laying out")
        laid: LaidOut = lay_out(distribution, unpacked, workspace.prefix)
        return PrefixReady(
            prefix=laid.prefix,
            identity=_identity(fetched),
            size=laid.size,
            mended=f"{laid.files} files, {laid.rpaths} RPATHs and {laid.cmake_files} CMake files fixed",
            family=options.family or distribution.family,
            version=options.rocm_version or distribution.rocm_version,
        )

    return Step(
        id="rocm-prefix",
        result=PrefixReady,
        act=act,
        needs=("rocm-fetch", "rocm-artifacts"),
        rooms=("sdk", "device_code", "binary", "data/distributions.toml"),
        facts=lambda: {"family": options.family, "version": options.rocm_version},
        outputs=lambda value: (Path(value.prefix),),
        summary=lambda value: f"{human_bytes(value.size)}, {value.mended}",
    )


def require_pinned(pinned: Pinned, here: dict[str, str], where: str) -> None:
    """Raise `IntegrityError` unless what this machine has is what was pinned for the run."""
    if pinned.files == here:
        return
    differ = sorted(
        name or "the prefix" for name in {*pinned.files, *here} if pinned.files.get(name) != here.get(name)
    )
    raise IntegrityError(
        f"this machine has another ROCm than the run started with: {', '.join(differ[:4])}",
        where=where,
        next_step="start another run, or give each machine the same packages of the distribution",
    )


def _digests(fetched: Fetched) -> dict[str, str]:
    return {package.file: package.sha256 for package in fetched.packages}


def _identity(fetched: Fetched) -> str:
    return " ".join(package.sha256[:16] for package in fetched.packages)


def _given_prefix(options: RunOptions, prefix: Path) -> Step:
    def act(inputs: Inputs, note: Note) -> PrefixReady:
        pinned = inputs.get("rocm-artifacts", Pinned)
        require_pinned(pinned, {"": fingerprint(prefix.resolve())}, str(prefix))
        found = read_prefix(prefix, version=options.rocm_version)
        return PrefixReady(
            prefix=str(found.root),
            identity=pinned.files[""],
            size=found.size,
            mended=f"{len(found.host.files)} files, used as it is",
            family=options.family,
            version=found.version,
        )

    return Step(
        id="rocm-prefix",
        result=PrefixReady,
        act=act,
        needs=("rocm-artifacts",),
        rooms=("sdk/intake/forms.py", "device_code", "binary"),
        facts=lambda: {
            "prefix": str(prefix),
            "fingerprint": fingerprint(prefix),
            "version": options.rocm_version,
        },
        summary=lambda value: f"{value.prefix}: {human_bytes(value.size)}, {value.mended}",
    )


def rocm_packages_step(options: RunOptions, needs: tuple[str, ...] = ()) -> Step:
    """`rocm-packages`: the prefix as Python packages."""
    workspace = options.workspace

    def act(inputs: Inputs, note: Note) -> BuiltPackages:
        ready = inputs.get("rocm-prefix", PrefixReady)
        require_space(workspace.root, ready.size // 3, purpose="the ROCm wheels")
        note("reading the prefix")
        prefix = read_prefix(Path(ready.prefix), version=ready.version)
        packaging = Packaging(
            family=None if prefix.split else ready.family, other_family=options.group or None
        )
        return build_packages(prefix, workspace.rocm_wheels, packaging, threads=options.jobs, note=note)

    return packages_step(options, act, (*needs, "rocm-prefix"))


def packages_step(
    options: RunOptions, act: Callable[[Inputs, Note], BuiltPackages], needs: tuple[str, ...]
) -> Step:
    """`rocm-packages`, whatever they are made of."""
    return Step(
        id="rocm-packages",
        result=BuiltPackages,
        act=act,
        needs=needs,
        rooms=("sdk", "device_code", "binary", "wheel", "data"),
        facts=lambda: {"runtime": runtime_digest(), "version": options.rocm_version},
        outputs=lambda value: value.digests,
        summary=packages_summary,
    )


def packages_summary(value: BuiltPackages) -> str:
    """Names, sizes and targets of ROCm's packages."""
    names = ", ".join(sorted(file.name.split("-")[0] for file in value.files))
    size = human_bytes(sum(file.size for file in value.files))
    return f"{names}: {size}, targets {' '.join(value.targets)}"


def runtime_digest() -> str:
    """Digest of the sources that ship inside the ROCm packages."""
    return content_digest(shipped_directory("runtime"))


# -- brought from elsewhere: a tarball, or what a command makes


def tarball_step(options: RunOptions, needs: tuple[str, ...] = ()) -> Step:
    """`rocm-artifacts` of a tarball: fetched, or taken from where it lies on this machine, for all others."""
    at = options.rocm.at
    place = options.workspace.root / "tarball" / at.rpartition("/")[2]

    def act(_: Inputs, note: Note) -> Pinned:
        remove_tree(place.parent)
        make_directory(place.parent)
        if "://" in at:
            note(f"fetching {place.name}")
            with Web() as web:
                digest = web.save(web.enter(at), place)
        else:
            digest = _copied(Path(at), place)
        return Pinned("tarball", place.name, {place.name: digest}, place.stat().st_size)

    return Step(
        id="rocm-artifacts",
        result=Pinned,
        act=act,
        needs=needs,
        rooms=("system/http.py",),
        facts=lambda: {"tarball": at},
        reads=lambda: () if "://" in at else (Path(at),),
        outputs=lambda value: {place: value.files[place.name]},
        summary=lambda value: f"{value.what}: {human_bytes(value.size)}",
    )


def _copied(source: Path, place: Path) -> str:
    if not source.is_file():
        raise InvalidInput(
            f"{source} is not a file",
            where=source,
            next_step="name a tarball of ROCm: --rocm tarball:FILE",
        )
    link_or_copy(source, place)
    return sha256_file(place)


def command_step(options: RunOptions, needs: tuple[str, ...] = ()) -> Step:
    """`rocm-artifacts` that a command makes: an installation or artifacts, in a directory that it is told."""
    place = options.workspace.root / "rocm-made"

    def act(_: Inputs, note: Note) -> Pinned:
        remove_tree(place)
        make_directory(place)
        note("running the command")
        run(
            ["cmd", "/c", options.rocm.at] if sys.platform == "win32" else ["sh", "-c", options.rocm.at],
            env={
                "ROCWRIGHT_ROCM_DIR": str(place),
                "ROCWRIGHT_ROCM_TARGETS": ";".join(options.targets),
                "ROCWRIGHT_ROCM_FAMILIES": ";".join(options.families),
                "ROCWRIGHT_ROCM_JOBS": str(options.jobs),
            },
            log=options.workspace.log("rocm-artifacts"),
            next_step="mend the command of --rocm command:…, then run again",
        )
        if not any(place.iterdir()):
            raise InvalidInput(
                "the command ended well and left nothing in $ROCWRIGHT_ROCM_DIR",
                where=place,
                next_step="let it install ROCm, or put its artifacts, there",
            )
        size = sum(path.stat().st_size for path in walk_files(place))
        return Pinned("command", options.rocm.at, {"": fingerprint(place)}, size)

    return Step(
        id="rocm-artifacts",
        result=Pinned,
        act=act,
        needs=needs,
        facts=lambda: {"command": options.rocm.at, "targets": options.targets, "families": options.families},
        outputs=lambda _: (place,),
        summary=lambda value: f"made by {value.what}: {human_bytes(value.size)}",
    )


def brought_packages_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`rocm-packages` of a tarball, or of what a command made."""
    workspace = options.workspace

    def act(inputs: Inputs, note: Note) -> BuiltPackages:
        pinned = inputs.get("rocm-artifacts", Pinned)
        made = workspace.root / "rocm-made"
        brought = made if pinned.kind == "command" else workspace.root / "tarball" / pinned.what
        return make_packages(
            form_of([brought]),
            workspace.rocm_wheels,
            Packaging(other_family=options.group or None),
            version=options.rocm_version,
            overlay=options.overlay,
            threads=options.jobs,
            note=note,
        ).built

    return packages_step(options, act, needs)
