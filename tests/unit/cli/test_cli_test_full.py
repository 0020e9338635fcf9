"""`rocwright test full` at its door, with a miniature run_test.py and a stand-in for torch."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import run_program
from miniature_pytorch import make_checkout, make_torch

REPOSITORY = Path(__file__).resolve().parents[3]
Door = Callable[..., subprocess.CompletedProcess[str]]

# A stand-in for PyTorch's run_test.py: writes down what it was given, then does what the file `act` says.
RUN_TEST = """
import argparse, json, os, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("-v", "--verbose", action="count")
parser.add_argument("--keep-going", action="store_true")
parser.add_argument("--exclude-jit-executor", action="store_true")
parser.add_argument("--exclude-distributed-tests", action="store_true")
parser.add_argument("--distributed-tests", action="store_true")
parser.add_argument("--inductor", action="store_true")
parser.add_argument("--dry-run", action="store_true")
parser.add_argument("-k", default="")
parser.add_argument("-i", "--include", nargs="+", default=[],
    choices=["test_nn", "test_ops", "test_modules", "test_torch", "inductor/test_torchinductor"])
parser.add_argument("-x", "--exclude", nargs="+", default=[])
parser.add_argument("--shard", nargs=2, type=int)
args, extra = parser.parse_known_args()
args.extra = [word for word in extra if word != "--"]
here = os.path.dirname(os.path.abspath(__file__))
reports = os.path.join(here, "test-reports", "python-pytest")
os.makedirs(reports, exist_ok=True)
with open(os.environ["SEEN"], "a") as stream:
    json.dump({"args": vars(args), "env": dict(os.environ), "cwd": os.getcwd()}, stream)
    stream.write("\\n")
def err(text):
    print(text, file=sys.stderr, flush=True)
def report(name, *cases):
    head = '<testcase classname="TestNN" time="0.5" file="test_nn.py"'
    body = "".join(f'{head} name="{one}">{inner}</testcase>' for one, inner in cases)
    suite = f'<testsuite name="pytest" tests="{len(cases)}">{body}</testsuite>'
    with open(os.path.join(reports, name + ".xml"), "w") as stream:
        stream.write(f"<testsuites>{suite}</testsuites>")
FAILURE = '<failure message="AssertionError: 1 != 2">trace</failure>'
exec(open(os.path.join(here, "..", "act")).read())
"""
PASS = 'report("one", ("test_a", ""), ("test_b", ""))\n'
DONE = "err(\"Running test batch 'tests to run' cost 1.0 seconds\")\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with `pytorch`, whose run_test.py does what `pytorch/act` says, and a torch for ROCm."""
    make_torch(tmp_path / "double", targets=("gfx942", "gfx942"))
    tests = {"run_test.py": RUN_TEST, "test_nn.py": "", "nn/test_convolution.py": ""}
    make_checkout(tmp_path / "pytorch", tests)
    for name in ("pytest_rerunfailures", "pytest_flakefinder", "pytest_xdist", "pytest_timeout"):
        facts = tmp_path / "double" / f"{name}-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    return tmp_path


@pytest.fixture
def full(root: Path) -> Door:
    """The command, on a run_test.py that does `act`."""

    def call(act: str, *words: object, **env: str) -> subprocess.CompletedProcess[str]:
        (root / "pytorch" / "act").write_text(act)
        double = {"PYTHONPATH": str(root / "double"), "SEEN": str(root / "seen")}
        return run_program("test", "full", *words, cwd=root, env=double | env)

    return call


def seen(root: Path) -> list[dict[str, dict[str, object]]]:
    return [json.loads(line) for line in (root / "seen").read_text().splitlines()]


def record(root: Path, key: str = "full-default-gfx942-1of1") -> dict[str, object]:
    found = json.loads((root / "test-reports" / key / "results.json").read_text())
    assert isinstance(found, dict)
    return found


def verdicts(root: Path, key: str = "full-default-gfx942-1of1") -> dict[str, str]:
    results = record(root, key)["results"]
    assert isinstance(results, list)
    return {one["id"]: one["verdict"] for one in results}


@pytest.mark.slow
def test_what_run_test_is_given(full: Door, root: Path) -> None:
    words = ("--shard", 2, "--num-shards", 3, "--exclude", "test_ops", "--no-cache")
    done = full(PASS, *words, "--", "-x", "--tb=short", GPU_DEVICE_ORDINAL="1", TESTS_TO_INCLUDE="test_nn")
    assert done.returncode == 0, done.stderr
    (call,) = seen(root)
    args, env = call["args"], call["env"]
    assert args["shard"] == [2, 3]
    assert args["include"] == ["test_nn"]
    # What breaks the run, as far as this checkout has it, and what was asked for; not pytest's -x.
    assert args["exclude"] == ["nn/test_convolution", "test_ops"]
    assert args["extra"] == ["--timeout=900", "-p", "no:cacheprovider", "-x", "--tb=short"]
    assert (args["keep_going"], args["verbose"]) == (True, 1)
    assert (args["exclude_jit_executor"], args["exclude_distributed_tests"]) == (True, True)
    assert call["cwd"] == str(root / "pytorch")
    wanted = {
        "CI": "1",
        "BUILD_ENVIRONMENT": "linux-noble-rocm-py3.12-mi300",
        "TEST_CONFIG": "default",
        "PYTORCH_TEST_RUN_EVERYTHING_IN_SERIAL": "1",
        "PYTORCH_TEST_WITH_ROCM": "1",
        "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cuda",
        "PYTORCH_PRINT_REPRO_ON_FAILURE": "0",
        "HIP_VISIBLE_DEVICES": "0",
    }
    assert {name: env[name] for name in wanted} == wanted
    assert not {"GPU_DEVICE_ORDINAL", "TESTS_TO_INCLUDE"} & set(env)
    # This miniature has no --exclude-quantization-tests; given, it would reach every test file.
    assert "has no --exclude-quantization-tests" in done.stderr
    assert verdicts(root, "full-default-gfx942-2of3") == {
        "test_nn.py::TestNN::test_a": "passed",
        "test_nn.py::TestNN::test_b": "passed",
    }


@pytest.mark.slow
def test_distributed_uses_all_gpus_at_once(full: Door, root: Path) -> None:
    done = full(PASS, TEST_CONFIG="distributed", SHARD_NUMBER="", NUM_TEST_SHARDS="")
    assert done.returncode == 0, done.stderr
    (call,) = seen(root)
    assert call["args"]["distributed_tests"] is True
    assert call["args"]["exclude_distributed_tests"] is False
    assert call["env"]["HIP_VISIBLE_DEVICES"] == "0,1"
    assert "PYTORCH_TEST_RUN_EVERYTHING_IN_SERIAL" not in call["env"]


@pytest.mark.slow
def test_inductor_is_a_check_and_two_calls(full: Door, root: Path) -> None:
    check = root / "pytorch" / "tools" / "dynamo" / "verify_dynamo.py"
    check.parent.mkdir(parents=True)
    check.write_text("print('fine')\n")
    words = ("--test-config", "inductor", "--include", "test_torch", "inductor/test_torchinductor")
    done = full(PASS, *words)
    assert done.returncode == 0, done.stderr
    first, second = (call["args"] for call in seen(root))
    assert (first["inductor"], first["include"]) == (True, ["test_torch"])
    assert (second["inductor"], second["include"]) == (False, ["inductor/test_torchinductor"])
    check.write_text("raise SystemExit('no dynamo')\n")
    done = full(PASS, *words)
    assert done.returncode == 1
    key = "full-inductor-gfx942-1of1"
    assert verdicts(root, key) == {"tools/dynamo/verify_dynamo.py": "error"}
    assert record(root, key)["complete"] is False
    assert len(seen(root)) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "code", "expected"),
    [
        # A failure in a report counts, whatever the exit code says.
        ('report("one", ("test_a", ""), ("test_b", FAILURE))\n', 1, {"test_a": "passed", "test_b": "failed"}),
        # Failed, and passed in the new process that run_test.py starts.
        (
            'report("one", ("test_a", FAILURE))\ntime.sleep(0.05)\nreport("two", ("test_a", ""))\n',
            0,
            {"test_a": "flaky"},
        ),
        # A process that crashed leaves no report of its own.
        (
            PASS + "err(\"The following tests failed consistently: ['test/test_nn.py::TestNN::test_c']\")\n"
            'err("test_nn 1/1 failed!")\nsys.exit(1)\n',
            1,
            {"test_a": "passed", "test_b": "passed", "test_c": "crashed"},
        ),
        (
            PASS + 'err("test_ops 1/2 failed! Received signal: SIGSEGV")\nsys.exit(1)\n',
            1,
            {"test_a": "passed", "test_b": "passed", "test_ops.py": "crashed"},
        ),
        (PASS + "sys.exit(1)\n", 1, {"test_a": "passed", "test_b": "passed", "test/run_test.py": "error"}),
        ("os.abort()\n", 1, {"test/run_test.py": "error"}),
        ("pass\n", 5, {}),
    ],
)
def test_the_verdict_is_of_reports_words_and_exit_code(
    full: Door, root: Path, act: str, code: int, expected: dict[str, str]
) -> None:
    done = full(act)
    assert done.returncode == code, done.stderr
    assert {name.rpartition("::")[2]: verdict for name, verdict in verdicts(root).items()} == expected


@pytest.mark.slow
def test_reports_of_an_earlier_run_are_not_read(full: Door, root: Path) -> None:
    assert full('report("old", ("test_a", FAILURE))\n').returncode == 1
    assert full(PASS).returncode == 0
    assert set(verdicts(root)) == {"test_nn.py::TestNN::test_a", "test_nn.py::TestNN::test_b"}


@pytest.mark.slow
def test_a_report_that_breaks_off_is_said(full: Door, root: Path) -> None:
    broken = 'open(os.path.join(reports, "cut.xml"), "w").write("<testsuites><testsuite><testcase")\n'
    full(PASS + broken)
    notes = record(root)["notes"]
    assert isinstance(notes, list)
    assert any("cut.xml" in note for note in notes)


@pytest.mark.slow
def test_it_is_ended_when_its_tests_are_over_and_it_does_not_end(full: Door, root: Path) -> None:
    (root / "rocwright.toml").write_text("[tests.upstream]\nend_s = 1.0\n")
    child = "import subprocess\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])\n"
    began = time.monotonic()
    done = full(PASS + DONE + child + "time.sleep(300)\n")
    assert time.monotonic() - began < 60
    assert done.returncode == 0, done.stderr
    assert record(root).get("complete", True) is True
    assert "ended by force: its tests ended 1 seconds ago" in done.stderr


@pytest.mark.slow
def test_it_is_ended_when_it_hangs_before_that(full: Door, root: Path) -> None:
    (root / "rocwright.toml").write_text("[tests.upstream]\nsilent_tests = 2.0\n")
    done = full(PASS + "time.sleep(300)\n", "--test-timeout", "0.5")
    assert done.returncode == 1
    assert record(root)["complete"] is False
    assert verdicts(root)["test/run_test.py"] == "hung"


@pytest.mark.slow
def test_mistakes_are_said(full: Door, root: Path) -> None:
    done = full(PASS, "--test-config", "nightly")
    assert done.returncode == 2
    assert "configurations: default distributed inductor" in done.stderr
    done = full(PASS, "--test-config", "inductor", "--include", "test_nn")
    assert done.returncode == 2
    assert "none of test_nn belongs" in done.stderr
    done = full(PASS, "--include", "test_none")
    assert done.returncode == 2
    assert "invalid choice: 'test_none'" in done.stderr
    (root / "double" / "pytest_timeout-1.0.dist-info" / "METADATA").unlink()
    (root / "double" / "pytest_timeout-1.0.dist-info").rmdir()
    done = full(PASS)
    assert done.returncode == 4
    assert "no pytest-timeout" in done.stderr
    (root / "pytorch" / "test" / "run_test.py").unlink()
    done = full(PASS)
    assert done.returncode == 2
    assert "no test/run_test.py" in done.stderr


@pytest.mark.slow
def test_a_dry_run_says_all_and_runs_nothing(full: Door, root: Path) -> None:
    done = full(PASS, "--dry-run", "--json", "--test-config", "default")
    (plan,) = json.loads(done.stdout)
    assert plan["calls"][0][1:4] == ["test/run_test.py", "--keep-going", "--verbose"]
    assert plan["environment"]["TEST_CONFIG"] == "default"
    assert not (root / "seen").exists()
    assert not (root / "test-reports").exists()


@pytest.mark.slow
def test_skip_entries_hold_in_every_pytest_that_it_starts(full: Door, root: Path) -> None:
    body = "import unittest\nclass TestNN(unittest.TestCase):\n    def test_a(self): pass\n"
    body += "    def test_known(self): self.fail('known')\n"
    (root / "pytorch" / "test" / "test_nn.py").write_text(body)
    entry = '[[entry]]\nid = "known"\ntests = ["test_nn.py::TestNN::test_known"]\nkind = "xfail"\n'
    (root / "skips.toml").write_text(entry + 'reason = "a miniature reason"\nadded = 2026-01-02\n')
    act = 'import subprocess\npath = os.path.join(reports, "one.xml")\n'
    act += 'words = ["-m", "pytest", "-o", "junit_family=xunit1", "--junit-xml", path, "test_nn.py"]\n'
    act += "sys.exit(subprocess.run([sys.executable, *words], cwd=here).returncode)\n"
    done = full(act, "--skips", "skips.toml")
    assert done.returncode == 0, done.stderr
    assert verdicts(root) == {
        "test_nn.py::TestNN::test_a": "passed",
        "test_nn.py::TestNN::test_known": "xfailed",
    }
    assert full(act, "--skips", "skips.toml", "--debug").returncode == 1
    assert verdicts(root) == {"test_nn.py::TestNN::test_known": "failed"}
    assert full(act, "--skips", "skips.toml", "-k", "anything").returncode == 1
    assert len(verdicts(root)) == 2
