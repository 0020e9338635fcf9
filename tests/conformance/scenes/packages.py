"""The document of ROCm's Python packages: fetched artifacts of a run become packages for one family."""

from __future__ import annotations

import json
import tarfile
import zipfile
from pathlib import Path

from conformance import rocm
from conformance.table import Row, row
from conformance.world import Shell, Transcript, World

RUN_ID = "21440027240"
# What the artifacts say of themselves, with the mark of a development build.
VERSION = "5.2.3.dev0"
WHEEL = f"{VERSION}-py3-none-linux_x86_64.whl"


def family_packages(world: World) -> Transcript:
    """Packages for gfx110X-all of the artifacts of a run; other scenes install from the fact `dist`."""

    def play(shell: Shell) -> dict[str, object]:
        shell.world.activate(shell)
        shell.variables["ROCWRIGHT_STORE"] = str(rocm.store(world, RUN_ID))
        name_the_run(shell)
        shell(
            "python ./build_tools/fetch_artifacts.py --run-id=${RUN_ID} --artifact-group=${ARTIFACT_GROUP} "
            "--output-dir=${ARTIFACTS_DIR}",
            *("CL-52", "FL-16", "FD-22", "FD-40"),
        )
        shell(
            "python ./build_tools/build_python_packages.py --artifact-dir=${ARTIFACTS_DIR} "
            "--dest-dir=${PACKAGES_DIR}",
            *("CL-53", "FL-16", "FD-23", "FD-40", "FD-44", "NM-14", "NM-22", "FD-36", "FD-35"),
            more="--wheel-compression=fast",
        )
        shell("ls ${PACKAGES_DIR}", "CL-54")
        shell("ls ${PACKAGES_DIR}/dist", "CL-54", "FD-40")
        packages = Path(shell.variables["PACKAGES_DIR"])
        return {"packages": str(packages), "dist": str(packages / "dist")}

    return world.scene("family-packages", play)


def name_the_run(shell: Shell) -> None:
    """The variables that the document sets before it fetches."""
    shell(f"RUN_ID={RUN_ID}", "CL-51", "EV-09", run=f"export RUN_ID={RUN_ID}")
    shell("ARTIFACT_GROUP=gfx110X-all", "CL-51", "EV-09", run="export ARTIFACT_GROUP=gfx110X-all")
    for name in ("artifacts", "packages"):
        line = f"{name.upper()}_DIR=${{HOME}}/therock/${{RUN_ID}}/{name}"
        shell(line, "CL-51", "EV-09", run=f"export {line}")


def names(dist: Path) -> set[str]:
    """The packages of a directory."""
    return {path.name for path in dist.iterdir() if path.name.endswith((".whl", ".tar.gz"))}


def members(wheel: Path) -> set[str]:
    """The files of a wheel, or of an sdist below its top directory."""
    if wheel.suffix == ".whl":
        with zipfile.ZipFile(wheel) as archive:
            return set(archive.namelist())
    with tarfile.open(wheel) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def metadata(wheel: Path, field: str) -> list[str]:
    """The lines of one field of a wheel's METADATA."""
    (name,) = [name for name in members(wheel) if name.endswith(".dist-info/METADATA")]
    with zipfile.ZipFile(wheel) as archive:
        lines = archive.read(name).decode().partition("\n\n")[0].splitlines()
    return [line.partition(": ")[2] for line in lines if line.startswith(field + ": ")]


@row("CL-51", "CL-52", "EV-09")
def artifacts_are_fetched_into_directories_that_the_tool_makes(world: World, row: Row) -> None:
    scene = family_packages(world)
    scene.of(row.id)
    fetched = scene.home / "therock" / RUN_ID / "artifacts"
    names = {path.name for path in fetched.iterdir() if path.is_dir()}
    assert {"base_lib_generic", "amd-llvm_lib_generic", "blas_lib_gfx110X-all"} <= names
    # Artifacts of other families stay where they are.
    assert not [name for name in names if "gfx94X" in name or "gfx120X" in name]
    manifest = (fetched / "blas_lib_gfx110X-all/artifact_manifest.txt").read_text().split()
    assert (fetched / "blas_lib_gfx110X-all" / manifest[0] / "lib/librocblas.so.0.1").is_file()


@row("CL-53", "FD-44")
def a_build_makes_a_closed_set(world: World, row: Row) -> None:
    scene = family_packages(world)
    scene.of(row.id)
    dist = Path(str(scene.facts["dist"]))
    assert names(dist) == {
        f"rocm-{VERSION}.tar.gz",
        f"rocm_sdk_core-{WHEEL}",
        f"rocm_sdk_libraries_gfx110x_all-{WHEEL}",
        f"rocm_sdk_devel-{WHEEL}",
        f"rocm_profiler-{WHEEL}",
    }
    # Of rocm only a source distribution: where it is installed decides what it requires.
    sdist = members(dist / f"rocm-{VERSION}.tar.gz")
    assert {"PKG-INFO", "pyproject.toml", "rocm_set.json", "src/rocm_sdk/__init__.py"} <= sdist


@row("CL-54")
def the_packages_are_listed(world: World, row: Row) -> None:
    above, listed = family_packages(world).all_of(row.id)
    assert above.out.split() == ["dist"]
    for name in ("rocm_sdk_core-", "rocm_sdk_devel-", "rocm_sdk_libraries_gfx110x_all-"):
        assert f"{name}{WHEEL}" in listed.out.split()
    assert f"rocm-{VERSION}.tar.gz" in listed.out.split()


@row("FD-40")
def the_directories_are_those_of_the_document(world: World, row: Row) -> None:
    scene = family_packages(world)
    assert len(scene.all_of(row.id)) == 3
    place = scene.home / "therock" / RUN_ID
    assert {path.name for path in place.iterdir()} == {"artifacts", "packages"}
    assert scene.facts == {"packages": str(place / "packages"), "dist": str(place / "packages/dist")}
    assert list((place / "packages/dist").glob("*.whl"))


@row("FD-36")
def the_development_files_are_a_tar_in_the_wheel(world: World, row: Row) -> None:
    scene = family_packages(world)
    scene.of(row.id)
    wheel = Path(str(scene.facts["dist"])) / f"rocm_sdk_devel-{WHEEL}"
    assert "rocm_sdk_devel/_devel.tar" in members(wheel)
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open("rocm_sdk_devel/_devel.tar") as stream,
        tarfile.open(fileobj=stream, mode="r|") as tar,
    ):
        found = {member.name.removeprefix("./"): member for member in tar}
    # What a package of the run time has already becomes a link to it where it is unpacked; the rest is here.
    assert {"include/rocblas/rocblas.h", "lib/cmake/rocblas/rocblas-config.cmake"} <= set(found)
    assert not [name for name in found if "libamdhip64" in name]


@row("NM-22")
def core_has_the_profiling_library_and_the_profilers_lie_apart(world: World, row: Row) -> None:
    scene = family_packages(world)
    scene.of(row.id)
    dist = Path(str(scene.facts["dist"]))
    core, profiler = (members(dist / f"{name}-{WHEEL}") for name in ("rocm_sdk_core", "rocm_profiler"))
    for path in ("lib/librocprofiler-sdk.so.0", "lib/libroctx64.so.4", "bin/rocprofv3", "bin/rocprof-attach"):
        assert f"_rocm_sdk_core/{path}" in core
        assert f"_rocm_profiler/{path}" not in profiler
    for path in ("bin/rocprof-compute", "bin/rocprof-sys-run", "lib/librocprof-sys.so.0",
                 "libexec/rocprofiler-compute/rocprof_compute.py"):  # fmt: skip
        assert f"_rocm_profiler/{path}" in profiler
        assert f"_rocm_sdk_core/{path}" not in core


@row("NM-14")
def every_package_holds_what_it_is_for(world: World, row: Row) -> None:
    """Of the document's seven names the five of a build with device code inside; split ones: FD-45."""
    scene = family_packages(world)
    scene.of(row.id)
    dist = Path(str(scene.facts["dist"]))
    libraries = members(dist / f"rocm_sdk_libraries_gfx110x_all-{WHEEL}")
    assert "_rocm_sdk_libraries_gfx110x_all/lib/librocblas.so.0" in libraries
    # One name a library, no links: a wheel cannot hold any.
    assert not [name for name in libraries if name.endswith(("librocblas.so", "librocblas.so.0.1"))]
    names = ("rocm_sdk_core", "rocm_sdk_libraries_gfx110x_all", "rocm_sdk_devel", "rocm_profiler")
    wheels = {name: dist / f"{name}-{WHEEL}" for name in names}
    assert {name: metadata(wheel, "Name") for name, wheel in wheels.items()} == {
        "rocm_sdk_core": ["rocm-sdk-core"],
        "rocm_sdk_libraries_gfx110x_all": ["rocm-sdk-libraries-gfx110x-all"],
        "rocm_sdk_devel": ["rocm-sdk-devel"],
        "rocm_profiler": ["rocm-profiler"],
    }
    # No file is in two of them: whoever is uninstalled would take the other's away.
    owners = [name for wheel in wheels.values() for name in members(wheel)]
    assert len(owners) == len(set(owners))
    # The profilers name no package that they need; what brings them is rocm[profiler].
    assert metadata(wheels["rocm_profiler"], "Requires-Dist") == []


@row("FD-35")
def the_manifest_of_the_build_goes_with_core(world: World, row: Row) -> None:
    scene = family_packages(world)
    scene.of(row.id)
    place = scene.home / "therock" / RUN_ID / "artifacts/base_lib_generic"
    (manifest,) = place.rglob("share/therock/therock_manifest.json")
    assert json.loads(manifest.read_text()) == {"flags": {"KPACK_SPLIT_ARTIFACTS": False}}
    core = Path(str(scene.facts["dist"])) / f"rocm_sdk_core-{WHEEL}"
    with zipfile.ZipFile(core) as archive:
        kept = archive.read("_rocm_sdk_core/share/therock/therock_manifest.json")
    assert kept == manifest.read_bytes()
