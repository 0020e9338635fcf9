"""`rocwright test smoke --emulate`: stand-ins play emulator and HIP runtime, doubles torch and rocm_sdk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest

import emulator_stand_in
from command_line import run
from miniature_pytorch import HIP_GPUS, write_torch
from rocwright.cli.gputest import emulate
from rocwright.data import load_table
from rocwright.emulator.drive import Done, Driven
from rocwright.gputest.emulated.differ import told_apart
from rocwright.gputest.emulated.preload import preloaded
from rocwright.gputest.emulated.suites import OperatorTable, operator_case, task_of
from rocwright.gputest.environment import inside_directory
from rocwright.gputest.record import read_record
from rocwright.model.emulated import Emulated
from rocwright.model.testing import CaseResult, Ran, RunRecord

TARGET = "gfx942"
# What a test does to a GPU, with the runtime of the session: one kernel by its name.
LAUNCH = textwrap.dedent(
    """
    import ctypes

    def launch(name):
        wrong = ctypes.c_int()
        status = ctypes.CDLL("libamdhip64.so.7").stand_in_launch(name.encode(), ctypes.byref(wrong))
        assert status == 0, "HIP error: no ROCm-capable device is detected"
        assert not wrong.value, "wrong numbers"
    """
)
SMOKE_GPU = "smoke-gpu-default-gfx942-emulated-1of1"


class Door:
    """The command in an environment of doubles; `prefix` is the stand-in's."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys

    def plays(self, **faults: Any) -> Path:
        """A prefix of the stand-in."""
        return emulator_stand_in.build(self.folder / f"rocm{len(list(self.folder.glob('rocm*')))}", **faults)

    def __call__(self, *words: str | Path) -> tuple[int, str, str]:
        return run(self.capsys, "test", "smoke", "--emulate", *map(str, words))

    def record(self, key: str = SMOKE_GPU) -> RunRecord:
        return read_record(self.folder / "test-reports" / key / "results.json")

    def verdicts(self, key: str = SMOKE_GPU) -> dict[str, str]:
        return {one.id.partition("::")[2]: one.verdict for one in self.record(key).results}


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Door:
    for name in ("ROCWRIGHT_EMULATOR", "ROCM_PATH", "LD_PRELOAD", "AMDGPU_FAMILY", "HIP_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "double"))
    monkeypatch.chdir(tmp_path)
    return Door(tmp_path, capsys)


@pytest.fixture
def torch(door: Door, monkeypatch: pytest.MonkeyPatch) -> Door:
    """With a torch, and smoke tests of three kernels."""
    write_torch(door.folder / "double", HIP_GPUS, [TARGET])
    tests = door.folder / "smoke-tests"
    tests.mkdir()
    (tests / "test_host_x.py").write_text("def test_host(): raise AssertionError\n")
    (tests / "test_gpu_x.py").write_text(
        LAUNCH
        + "import os\n"
        + "def test_add():\n"
        + "    assert os.environ['SMOKE_TARGET'] == 'gfx942'\n"
        + "    assert 'HIP_VISIBLE_DEVICES' not in os.environ\n"
        + "    launch('add')\n"
        + "def test_pow(): launch('pow')\n"
        + "def test_matmul(): launch('matmul')\n"
    )
    monkeypatch.setattr(emulate, "smoke_tests", lambda: tests)
    return door


@pytest.fixture
def rocm(door: Door) -> Door:
    """Without torch: ROCm's packages, whose own test launches one kernel."""
    package = door.folder / "double" / "rocm_sdk"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(
        LAUNCH
        + "import json, sys\n"
        + "assert sys.argv[1:] == ['test', '--device', '--json'], sys.argv\n"
        + "checks = [{'id': 'device:access', 'verdict': 'passed'}]\n"
        + "for step in ('memory', 'kernel', 'gemm'):\n"
        + "    try:\n"
        + "        launch(step)\n"
        + "        checks.append({'id': 'device:0:' + step, 'verdict': 'passed'})\n"
        + "    except AssertionError as error:\n"
        + "        checks.append({'id': 'device:0:' + step, 'verdict': 'failed', 'cause': str(error)})\n"
        + "print(json.dumps({'checks': checks}))\n"
        + "raise SystemExit(3 if any(one['verdict'] == 'failed' for one in checks) else 0)\n"
    )
    return door


def test_torchs_tests_run_on_the_emulated_gpu_and_the_record_says_what_played_it(torch: Door) -> None:
    status, out, err = torch(TARGET, "--emulator", torch.plays(), "--rocm", "rocm0", "--json")
    assert status == 0, err
    assert torch.verdicts() == {"test_add": "passed", "test_pow": "passed", "test_matmul": "passed"}
    record = torch.record()
    assert record.ran == Ran(
        "smoke-gpu",
        target=TARGET,
        torch="2.9.1+rocm7.1.0",
        rocm="7.1.0",
        python=record.ran.python,
        device="emulated",
    )
    assert record.emulation is not None
    assert record.emulation.told() == (
        "rocjitsu 0.2.0-stand-in as gfx942 (emulated), HIP 7.2.4, gfx942_cdna3_kmd.json"
    )
    # Those of the tests, not those of the calibration.
    assert record.emulation.dispatches == 3
    assert json.loads(out)["records"][0]["emulation"]["emulated"] is True
    assert "calibrating rocjitsu for gfx942" in err
    # The host's tests tell nothing of an emulator.
    assert [path.name for path in Path("test-reports").iterdir() if path.is_dir()] == [SMOKE_GPU]


@pytest.mark.slow
def test_a_calibration_is_kept(torch: Door) -> None:
    prefix = torch.plays()
    words = (TARGET, "--emulator", prefix, "--rocm", prefix)
    assert "calibrating" in torch(*words)[2]
    assert "calibrating" not in torch(*words)[2]
    assert "right" in torch(*words)[2]


def test_what_fails_where_the_emulator_is_wrong_is_skipped_and_all_else_has_failed(torch: Door) -> None:
    prefix = torch.plays(fault="wrong", at="pow")
    status, _, err = torch(TARGET, "--emulator", prefix, "--rocm", prefix)
    assert status == 0, err
    assert torch.verdicts() == {"test_add": "passed", "test_pow": "skipped", "test_matmul": "passed"}
    (skipped,) = [one for one in torch.record().results if one.verdict == "skipped"]
    assert skipped.message.startswith("the emulator is wrong about pow, on which this rests (failed): ")
    assert any("wrong here: pow" in note for note in torch.record().notes)
    # `matmul` is no operation of the calibration: what it rests on is right there.
    prefix = torch.plays(fault="wrong", at="matmul")
    status, _, err = torch(TARGET, "--emulator", prefix, "--rocm", prefix)
    assert (status, torch.verdicts()["test_matmul"]) == (1, "failed")
    (bad,) = torch.record().bad
    assert bad.detail.startswith(
        "Wrong: the answers differ, and the emulator is right about what this rests on."
    )


@pytest.mark.slow
def test_without_a_compiler_nothing_is_excused(torch: Door) -> None:
    prefix = torch.plays(fault="wrong", at="pow")
    (prefix / "bin/hipcc").unlink()
    status, _, err = torch(TARGET, "--emulator", prefix, "--rocm", prefix)
    assert (status, torch.verdicts()["test_pow"]) == (1, "failed")
    assert "the emulator was not calibrated: hipcc was not found" in err


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "verdict"), [("crash", "crashed"), ("hang", "hung")])
def test_a_kernel_that_ends_or_holds_its_process_costs_one_test(
    torch: Door, fault: str, verdict: str
) -> None:
    prefix = torch.plays(fault=fault, at="matmul")
    words = (TARGET, "--emulator", prefix, "--rocm", prefix, "--test-timeout", "2")
    assert torch(*words)[0] == 1
    assert torch.verdicts() == {"test_add": "passed", "test_pow": "passed", "test_matmul": verdict}


def test_a_run_without_a_kernel_is_no_pass(torch: Door) -> None:
    prefix = torch.plays(fault="silent")
    status, _, err = torch(TARGET, "--emulator", prefix, "--rocm", prefix)
    assert status == 1
    assert torch.verdicts()["test_add"] == "passed"
    (bad,) = torch.record().bad
    assert (bad.id, bad.message) == (
        "emulator::dispatch",
        "no kernel was executed on the emulated gfx942: nothing was tested on it",
    )
    assert "the emulator was not calibrated: it executed no kernel" in err


def test_a_target_without_a_configuration_is_refused_before_anything_runs(torch: Door) -> None:
    prefix = torch.plays()
    status, out, err = torch("gfx90a", "--emulator", prefix, "--rocm", prefix)
    assert (status, out) == (2, "")
    assert "rocjitsu has no configuration for gfx90a; it has some for gfx942 gfx1100" in err.replace(",", "")
    assert not Path("test-reports").exists()


def test_a_dry_run_says_what_would_run(torch: Door) -> None:
    prefix = torch.plays()
    status, out, err = torch(TARGET, "--emulator", prefix, "--rocm", prefix, "--dry-run", "--json")
    assert status == 0, err
    (plan,) = json.loads(out)
    assert (plan["emulated"], plan["suites"]) == (TARGET, ["smoke-gpu"])
    assert plan["configuration"].endswith("gfx942_cdna3_kmd.json")
    assert not Path("test-reports").exists()


@pytest.mark.slow
def test_a_program_that_speaks_the_protocol_emulates_too(torch: Door) -> None:
    prefix = torch.plays()
    program = emulator_stand_in.protocol_program(torch.folder / "witness", prefix)
    status, _, err = torch(TARGET, "--emulator", program, "--rocm", prefix)
    assert status == 0, err
    assert torch.record().emulation == Emulated(
        "witness",
        TARGET,
        digest=torch.record().emulation.digest,  # type: ignore[union-attr]
        runtime="7.2.4",
        dispatches=3,
    )


@pytest.mark.slow
def test_two_emulators_are_compared(torch: Door) -> None:
    one, other = torch.plays(), torch.plays(fault="wrong", at="matmul")
    status, _, err = torch(TARGET, "--emulator", one, "--emulator", other, "--rocm", one)
    assert status == 1
    assert "disagree about test_gpu_x.py::test_matmul: passed under rocjitsu (emulator1), failed under" in err
    keys = [f"smoke-gpu-emulator{number}-gfx942-emulated-1of1" for number in (1, 2)]
    assert [torch.verdicts(key)["test_matmul"] for key in keys] == ["passed", "failed"]


def test_rocms_packages_test_themselves_where_there_is_no_torch(rocm: Door) -> None:
    prefix = rocm.plays()
    status, _, err = rocm(TARGET, "--emulator", prefix, "--rocm", prefix)
    assert status == 0, err
    key = "rocm-sdk-default-gfx942-emulated-1of1"
    assert rocm.verdicts(key) == {
        "device:access": "passed",
        "device:0:memory": "passed",
        "device:0:kernel": "passed",
        "device:0:gemm": "passed",
    }
    assert rocm.record(key).emulation.dispatches == 3  # type: ignore[union-attr]
    assert "operators: left out, as no onnxruntime for ROCm is installed there" in err


def test_rocms_own_failure_is_one_unless_the_emulator_is_wrong_there(rocm: Door) -> None:
    key = "rocm-sdk-default-gfx942-emulated-1of1"
    # `kernel` rests on integers and arguments, `gemm` on the calibration's `gemm`.
    for at, verdicts, expected in (
        ("kernel", ("failed", "passed"), 1),
        ("gemm", ("passed", "skipped"), 0),
    ):
        prefix = rocm.plays(fault="wrong", at=at)
        status, _, err = rocm(TARGET, "--emulator", prefix, "--rocm", prefix)
        found = rocm.verdicts(key)
        assert ((found["device:0:kernel"], found["device:0:gemm"]), status) == (verdicts, expected), err


def test_rocms_test_that_ends_early_is_an_error(rocm: Door) -> None:
    prefix = rocm.plays(fault="crash", at="kernel")
    assert rocm(TARGET, "--emulator", prefix, "--rocm", prefix)[0] == 1
    (bad,) = rocm.record("rocm-sdk-default-gfx942-emulated-1of1").bad
    assert (bad.id, bad.verdict) == ("rocm-sdk::test", "error")
    assert "signal" in bad.message


def test_options_of_pytest_are_refused_where_it_runs_nothing(rocm: Door) -> None:
    prefix = rocm.plays()
    status, _, err = rocm(TARGET, "--emulator", prefix, "--rocm", prefix, "--", "-k", "Conv or MatMul")
    assert status == 2
    assert "-k 'Conv or MatMul' is for pytest, which runs torch's tests: " in err
    assert "nothing limits ROCm's own test or the operators of onnxruntime" in err
    assert not (rocm.folder / "test-reports").exists()


def test_an_environment_with_nothing_to_test_is_named(door: Door) -> None:
    prefix = door.plays()
    status, _, err = door(TARGET, "--emulator", prefix, "--rocm", prefix)
    assert status != 0
    assert "has no torch, no ROCm packages and no onnxruntime for ROCm" in err


@pytest.mark.parametrize("words", [("--cpu",), ("--amdgpu-family", TARGET), ("--gpu-policy", "all")])
def test_options_that_choose_gpus_contradict_it(door: Door, words: tuple[str, ...]) -> None:
    status, _, err = door(TARGET, *words)
    assert (status, "--emulate tests on an emulated GPU alone" in err) == (2, True)


def test_options_of_an_emulator_need_one(door: Door) -> None:
    status, _, err = run(door.capsys, "test", "smoke", "--rocm", "/opt/rocm")
    assert (status, "belong to --emulate" in err) == (2, True)


def test_a_shell_that_preloads_an_emulator_tests_no_gpu(torch: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    library = torch.plays() / "lib/librocjitsu.so"
    assert preloaded({"LD_PRELOAD": f"/lib/other.so {library}"}) == "rocjitsu"
    assert preloaded({"LD_PRELOAD": "/lib/other.so"}) == preloaded({}) == ""
    done = subprocess.run(
        [sys.executable, "-m", "rocwright", "test", "smoke"],
        env={**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": ":".join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert (
        "LD_PRELOAD names rocjitsu, an emulator: the GPU that it plays would be taken for one" in done.stderr
    )


# -- where two emulators disagree


def seen(name: str, **verdicts: Any) -> RunRecord:
    ran = Ran("operators", config=name, target=TARGET, device="emulated")
    cases = tuple(CaseResult(test, verdict) for test, verdict in verdicts.items())
    return RunRecord(ran, cases, emulation=Emulated(name, TARGET, "1"))


def test_a_skipped_test_is_no_disagreement() -> None:
    one = seen("a", add="passed", pow="skipped", exp="failed")
    other = seen("b", add="passed", pow="passed", exp="crashed")
    assert told_apart([one, other]) == (
        "the emulators disagree about exp: failed under a (a), crashed under b (b)",
    )
    assert told_apart([one, seen("b", exp="failed", log="passed")]) == ("the emulators agree about 1 tests",)


# -- operators of onnxruntime


def test_a_model_of_one_node_is_the_bytes_that_onnx_writes() -> None:
    sys.path.insert(0, str(inside_directory()))
    try:
        import rocwright_operators as script
    finally:
        sys.path.pop(0)

    class Array:
        shape = (2,)

    row = {"operator": "Relu", "attribute": {"axis": -1}, "input": [{"type": "float32", "shape": [2]}]}
    # ModelProto: ir_version 8; graph; opset 17. NodeProto: x0 -> y, Relu, attribute axis of type INT.
    attribute = b"\n\x04axis" + b"\x18" + b"\xff" * 9 + b"\x01" + b"\xa0\x01\x02"
    node = b"\n\x02x0" + b"\x12\x01y" + b'"\x04Relu' + b"*" + bytes([len(attribute)]) + attribute
    given = b"\n\x02x0" + b"\x12\x0a\n\x08\x08\x01\x12\x04\n\x02\x08\x02"
    output = b"\n\x01y" + b"\x12\x04\n\x02\x08\x01"
    graph = b"\n" + bytes([len(node)]) + node + b"\x12\x03one"
    graph += b"Z" + bytes([len(given)]) + given + b"b" + bytes([len(output)]) + output
    expected = b"\x08\x08" + b":" + bytes([len(graph)]) + graph + b"B\x04\n\x00\x10\x11"
    assert script.model(row, [Array()], 17, 8) == expected


def test_the_table_names_each_operator_once_and_goes_to_the_script_as_plain_values() -> None:
    table = load_table("operators", OperatorTable)
    rows = {row.name or row.operator: row for row in table.operator}
    assert len(rows) == len(table.operator) == 25
    told = json.loads(msgspec.json.encode(task_of(table, rows)))
    assert told["operators"]["Add float16"]["input"][0]["type"] == "float16"


@pytest.mark.parametrize(
    ("line", "dispatches", "verdict", "message"),
    [
        ({"state": "right", "seconds": 0.5}, 1, "passed", ""),
        ({"state": "right"}, 0, "error", "it is right, and no kernel was executed for it"),
        ({"state": "wrong", "detail": "2 of 4 numbers differ"}, 1, "failed", "2 of 4 numbers differ"),
        ({"state": "refused", "detail": "no kernel image"}, 0, "error", "no kernel image"),
        ({"state": "absent", "detail": "not on the CPU"}, 0, "skipped", "not on the CPU"),
        ({}, 3, "error", "None"),
    ],
)
def test_what_the_script_says_of_an_operator(
    line: dict[str, Any], dispatches: int, verdict: str, message: str
) -> None:
    driven = Driven(done={"Exp": Done("Exp", line, dispatches=dispatches)})
    found = operator_case("Exp", driven)
    assert (found.id, found.verdict, found.message) == ("onnxruntime::Exp", verdict, message)


def test_an_operator_in_which_the_process_was_lost_and_those_behind_it() -> None:
    driven = Driven(done={"Exp": Done("Exp", {}, "hung", "late")}, problem="it did not begin")
    assert operator_case("Exp", driven).verdict == "hung"
    assert operator_case("Log", driven).message == "was not tried: it did not begin"
