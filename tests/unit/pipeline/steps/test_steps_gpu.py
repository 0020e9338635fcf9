"""What a machine with GPUs says of the wheels, seen with a double of torch that has GPUs nobody has."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pytest

from miniature_pytorch import HIP_GPUS, write_torch
from rocwright.errors import NoGpu
from rocwright.gputest.smoke import Verdicts
from rocwright.pipeline.steps.gpu import run_smoke
from rocwright.pipeline.steps.own_tests import SuiteRun


@pytest.fixture
def tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    double = write_torch(tmp_path / "double", HIP_GPUS, ["gfx942", "gfx1100"])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(double), sysconfig.get_path("purelib")]))
    for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "AMDGPU_FAMILY"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "smoke-tests"
    folder.mkdir()
    (folder / "test_host_x.py").write_text("def test_it(): pass\n")
    return folder


def smoke(tests: Path, family: str) -> tuple[SuiteRun, ...]:
    return run_smoke(Path(sys.executable), tests, tests.parent / "reports", family, lambda _: None)


@pytest.mark.slow
def test_the_host_and_each_target_of_the_family_have_a_result_of_their_own(tests: Path) -> None:
    (tests / "test_gpu_x.py").write_text("def test_it(): pass\ndef test_bad(): assert 1 == 2\n")
    host, gpu = smoke(tests, "gfx94X-dcgpu")
    assert (host.suite, host.target, host.verdicts.passed, host.good) == ("smoke-host", "", 1, True)
    # The gate knows targets without what the driver adds (gfx942:sramecc+:xnack-).
    assert (gpu.suite, gpu.target, gpu.good) == ("smoke-gpu", "gfx942", False)
    assert (gpu.verdicts.passed, gpu.verdicts.failed) == (1, 1)
    assert "test_bad" in gpu.verdicts.failures[0]


@pytest.mark.slow
def test_a_crash_is_a_failure_with_a_name(tests: Path) -> None:
    (tests / "test_gpu_x.py").write_text(
        "import os\ndef test_crash(): os.abort()\ndef test_behind_it(): pass\n"
    )
    _, gpu = smoke(tests, "gfx94X-dcgpu")
    assert (gpu.verdicts.passed, gpu.verdicts.failed, gpu.good) == (1, 1, False)
    assert "test_crash" in gpu.verdicts.failures[0]


@pytest.mark.slow
def test_a_machine_without_the_familys_gpu_proves_nothing(tests: Path) -> None:
    (tests / "test_gpu_x.py").write_text("def test_it(): pass\n")
    with pytest.raises(NoGpu, match="gfx90a"):
        smoke(tests, "gfx90a")


@pytest.mark.parametrize(
    ("verdicts", "complete", "good"),
    [
        (Verdicts(3, 0, 1), True, True),
        (Verdicts(3, 1, 0), True, False),
        (Verdicts(0, 0, 4), True, False),
        (Verdicts(3, 0, 0), False, False),
    ],
)
def test_only_a_whole_run_that_passed_something_is_good(
    verdicts: Verdicts, complete: bool, good: bool
) -> None:
    assert SuiteRun("smoke-gpu", "gfx942", verdicts, complete).good is good
