"""A run whose device code is split: artifacts by target, a package for each, installed for one GPU."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from conformance import rocm
from conformance.cases import row
from conformance.scenes.packages import RUN_ID, VERSION, WHEEL, members, metadata, name_the_run, names
from conformance.table import Row
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
