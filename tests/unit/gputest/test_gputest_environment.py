"""The environment of test processes: C16, visible GPUs, and what differs on a CPU, on CUDA and on Windows."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import pytest

from rocwright.data import load_table
from rocwright.gputest.environment import ChildEnvironment, child_environment, read_visible, unwanted
from rocwright.model.suites import SuiteTable

TABLE = load_table("tests", SuiteTable)
HIP, CUDA, ROCR = "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
UUID = "GPU-0123456789abcdef"


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


# -- what the visibility variables mean, by the documents of HIP and CUDA


@pytest.mark.parametrize(
    ("environ", "entries", "said"),
    [
        ({}, None, ""),
        ({HIP: "0"}, ("0",), HIP),
        ({HIP: "2,0"}, ("2", "0"), HIP),
        ({HIP: " 2 , 0 "}, ("2", "0"), HIP),
        ({HIP: UUID}, (UUID,), HIP),
        ({HIP: f"1,{UUID}"}, ("1", UUID), HIP),
        ({HIP: ""}, (), HIP),
        ({HIP: "  "}, (), HIP),
        ({HIP: "-1"}, (), HIP),
        ({HIP: "0,-1,2"}, ("0",), HIP),
        ({HIP: "0,,2"}, ("0",), HIP),
        ({HIP: "0,"}, ("0",), HIP),
        ({HIP: "1,1,0"}, ("1", "0"), HIP),
        ({HIP: "all"}, (), HIP),
        ({HIP: "1", CUDA: "3"}, ("1",), HIP),
        ({CUDA: "3"}, ("3",), CUDA),
        ({CUDA: ""}, (), CUDA),
        ({ROCR: "1,2"}, None, ""),
        ({ROCR: "1,2", HIP: "1"}, ("1",), HIP),
        ({ROCR: ""}, (), ROCR),
        ({ROCR: "", HIP: "0"}, (), ROCR),
    ],
    ids=str,
)
def test_a_rocm_program(environ: dict[str, str], entries: tuple[str, ...] | None, said: str) -> None:
    found = read_visible(environ, hip=True)
    assert (found.variable, found.entries, found.said) == (HIP, entries, said)
    # Whoever sees no GPU because of a variable is told which one.
    assert found.entries != () or said in found.notes[-1]


@pytest.mark.parametrize(
    ("environ", "entries"),
    [
        ({HIP: "1", ROCR: "0"}, None),
        ({CUDA: "1,0"}, ("1", "0")),
        ({CUDA: ""}, ()),
        ({CUDA: "-1"}, ()),
        (
            {CUDA: "GPU-8dcbfd52-ff05-9993-7432-cb067886ae1e,MIG-8dcbfd52-ff05-9993-7432-cb067886ae1e"},
            ("GPU-8dcbfd52-ff05-9993-7432-cb067886ae1e", "MIG-8dcbfd52-ff05-9993-7432-cb067886ae1e"),
        ),
    ],
    ids=str,
)
def test_a_cuda_program(environ: dict[str, str], entries: tuple[str, ...] | None) -> None:
    found = read_visible(environ, hip=False)
    assert (found.variable, found.entries) == (CUDA, entries)


def test_both_variables_are_said_when_they_differ() -> None:
    assert read_visible({HIP: "1", CUDA: "1"}, hip=True).notes == ()
    (note,) = read_visible({HIP: "1", CUDA: "3"}, hip=True).notes
    assert "HIP_VISIBLE_DEVICES=1 is used" in note
    assert "CUDA_VISIBLE_DEVICES=3" in note


def test_what_would_speak_beside_the_variable_of_the_tests_is_taken_away() -> None:
    assert unwanted({HIP: "1", CUDA: "3", ROCR: "0"}, "HIP_VISIBLE_DEVICES") == (CUDA,)
    assert unwanted({CUDA: "3"}, "CUDA_VISIBLE_DEVICES") == ()
