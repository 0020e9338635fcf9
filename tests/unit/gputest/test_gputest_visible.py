"""What the visibility variables mean, by the documents of HIP and CUDA."""

from __future__ import annotations

import pytest

from rocwright.gputest.environment import read_visible, unwanted

HIP, CUDA, ROCR = "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
UUID = "GPU-0123456789abcdef"


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
    assert "HIP_VISIBLE_DEVICES=1 is taken" in note
    assert "CUDA_VISIBLE_DEVICES=3" in note


def test_what_would_speak_beside_the_variable_of_the_tests_is_taken_away() -> None:
    assert unwanted({HIP: "1", CUDA: "3", ROCR: "0"}, "HIP_VISIBLE_DEVICES") == (CUDA,)
    assert unwanted({CUDA: "3"}, "CUDA_VISIBLE_DEVICES") == ()
