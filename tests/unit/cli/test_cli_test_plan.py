"""`rocwright test plan`, `durations` and `matrix` at the door: what is printed, written, and refused."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from command_line import Run
from rocwright.gputest.record import write_record
from rocwright.model.testing import CaseResult, Ran, RunRecord

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "build_tools/github_actions/generate_test_sharding_matrix.py"


@pytest.fixture
def call(rocwright: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`rocwright test …`, outside of any workflow."""
    monkeypatch.delenv("GITHUB_OUTPUT", raising=False)
    return partial(rocwright, "test")


def reported(folder: Path, seconds: dict[str, float], *, target: str = "gfx942") -> None:
    results = tuple(CaseResult(test, "passed", each) for test, each in seconds.items())
    write_record(RunRecord(Ran("units", target=target, torch="2.9.0+rocm7.10.0"), results), folder)


def test_the_plan_of_two_gpus_as_json(call: Run) -> None:
    code, out, err = call("plan", "--targets", "gfx942,gfx1151", "--torch", "2.9", "--json")
    assert (code, err) == (0, "")
    jobs = json.loads(out)["jobs"]
    assert [job["id"] for job in jobs[::6]] == ["units-default-gfx942-1of6", "units-default-gfx1151-1of6"]
    assert len(jobs) == 12
    assert {file for job in jobs[:6] for file in job["files"]} == {
        "test_nn.py",
        "test_torch.py",
        "test_cuda.py",
        "test_unary_ufuncs.py",
        "test_binary_ufuncs.py",
        "test_autograd.py",
    }


def test_the_plan_for_people_says_by_what_it_was_made(call: Run) -> None:
    code, out, err = call(
        "plan", "--targets", "gfx94X-dcgpu", "cpu", "--torch", "2.9", "--shards", "default=3"
    )
    assert code == 0
    assert "units-default-gfx942-1of3" in out
    assert "rocwright test units --cpu --shard 3 --num-shards 3" in out
    assert "units-default-gfx942: durations: none given, so shards go by the number of files" in err


def test_options_take_several_words(call: Run) -> None:
    words = ("--targets", "cpu", "--torch", "2.9", "--suite-files", "test_nn.py", "test_torch.py")
    code, out, _ = call("plan", *words, "--shards", "default=1", "distributed=2", "--json")
    assert code == 0
    (job,) = json.loads(out)["jobs"]
    assert job["files"] == ["test_nn.py", "test_torch.py"]


def test_reports_become_durations_and_durations_shards(call: Run, tmp_path: Path) -> None:
    times = {f"test_nn.py::TestNN::t{number}": 10.0 for number in range(4)} | {"test_nn.py::B::x": 1.0}
    reported(tmp_path / "reports" / "one", times)
    assert call("durations", "reports", "--output", "d.json")[0] == 0
    first = (tmp_path / "d.json").read_bytes()
    # The same reports again, as a workflow that is run again does.
    code, out, _ = call("durations", "reports", "--output", "d.json", "--json")
    assert code == 0
    assert (tmp_path / "d.json").read_bytes() == first
    assert json.loads(out) == [
        {
            "place": {"target": "gfx942", "torch": "2.9", "platform": "linux", "config": "default"},
            "files": 1,
            "tests": 5,
            "seconds": 41.0,
            "longest": "test_nn.py::TestNN::t0",
            "longest_s": 10.0,
        }
    ]
    plan = ("plan", "--targets", "gfx942", "--torch", "2.9", "--suite-files", "test_nn.py")
    code, out, _ = call(*plan, "--shards", "default=2", "--durations", "d.json", "--json")
    assert code == 0
    jobs = json.loads(out)["jobs"]
    assert [job["seconds"] for job in jobs] == [21.0, 20.0]
    assert jobs[0]["command"][-4:] == ["--suite-files", "test_nn.py", "--durations", "d.json"]


def test_what_comes_before_the_tests_counts_in_every_shard(call: Run, tmp_path: Path) -> None:
    results = tuple(CaseResult(f"test_nn.py::T::t{number}", "passed", 10.0) for number in range(4))
    ran = Ran("units", target="gfx942", torch="2.9.0+rocm7.10.0")
    record = RunRecord(ran, results, start_s=20.0, collect_s={"test_nn.py": 9.0})
    write_record(record, tmp_path / "one")
    assert call("durations", "one", "--output", "d.json")[0] == 0
    plan = ("plan", "--targets", "gfx942", "--torch", "2.9", "--suite-files", "test_nn.py", "--durations")
    code, out, err = call(*plan, "d.json", "--shards", "default=2", "--json")
    assert (code, err) == (0, "")
    assert [job["seconds"] for job in json.loads(out)["jobs"]] == [49.0, 49.0]
    assert call("durations", "d.json", "one", "--output", "joined.json")[0] == 0
    assert (tmp_path / "joined.json").read_bytes() == (tmp_path / "d.json").read_bytes()


@pytest.mark.parametrize("wild", [1e308, -1.0])
def test_a_time_that_is_none_is_not_taken_and_not_read(call: Run, tmp_path: Path, wild: float) -> None:
    ran = Ran("units", target="gfx942", torch="2.9.0")
    results = (CaseResult("test_nn.py::a", "passed", wild), CaseResult("test_nn.py::b", "passed", 1.0))
    write_record(RunRecord(ran, results, start_s=wild, collect_s={"test_nn.py": wild}), tmp_path / "one")
    assert call("durations", "one", "--output", "d.json")[0] == 0
    plan = ("plan", "--targets", "gfx942", "--torch", "2.9", "--suite-files", "test_nn.py", "--durations")
    assert [job["seconds"] for job in json.loads(call(*plan, "d.json", "--json")[1])["jobs"]] == [1.0]
    text = (tmp_path / "d.json").read_text()
    (tmp_path / "d.json").write_text(text.replace("[1.0]", f"[{wild}]"))
    code, _, err = call(*plan, "d.json")
    assert (code, "is not a durations file" in err) == (3, True)


def test_a_second_run_is_added_and_anew_begins_again(call: Run, tmp_path: Path) -> None:
    for folder, seconds in (("one", 1.0), ("two", 5.0)):
        reported(tmp_path / folder, {"test_nn.py::T::t": seconds})
    assert "1.0 s" in call("durations", "one", "--output", "d.json")[1]
    assert "3.0 s" in call("durations", "two", "--output", "d.json")[1]
    assert "5.0 s" in call("durations", "two", "--output", "d.json", "--anew")[1]
    assert "5.0 s" in call("durations", "d.json")[1]


def test_a_broken_durations_file_is_not_replaced(call: Run, tmp_path: Path) -> None:
    reported(tmp_path / "one", {"test_nn.py::T::t": 1.0})
    (tmp_path / "d.json").write_text('{"schema": 1, "timed": [')
    code, _, err = call("durations", "one", "--output", "d.json")
    assert code == 3
    assert "d.json is not a durations file" in err
    assert (tmp_path / "d.json").read_text() == '{"schema": 1, "timed": ['


def test_times_are_written_for_run_test(call: Run, tmp_path: Path) -> None:
    reported(tmp_path / "one", {"test_nn.py::T::t": 1.5})
    (tmp_path / "pytorch/test").mkdir(parents=True)
    words = ("durations", "one", "--target", "gfx942", "--torch", "2.9.0", "--upstream", "pytorch")
    code, _, err = call(*words)
    assert code == 2
    assert "no test/run_test.py" in err
    (tmp_path / "pytorch/test/run_test.py").touch()
    assert call(*words)[0] == 0
    written = json.loads((tmp_path / "pytorch/.additional_ci_files/test-times.json").read_text())
    assert written["linux-noble-rocm-py3.12-mi300"] == {"default": {"test_nn": 1.5}}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("plan", "--targets", "gfx94", "--torch", "2.9"), 3, "'gfx94' is not a known family or target"),
        (("plan", "--targets", "gfx942", "--torch", "new"), 3, "'new' is not a version of torch"),
        (("plan", "--targets", ",", "--torch", "2.9"), 2, "no target is named"),
        (("plan", "--targets", "cpu", "--torch", "2.9", "--suites", "unit"), 2, "'unit' is not a suite"),
        (("plan", "--targets", "cpu", "--torch", "2.9", "--shards", "x=2"), 2, "nothing of that name"),
        (("plan", "--targets", "cpu", "--torch", "2.9", "--pytorch-dir", "no"), 2, "does not exist"),
        (("plan", "--targets", "cpu", "--torch", "2.9", "--durations", "no"), 2, "cannot be read"),
        (("plan", "--targets", "cpu", "--torch", "2.9", "--skips", "no"), 3, "no"),
        (("plan", "--targets", "cpu", "--torch", "2.9", "--config", "no"), 3, "cannot be read"),
        (("durations",), 2, "nothing to take durations from"),
        (("durations", "no"), 2, "no does not exist"),
        (("durations", "no", "--upstream", "pytorch"), 2, "--target, --torch"),
        (("matrix", "--test-configs", "new", "--default-runner", "L"), 2, "'new' is not a known"),
        (("matrix", "--test-configs", " ", "--default-runner", "L"), 2, "no configuration"),
        (("matrix", "--test-configs", "default"), 2, "no machine"),
    ],
)
def test_mistakes_are_said_before_anything_is_done(
    call: Run, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    ended, out, err = call(*words)
    assert (ended, out) == (code, "")
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_the_checkout_does_not_have_is_named(call: Run, tmp_path: Path) -> None:
    (tmp_path / "pytorch/test").mkdir(parents=True)
    (tmp_path / "pytorch/test/test_nn.py").touch()
    words = ("plan", "--targets", "gfx942", "--torch", "2.9", "--pytorch-dir", "pytorch")
    code, _, err = call(*words)
    assert code == 2
    assert "test_autograd.py" in err
    code, out, _ = call(*words, "--suite-files", "test_nn", "--json")
    assert code == 0
    job = json.loads(out)["jobs"][0]
    assert (job["files"], job["shards"]) == (["test_nn.py"], 1)
    assert " ".join(job["command"]).endswith("--pytorch-dir pytorch --suite-files test_nn.py")


def test_the_matrix_goes_to_the_workflow_or_is_printed(
    call: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (
        "matrix",
        "--test-configs",
        "inductor distributed",
        "--default-runner",
        "L",
        "--multi-gpu-runner",
        "L8",
    )
    code, out, _ = call(*words)
    assert code == 0
    matrix = json.loads(out.removeprefix("matrix="))
    assert [row["runs_on"] for row in matrix["include"]] == ["L", "L", "L8", "L8", "L8"]
    (tmp_path / "output").write_text("before=1\n")
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    code, printed, err = call(*words)
    assert (code, printed) == (0, "")
    assert "5 jobs" in err
    assert (tmp_path / "output").read_text() == "before=1\n" + out


def test_a_rocwright_toml_adds_a_configuration(call: Run, tmp_path: Path) -> None:
    (tmp_path / "rocwright.toml").write_text(
        '[[tests.config]]\nname = "nccl"\nshards = 1\ngpus = "several"\n'
    )
    code, out, _ = call("matrix", "--test-configs", "nccl", "--multi-gpu-runner", "L8", "--json")
    assert code == 0
    assert json.loads(out)["include"] == [
        {"test_config": "nccl", "shard": 1, "num_shards": 1, "runs_on": "L8"}
    ]


def test_the_documented_script_is_this_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--test-configs", "default distributed inductor"]
        + ["--default-runner", "L", "--multi-gpu-runner", "L8"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    name, _, value = done.stdout.partition("=")
    rows = json.loads(value)["include"]
    assert name == "matrix"
    assert [row["test_config"] for row in rows] == ["default"] * 6 + ["distributed"] * 3 + ["inductor"] * 2
    assert list(rows[0]) == ["test_config", "shard", "num_shards", "runs_on"]
