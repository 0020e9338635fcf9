"""`compat probe --emulate` and the doctor: what they say of a GPU that an emulator, a stand-in, plays."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import emulator_stand_in
from command_line import Ended, Run
from rocwright.compat.probe.values import ProbeTable
from rocwright.data import parse_table
from unit.compat.probe.probe_double import NOTHING_ELSE, TABLE, faults, write_torch

# At each import, so that each process hands the GPU one kernel.
KERNEL = """
import ctypes
ctypes.CDLL("libamdhip64.so.7").stand_in_launch(b"add", ctypes.byref(ctypes.c_int()))
"""

Probing = Callable[..., Ended]


@pytest.fixture
def probe(rocwright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Probing:
    """The command on a double of a ROCm torch, with a table of a few rows."""
    package = write_torch(tmp_path / "double")
    init = package / "torch" / "__init__.py"
    init.write_text(init.read_text() + KERNEL)
    for name in ("ROCWRIGHT_EMULATOR", "ROCM_PATH", "LD_PRELOAD", "HIP_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(package))
    monkeypatch.setenv("DOUBLE_TORCH", faults(hip="7.1.0", gpus=1))
    monkeypatch.setattr(
        "rocwright.cli.compat.probe.load_table",
        lambda *_: parse_table(NOTHING_ELSE + TABLE, ProbeTable, where="table"),
    )

    def call(prefix: Path, *words: object) -> Ended:
        named = ("--emulate", "gfx942", "--emulator", prefix, "--rocm", prefix)
        return rocwright("compat", "probe", "--python", sys.executable, *named, *words)

    return call


def test_the_report_says_what_played_the_gpu_and_is_no_proof_of_one(probe: Probing, tmp_path: Path) -> None:
    prefix = emulator_stand_in.build(tmp_path / "rocm")
    page = tmp_path / "page.html"
    done = probe(prefix, "--html", page)
    assert done.code == 0, done.err
    told = "? Nothing is less than claimed on an emulated gfx942, not on a GPU (rocjitsu 0.2.0-stand-in as "
    assert told in done.out
    assert "✓ Nothing" not in done.out
    assert "not on a GPU (rocjitsu" in page.read_text()
    report = probe(prefix, "--json").json
    assert report["emulated"]["name"] == "rocjitsu"
    assert report["emulated"]["dispatches"] > 0
    assert report["environment"]["device"] == "cuda"


def test_what_is_less_than_claimed_there_may_be_the_emulators_fault(
    probe: Probing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOUBLE_TORCH", faults(hip="7.1.0", gpus=1, int32="exit"))
    done = probe(emulator_stand_in.build(tmp_path / "rocm"))
    assert done.code == 14
    assert "✗ Less than claimed: torch.int32; on an emulated gfx942, not on a GPU (" in done.out
    assert "the emulator may be wrong: rocwright test calibrate" in done.out


def test_a_probe_in_which_no_kernel_was_executed_shows_nothing(probe: Probing, tmp_path: Path) -> None:
    done = probe(emulator_stand_in.build(tmp_path / "rocm", fault="silent"))
    assert done.code == 14
    assert "✗ Nothing was executed on the emulated gfx942" in done.out
    assert "no kernel was executed on the emulated GPU: nothing was shown on it" in done.err


def test_a_report_on_a_gpu_says_nothing_of_emulators(
    probe: Probing, rocwright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    init = tmp_path / "double/torch/__init__.py"
    init.write_text(init.read_text().replace(KERNEL, ""))
    done = rocwright("compat", "probe", "--python", sys.executable, "--json")
    assert done.code == 0, done.err
    assert "emulat" not in done.out


@pytest.mark.parametrize("words", [("--device", "cpu"), ("--emulator", "/other")])
def test_one_emulated_gpu_and_nothing_else(probe: Probing, tmp_path: Path, words: tuple[str, ...]) -> None:
    done = probe(emulator_stand_in.build(tmp_path / "rocm"), *words)
    assert (done.code, "another device contradicts that" in done.err) == (2, True)


# -- the doctor


@pytest.fixture
def doctor(rocwright: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, tuple[str, str]]]:
    """What the doctor says of emulators on this machine: verdict and detail."""
    for name in ("ROCWRIGHT_EMULATOR", "ROCM_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: object, **variables: object) -> list[tuple[str, str]]:
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))
        found = rocwright("doctor", "--json", *words).json["findings"]
        return [(one["verdict"], one["detail"]) for one in found if one["id"] == "emulator"]

    return call


def test_the_doctor_names_an_emulator_its_version_and_its_targets(
    doctor: Callable[..., list[tuple[str, str]]], tmp_path: Path
) -> None:
    prefix = emulator_stand_in.build(tmp_path / "rocm")
    library = prefix / "lib/librocjitsu.so"
    [(verdict, detail)] = doctor(ROCM_PATH=prefix)
    assert (verdict, detail) == ("note", f"rocjitsu 0.2.0-stand-in ({library}) plays gfx942, gfx1100")
    # A copy of another machine's directories holds none.
    (tmp_path / "machine").mkdir()
    assert doctor("--root", tmp_path / "machine") == []


def test_the_doctor_tells_a_variable_that_names_none(
    doctor: Callable[..., list[tuple[str, str]]], tmp_path: Path
) -> None:
    prefix = emulator_stand_in.build(tmp_path / "rocm")
    shutil.rmtree(prefix / "lib")
    [(verdict, detail)] = doctor(ROCWRIGHT_EMULATOR=prefix)
    assert (verdict, detail.startswith(f"there is no emulator in {prefix}")) == ("missing", True)
