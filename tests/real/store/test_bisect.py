"""`rocwright set bisect` at its door: miniature wheels, real uv and pip, installs counted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from rocwright.model.sets import new_set, set_id
from rocwright.store.channel_log import Event
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.serve import serving
from rocwright.store.pool import describe_files
from rocwright.store.publish import change, list_set
from rocwright.store.sets.stage import record_set
from wheels import ANY, write_wheel

NOW = datetime(2026, 11, 20, tzinfo=timezone.utc)
AT = "2026-11-20T00:00:00Z"
CHECK = ["python", "-c", "import torch; raise SystemExit(torch.answer != 42)"]


def torch_wheel(folder: Path, number: int, body: str, **options: Any) -> Path:
    version = f"2.{number}"
    files = {"torch/__init__.py": f"version = {version!r}\n{body}\n"}
    return write_wheel(folder, "torch", version, files, tag=ANY, **options)


Body = Callable[[int], str]
Done = subprocess.CompletedProcess[str]


def channel_of(root: Path, count: int, body: Body, **options: Any) -> list[str]:
    """A store in `root/store` whose release channel lists `count` sets; returns their ids, oldest first."""
    store = LocalStore(root / "store")
    sets = []
    for number in range(count):
        wheel = torch_wheel(root / "dist", number, body(number), **options)
        manifest = new_set(
            family="gfx110X-dgpu",
            targets=["gfx1100"],
            platform="linux",
            files=describe_files([wheel]),
            sources={"torch": f"{number:040x}"},
        )
        record_set(store, manifest, {wheel.name: wheel}, (), NOW)
        sets.append(set_id(manifest))
    # In one event: every set on its own would write all pages again each time.
    change(store, "v2/gfx110X-dgpu/", Event("list", tuple(sets), at=AT))
    return sets


def breaks_at(first_bad: int) -> Body:
    return lambda number: f"answer = {41 if number >= first_bad else 42}"


def argv(*words: str) -> list[str]:
    return [sys.executable, "-m", "rocwright", "set", "bisect", "release:gfx110X-dgpu", *words]


def bisect(
    root: Path, *words: str, command: list[str] = CHECK, code: int = 0
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        argv(*words, "--store", "store", "--json", "--", *command), cwd=root, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    return done


def report(done: Done) -> dict:
    return json.loads(done.stdout)


def environments(root: Path) -> int:
    """How many environments the logs tell of."""
    logs = (root / "bisect" / "logs").glob("*.log")
    return sum(log.read_text().count("-m venv --without-pip") for log in logs)


def test_the_first_bad_one_of_64_sets_in_at_most_six_installs(tmp_path: Path) -> None:
    sets = channel_of(tmp_path, 64, breaks_at(37))
    found = report(bisect(tmp_path, "--good", sets[0], "--bad", sets[-1]))
    assert (found["first_bad"], found["good"]) == (sets[37], sets[36])
    assert found["installs"] == len(found["trials"]) == environments(tmp_path) <= 6
    assert found["diff"]["projects"] == [{"name": "torch", "before": "2.36", "after": "2.37"}]
    assert found["diff"]["sources"] == [{"name": "torch", "before": f"{36:040x}", "after": f"{37:040x}"}]
    # Nothing is left but what was printed.
    assert {path.name for path in (tmp_path / "bisect").iterdir()} == {"logs", ".lock"}

    again = report(bisect(tmp_path, "--good", sets[0]))
    assert (again["first_bad"], again["installs"]) == (sets[37], 0)
    assert environments(tmp_path) == found["installs"]

    # Other ends, same question: what is known still counts.
    nearer = report(bisect(tmp_path, "--good", sets[30], "--bad", sets[60]))
    assert nearer["first_bad"] == sets[37]
    assert nearer["installs"] <= 1
    # Another question is asked anew.
    other = ["python", "-c", "import torch; assert torch.answer == 42"]
    assert report(bisect(tmp_path, "--good", sets[36], "--bad", sets[38], command=other))["installs"] == 1


def test_for_people_there_is_a_table_and_what_moved(tmp_path: Path) -> None:
    sets = channel_of(tmp_path, 3, breaks_at(1))
    words = argv("--good", sets[0][:10], "--store", "store", "--installer", "pip", "--", *CHECK)
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"first bad  {sets[1]}" in done.stdout
    assert "torch" in done.stdout
    assert "2.0" in done.stdout and "2.1" in done.stdout
    assert "exit code 1" in done.stdout


def test_skipped_sets_are_gone_around_and_named_where_they_hide_the_answer(tmp_path: Path) -> None:
    def body(number: int) -> str:
        return "raise SystemExit(125)" if number in (3, 4) else breaks_at(4)(number)

    sets = channel_of(tmp_path, 8, body)
    found = report(bisect(tmp_path, "--good", sets[0]))
    assert found["first_bad"] is None
    assert found["suspects"] == sets[3:6]
    assert (found["good"], found["bad"]) == (sets[2], sets[5])


def test_a_signal_is_bad_and_a_set_that_does_not_install_is_skipped(tmp_path: Path) -> None:
    def body(number: int) -> str:
        return f"import os, signal\nif {number} >= 3: os.kill(os.getpid(), signal.SIGSEGV)\nanswer = 42"

    sets = channel_of(tmp_path, 6, body)
    # The middle one has lost its file.
    store = LocalStore(tmp_path / "store")
    [gone] = [one.key for one in store.list("files/") if one.key.endswith("torch-2.2-py3-none-any.whl")]
    store.delete(gone)
    found = report(bisect(tmp_path, "--good", sets[0]))
    assert found["suspects"] == sets[2:4]
    assert [trial["exit_codes"] for trial in found["trials"] if trial["set"] == sets[3]] == [[-11]]
    assert any(trial["why"].startswith("not installed") for trial in found["trials"])


def test_a_flaky_set_is_named_and_not_believed(tmp_path: Path) -> None:
    count = tmp_path / "count"
    command = [
        "python",
        "-c",
        "import torch, pathlib; p = pathlib.Path('count'); n = int(p.read_text()) if p.exists() else 0; "
        "p.write_text(str(n + 1)); raise SystemExit(torch.version == '2.1' and n % 2)",
    ]
    sets = channel_of(tmp_path, 3, lambda number: "")
    count.write_text("0")
    found = report(bisect(tmp_path, "--good", sets[0], "--tries", "2", command=command))
    assert found["flaky"] == [sets[1]]
    assert found["first_bad"] is None
    assert "does not always end the same way (exit code 0, 1)" in found["trials"][0]["why"]
    # Remembered as what it is.
    assert report(bisect(tmp_path, "--good", sets[0], command=command))["flaky"] == [sets[1]]


def test_a_contradiction_names_both_sets(tmp_path: Path) -> None:
    sets = channel_of(tmp_path, 8, lambda number: f"answer = {41 if number in (2, 3) else 42}")
    assert report(bisect(tmp_path, "--good", sets[0], "--bad", sets[3]))["first_bad"] == sets[2]
    assert report(bisect(tmp_path, "--good", sets[4], "--bad", sets[7]))["first_bad"] == sets[7]
    said = bisect(tmp_path, "--good", sets[0], "--bad", sets[7], code=3).stderr
    assert sets[2][:16] in said
    assert "--again" in said


def test_ctrl_c_leaves_nothing_half_installed_and_the_next_run_goes_on(tmp_path: Path) -> None:
    sets = channel_of(tmp_path, 16, breaks_at(5))
    # The second set that is tried never ends.
    slow = [
        "python",
        "-c",
        "import torch, time, pathlib, os\n"
        "p = pathlib.Path('slow')\n"
        "if p.exists() and p.read_text() == 'on' and list(pathlib.Path('bisect/logs').iterdir())[1:]:\n"
        "    pathlib.Path('reached').touch(); time.sleep(600)\n"
        "raise SystemExit(torch.answer != 42)",
    ]
    (tmp_path / "slow").write_text("on")
    running = subprocess.Popen(
        argv("--good", sets[0], "--store", "store", "--json", "--", *slow),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "reached").exists():
        assert running.poll() is None and time.monotonic() < deadline, running.communicate()
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "run the same command again" in said
    assert not (tmp_path / "bisect" / "env").exists()
    (tmp_path / "slow").write_text("off")
    found = report(bisect(tmp_path, "--good", sets[0], command=slow))
    assert found["first_bad"] == sets[5]
    assert [trial["remembered"] for trial in found["trials"]].count(True) == 1


def test_what_the_set_does_not_have_comes_from_the_other_index_and_nothing_else_does(tmp_path: Path) -> None:
    sets = channel_of(tmp_path, 3, breaks_at(1), requires=["helper"])
    other = LocalStore(tmp_path / "other")
    decoy = torch_wheel(tmp_path / "decoy", 99, "answer = 0")
    helper = tmp_path / "decoy" / "helper-1-py3-none-any.whl"
    with zipfile.ZipFile(decoy) as source, zipfile.ZipFile(helper, "w") as archive:
        for name in source.namelist():
            text = source.read(name).decode().replace("torch", "helper").replace("2.99", "1")
            archive.writestr(name.replace("torch-2.99", "helper-1").replace("torch", "helper"), text)
    manifest = new_set(
        family="other",
        targets=["gfx1100"],
        platform="linux",
        files=describe_files([decoy, helper]),
        sources={},
    )
    record_set(other, manifest, {decoy.name: decoy, helper.name: helper}, (), NOW)
    list_set(other, "v2/other/", manifest, at=AT)
    # Closed: the requirement is in no index, so nothing can be said.
    assert report(bisect(tmp_path, "--good", sets[0]))["suspects"] == sets[1:]
    with serving(other) as url:
        found = report(bisect(tmp_path, "--good", sets[0], "--other-index", f"{url}v2/other/"))
    assert found["first_bad"] == sets[1]
    # From the decoy of version 2.99 this would be 0, and the set before bad, too.
    assert found["trials"][0]["exit_codes"] == [1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--good", "{2}", "--bad", "{0}"], "is not older than the bad one"),
        (["--good", "00000000"], "no set's id begins with"),
        (["--good", "{0}", "--target", "gfx942"], "it offers nothing to Python"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, words: list[str], said: str) -> None:
    sets = channel_of(tmp_path, 6, breaks_at(1))
    done = bisect(tmp_path, *(word.format(*sets) for word in words), code=3)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
