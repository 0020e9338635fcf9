"""Isolated runs as their callers use them: selections, reruns, shared files, refused arguments."""

import sys
from datetime import date
from pathlib import Path

import pytest

from rocwright.errors import InvalidInput, MissingTool, UsageError
from rocwright.model.suites import SkipEntry
from unit.gputest.test_isolate_faults import isolated, verdicts

SOMETIMES = """
def test_sometimes():
    with open('seen', 'a') as stream:
        stream.write('x')
    assert len(open('seen').read()) > 1

def test_steady():
    pass

def test_never():
    assert False
"""


@pytest.mark.slow
def test_a_test_that_passes_when_run_again_is_flaky(tmp_path):
    done = isolated(tmp_path, {"test_suite.py": SOMETIMES}, reruns=1)
    assert verdicts(done) == {"test_sometimes": "flaky", "test_steady": "passed", "test_never": "failed"}
    assert {case.id.rpartition("::")[2]: case.attempts for case in done.results} == {
        "test_sometimes": 2,
        "test_steady": 1,
        "test_never": 2,
    }
    assert done.worker_starts == 3


@pytest.mark.slow
def test_a_crash_that_does_not_come_back_is_flaky(tmp_path):
    source = (
        "def test_once():\n    if not os.path.exists('seen'):\n"
        "        open('seen', 'w')\n        os._exit(1)\n"
    )
    done = isolated(tmp_path, {"test_suite.py": source}, reruns=2)
    assert [(case.verdict, case.message, case.attempts) for case in done.results] == [
        ("flaky", "ended its process with exit code 1", 2)
    ]


@pytest.mark.slow
def test_entries_reach_the_tests_and_a_flaky_one_has_a_second_try(tmp_path):
    entries = (
        entry("hung-before", "test_suite.py::test_never", "hang"),
        entry("varies", "test_suite.py::test_sometimes", "flaky"),
    )
    done = isolated(tmp_path, {"test_suite.py": SOMETIMES}, entries=entries)
    assert [(case.verdict, case.entry) for case in done.results] == [
        ("flaky", "varies"),
        ("passed", ""),
        ("skipped", "hung-before"),
    ]


def entry(name: str, test: str, kind: str) -> SkipEntry:
    return SkipEntry(id=name, tests=(test,), kind=kind, reason="known", added=date(2026, 1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
def test_a_large_file_is_shared_and_every_test_runs_once(tmp_path, workers):
    # None ends before every process has begun one: the fastest would do all of them on a busy machine.
    source = f"""
@pytest.mark.parametrize('number', range(40))
def test_many(number):
    deadline = time.monotonic() + 40
    while len({{line.split()[1] for line in open('ran')}}) < {workers}:
        assert time.monotonic() < deadline
        time.sleep(0.02)
"""
    log = "def pytest_runtest_call(item):\n    print(item.name, os.getpid(), file=open('ran', 'a'))\n"
    done = isolated(
        tmp_path, {"conftest.py": log, "test_suite.py": source}, workers=tuple({} for _ in range(workers))
    )
    assert [case.id for case in done.results] == [f"test_suite.py::test_many[{n}]" for n in range(40)]
    ran = [line.split() for line in (tmp_path / "suite/ran").read_text().splitlines()]
    assert sorted(name for name, _ in ran) == sorted(f"test_many[{n}]" for n in range(40))
    assert len({pid for _, pid in ran}) == workers


@pytest.mark.slow
def test_a_few_long_tests_are_shared(tmp_path):
    # The first test ends when another process has run one: nobody may hold all that follow.
    source = """
@pytest.mark.parametrize('number', range(12))
def test_long(number):
    with open('ran', 'a') as stream:
        print(number, os.getpid(), file=stream)
    deadline = time.monotonic() + 40
    while len({line.split()[1] for line in open('ran')}) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
"""
    done = isolated(tmp_path, {"test_suite.py": source}, workers=({}, {}))
    assert [case.verdict for case in done.results] == ["passed"] * 12
    ran = [line.split()[0] for line in (tmp_path / "suite/ran").read_text().splitlines()]
    assert sorted(ran, key=int) == [str(number) for number in range(12)]


@pytest.mark.slow
def test_each_worker_has_its_own_variables(tmp_path):
    # Neither ends before the other process has begun: it would do both on a busy machine.
    source = """
def test_one():
    open(os.environ['DEVICE'], 'w').close()
    deadline = time.monotonic() + 40
    while not (os.path.exists('d0') and os.path.exists('d1')):
        assert time.monotonic() < deadline
        time.sleep(0.02)
"""
    isolated(
        tmp_path, {"test_a.py": source, "test_b.py": source}, workers=({"DEVICE": "d0"}, {"DEVICE": "d1"})
    )
    assert {path.name for path in (tmp_path / "suite").glob("d?")} == {"d0", "d1"}


def test_only_and_leave_take_ids_and_beginnings(tmp_path):
    source = """
class TestA:
    def test_1(self): pass
    def test_2(self): pass

@pytest.mark.parametrize('x', ['a::b', 'c'])
def test_3(x): pass
"""
    done = isolated(
        tmp_path,
        {"test_a.py": source, "test_b.py": source, "test_c.py": source},
        only=("test_a.py", "test_b.py::test_3[a::b]", "test_b.py::test_gone"),
        leave=("test_a.py::TestA::test_2", "test_a.py::test_3[c]"),
    )
    assert [case.id for case in done.results] == [
        "test_a.py::TestA::test_1",
        "test_a.py::test_3[a::b]",
        "test_b.py::test_3[a::b]",
    ]
    assert done.deselected == 5
    assert done.notes == ("test_b.py: 1 of the tests asked for are not there: test_b.py::test_gone",)


@pytest.mark.slow
def test_names_are_relative_to_the_tests_wherever_pytest_finds_its_settings(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -x -n 2 --junitxml=never.xml\n")
    done = isolated(
        tmp_path,
        {"test_a.py": "def test_1(): pass\ndef test_2(): pass\n", "sub/test_b.py": "def test_3(): pass\n"},
        files=("test_a.py::test_2", "sub/test_b.py"),
    )
    assert [case.id for case in done.results] == ["test_a.py::test_2", "sub/test_b.py::test_3"]
    assert not list(tmp_path.rglob("never.xml"))
    assert not list((tmp_path / "suite").glob(".pytest_cache"))


@pytest.mark.slow
def test_the_first_failure_ends_a_run_that_asks_for_it(tmp_path):
    source = "def test_1(): pass\ndef test_2(): assert 0\ndef test_3(): time.sleep(1)\ndef test_4(): pass\n"
    done = isolated(tmp_path, {"test_a.py": source, "test_b.py": source}, pytest_args=("--maxfail=1", "-v"))
    assert verdicts(done)["test_2"] == "failed"
    assert "test_4" not in verdicts(done)
    assert not done.complete
    assert done.notes == ("stopped after 1 failure, as pytest's options ask",)


@pytest.mark.slow
def test_parts_of_a_name_leave_the_rest_out(tmp_path):
    source = "def test_1(): pass\ndef test_2(): pass\n"
    done = isolated(tmp_path, {"test_a.py": source, "test_b.py": source}, pytest_args=("-k", "test_2"))
    assert [case.id for case in done.results] == ["test_a.py::test_2", "test_b.py::test_2"]
    assert done.deselected == 2


@pytest.mark.slow
def test_what_tests_print_of_secrets_is_nowhere(tmp_path):
    source = "def test_1():\n    print(os.environ['SOME_TOKEN'])\n    assert os.environ['SOME_TOKEN'] == ''\n"
    done = isolated(tmp_path, {"test_a.py": source}, env={"SOME_TOKEN": "hidden-word-1"})
    (case,) = done.results
    assert case.verdict == "failed"
    assert "hidden-word-1" not in case.message + case.detail
    assert "hidden-word-1" not in (tmp_path / "logs/worker-1.log").read_text()


# Usage errors, before any test.


@pytest.mark.parametrize(
    ("argument", "instead"),
    [
        ("-n4", "the run has workers of its own"),
        ("--dist=load", "the run has workers of its own"),
        ("--junitxml=x.xml", "reports are written beside results.json"),
        ("--collect-only", "`pytest --collect-only` says what there is"),
        ("--lf", "name the tests with -k"),
        ("--stepwise", "use -x"),
        ("--pdb", "run pytest itself on that test"),
        ("--version", "ask pytest itself"),
    ],
)
def test_options_for_a_whole_session_are_refused(tmp_path, argument, instead):
    with pytest.raises(UsageError, match=f"{argument} cannot be passed to pytest here") as refused:
        isolated(tmp_path, {"test_a.py": "def test_1(): pass\n"}, pytest_args=(argument,))
    assert refused.value.next_step == f"leave it out; {instead}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--no-such-option",), "pytest refuses its arguments: unrecognized arguments: --no-such-option"),
        (("-k", "a and"), "pytest refuses its arguments: Wrong expression passed to '-k'"),
        (("test_b.py",), "test_b.py cannot be one of pytest's arguments"),
    ],
)
def test_arguments_that_pytest_cannot_use_are_usage_errors(tmp_path, arguments, message):
    sources = {"test_a.py": "def test_1(): pass\n", "test_b.py": "def test_2(): pass\n"}
    with pytest.raises(UsageError) as caught:
        isolated(tmp_path, sources, pytest_args=arguments)
    assert message in str(caught.value)


@pytest.mark.slow
def test_arguments_of_the_surroundings_are_named_as_such(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_PLUGINS", "no_such_plugin")
    with pytest.raises(UsageError, match="no_such_plugin") as caught:
        isolated(tmp_path, {"test_a.py": "def test_1(): pass\n"})
    assert "PYTEST_PLUGINS" in str(caught.value.next_step)


@pytest.mark.slow
def test_a_python_that_adds_no_directory_of_its_own_runs_tests(tmp_path):
    entries = (entry("known", "test_a.py::test_1", "skip"),)
    done = isolated(
        tmp_path, {"test_a.py": "def test_1(): pass\n"}, env={"PYTHONSAFEPATH": "1"}, entries=entries
    )
    assert [case.entry for case in done.results] == ["known"]


def test_no_directory_and_no_file_are_usage_errors(tmp_path):
    with pytest.raises(UsageError, match="the directory of the tests does not exist"):
        isolated(tmp_path, {}, files=("test_a.py",))
    with pytest.raises(UsageError, match=r"none of the test files exists: test_gone.py"):
        isolated(tmp_path, {"test_a.py": ""}, files=("test_gone.py",))


def test_an_interpreter_that_is_not_there_is_named(tmp_path):
    with pytest.raises(MissingTool, match=r"no/python was not found"):
        isolated(tmp_path, {"test_a.py": "def test_1(): pass\n"}, python=Path("no/python"))


def test_an_interpreter_without_pytest_is_named(tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    python.chmod(0o755)
    with pytest.raises(MissingTool, match="pytest cannot be imported by"):
        isolated(tmp_path, {"test_a.py": "def test_1(): pass\n"}, python=python)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("import no_such_torch", "ModuleNotFoundError: No module named 'no_such_torch'"),
        ("ctypes.string_at(0)", "ended by SIGSEGV"),
        ("os._exit(0)", "ended its process with exit code 0"),
    ],
)
def test_workers_that_cannot_start_are_one_clear_error(tmp_path, line, message):
    with pytest.raises(InvalidInput) as caught:
        isolated(
            tmp_path, {"conftest.py": f"{line}\n", "test_a.py": "def test_1(): pass\n"}, workers=({}, {})
        )
    assert message in caught.value.what
    assert str(caught.value.where).endswith(".log")
