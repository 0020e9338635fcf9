"""`rocwright test units` at its door, with a miniature PyTorch and a stand-in for torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from command_line import PROGRAM
from miniature_pytorch import commit_all, make_checkout, make_torch

REPOSITORY = Path(__file__).resolve().parents[3]
Door = Callable[..., subprocess.CompletedProcess[str]]

SEES = """
import json, os, unittest
NAMES = ("HIP_VISIBLE_DEVICES", "PYTORCH_TESTING_DEVICE_ONLY_FOR", "PYTORCH_TEST_WITH_ROCM", "PYTHONPATH",
         "MIOPEN_CUSTOM_CACHE_DIR", "GPU_DEVICE_ORDINAL", "CUDA_VISIBLE_DEVICES")

class TestSees(unittest.TestCase):
    def test_environment(self):
        seen = {name: os.environ[name] for name in NAMES if name in os.environ}
        seen["there"] = os.path.isdir(os.environ["MIOPEN_CUSTOM_CACHE_DIR"])
        with open(os.environ["SEEN"], "a") as stream:
            stream.write(json.dumps(seen) + "\\n")
"""
MIXED = """
import os, unittest

class TestMixed(unittest.TestCase):
    def test_good(self): pass
    def test_bad(self): self.assertEqual(1, 2)
    def test_known(self): self.fail("known")
    def test_ends(self): os._exit(3)
    @unittest.skip("not here")
    def test_left(self): pass
"""
GOOD = "import unittest\nclass TestGood(unittest.TestCase):\n    def test_one(self): pass\n"
ENTRY = """
[[entry]]
id = "known"
tests = ["test_mixed.py::TestMixed::test_known", "test_mixed.py::TestMixed::test_bad"]
kind = "skip"
reason = "a miniature reason"
added = 2026-01-02
"""


@pytest.fixture
def door(tmp_path: Path) -> Door:
    """The command, in a directory with `pytorch` (2.9) and a torch for ROCm for three GPUs."""
    make_torch(tmp_path / "double", targets=("gfx942", "gfx942", "gfx1100"))
    make_checkout(
        tmp_path / "pytorch",
        {"test_sees.py": SEES, "test_mixed.py": MIXED, "test_good.py": GOOD, "sub/test_deep.py": GOOD},
    )

    def call(*words: object, **env: str) -> subprocess.CompletedProcess[str]:
        program = env.pop("program", None)
        done = subprocess.run(
            [*([sys.executable, program] if program else PROGRAM), *map(str, words)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "PYTHONPATH": str(tmp_path / "double"),
                "SEEN": str(tmp_path / "seen"),
                **env,
            },
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return call


def units(door: Door, *words: object, **env: str) -> subprocess.CompletedProcess[str]:
    return door("test", "units", *words, **env)


def record(root: Path, key: str = "units-default-cpu-1of1") -> dict[str, object]:
    found = json.loads((root / "test-reports" / key / "results.json").read_text())
    assert isinstance(found, dict)
    return found


def verdicts(root: Path, key: str = "units-default-cpu-1of1") -> dict[str, str]:
    results = record(root, key)["results"]
    assert isinstance(results, list)
    return {one["id"].rpartition("::")[2]: one["verdict"] for one in results}


# ---- before any test ----


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--pytorch-dir", "absent"], 2, "absent does not exist"),
        (["--pytorch-dir", "double"], 2, "no directory test"),
        (["--suite-files", "test_god.py"], 2, "near: test_good.py"),
        (["--suite-files", "test_good.py", "test_god.py", "--cpu"], 2, "near: test_good.py"),
        (["--suite-files", "--cpu"], 2, "--suite-files"),
        ([], 2, "has no test_nn.py, no test_torch.py"),
        (["--suite-files", "test_good.py", "--shard", "2"], 2, "--num-shards"),
        (["--suite-files", "test_good.py", "--shard", "3", "--num-shards", "2"], 2, "no shard 3 of 2"),
        (["--suite-files", "test_good.py", "-k", "a", "--debug"], 2, "leave one of them out"),
        (["--suite-files", "test_good.py", "--workers", "0"], 2, "--workers 0"),
        (["--suite-files", "test_good.py", "--test-timeout", "0"], 2, "--test-timeout 0"),
        (["--suite-files", "test_good.py", "--", "test_good.py"], 2, "--suite-files test_good.py"),
        (["--suite-files", "test_good.py", "--", "-n", "4"], 2, "-n cannot be passed to pytest"),
        (["--suite-files", "test_good.py", "--amdgpu-family", "gfx94Y-all"], 2, "'gfx94Y-all' is not a GPU"),
        (["--suite-files", "test_good.py", "--cpu", "--amdgpu-family", "gtx"], 2, "'gtx' is not a GPU"),
        (["--suite-files", "test_good.py", "--amdgpu-family", "gfx950"], 1, "no GPU to test on for gfx950"),
        (["--suite-files", "test_good.py", "--pytorch-version", "two"], 3, "'two' is not a version"),
        (["--suite-files", "test_good.py", "--skips", "bad.toml"], 3, "bad.toml"),
        (["--suite-files", "test_good.py", "--lock", "absent.json"], 3, "absent.json does not exist"),
        (["--suite-files", "test_good.py", "--durations", "absent.json"], 2, "absent.json cannot be read"),
        (["--suite-files", "test_good.py", "--python", "absent/python"], 4, "absent/python"),
        (["--suite-files", "test_good.py", "--python", "pytorch"], 4, "without a Python interpreter"),
        (["--no-such-option"], 2, "--no-such-option"),
    ],
)
@pytest.mark.slow
def test_a_mistake_is_said_before_any_test(
    door: Door, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    (tmp_path / "bad.toml").write_text("[[entry]]\nid = 5\n")
    done = units(door, *words)
    assert said in done.stderr + done.stdout, done.stderr
    assert done.returncode == code
    assert not (tmp_path / "test-reports").exists()


@pytest.mark.slow
def test_another_version_is_an_error_unless_allowed(door: Door, tmp_path: Path) -> None:
    (tmp_path / "pytorch" / "version.txt").write_text("2.10.0a0\n")
    done = units(door, "--suite-files", "test_good.py", "--cpu")
    assert done.returncode == 2
    assert "the checkout is PyTorch 2.10.0a0, the installed torch is 2.9.0+rocm7.10.0" in done.stderr
    done = units(door, "--suite-files", "test_good.py", "--cpu", "--allow-version-mismatch")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_another_commit_is_an_error(door: Door, tmp_path: Path) -> None:
    commit = commit_all(tmp_path / "pytorch")
    make_torch(tmp_path / "other", git="f" * 40)
    done = units(door, "--suite-files", "test_good.py", "--cpu", PYTHONPATH=str(tmp_path / "other"))
    assert done.returncode == 2
    assert f"built from commit ffffffffffff, the checkout is at {commit[:12]}" in done.stderr
    make_torch(tmp_path / "own", git=commit)
    done = units(door, "--suite-files", "test_good.py", "--cpu", PYTHONPATH=str(tmp_path / "own"))
    assert done.returncode == 0, done.stderr


# ---- what runs, and how it ends ----


@pytest.mark.slow
def test_each_target_is_tested_alone_with_its_own_environment(door: Door, tmp_path: Path) -> None:
    done = units(door, "--suite-files", "test_sees.py", GPU_DEVICE_ORDINAL="0", CUDA_VISIBLE_DEVICES="0,1,2")
    assert done.returncode == 0, done.stderr
    first, second = map(json.loads, (tmp_path / "seen").read_text().splitlines())
    assert first["PYTHONPATH"] == f"{tmp_path}/pytorch/test:{tmp_path}/double"
    assert first["HIP_VISIBLE_DEVICES"] == "0"
    assert second["HIP_VISIBLE_DEVICES"] == "2"
    assert first["PYTORCH_TESTING_DEVICE_ONLY_FOR"] == "cuda"
    assert first["PYTORCH_TEST_WITH_ROCM"] == "1"
    assert first["there"]
    assert not Path(first["MIOPEN_CUSTOM_CACHE_DIR"]).exists()
    assert "GPU_DEVICE_ORDINAL" not in first
    assert "CUDA_VISIBLE_DEVICES" not in first
    ran = record(tmp_path, "units-default-gfx1100-1of1")["ran"]
    assert ran == {
        "suite": "units",
        "target": "gfx1100",
        "torch": "2.9.0+rocm7.10.0",
        "rocm": "7.10.0",
        "python": ".".join(map(str, sys.version_info[:3])),
    }
    assert "units-default-gfx942-1of1" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "seen"),
    [
        (["--device-query", "all"], ["0", "1"]),
        (["--device-query", "all", "--gpu-policy", "all"], ["0,1", "0,1"]),
        (["--gpu-policy", "all"], ["0", "0"]),
        (["--cpu"], ["", ""]),
    ],
)
def test_what_workers_see(door: Door, words: list[str], seen: list[str]) -> None:
    workers = [] if words == ["--device-query", "all"] else ["--workers", "2"]
    family = [] if "--cpu" in words else ["--amdgpu-family", "gfx94X"]
    done = units(door, "--suite-files", "test_sees.py", *words, *workers, *family, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    (plan,) = json.loads(done.stdout)
    assert plan["workers"] == [{"HIP_VISIBLE_DEVICES": value} for value in seen]


@pytest.mark.slow
def test_faults_cost_one_test_each_and_the_run_fails(door: Door, tmp_path: Path) -> None:
    done = units(door, "--suite-files", "test_mixed", "--add-files", "sub/test_deep.py", "--cpu")
    assert done.returncode == 1
    assert verdicts(tmp_path) == {
        "test_good": "passed",
        "test_bad": "failed",
        "test_known": "failed",
        "test_ends": "crashed",
        "test_left": "skipped",
        "test_one": "passed",
    }
    assert "FAILED test_mixed.py::TestMixed::test_bad" in done.stdout
    assert "CRASHED test_mixed.py::TestMixed::test_ends" in done.stdout
    assert "3 tests failed" in done.stderr
    assert (tmp_path / "test-reports" / "units-default-cpu-1of1" / "sub.test_deep.xml").is_file()


@pytest.mark.slow
def test_an_option_takes_the_files_up_to_the_next_one(door: Door) -> None:
    files = ("--suite-files", "test_good.py", "test_sees.py", "--add-files", "test_mixed", "sub/test_deep.py")
    done = units(door, *files, "--cpu", "--dry-run", "--json", "--", "-v")
    assert done.returncode == 0, done.stderr
    (plan,) = json.loads(done.stdout)
    assert plan["files"] == ["test_good.py", "test_sees.py", "test_mixed.py", "sub/test_deep.py"]


@pytest.mark.slow
def test_entries_skip_debug_runs_them_alone_and_k_forgets_them(door: Door, tmp_path: Path) -> None:
    (tmp_path / "skips.toml").write_text(ENTRY)
    common = ("--suite-files", "test_mixed.py", "--cpu", "--skips", "skips.toml")
    units(door, *common)
    with_entries = verdicts(tmp_path)
    assert (with_entries["test_known"], with_entries["test_bad"]) == ("skipped", "skipped")
    units(door, *common, "--debug")
    assert verdicts(tmp_path) == {"test_known": "failed", "test_bad": "failed"}
    done = units(door, *common, "-k", "test_known or test_good")
    assert verdicts(tmp_path) == {"test_known": "failed", "test_good": "passed"}
    assert record(tmp_path)["deselected"] == 3
    assert done.returncode == 1


@pytest.mark.slow
def test_nothing_ran_is_no_pass(door: Door) -> None:
    done = units(door, "--suite-files", "test_good.py", "--cpu", "-k", "nothing_is_called_this")
    assert done.returncode == 5
    assert "no test ran" in done.stderr


@pytest.mark.slow
def test_the_cache_is_pytests_own_and_can_be_left_out(door: Door, tmp_path: Path) -> None:
    units(door, "--suite-files", "test_good.py", "--cpu", "--no-cache")
    assert not list(tmp_path.rglob(".pytest_cache"))


@pytest.mark.slow
def test_the_documented_script_looks_beside_itself(door: Door, tmp_path: Path) -> None:
    beside = tmp_path / "scripts"
    beside.mkdir()
    script = beside / "run_pytorch_tests.py"
    script.write_text((REPOSITORY / "external-builds/pytorch/run_pytorch_tests.py").read_text())
    done = door(program=str(script))
    assert done.returncode == 2
    assert f"{beside}/pytorch does not exist" in done.stderr
    (tmp_path / "pytorch").rename(beside / "pytorch")
    words = ("--suite-files=test_good.py", "--cpu", "--", "--continue-on-collection-errors", "-v")
    done = door(*words, "--import-mode=importlib", program=str(script))
    assert done.returncode == 0, done.stderr
    assert "PASSED test_good.py::TestGood::test_one" in done.stderr


@pytest.mark.slow
def test_every_test_is_in_one_shard(door: Door, tmp_path: Path) -> None:
    found = []
    for shard in (1, 2):
        files = ("--suite-files", "test_good.py", "--suite-files", "sub/test_deep.py")
        done = units(door, *files, "--cpu", "--shard", shard, "--num-shards", 2)
        assert done.returncode == 0, done.stderr
        results = record(tmp_path, f"units-default-cpu-{shard}of2")["results"]
        assert isinstance(results, list)
        found.append({one["id"] for one in results})
    assert not found[0] & found[1]
    assert len(found[0] | found[1]) == 2


@pytest.mark.slow
def test_ctrl_c_leaves_a_record_that_is_not_complete(door: Door, tmp_path: Path) -> None:
    slow = "import time\n" + GOOD.replace("pass", "pass\n    def test_slow(self): time.sleep(60)")
    (tmp_path / "pytorch" / "test" / "test_slow.py").write_text(slow)
    words = ["test", "units", "--suite-files", "test_slow.py", "--cpu", "--", "-v"]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path / "double")}
    with subprocess.Popen(
        [*PROGRAM, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=env
    ) as child:
        assert child.stderr is not None
        next(line for line in child.stderr if "PASSED" in line)
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        rest = child.stderr.read()
        assert child.wait(timeout=60) == 130, rest
    found = record(tmp_path)
    assert found["complete"] is False
    assert verdicts(tmp_path)["test_one"] == "passed"


@pytest.mark.slow
def test_two_runs_do_not_share_a_record(door: Door, tmp_path: Path) -> None:
    waits = (
        "import os, time\n"
        "def test_waits():\n"
        "    open('begun', 'w').close()\n"
        "    deadline = time.monotonic() + 60\n"
        "    while not os.path.exists('go') and time.monotonic() < deadline: time.sleep(0.02)\n"
    )
    tests = tmp_path / "pytorch" / "test"
    (tests / "test_waits.py").write_text(waits)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(units, door, "--cpu", "--suite-files", "test_waits.py")
        deadline = time.monotonic() + 60
        while not (tests / "begun").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        second = units(door, "--cpu", "--suite-files", "test_good.py")
        (tests / "go").touch()
    assert second.returncode == 2
    assert "another run writes its record here" in second.stderr
    assert "--reports-dir" in second.stderr
    assert first.result().returncode == 0
    assert verdicts(tmp_path) == {"test_waits": "passed"}
    assert units(door, "--cpu", "--suite-files", "test_good.py").returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("options", ["-n auto", "--pdb", "--setup-only", "--lf --junit-xml=own.xml"])
def test_options_in_the_environment_that_are_for_whole_sessions_change_nothing(
    door: Door, tmp_path: Path, options: str
) -> None:
    done = units(door, "--cpu", "--suite-files", "test_mixed.py", PYTEST_ADDOPTS=options)
    assert done.returncode == 1
    assert "FAILED test_mixed.py::TestMixed::test_bad: AssertionError: 1 != 2" in done.stdout
    assert verdicts(tmp_path) == {
        "test_good": "passed",
        "test_bad": "failed",
        "test_known": "failed",
        "test_ends": "crashed",
        "test_left": "skipped",
    }
    assert not list(tmp_path.rglob("own.xml"))
