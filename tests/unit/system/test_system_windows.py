"""The code for Windows, where what only POSIX has is hidden: imports, commands, locks, links."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from windows_host import PACKAGE, as_on_windows, shipped

# Ends a process and those below it, and notes its own arguments.
TASKKILL = """#!/bin/sh
tree() { for below in $(cat "/proc/$1/task/$1/children"); do tree "$below"; done; kill -9 "$1"; }
echo "$*" >> "${0%/*}/taskkill.log"
tree "$4"
"""
# Notes the polite end in a file and goes on; so does what it starts, whose number is in another file.
STUBBORN = """
import pathlib, signal, subprocess, sys, time
here = pathlib.Path(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: here.joinpath("asked").touch())
below = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
here.joinpath("partial").write_text(str(below.pid))
here.joinpath("partial").rename(here / "below")
time.sleep(60)
"""


def printed(program: str, *args: str | Path) -> Any:
    """What a program that uses `process` prints as JSON."""
    done = as_on_windows("rocwright.system.process", program, *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def is_gone(pid: int) -> bool:
    """Whether a process has ended within a minute; one that nobody waits for counts, too."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a stand-in for `taskkill`, which is found first, and a stubborn program."""
    (tmp_path / "taskkill").write_text(TASKKILL)
    (tmp_path / "taskkill").chmod(0o755)
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def test_every_module_is_imported_where_only_posix_modules_are_missing() -> None:
    paths = (path.relative_to(PACKAGE.parent).with_suffix("") for path in PACKAGE.rglob("*.py"))
    names = sorted(".".join(path.parts).removesuffix(".__init__") for path in paths)
    assert len(names) > 400
    others = shipped_modules()
    assert len(others) > 40
    done = as_on_windows(" ".join([*names, *others]))
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def shipped_modules() -> list[str]:
    """Those of runtime/; none that begins its work at once, as programs and hooks do."""
    found = set()
    for directory in shipped():
        for path in directory.rglob("*.py"):
            parts = path.relative_to(directory).with_suffix("").parts
            if not {"src", "tests", "cmake", "__main__"} & set(parts):
                found.add(".".join(parts).removesuffix(".__init__"))
    return sorted(found)


@pytest.mark.parametrize(
    ("module", "call", "expected"),
    [
        (
            "rocwright.builder.units.recorder",
            "run(['cc'], 'host', [], '/nowhere', {})",
            "NotImplementedError: compilers are recorded on Linux only: build without the launchers\n",
        ),
        (
            "rocwright_try",
            "main(['table.json'])",
            "exercises run in forked processes, which this system lacks: use Linux, or WSL\n",
        ),
        (
            "rocwright_process",
            "Worker([], 'auto', False, os.devnull)",
            "OSError: exercises run in forked processes, which this system lacks: use Linux, or WSL\n",
        ),
    ],
    ids=["recorder", "program of the probe", "process of the probe"],
)
def test_what_only_linux_has_says_so_when_it_is_used(module: str, call: str, expected: str) -> None:
    done = as_on_windows(module, f"sys.modules[{module!r}].{call}\n")
    assert done.returncode == 1
    assert done.stderr.endswith(expected)


def test_a_command_is_read_and_waited_for_there() -> None:
    program = """
import json, sys
from rocwright.system import group, process
lines = []
words = "import sys; print('out', 'x' * 300_000); print('err', file=sys.stderr); sys.exit(3)"
done = process.run([sys.executable, "-c", words], ok=[3], watch=lines.append)
# It ends its output long before it ends.
slow = "import os, time; os.close(1); os.close(2); time.sleep(1.2); os._exit(4)"
try:
    process.run([sys.executable, "-c", slow])
except process.CommandFailed as error:
    slowly = error.status
print(json.dumps([group.OWN_SESSION, done.stdout, lines, done.cpu_s, done.peak_rss, slowly]))
"""
    assert printed(program) == [False, "out " + "x" * 300_000 + "\n", ["err"], 0.0, 0, 4]


def test_a_command_that_is_ended_there_takes_along_what_it_started(bench: Path) -> None:
    program = """
import json, pathlib, sys
from rocwright.system import process
here = pathlib.Path(sys.argv[4])
def until():
    return "late" if (here / "below").exists() else None
try:
    process.run([sys.executable, here / "stubborn.py", here], until=until)
except process.CommandFailed as error:
    print(json.dumps(str(error)))
"""
    assert "ended by force: late" in printed(program, bench)
    (line,) = (bench / "taskkill.log").read_text().splitlines()
    assert line.split()[:3] == ["/T", "/F", "/PID"]
    assert not (bench / "asked").exists()
    assert is_gone(int((bench / "below").read_text()))


def test_a_run_that_is_stopped_there_asks_its_commands_and_then_ends_them(bench: Path) -> None:
    program = """
import json, pathlib, sys, threading, time
from rocwright.errors import Interrupted
from rocwright.system import process
here = pathlib.Path(sys.argv[4])
def stop():
    while not (here / "below").exists():
        time.sleep(0.01)
    process.stop_all(grace_s=0.5)
threading.Thread(target=stop).start()
try:
    process.run([sys.executable, here / "stubborn.py", here])
except Interrupted as error:
    print(json.dumps(str(error)))
"""
    assert "stopped while running" in printed(program, bench)
    assert (bench / "asked").exists()
    (line,) = (bench / "taskkill.log").read_text().splitlines()
    assert line.split()[:3] == ["/T", "/F", "/PID"]
    assert is_gone(int((bench / "below").read_text()))


def test_one_run_is_kept_out_of_a_directory_there_and_another_waits(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("temporary")))
    program = """
import json, pathlib, sys, threading
from rocwright.errors import UsageError
from rocwright.system import locks
here = pathlib.Path(sys.argv[4])
seen = []
with locks.alone_in(here / "records", "writes here", "wait"):
    try:
        with locks.alone_in(here / "records", "writes here", "wait"):
            seen.append("both are in")
    except UsageError as error:
        seen.append(error.what)
with locks.alone_in(here / "records", "writes here", "wait"):
    seen.append("in again")

def second():
    with locks.turn_in(here):
        seen.append("second")

with locks.turn_in(here):
    thread = threading.Thread(target=second)
    thread.start()
    thread.join(0.2)
    seen.append("first")
thread.join()
print(json.dumps([seen, sorted(path.name for path in here.rglob("*"))]))
"""
    seen = ["another run writes here", "in again", "first", "second"]
    assert printed(program, tmp_path) == [seen, ["records"]]


def test_links_are_made_there_by_those_who_may_not(tmp_path: Path) -> None:
    program = """
import json, os, pathlib, sys
from rocwright.system import links
here = pathlib.Path(sys.argv[4])

def refused(self, target, target_is_directory=False):
    error = OSError(22, "A required privilege is not held by the client")
    error.winerror = 1314
    raise error

pathlib.Path.symlink_to = refused
for name in ("rocm.1", "rocm.2"):
    (here / name).mkdir()
    (here / name / "version").write_text(name)
    links.turn_link(here / "rocm", name, aside=here / "rocm.partial")
links.make_link(here / "copy", "rocm.1/version")
print(json.dumps([(here / name).read_text() for name in ("rocm/version", "copy")]))
"""
    assert printed(program, tmp_path) == ["rocm.2", "rocm.1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "rocm", "rocm.1", "rocm.2"]
