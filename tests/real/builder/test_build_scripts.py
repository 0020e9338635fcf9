"""The documented scripts build the demo's family against the distribution's ROCm, beside themselves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from real import sdk_index

FAMILY = ("pytorch", "pytorch_vision")


@pytest.fixture(scope="module")
def desk(newcomer, demo):
    """The directory of the scripts, with checkouts beside them, and an environment without ROCm."""
    scripts = newcomer.home / "desk/external-builds/pytorch"
    shutil.copytree(newcomer.clone / "external-builds/pytorch", scripts)
    for name in FAMILY:
        shutil.copytree(demo.work / "src" / name, scripts / name, symlinks=True)
    newcomer.own(newcomer.home / "desk")
    newcomer.run(newcomer.clone / ".venv/bin/python", "-m", "venv", newcomer.home / "desk/venv")
    yield scripts
    # Gigabytes, which nobody else needs.
    shutil.rmtree(newcomer.home / "desk")


def status(newcomer, tree: Path) -> str:
    return newcomer.run("git", "-C", tree, "status", "--porcelain").stdout


def test_the_quickstart(newcomer, demo, desk) -> None:
    # CL-09, with options on both sides of the sub-command.
    tool, venv = newcomer.clone / ".venv/bin/python", newcomer.home / "desk/venv"
    output = newcomer.home / "tmp/pyout"
    with sdk_index.serving(demo.work / "dist/rocm") as index:
        done = newcomer.run(
            *(tool, "build_prod_wheels.py", "--index-url", index.url, "build", "--install-rocm"),
            *("--output-dir", output),
            cwd=desk,
            VIRTUAL_ENV=str(venv),
            PYTORCH_ROCM_ARCH="gfx90a gfx906",
        )
    names = sorted(path.name.split("-")[0] for path in output.glob("*.whl"))
    assert names == ["torch", "torchvision"]
    assert "next: rocwright check" in done.stdout
    # All wheels are installed where ROCm is, and work there.
    said = newcomer.run(
        venv / "bin/python",
        *("-c", "import torch, torchvision; print(torch.version.hip, torch.cuda.get_arch_list())"),
        cwd=newcomer.home,
    ).stdout
    assert said.startswith("5.2")
    # CL-66.
    (torch,) = output.glob("torch-*.whl")
    required = newcomer.rocwright("wheel", "show", torch).stdout
    assert "rocm[libraries]==5.2.3" in required
    assert "{" not in required
    # CL-67: the generated module is in the wheel, and not in the tree.
    assert not (desk / "pytorch/torch/_rocm_init.py").exists()
    assert [status(newcomer, desk / name) for name in FAMILY] == ["", ""]


def test_a_dist_dir_of_the_callers(newcomer, demo, desk) -> None:
    # CL-45, CL-46, CL-47: no packages, a plain ROCm that CMAKE_PREFIX_PATH names.
    prefix, empty = demo.work / "rocm", newcomer.home / "desk/empty"
    newcomer.run(newcomer.clone / ".venv/bin/python", "-m", "venv", "--without-pip", empty)
    newcomer.run(
        *("bash", desk / "build_pytorch_windows.sh", "gfx90a", "--no-build-pytorch-vision"),
        *("--no-install-wheels", "--work-dir", newcomer.home / "desk/work"),
        cwd=newcomer.home,
        VIRTUAL_ENV=str(empty),
        PYTHON=str(newcomer.clone / ".venv/bin/python"),
        CMAKE_PREFIX_PATH=str(prefix),
        USE_KINETO="OFF",
    )
    (torch,) = (desk / "dist").glob("*.whl")
    assert "rocm[" not in newcomer.rocwright("wheel", "show", torch).stdout


def test_a_failing_compiler_s_exit_code_is_passed_on(newcomer, demo, desk) -> None:
    source = next((desk / "pytorch").rglob("*.hip"))
    before = source.read_text()
    source.write_text(before + "\n#error broken on purpose\n")
    work = newcomer.home / "desk/broken-work"
    try:
        done = newcomer.run(
            *(newcomer.clone / ".venv/bin/python", desk / "build_prod_wheels.py", "build"),
            *(
                "--rocm-prefix",
                demo.work / "rocm",
                "--pytorch-rocm-arch",
                "gfx90a",
                "--no-build-pytorch-vision",
            ),
            *("--output-dir", newcomer.home / "desk/broken", "--work-dir", work),
            ok=False,
            cwd=newcomer.home,
        )
    finally:
        source.write_text(before)
    # That of `python -m build`, not 7.
    assert done.returncode == 1
    assert "error (CommandFailed): command ended with exit code 1" in done.stderr
    assert "broken on purpose" in done.stderr
    assert f"log: {work}/log/" in done.stderr
    assert "-m build --wheel" in done.stderr
    assert list((newcomer.home / "desk/broken").glob("*.whl")) == []
    assert status(newcomer, desk / "pytorch") == ""
