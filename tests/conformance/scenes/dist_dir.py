"""The older document: ROCm is a plain tree in build/dist/rocm, and one script checks out and builds all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from conformance import origins, rocm
from conformance.scenes.quickstart import (
    install_as_told,
    requirements,
    targets_of,
    torch_env,
    torch_log,
    wheel_of,
)
from conformance.table import Row, row
from conformance.world import Shell, Transcript, World

FAMILY = ("apex", "torch", "torchaudio", "torchvision", "triton")
TARGETS = ("gfx1030", "gfx1100")
TORCH_ALONE = "--no-build-triton --no-build-pytorch-audio --no-build-pytorch-vision --no-build-apex"


def build_rocm(world: World, dist: Path) -> None:
    """What building the target therock-dist leaves: all artifacts over one another, and what they are for."""
    for one in sorted(rocm.artifacts(world).iterdir()):
        if one.name.endswith(("_generic", "_gfx110X-all")):
            for stage in (one / "artifact_manifest.txt").read_text().split():
                copied = {"symlinks": True, "dirs_exist_ok": True, "copy_function": os.link}
                shutil.copytree(one / stage, dist, **copied)
    # None of the artifacts has it, so this is a file of its own among links.
    assert not (dist / "share/therock/dist_info.json").exists()
    said = {"dist_amdgpu_targets": ";".join(TARGETS)}
    (dist / "share/therock/dist_info.json").write_text(json.dumps(said))


def dist_dir(world: World) -> Transcript:
    """What it leaves: all five checkouts beside the scripts, wheels in dist/, torch in place of its tree."""

    def play(shell: Shell) -> dict[str, object]:
        origins.turn_to(shell)
        build_rocm(shell.world, shell.cwd / "build/dist/rocm")
        shell("cd external-builds/pytorch")
        shell("python -m venv .venv", "CL-01")
        shell("source .venv/bin/activate", "CL-01")
        install_as_told(shell, shell("python pytorch_torch_repo.py checkout", code=1))
        shell("./checkout_and_build_all.sh", "CL-42", "FD-29", "FD-30")
        shutil.copytree(shell.cwd / "dist", shell.home / "all")
        shutil.copy(torch_log(shell.cwd / "dist-work"), shell.home / "all.log")
        shell("python pytorch_torch_repo.py checkout")
        shell("pip install -r pytorch/requirements.txt", "CL-43", "FD-31")
        shell('export CMAKE_PREFIX_PATH="$(realpath ../../build/dist/rocm)"', "CL-45")
        plan = f"python build_prod_wheels.py build {TORCH_ALONE} --output-dir dist --dry-run --json"
        shell("USE_KINETO=OFF", "CL-45", "CL-46", "FD-29", run=f"USE_KINETO=OFF {plan}")
        shell("CMAKE_PREFIX_PATH", "CL-45", "CL-43", "FD-31", run=f"CMAKE_PREFIX_PATH=/nowhere {plan}")
        shell(
            "(cd src && USE_KINETO=OFF python setup.py develop)",
            "CL-46",
            run="USE_KINETO=OFF python build_prod_wheels.py build --editable torch --output-dir dist",
            more=TORCH_ALONE,
        )
        shutil.copy(torch_log(shell.cwd / "dist-work"), shell.home / "editable.log")
        shell("python -c 'import torch; print(torch.__file__)'", "CL-46",
              env={"LD_LIBRARY_PATH": f"{shell.home}/rocwright/build/dist/rocm/lib"})  # fmt: skip
        _the_script_with_targets(shell)
        return {}

    return world.scene("dist-dir", play)


def _the_script_with_targets(shell: Shell) -> None:
    """Its plan, that of the builder with the same targets, and a torch."""
    plan = "--dry-run --json"
    shell("bash build_pytorch_windows.sh gfx1100", "CL-47", more=plan)
    builder = "python build_prod_wheels.py build --pytorch-rocm-arch gfx1100 --output-dir dist"
    shell("--pytorch-rocm-arch gfx1100", "CL-47", run=builder, more=plan)
    shell("bash build_pytorch_windows.sh gfx1100", "CL-47", "FD-30", "NM-12", more=TORCH_ALONE)


# -- what it left --------------------------------------------------------------------------------------------


def _scripts(scene: Transcript) -> Path:
    return scene.home / "rocwright/external-builds/pytorch"


def _rocm(scene: Transcript) -> str:
    return str(scene.home / "rocwright/build/dist/rocm")


@row("CL-42")
def one_script_checks_out_and_builds_all(world: World, row: Row) -> None:
    scene = dist_dir(world)
    done = scene.of(row.id)
    wheels = scene.home / "all"
    assert sorted(path.name.split("-")[0] for path in wheels.iterdir()) == list(FAMILY)
    for project in ("torch", "torchaudio", "torchvision", "apex"):
        assert targets_of(wheel_of(wheels, project)) == set(TARGETS)
    # A plain ROCm has no packages that wheels could require.
    assert not [text for path in wheels.iterdir() for text in requirements(path) if text.startswith("rocm")]
    log = ["git", "-C", str(_scripts(scene) / "pytorch"), "log", "--format=%D", "-2"]
    tags = subprocess.run(log, capture_output=True, text=True, check=True).stdout
    assert "THEROCK_HIPIFY_DIFFBASE" in tags and "THEROCK_UPSTREAM_DIFFBASE" in tags
    assert "next: rocwright check" in done.out


@row("FD-29", "FD-30")
def rocm_is_taken_from_its_build_directory(world: World, row: Row) -> None:
    scene = dist_dir(world)
    typed = scene.all_of(row.id)
    assert typed[0].line == "./checkout_and_build_all.sh"
    # Nothing had named it then: no option, no variable.
    assert f"the wheels need the ROCm of {_rocm(scene)} where they run" in typed[0].err
    if row.id == "FD-29":
        environment = torch_env(typed[1])
        assert environment["ROCM_PATH"] == environment["ROCM_HOME"] == _rocm(scene)
        assert environment["PATH"].split(":")[0] == f"{_rocm(scene)}/bin"
    else:
        assert "build_pytorch_windows.sh" in typed[1].line


@row("CL-41")
def a_rocm_built_from_source_says_what_it_is_for(world: World, row: Row) -> None:
    scene = dist_dir(world)
    plan = json.loads(scene.all_of("FD-29")[1].out)
    assert plan["rocm"]["root"] == _rocm(scene) and plan["rocm"]["origin"] == "prefix"
    # No option named targets.
    assert plan["targets"] == list(TARGETS)


@row("NM-13")
def the_page_names_the_target_that_makes_the_directory(world: World, row: Row) -> None:
    page = " ".join((world.clone() / "docs/how-to/build-wheels.md").read_text().split())
    assert (
        "`build/dist/rocm` of this repository, where `cmake --build build --target therock-dist` puts it"
        in page
    )


@row("CL-43", "FD-31")
def the_builder_installs_the_requirements_itself(world: World, row: Row) -> None:
    scene = dist_dir(world)
    by_hand, plan = scene.all_of(row.id)
    assert by_hand.line == "pip install -r pytorch/requirements.txt"
    (torch,) = json.loads(plan.out)["builds"]
    assert torch["requirements_files"] == ["requirements.txt"]
    file = _scripts(scene) / "pytorch/requirements.txt"
    assert origins.REQUIREMENT in file.read_text()
    log = (scene.home / "all.log").read_text()
    assert f"-r {file}" in log and f"Collecting {origins.REQUIREMENT}" in log


@row("CL-45")
def the_rocm_that_the_caller_names_is_taken(world: World, row: Row) -> None:
    scene = dist_dir(world)
    exported, exclusively, beside = scene.all_of(row.id)
    assert exported.line == 'export CMAKE_PREFIX_PATH="$(realpath ../../build/dist/rocm)"'
    named = torch_env(exclusively)
    first, *others = named["CMAKE_PREFIX_PATH"].split(":")
    assert first == f"{_rocm(scene)}/lib/cmake" and set(others) == {_rocm(scene)}
    assert named["ROCM_PATH"] == _rocm(scene)
    # What is no ROCm is kept for CMake, behind the ROCm that is there.
    assert torch_env(beside)["CMAKE_PREFIX_PATH"].split(":") == [first, _rocm(scene), "/nowhere"]


@row("CL-46")
def the_tree_is_installed_in_place_without_kineto(world: World, row: Row) -> None:
    scene = dist_dir(world)
    plan, done, imported = scene.all_of(row.id)
    assert torch_env(plan)["USE_KINETO"] == "OFF"
    assert "USE_KINETO=OFF " in (scene.home / "editable.log").read_text()
    assert "no wheel is made" in done.err
    assert imported.out.strip() == str(_scripts(scene) / "pytorch/torch/__init__.py")


@row("CL-47", "NM-12")
def the_script_for_windows_is_the_builder_with_targets(world: World, row: Row) -> None:
    scene = dist_dir(world)
    built = scene.of(row.id)
    wheel = wheel_of(_scripts(scene) / "dist", "torch")
    assert built.code == 0 and targets_of(wheel) == {"gfx1100"}
    if row.id == "CL-47":
        script, builder, _ = scene.all_of(row.id)
        assert json.loads(script.out) == json.loads(builder.out)
        assert json.loads(script.out)["targets"] == ["gfx1100"]
