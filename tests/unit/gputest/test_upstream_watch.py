"""What run_test.py says and when it has to be ended; which calls a configuration is; the record on disk."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import msgspec
import pytest

from miniature_pytorch import make_checkout
from rocwright.data import load_table
from rocwright.errors import InvalidInput, UsageError
from rocwright.gputest.devices import DeviceGroup
from rocwright.gputest.environment import ChildEnvironment
from rocwright.gputest.full import Full, build_environment, call_environment, plan_calls
from rocwright.gputest.full_run import RunTestOutcome, Watch, read_said
from rocwright.gputest.isolate.run import Teller
from rocwright.gputest.record import RECORD_NAME, counts, exit_status, read_record, write_record
from rocwright.gputest.setting import Checkout, Setting
from rocwright.gputest.skips.entries import families_table
from rocwright.model.suites import SkipEntry, SkipWhere, SuiteTable
from rocwright.model.testing import CaseResult, Device, Ran, RunRecord, TorchFacts

TABLE = load_table("tests", SuiteTable)
FAMILIES = families_table()


# ---- what it says ----


def test_failures_are_read_from_what_it_says() -> None:
    lines = [
        "Running test_nn 1/2 ... [2026-08-01 10:00:00.000000]",
        "test_nn 1/2 failed!",
        "inductor/test_torchinductor 3/3 failed! Received signal: SIGSEGV",
        "test_ops failed! Received signal: SIGABRT",
        "The following tests failed consistently: ['test/test_nn.py::TestNN::test_a', 'test/test_nn.py::f']",
        "The following tests failed and then succeeded when run in a new process"
        "['test/test_nn.py::TestNN::test_b[x::y]']",
        # Said at the end once more.
        "test_nn 1/2 failed!",
        # A test may print what it likes.
        "The following tests failed consistently: [__import__('os').getpid()]",
        "  a test failed!",
        "compilation failed!",
    ]
    assert read_said(lines) == RunTestOutcome(
        (("test_nn", ""), ("inductor/test_torchinductor", "SIGSEGV"), ("test_ops", "SIGABRT")),
        ("test_nn.py::TestNN::test_a", "test_nn.py::f"),
        ("test_nn.py::TestNN::test_b[x::y]",),
    )


class Clock:
    """A clock that stands still."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def watching(tmp_path: Path, clock: Clock) -> Watch:
    (tmp_path / "reports").mkdir()
    (tmp_path / "log").write_text("")
    return Watch("Running test batch", 60, 2700, tmp_path / "reports", tmp_path / "log", clock=clock)


def test_a_process_whose_tests_are_over_has_a_minute_whatever_it_says(tmp_path: Path) -> None:
    clock = Clock()
    watch = watching(tmp_path, clock)
    watch.line("Running test batch 'tests to run' cost 71.2 seconds")
    clock.now = 59
    watch.line("still here")
    assert watch.ended() is None
    clock.now = 60
    assert watch.ended() == "its tests ended 60 seconds ago"


def test_lines_and_growing_reports_are_life_and_silence_is_not(tmp_path: Path) -> None:
    clock = Clock()
    watch = watching(tmp_path, clock)
    clock.now = 2699
    assert watch.ended() is None
    watch.line("Running test_nn 1/1 ... [now]")
    clock.now = 2699 + 2699
    assert watch.ended() is None
    # With CI=1 what tests print goes into files of its reports.
    (tmp_path / "reports" / "test_nn_toprint.log").write_text("dots")
    clock.now = 2699 + 2700
    assert watch.ended() is None
    clock.now = 2699 + 2700 + 2699
    assert watch.ended() is None
    clock.now = 2699 + 2700 + 2700
    assert watch.ended() == "nothing happened for 2700 seconds"


# ---- which calls ----


def checkout(tmp_path: Path, options: str) -> Path:
    tests = {"run_test.py": options, "test_nn.py": "", "dynamo/test_dynamic_shapes.py": ""}
    return make_checkout(tmp_path / "pytorch", tests)


def test_a_pytorch_without_a_configuration_is_told(tmp_path: Path) -> None:
    root = checkout(tmp_path, 'add_argument("--inductor-tests")')
    with pytest.raises(UsageError, match="has no --inductor, so it has no configuration inductor"):
        plan_calls(Full("inductor"), TABLE, root)


def test_a_module_that_somebody_names_is_not_left_out(tmp_path: Path) -> None:
    root = checkout(tmp_path, "")
    (call,) = plan_calls(Full(include=("dynamo/test_dynamic_shapes.py",)), TABLE, root).calls
    assert call.words == (
        *("test/run_test.py", "--keep-going", "--verbose"),
        *("--include", "dynamo/test_dynamic_shapes", "--", "--timeout=900"),
    )


def test_an_exclusion_that_is_not_wanted_is_not_given(tmp_path: Path) -> None:
    root = checkout(tmp_path, "'--exclude-jit-executor' '--exclude-distributed-tests'")
    wanted = {"exclude-jit-executor": False}
    found = plan_calls(Full(left_out=wanted, keyword="not slow", listing=True), TABLE, root)
    assert found.calls[0].words[3:] == (
        *("--exclude-distributed-tests", "--dry-run", "--exclude", "dynamo/test_dynamic_shapes"),
        *("-k", "not slow", "--", "--timeout=900"),
    )
    assert found.notes == ("run_test.py of this PyTorch has no --exclude-quantization-tests",)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("gfx942", "linux-noble-rocm-py3.12-mi300"),
        ("gfx90a", "linux-jammy-rocm-py3.10-mi200"),
        ("gfx950", "linux-noble-rocm-py3.12-mi355"),
        ("gfx1102", "linux-jammy-rocm-py3.10-navi31"),
        ("gfx1151", "linux-noble-rocm-py3.12-mi300"),
        ("", "linux-noble-rocm-py3.12-mi300"),
    ],
)
def test_the_name_of_the_timings(target: str, name: str) -> None:
    assert build_environment(target, TABLE, FAMILIES) == name


def test_only_machines_with_several_gpus_run_in_parallel() -> None:
    def of(config: str) -> dict[str, str]:
        base = ChildEnvironment({"A": "1"}, ("CI",))
        return call_environment(base, Full(config), TABLE, target="gfx942", families=FAMILIES).set

    assert of("default")["PYTORCH_TEST_RUN_EVERYTHING_IN_SERIAL"] == "1"
    assert "PYTORCH_TEST_RUN_EVERYTHING_IN_SERIAL" not in of("distributed")
    assert of("inductor")["TEST_CONFIG"] == "inductor"


# ---- the setting ----

FACTS = TorchFacts(version="2.10.0a0+devrocm7.11.0.dev0", hip="7.11", python="3.12.1")
ONE = Device(0, "GPU-0123456789abcdef", "gfx942")
SETTING = Setting(
    Path("/venv/bin/python"),
    FACTS,
    Checkout(Path("/src")),
    {"gfx942": (DeviceGroup("gfx942", (ONE,)),)},
    "linux",
)


@pytest.mark.parametrize(
    ("version", "rocm"),
    [
        ("2.10.0a0+devrocm7.11.0.dev0", "7.11.0.dev0"),
        ("2.9.1+rocm7.10.0", "7.10.0"),
        ("2.9.1+rocm7.10.0a20251120", "7.10.0a20251120"),
        ("2.9.1+cpu", ""),
        ("2.9.1", ""),
    ],
)
def test_the_rocm_of_a_wheel(version: str, rocm: str) -> None:
    facts = TorchFacts(version=version)
    assert msgspec.structs.replace(SETTING, facts=facts).rocm == rocm


def entry(name: str, torch: str) -> SkipEntry:
    return SkipEntry(name, ("test_nn.py::test_a",), "skip", "x", date(2026, 1, 1), SkipWhere(torch=torch))


@pytest.mark.parametrize(
    ("named", "hold"),
    [("", ["new", "any"]), ("2.8", ["old", "any"]), ("all", ["old", "new", "any"])],
)
def test_the_version_that_entries_are_chosen_for(named: str, hold: list[str]) -> None:
    entries = (entry("old", "==2.8.*"), entry("new", ">=2.10.0a0"), entry("any", ""))
    setting = msgspec.structs.replace(SETTING, pytorch_version=named)
    found, said = setting.entries_for(entries, "gfx942", FAMILIES, date(2026, 8, 1))
    assert ([one.id for one in found], said) == (hold, ())


def test_an_entry_whose_day_passed_is_said() -> None:
    old = msgspec.structs.replace(entry("old", ""), expires=date(2026, 7, 31))
    found = SETTING.entries_for((old, entry("elsewhere", "<2")), "gfx942", FAMILIES, date(2026, 8, 1))
    assert found == ((), ("the skip entry old expired on 2026-07-31; its tests run again",))


def test_workers_see_gpus_as_the_variable_names_them() -> None:
    assert SETTING.workers("gfx942", 2) == ({"HIP_VISIBLE_DEVICES": "GPU-0123456789abcdef"},) * 2
    environment = ChildEnvironment({}, ("GPU_DEVICE_ORDINAL",))
    removed = SETTING.removed(environment, {"CUDA_VISIBLE_DEVICES": "1"})
    assert removed == ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")


# ---- records, progress, exit codes ----

RAN = Ran("units", target="gfx942", torch="2.9.0", platform="linux")
GOOD, BAD = CaseResult("test_nn.py::test_a", "passed", 0.25), CaseResult("test_nn.py::test_b", "hung")


def test_a_record_comes_back_and_equal_records_are_equal_bytes(tmp_path: Path) -> None:
    record = RunRecord(RAN, (GOOD, BAD), 3.5, notes=("ä",))
    path = write_record(record, tmp_path / "a")
    assert path == tmp_path / "a" / RECORD_NAME
    assert read_record(path) == record
    write_record(record, tmp_path / "b")
    assert (tmp_path / "b" / RECORD_NAME).read_bytes() == path.read_bytes()
    assert (tmp_path / "a" / "test_nn.xml").is_file()


def test_a_damaged_record_is_an_error(tmp_path: Path) -> None:
    path = write_record(RunRecord(RAN, (GOOD,)), tmp_path)
    whole = path.read_bytes()
    renamed = whole.replace(b"passed", b"passt"), whole.replace(b'"ran"', b'"run"')
    for damaged in (b"", whole[:-30], b"[]", *renamed):
        path.write_bytes(damaged)
        with pytest.raises(InvalidInput, match="is not a record of a test run"):
            read_record(path)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_record(tmp_path / "absent" / RECORD_NAME)


@pytest.mark.parametrize(
    ("records", "status"),
    [
        ([RunRecord(RAN, (GOOD,))], 0),
        ([RunRecord(RAN, (CaseResult("a.py::b", "skipped"),))], 0),
        ([RunRecord(RAN, (CaseResult("a.py::b", "flaky"),))], 0),
        ([RunRecord(RAN, (GOOD,)), RunRecord(RAN, (BAD,))], 1),
        ([RunRecord(RAN, (BAD,), complete=False)], 1),
        ([RunRecord(RAN, (GOOD,), complete=False), RunRecord(RAN, ())], 2),
        ([RunRecord(RAN, (GOOD,)), RunRecord(RAN, ())], 5),
        ([], 5),
    ],
)
def test_exit_codes_are_pytests(records: list[RunRecord], status: int) -> None:
    assert exit_status(records) == status


def test_progress_is_a_letter_a_test_and_a_line_for_each_that_is_bad() -> None:
    said: list[str] = []
    teller = Teller(said.append)
    for number in range(73):
        teller.take(CaseResult(f"test_nn.py::test_{number}", "passed"))
    teller.take(CaseResult("test_cuda.py::test_x", "crashed", message="Segmentation fault"))
    teller.close()
    assert said == [
        f"test_nn.py {'.' * 72} [72]",
        "CRASHED test_cuda.py::test_x: Segmentation fault",
        "test_nn.py . [74]",
        "test_cuda.py C [74]",
    ]
    assert counts((GOOD, BAD, GOOD)) == {"hung": 1, "passed": 2}
