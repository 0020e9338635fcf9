"""Packages of artifacts that lie on this machine, and of an older run into a workspace of one's own."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
import zipfile
from pathlib import Path

from conformance import rocm
from conformance.scenes.packages import VERSION, WHEEL, members, names
from conformance.table import Row, row
from conformance.world import Shell, Transcript, World
from windows_tree import windows_artifacts

OLDER = "17123441166"
# A `patchelf` that is found first and notes every call: the one of a distribution spoils split libraries.
PATCHELF = '#!/bin/sh\necho "$@" >>"$HOME/patchelf-calls"\nexit 1\n'


def local_packages(world: World) -> Transcript:
    """Artifacts of a build beside the sources, of an older run by a family, and of a build for Windows."""

    def play(shell: Shell) -> dict[str, object]:
        shell.world.activate(shell)
        shell.variables["ROCWRIGHT_STORE"] = str(rocm.store(world, OLDER, small=True))
        _spoil_patchelf(shell)
        built = rocm.artifacts(world, small=True)
        shutil.copytree(built, shell.cwd / "output-linux-portable/build/artifacts", symlinks=True)
        shell(
            "./build_tools/build_python_packages.py --artifact-dir ./output-linux-portable/build/artifacts "
            "--dest-dir ${HOME}/tmp/packages",
            *("CL-50", "FD-39", "FD-48"),
            more="--devel-tarball-compression",
        )
        _older_run(shell)
        _relative(shell)
        _versions(shell)
        return {"clone": str(shell.cwd)}

    return world.scene("local-packages", play)


def _spoil_patchelf(shell: Shell) -> None:
    place = shell.home / "programs"
    place.mkdir()
    (place / "patchelf").write_text(PATCHELF)
    (place / "patchelf").chmod(0o755)
    shell.variables["PATH"] = f"{place}:{shell.variables['PATH']}"


def _older_run(shell: Shell) -> None:
    shell("mkdir $HOME/.therock")
    shell(f"mkdir $HOME/.therock/{OLDER}", "CL-25", "FD-24")
    shell(f"mkdir $HOME/.therock/{OLDER}/artifacts", "CL-25", "FD-24")
    shell(
        f"python ./build_tools/fetch_artifacts.py --run-id={OLDER} --target=gfx110X-all "
        f"--output-dir=$HOME/.therock/{OLDER}/artifacts",
        *("CL-26", "FL-16", "FD-22", "FD-24"),
    )
    shell(
        f"python ./build_tools/build_python_packages.py --artifact-dir=$HOME/.therock/{OLDER}/artifacts "
        f"--dest-dir=$HOME/.therock/{OLDER}/packages",
        *("CL-27", "FL-16", "FD-23", "FD-24"),
    )
    # The same without the directories: they are made, and the other spelling of the option is as good.
    shell(
        f"python ./build_tools/fetch_artifacts.py --run-id={OLDER} --target=gfx110X-all "
        "--output-dir=$HOME/nowhere/yet/artifacts",
        *("CL-25", "FL-16"),
        run=f"python ./build_tools/fetch_artifacts.py --run-id {OLDER} --artifact-group GFX110x-all "
        "--output-dir $HOME/nowhere/yet/artifacts",
    )


def _relative(shell: Shell) -> None:
    shell(f"python ./build_tools/fetch_artifacts.py --run-id={OLDER}", "FD-25", "CL-28")
    shell(
        "python ./build_tools/build_python_packages.py --artifact-dir=build/artifacts "
        "--dest-dir=build/packages",
        *("CL-29", "FD-25", "CL-28", "FD-38"),
    )


def _versions(shell: Shell) -> None:
    shell(
        "python ./build_tools/build_python_packages.py --artifact-dir=build/artifacts --dest-dir=$HOME/fixed "
        "--version 7.10.0.dev0+efed3c",
        *("CL-70", "FL-17"),
    )
    windows_artifacts(shell.home / "windows", split=False)
    shell(
        "python ./build_tools/build_python_packages.py --artifact-dir=$HOME/windows "
        "--dest-dir=$HOME/for-windows --version=7.12.0.dev0",
        *("CL-70", "FL-17", "FD-41", "FD-42", "FD-43", "NM-21"),
    )
    for kind, release in (("dev", "7.10.0"), ("nightly", "7.12.0")):
        shell(
            f"python build_tools/compute_rocm_package_version.py --release-type {kind}",
            *("FD-34", "NM-21"),
            more=f"--override-base-version {release} --override-git-sha efed3c3b10a5cce8 --date 20251124",
        )


@row("CL-50", "FD-39")
def a_local_build_s_artifacts_become_packages(world: World, row: Row) -> None:
    scene = local_packages(world)
    assert scene.of(row.id).line.startswith("./build_tools/")
    dist = scene.home / "tmp/packages/dist"
    families = ("gfx110x_all", "gfx94x_dcgpu", "gfx120x_all")
    assert names(dist) == {
        f"rocm-{VERSION}.tar.gz",
        f"rocm_sdk_core-{WHEEL}",
        f"rocm_sdk_devel-{WHEEL}",
        f"rocm_profiler-{WHEEL}",
        *(f"rocm_sdk_libraries_{family}-{WHEEL}" for family in families),
    }
    # Asked for smaller: the payload of the development files is the other documented one.
    devel = members(dist / f"rocm_sdk_devel-{WHEEL}")
    assert "rocm_sdk_devel/_devel.tar.xz" in devel
    assert "rocm_sdk_devel/_devel.tar" not in devel


@row("FD-48")
def no_patchelf_of_the_machine_is_used(world: World, row: Row) -> None:
    """The document warns of a distribution's patchelf; here none is called, and the guide says so."""
    scene = local_packages(world)
    scene.of(row.id)
    assert not (scene.home / "patchelf-calls").exists()
    guide = (Path(str(scene.facts["clone"])) / "docs/environment_setup_guide.md").read_text()
    assert "\n## patchelf\n" in guide


@row("CL-25", "CL-26", "FD-24")
def an_older_run_is_fetched_by_its_target(world: World, row: Row) -> None:
    scene = local_packages(world)
    scene.of(row.id)
    made = scene.home / ".therock" / OLDER / "artifacts"
    found = {path.name for path in made.iterdir() if path.is_dir()}
    assert {"base_lib_generic", "blas_lib_gfx110X-all", "miopen_lib_gfx110X-all"} <= found
    assert not [name for name in found if "gfx94X" in name or "gfx120X" in name]
    # Without `mkdir`, and with the other name of the option, the same comes about.
    other = scene.home / "nowhere/yet/artifacts"
    assert {path.name for path in other.iterdir() if path.is_dir()} == found


@row("CL-27")
def its_packages_lie_beside_its_artifacts(world: World, row: Row) -> None:
    scene = local_packages(world)
    scene.of(row.id)
    assert names(scene.home / ".therock" / OLDER / "packages/dist") == {
        f"rocm-{VERSION}.tar.gz",
        f"rocm_sdk_core-{WHEEL}",
        f"rocm_sdk_libraries_gfx110x_all-{WHEEL}",
        f"rocm_sdk_devel-{WHEEL}",
        f"rocm_profiler-{WHEEL}",
    }


@row("CL-28", "CL-29", "FD-25")
def paths_of_a_local_build_are_the_defaults(world: World, row: Row) -> None:
    """ROCm's own build fills build/artifacts; fetching fills it too where nothing else is said."""
    scene = local_packages(world)
    clone = Path(str(scene.facts["clone"]))
    done = scene.of(row.id)
    assert done.cwd == str(clone)
    assert (clone / "build/artifacts/blas_lib_gfx94X-dcgpu/artifact_manifest.txt").is_file()
    assert f"rocm_sdk_libraries_gfx94x_dcgpu-{WHEEL}" in names(clone / "build/packages/dist")


@row("FD-38")
def the_sdist_says_which_family_it_falls_back_to(world: World, row: Row) -> None:
    scene = local_packages(world)
    scene.of(row.id)
    sdist = Path(str(scene.facts["clone"])) / f"build/packages/dist/rocm-{VERSION}.tar.gz"
    with tarfile.open(sdist) as archive:
        (name,) = [name for name in archive.getnames() if name.endswith("/rocm_set.json")]
        found = json.load(archive.extractfile(name))
    assert set(found["families"]) == {"gfx110X-all", "gfx120X-all", "gfx94X-dcgpu"}
    assert found["default_family"] == "gfx110X-all"


@row("CL-70", "FL-17")
def a_version_can_be_fixed(world: World, row: Row) -> None:
    scene = local_packages(world)
    local, plain = scene.all_of(row.id)
    assert "--version 7.10" in local.line
    assert "--version=7.12" in plain.line
    fixed = names(scene.home / "fixed/dist")
    assert "rocm-7.10.0.dev0+efed3c.tar.gz" in fixed
    assert "rocm_sdk_core-7.10.0.dev0+efed3c-py3-none-linux_x86_64.whl" in fixed
    assert {name.split("-")[1].removesuffix(".tar.gz") for name in fixed} == {"7.10.0.dev0+efed3c"}


WINDOWS = {
    "FD-41": "rocm_sdk_core-7.12.0.dev0-py3-none-win_amd64.whl",
    "FD-42": "rocm_sdk_devel-7.12.0.dev0-py3-none-win_amd64.whl",
    "FD-43": "rocm_sdk_libraries_gfx110x_all-7.12.0.dev0-py3-none-win_amd64.whl",
}


@row(*WINDOWS)
def packages_for_windows_have_the_printed_names(world: World, row: Row) -> None:
    scene = local_packages(world)
    scene.of(row.id)
    dist = scene.home / "for-windows/dist"
    assert names(dist) == {*WINDOWS.values(), "rocm-7.12.0.dev0.tar.gz"}
    with zipfile.ZipFile(dist / WINDOWS[row.id]) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/WHEEL")]
        assert "Tag: py3-none-win_amd64" in archive.read(name).decode().splitlines()


@row("FD-34", "NM-21")
def versions_are_computed_in_their_documented_forms(world: World, row: Row) -> None:
    dev, nightly = [done for done in local_packages(world).all_of(row.id) if "compute_rocm" in done.line]
    assert "rocm_package_version=7.10.0.dev0+efed3c3b10a5cce8\n" in dev.out
    assert "rocm_package_version=7.12.0a20251124\n" in nightly.out


@row("FL-16", "FD-22")
def the_tools_take_every_documented_option(world: World, row: Row) -> None:
    """Both spellings of a value and both names of the group; what came of each is looked at above."""
    scene = local_packages(world)
    lines = " ".join(done.line for done in [*scene.all_of(row.id), scene.of("CL-50")])
    wanted = {
        "FL-16": ("--run-id=", "--run-id ", "--target=", "--artifact-group ", "--artifact-dir=",
                  "--artifact-dir ", "--dest-dir=", "--dest-dir "),
        "FD-22": ("./build_tools/fetch_artifacts.py",),
    }  # fmt: skip
    assert [word for word in wanted[row.id] if word not in lines] == []
    assert all(done.code == 0 for done in scene.all_of(row.id))


@row("FD-23")
def the_script_packages_what_it_is_given(world: World, row: Row) -> None:
    """Of the artifacts of one family: what it says, what it leaves, and that each file is in a package."""
    scene = local_packages(world)
    done = scene.of(row.id)
    place = scene.home / ".therock" / OLDER
    assert done.line.startswith(
        "python ./build_tools/build_python_packages.py --artifact-dir=$HOME/.therock/"
    )
    assert {path.name for path in place.iterdir()} == {"artifacts", "packages"}
    dist = place / "packages/dist"
    assert [path.name for path in (place / "packages").iterdir()] == ["dist"]
    # The table lists every file of dist with its size, and pip's line names the directory and version.
    assert done.out.splitlines()[0] == f"ROCm {VERSION} for gfx110X-all"
    rows = re.findall(r"^ *([0-9.]+ [kM]?B) .* (rocm\S+)$", done.out, re.MULTILINE)
    listed = {name: size for size, name in rows}
    assert listed == {name: _size(dist / name) for name in names(dist)} and len(listed) == 5
    assert f'pip install --find-links {dist} "rocm[libraries,devel]=={VERSION}"' in done.out
    # What device libraries load lies in the package of the family as it lay in the artifact; of libraries,
    # which are told where to look for others, the name that a loader asks for.
    libraries = dist / f"rocm_sdk_libraries_gfx110x_all-{WHEEL}"
    blas, miopen = (place / "artifacts" / f"{name}_lib_gfx110X-all" for name in ("blas", "miopen"))
    data = [path for path in [*_files(blas), *_files(miopen)] if ".so" not in path.name]
    assert {path.suffix for path in data} == {".dat", ".co", ".kdb", ".txt"}
    with zipfile.ZipFile(libraries) as archive:
        packed = {Path(name).name: name for name in archive.namelist() if ".dist-info/" not in name}
        assert {path.name: archive.read(packed[path.name]) for path in data} == {
            path.name: path.read_bytes() for path in data
        }
    assert {"librocblas.so.0", "libMIOpen.so.1", "libhipblas.so.0"} <= packed.keys()
    assert "libamdhip64.so" not in " ".join(packed)


def _files(artifact: Path) -> list[Path]:
    """What an artifact holds, without its manifest."""
    return [path for path in artifact.rglob("*") if path.is_file() and path.parent != artifact]


def _size(path: Path) -> str:
    """A file's size as the table has it."""
    return f"{path.stat().st_size / 1000:.1f} kB"
