"""Packages by target: of a run with split device code, and those that rocm chooses when installed."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from conformance import rocm
from conformance.scenes.packages import RUN_ID, VERSION, WHEEL, members, metadata, name_the_run, names
from conformance.scenes.packages_installed import environment, installed, installed_packages, offline
from conformance.scenes.packages_local import local_packages
from conformance.table import Row, row
from conformance.world import Shell, Transcript, World

FETCH = (
    "python ./build_tools/artifact_manager.py fetch --stage all --output-dir=${ARTIFACTS_DIR} "
    "--run-id=${RUN_ID} --platform linux"
)
TARGETS = "gfx942,gfx1100,gfx1101,gfx1102,gfx1103,gfx1151,gfx1200,gfx1201"


def split_packages(world: World) -> Transcript:
    """The packages of a split build, and an environment with those for one GPU."""

    def play(shell: Shell) -> dict[str, object]:
        shell.world.activate(shell)
        shell.variables["ROCWRIGHT_STORE"] = str(rocm.store(world, RUN_ID, split=True, small=True))
        name_the_run(shell)
        shell(
            f'{FETCH} --amdgpu-families "gfx94X-dcgpu;gfx120X-all" --amdgpu-targets "{TARGETS}"',
            *("CL-55", "FL-20", "FD-50", "NM-23"),
        )
        shell(
            "python ./build_tools/build_python_packages.py --artifact-dir=${ARTIFACTS_DIR}/artifacts "
            "--dest-dir=${PACKAGES_DIR}",
            *("CL-56", "FD-45", "FD-37", "EV-10"),
            env={"KPACK_SPLIT_ARTIFACTS": "0"},
        )
        # The separators the other way round, and a name that is none.
        _with(shell, "gfx94X-dcgpu,gfx120X-all", TARGETS.replace(",", ";"))
        _with(shell, "gfx94X-dcgpu;gfx999X-all", "gfx942", code=3)
        for word in ("GFX110x-ALL", "gfx1151", "GFX1151"):
            line = f"python ./build_tools/fetch_artifacts.py --run-id=${{RUN_ID}} --artifact-group={word}"
            shell(line, "NM-11", more="--dry-run --json")
        return {"dist": f"{shell.variables['PACKAGES_DIR']}/dist"}

    return world.scene("split-packages", play)


def _with(shell: Shell, families: str, targets: str, code: int = 0) -> None:
    words = f'{FETCH} --amdgpu-families "{families}" --amdgpu-targets "{targets}"'
    shell(words, "NM-23", "FL-20", more="--dry-run --json", code=code)


@row("CL-55", "FD-50")
def artifacts_of_every_target_that_was_named_are_fetched(world: World, row: Row) -> None:
    scene = split_packages(world)
    scene.of(row.id)
    fetched = scene.home / "therock" / RUN_ID / "artifacts/artifacts"
    found = {path.name for path in fetched.iterdir() if path.is_dir()}
    for target in TARGETS.split(","):
        assert {f"blas_lib_{target}", f"miopen_lib_{target}"} <= found
    assert {"base_lib_generic", "blas_lib_generic", "core-hip_lib_generic"} <= found


@row("CL-56", "FD-45")
def a_package_for_every_target_beside_neutral_ones(world: World, row: Row) -> None:
    scene = split_packages(world)
    scene.of(row.id)
    neutral = {f"rocm_{name}-{WHEEL}" for name in ("sdk_core", "sdk_libraries", "sdk_devel", "profiler")}
    devices = {f"rocm_sdk_device_{target}-{WHEEL}" for target in TARGETS.split(",")}
    # The second sdist is what `rocm[device]` gets: it refuses, and names the targets.
    selectors = {f"rocm-{VERSION}.tar.gz", f"rocm_sdk_device-{VERSION}.tar.gz"}
    assert names(Path(str(scene.facts["dist"]))) == {*neutral, *devices, *selectors}


@row("FD-37")
def a_device_package_has_what_the_document_lists(world: World, row: Row) -> None:
    scene = split_packages(world)
    scene.of(row.id)
    wheel = Path(str(scene.facts["dist"])) / f"rocm_sdk_device_gfx1100-{WHEEL}"
    found = {name for name in members(wheel) if name.startswith("_rocm_sdk_libraries/")}
    below = {name.removeprefix("_rocm_sdk_libraries/") for name in found}
    assert {
        ".kpack/blas_lib_gfx1100.kpack",
        "lib/rocblas/library/Kernels_gfx1100.co",
        "lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat",
        "share/miopen/db/gfx1100.kdb",
        "share/miopen/db/gfx1100.db.txt",
    } <= below
    # Another target's files would be lost when this package goes.
    assert not [name for name in below if "gfx942" in name or "gfx1101" in name]
    assert f"rocm-sdk-libraries=={VERSION}" in metadata(wheel, "Requires-Dist")


@row("EV-10")
def the_flag_in_the_manifest_decides(world: World, row: Row) -> None:
    """A variable of that name, set to the contrary, says nothing."""
    scene = split_packages(world)
    scene.of(row.id)
    fetched = scene.home / "therock" / RUN_ID / "artifacts/artifacts/base_lib_generic"
    (manifest,) = fetched.rglob("share/therock/therock_manifest.json")
    assert json.loads(manifest.read_text()) == {"flags": {"KPACK_SPLIT_ARTIFACTS": True}}
    libraries = Path(str(scene.facts["dist"])) / f"rocm_sdk_libraries-{WHEEL}"
    with zipfile.ZipFile(libraries) as archive:
        host = archive.read("_rocm_sdk_libraries/lib/librocblas.so.0")
    assert b"__CLANG_OFFLOAD_BUNDLE__" not in host


@row("FL-20", "NM-23")
def both_separators_are_taken_in_both_lists(world: World, row: Row) -> None:
    scene = split_packages(world)
    printed, other, wrong = [done for done in scene.all_of(row.id) if "--amdgpu-families" in done.line]
    fetched = scene.home / "therock" / RUN_ID / "artifacts/artifacts"
    found = {path.name for path in fetched.iterdir() if path.is_dir()}
    assert "--stage all" in printed.line
    assert "--platform linux" in printed.line
    assert {one["artifact"] for one in json.loads(other.out)["archives"]} == found
    assert "gfx999X-all" in wrong.err


@row("NM-11")
def families_and_bare_targets_in_any_case(world: World, row: Row) -> None:
    family, lower, upper = split_packages(world).all_of(row.id)
    fetched = {one["artifact"] for one in json.loads(family.out)["archives"]}
    assert {f"blas_lib_{target}" for target in ("gfx1100", "gfx1101", "gfx1102", "gfx1103")} <= fetched
    assert "blas_lib_gfx942" not in fetched
    assert lower.out == upper.out
    named = {one["artifact"] for one in json.loads(lower.out)["archives"]}
    assert {name for name in named if name.startswith("blas_lib_gfx")} == {"blas_lib_gfx1151"}


INSTALL = "pip install rocm[libraries] --pre -f ${PACKAGES_DIR}/dist"
# Everything that comes here at one time or another; pip passes over what is not there.
LEAVE = (
    "pip uninstall --yes rocm rocm-profiler rocm-sdk-core rocm-sdk-devel rocm-sdk-libraries-gfx110x-all "
    "rocm-sdk-libraries-gfx94x-dcgpu"
)


def chosen_packages(world: World) -> Transcript:
    """One environment into which packages of three families come and go."""

    def play(shell: Shell) -> dict[str, object]:
        shell.variables["PACKAGES_DIR"] = str(local_packages(world).home / "tmp/packages")
        offline(shell)
        site = environment(shell, "project")
        # The documents name no index for the profilers: pip looks where it is set to look.
        shell.variables["PIP_FIND_LINKS"] = f"{shell.variables['PACKAGES_DIR']}/dist"
        shell("pip install rocm-profiler", "CL-61", more="--pre")
        shell("pip list --format=json", "CL-61")
        shell(LEAVE)
        shell('pip install "rocm[profiler]"', "CL-60", "NM-16", more="--pre")
        shell("pip list --format=json", "CL-60", "NM-16")
        shell("rocprof-compute --version && rocprof-sys-run one && rocprofv3 two && rocprof-attach", "CL-60")
        shell(LEAVE)
        _families(shell)
        return {"site": str(site)}

    return world.scene("chosen-packages", play)


def _families(shell: Shell) -> None:
    shell(INSTALL, "EV-05", env={"ROCM_SDK_TARGET_FAMILY": "gfx9999"}, code=None)
    shell(INSTALL, "EV-05", "FL-18", env={"ROCM_SDK_TARGET_FAMILY": "gfx94x-DCGPU"})
    shell("rocm-sdk targets", "EV-05")
    shell(LEAVE)
    shell("pip install rocm[libraries,devel]", "NM-16", "NM-04", "EV-05", more="--pre")
    shell("pip list --format=json", "NM-16", "NM-04")
    shell("rocm-sdk version --json", "EV-05")


@row("CL-60")
def the_profilers_come_with_core(world: World, row: Row) -> None:
    _, listed, ran = chosen_packages(world).all_of(row.id)
    assert installed(listed) == dict.fromkeys(("rocm", "rocm-sdk-core", "rocm-profiler"), VERSION)
    called = ["rocprof-compute --version", "rocprof-sys-run one", "rocprofv3 two", "rocprof-attach"]
    assert [line.strip() for line in ran.out.splitlines()] == called


@row("CL-61")
def the_profilers_alone_bring_nothing_along(world: World, row: Row) -> None:
    install, listed = chosen_packages(world).all_of(row.id)
    assert installed(listed) == {"rocm-profiler": VERSION}
    assert install.code == 0


@row("NM-04", "NM-16")
def the_extras_bring_their_packages(world: World, row: Row) -> None:
    """`profiler`, then `libraries,devel`; `libraries` alone is EV-05's."""
    *_, install, listed = chosen_packages(world).all_of(row.id)
    assert "rocm[libraries,devel]" in install.line
    names = {"rocm", "rocm-sdk-core", "rocm-sdk-libraries-gfx110x-all", "rocm-sdk-devel"}
    assert installed(listed) == dict.fromkeys(names, VERSION)


@row("FL-18")
def the_options_of_pip_have_two_spellings(world: World, row: Row) -> None:
    long, short = installed_packages(world).of(row.id), chosen_packages(world).of(row.id)
    assert "--pre --find-links=" in long.line
    assert "--pre -f " in short.line
    # Only with --pre a development version counts, and only there it can have come from.
    for done in (long, short):
        assert f" rocm-sdk-core-{VERSION}" in done.out.splitlines()[-1]


@row("EV-05")
def the_variable_chooses_the_family_and_a_wrong_one_lists_all(world: World, row: Row) -> None:
    wrong, install, targets, default, facts = chosen_packages(world).all_of(row.id)
    assert wrong.code != 0
    said = wrong.out + wrong.err
    assert "ROCM_SDK_TARGET_FAMILY=gfx9999 is not available" in said
    for family in ("gfx110X-all (gfx1100)", "gfx120X-all (gfx1201)", "gfx94X-dcgpu (gfx942)"):
        assert family in said
    assert f"rocm-sdk-libraries-gfx94x-dcgpu-{VERSION}" in install.out
    assert targets.out.split() == ["gfx942"]
    # Without the variable and without a GPU it is the family that the sdist falls back to.
    assert f"rocm-sdk-libraries-gfx110x-all-{VERSION}" in default.out
    chosen = json.loads(facts.out)
    assert (chosen["family"], chosen["selected_by"]) == ("gfx110X-all", "default")
