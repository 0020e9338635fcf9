"""Runs that are killed while they install ROCm, and the runs after them."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rocwright.builder.rocm import install, own
from rocwright.builder.rocm.place import RocmPlace, installed_rocm
from unit.builder.rocm import rocm_wheels

# Unpacks the newest wheel of `dist`; takes a minute and many files for it once a file `busy` is there.
PIP = """
import json, pathlib, sys, time, zipfile
words = sys.argv[1:]
here = pathlib.Path(__file__).parent
root = pathlib.Path(words[words.index("--python") + 1]).parent.parent
(site,) = root.glob("lib/python3*/site-packages")
if (here / "busy").exists():
    (here / "busy").unlink()
    for number in range(6000):
        (site / "unfinished").mkdir(parents=True, exist_ok=True)
        (site / "unfinished" / str(number)).write_text("half")
        time.sleep(0.01)
wheel = sorted((here / "dist").iterdir())[-1]
if "--dry-run" not in words:
    zipfile.ZipFile(wheel).extractall(site)
name, version = wheel.name.split("-")[:2]
item = {"metadata": {"name": name, "version": version}, "download_info": {}}
report = {"install": [item]}
pathlib.Path(words[words.index("--report") + 1]).write_text(json.dumps(report))
"""
# A run in each of the directories, the Nth of which is killed before its Nth rename, link, start of a program
# or removal of a tree; says how many were. In a single directory, a run that is not.
RUN = """
import os, signal, sys
from pathlib import Path
from rocwright.builder.rocm import install
from rocwright.builder.rocm.place import RocmPlace, installed_rocm
base = Path(sys.argv[1])
changes = {"os.rename", "os.symlink", "shutil.rmtree", "subprocess.Popen"}
install.pip_command = lambda: [sys.executable, str(base / "pip.py")]
place = RocmPlace("own", find_links=(str(base / "dist"),))
def run(moment, work):
    left = moment
    def count(event, words):
        nonlocal left
        if event in changes:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(count)
    installed_rocm(place, Path(work), {}, note=lambda text: None)
    os._exit(0)
if len(works := sys.argv[2:]) == 1:
    run(0, *works)
for killed, work in enumerate(works):
    child = os.fork()
    if not child:
        run(killed + 1, work)
    if os.waitpid(child, 0)[1] != signal.SIGKILL:
        print(killed)
        break
"""


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pip.py").write_text(PIP)
    monkeypatch.setattr(install, "pip_command", lambda: [sys.executable, str(tmp_path / "pip.py")])
    rocm_wheels.make_wheel(tmp_path / "dist", "7.10.0")
    return tmp_path


def have(base: Path, work: Path) -> tuple[str, list[str]]:
    """The version that a run installs, and what it says."""
    said: list[str] = []
    place = RocmPlace("own", find_links=(str(base / "dist"),))
    return installed_rocm(place, work, {}, note=said.append).version, said


def start(base: Path, *works: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", RUN, str(base), *map(str, works)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def names(work: Path) -> list[str]:
    return sorted(path.name for path in (work / "env").iterdir())


@pytest.mark.slow
def test_pip_of_a_killed_run_is_ended_before_its_environment_is_swept(base: Path) -> None:
    work = base / "work"
    half = work / "env" / "rocm.1"
    (base / "busy").touch()
    with start(base, work) as run:
        deadline = time.monotonic() + 60
        while not list(half.glob("lib/python3*/site-packages/unfinished/*")):
            assert time.monotonic() < deadline and run.poll() is None
            time.sleep(0.01)
        run.send_signal(signal.SIGKILL)
    version, said = have(base, work)
    assert version == "7.10.0"
    assert said[0] == "ended 1 processes that an earlier run had left running"
    assert names(work) == ["rocm", "rocm.1", "rocm.lock"]
    assert not list(half.glob("lib/python3*/site-packages/unfinished"))


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_leaves_the_old_environment_or_the_new(base: Path) -> None:
    before = base / "before"
    assert have(base, before)[0] == "7.10.0"
    rocm_wheels.make_wheel(base / "dist", "7.11.0")
    works = [base / str(number) for number in range(30)]
    for work in works:
        shutil.copytree(before, work, symlinks=True)
    with start(base, *works) as run:
        assert run.stdout is not None
        killed = int(run.stdout.read())
    assert killed > 8
    for work in works[:killed]:
        held = own.read_held(work / "env" / "rocm")
        assert held is not None and held.version in ("7.10.0", "7.11.0")
        assert have(base, work)[0] == "7.11.0"
        assert names(work) in (["rocm", f"rocm.{number}", "rocm.lock"] for number in (1, 2))
