"""The environment of test processes: C16, and what is different on a CPU, on CUDA and on Windows."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from rocwright.data import load_table
from rocwright.gputest.environment import ChildEnvironment, child_environment
from rocwright.model.suites import SuiteTable

TABLE = load_table("tests", SuiteTable)


def of(**more: Any) -> ChildEnvironment:
    facts: dict[str, Any] = {
        "tests_dir": PurePosixPath("/src/pytorch/test"),
        "miopen_cache": PurePosixPath("/tmp/fresh"),
        "platform": "linux",
        "inherited": {},
        **more,
    }
    return child_environment(TABLE, **facts)


def test_what_every_test_process_gets() -> None:
    assert of() == ChildEnvironment(
        {
            "MIOPEN_CUSTOM_CACHE_DIR": "/tmp/fresh",
            "PYTHONPATH": "/src/pytorch/test",
            "PYTORCH_PRINT_REPRO_ON_FAILURE": "0",
            "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cuda",
            "PYTORCH_TEST_WITH_ROCM": "1",
        },
        ("GPU_DEVICE_ORDINAL",),
    )


def test_the_callers_path_stays_behind_and_an_empty_part_does_not() -> None:
    # An empty part would be the current directory, which is the tests' own.
    inherited = {"PYTHONPATH": ":/one::/two:"}
    assert of(inherited=inherited).set["PYTHONPATH"] == "/src/pytorch/test:/one:/two"


def test_windows_has_its_own_separator_and_drives() -> None:
    found = of(
        tests_dir=PureWindowsPath("C:/b/pytorch/test"),
        platform="windows",
        inherited={"PYTHONPATH": "D:\\mine;E:\\more"},
    )
    assert found.set["PYTHONPATH"] == "C:\\b\\pytorch\\test;D:\\mine;E:\\more"


def test_on_a_cpu_the_device_generic_tests_are_made_for_the_cpu() -> None:
    found = of(device="cpu", rocm=False)
    assert found.set["PYTORCH_TESTING_DEVICE_ONLY_FOR"] == "cpu"
    assert "PYTORCH_TEST_WITH_ROCM" not in found.set
    assert found.removed == ("GPU_DEVICE_ORDINAL", "PYTORCH_TEST_WITH_ROCM")


def test_a_variable_that_is_set_is_not_removed() -> None:
    found = of().with_({"GPU_DEVICE_ORDINAL": "0", "MORE": "1"})
    assert found.removed == ()
    assert found.set["MORE"] == "1"


def test_the_table_is_not_changed_by_what_is_made_of_it() -> None:
    before = dict(TABLE.environment.set)
    of(device="cpu", rocm=False)
    assert TABLE.environment.set == before
