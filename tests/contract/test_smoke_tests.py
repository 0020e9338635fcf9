"""`pytest -v smoke-tests` and `run_pytorch_smoke_tests.py` as documented; torch is a test double."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from miniature_pytorch import HIP_GPUS, write_torch

ROOT = Path(__file__).parents[2]
PYTORCH = ROOT / "external-builds/pytorch"
SCRIPT = PYTORCH / "run_pytorch_smoke_tests.py"
SMOKE = PYTORCH / "smoke-tests"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    folder = write_torch(tmp_path / "double", HIP_GPUS, ["gfx942", "gfx1100"])
    hidden = {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "AMDGPU_FAMILY"}
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**kept, "PYTHONPATH": str(folder)}


def call(environ: dict[str, str], cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *words], cwd=cwd, env=environ, capture_output=True, text=True
    )


def test_the_documented_line_reaches_pytest_on_each_architecture(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    done = call(environ, tmp_path, "--dry-run", "--json", "--", "--log-cli-level=INFO", "-v")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert [run["run"].split("-")[3] for run in plan] == ["cpu", "gfx942", "gfx1100"]
    assert all(run["pytest arguments"][-2:] == ["--log-cli-level=INFO", "-v"] for run in plan)


def test_the_family_comes_from_the_option_or_the_environment(tmp_path: Path, environ: dict[str, str]) -> None:
    for words, more in ((("--amdgpu-family=gfx110X-all",), {}), ((), {"AMDGPU_FAMILY": "gfx110X-all"})):
        done = call({**environ, **more}, tmp_path, "--dry-run", "--json", *words)
        assert [run["environment"]["HIP_VISIBLE_DEVICES"] for run in json.loads(done.stdout)] == ["", "1"]


def test_without_a_gpu_that_fits_the_exit_code_is_1(tmp_path: Path, environ: dict[str, str]) -> None:
    done = call({**environ, "AMDGPU_FAMILY": "gfx950-dcgpu"}, tmp_path)
    assert done.returncode == 1
    assert "no GPU to test on for gfx950-dcgpu" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_smoke_tests_need_nothing_but_torch_and_pytest() -> None:
    files = sorted(SMOKE.glob("*.py"))
    assert len(files) > 5
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "."]
            else:
                continue
            roots = {name.partition(".")[0] for name in names}
            assert roots <= {*sys.stdlib_module_names, "torch", "pytest"}, path


@pytest.mark.parametrize("folder", [SMOKE, ROOT / "examples/mini-pytorch/smoke-tests"])
def test_the_smoke_tests_have_a_root_of_their_own(folder: Path) -> None:
    # Otherwise the settings of whatever repository they lie in would hold for them.
    assert (folder / "pytest.ini").read_text().startswith("[pytest]")


def test_the_older_name_of_the_directory_leads_to_it() -> None:
    assert (PYTORCH / "smoketests").resolve() == SMOKE.resolve()


def test_the_older_name_is_told(tmp_path: Path) -> None:
    # No more of torch than the header of a report asks for.
    (tmp_path / "torch.py").write_text(
        "from types import SimpleNamespace as S\n"
        "__version__ = '2.9'\nversion = S(hip=None, cuda=None)\ncuda = S(is_available=lambda: False)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for name, told in (("smoketests", True), ("smoke-tests", False)):
        words = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", PYTORCH / name]
        done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert "torch 2.9, HIP None" in done.stdout, done.stdout
        assert ("warning: smoketests is the older name" in done.stdout) is told, done.stdout


@pytest.mark.parametrize(
    ("body", "outcomes"),
    [
        ("raise ModuleNotFoundError(f'ROCm library {names[0]!r} is not part of ROCm 6.4.3')", "sFF"),
        ("return ['/somewhere/libamd_smi.so']", "FFF"),
    ],
    ids=["a ROCm without it", "a ROCm with it"],
)
def test_only_what_this_rocm_does_not_have_may_be_missing(tmp_path: Path, body: str, outcomes: str) -> None:
    """Debian's ROCm has no amd_smi; the HIP runtime and hipBLAS are never excused."""
    files = {
        "torch/__init__.py": "import rocm_sdk\nfrom torch import __config__, version\n",
        "torch/version.py": "hip = '6.4.43484'\n",
        "torch/__config__.py": "def show():\n    return ''\n",
        "rocm_sdk.py": f"def find_libraries(*names):\n    {body}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    words = [
        "-m",
        "pytest",
        "-q",
        "--noconftest",
        "-p",
        "no:cacheprovider",
        "-k",
        "rocm_symbols",
        "-o",
        "addopts=",
    ]
    done = subprocess.run(
        [sys.executable, *words, SMOKE / "test_host_build.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split()[0] == outcomes, done.stdout
