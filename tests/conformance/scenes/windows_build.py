"""What the documents do on Windows: plans made here, in directories of the documented names."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import msgspec

from conformance.scenes.fat_wheel import FAT_FOR_WINDOWS, fat_wheel
from conformance.table import Row, row
from conformance.world import ROOT, Shell, Transcript, World
from rocwright.builder.before.host import HostFacts, Python
from rocwright.builder.before.obstacles import find_problems
from rocwright.builder.decide.family import FamilyPlan
from rocwright.system.interpreters import Interpreter
from unit.builder.before.test_before_problems import host

FOLDERS = {"pytorch": "pytorch", "audio": "pytorch_audio", "vision": "pytorch_vision"}
PLAN = "--platform windows --pytorch-rocm-arch gfx1100 --dry-run --json"
NINJA = "https://github.com/ninja-build/ninja/releases/tag/v1.13.1"
SPACES = "https://github.com/pytorch/vision/issues/9165"
QUICKSTART = r"""python build_prod_wheels.py build ^
    --install-rocm --index-url https://rocm.nightlies.amd.com/v2/gfx110X-all/ ^
    --pytorch-dir C:/b/pytorch ^
    --pytorch-audio-dir C:/b/audio ^
    --pytorch-vision-dir C:/b/vision ^
    --output-dir %HOME%/tmp/pyout"""
DIRECTORIES = "--pytorch-dir C:/b/pytorch --pytorch-vision-dir C:/b/vision --output-dir out"


def windows_build(world: World) -> Transcript:
    """What it leaves: plans, and what the builder says of an environment that Windows laid out."""

    def play(shell: Shell) -> dict[str, object]:
        shell.world.activate(shell)
        shell("cd external-builds/pytorch")
        for name, source in FOLDERS.items():
            shutil.copytree(ROOT / "examples/mini-pytorch" / source, shell.cwd / "C:/b" / name)
        joined = re.sub(r"\s*\^\n\s*", " ", QUICKSTART).replace("%HOME%", "$HOME")
        shell(QUICKSTART, "CL-10", run=joined, more=PLAN)
        for id_, option in (
            ("FL-06", "--enable-pytorch-flash-attention-windows"),
            ("FL-06", "--enable-pytorch-flash-attention"),
            ("FL-06", "--no-enable-pytorch-flash-attention-windows"),
            ("NM-10", "--enable-pytorch-flash-attention --use-ccache"),
        ):
            shell(option, id_, run=f"python build_prod_wheels.py build {option} {DIRECTORIES} {PLAN}")
        _an_environment(shell)
        return {}

    return world.scene("windows-build", play)


def _an_environment(shell: Shell) -> None:
    """As `python -m venv` and activate.bat leave it there: programs in Scripts, VIRTUAL_ENV set."""
    shell("python -m venv .venv", "CL-02", run="python -m venv --without-pip .venv")
    (shell.cwd / ".venv/bin").rename(shell.cwd / ".venv/Scripts")
    (shell.cwd / ".venv/Scripts/python.exe").symlink_to("python")
    active = {"VIRTUAL_ENV": str(shell.cwd / ".venv")}
    refused = "python build_prod_wheels.py build --pytorch-rocm-arch gfx1100 --pytorch-dir C:/b/pytorch"
    shell(r".venv\Scripts\activate.bat", "CL-02", run=f"{refused} --output-dir out", env=active, code=12)


# -- what it left --------------------------------------------------------------------------------------------


def _builds(text: str) -> dict[str, dict[str, Any]]:
    return {build["project"]: build for build in json.loads(text)["builds"]}


def _problems(world: World, **facts: Any) -> list[str]:
    """What stands in the way of the plan with flash attention, on a Windows machine with these facts."""
    plan = msgspec.json.decode(windows_build(world).all_of("FL-06")[0].out, type=FamilyPlan)
    machine: HostFacts = host(platform="windows", system="windows", **facts)
    return [str(problem) for problem in find_problems(plan, machine)]


def _python(world: World, path: str, version: str = "") -> dict[str, Python]:
    name = _builds(windows_build(world).all_of("FL-06")[0].out)["torch"]["python"]
    found = Interpreter(
        path=path, version=version or name, full=f"{name}.1", include=r"C:\include", has_headers=True
    )
    return {name: Python(found, headers=True, venv=True)}


@row("CL-02")
def the_builder_knows_an_environment_that_windows_laid_out(world: World, row: Row) -> None:
    scene = windows_build(world)
    _, refused = scene.all_of(row.id)
    environment = scene.home / "rocwright/external-builds/pytorch/.venv"
    assert not (environment / "bin").exists()
    # It was asked what it has, which only its own interpreter can tell.
    assert f"no ROCm to build against: {environment} has no ROCm packages" in refused.err


@row("CL-10")
def the_given_directories_are_built_in_order(world: World, row: Row) -> None:
    scene = windows_build(world)
    plan = json.loads(scene.of(row.id).out)
    builds = _builds(scene.of(row.id).out)
    assert plan["platform"] == "windows" and plan["targets"] == ["gfx1100"]
    assert list(builds) == ["torch", "torchaudio", "torchvision"]
    short = scene.home / "rocwright/external-builds/pytorch/C:/b"
    assert [Path(build["tree"]).relative_to(short).name for build in builds.values()] == list(FOLDERS)
    torch = builds["torch"]["env"]
    assert torch["CC"].endswith("clang-cl.exe") and torch["DISTUTILS_USE_SDK"] == "1"
    assert torch["PYTORCH_EXTRA_INSTALL_REQUIREMENTS"] == "rocm[libraries]==${ROCM_VERSION}"
    assert not (scene.home / "tmp").exists()


@row("FL-06")
def the_older_spelling_switches_flash_attention_on(world: World, row: Row) -> None:
    older, newer, off = windows_build(world).all_of(row.id)
    assert json.loads(older.out) == json.loads(newer.out)
    seen = [_builds(done.out)["torch"]["env"]["USE_FLASH_ATTENTION"] for done in (older, off)]
    assert seen == ["1", "0"]
    assert "--enable-pytorch-flash-attention-windows is deprecated" in older.err
    refused = [text for text in _problems(world, ninja="1.13.0") if "ninja" in text]
    assert (
        len(refused) == 1 and "needs ninja 1.13.1 or newer on Windows, and this one is 1.13.0" in refused[0]
    )


@row("UR-21", "AU-041")
def an_older_ninja_is_refused_with_the_address_of_the_right_one(world: World, row: Row) -> None:
    assert NINJA in row.item
    (refused,) = (text for text in _problems(world, ninja="1.12.9") if "ninja" in text)
    assert NINJA in refused
    assert not [text for text in _problems(world, ninja="1.13.1") if "ninja" in text]


@row("FD-11", "UR-20")
def a_python_in_a_path_with_a_space_is_told(world: World, row: Row) -> None:
    system = _python(world, r"C:\Program Files\Python312\python.exe")
    own = _python(world, r"C:\Users\me\AppData\Local\Programs\Python\Python312\python.exe")
    (told,) = (text for text in _problems(world, pythons=system) if "spaces" in text)
    assert SPACES in told and "install Python for the current user only" in told
    assert not [text for text in _problems(world, pythons=own) if "spaces" in text]


@row("NM-10")
def requirements_and_troubles_are_told(world: World, row: Row) -> None:
    done = windows_build(world).of(row.id)
    (note,) = (text for text in json.loads(done.out)["notes"] if "ccache" in text)
    assert "aotriton" in note and '"invalid argument"' in note and "without --use-ccache" in note
    assert [text for text in _problems(world, ninja="1.13.0") if "1.13.1" in text]
    old = _problems(world, pythons=_python(world, r"C:\Python39\python.exe", "3.9"))
    assert [text for text in old if "is Python 3.9; wheels are built for 3.10 to 3.15" in text]
    new = _problems(world, pythons=_python(world, r"C:\Python311\python.exe", "3.11"))
    assert not [text for text in new if "wheels are built for" in text]


@row("CL-44")
def torch_is_built_with_the_blas_of_rocm(world: World, row: Row) -> None:
    torch = _builds(windows_build(world).all_of("CL-10")[0].out)["torch"]
    assert torch["env"]["BLAS"] == "OpenBLAS"
    assert torch["env"]["OpenBLAS_HOME"] == "${ROCM_ROOT}/lib/host-math"
    files = [Path(torch["tree"]) / name for name in torch["requirements_files"]]
    wanted = [*torch["requirements"], *map(Path.read_text, files)]
    assert not [text for text in wanted if "mkl" in text.lower()]
    page = (ROOT / "docs/how-to/build-wheels.md").read_text()
    assert "mkl-static" in page


@row("CL-48")
def dlls_are_found_without_path(world: World, row: Row) -> None:
    torch = _builds(windows_build(world).all_of("CL-10")[0].out)["torch"]
    # With ROCm's packages, torch asks them to load their libraries before its own are.
    init = torch["generated"]["torch/_rocm_init.py"].replace('"', "'")
    assert "rocm_sdk.initialize_process(" in init and "'amdhip64'" in init
    # In a fat wheel they lie beside torch's own; for a plain ROCm the page has the line.
    wheel = fat_wheel(world).home / "win" / FAT_FOR_WINDOWS
    with zipfile.ZipFile(wheel) as archive:
        assert "torch/lib/rocm/bin/amdhip64_7.dll" in archive.namelist()
    page = (ROOT / "docs/how-to/build-wheels.md").read_text()
    assert r"set PATH=..\..\build\dist\rocm\bin;%PATH%" in page
