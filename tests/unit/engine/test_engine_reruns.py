"""Reruns: nothing changed is believed, and every change is noticed, also one that hides its time."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from rocwright.engine import changes, record
from rocwright.engine.graph import Step
from rocwright.engine.run import once

OPTIONS = {"version": "7.10.0", "families": ("gfx94X-dcgpu",)}


class Result(msgspec.Struct, frozen=True):
    version: str
    files: tuple[str, ...]


RESULT = Result("7.10.0", ("a.whl", "b.whl"))


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    root = tmp_path / "rocm"
    (root / "lib").mkdir(parents=True)
    (root / "lib/liba.so.1").write_bytes(b"a" * 100)
    (root / "lib/liba.so").symlink_to("liba.so.1")
    (root / "bin").mkdir()
    (root / "bin/hipcc").write_text("#!/bin/sh\n")
    return root


def age(monkeypatch: pytest.MonkeyPatch, seconds: float = 10) -> None:
    """Let the clock run ahead, as if the files had been there for a while."""
    real = time.time_ns
    monkeypatch.setattr(changes.time, "time_ns", lambda: real() + int(seconds * 1e9))


def mark(prefix: Path) -> Path:
    """The record of the step."""
    return prefix.parent / "dist" / ".record.json"


def step(
    *roots: Path,
    options: object = OPTIONS,
    result: type[msgspec.Struct] = Result,
    act: Callable[[], object] = lambda: pytest.fail("the step is done again"),
) -> Step:
    """A step that reads `roots`, and fails the test where it has to be done."""
    dist = roots[0].parent / "dist"

    def make(*_: object) -> Result:
        act()
        return RESULT

    def outputs(value: Result) -> tuple[Path, ...]:
        return tuple(dist / name for name in value.files)

    return Step("mine", result, make, facts=lambda: options, reads=lambda: roots, outputs=outputs)


def build(prefix: Path, *, meanwhile: Callable[[], object] = lambda: None) -> Path:
    dest = prefix.parent / "dist"
    dest.mkdir(exist_ok=True)

    def act() -> None:
        meanwhile()
        for name in RESULT.files:
            (dest / name).write_text("wheel " + name)

    assert once(step(prefix, act=act), mark(prefix), {}) == (RESULT, False)
    return dest


def taken(asked: Step, path: Path) -> msgspec.Struct | None:
    return record.load(path, asked, record.inputs_digest(asked, {}))


def again(prefix: Path, *, options: object = OPTIONS) -> msgspec.Struct | None:
    return taken(step(prefix, options=options), mark(prefix))


def test_nothing_changed_gives_the_result_again(prefix: Path) -> None:
    build(prefix)
    assert again(prefix) == RESULT
    assert again(prefix) == RESULT


def test_before_the_first_build_there_is_none(prefix: Path) -> None:
    assert again(prefix) is None


def rewrite_with_the_old_mtime(root: Path) -> None:
    file = root / "lib/liba.so.1"
    facts = file.stat()
    file.write_bytes(b"b" * 100)
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def replace_with_a_twin(root: Path) -> None:
    file = root / "lib/liba.so.1"
    facts = file.stat()
    twin = root / "twin"
    twin.write_bytes(b"b" * 100)
    os.utime(twin, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    twin.replace(file)


def turn_a_link(root: Path) -> None:
    (root / "lib/liba.so").unlink()
    (root / "lib/liba.so").symlink_to("liba.so.2")


CHANGES: dict[str, Callable[[Path], object]] = {
    "content": lambda root: (root / "bin/hipcc").write_text("#!/bin/bash\n"),
    "content-with-the-old-mtime": rewrite_with_the_old_mtime,
    "another-file-of-the-same-facts": replace_with_a_twin,
    "new": lambda root: (root / "lib/new").write_text(""),
    "new-byte-code": lambda root: (
        (root / "__pycache__").mkdir(),
        (root / "__pycache__/x.pyc").write_text(""),
    ),
    "gone": lambda root: (root / "bin/hipcc").unlink(),
    "renamed": lambda root: (root / "bin/hipcc").rename(root / "bin/hipcc2"),
    "mode": lambda root: (root / "bin/hipcc").chmod(0o755),
    "link": turn_a_link,
    "all": shutil.rmtree,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("settled", [False, True], ids=["fresh", "settled"])
def test_every_change_of_an_input_is_noticed(
    prefix: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object], settled: bool
) -> None:
    if settled:
        age(monkeypatch)
    build(prefix)
    assert again(prefix) == RESULT
    # The next tick of the file system's clock: a change of a settled file is always later than that.
    time.sleep(0.02)
    change(prefix)
    assert again(prefix) is None


def test_a_change_within_the_same_tick_is_noticed_by_content(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that leaves every fact as it was, ctime included, as one within the clock's tick does."""
    frozen = dict(changes.stat_files(prefix))
    monkeypatch.setattr(changes, "stat_files", lambda _: sorted(frozen.items()))
    build(prefix)
    assert again(prefix) == RESULT
    (prefix / "lib/liba.so.1").write_bytes(b"b" * 100)
    assert again(prefix) is None


def test_once_settled_no_content_is_read_any_more(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(prefix)
    racy = json.loads(mark(prefix).read_text())["looked"][str(prefix)]["racy"]
    assert set(racy) == {"bin/hipcc", "lib/liba.so", "lib/liba.so.1"}
    age(monkeypatch)
    assert again(prefix) == RESULT
    assert json.loads(mark(prefix).read_text())["looked"][str(prefix)]["racy"] == {}
    assert again(prefix) == RESULT


def test_a_large_fresh_tree_is_waited_for_and_not_read(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (prefix / "lib/large").open("wb") as stream:
        stream.truncate(100 << 20)
    age(monkeypatch, 1.8)
    began = time.monotonic()
    build(prefix)
    assert 0.1 < time.monotonic() - began < 1.5
    assert json.loads(mark(prefix).read_text())["looked"][str(prefix)]["racy"] == {}
    assert again(prefix) == RESULT


def test_a_file_that_a_link_leads_to_outside_the_tree_counts(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = prefix.parent / "blas_lib_generic.tar.zst"
    outside.write_bytes(b"one")
    (prefix / outside.name).symlink_to(outside)
    age(monkeypatch)
    build(prefix)
    assert again(prefix) == RESULT
    time.sleep(0.02)
    outside.write_bytes(b"two")
    assert again(prefix) is None


def test_other_options_are_another_build(prefix: Path) -> None:
    build(prefix)
    assert again(prefix, options={**OPTIONS, "version": "7.10.1"}) is None
    # The order of keys says nothing; a tuple and a list are the same JSON.
    assert again(prefix, options={"families": ["gfx94X-dcgpu"], "version": "7.10.0"}) == RESULT


def test_other_inputs_are_another_build(prefix: Path, tmp_path: Path) -> None:
    build(prefix)
    shutil.copytree(prefix, tmp_path / "copy", symlinks=True)
    assert taken(step(tmp_path / "copy"), mark(prefix)) is None
    assert taken(step(prefix, tmp_path / "copy"), mark(prefix)) is None
    (tmp_path / "by-link").symlink_to(prefix)
    assert taken(step(tmp_path / "by-link", prefix), mark(prefix)) == RESULT


@pytest.mark.parametrize(
    "change",
    [
        lambda dest: (dest / "a.whl").unlink(),
        lambda dest: (dest / "a.whl").write_text("whe1l a.whl"),
        lambda dest: dest.rename(dest.with_name("moved")),
    ],
    ids=["gone", "changed", "moved"],
)
def test_packages_that_are_not_as_they_were_left_are_built_again(
    prefix: Path, change: Callable[[Path], object]
) -> None:
    change(build(prefix))
    assert again(prefix) is None


def test_a_touched_or_linked_package_is_still_the_same(prefix: Path) -> None:
    dest = build(prefix)
    os.utime(dest / "a.whl", (1, 1))
    os.link(dest / "b.whl", dest.parent / "in-a-store.whl")
    before = mark(prefix).read_bytes()
    assert again(prefix) == RESULT
    # Noted, so that the next run need not read them again.
    assert mark(prefix).read_bytes() != before


def test_inputs_that_change_during_the_build_are_never_found_unchanged(prefix: Path) -> None:
    def meanwhile() -> None:
        time.sleep(0.02)
        (prefix / "bin/hipcc").write_text("changed meanwhile")

    build(prefix, meanwhile=meanwhile)
    assert again(prefix) is None


def test_a_build_that_did_not_finish_leaves_no_record(prefix: Path) -> None:
    build(prefix)

    def act() -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        once(step(prefix, options="other", act=act), mark(prefix), {})
    assert again(prefix) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1}'])
def test_a_damaged_record_counts_as_none(prefix: Path, text: str) -> None:
    build(prefix)
    mark(prefix).write_text(text)
    assert again(prefix) is None


def test_a_result_of_another_shape_counts_as_none(prefix: Path) -> None:
    class Other(msgspec.Struct, frozen=True):
        size: int

    build(prefix)
    assert taken(step(prefix, result=Other), mark(prefix)) is None


def test_ten_thousand_files_take_a_blink(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10_000):
        if number % 100 == 0:
            (prefix / f"d{number // 100}").mkdir()
        (prefix / f"d{number // 100}" / str(number)).touch()
    age(monkeypatch)
    build(prefix)
    began = time.process_time()
    assert again(prefix) == RESULT
    assert time.process_time() - began < 1
