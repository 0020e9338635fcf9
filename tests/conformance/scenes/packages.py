"""The document of ROCm's Python packages, from artifacts of a run to installed and tested packages."""

from __future__ import annotations

from pathlib import Path

from conformance import rocm
from conformance.cases import row
from conformance.table import Row
from conformance.world import Shell, Transcript, World

RUN_ID = "21440027240"


def family_packages(world: World) -> Transcript:
    """Packages for gfx110X-all of the artifacts of a run; other scenes install from the fact `dist`."""

    def play(shell: Shell) -> dict[str, object]:
        shell.world.activate(shell)
        shell.variables["ROCWRIGHT_STORE"] = str(rocm.store(world, "17123441166", RUN_ID))
        shell(f"RUN_ID={RUN_ID}", "CL-51", "EV-09", run=f"export RUN_ID={RUN_ID}")
        shell("ARTIFACT_GROUP=gfx110X-all", "CL-51", "EV-09", run="export ARTIFACT_GROUP=gfx110X-all")
        for name in ("artifacts", "packages"):
            line = f"{name.upper()}_DIR=${{HOME}}/therock/${{RUN_ID}}/{name}"
            shell(line, "CL-51", "EV-09", run=f"export {line}")
        shell(
            "python ./build_tools/fetch_artifacts.py --run-id=${RUN_ID} --artifact-group=${ARTIFACT_GROUP} "
            "--output-dir=${ARTIFACTS_DIR}",
            *("CL-52", "FL-16", "FD-22"),
        )
        shell(
            "python ./build_tools/build_python_packages.py --artifact-dir=${ARTIFACTS_DIR} "
            "--dest-dir=${PACKAGES_DIR}",
            *("CL-53", "FL-16", "FD-23"),
        )
        shell("ls ${PACKAGES_DIR}", "CL-54")
        packages = Path(shell.variables["PACKAGES_DIR"])
        return {"packages": str(packages), "dist": str(packages / "dist")}

    return world.scene("family-packages", play)


@row("CL-51", "CL-52")
def artifacts_are_fetched_into_directories_that_the_tool_makes(world: World, row: Row) -> None:
    scene = family_packages(world)
    scene.of(row.id)
    fetched = scene.home / "therock" / RUN_ID / "artifacts"
    names = {path.name for path in fetched.iterdir()}
    assert {"base_lib_generic", "blas_lib_gfx110X-all"} <= names
    # Artifacts of other families stay where they are.
    assert not [name for name in names if "gfx94X" in name or "gfx120X" in name]
