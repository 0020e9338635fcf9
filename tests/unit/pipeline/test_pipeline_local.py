"""Running a graph: what is finished is kept, what changed is done again, what failed stops the rest."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rocwright.engine import record as state
from rocwright.engine import run as local
from rocwright.engine.graph import Graph, Inputs, Step, make_graph
from rocwright.errors import CommandFailed, RocwrightError
from rocwright.model.sets import FileEntry, SetManifest, new_set


class Value(msgspec.Struct, frozen=True):
    path: str
    note: str = ""
    report: dict[str, Any] = {}
    nested: tuple[dict[str, int], ...] = ()


class Bench:
    """Two steps, `first` → `second`; what they do is counted and can be changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / "state"
        self.done: list[str] = []
        self.facts: Any = {"targets": ("gfx90a",)}
        self.text = "12345"
        self.note = ""
        self.rooms: tuple[str, ...] = ()

    def graph(self) -> Graph:
        return make_graph([self._step("first"), self._step("second", "first")])

    def _step(self, name: str, *needs: str) -> Step:
        def act(inputs: Inputs, note: Callable[[str], None]) -> Value:
            self.done.append(name)
            path = self.root / f"{name}.out"
            path.write_text(self.text)
            return Value(str(path), self.note, {"a": [1, None]}, ({"x": 1},))

        return Step(
            id=name,
            result=Value,
            act=act,
            needs=needs,
            rooms=self.rooms,
            facts=(lambda: self.facts) if name == "first" else lambda: None,
            outputs=lambda value: (Path(value.path),),
            summary=lambda value: f"wrote {Path(value.path).name}",
        )

    def run(self) -> list[str]:
        """The steps that were done, not taken from an earlier run."""
        self.done.clear()
        self.report = local.run(self.graph(), self.state)
        assert [step.id for step in self.report.steps] == ["first", "second"]
        assert [step.id for step in self.report.steps if step.state == "done"] == self.done
        return list(self.done)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    assert made.run() == ["first", "second"]
    return made


def test_nothing_changed_nothing_is_done(bench: Bench) -> None:
    assert bench.run() == []
    assert [step.summary for step in bench.report.steps] == ["wrote first.out", "wrote second.out"]


def test_results_survive_as_json(bench: Bench) -> None:
    made = json.loads(bytes(bench.report.steps[0].value))
    bench.run()
    kept = json.loads(bytes(bench.report.steps[0].value))
    path = str(bench.root / "first.out")
    assert kept == made == {"path": path, "note": "", "report": {"a": [1, None]}, "nested": [{"x": 1}]}
    written = json.loads(msgspec.json.encode(bench.report))
    assert written["steps"][0]["value"]["report"] == {"a": [1, None]}
    assert written["steps"][0]["state"] == "cached"
    assert written["peak_rss"] > 1 << 20


def test_other_facts_redo_the_step_but_not_those_whose_inputs_are_equal(bench: Bench) -> None:
    bench.facts = {"targets": ("gfx90a", "gfx942")}
    assert bench.run() == ["first"]
    assert bench.run() == []


def test_another_result_redoes_what_was_built_on_it(bench: Bench) -> None:
    bench.facts, bench.note = {"targets": ()}, "another result"
    assert bench.run() == ["first", "second"]


def test_changed_code_redoes_its_steps(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.rooms = ("builder",)
    assert bench.run() == ["first", "second"]
    assert bench.run() == []
    known = state.room_digest("builder")
    monkeypatch.setattr(state, "room_digest", lambda room: known[::-1])
    assert bench.run() == ["first", "second"]


def later(path: Path, act: Callable[[], object]) -> None:
    """Do `act` once the file system's clock has moved on since `path` was written."""
    probe = path.with_name("probe")
    before = path.stat().st_ctime_ns
    probe.write_text("")
    while probe.stat().st_ctime_ns <= before:
        probe.write_text("")
    probe.unlink()
    act()


@pytest.mark.parametrize("name", ["first", "second"])
def test_an_output_rewritten_with_equal_size_and_time_is_noticed(bench: Bench, name: str) -> None:
    path = bench.root / f"{name}.out"
    facts = path.stat()
    later(path, lambda: path.write_text("54321"))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (facts.st_size, facts.st_mtime_ns)
    assert bench.run() == [name]
    assert path.read_text() == "12345"


def test_an_output_that_is_gone_or_another_kind_of_thing_is_made_again(bench: Bench) -> None:
    path = bench.root / "second.out"
    path.unlink()
    assert bench.run() == ["second"]
    path.unlink()
    path.symlink_to("first.out")
    # The link's target has the same bytes; what lies there is the content that was left.
    bench.run()
    assert path.read_text() == "12345"


def test_a_hard_link_made_of_an_output_changes_nothing(bench: Bench) -> None:
    path = bench.root / "first.out"
    later(path, lambda: os.link(path, bench.root / "store"))
    assert bench.run() == []
    # And the stamp was brought up to date: a change after that is still noticed.
    facts = path.stat()
    later(path, lambda: path.write_text("54321"))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert bench.run() == ["first"]


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"\x00\xff",
        b'{"schema": "\xff\xfe"}',
        b"null",
        b"[]",
        b"{}",
        b"[" * 5000,
        b'{"schema": 2, "step": "first", "inputs": "x", "value": 1, "outputs": {}, "wall_s": 0}',
    ],
    ids=range(9),
)
def test_a_damaged_stamp_is_no_stamp(bench: Bench, damage: bytes) -> None:
    (bench.state / "first.json").write_bytes(damage)
    assert bench.run() == ["first"]
    assert bench.run() == []


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    "change",
    [
        lambda stamp: stamp.update(schema=0),
        lambda stamp: stamp.update(schema=99),
        lambda stamp: stamp.update(inputs="0" * 64),
        lambda stamp: stamp.update(outputs={}),
        lambda stamp: stamp["value"].pop("path"),
        lambda stamp: stamp["value"].update(path=7),
        lambda stamp: stamp.update(value="text"),
    ],
    ids=["older", "newer", "other-inputs", "no-outputs", "no-field", "wrong-type", "no-struct"],
)
def test_a_stamp_that_does_not_fit_is_no_stamp(
    bench: Bench, change: Callable[[dict[str, Any]], object]
) -> None:
    edit(bench.state / "first.json", change)
    assert bench.run() == ["first"]


def test_the_stamp_of_another_step_is_no_stamp(bench: Bench) -> None:
    (bench.state / "first.json").write_bytes((bench.state / "second.json").read_bytes())
    assert bench.run() == ["first"]


def test_a_result_that_refuses_its_own_content_is_no_result(tmp_path: Path) -> None:
    """A set manifest checks itself while it is read, with an error of this project's tree."""
    entry = FileEntry(name="torch-2.9.whl", sha256="0" * 64, size=1, project="torch", version="2.9")
    made = []

    def act(inputs: Inputs, note: Callable[[str], None]) -> SetManifest:
        made.append(1)
        return new_set(family="f", targets=["gfx90a"], platform="linux", files=[entry], sources={})

    graph = make_graph([Step(id="stage", result=SetManifest, act=act)])
    local.run(graph, tmp_path)
    edit(tmp_path / "stage.json", lambda stamp: stamp["value"].update(schema="rocwright.set/0"))
    local.run(graph, tmp_path)
    assert made == [1, 1]


# ---- failing, parallel, interrupted ----


def simple(name: str, act: Callable[[], object], *needs: str) -> Step:
    def call(inputs: Inputs, note: Callable[[str], None]) -> Value:
        act()
        return Value(name)

    return Step(id=name, result=Value, act=call, needs=needs)


def within(seconds: float, act: Callable[[], object]) -> list[object]:
    """What `act` returned or raised; fails, instead of hanging, when it does not end."""
    ended: list[object] = []

    def work() -> None:
        try:
            ended.append(act())
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    assert ended, "the run neither ended nor failed"
    return ended


def test_steps_that_need_nothing_of_each_other_overlap(tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=60)
    graph = make_graph([simple("a", both.wait), simple("b", both.wait)])
    assert len(local.run(graph, tmp_path, jobs=2).steps) == 2


def test_no_more_than_the_allowed_number_run_at_once(tmp_path: Path) -> None:
    lock, running, most = threading.Lock(), 0, 0
    # Each ends together with another one.
    pair = threading.Barrier(2, timeout=60)

    def act() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        pair.wait()
        threading.Event().wait(0.02)
        with lock:
            running -= 1

    local.run(make_graph([simple(f"s{n}", act) for n in range(6)]), tmp_path, jobs=2)
    assert most == 2


def test_a_failing_step_lets_running_ones_end_and_starts_no_more(tmp_path: Path) -> None:
    started, failed = threading.Event(), threading.Event()
    done: list[str] = []

    def fail() -> None:
        assert started.wait(60)
        failed.set()
        raise CommandFailed("cc x.c", 2, tail="x.c: error")

    def slow() -> None:
        started.set()
        assert failed.wait(60)
        threading.Event().wait(0.05)
        done.append("slow")

    def steps() -> Graph:
        return make_graph(
            [
                simple("before", lambda: done.append("before")),
                simple("fails", fail, "before"),
                simple("slow", slow, "before"),
                simple("after", lambda: done.append("after"), "slow"),
                simple("free", lambda: done.append("free"), "before"),
            ]
        )

    with pytest.raises(CommandFailed, match=r"cc x\.c"):
        local.run(steps(), tmp_path, jobs=2)
    assert done == ["before", "slow"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["before.json", "slow.json"]


def test_a_step_that_fails_again_has_no_stamp_of_its_earlier_success(bench: Bench) -> None:
    def fail(inputs: Inputs, note: Callable[[str], None]) -> Value:
        (bench.root / "first.out").write_text("123")
        raise RocwrightError("no")

    good = bench.graph()
    bad = Step("first", Value, fail, facts=lambda: "other", outputs=good["first"].outputs)
    with pytest.raises(RocwrightError, match="no"):
        local.run(make_graph([bad]), bench.state)
    assert not (bench.state / "first.json").exists()
    assert bench.run() == ["first"]
    assert (bench.root / "first.out").read_text() == "12345"


@pytest.mark.parametrize("jobs", [0, -1])
def test_a_number_of_jobs_that_runs_nothing_is_refused(tmp_path: Path, jobs: int) -> None:
    graph = make_graph([simple("a", lambda: None)])
    assert isinstance(within(1.5, lambda: local.run(graph, tmp_path, jobs=jobs))[0], RocwrightError)


def test_a_step_that_returns_nothing_is_an_error_and_no_endless_wait(tmp_path: Path) -> None:
    nothing: Any = lambda inputs, note: None  # noqa: E731
    graph = make_graph([Step(id="a", result=Value, act=nothing), simple("b", lambda: None, "a")])
    assert isinstance(within(1.5, lambda: local.run(graph, tmp_path))[0], Exception)


def test_a_mistake_inside_a_step_is_raised_with_its_traceback(tmp_path: Path) -> None:
    def wrong() -> None:
        raise ZeroDivisionError("in a step")

    with pytest.raises(ZeroDivisionError) as caught:
        local.run(make_graph([simple("a", wrong)]), tmp_path)
    assert any(entry.name == "wrong" for entry in caught.traceback)


def test_facts_that_cannot_be_gathered_fail_the_step(tmp_path: Path) -> None:
    def facts() -> object:
        raise RocwrightError("the prefix is gone")

    graph = make_graph([Step("a", Value, lambda inputs, note: Value("x"), facts=facts)])
    with pytest.raises(RocwrightError, match="the prefix is gone"):
        local.run(graph, tmp_path)
