"""The table `probe` holds the document's rows in their order; rows that contradict each other are refused."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import msgspec
import pytest

from rocwright.compat.probe import inside
from rocwright.compat.probe.values import ProbeTable, TorchAbout
from rocwright.data import load_table, parse_table
from rocwright.errors import InvalidData

# Copied by hand from "PyTorch compatibility" of ROCm's documentation: supported data types, key libraries.
DTYPES = """
float8_e4m3fn
float8_e5m2
float16 half
bfloat16
float32 float
float64 double
complex32 chalf
complex64 cfloat
complex128 cdouble
uint8
uint16 (limited)
uint32 (limited)
uint64 (limited)
int8
int16 short
int32 int
int64 long
bool
quint8
qint8
qint32
quint4x2
"""
LIBRARIES = (
    "Composable Kernel, hipBLAS, hipBLASLt, hipCUB, hipFFT, hipRAND, hipSOLVER, hipSPARSE, hipSPARSELt, "
    "hipTensor, MIOpen, MIGraphX, MIVisionX, rocAL, RCCL, rocDecode, rocJPEG, RPP, rocThrust, rocWMMA"
)


def test_the_rows_are_the_documents() -> None:
    table = load_table("probe", ProbeTable)
    rows = [
        " ".join((row.name, *row.also)) + (" (limited)" if row.claim == "limited" else "")
        for row in table.dtype
    ]
    assert rows == DTYPES.split("\n")[1:-1]
    assert len(rows) == 22
    assert ", ".join(row.name for row in table.library) == LIBRARIES
    assert len(table.library) == 20


def test_whatever_torch_reaches_is_exercised_and_what_it_does_not_is_not() -> None:
    for row in load_table("probe", ProbeTable).library:
        assert bool(row.exercises) == (row.reached != "no"), row.name
        # What is in a file is found by its name, what is in templates by its kernels.
        assert bool(row.stems) or row.reached != "linked", row.name
        assert bool(row.kernels) == (row.reached == "compiled in"), row.name


def test_the_steps_that_a_kind_needs_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the same names: every data type of a kind that needs another step would be found to fail."""
    monkeypatch.syspath_prepend(Path(inside.__file__).parent)
    steps_of = importlib.import_module("rocwright_types").steps_of
    torch = SimpleNamespace(some=object())
    for kind in load_table("probe", ProbeTable).kind:
        done = {name for name, _ in steps_of(torch, "cpu", ["some"], {"name": kind.name})}
        assert kind.needs and done >= set(kind.needs), kind.name


def test_every_exercise_is_in_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(inside.__file__).parent)
    steps_of_call = importlib.import_module("rocwright_calls").steps_of_call
    for row in load_table("probe", ProbeTable).exercise:
        assert steps_of_call(MagicMock(), "cpu", row.name), row.name


def test_all_that_a_torch_says_of_itself_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the same names: what has another one would be empty in every report."""
    monkeypatch.syspath_prepend(Path(inside.__file__).parent)
    about_torch = importlib.import_module("rocwright_about").about_torch
    backends = SimpleNamespace(mkl=SimpleNamespace(is_available=lambda: True))
    torch = SimpleNamespace(
        __version__="2.9", version=SimpleNamespace(hip="7.1"), _C=None, dtype=type, backends=backends
    )
    said = about_torch(torch)
    assert {*said} == {*TorchAbout.__struct_fields__}
    assert msgspec.convert(said, TorchAbout).built_with == {"mkl": "True"}


TEXT = """
dtype = []
exercise = []
library = []
flag = []
kind = []
[limits]
exercise_s = 1
start_s = 1
"""


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("dtype = []", 'dtype = [{name = "float16", kind = "real"}]', "float16 is of a kind 'real'"),
        (
            "library = []",
            'library = [{name = "hipBLAS", reached = "linked", exercises = ["gemm"]}]',
            "hipBLAS names an exercise 'gemm'",
        ),
        ("library = []", 'library = [{name = "hipBLAS", reached = "maybe"}]', "reached"),
        ("exercise_s = 1", "exercise_s = 0", "exercise_s"),
        ("flag = []", 'flag = [{name = "a", dtype = "float16", isue = ""}]', "isue"),
    ],
)
def test_a_row_that_does_not_fit_is_named(old: str, new: str, why: str) -> None:
    parse_table(TEXT, ProbeTable, where="probe.toml")
    with pytest.raises(InvalidData, match=why):
        parse_table(TEXT.replace(old, new), ProbeTable, where="probe.toml")
