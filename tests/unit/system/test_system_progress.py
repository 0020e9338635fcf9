"""How far long work is: drawn on a terminal and gone in the end, a line a minute in a log, never data."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from rocwright.system.progress import Count, Progress
from unit.system.terminal import on_terminal, piped
from wheels import write_wheel

# A command through its door, with a display that begins at once: a test needs no work that takes long.
DOOR = (
    "import sys; from rocwright.system import progress; from rocwright.cli import main\n"
    "progress._AFTER_S, progress._REDRAW_S = 0.0, 0.002\n"
    "main({words!r})"
)
ERASED = "\r\x1b[K"
PACE = re.compile(r"checking: [\d.]+ [kM]?B of 4[\d.]+ MB, \d+ %, [\d.]+ [kM]?B/s, \d+ s left")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 MB in members that are large enough to be read one by one."""
    members = {f"demo/part_{number}.bin": os.urandom(1 << 20) for number in range(40)}
    folder = tmp_path_factory.mktemp("large")
    return write_wheel(folder, "demo", "1.0", {"demo/__init__.py": b"", **members})


def test_a_terminal_sees_rate_and_remaining_time_and_then_nothing_of_it(wheel: Path) -> None:
    seen = on_terminal({"NO_COLOR": "1"}, DOOR.format(words=["check", str(wheel)]))
    assert PACE.search(seen)
    # What a terminal keeps: of every line the part behind the last time that it was erased.
    stays = [line.rpartition(ERASED)[2] for line in seen.split("\r\n")]
    assert not any("checking" in line for line in stays)
    assert any("1 file" in line for line in stays)


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"CI": "true"}])
def test_nothing_is_drawn_on_what_does_not_obey(wheel: Path, env: dict[str, str]) -> None:
    seen = on_terminal({"NO_COLOR": "1", **env}, DOOR.format(words=["check", str(wheel)]))
    assert "\x1b" not in seen
    assert "checking" not in seen


def test_the_switch_silences_what_is_drawn(wheel: Path) -> None:
    seen = on_terminal({}, DOOR.format(words=["check", "-q", str(wheel)]))
    assert "checking" not in seen
    assert "1 file" in seen


def test_json_is_alone_on_stdout_of_a_terminal_too(wheel: Path) -> None:
    # Its stdout goes into a file, stderr to the terminal.
    place = wheel.with_suffix(".json")
    code = f"import os; os.dup2(os.open({str(place)!r}, os.O_CREAT | os.O_WRONLY), 1)\n"
    seen = on_terminal({}, code + DOOR.format(words=["check", "--json", str(wheel)]))
    assert "checking" in seen
    assert json.loads(place.read_text())["files"] == [wheel.name]


def test_a_log_is_told_once_a_minute() -> None:
    clock = Clock()
    count = Count("storing", 600_000_000, clock=clock)
    told = []
    for second in range(1, 181):
        clock.now += 1
        count.add(2_000_000 if second <= 90 else 4_000_000)
        told += [(second, line) for line in count.beat(clock.now)]
    assert told == [
        (60, "storing: 120.0 MB of 600.0 MB, 20 %, 2.0 MB/s, 4 min left"),
        (120, "storing: 300.0 MB of 600.0 MB, 50 %, 4.0 MB/s, 2 min left"),
        (180, "storing: 540.0 MB of 600.0 MB, 90 %, 4.0 MB/s, 15 s left"),
    ]


def test_what_stands_still_is_told_of_with_its_rate_since_the_beginning() -> None:
    clock = Clock()
    count = Count("deleting", 1200, "objects", clock=clock)
    count.add(60)
    clock.now += 40
    assert count.beat(clock.now) == []
    clock.now += 80
    assert count.beat(clock.now) == ["deleting: 60 of 1,200 objects, 5 %, 30.0/min, 38 min left"]
    count.add(1140)
    clock.now += 60
    assert count.beat(clock.now) == ["deleting: 1,200 of 1,200 objects, 100 %, 19.0/s"]


def test_without_a_total_there_is_no_remaining_time() -> None:
    clock = Clock()
    count = Count("writing", None, clock=clock)
    count.add(30_000_000)
    clock.now += 60
    assert count.beat(clock.now) == ["writing: 30.0 MB, 500.0 kB/s"]


def test_before_anything_is_done_there_is_neither_rate_nor_remaining_time() -> None:
    clock = Clock()
    count = Count("checking", 42_000_000, clock=clock)
    clock.now += 2
    assert count.lines(clock.now) == ["checking: 0 B of 42.0 MB, 0 %"]


def test_short_work_is_not_shown_and_long_work_from_its_second_second() -> None:
    clock = Clock()
    count = Count("checking", 10, "wheels", clock=clock)
    count.add(5)
    clock.now += 1.4
    assert count.lines(clock.now) == []
    clock.now += 0.6
    assert count.lines(clock.now) == ["checking: 5 of 10 wheels, 50 %, 2.5/s, 2 s left"]


def test_a_line_a_minute_comes_by_itself_on_stderr() -> None:
    done = piped(
        "import time\n"
        "progress.EVERY_S, progress._REDRAW_S = 0.0, 0.01\n"
        "with progress.counted('storing', 10, 'files') as count:\n"
        "    count.add(5); time.sleep(0.2)\n"
    )
    assert done.stdout == ""
    assert "storing: 5 of 10 files, 50 %, " in done.stderr
    assert "\x1b" not in done.stderr


def test_several_threads_count_together() -> None:
    code = (
        "import threading\n"
        "with progress.counted('x', 1) as count:\n"
        "    work = lambda: [count.add(1) for _ in range(50_000)]\n"
        "    threads = [threading.Thread(target=work) for _ in range(4)]\n"
        "    [one.start() for one in threads]; [one.join() for one in threads]\n"
        "print(count.done)"
    )
    assert piped(code).stdout == "200000\n"


def test_two_displays_share_the_foot_of_a_terminal_and_lines_of_talk_stay_above() -> None:
    code = (
        "import time; from rocwright.system import console, progress\n"
        "progress._AFTER_S, progress._REDRAW_S = 0.0, 0.05\n"
        "with progress.counted('outer', 4, 'wheels'), progress.counted('inner', 9, 'files'):\n"
        "    time.sleep(0.3); console.say('talk'); console.out('data'); time.sleep(0.3)\n"
    )
    seen = on_terminal({"NO_COLOR": "1"}, code)
    two = "outer: 0 of 4 wheels, 0 %\r\ninner: 0 of 9 files, 0 %"
    assert f"{two}\r\x1b[K\x1b[A\x1b[Ktalk\r\ndata\r\n{two}" in seen
    assert seen.endswith("\r\x1b[K")


def test_a_line_is_cut_to_the_width_of_the_terminal() -> None:
    code = (
        "import time; from rocwright.system import progress\n"
        "progress._AFTER_S, progress._REDRAW_S = 0.0, 0.05\n"
        "with progress.counted('x' * 300, 4, 'wheels'):\n    time.sleep(0.2)\n"
    )
    assert max(len(line) for line in re.split(r"\r|\x1b\[K", on_terminal({"COLUMNS": "60"}, code))) == 59


def test_items_are_counted_when_they_are_done_with() -> None:
    code = (
        "progress.EVERY_S = 0.0\n"
        "for item in progress.each('storing', [3, 4], size=lambda one: one):\n"
        "    print([one.done for one in progress._ALL._all], progress._ALL._all[0].total)\n"
        "print(progress._ALL._all)"
    )
    assert piped(code).stdout == "[0] 7\n[3] 7\n[]\n"


def test_progress_without_a_terminal_is_a_line_at_start_and_end() -> None:
    done = piped(
        "p = progress.Progress(total=2)\n"
        "with p.shown():\n"
        "    p.start('build'); p.note('build', 'unseen'); p.end('build', 'done', '3 files')\n"
        "    p.end('test', 'cached', 'x')\n"
    )
    assert done.stdout == ""
    lines = [line.split() for line in done.stderr.splitlines()]
    assert lines[0] == ["start", "build"]
    assert lines[1][:3] == ["done", "[1/2]", "build"]
    assert lines[1][4:] == ["s", "3", "files"]
    assert lines[2][:3] == ["cached", "[2/2]", "test"]
    assert len(lines) == 3
    assert "\x1b" not in done.stderr


def test_progress_of_many_short_steps_is_one_line_each() -> None:
    done = piped(
        "p = progress.Progress(total=0, starts=False)\n"
        "with p.shown():\n"
        "    p.expect(2)\n"
        "    p.start('torch'); p.expect(1); p.start('third_party/fmt'); p.note('torch', 'receiving 43 %')\n"
        "    p.end('third_party/fmt', 'done'); p.end('torch', 'done'); p.end('fbgemm', 'cached')\n"
    )
    lines = [line.split() for line in done.stderr.splitlines()]
    assert [line[:3] for line in lines] == [
        ["done", "[1/3]", "third_party/fmt"],
        ["done", "[2/3]", "torch"],
        ["cached", "[3/3]", "fbgemm"],
    ]


def test_a_long_step_is_heard_of_in_a_log_whether_or_not_it_says_anything() -> None:
    done = piped(
        "import time\n"
        "p = progress.Progress(total=2, starts=False, every_s=0.05)\n"
        "with p.shown():\n"
        "    p.note('nobody', 'x'); p.start('torch'); p.note('torch', 'receiving 43 %'); p.start('apex')\n"
        "    time.sleep(0.6); p.end('torch', 'done'); p.end('apex', 'done')\n"
    )
    *heard, _, last = (line.split() for line in done.stderr.splitlines())
    said = {(words[0], words[1], words[3], *words[4:]) for words in heard}
    assert said == {("...", "torch", "s", "receiving", "43", "%"), ("...", "apex", "s")}
    assert last[:3] == ["done", "[2/2]", "apex"]


def test_steps_have_a_rate_without_those_whose_results_were_there() -> None:
    steps = Progress(total=10, quiet=True)
    for name in "abcdef":
        steps.start(name)
    for name in "abcd":
        steps.end(name, "cached")
    steps.end("e", "done")
    (head, running) = steps.lines(steps._began + 120)
    assert head == "[5/10], 50 %, 0.5/min, 10 min left"
    assert re.fullmatch(r"  f +12\d\.\d s", running)


def test_steps_whose_results_hold_need_no_line_each() -> None:
    done = piped(
        "p = progress.Progress(total=2, cached=False)\n"
        "with p.shown():\n    p.end('fetch', 'cached', 'x'); p.end('build', 'failed', 'y')\n"
    )
    (line,) = done.stderr.splitlines()
    assert line.split()[:3] == ["failed", "[2/2]", "build"]


def test_progress_spells_out_what_a_terminal_would_obey() -> None:
    done = piped(
        "p = progress.Progress(total=1); name = 'a\\x1b[31mb'\n"
        "with p.shown():\n    p.start(name); p.end(name, 'done')"
    )
    assert "\x1b" not in done.stderr
    assert done.stderr.count("a\\x1b[31mb") == 2


def test_a_live_display_keeps_long_names_apart() -> None:
    names = [f"third_party/flash-attention/csrc/composable_kernel/{end}" for end in ("include", "library")]
    code = (
        "import time; from rocwright.system import progress\n"
        "p = progress.Progress(total=2)\n"
        "with p.shown():\n"
        f"    [p.start(name) for name in {names!r}]\n"
        f"    p.note({names[0]!r}, 'receiving 43 %'); time.sleep(0.6)\n"
        f"    [p.end(name, 'done') for name in {names!r}]\n"
    )
    seen = on_terminal({"NO_COLOR": "1"}, code)
    assert "third_party/…c/composable_kernel/include" in seen
    assert "third_party/…c/composable_kernel/library" in seen
    assert "receiving 43 %" in seen
    assert f"[2/2] {names[1]}" in seen


def test_quiet_progress_says_nothing() -> None:
    done = piped(
        "p = progress.Progress(total=1, quiet=True)\nwith p.shown():\n    p.start('x'); p.end('x', 'done')"
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_tool_that_counts_by_itself_is_followed() -> None:
    clock = Clock()
    count = Count("building torch", None, "steps", clock=clock)
    clock.now += 90
    assert count.beat(clock.now) == ["building torch: 2 min so far"]
    count.reach(600, 6000)
    clock.now += 60
    assert count.beat(clock.now) == ["building torch: 600 of 6,000 steps, 10 %, 10.0/s, 9 min left"]


def test_a_display_that_was_never_ended_goes_with_its_process() -> None:
    code = (
        "import time; from rocwright.system import progress\n"
        "progress._AFTER_S, progress._REDRAW_S = 0.0, 0.001\n"
        "left = progress.each('storing', range(10)); next(left); time.sleep(0.2)\n"
    )
    seen = on_terminal({}, code)
    assert "storing: 0 of 10 files, 0 %" in seen
    assert seen.endswith(ERASED)
