"""What `rocwright check` shows a user: the demo's output is green, a torch built for the CPU only is red."""

from __future__ import annotations

import json
import shutil

import pytest

from real import mutations_good

VERSION = "2.9.0+rocm5.2.3"


@pytest.fixture(scope="module")
def cpu_only(demo, newcomer):
    """The demo's torch, built once more as a build goes that does not find ROCm; nothing else is wrong."""
    root = newcomer.home / "cpu-only"
    shutil.copytree(demo.work / "src/pytorch", root / "pytorch", symlinks=True)
    newcomer.own(root)
    (environment,) = (demo.work / "env").glob("cp3*")
    newcomer.run(
        *(environment / "bin/python", "setup.py", "-q", "bdist_wheel", "--dist-dir", root / "dist"),
        cwd=root / "pytorch",
        USE_ROCM="0",
        PYTORCH_BUILD_VERSION=VERSION,
        PYTORCH_EXTRA_INSTALL_REQUIREMENTS="rocm[libraries]==5.2.3|triton==3.5.0+rocm5.2.3",
    )
    (wheel,) = (root / "dist").glob("torch-*.whl")
    return wheel


def test_a_torch_built_for_the_cpu_only_is_red_with_the_fix(cpu_only, newcomer):
    done = newcomer.rocwright("check", cpu_only, ok=False)
    assert done.returncode == 9
    lines = done.stdout.splitlines()
    (at,) = (number for number, line in enumerate(lines) if "[torch-hip]" in line)
    assert "torch/version.py" in lines[at]
    assert "built for the CPU only" in lines[at]
    assert lines[at + 1].strip().startswith("next: ")
    assert "USE_ROCM" in lines[at + 1]


def test_it_lacks_the_code_of_each_gpu_that_was_asked_for(cpu_only, newcomer):
    done = newcomer.rocwright("check", cpu_only, "--targets", "gfx906,gfx90a", "--json", ok=False)
    assert done.returncode == 9
    found = {finding["rule"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert found["torch-hip"]["severity"] == "error"
    assert "gfx906" in found["device-missing"]["cause"]
    assert "gfx90a" in found["device-missing"]["cause"]


def test_the_output_of_the_demo_is_green(demo, newcomer):
    options = ["--targets", ",".join(mutations_good.TARGETS), "--set", demo.work / "dist/rocm"]
    done = newcomer.rocwright("check", demo.work / "dist/pytorch", *options)
    for project in mutations_good.TORCH:
        assert f"{project}-" in done.stdout
    assert "0 errors, 0 warnings" in done.stdout
    assert "error" not in done.stdout.replace("0 errors", "")
