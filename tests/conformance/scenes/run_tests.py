"""PyTorch's tests by run_pytorch_tests.py, all of the default list, on a miniature PyTorch and its torch.

The machine has three GPUs of two targets. On the one a test fails as the entry says that ships for it, on
the other one that only an entry of the user's own knows.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from conformance.table import Row, row
from conformance.world import Shell, Transcript, World
from contract.test_image import DOCUMENTED, NAME, instructions
from miniature_pytorch import make_checkout, make_torch

GPUS = ("gfx1201", "gfx950", "gfx1201")
# The test and the version of a skip entry that ships: it holds on gfx120X.
KNOWN = "TestNN::test_cudnn_rnn_dropout_states_device"
_NN = """
import unittest
import torch

TARGET = torch.cuda.get_device_properties(0).gcnArchName.partition(":")[0]


class TestNN(unittest.TestCase):
    def test_linear(self): pass
    def test_dropout(self): pass
    def test_cudnn_rnn_dropout_states_device(self): self.assertNotEqual(TARGET, "gfx1201")
    def test_conv(self): self.assertNotEqual(TARGET, "gfx950")
"""
# Notes what it sees, and the options that pytest was given.
_TORCH = """
import json, os
import torch

NAMES = ("PYTORCH_TEST_WITH_ROCM", "PYTORCH_TESTING_DEVICE_ONLY_FOR", "HIP_VISIBLE_DEVICES")


def test_sees(request):
    option = request.config.option
    seen = {name: os.environ.get(name) for name in NAMES}
    seen["target"] = torch.cuda.get_device_properties(0).gcnArchName.partition(":")[0]
    seen["gpus"] = torch.cuda.device_count()
    seen["importmode"], seen["verbose"] = option.importmode, option.verbose
    seen["continues"] = option.continue_on_collection_errors
    with open(os.environ["SEEN"], "a") as stream:
        stream.write(json.dumps(seen) + "\\n")
"""
_CUDA = """
import os
if "BROKEN" in os.environ:
    import no_such_module


def test_cuda(): pass
"""
_ONE = "def test_{name}(): pass\n"
VARIABLES = {
    "AMDGPU_FAMILY": "gfx95X-dcgpu",
    "PYTORCH_VERSION": "2.9",
    "HIP_VISIBLE_DEVICES": "2",
    "THEROCK_ROOT_DIR": "/nowhere",
}
ELSEWHERE = "def test_of_the_other_directory(): pass\n"
OWN = """
[[skips.entry]]
id = "conv-gfx950"
tests = ["test_nn.py::TestNN::test_conv"]
where = { targets = ["gfx950"] }
kind = "xfail"
reason = "a miniature reason"
added = 2026-01-05
"""


def run_tests(world: World) -> Transcript:
    """The section of the full tests, in a directory with a checkout beside the script."""

    def play(shell: Shell) -> dict[str, object]:
        shell.world.activate(shell)
        shell.cwd = shell.cwd / "external-builds/pytorch"
        double = make_torch(shell.home / "torch", version="2.7.1+rocm7.10.0", targets=GPUS)
        shell.variables["PYTHONPATH"] = str(double)
        shell.variables["SEEN"] = str(shell.home / "seen")
        _checkout(shell.cwd / "pytorch")
        _checkout(shell.home / "tmp/pytorch", test_autograd=ELSEWHERE)
        shell.local["/tmp/pytorch"] = str(shell.home / "tmp/pytorch")
        _documented(shell)
        return {"plans": _plans(shell)}

    return world.scene("run-pytorch-tests", play)


def _checkout(root: Path, **more: str) -> None:
    names = ("unary_ufuncs", "binary_ufuncs", "autograd")
    tests = {f"test_{name}.py": _ONE.format(name=name) for name in names}
    tests |= {"test_nn.py": _NN, "test_torch.py": _TORCH, "test_cuda.py": _CUDA}
    tests |= {"run_test.py": "OPTIONS = ()\n"}
    make_checkout(root, {**tests, **{f"{name}.py": text for name, text in more.items()}}, version="2.7.1")


def _documented(shell: Shell) -> None:
    plain = "python run_pytorch_tests.py"
    shell(plain, "CL-18", "FD-18", "EV-04", more="--reports-dir reports-shipped", code=1)
    shell.cwd.joinpath("rocwright.toml").write_text(OWN)
    shell(plain, "CL-18", "FD-18", "EV-04")
    passed = f"{plain} -- --continue-on-collection-errors --import-mode=importlib -v"
    behind = passed.replace(" -- ", " --reports-dir reports-behind -- ")
    shell(passed, "CL-19", run=behind, env={"SEEN": str(shell.home / "behind")})
    shell(passed, "CL-19", run=behind.replace("behind", "broken"), env={"BROKEN": "1"}, code=1)
    shell(f'{plain} -k "test_nn and not test_dropout"', "CL-20", more="--reports-dir reports-k", code=1)
    gfx950 = f"{plain} --pytorch-dir=/tmp/pytorch --amdgpu-family=gfx950"
    shell(gfx950, "CL-21", "FD-26", more="--reports-dir reports-950")


def _plans(shell: Shell) -> dict[str, list]:
    """What runs with each variable, by its name."""
    plain = "python run_pytorch_tests.py --dry-run --json"
    plans = {"none": json.loads(shell(plain, "EV-13").out)}
    for name, value in VARIABLES.items():
        plans[name] = json.loads(shell(f"{name}={value} {plain}", "EV-13").out)
    of_option = shell(f"{plain} --amdgpu-family=gfx950")
    others = {
        suite: shell(f"python run_pytorch_{suite}.py --dry-run --json", "EV-04")
        for suite in ("tests_full", "smoke_tests")
    }
    return {**plans, **{name: json.loads(done.out) for name, done in {**others, "family": of_option}.items()}}


def verdicts(scene: Transcript, reports: str, target: str) -> dict[str, str]:
    """What each test of a run came to, by its id."""
    place = scene.home / "rocwright/external-builds/pytorch" / reports
    (path,) = place.glob(f"*-{target}-1of1/results.json")
    return {one["id"]: one["verdict"] for one in json.loads(path.read_text())["results"]}


def seen(scene: Transcript, name: str = "seen") -> list[dict]:
    """What the tests saw, in order."""
    return [json.loads(line) for line in (scene.home / name).read_text().splitlines()]


# The whole default list, where nothing fails.
ALL = {
    "test_nn.py::TestNN::test_linear": "passed",
    "test_nn.py::TestNN::test_dropout": "passed",
    f"test_nn.py::{KNOWN}": "passed",
    "test_nn.py::TestNN::test_conv": "passed",
    "test_torch.py::test_sees": "passed",
    "test_cuda.py::test_cuda": "passed",
    "test_unary_ufuncs.py::test_unary_ufuncs": "passed",
    "test_binary_ufuncs.py::test_binary_ufuncs": "passed",
    "test_autograd.py::test_autograd": "passed",
}


@row("CL-18", "FD-18")
def everything_is_found_out_and_known_failures_are_expected(world: World, row: Row) -> None:
    scene = run_tests(world)
    shipped, own = scene.all_of(row.id)
    # Version, GPUs and checkout are nobody's words; each target has a run on its first GPU.
    checkout = scene.home / "rocwright/external-builds/pytorch/pytorch"
    assert "torch 2.7.1+rocm7.10.0 (ROCm 7.10.60850)" in shipped.err
    assert f"{checkout} is 2.7.1" in shipped.err
    known = ALL | {f"test_nn.py::{KNOWN}": "xfailed"}
    assert verdicts(scene, "reports-shipped", "gfx1201") == known
    assert verdicts(scene, "reports-shipped", "gfx950") == ALL | {"test_nn.py::TestNN::test_conv": "failed"}
    assert "FAILED test_nn.py::TestNN::test_conv" in shipped.out and "1 test failed" in shipped.err
    # The codes of pytest: 1 with the failure, 0 once an entry of the user's expects it.
    assert (shipped.code, own.code) == (1, 0)
    assert verdicts(scene, "test-reports", "gfx1201") == known
    assert verdicts(scene, "test-reports", "gfx950") == ALL | {"test_nn.py::TestNN::test_conv": "xfailed"}


@row("CL-19")
def what_is_behind_the_dashes_is_pytests(world: World, row: Row) -> None:
    scene = run_tests(world)
    whole, broken = scene.all_of(row.id)
    options = [(one["importmode"], one["verbose"], one["continues"]) for one in seen(scene, "behind")]
    assert options == [("importlib", 1, True)] * 2
    # -v: a line for each test of each run.
    lines = [line for line in whole.err.splitlines() if line.startswith(("PASSED ", "XFAILED "))]
    assert len(lines) == 2 * len(ALL)
    # A file that cannot be collected is an error, and every other test runs.
    lost = {**ALL, "test_nn.py::TestNN::test_conv": "xfailed", "test_cuda.py": "error"}
    del lost["test_cuda.py::test_cuda"]
    assert verdicts(scene, "reports-broken", "gfx950") == lost
    assert "ERROR test_cuda.py: ModuleNotFoundError: No module named 'no_such_module'" in broken.out


@row("CL-20")
def an_expression_takes_the_place_of_the_entries(world: World, row: Row) -> None:
    scene = run_tests(world)
    done = scene.of("CL-20")
    chosen = dict.fromkeys(["test_nn.py::TestNN::test_linear", f"test_nn.py::{KNOWN}"], "passed")
    chosen["test_nn.py::TestNN::test_conv"] = "passed"
    # Expected to fail before; now they just fail.
    assert verdicts(scene, "reports-k", "gfx1201") == chosen | {f"test_nn.py::{KNOWN}": "failed"}
    assert verdicts(scene, "reports-k", "gfx950") == chosen | {"test_nn.py::TestNN::test_conv": "failed"}
    assert f"FAILED test_nn.py::{KNOWN}" in done.out


@row("CL-21", "FD-26")
def tests_of_another_directory_on_the_gpus_of_a_family(world: World, row: Row) -> None:
    scene = run_tests(world)
    scene.of(row.id)
    reports = scene.home / "rocwright/external-builds/pytorch/reports-950"
    assert [path.name for path in reports.iterdir()] == ["units-default-gfx950-1of1"]
    found = {**ALL, "test_nn.py::TestNN::test_conv": "xfailed"}
    del found["test_autograd.py::test_autograd"]
    found["test_autograd.py::test_of_the_other_directory"] = "passed"
    # The entry that ships is for other GPUs: here its test has to pass, and does.
    assert verdicts(scene, "reports-950", "gfx950") == found
    assert seen(scene)[-1]["HIP_VISIBLE_DEVICES"] == "1"


@row("EV-04")
def every_run_of_tests_is_told_of_rocm(world: World, row: Row) -> None:
    scene = run_tests(world)
    assert [done.code for done in scene.all_of("EV-04")] == [1, 0, 0, 0]
    first = seen(scene)[:4]
    assert [one["target"] for one in first] == ["gfx1201", "gfx950"] * 2
    assert {one["PYTORCH_TEST_WITH_ROCM"] for one in first} == {"1"}
    assert {one["PYTORCH_TESTING_DEVICE_ONLY_FOR"] for one in first} == {"cuda"}
    assert {one["gpus"] for one in first} == {1}
    plans = scene.facts["plans"]
    assert isinstance(plans, dict)
    for name in ("none", "tests_full", "smoke_tests"):
        assert len(plans[name]) == (3 if name == "smoke_tests" else 2)
        for run in plans[name]:
            assert run["environment"]["PYTORCH_TEST_WITH_ROCM"] == "1"


@row("EV-13")
def variables_take_the_place_of_options(world: World, row: Row) -> None:
    scene = run_tests(world)
    scene.of("EV-13")
    plans = scene.facts["plans"]
    assert isinstance(plans, dict)
    shown = {
        name: [(run["workers"][0]["HIP_VISIBLE_DEVICES"], run["skip entries"]) for run in plans[name]]
        for name in ("none", *VARIABLES)
    }
    usual = [("0", ["miopen-rnn-dropout-gfx120"]), ("1", ["conv-gfx950"])]
    assert shown == {
        "none": usual,
        "AMDGPU_FAMILY": usual[1:],
        # The entry that ships is for 2.7 alone.
        "PYTORCH_VERSION": [("0", []), ("1", ["conv-gfx950"])],
        "HIP_VISIBLE_DEVICES": [("2", ["miopen-rnn-dropout-gfx120"])],
        # Named in a document, read by nobody.
        "THEROCK_ROOT_DIR": usual,
    }
    assert [run["directory"] for run in plans["THEROCK_ROOT_DIR"]] == [
        run["directory"] for run in plans["none"]
    ]


IMAGE = f"ghcr.io/rocm/{NAME}"


def _container(world: World, workflow: str) -> dict[str, Any]:
    """The container of the Linux jobs of a rendered workflow."""
    text = (world.clone() / ".github/workflows" / workflow).read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"].values()
    (found,) = (job["container"] for job in jobs if IMAGE in job.get("container", {}).get("image", ""))
    return dict(found)


@row("CL-11", "UR-24")
def jobs_run_the_image_as_documented(world: World, row: Row) -> None:
    *_, image = DOCUMENTED.split()
    assert image == f"{IMAGE}:latest" and image in row.item
    options = {word for word in DOCUMENTED.split() if word.startswith("--")}
    assert options == {"--device=/dev/kfd", "--device=/dev/dri", "--ipc=host", "--group-add=video",
                       "--group-add=render", "--group-add=110"}  # fmt: skip
    for workflow in ("test_pytorch_wheels.yml", "test_rocm_wheels.yml"):
        container = _container(world, workflow)
        # By digest, so that what ran can be run again, unless a repository names another image.
        assert f"|| '{IMAGE}@sha256:" in container["image"]
        assert options <= set(re.findall(r"--[^\s']+", container["options"])), (
            "unless a variable names others"
        )


@row("FD-15")
def the_recipe_is_an_ubuntu_without_rocm(world: World, row: Row) -> None:
    recipe = world.clone() / f"external-builds/pytorch/dockerfiles/{NAME}.Dockerfile"
    assert recipe.is_file()
    lines = instructions()
    assert lines[0] == "ARG BASE=ubuntu:24.04"
    assert "RUN groupadd --gid 109 render" in lines and "USER tester" in lines
    (installed,) = (set(line.split()) for line in lines if "apt-get install" in line)
    assert {"git", "cmake", "ninja-build", "clang", "lld", "libgfortran5", "python3-venv"} <= installed
    assert not [word for word in installed if word.startswith(("rocm", "hip", "libamd", "hsa"))]
