"""The plan of a whole family: what will be built, in which order, against what, and what a user should
hear of it before it begins.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Mapping, Sequence

import msgspec

from rocwright.builder.decide.environment import planned_version, project_suffix
from rocwright.builder.decide.plan import CACHES, BuildPlan, BuildRequest
from rocwright.builder.decide.project import Circumstances, plan_project
from rocwright.builder.decide.recipe import Recipe, RecipeTable, cpu_time
from rocwright.builder.decide.tree import SourceFacts
from rocwright.builder.rocm.rocm import VERSION, Rocm
from rocwright.errors import UsageError
from rocwright.model.platforms import PLATFORMS
from rocwright.model.project import TORCH
from rocwright.model.version import RELEASE_TYPES, parse_version


class FamilyPlan(msgspec.Struct, frozen=True):
    """Everything that a run of the builder will do; `builds` in order, one Python after the other.

    `left_out` maps a project that is not built to the reason; `notes` are sentences for the user (the cost of
    many targets, why flash attention is off).
    """

    platform: str
    release_type: str
    targets: tuple[str, ...]
    rocm: Rocm
    builds: tuple[BuildPlan, ...]
    left_out: dict[str, str] = {}
    notes: tuple[str, ...] = ()


def plan_family(
    wanted: BuildRequest,
    rocm: Rocm,
    table: RecipeTable,
    trees: Mapping[str, SourceFacts],
    *,
    caller: Mapping[str, str],
    jobs: int,
    launchers: Mapping[str, str] = {},
    include: Sequence[str] = (),
    built: Sequence[str] = (),
    needed: Sequence[str] = (),
    torch: str = "",
) -> FamilyPlan:
    """Plan every project whose tree is in `trees`, for every Python, in build order.

    `caller` is the environment the tool was started with, `jobs` how many compilers run at once, `launchers`
    variables that put a program before each compiler, `include` further directories of headers, `built` the
    projects whose wheels are there from another run, `needed` what is installed for every build besides,
    `torch` the version of the torch among `built`.

    Raises `UsageError` for what cannot be built as asked; nothing was looked up or written.
    """
    _require_sense(wanted)
    recipes, left_out = _choose(wanted, table, trees)
    _require_foundations(recipes, built)
    building = (*built, *(recipe.project for recipe in recipes))
    flash, flash_note = False, None
    if any(recipe.flash_attention for recipe in recipes):
        flash, flash_note = choose_flash_attention(
            wanted, table.flash_attention.targets, has_triton="triton" in building
        )
    run = Circumstances(
        wanted=wanted,
        rocm=rocm,
        table=table,
        building=building,
        wheel_names={name: name for name in built}
        | {r.project: (r.name_env and caller.get(r.name_env)) or r.project for r in recipes},
        caller=caller,
        jobs=jobs,
        flash_attention=flash,
        shared=_shared(table, trees),
        launchers=launchers,
        include=tuple(include),
        needed=tuple(needed),
        torch=torch or _torch(wanted, rocm, recipes, trees),
    )
    pythons = wanted.pythons or (running_python(),)
    builds = [
        plan_project(recipe, trees[recipe.project], python, first=python == pythons[0], run=run)
        for python in pythons
        for recipe in recipes
    ]
    return FamilyPlan(
        platform=wanted.platform,
        release_type=wanted.release_type,
        targets=wanted.targets,
        rocm=rocm,
        builds=tuple(builds),
        left_out=left_out,
        notes=(*filter(None, [flash_note]), *family_notes(wanted, rocm, table, recipes, builds, trees)),
    )


def _torch(
    wanted: BuildRequest, rocm: Rocm, recipes: Sequence[Recipe], trees: Mapping[str, SourceFacts]
) -> str:
    """The version of the torch that the same run builds; empty for none, or one that does not tell."""
    for recipe in recipes:
        if recipe.project == TORCH:
            tree = trees[TORCH]
            return planned_version(recipe, tree, wanted, project_suffix(wanted, rocm, tree, TORCH))[1]
    return ""


def running_python() -> str:
    """The version of the interpreter that runs this, `3.12`, or `3.13t` for a free-threaded one."""
    free = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return f"{sys.version_info.major}.{sys.version_info.minor}{free}"


def _require_sense(wanted: BuildRequest) -> None:
    if wanted.platform not in PLATFORMS:
        raise UsageError(
            f"platform {wanted.platform!r} is not one of {', '.join(PLATFORMS)}",
            next_step="give --platform linux",
        )
    if wanted.release_type not in RELEASE_TYPES:
        raise UsageError(
            f"release type {wanted.release_type!r} is not one of {', '.join(RELEASE_TYPES)}",
            next_step="give --release-type nightly",
        )
    if wanted.cache and wanted.cache not in CACHES:
        raise UsageError(
            f"compiler cache {wanted.cache!r} is not one of {', '.join(CACHES)}",
            next_step="give --use-ccache or --use-sccache",
        )
    if wanted.build_number < 1:
        raise UsageError(
            f"build number {wanted.build_number} is below 1",
            next_step="give --pytorch-build-number 1 or more",
        )
    if wanted.editable and len(wanted.pythons) > 1:
        raise UsageError(
            "an editable build leaves its files in the tree, so it is for one Python only",
            next_step=f"give one of {', '.join(wanted.pythons)} to --python",
        )
    if len(set(wanted.pythons)) < len(wanted.pythons):
        raise UsageError("a Python is named twice", next_step="name each once in --python")


def _choose(
    wanted: BuildRequest, table: RecipeTable, trees: Mapping[str, SourceFacts]
) -> tuple[list[Recipe], dict[str, str]]:
    """The recipes to build, and why each of the others is not."""
    for project in (*wanted.build, *wanted.editable, *trees):
        table.get(project)
    left_out = {row.project: why for row in table.recipe if (why := _why_not(row, wanted, trees))}
    for project, asked in wanted.build.items():
        if asked and project in left_out:
            word = table.get(project).word
            raise UsageError(
                f"--build-{word}: {left_out[project]}",
                next_step=f"check it out and give its directory, or give --no-build-{word}",
            )
    if missing := [project for project in wanted.editable if project in left_out]:
        raise UsageError(
            f"--editable {missing[0]}: {left_out[missing[0]]}", next_step="give the directory of its checkout"
        )
    chosen = [row for row in table.recipe if row.project not in left_out]
    if not chosen:
        raise UsageError(
            "no source tree to build",
            next_step="check one out with `rocwright checkout torch`, or give --pytorch-dir",
        )
    return chosen, left_out


def _why_not(row: Recipe, wanted: BuildRequest, trees: Mapping[str, SourceFacts]) -> str:
    asked = wanted.build.get(row.project)
    if asked is False:
        return f"not wanted (--no-build-{row.word})"
    if wanted.platform not in row.platforms:
        return f"is not built on {wanted.platform}"
    if row.project not in trees:
        return "its directory is not known"
    if wanted.platform in row.opt_in and not asked:
        return f"is built on {wanted.platform} only when asked for (--build-{row.word})"
    return ""


def _require_foundations(recipes: Sequence[Recipe], built: Sequence[str]) -> None:
    """What a project is built against comes from the same run, or is given, so that both fit each other."""
    building = {*built, *(recipe.project for recipe in recipes)}
    for recipe in recipes:
        for name in recipe.after:
            if name not in building and name not in recipe.optional:
                raise UsageError(
                    f"{recipe.project} is built against {name}, and {name} is not part of this build",
                    next_step=f"give the directory of {name} too; what is built already is not built again",
                )


def _shared(table: RecipeTable, trees: Mapping[str, SourceFacts]) -> dict[str, str]:
    """Variables for all projects: a checkout that is known says some of them itself."""
    env: dict[str, str] = {}
    for row in table.recipe:
        if row.project in trees:
            env |= row.shared_env | trees[row.project].build_env
    return env


# -- whether torch is built with flash attention, and why not


def choose_flash_attention(
    wanted: BuildRequest, supported: Sequence[str], *, has_triton: bool
) -> tuple[bool, str | None]:
    """The switch, and a sentence for the user where it is not plainly on.

    A flag wins, else one target that it is built for is enough: the others are dropped there, only a list of
    none at all breaks its configure step. On Linux triton compiles it, so there is none without triton.

    Raises `UsageError` for a flag that asks for it on Linux without triton.
    """
    fitting = [target for target in wanted.targets if target.startswith(tuple(supported))]
    needs_triton = wanted.platform == "linux" and not has_triton
    if wanted.flash_attention is not None:
        if wanted.flash_attention and needs_triton:
            raise UsageError(
                "flash attention was asked for, but triton, which compiles it, is not built",
                next_step="give --triton-dir (rocwright checkout triton), or leave the flag out",
            )
        if wanted.flash_attention and not fitting:
            return True, f"flash attention is on, as asked, but built for none of {' '.join(wanted.targets)}"
        return wanted.flash_attention, None if wanted.flash_attention else "flash attention is off, as asked"
    if needs_triton:
        return False, "flash attention is off: triton, which compiles it, is not built (--triton-dir)"
    if not fitting:
        return False, f"flash attention is off: it is built for none of {' '.join(wanted.targets)}"
    return True, None


def family_notes(
    wanted: BuildRequest,
    rocm: Rocm,
    table: RecipeTable,
    recipes: Sequence[Recipe],
    builds: Sequence[BuildPlan],
    trees: Mapping[str, SourceFacts],
) -> tuple[str, ...]:
    """Sentences about a planned run, the costly ones first."""
    return (
        *_cost(wanted, table, recipes),
        *_missing(rocm, wanted),
        *_cache(wanted, builds),
        *_unlaunched(wanted, rocm, table, [plan for plan in builds if not trees[plan.project].hip_language]),
        *_editable(builds),
        *_unknown(rocm, builds),
    )


def _cost(wanted: BuildRequest, table: RecipeTable, recipes: Sequence[Recipe]) -> list[str]:
    """Targets multiply the device code; nobody should learn that from the clock."""
    more = len(wanted.targets) - 1
    costly = [recipe for recipe in recipes if recipe.hours_per_target]
    if len(wanted.targets) < table.many_targets or not costly:
        return []
    each = sum(recipe.hours_per_target for recipe in costly)
    names = " and ".join(recipe.project for recipe in costly)
    return [
        f"{len(wanted.targets)} GPU targets: compiling {names} takes {cpu_time(each)} more for "
        f"each after the first (an estimate), {cpu_time(each * more)} more than for one. "
        "Give --pytorch-rocm-arch to build for fewer"
    ]


def _missing(rocm: Rocm, wanted: BuildRequest) -> list[str]:
    notes = []
    if wanted.platform == "windows":
        notes.append(
            "Microsoft's compilers are those of the shell, else of the Visual Studio that vswhere finds "
            "(vcvars64.bat); paths may have 260 characters, so check out to a directory such as C:/b"
        )
    if not rocm.device_libraries:
        notes.append(
            f"no device libraries in {rocm.root}: HIP_DEVICE_LIB_PATH is not set, "
            "the compiler looks for them itself"
        )
    if not rocm.host_math:
        notes.append(f"no lib/host-math in {rocm.root}: torch looks for the system's BLAS")
    if rocm.origin == "prefix":
        notes.append(
            f"the wheels need the ROCm of {rocm.root} where they run: they require no ROCm packages"
            + ("" if wanted.platform == "windows" else "; LD_LIBRARY_PATH or its RUNPATH has to lead there")
        )
    return notes


def _cache(wanted: BuildRequest, builds: Sequence[BuildPlan]) -> list[str]:
    flash = any(plan.env.get("USE_FLASH_ATTENTION") == "1" for plan in builds)
    if wanted.cache != "ccache" or not flash:
        return []
    return ['if the build of aotriton ends with "invalid argument", build again without --use-ccache']


def _unlaunched(
    wanted: BuildRequest, rocm: Rocm, table: RecipeTable, builds: Sequence[BuildPlan]
) -> list[str]:
    unreached = _unreached(rocm, table, builds)
    if not unreached:
        return []
    since = table.hip_launcher_since
    why = (
        f"only hipcc of ROCm {since} and later has HIP_CLANG_LAUNCHER, and this is ROCm {rocm.version}; a "
        "wrapper in a directory that HIP_CLANG_PATH names works, too (examples/real-pytorch)"
    )
    notes = []
    if wanted.cache and wanted.cache_hip and wanted.platform == "linux":
        notes.append(f"{wanted.cache} will not see HIP code of {unreached}: {why}")
    if wanted.part:
        notes.append(
            f"--device-part leaves nothing out of what hipcc compiles for {unreached} (it does of what CMake "
            f"has compiled by itself): {why}"
        )
    return notes


def _unreached(rocm: Rocm, table: RecipeTable, builds: Sequence[BuildPlan]) -> str:
    """The projects whose device code is compiled without a launcher before it, as far as that can be told."""
    if rocm.version == VERSION or not table.hip_launcher_since:
        return ""
    if parse_version(rocm.version).release >= parse_version(table.hip_launcher_since).release:
        return ""
    # A directory of the user's own, whose clang++ may run the launcher.
    left = dict.fromkeys(plan.project for plan in builds if "HIP_CLANG_PATH" not in plan.env)
    return ", ".join(left)


def _editable(builds: Sequence[BuildPlan]) -> list[str]:
    return [
        f"{plan.project} is installed from {plan.tree}, no wheel is made; "
        + (f"{', '.join(plan.generated)} and build/ stay there" if plan.generated else "build/ stays there")
        for plan in builds
        if plan.editable
    ]


def _unknown(rocm: Rocm, builds: Sequence[BuildPlan]) -> list[str]:
    notes = []
    if rocm.origin == "unknown":
        notes.append("no ROCm was examined: ${ROCM_ROOT} and ${ROCM_VERSION} stand for its values")
    if any("LLVM_SYSPATH" in plan.env for plan in builds):
        folder = next(plan.env["LLVM_SYSPATH"] for plan in builds if "LLVM_SYSPATH" in plan.env)
        notes.append(
            f"triton needs its own LLVM unpacked at {folder} (LLVM_SYSPATH names another place); "
            "its cmake/llvm-hash.txt says which"
        )
    return notes
