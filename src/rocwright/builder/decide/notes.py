"""What a user should hear before a build begins: what it costs, what is off, what he has to know."""

from __future__ import annotations

from collections.abc import Sequence

from rocwright.builder.decide.plan import BuildPlan
from rocwright.builder.decide.recipe import Recipe, RecipeTable
from rocwright.builder.decide.request import BuildRequest
from rocwright.builder.rocm.rocm import VERSION, Rocm
from rocwright.model.version import parse_version


def family_notes(
    wanted: BuildRequest,
    rocm: Rocm,
    table: RecipeTable,
    recipes: Sequence[Recipe],
    builds: Sequence[BuildPlan],
) -> tuple[str, ...]:
    """Sentences about a planned run, the costly ones first."""
    return (
        *_cost(wanted, table, recipes),
        *_missing(rocm, wanted),
        *_cache(wanted, builds),
        *_hip_cache(wanted, rocm, table, builds),
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
        f"{len(wanted.targets)} GPU targets: compiling {names} takes about {each:.1f} CPU hours more for "
        f"each after the first (an estimate), {each * more:.0f} CPU hours more than for one. "
        "Give --pytorch-rocm-arch to build for fewer"
    ]


def _missing(rocm: Rocm, wanted: BuildRequest) -> list[str]:
    notes = []
    if not rocm.device_libraries:
        notes.append(
            f"no device libraries in {rocm.root}: HIP_DEVICE_LIB_PATH is not set, the compiler looks itself"
        )
    if not rocm.host_math:
        notes.append(f"no lib/host-math in {rocm.root}: torch looks for a BLAS of the system")
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
    return ['should the build of aotriton end with "invalid argument", build again without --use-ccache']


def _hip_cache(
    wanted: BuildRequest, rocm: Rocm, table: RecipeTable, builds: Sequence[BuildPlan]
) -> list[str]:
    asked = wanted.cache and wanted.cache_hip and wanted.platform == "linux"
    if not asked or rocm.version == VERSION or not table.hip_launcher_since:
        return []
    if parse_version(rocm.version).release >= parse_version(table.hip_launcher_since).release:
        return []
    # A directory of the user's own, whose clang++ may run the launcher.
    if all("HIP_CLANG_PATH" in plan.env for plan in builds):
        return []
    return [
        f"{wanted.cache} will not see HIP code: hipcc of ROCm {rocm.version} has no HIP_CLANG_LAUNCHER, that "
        f"of {table.hip_launcher_since} and later has; a wrapper in a directory that HIP_CLANG_PATH names "
        "does it, too (examples/real-pytorch)"
    ]


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
        notes.append("no ROCm was looked at: ${ROCM_ROOT} and ${ROCM_VERSION} stand for what it will say")
    if any("LLVM_SYSPATH" in plan.env for plan in builds):
        folder = next(plan.env["LLVM_SYSPATH"] for plan in builds if "LLVM_SYSPATH" in plan.env)
        notes.append(
            f"triton needs its own LLVM unpacked at {folder} (LLVM_SYSPATH names another place); "
            "its cmake/llvm-hash.txt says which"
        )
    return notes
