"""ROCm inside the wheel: the documented script, for the torch of the Quickstart and for one of Windows."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from conformance.scenes.quickstart import SCRIPTS, VERSIONS, quickstart, requirements, wheel_of
from conformance.table import Row, row
from conformance.world import Shell, Transcript, World
from wheels import write_torch
from windows_tree import windows_prefix

TOOL = "python windows_patch_fat_wheel.py"
FAT = "2.9.0+rocm.devrocm5.2.3.dev0"
FAT_FOR_WINDOWS = "torch-2.9.0+rocm.rocm7.10.0-cp312-cp312-win_amd64.whl"
# What a torch for Windows looks for its DLLs with.
LOOP = "import os\n\ndll_paths = []\nfor dll_path in dll_paths:\n    os.add_dll_directory(dll_path)\n"
LOADED = """
import torch
print(torch.__version__, torch.mini_launch().name)
for line in open("/proc/self/maps"):
    if "/libamdhip64.so" in line or "/libhsa-runtime64.so" in line:
        print(line.split()[-1])
"""


def fat_wheel(world: World) -> Transcript:
    """What it leaves: fat wheels in ~/fat, an environment of them alone in ~/empty, another in ~/win."""

    def play(shell: Shell) -> dict[str, object]:
        before = quickstart(world).home
        shell("cd external-builds/pytorch")
        shell("source .venv/bin/activate", run=f"source {before / SCRIPTS}/.venv/bin/activate")
        shell(f"cp {before}/tmp/pyout/* $HOME/pyout/", run=f"cp -r {before}/tmp/pyout $HOME/pyout")
        shell(
            TOOL,
            "FD-21",
            more="$HOME/pyout/torch-*.whl $(rocm-sdk path --root) --output-path $HOME/fat/ "
            "--also $HOME/pyout/torchvision-*.whl $HOME/pyout/torchaudio-*.whl",
        )
        (shell.home / "loaded.py").write_text(LOADED)
        shell("python -m venv empty", "FD-21", run="python -m venv --without-pip $HOME/empty")
        pip = "python -m pip --python $HOME/empty/bin/python"
        shell("pip install fat/*.whl", "FD-21", run=f"{pip} install -q --no-index $HOME/fat/*")
        shell("python -c 'import torch'", "FD-21", run="env -i $HOME/empty/bin/python -I $HOME/loaded.py")
        files = {"torch/__init__.py": LOOP, "torch/_rocm_init.py": None}
        write_torch(shell.home / "win", tag="cp312-cp312-win_amd64", files=files)
        windows_prefix(shell.home / "rocwright/build/dist/rocm")
        shell(TOOL, "FD-20", more="$HOME/win/torch-*.whl ../../build/dist/rocm")
        return {}

    return world.scene("fat-wheel", play)


@row("FD-21")
def a_fat_wheel_runs_where_there_is_no_rocm(world: World, row: Row) -> None:
    scene = fat_wheel(world)
    *_, imported = scene.all_of(row.id)
    fat = scene.home / "fat"
    wheel = wheel_of(fat, "torch")
    assert wheel.name.split("-")[1] == FAT
    assert not [text for text in requirements(wheel) if text.startswith("rocm")]
    assert f"torch=={FAT}" in requirements(wheel_of(fat, "torchvision"))
    # The plain wheels stay as they were.
    assert sorted(path.name.split("-")[1] for path in (scene.home / "pyout").iterdir()) == sorted(
        VERSIONS.values()
    )
    said, *loaded = imported.out.splitlines()
    version, answer = said.split()
    # Without a GPU, HIP itself says so; with one, the kernel runs.
    assert version == FAT and answer in ("hipErrorNoDevice", "hipErrorInvalidDevice", "hipSuccess")
    assert {Path(path).name.split(".so")[0] for path in loaded} == {"libamdhip64", "libhsa-runtime64"}
    (site,) = (scene.home / "empty").glob("lib/python3*/site-packages")
    assert {Path(path).is_relative_to(site / "torch/lib/rocm") for path in loaded} == {True}


@row("FD-20")
def a_fat_wheel_for_windows_brings_its_dlls(world: World, row: Row) -> None:
    scene = fat_wheel(world)
    done = scene.of(row.id)
    assert re.search(r"no longer requires rocm\[libraries\]==7.10.0", done.out)
    wheel = scene.home / "win" / FAT_FOR_WINDOWS
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        init = archive.read("torch/__init__.py").decode()
    dlls = ("amdhip64_7", "amd_comgr0700", "hiprtc0700", "rocblas", "hipblas", "rocm-openblas")
    assert {f"torch/lib/rocm/bin/{name}.dll" for name in dlls} <= names
    assert "rocm" in init.partition("for dll_path in dll_paths:")[0]
    assert requirements(wheel) == []
