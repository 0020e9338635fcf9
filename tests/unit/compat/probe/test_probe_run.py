"""Exercises that crash, hang or leave cost their own row; the torch is a double, its faults are known."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from command_line import status
from rocwright.compat.probe import run as probing
from rocwright.compat.probe.run import probe, read_answers, require_claims
from rocwright.compat.probe.values import Probe, ProbeTable
from rocwright.data import parse_table
from rocwright.errors import (
    ClaimFailed,
    CommandFailed,
    InvalidData,
    MissingTool,
    NoGpu,
    TorchBroken,
    UsageError,
)
from rocwright.system import process
from unit.compat.probe.probe_double import FLAGS, NOTHING_ELSE, TABLE, faults, write_torch

# Many processes, or many megabytes: `make slow` and CI run them.
pytestmark = pytest.mark.slow

DTYPES = ("float16", "float32", "bfloat16", "int32", "uint16")
# What comes of the double without faults, by hand: sums of uint16 are not there, and not asked for.
SOUND = {"float16": "works", "float32": "works", "bfloat16": "works", "int32": "works", "uint16": "works"}

# All that answers must hold.
SHORT = '"schema": 1, "python": "", "executable": "", "platform": "", "asked": "", "import": {"state": "ok"}'


def table(more: str = NOTHING_ELSE) -> ProbeTable:
    return parse_table(more + TABLE, ProbeTable, where="table")


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets the faults of a double that this interpreter finds."""
    monkeypatch.setenv("PYTHONPATH", str(write_torch(tmp_path / "double")))

    def act(**said: object) -> None:
        monkeypatch.setenv("DOUBLE_TORCH", faults(**said))

    act()
    return act


def found(report: Probe) -> dict[str, str]:
    return {row.name: row.found for row in report.dtypes}


def details(report: Probe) -> dict[str, str]:
    return {row.name: row.detail for row in report.dtypes}


def test_a_sound_torch_does_what_is_claimed(double: Callable[..., None]) -> None:
    report = probe(Path(sys.executable), table())
    assert found(report) == SOUND
    assert {row.outcome for row in report.dtypes} == {"as claimed", "more"}
    assert (report.failed, report.restarts, report.environment.device) == ((), 0, "cpu")
    assert report.environment.torch == "2.10.0+double"
    assert report.environment.architectures == ("gfx942", "gfx1100")
    (uint16,) = (row for row in report.dtypes if row.name == "uint16")
    assert uint16.beyond == ("elementwise: NotImplementedError: \"add_stub\" not implemented for 'UInt16'",)
    # Of what it is not claimed to do it does one thing: products.
    assert uint16.outcome == "more"


@pytest.mark.parametrize(
    ("name", "fault", "verdict", "why"),
    [
        # The first, one between, and the last one.
        ("float16", "segfault", "crashes", "in create: the process ended by signal SIGSEGV"),
        ("bfloat16", "segfault", "crashes", "in create: the process ended by signal SIGSEGV"),
        ("uint16", "segfault", "crashes", "in create: the process ended by signal SIGSEGV"),
        ("float16", "exit", "crashes", "in create: the process ended with exit code 0"),
        ("uint16", "hang", "hangs", "in create: not done after 2 seconds"),
        ("bfloat16", "raise", "fails", "create: RuntimeError: not here"),
    ],
)
def test_a_fault_costs_one_row(
    double: Callable[..., None], name: str, fault: str, verdict: str, why: str
) -> None:
    double(**{name: fault})
    report = probe(Path(sys.executable), table(), limit_s=2.0)
    assert found(report) == SOUND | {name: verdict}
    assert details(report)[name] == why
    assert report.failed == (f"torch.{name}",)
    assert report.restarts == (0 if fault == "raise" else 1)
    with pytest.raises(ClaimFailed, match=rf"1 claim does not hold: torch\.{name}\n"):
        require_claims(report)


def test_what_a_lost_process_printed_is_kept(double: Callable[..., None]) -> None:
    double(float32="segfault")
    (lost,) = probe(Path(sys.executable), table()).lost
    assert (lost.id, lost.state, lost.step) == ("dtype:float32", "crashed", "create")
    first, *rest = lost.output.splitlines()
    assert first == "the double is about to crash"
    # And where Python was.
    assert rest[0] == "Fatal Python error: Segmentation fault"
    assert any(line.endswith("in tensor") for line in rest)


def test_every_row_may_be_lost(double: Callable[..., None]) -> None:
    double(**dict.fromkeys(DTYPES, "segfault"))
    report = probe(Path(sys.executable), table())
    assert found(report) == dict.fromkeys(DTYPES, "crashes")
    assert report.restarts == len(DTYPES)


def test_wrong_results_are_failures(double: Callable[..., None]) -> None:
    double(wrong_sum=True)
    report = probe(Path(sys.executable), table())
    assert found(report) == SOUND | {"int32": "creates only"}
    # The double's sum of the fourth value, 4 + 4, is one too many.
    assert details(report)["int32"].startswith(
        "elementwise: ValueError: gave [2, 4, 6, 9, 0, 2, 4, 6], not [2, 4, 6, 8,"
    )


def test_what_cannot_be_copied_was_created_only(double: Callable[..., None]) -> None:
    double(bfloat16_copy=True)
    report = probe(Path(sys.executable), table())
    assert found(report) == SOUND | {"bfloat16": "creates only"}
    assert details(report)["bfloat16"] == "to device: NotImplementedError: no copy of bfloat16"


def test_a_data_type_that_torch_does_not_have(double: Callable[..., None]) -> None:
    more = NOTHING_ELSE + '[[dtype]]\nname = "qint8"\nkind = "float"\n'
    # Two names that are not of one data type are as wrong as none.
    more += '[[dtype]]\nname = "int64"\nalso = ["int32"]\nkind = "integer"\n'
    report = probe(Path(sys.executable), table(more))
    assert found(report) == SOUND | {"qint8": "not in this torch", "int64": "fails"}
    assert details(report)["qint8"] == "torch has no attribute qint8"
    assert details(report)["int64"].startswith("ValueError: int64, int32 are not one data type")
    assert report.failed == ("torch.qint8", "torch.int64")


def test_a_gpu_that_answers_no_more_is_left_to_a_new_process(double: Callable[..., None]) -> None:
    """An error that stays with the process would make every later row a failure."""
    double(float32="spoil", gpus=1, hip="7.1")
    report = probe(Path(sys.executable), table())
    assert found(report) == SOUND | {"float32": "fails"}
    assert details(report)["float32"] == (
        "create: RuntimeError: CUDA error: an illegal memory access was encountered"
    )
    assert (report.environment.device, report.restarts) == ("cuda", 1)
    assert [one.target for one in report.environment.devices] == ["gfx942:sramecc+"]


def test_a_gpu_that_is_gone_leaves_nothing_to_the_cpu(double: Callable[..., None], tmp_path: Path) -> None:
    double(float32="take the GPU along", gpus=1, hip="7.1", mark=str(tmp_path / "gone"))
    report = probe(Path(sys.executable), table())
    assert found(report) == {
        "float16": "works",
        "float32": "crashes",
        **dict.fromkeys(("bfloat16", "int32", "uint16"), "not run"),
    }
    assert report.environment.device == "cuda"
    assert report.environment.device_problem == "the GPU was gone after a process was lost (torch lists none)"
    assert report.failed == tuple(f"torch.{name}" for name in DTYPES[1:])


CALLS = """
flag = []
library = []
[[exercise]]
name = "fft"
calls = ["torch.fft.fft"]
[[exercise]]
name = "random"
calls = ["torch.rand"]
"""


def test_kernels_are_those_that_the_profiler_saw_on_the_gpu(double: Callable[..., None]) -> None:
    double(gpus=1, hip="7.1")
    report = probe(Path(sys.executable), table(CALLS))
    assert [row.kernels for row in report.calls] == [("a_kernel",), ("a_kernel",)]
    # The double's transforms are none, and it has no numbers at random.
    assert [row.found for row in report.calls] == ["fails", "fails"]


@pytest.mark.parametrize("fault", ["segfault", "hang", "raise"])
def test_a_profiler_that_fails_is_no_failure_of_the_functions(
    double: Callable[..., None], fault: str
) -> None:
    double(gpus=1, hip="7.1", profiler=fault)
    report = probe(Path(sys.executable), table(CALLS), limit_s=2.0)
    assert [(row.found, row.kernels) for row in report.calls] == [("fails", ()), ("fails", ())]
    assert all("profiler" not in row.detail and "process" not in row.detail for row in report.calls)
    # Lost once, it is not asked again.
    assert report.restarts == (0 if fault == "raise" else 1)
    asked = [any(step.name == "kernels" for step in row.steps) for row in report.calls]
    assert asked == ([True, True] if fault == "raise" else [False, False])
    assert found(report) == SOUND


def test_flags_are_read_and_set(double: Callable[..., None]) -> None:
    report = probe(Path(sys.executable), table("exercise = []\nlibrary = []\n" + FLAGS))
    assert [(row.name.rpartition(".")[2], row.found, row.value) for row in report.flags] == [
        ("flag", "not compared", "True"),
        ("stuck", "not settable", "True"),
        ("absent", "not in this torch", ""),
    ]
    # Flags are observed; nothing is claimed of them.
    assert report.failed == ()


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("missing library", "ImportError: libamdhip64.so.7: cannot open shared object file"),
        ("segfault", "the import crashed: the process ended by signal SIGSEGV .the double is about to cr"),
        ("hang", "the import hung: not done after 1 seconds"),
        ("raise", "RuntimeError: not here"),
    ],
)
def test_a_torch_that_cannot_be_imported_is_explained(
    double: Callable[..., None], fault: str, why: str
) -> None:
    double(**{"import": fault})
    text = NOTHING_ELSE + TABLE.replace("_s = 20", "_s = 1")
    quick = parse_table(text, ProbeTable, where="table")
    with pytest.raises(TorchBroken, match=why) as caught:
        probe(Path(sys.executable), quick)
    assert (caught.value.exit_code, caught.value.next_step) == (
        15,
        f"see the whole traceback: {sys.executable} -c 'import torch'",
    )


def test_asking_for_gpus_may_crash_too(double: Callable[..., None]) -> None:
    double(init="segfault", hip="7.1")
    report = probe(Path(sys.executable), table())
    assert found(report) == SOUND
    assert report.environment.device == "cpu"
    assert report.environment.device_problem == "asking for GPUs: the process ended by signal SIGSEGV"
    with pytest.raises(NoGpu, match="asking for GPUs: the process ended by signal SIGSEGV"):
        probe(Path(sys.executable), table(), device="cuda")


def test_no_gpu_no_torch_no_interpreter_no_time(
    double: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoGpu, match=r"torch 2.10.0\+double \(CPU only\) sees no GPU: it lists none"):
        probe(Path(sys.executable), table(), device="cuda")
    with pytest.raises(UsageError, match="cannot end within 0 seconds"):
        probe(Path(sys.executable), table(), limit_s=0)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(MissingTool, match="has no torch"):
        probe(Path(sys.executable), table())
    with pytest.raises(MissingTool, match="does not answer as a Python interpreter"):
        probe(Path("/bin/false"), table())


# --- at the user's door


def ended(words: list[str]) -> int:
    return status("compat", "probe", *words)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command with a table of a few rows: the double has no functions to exercise."""
    monkeypatch.setattr("rocwright.cli.compat.probe.load_table", lambda *_: table())


def test_the_command_prints_claims_against_what_was_found(
    double: Callable[..., None], small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    assert ended(["--python", sys.executable, "--html", str(page)]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("torch 2.10.0+double (CPU only), Python ")
    assert "? Not a ROCm torch: CPU only, on the CPU; it says nothing about what is claimed for " in said.out
    found = [line.split()[:5] for line in said.out.splitlines()]
    assert ["float16", "supported", "works", "as", "claimed"] in found
    assert f"written: {page}" in said.err
    assert "<title>Probe of torch 2.10.0+double</title>" in page.read_text()


def test_the_command_ends_with_its_own_code_and_its_json_is_whole(
    double: Callable[..., None], small: None, capsys: pytest.CaptureFixture[str]
) -> None:
    double(int32="exit")
    assert ended(["--python", sys.executable, "--json"]) == 14
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert report["failed"] == ["torch.int32"]
    assert [row["found"] for row in report["dtypes"]] == ["works", "works", "works", "crashes", "works"]
    assert "error (ClaimFailed): 1 claim does not hold: torch.int32" in said.err
    assert "dtype:int32: crashed: the process ended with exit code 0" in said.err


def test_answers_of_another_machine_are_reported_on(
    double: Callable[..., None], small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script alone, as somebody without rocwright runs it: with a table as JSON or TOML."""
    toml, out = tmp_path / "probe.toml", tmp_path / "answers.json"
    toml.write_text(NOTHING_ELSE + TABLE)
    if sys.version_info < (3, 11):
        toml = tmp_path / "probe.json"
        toml.write_bytes(msgspec.json.encode(table()))
    done = process.run([sys.executable, probing.SCRIPT, toml, "--out", out, "--json"])
    assert json.loads(done.stdout) == json.loads(out.read_text())
    assert ended(["--answers", str(out)]) == 0
    found = [line.split()[:5] for line in capsys.readouterr().out.splitlines()]
    assert ["float16", "supported", "works", "as", "claimed"] in found
    assert ended(["--answers", str(out), "--python", sys.executable]) == 2


def test_the_script_alone_says_what_is_wrong_with_its_table(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    for name, why in (("absent.json", "No such file"), ("broken.json", "cannot be read")):
        with pytest.raises(CommandFailed) as caught:
            process.run([sys.executable, probing.SCRIPT, tmp_path / name])
        assert caught.value.status == 1
        assert why in caught.value.tail and "Traceback" not in caught.value.tail


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "cannot be read: No such file"),
        ("{", "does not contain answers"),
        ("[]", "does not contain answers"),
        ('{"schema": 1}', "does not contain answers"),
        ("{" + SHORT.replace("1", "9") + "}", "is of version 9"),
    ],
)
def test_answers_that_are_none(tmp_path: Path, text: str | None, why: str) -> None:
    path = tmp_path / "answers.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InvalidData, match=why):
        read_answers(path)
