"""Steps from a distribution's packages, or any ROCm prefix, to ROCm's Python packages."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rocwright.pipeline.graph import Inputs, Note, Step
from rocwright.pipeline.options import RunOptions
from rocwright.sdk.build import BuiltPackages, build_packages
from rocwright.sdk.intake.distribution import Distribution, this_distribution
from rocwright.sdk.intake.fetch import Fetched, fetch, unpack
from rocwright.sdk.intake.layout import LaidOut, lay_out
from rocwright.sdk.intake.prefix import read_prefix
from rocwright.sdk.plan.release import Packaging
from rocwright.system.console import human_bytes
from rocwright.system.files import (
    content_digest,
    fingerprint,
    remove_tree,
    require_space,
    shipped_directory,
)

_PREFIX_SPACE = 2_200_000_000


class PrefixReady(msgspec.Struct, frozen=True):
    """A ROCm prefix to package. `identity` changes whenever its content may have changed."""

    prefix: str
    identity: str
    size: int
    mended: str
    family: str | None
    version: str | None


def rocm_steps(options: RunOptions) -> list[Step]:
    """`rocm-fetch` and `rocm-prefix` (or only the latter with `--rocm-prefix`), then `rocm-packages`."""
    if options.rocm_prefix is not None:
        return [_given_prefix(options, options.rocm_prefix), _packages(options)]
    distribution = this_distribution()
    return [_fetch(options, distribution), _prefix(options, distribution), _packages(options)]


def _fetch(options: RunOptions, distribution: Distribution) -> Step:
    def act(_: Inputs, note: Note) -> Fetched:
        cache = options.cache / "packages"
        require_space(cache, 250_000_000, purpose="the package cache")
        log = options.workspace.log("rocm-fetch")
        return fetch(distribution, cache, log=log, refresh=options.refresh, note=note)

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


def _prefix(options: RunOptions, distribution: Distribution) -> Step:
    workspace = options.workspace

    def act(inputs: Inputs, note: Note) -> PrefixReady:
        fetched = inputs.get("rocm-fetch", Fetched)
        unpacked = workspace.root / "unpacked"
        remove_tree(workspace.prefix)
        require_space(workspace.root, _PREFIX_SPACE, purpose="the unpacked ROCm")
        note("unpacking")
        unpack(fetched, unpacked, log=workspace.log("rocm-prefix"), threads=options.jobs)
        note("laying out")
        laid: LaidOut = lay_out(distribution, unpacked, workspace.prefix)
        return PrefixReady(
            prefix=laid.prefix,
            identity=_identity(fetched),
            size=laid.size,
            mended=f"{laid.files} files, {laid.rpaths} RPATHs and {laid.cmake_files} CMake files mended",
            family=options.family or distribution.family,
            version=options.rocm_version or distribution.rocm_version,
        )

    return Step(
        id="rocm-prefix",
        result=PrefixReady,
        act=act,
        needs=("rocm-fetch",),
        rooms=("sdk", "binary", "data/distributions.toml"),
        facts=lambda: {"family": options.family, "version": options.rocm_version},
        outputs=lambda value: (Path(value.prefix),),
        summary=lambda value: f"{human_bytes(value.size)}, {value.mended}",
    )


def _identity(fetched: Fetched) -> str:
    return " ".join(package.sha256[:16] for package in fetched.packages)


def _given_prefix(options: RunOptions, prefix: Path) -> Step:
    def act(_: Inputs, note: Note) -> PrefixReady:
        found = read_prefix(prefix, version=options.rocm_version)
        size = found.size
        return PrefixReady(
            prefix=str(found.root),
            identity=fingerprint(found.root),
            size=size,
            mended=f"{len(found.host.files)} files, used as it is",
            family=options.family,
            version=found.version,
        )

    return Step(
        id="rocm-prefix",
        result=PrefixReady,
        act=act,
        rooms=("sdk/intake/prefix.py", "binary"),
        facts=lambda: {
            "prefix": str(prefix),
            "fingerprint": fingerprint(prefix),
            "version": options.rocm_version,
        },
        summary=lambda value: f"{value.prefix}: {human_bytes(value.size)}, {value.mended}",
    )


def _packages(options: RunOptions) -> Step:
    workspace = options.workspace

    def act(inputs: Inputs, note: Note) -> BuiltPackages:
        ready = inputs.get("rocm-prefix", PrefixReady)
        require_space(workspace.root, ready.size // 3, purpose="the ROCm wheels")
        note("reading the prefix")
        prefix = read_prefix(Path(ready.prefix), version=ready.version)
        packaging = Packaging(family=None if prefix.split else ready.family)
        return build_packages(prefix, workspace.rocm_wheels, packaging, threads=options.jobs, note=note)

    def summary(value: BuiltPackages) -> str:
        names = ", ".join(sorted(file.name.split("-")[0] for file in value.files))
        size = human_bytes(sum(file.size for file in value.files))
        return f"{names}: {size}, targets {' '.join(value.targets)}"

    return Step(
        id="rocm-packages",
        result=BuiltPackages,
        act=act,
        needs=("rocm-prefix",),
        rooms=("sdk", "binary", "wheel", "data"),
        facts=lambda: {"runtime": runtime_digest()},
        outputs=lambda value: tuple(value.paths),
        summary=summary,
    )


def runtime_digest() -> str:
    """Digest of the sources that ship inside the ROCm packages."""
    return content_digest(shipped_directory("runtime"))
