"""Packages asked for again: nothing is made twice, and two who ask at once take turns."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import sdk_trees as trees

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


def test_two_at_once_take_turns(rocm: Path) -> None:
    """The second would otherwise write over what the first is writing."""
    told: list[str] = []
    second: list[Made] = []
    waiting = threading.Event()

    def hear(text: str) -> None:
        told.append(text)
        waiting.set()

    def ask_again() -> None:
        second.append(make_packages(form_of([rocm]), rocm.parent / "dist", Packaging(), note=hear))

    beside = threading.Thread(target=ask_again)

    def under_way(text: str) -> None:
        if text == "planning":
            beside.start()
            assert waiting.wait(30)

    first = make_packages(form_of([rocm]), rocm.parent / "dist", Packaging(), note=under_way)
    beside.join(60)
    assert told == [f"waiting for another run in {rocm.parent / 'dist'}"]
    assert second == [Made(first.built, unchanged=True)]
