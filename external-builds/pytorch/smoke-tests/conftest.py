"""Smoke tests of a torch wheel: `pytest -v smoke-tests`, with nothing but torch and pytest.

`test_host_*.py` needs no GPU. `test_gpu_*.py` runs on the first GPU that torch sees, ROCm's or another's
behind the same `torch.cuda`, and is skipped with the reason "no GPU" where torch sees none. With SMOKE_TARGET
set to a target (`gfx942`) these tests do not skip: they fail without a GPU, or on another one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch


def want_of_gpu() -> str:
    """Why there is no GPU to test on; empty where there is one."""
    try:
        torch.cuda.init()
        torch.zeros(1, device="cuda:0")
    except Exception as error:  # torch's reasons have many classes
        return f"no GPU: {error}".splitlines()[0]
    return ""


def target_of(index: int) -> str:
    """The target of a GPU without features: `gfx942`, on CUDA `sm_90`."""
    found = torch.cuda.get_device_properties(index)
    if torch.version.hip:
        return found.gcnArchName.partition(":")[0]
    return f"sm_{found.major}{found.minor}"


def pytest_report_header(config: pytest.Config) -> list[str]:
    older = any(Path(word.partition("::")[0]).name == "smoketests" for word in config.args)
    lines = ["warning: smoketests is the older name of this directory; give smoke-tests"] if older else []
    lines += [f"torch {torch.__version__}, HIP {torch.version.hip}, CUDA {torch.version.cuda}"]
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        lines += [f"GPU {i}: {target_of(i)} {torch.cuda.get_device_name(i)}" for i in range(count)]
    return lines


@pytest.fixture(scope="session", name="target_of")
def _target_of() -> Callable[[int], str]:
    # A fixture, so that no test has to import this file: pytest may have loaded it under any name.
    return target_of


@pytest.fixture(scope="session")
def _want_of_gpu() -> str:
    return want_of_gpu()


@pytest.fixture(scope="session")
def expected_target() -> str:
    """The target that the caller expects; empty where any will do."""
    return os.environ.get("SMOKE_TARGET", "")


@pytest.fixture(autouse=True)
def _gpu(request: pytest.FixtureRequest) -> Iterator[None]:
    """Skip or fail without a GPU; wait for the GPU at the end, so that its errors belong to their test."""
    if not Path(request.fspath).name.startswith("test_gpu_"):
        yield
        return
    reason = request.getfixturevalue("_want_of_gpu")
    expected = request.getfixturevalue("expected_target")
    if reason and expected:
        pytest.fail(f"{reason} (expected: {expected})", pytrace=False)
    if reason:
        pytest.skip(reason)
    yield
    # Some processes do not end while work is under way (ROCm/TheRock#999).
    torch.cuda.synchronize()


@pytest.fixture
def gpu() -> torch.device:
    """The GPU that is tested."""
    return torch.device("cuda:0")
