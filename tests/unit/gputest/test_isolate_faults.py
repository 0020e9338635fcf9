"""Every way in which a test can take its process down costs one test: that one, with the right verdict."""

import functools
import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from rocwright.gputest.isolate import state, worker
from rocwright.gputest.isolate import state as watch
from rocwright.gputest.isolate.plan import Isolated, Isolation
from rocwright.gputest.isolate.run import run_isolated
from rocwright.gputest.isolate.worker import Worker

IMPORTS = "import ctypes, os, signal, subprocess, sys, threading, time, unittest\nimport pytest\n\n"


def isolated(tmp_path: Path, sources: dict[str, str], **fields) -> Isolated:
    """Run these files in workers of this interpreter."""
    root = tmp_path / "suite"
    for name, source in sources.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(IMPORTS + source)
    values = {
        "python": Path(sys.executable),
        "root": root,
        "files": tuple(name for name in sources if Path(name).name.startswith("test_")),
        "test_s": 60.0,
        "collect_s": 60.0,
        "end_s": 10.0,
        "log_dir": tmp_path / "logs",
    }
    return run_isolated(Isolation(**(values | fields)))


def verdicts(done: Isolated) -> dict[str, str]:
    return {case.id.rpartition("::")[2]: case.verdict for case in done.results}


def result(done: Isolated, name: str):
    return next(case for case in done.results if case.id.rpartition("::")[2] == name)


def fault(tmp_path: Path, body: str, *, around: str = "", **fields) -> Isolated:
    """A test with this body between two that pass."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    source = (
        f"{around}\ndef test_before():\n    pass\n\ndef test_fault():\n{lines}\ndef test_after():\n    pass\n"
    )
    return isolated(tmp_path, {"test_suite.py": source}, **fields)


def with_fault(verdict: str) -> dict[str, str]:
    return {"test_before": "passed", "test_fault": verdict, "test_after": "passed"}


# Processes that end.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("ctypes.string_at(0)", "ended by SIGSEGV (Segmentation fault)"),
        ("os.abort()", "ended by SIGABRT (Aborted)"),
        ("os._exit(0)", "ended its process with exit code 0"),
        ("os._exit(3)", "ended its process with exit code 3"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "ended by SIGKILL (Killed)"),
        ("os.killpg(0, signal.SIGKILL)", "ended by SIGKILL (Killed)"),
        ("os.closerange(3, 256)", "closed the connection or the log of its worker"),
        (
            "os.closerange(3, 256)\nheld = [open(os.devnull) for _ in range(99)]",
            "closed the connection or the log of its worker",
        ),
        (
            "os.write(2, b'Memory access fault by GPU node-1 on address 0x2.\\n')\nos.abort()",
            "ended by SIGABRT (Aborted): Memory access fault by GPU node-1 on address 0x2.",
        ),
    ],
)
def test_a_process_that_ends_costs_the_test_that_it_was_in(tmp_path, body, message):
    done = fault(tmp_path, body)
    assert verdicts(done) == with_fault("crashed")
    assert result(done, "test_fault").message == message
    assert done.worker_starts == 2
    assert done.complete


@pytest.mark.slow
@pytest.mark.parametrize(("body", "verdict"), [("ctypes.string_at(0)", "crashed"), ("assert 0", "failed")])
def test_workers_can_be_talked_with_over_a_port(tmp_path, monkeypatch, body, verdict):
    """As on Windows, where no socket is inherited."""
    monkeypatch.setattr(state, "Worker", functools.partial(Worker, port=True))
    done = fault(tmp_path, body)
    assert verdicts(done) == with_fault(verdict)
    assert done.complete


@pytest.mark.slow
def test_a_crash_shows_where_it_was_and_what_was_printed(tmp_path):
    done = fault(
        tmp_path, "print('just before')\ncalled_here()", around="def called_here():\n    ctypes.string_at(0)"
    )
    detail = result(done, "test_fault").detail
    assert "just before" in detail
    assert "in called_here" in detail
    assert "test_before" not in detail


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("sys.exit(0)", "SystemExit: 0"),
        ("pytest.exit('enough')", "raised Exit: enough"),
        ("raise KeyboardInterrupt", "raised KeyboardInterrupt"),
    ],
)
def test_an_exit_within_python_fails_one_test_and_its_worker_goes_on(tmp_path, body, message):
    done = fault(tmp_path, body)
    assert verdicts(done) == with_fault("failed")
    assert result(done, "test_fault").message == message
    assert done.worker_starts == 1


@pytest.mark.slow
def test_a_forked_child_that_comes_back_into_pytest_says_nothing(tmp_path):
    done = fault(tmp_path, "if os.fork() == 0:\n    raise ValueError\nos.wait()")
    assert verdicts(done) == with_fault("passed")
    assert done.worker_starts == 1


# Processes that do not end.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "frame"),
    [
        ("time.sleep(600)", "in test_fault"),
        # PyDLL keeps the interpreter's lock: no Python code of this process runs any more.
        ("ctypes.PyDLL(None).sleep(600)", "in test_fault"),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwaiting()", "in waiting"),
    ],
)
def test_a_hang_is_ended_and_shows_every_thread(tmp_path, body, frame):
    done = fault(tmp_path, body, around="def waiting():\n    threading.Event().wait(600)", test_s=1.0)
    assert verdicts(done) == with_fault("hung")
    case = result(done, "test_fault")
    assert case.message == "did not end within 1 s"
    assert frame in case.detail
    assert 1.0 <= case.seconds < 15.0


@pytest.mark.slow
def test_a_hang_in_a_teardown_says_so(tmp_path):
    source = """
@pytest.fixture
def stuck():
    yield
    time.sleep(600)

def test_fault(stuck):
    pass

def test_after():
    pass
"""
    done = isolated(tmp_path, {"test_suite.py": source}, test_s=1.0)
    assert verdicts(done) == {"test_fault": "hung", "test_after": "passed"}
    assert result(done, "test_fault").message == "did not end within 1 s, in its teardown"


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "threading.Thread(target=time.sleep, args=(600,)).start()",
        "import atexit; atexit.register(time.sleep, 600)",
    ],
)
def test_a_process_that_does_not_end_after_its_tests_costs_none(tmp_path, line):
    done = isolated(tmp_path, {"test_suite.py": f"{line}\n\ndef test_one():\n    pass\n"}, end_s=1.0)
    assert verdicts(done) == {"test_one": "passed"}
    assert done.complete
    assert done.notes == ("worker 1: its process did not end within 1 s after its tests; see worker-1.log",)


# Collection.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "verdict", "message"),
    [
        ("import no_such_module", "error", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("sys.exit(3)", "error", "SystemExit: 3"),
        ("pytest.exit('enough')", "error", "Exit: enough"),
        ("raise KeyboardInterrupt", "error", "KeyboardInterrupt"),
        ("def broken(:", "error", "SyntaxError: invalid syntax"),
        ("os._exit(4)", "crashed", "while it was collected: ended its process with exit code 4"),
        ("ctypes.string_at(0)", "crashed", "while it was collected: ended by SIGSEGV (Segmentation fault)"),
        ("pytest.skip('not here', allow_module_level=True)", "skipped", "not here"),
    ],
)
def test_a_file_that_cannot_be_collected_stands_for_its_tests(tmp_path, line, verdict, message):
    sources = {
        "test_a.py": f"{line}\n\ndef test_never():\n    pass\n",
        "test_b.py": "def test_one():\n    pass\n",
    }
    done = isolated(tmp_path, sources)
    assert verdicts(done) == {"test_a.py": verdict, "test_one": "passed"}
    assert result(done, "test_a.py").message == message


@pytest.mark.slow
def test_a_file_whose_collection_hangs_is_given_up(tmp_path):
    sources = {"test_a.py": "time.sleep(600)\n", "test_b.py": "def test_one():\n    pass\n"}
    done = isolated(tmp_path, sources, collect_s=4.0)
    assert verdicts(done) == {"test_a.py": "hung", "test_one": "passed"}
    assert result(done, "test_a.py").message == "while it was collected: did not end within 4 s"


@pytest.mark.slow
def test_a_file_that_is_not_there_is_an_error_and_the_others_run(tmp_path):
    done = isolated(
        tmp_path, {"test_b.py": "def test_one():\n    pass\n"}, files=("test_gone.py", "test_b.py")
    )
    assert verdicts(done) == {"test_gone.py": "error", "test_one": "passed"}
    assert "test_gone.py" in result(done, "test_gone.py").message


# Memory, output, children.


@pytest.mark.slow
def test_a_memory_hog_is_ended_at_its_limit(tmp_path):
    around = (
        "def eat():\n    held = []\n    while True:\n"
        "        held.append(b'x' * 10_000_000)\n        time.sleep(0.01)\n"
    )
    done = fault(tmp_path, "eat()", around=around, memory=400_000_000)
    assert verdicts(done) == with_fault("memory")
    assert "in eat" in result(done, "test_fault").detail
    assert result(done, "test_fault").message.endswith("GB; the limit is 0.40 GB")


@pytest.mark.slow
def test_the_memory_of_children_counts(tmp_path):
    program = "import time; held = b'x' * 600_000_000; time.sleep(600)"
    done = fault(tmp_path, f"subprocess.run([sys.executable, '-c', {program!r}])", memory=400_000_000)
    assert verdicts(done) == with_fault("memory")


@pytest.mark.slow
def test_a_test_that_starts_processes_without_end_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "_MOST_PROCESSES", 20)
    body = """
for _ in range(30):
    if os.fork() == 0:
        time.sleep(600)
time.sleep(600)"""
    done = fault(tmp_path, body)
    assert verdicts(done) == with_fault("crashed")
    assert result(done, "test_fault").message == "started more than 20 processes"


@pytest.mark.slow
def test_what_the_system_ends_for_memory_is_told_from_other_kills(tmp_path, monkeypatch):
    """With a stand-in for Linux's counter: it goes up where the test leaves a file."""
    sign = tmp_path / "out-of-memory"
    monkeypatch.setattr(watch, "_system_kills", lambda: 7 + sign.exists())
    body = f"open({str(sign)!r}, 'w').close()\nos.kill(os.getpid(), signal.SIGKILL)"
    done = fault(tmp_path, body)
    assert verdicts(done) == with_fault("memory")
    expected = "the system ran out of memory and ended its process (SIGKILL (Killed))"
    assert result(done, "test_fault").message == expected


def test_linux_counts_what_it_ends_for_memory_in_the_group_and_on_the_machine(monkeypatch):
    kills = {"group/memory.events": 2, "/proc/vmstat": 5}
    monkeypatch.setattr(watch, "find_groups", lambda _: SimpleNamespace(directories=(Path("group"),)))
    monkeypatch.setattr(watch, "read_table", lambda path: {"oom_kill": kills[path.as_posix()], "low": 9})
    memory = watch.MemoryWatch(None)
    assert not memory.killed_by_system(-9)
    for place in kills:
        kills[place] += 1
        assert memory.killed_by_system(-9), place
        assert not memory.killed_by_system(-9), place


def test_where_the_threads_stand_is_waited_for_until_all_of_it_is_in_the_log(monkeypatch):
    """With a stand-in for the clock: 0.01 s for each look at the log."""
    # For long nothing, then two pieces, then no more.
    sizes = [*[100] * 8, 300, 300, 500, *[500] * 20]
    looks = iter(sizes)
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    monkeypatch.setattr(worker, "time", clock)
    hung = Worker.__new__(Worker)
    hung.child = SimpleNamespace(ask_for_dump=lambda: True)
    hung._log_size = lambda: next(looks)
    hung.dump()
    # The eleventh size is the last new one; until it has stayed for 0.05 s there are five or six more looks.
    assert len(sizes) - len(list(looks)) in (16, 17)


@pytest.mark.slow
def test_what_a_lost_test_started_is_ended(tmp_path):
    pids = tmp_path / "pids"
    body = f"""
for number in range(5):
    child = subprocess.Popen(['sleep', '600'], start_new_session=bool(number % 2))
    print(child.pid, file=open({str(pids)!r}, 'a'))
os._exit(1)"""
    done = fault(tmp_path, body)
    assert verdicts(done) == with_fault("crashed")
    left = [pid for pid in pids.read_text().split() if alive(int(pid))]
    assert left == []


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.slow
def test_output_beyond_measure_fills_no_disk(tmp_path):
    body = "for _ in range(3000):\n    os.write(1, b'x' * 99_999 + b'\\n')\n    time.sleep(0.0005)"
    done = fault(tmp_path, body)
    assert verdicts(done) == with_fault("passed")
    assert (tmp_path / "logs/worker-1.log").stat().st_size < 200_000_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "os.close(1); os.close(2)",
        "sys.stdout.close(); sys.stderr.close()",
        "os.chdir('/')",
        "sys.stdout = sys.stderr = None",
    ],
)
def test_what_a_test_does_to_its_process_is_mended(tmp_path, body):
    source = (
        f"def test_fault():\n    {body}\n\n"
        "def test_next():\n    print('here')\n    os.write(2, b'there')\n"
        "    assert os.path.exists('test_suite.py')\n"
    )
    done = isolated(tmp_path, {"test_suite.py": source})
    assert verdicts(done) == {"test_fault": "passed", "test_next": "passed"}
    assert done.worker_starts == 1


# Verdicts of what pytest says.


def test_verdicts_of_ordinary_tests(tmp_path):
    source = """
def test_failed():
    print('what it printed')
    assert 1 + 1 == 3, 'wrong sum'

@pytest.mark.xfail(reason='bug 7')
def test_xfailed():
    raise AssertionError

@pytest.mark.xfail(strict=True, reason='bug 8')
def test_xpassed():
    pass

@pytest.mark.xfail(strict=False, reason='may fail')
def test_lax():
    pass

@pytest.mark.skip(reason='not on Mondays')
def test_skipped():
    pass

@pytest.fixture
def broken():
    raise RuntimeError('no device')

def test_error(broken):
    pass

@pytest.fixture
def untidy():
    yield
    raise RuntimeError('left open')

def test_teardown(untidy):
    pass

@pytest.mark.parametrize('x', ['a::b', 'c'])
def test_many(x):
    pass

class TestOld(unittest.TestCase):
    @unittest.expectedFailure
    def test_unexpected(self):
        pass

    def test_parts(self):
        for part in range(3):
            with self.subTest(part=part):
                self.assertNotEqual(part, 1)
"""
    done = isolated(tmp_path, {"test_suite.py": source})
    assert [(case.id.partition("::")[2], case.verdict, case.message) for case in done.results] == [
        ("test_failed", "failed", "AssertionError: wrong sum"),
        ("test_xfailed", "xfailed", "bug 7"),
        ("test_xpassed", "xpassed", "passed, but is expected to fail: bug 8"),
        ("test_lax", "passed", "passed although it may fail: may fail"),
        ("test_skipped", "skipped", "not on Mondays"),
        ("test_error", "error", "setup: RuntimeError: no device"),
        ("test_teardown", "error", "teardown: RuntimeError: left open"),
        ("test_many[a::b]", "passed", ""),
        ("test_many[c]", "passed", ""),
        ("TestOld::test_parts", "failed", "AssertionError: 1 == 1"),
        ("TestOld::test_unexpected", "xpassed", "passed, but is marked as an expected failure"),
    ]
    assert "what it printed" in result(done, "test_failed").detail


@pytest.mark.slow
def test_fixtures_of_every_scope_live_as_long_as_in_plain_pytest(tmp_path):
    conftest = """
def note(text):
    with open('trace', 'a') as stream:
        print(text, file=stream)

@pytest.fixture(scope='session', autouse=True)
def whole():
    note('session up')
    yield
    note('session down')

@pytest.fixture(scope='module', autouse=True)
def per_file(request):
    note('file up')
    yield
    note('file down')
"""
    tests = "".join(f"def test_{number}():\n    pass\n\n" for number in range(30))
    done = isolated(tmp_path, {"conftest.py": conftest, "test_a.py": tests, "sub/test_b.py": tests})
    assert len(done.results) == 60
    assert {case.verdict for case in done.results} == {"passed"}
    assert (tmp_path / "suite/trace").read_text().split("\n")[:-1] == [
        "session up", "file up", "file down", "file up", "file down", "session down",
    ]  # fmt: skip


@pytest.mark.slow
def test_fixtures_of_a_directory_serve_every_file_in_it(tmp_path):
    conftest = "@pytest.fixture\ndef lent():\n    return 7\n"
    uses = "def test_one(lent):\n    assert lent == 7\n"
    names = ("sub/test_a.py", "sub/test_b.py", "sub/deep/test_c.py")
    done = isolated(tmp_path, {"sub/conftest.py": conftest} | dict.fromkeys(names, uses))
    assert [(case.id, case.verdict) for case in done.results] == [
        ("sub/test_a.py::test_one", "passed"),
        ("sub/test_b.py::test_one", "passed"),
        ("sub/deep/test_c.py::test_one", "passed"),
    ]


def test_a_session_fixture_that_fails_to_end_is_an_error_of_the_last_test(tmp_path):
    source = """
@pytest.fixture(scope='session')
def whole():
    yield
    raise RuntimeError('still busy')

def test_one(whole):
    pass
"""
    done = isolated(tmp_path, {"test_suite.py": source})
    assert [(case.verdict, case.message) for case in done.results] == [
        ("error", "teardown: RuntimeError: still busy")
    ]


# Being stopped.


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_running_when_the_run_is_stopped(tmp_path, number):
    pids = tmp_path / "pids"
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite/test_suite.py").write_text(
        "import os, subprocess, time\n\ndef test_quick():\n    pass\n\ndef test_long():\n"
        "    left = [subprocess.Popen(['sleep', '600'], start_new_session=new) for new in (False, True)]\n"
        f"    with open({str(pids)!r}, 'w') as stream:\n"
        "        print(os.getpid(), *(one.pid for one in left), 'all', file=stream)\n    time.sleep(600)\n"
    )
    program = f"""
import sys
from pathlib import Path
from rocwright.gputest.isolate.plan import Isolation
from rocwright.gputest.isolate.run import run_isolated
from rocwright.gputest.isolate.worker import Worker
done = run_isolated(Isolation(python=Path(sys.executable), root=Path({str(tmp_path / "suite")!r}),
    files=("test_suite.py",), test_s=60, collect_s=60, end_s=5, log_dir=Path({str(tmp_path)!r})))
print(done.complete, done.interrupted, [(case.id, case.verdict) for case in done.results])
"""
    import subprocess

    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (pids.exists() and "all" in pids.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(child.pid, number)
    output, _ = child.communicate(timeout=60)
    worker, *started = map(int, pids.read_text().split()[:-1])
    assert len(started) == 2
    deadline = time.monotonic() + 60
    while any(map(alive, (worker, *started))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [pid for pid in (worker, *started) if alive(pid)] == []
    expected = "False True [('test_suite.py::test_quick', 'passed')]\n"
    assert output == (expected if number == signal.SIGINT else "")
