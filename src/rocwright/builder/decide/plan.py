"""What a user asks of a build, one planned build, and the wheel that comes of it, as frozen values, with the
versions that only earlier builds of the same run tell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath

import msgspec

from rocwright.errors import InvalidInput

CACHES = ("ccache", "sccache")


class CacheUse(msgspec.Struct, frozen=True):
    """Calls that a cache answered or passed on during a build; `uncached` ones it does not keep.

    Those for device code are counted apart as well, where the cache itself tells (sccache). `errors` are
    questions and results that its storage did not take. `size` are the bytes that it holds afterwards, 0
    where it does not tell, as sccache of a bucket. `note` says why figures are missing or low, where that is
    known.
    """

    cache: str
    hits: int = 0
    misses: int = 0
    uncached: int = 0
    hip_hits: int = 0
    hip_misses: int = 0
    errors: int = 0
    size: int = 0
    note: str = ""

    @property
    def line(self) -> str:
        """For people."""
        if not (self.hits or self.misses or self.uncached) and self.note:
            return f"{self.cache}: {self.note}"
        counts = f"{self.hits} found, {self.misses} compiled, {self.uncached} not kept"
        if self.hip_hits or self.hip_misses:
            counts += f"; of device code {self.hip_hits} found, {self.hip_misses} compiled"
        if self.errors:
            counts += f"; {self.errors} errors of its storage"
        return f"{self.cache}: {counts}" + (f" ({self.note})" if self.note else "")


class BuildRequest(msgspec.Struct, frozen=True):
    """One request to build.

    `sources` maps projects to the absolute directories of their checkouts, `build` says of a project that it
    is wanted or not (absent: it is when its directory is known). `pythons` are versions such as `3.12` or
    `3.13t` (empty: the one that runs). `version_suffix` starts with `+` (None: derived from the ROCm),
    `flash_attention` None means by the rule. `editable` names projects that are installed from their tree,
    `split` asks for host and device wheels. `cache` is empty or one of `CACHES`; `cache_hip` False keeps it
    away from HIP code. `cache_settings` are variables that say where it keeps what it has; an
    `exact_cache` gives nothing that was compiled at another path, whose name could stand in a wheel. `part`
    are those of `targets` that device code is compiled for (empty: all of them), `fenced` projects whose
    builds must not reach the network, `shown` those whose wheels the builds behind them see.
    """

    sources: dict[str, str]
    platform: str
    targets: tuple[str, ...]
    pythons: tuple[str, ...] = ()
    release_type: str = "nightly"
    version_suffix: str | None = None
    build_number: int = 1
    clean: bool = False
    flash_attention: bool | None = None
    editable: tuple[str, ...] = ()
    split: bool = False
    cache: str = ""
    cache_hip: bool = True
    cache_settings: dict[str, str] = {}
    exact_cache: bool = False
    build: dict[str, bool] = {}
    jobs: int | None = None
    part: tuple[str, ...] = ()
    fenced: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()


_BUILT = re.compile(r"\$\{([A-Z][A-Z0-9_]*)_VERSION\}")


class BuildPlan(msgspec.Struct, frozen=True):
    """One build of one project for one Python: `argv` runs in `directory` with `env` over the caller's.

    The first word `python` of `argv` stands for the build environment's interpreter. `version` is empty where
    only the build knows it. Values may hold `${TRITON_VERSION}`, `${TORCH_VERSION}`: versions of wheels that
    come earlier in the same run, filled in as soon as they are built. `tree` is the checkout that `directory`
    lies in, `wheel_name` the distribution that comes out.

    `requirements` and those of `requirements_files` (below `tree`) are installed first, `uninstalled` is
    taken out of the environment after that; `programs` have to be on PATH then. `removed` (paths below
    `directory`) go before the build, and so do those of `per_python` where the tree was last built for
    another Python. `generated` maps paths below the tree to text, `copied` to files elsewhere (a pattern may
    stand for one file); both are there for the time of the build only, unless it is `editable`. `pins` are
    requirements that the wheel has to state, whatever its project wrote. `install` puts the wheel into the
    build environment, because later builds need it. `local` is the local version that the wheel gets after
    it was built, `+rocm7.10.0`. A `fenced` build does not reach the network. A wheel that is `shown` is put
    there before the next build, with what it requires. With `plain_compilers` its build knows no launchers:
    programs that run them stand in for CC and CXX.
    """

    project: str
    directory: str
    version: str
    argv: tuple[str, ...]
    env: dict[str, str]
    platform: str = "linux"
    python: str = ""
    import_name: str = ""
    requirements: tuple[str, ...] = ()
    requirements_files: tuple[str, ...] = ()
    uninstalled: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    generated: dict[str, str] = {}
    copied: dict[str, str] = {}
    pins: tuple[str, ...] = ()
    install: bool = False
    editable: bool = False
    split: bool = False
    tree: str = ""
    wheel_name: str = ""
    per_python: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    local: str = ""
    fenced: bool = False
    shown: bool = False
    plain_compilers: bool = False


class BuiltWheel(msgspec.Struct, frozen=True):
    """A built wheel: where it lies, what it is, what it cost; `device` are wheels that were split off it.

    `cache` is what a compiler cache did in the run that made it, where that is told.
    Of an editable install `path` is the source tree, `sha256` empty and `size` 0.
    """

    project: str
    version: str
    path: str
    sha256: str
    size: int
    wall_s: float
    cpu_s: float
    peak_rss: int
    python: str = ""
    device: tuple[str, ...] = ()
    cache: CacheUse | None = None

    @property
    def distribution(self) -> str:
        """Its name as its file spells it: a project's wheel may be called otherwise."""
        return PurePath(self.path).name.partition("-")[0] if self.sha256 and self.path else self.project


def version_of(project: str) -> str:
    """What stands in a plan for the version of a wheel that the same run builds: `${TORCH_VERSION}`."""
    return f"${{{project.upper().replace('-', '_')}_VERSION}}"


def with_built(plan: BuildPlan, built: Mapping[str, str]) -> BuildPlan:
    """The plan with the versions of wheels built so far, by project, in its environment, files and pins.

    Raises `InvalidInput` when it needs the version of a wheel that is not among them.
    """
    known = {version_of(project)[2:-1]: version for project, version in built.items()}

    def filled(text: str) -> str:
        def version(match: re.Match[str]) -> str:
            name = match[0][2:-1]
            if name == "ROCM_VERSION":
                return match[0]
            if name not in known:
                raise InvalidInput(
                    f"{plan.project} needs the version of a wheel that was not built before it: {name}",
                    next_step="build both in one run",
                )
            return known[name]

        return _BUILT.sub(version, text)

    return msgspec.structs.replace(
        plan,
        env={name: filled(text) for name, text in plan.env.items()},
        requirements=tuple(filled(text) for text in plan.requirements),
        pins=tuple(filled(text) for text in plan.pins),
    )
