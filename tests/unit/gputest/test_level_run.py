"""A level's tests run from a checkout: files in shards, a configuration, and what there is none of.

torch and run_test.py are stand-ins.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pytest

from miniature_pytorch import make_checkout, make_torch
from rocwright.errors import UsageError
from rocwright.gputest.level import Desk, run_config, run_files
from rocwright.gputest.shards.durations import Durations, Timed
from rocwright.gputest.shards.level import ShardName
from rocwright.gputest.shards.place import TimingPlace

RUN_TEST = """
import pathlib, sys
OPTIONS = ["--distributed-tests", "--exclude-jit-executor"]
folder = pathlib.Path("test/test-reports/python-pytest/test_nn")
folder.mkdir(parents=True, exist_ok=True)
body = '<testcase classname="test_nn.TestNN" name="test_x" file="test_nn.py" time="2.5"/>'
folder.joinpath("x.xml").write_text(f'<testsuites><testsuite name="pytest">{body}</testsuite></testsuites>')
pathlib.Path("called").write_text(" ".join(sys.argv[1:]))
print("Running test_nn 1/1 ... [now]")
print("Running test batch 'tests to run' cost 0.1 seconds")
"""
PLACE = TimingPlace("cpu", "2.9")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    double = make_torch(tmp_path / "double", targets=("gfx942",))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(double), sysconfig.get_path("purelib")]))
    for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    body = "def test_one(): pass\ndef test_two(): pass\ndef test_three(): assert 1 == 2\n"
    tests = {"test_a.py": body, "test_b.py": "def test_four(): pass\n", "run_test.py": RUN_TEST}
    checkout = make_checkout(tmp_path / "pytorch", tests)
    times = {f"test_a.py::test_{name}": (9.0,) for name in ("one", "two", "three")}
    durations = Durations(timed=(Timed(PLACE, times | {"test_b.py::test_four": (9.0,)}),))
    return Desk(Path(sys.executable), checkout, tmp_path / "reports", durations=durations)


def verdicts(desk: Desk, shard: ShardName) -> dict[str, str]:
    (record,) = run_files(desk, ["test_a.py", "test_b.py"], shard, lambda _: None)
    assert (record.ran.shard, record.ran.shards, record.complete) == (shard.number, shard.of, True)
    return {one.id: one.verdict for one in record.results}


@pytest.mark.slow
def test_shards_by_recorded_times_are_all_of_the_files_once(desk: Desk) -> None:
    whole = verdicts(desk, ShardName())
    assert whole == {
        "test_a.py::test_one": "passed",
        "test_a.py::test_two": "passed",
        "test_a.py::test_three": "failed",
        "test_b.py::test_four": "passed",
    }
    halves = [verdicts(desk, ShardName("", number, 2)) for number in (1, 2)]
    assert [len(half) for half in halves] == [2, 2]
    assert halves[0] | halves[1] == whole


def test_a_file_that_the_checkout_lacks_is_named(desk: Desk) -> None:
    with pytest.raises(UsageError, match=r"has no test_c\.py"):
        run_files(desk, ["test_a.py", "test_c.py"], ShardName(), lambda _: None)


@pytest.mark.slow
def test_a_configuration_is_run_by_pytorchs_own_script(desk: Desk) -> None:
    for name in desk.table.upstream.packages:
        # As if they were installed: the stand-in of run_test.py uses none.
        (desk.checkout.parent / "double" / f"{name.replace('-', '_')}-1.0.dist-info").mkdir()
    found = run_config(desk, ShardName("default", 2, 3), lambda _: None)
    assert not isinstance(found, str)
    (record,) = found
    assert {one.id: one.verdict for one in record.results} == {"test_nn.py::TestNN::test_x": "passed"}
    assert (record.ran.suite, record.ran.config, record.ran.shard) == ("full", "default", 2)
    called = (desk.checkout / "called").read_text()
    assert "--exclude-jit-executor --shard 2 3" in called
    # It deals its files out by these times.
    assert (desk.checkout / ".additional_ci_files" / "test-times.json").is_file()


def test_what_needs_several_gpus_has_none_to_run_on_a_host(desk: Desk) -> None:
    said = run_config(desk, ShardName("distributed", 1, 3), lambda _: None)
    assert said == "none to run: distributed needs several GPUs, and there is none"
