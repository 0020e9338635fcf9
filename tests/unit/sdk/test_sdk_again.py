"""Packages asked for again: nothing is made twice, and two runs at once do not mix."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sdk_trees as trees

from rocwright.engine import changes
from rocwright.errors import InvalidPrefix, UsageError
from rocwright.sdk import build
from rocwright.sdk.build import Made, make_packages
from rocwright.sdk.intake.forms import form_of
from rocwright.sdk.plan.release import Packaging


@pytest.fixture
def rocm(tmp_path: Path) -> Path:
    return trees.small_rocm(tmp_path / "rocm")


def make(rocm: Path, **more: bool) -> Made:
    return make_packages(form_of([rocm]), rocm.parent / "dist", Packaging(**more))


def test_what_was_made_of_the_same_is_there(rocm: Path) -> None:
    first = make(rocm)
    assert (first.unchanged, make(rocm)) == (False, Made(first.built, unchanged=True))


def test_other_options_make_them_again(rocm: Path) -> None:
    make(rocm)
    assert not make(rocm, devel_xz=True).unchanged


def test_another_compressor_makes_them_again(rocm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(rocm)
    monkeypatch.setattr(build, "COMPRESSOR", "another")
    assert not make(rocm).unchanged


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Adds a line to a source of rocwright: in a copy, which this process takes for its own."""
    copy = tmp_path / "rocwright"
    shutil.copytree(Path(changes.__file__).parents[1], copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(changes, "__file__", str(copy / "engine" / "changes.py"))
    changes.room_digest.cache_clear()

    def add(source: str) -> None:
        with (copy / source).open("a", encoding="utf-8") as stream:
            stream.write("# changed\n")
        changes.room_digest.cache_clear()

    yield add
    changes.room_digest.cache_clear()


def test_only_a_change_of_the_code_that_makes_them_makes_them_again(
    rocm: Path, edit: Callable[[str], None]
) -> None:
    make(rocm)
    edit("pipeline/steps/gate.py")
    edit("store/gate.py")
    assert make(rocm).unchanged
    for source in ("sdk/build.py", "wheel/write.py", "data/packages.toml"):
        edit(source)
        assert (make(rocm).unchanged, make(rocm).unchanged) == (False, True), source


def test_two_at_once_do_not_write_over_each_other(rocm: Path) -> None:
    def under_way(text: str) -> None:
        if text == "planning":
            with pytest.raises(UsageError, match="another run makes packages here"):
                make(rocm)

    first = make_packages(form_of([rocm]), rocm.parent / "dist", Packaging(), note=under_way)
    assert make(rocm) == Made(first.built, unchanged=True)


def test_nothing_is_left_of_a_rocm_that_cannot_be_read(rocm: Path, tmp_path: Path) -> None:
    (rocm / "lib").rename(tmp_path / "elsewhere")
    with pytest.raises(InvalidPrefix):
        make_packages(form_of([rocm]), tmp_path / "new" / "dist", Packaging())
    assert not (tmp_path / "new").exists()
