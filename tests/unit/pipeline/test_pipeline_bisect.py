"""What a search tries next, and what it makes of verdicts. Installs are tried in tests/real/store."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocwright.data import load_table
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.channels import LandingTable
from rocwright.model.sets import FileEntry, new_set
from rocwright.pipeline.bisect import Contradiction, narrow
from rocwright.pipeline.trial import Question, asked, requirements, verdict_of
from rocwright.store.index.listed import ListedSet


def search(count: int, first_bad: int, skipped: frozenset[int] = frozenset()) -> tuple[list[int], range]:
    """What a search over `count` sets tries, and where the first bad one then may be."""
    verdicts, tried = {}, []
    while (now := narrow(0, count - 1, verdicts)).next is not None:
        at = now.next
        tried.append(at)
        verdicts[at] = "skip" if at in skipped else ("bad" if at >= first_bad else "good")
    return tried, range(now.good + 1, now.bad + 1)


@pytest.mark.parametrize("count", [2, 3, 4, 63, 64, 65])
def test_every_first_bad_set_is_found_in_the_fewest_steps(count: int) -> None:
    most = math.ceil(math.log2(count - 1))
    for first_bad in range(1, count):
        tried, found = search(count, first_bad)
        assert list(found) == [first_bad]
        assert len(tried) <= most
        assert len(set(tried)) == len(tried)


def test_sixty_four_sets_take_at_most_six() -> None:
    assert max(len(search(64, at)[0]) for at in range(1, 64)) == 6


CASES = st.integers(2, 40).flatmap(
    lambda count: st.tuples(st.just(count), st.integers(1, count - 1), st.sets(st.integers(1, count)))
)


@given(CASES)
def test_skipped_sets_never_hide_the_first_bad_one(case: tuple[int, int, set[int]]) -> None:
    count, first_bad, skipped = case
    tried, found = search(count, first_bad, frozenset(skipped - {count - 1}))
    assert first_bad in found
    # All but the last of what is left was skipped, nothing was tried twice.
    assert set(found[:-1]) <= skipped
    assert len(set(tried)) == len(tried)


@pytest.mark.parametrize(
    "verdicts",
    [{2: "bad", 3: "good"}, {0: "bad"}, {9: "good"}],
    ids=["bad before good", "the good end is bad", "the bad end is good"],
)
def test_verdicts_that_contradict_each_other(verdicts: dict[int, str]) -> None:
    with pytest.raises(Contradiction):
        narrow(0, 9, verdicts)


def test_verdicts_outside_of_the_ends_do_not_count() -> None:
    assert narrow(4, 6, {1: "bad", 8: "good"}).next == 5


@pytest.mark.parametrize(
    ("status", "verdict"), [(0, "good"), (125, "skip"), (1, "bad"), (127, "bad"), (255, "bad"), (-11, "bad")]
)
def test_exit_codes(status: int, verdict: str) -> None:
    assert verdict_of(status) == verdict


def test_another_script_of_the_same_name_is_another_question(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    question = Question(("python", "check.py"), Path(sys.executable))
    before = asked(question, "3.12")
    Path("check.py").write_text("import torch\n")
    first = asked(question, "3.12")
    Path("check.py").write_text("import torch, torchvision\n")
    assert len({str(one) for one in (before, first, asked(question, "3.12"), asked(question, "3.13"))}) == 4


def test_what_cannot_be_asked() -> None:
    with pytest.raises(UsageError, match="no command"):
        Question((), Path("python"))
    with pytest.raises(UsageError, match="not an installer"):
        Question(("true",), Path("python"), installer="conda")
    with pytest.raises(UsageError, match="needs --installer uv"):
        Question(("true",), Path("python"), installer="pip", other_index="https://pypi.org/simple/")
    assert issubclass(Contradiction, InvalidInput)


def test_wheels_for_any_platform_are_installed_here() -> None:
    name = "torch-2.9.0-py3-none-any.whl"
    file = FileEntry(name, "0" * 64, 1, "torch", "2.9.0", None, None, ())
    one = ListedSet(new_set(family="fam", targets=(), platform="any", files=[file], sources={}))
    question = Question(("true",), Path("python"))
    assert requirements(one, question, "3.12", load_table("landing", LandingTable)) == ("torch==2.9.0",)
