"""Smoke tests and PyTorch's own tests on a real torch, as the document of the builds has them."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from conformance import torches
from conformance.scenes.run_tests import run_tests, seen
from conformance.table import Row, row
from conformance.world import Done, Shell, Transcript, World

# Of the smoke tests those that ask no GPU to compute, and the host's arithmetic.
WITHOUT_COMPUTING = '-k "are_listed or expected_one or built_for or host_math"'
# Of the 1022 tests of test_torch the 17 of one operator.
ONE_OPERATOR = "-k test_index_select"
# Which torch that is, from which file, and whether its tests take it for one of ROCm.
WHICH = """
import json, os
os.environ["PYTORCH_TEST_WITH_ROCM"] = "1"
import torch
from torch.testing._internal.common_utils import TEST_WITH_ROCM
print(json.dumps([torch.__version__, torch.__file__, torch.version.hip, TEST_WITH_ROCM]))
"""


def torch_tests(world: World) -> Transcript:
    """The section about testing PyTorch, on torch for the CPU; nothing of it is a double but the GPUs."""

    def play(shell: Shell) -> None:
        torches.activate(shell)
        shell.cwd = shell.cwd / "external-builds/pytorch"
        shell("pytest -v smoke-tests", "CL-14", "FD-16", "FL-15")
        shell("pytest -v smoketests", "CL-15", "FD-16")
        _smoke(shell)
        torches.checkout(shell.cwd / "pytorch")
        shell("rocwright compat probe --json > $HOME/probe.json", "CL-22")
        shell(
            "python run_pytorch_tests.py -- --continue-on-collection-errors --import-mode=importlib -v",
            *("FD-18", "FL-15"),
            run="python run_pytorch_tests.py --cpu --suite-files test_dlpack.py "
            "--reports-dir reports-units -- --continue-on-collection-errors --import-mode=importlib -v",
        )
        (shell.home / "which.py").write_text(WHICH)
        rocm = torches.dressed(shell.home / "rocm")
        shell(
            "PYTORCH_TEST_WITH_ROCM=1 python pytorch/test/run_test.py --include test_torch",
            *("CL-22", "FD-27"),
            more=ONE_OPERATOR,
            env=rocm,
        )
        shell("python $HOME/which.py", "CL-22", env=rocm)

    return world.scene("torch-tests", play)


def _smoke(shell: Shell) -> None:
    """The wrapper: as printed, which finds no GPU; on the CPU; and where torch sees GPUs of two targets."""
    printed = "python run_pytorch_smoke_tests.py -- --log-cli-level=INFO -v"
    rows = ("CL-16", "FD-17", "FL-15")
    shell(printed, *rows, code=1)
    cpu = "python run_pytorch_smoke_tests.py --cpu --reports-dir reports-cpu -- --log-cli-level=INFO -v"
    shell(printed, *rows, run=cpu)
    gpus = torches.dressed(shell.home / "gpus", *torches.GPUS)
    shell(printed, *rows, more=WITHOUT_COMPUTING, env=gpus)


def summary(done: Done) -> Counter[str]:
    """How many tests each outcome has, by the last line of pytest."""
    last = done.out.strip().splitlines()[-1]
    return Counter({word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", last)})


def record(directory: Path, key: str) -> dict[str, dict]:
    """The results of a run, by the last part of the test's name."""
    found = json.loads((directory / key / "results.json").read_text())
    return {one["id"].rpartition("::")[2]: one for one in found["results"]}


def results(done: Done, folder: str) -> list[tuple[str, str]]:
    """The tests of a folder in the order in which they ran, each with how it ended."""
    return re.findall(rf"^{folder}/(\S+) ([A-Z]+)\b", done.out, re.MULTILINE)


@row("CL-14", "CL-15", "FD-16")
def smoke_tests_need_no_wrapper(world: World, row: Row) -> None:
    scene = torch_tests(world)
    done = scene.of(row.id)
    counts = summary(done)
    assert counts["failed"] == counts["error"] == 0
    assert counts["passed"] == 24 and counts["skipped"] == 105
    folder = "smoke-tests" if row.id == "CL-14" else "smoketests"
    assert ("warning: smoketests is the older name" in done.out) is (folder == "smoketests")
    assert f"{folder}/test_host_math.py::test_svd[torch.float64] PASSED" in done.out
    # What needs a GPU says so; nothing of it passes without one.
    gpu = [line for line in done.out.splitlines() if line.startswith(f"{folder}/test_gpu_")]
    assert gpu and all(" SKIPPED" in line for line in gpu)
    # Bytecode of the one directory is the other's: the summary may name either.
    assert re.search(r"SKIPPED \[\d+\] smoke-?tests/test_gpu_math.py:\d+: no GPU: ", done.out)
    # The directory that S1 prints is the one that S0 prints, and the same tests end in the same way.
    pytorch = scene.home / "rocwright/external-builds/pytorch"
    assert (pytorch / "smoketests").is_symlink() and not (pytorch / "smoke-tests").is_symlink()
    assert (pytorch / "smoketests").resolve() == (pytorch / "smoke-tests").resolve()
    newer, older = (
        results(scene.of(id_), name) for id_, name in (("CL-14", "smoke-tests"), ("CL-15", "smoketests"))
    )
    assert newer == older and len(newer) == len(set(newer)) == 24 + 105
    assert {name.partition("::")[0] for name, _ in older} == {
        path.name for path in (pytorch / "smoke-tests").glob("test_*.py")
    }


@row("CL-16", "FD-17")
def the_wrapper_runs_once_for_each_architecture(world: World, row: Row) -> None:
    scene = torch_tests(world)
    none, cpu, gpus = scene.all_of(row.id)
    assert "no GPU to test on" in none.err and "torch: 2.6.0+debian, CPU only" in none.err
    assert "smoke-host-default-cpu-1of1  24 passed, 5 skipped" in cpu.out
    # Two of three GPUs are alike: one run for each target, each in a process that sees its first GPU only.
    reports = scene.home / "rocwright/external-builds/pytorch/test-reports"
    keys = {path.name for path in reports.iterdir()}
    assert keys == {
        "smoke-host-default-cpu-1of1",
        "smoke-gpu-default-gfx942-1of1",
        "smoke-gpu-default-gfx1100-1of1",
    }
    asked = ["test_gpus_are_listed", "test_the_gpu_is_the_expected_one", "test_torch_is_built_for_gpus"]
    for target in ("gfx942", "gfx1100"):
        results = record(reports, f"smoke-gpu-default-{target}-1of1")
        assert {name: one["verdict"] for name, one in results.items()} == dict.fromkeys(asked, "passed")
        # What is behind the dashes reached pytest: a line for each test, and below it what the test logged.
        assert f"GPU 0: {target} a {target}, 1024 MiB" in gpus.err
    assert gpus.err.count("PASSED test_gpu_device.py::test_gpus_are_listed") == 2
    assert "GPU 1:" not in gpus.err


@row("FL-15")
def each_option_does_what_it_is_for(world: World, row: Row) -> None:
    scene = torch_tests(world)
    plain, *_, cpu, gpus, units = scene.all_of("FL-15")
    # --log-cli-level: what a test logs is shown, which -v alone does not do.
    assert "live log call" not in plain.out
    assert cpu.err.count("live log call") == 3 and "torch 2.6.0+debian, commit Unknown" in cpu.err
    # -k: of the host's tests the arithmetic is left.
    assert "test_host_build" not in gpus.err.replace("test_host_build.py, test_host_math.py", "")
    # The options for whole suites, on PyTorch's own tests; -v has a line for each.
    reports = scene.home / "rocwright/external-builds/pytorch/reports-units/units-default-cpu-1of1"
    found = json.loads((reports / "results.json").read_text())
    assert Counter(one["verdict"] for one in found["results"]) == {"passed": 92, "skipped": 26}
    assert len(re.findall(r"^(?:PASSED|SKIPPED) test_dlpack\.py::", units.err, re.MULTILINE)) == 118
    # --import-mode and --continue-on-collection-errors arrive at pytest, and --amdgpu-family chooses.
    miniature = run_tests(world)
    assert {(one["importmode"], one["continues"]) for one in seen(miniature, "behind")} == {
        ("importlib", True)
    }
    assert [run["run"] for run in miniature.facts["plans"]["family"]] == ["units-default-gfx950-1of1"]


@row("CL-22", "FD-27")
def pytorchs_own_runner_works(world: World, row: Row) -> None:
    scene = torch_tests(world)
    (done,) = [one for one in scene.all_of(row.id) if "run_test.py" in one.line]
    assert "test_torch 1/1" in done.err and "failed" not in done.err
    assert re.search(r"= 17 passed, 1005 deselected in [0-9.]+s", done.out)
    assert "test_torch.py::TestTorchDeviceTypeCPU::test_index_select_cpu_float64 PASSED" in done.out
    if row.id == "CL-22":
        which_torch_it_is(world)


def which_torch_it_is(world: World) -> None:
    """Not a wheel of ours, and the table says so: one that the probe found to do all that is claimed."""
    scene = torch_tests(world)
    *_, which = scene.all_of("CL-22")
    version, file, hip, with_rocm = json.loads(which.out.splitlines()[-1])
    probe = json.loads((scene.home / "probe.json").read_text())
    assert (version, hip, with_rocm) == ("2.6.0+debian", "6.3.42131", True)
    assert Path(file).is_relative_to(world.root / "torch/userland")
    # The probe sees the same torch as it is: no HIP in it, and nothing that is less than claimed.
    environment = probe["environment"]
    assert (environment["torch"], environment["kind"], environment["hip"]) == (version, "CPU only", "")
    assert (probe["failed"], probe["lost"]) == ([], [])
    assert {one["found"] for one in probe["dtypes"]} == {"works"}
