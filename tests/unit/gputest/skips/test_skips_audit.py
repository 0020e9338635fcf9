"""What is concluded from what tests showed, and files that entries are taken out of."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocwright.errors import InvalidData
from rocwright.gputest.skips.audit import Advice, judge_entries, to_rerun
from rocwright.gputest.skips.bring import carried_over
from rocwright.gputest.skips.collected import Collected
from rocwright.gputest.skips.entries import families_table, read_file, remove_entries, rendered, without
from rocwright.model.suites import SkipEntry, SkipKind, SkipWhere
from rocwright.model.testing import CaseResult, Verdict

TODAY = date(2026, 11, 22)


def entry(kind: SkipKind = "skip", **where: str) -> SkipEntry:
    return SkipEntry("e", ("a.py::T::*",), kind, "r", date(2026, 1, 1), SkipWhere(**where), matches=9)


def judged(kind: SkipKind, verdicts: list[Verdict], *, gpu: bool = True) -> tuple[Advice, str]:
    ids = tuple(f"a.py::T::t{number}" for number in range(len(verdicts)))
    collected = Collected((*ids, "a.py::U::t"), "list")
    results = {name: CaseResult(name, verdict) for name, verdict in zip(ids, verdicts, strict=True)}
    entries = [entry(kind)]
    (one,) = judge_entries(entries, to_rerun(entries, collected), results, collected, gpu=gpu)
    return one.advice, one.why


@pytest.mark.parametrize(
    ("kind", "verdicts", "advice"),
    [
        ("skip", ["passed", "passed"], "remove"),
        ("xfail", ["passed"], "remove"),
        ("hang", [], "remove"),
        ("skip", ["passed", "failed"], "narrow"),
        ("hang", ["passed", "hung"], "narrow"),
        ("skip", ["failed", "error"], "soften"),
        ("hang", ["failed"], "soften"),
        ("skip", ["crashed", "failed"], "keep"),
        ("hang", ["hung"], "keep"),
        ("skip", ["memory"], "keep"),
        ("xfail", ["failed"], "keep"),
        ("xfail", ["failed", "crashed"], "harden"),
        ("skip", ["skipped"], "unknown"),
        # A pass and a test that skips itself do not show that the entry may go.
        ("skip", ["passed", "skipped"], "unknown"),
        ("skip", ["xfailed"], "unknown"),
        ("skip", ["xpassed"], "soften"),
    ],
)
def test_the_advice_follows_from_what_was_seen(
    kind: SkipKind, verdicts: list[Verdict], advice: Advice
) -> None:
    assert judged(kind, verdicts)[0] == advice


def test_nothing_is_taken_for_gone_that_could_not_be_seen() -> None:
    assert judged("skip", [], gpu=False)[0] == "unknown"
    collected = Collected((), "tree", broken={"a.py": "ImportError: no"})
    (one,) = judge_entries([entry()], to_rerun([entry()], collected), {}, collected, gpu=True)
    assert (one.advice, one.why) == ("unknown", "a.py could not be collected: ImportError: no")
    # A file that broke off when it was run stands for its tests.
    found = Collected(("a.py::T::t",), "tree")
    results = {"a.py": CaseResult("a.py", "crashed")}
    (one,) = judge_entries([entry()], to_rerun([entry()], found), results, found, gpu=True)
    assert one.advice == "keep" and one.harmful == ("a.py::T::t",)


@pytest.mark.parametrize(
    ("where", "verdicts", "fate", "tests"),
    [
        ({"torch": "2.9"}, ["passed", "failed", "hung"], "copy", ("a.py::T::t1", "a.py::T::t2")),
        ({"torch": "2.9"}, ["passed"], "drop", None),
        ({"torch": ">=2.9"}, ["failed"], "holds", None),
        ({"torch": ">=2.9"}, ["passed"], "drop", None),
        ({"torch": "2.9"}, ["skipped"], "ask", None),
    ],
)
def test_only_what_still_fails_is_carried_over(
    where: dict[str, str], verdicts: list[Verdict], fate: str, tests: tuple[str, ...] | None
) -> None:
    ids = tuple(f"a.py::T::t{number}" for number in range(len(verdicts)))
    collected = Collected(ids, "list")
    entries = [entry(**where)]
    results = {name: CaseResult(name, verdict) for name, verdict in zip(ids, verdicts, strict=True)}
    audited = judge_entries(entries, to_rerun(entries, collected), results, collected, gpu=True)
    (one,) = carried_over(entries, audited, "2.10", families_table(), TODAY)
    assert one.fate == fate
    assert (one.new.tests if one.new else None) == tests
    if one.new:
        assert (one.new.id, one.new.where.torch, one.new.added) == ("e-torch2.10", "2.10", TODAY)
        assert one.new.matches is None


FILE = """# About this file.
# Two lines.

# Why the first stands here
[[entry]]  # first
id = "first"
tests = ["a.py::t"]
kind = "skip"
reason = \"\"\"
[[entry]] begins a table
\"\"\"
added = 2026-01-01

[[entry]]
id = "second"
tests = ["a.py::u"]
kind = "skip"
reason = "r"  # keep me
added = 2026-01-01
[entry.where]
targets = ["gfx942"]

# Why the third
[[ entry ]]
id = "third"
tests = ["a.py::v"]
kind = "skip"
reason = "r"
added = 2026-01-01
"""


def test_taking_entries_out_leaves_the_rest_byte_by_byte(tmp_path: Path) -> None:
    text = FILE
    left = without(text, {"second"}, tmp_path / "f.toml")
    begin, end = text.index('[[entry]]\nid = "second"'), text.index("# Why the third")
    assert left == text[:begin] + text[end:]
    assert (
        without(text, {"first", "second", "third"}, tmp_path / "f.toml")
        == "# About this file.\n# Two lines.\n\n"
    )
    path = tmp_path / "mine.toml"
    path.write_bytes(text.replace("\n", "\r\n").encode())
    assert remove_entries([path], {"third", "elsewhere"}) == {path: ("third",)}
    assert path.read_bytes() == text[: text.index("# Why the third")].replace("\n", "\r\n").encode()


def test_a_file_that_cannot_be_edited_by_lines_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    for text in (
        FILE.replace("[[entry]] begins", "[[entry]]\nbegins"),
        'entry = [{id="first",tests=["a.py::t"],kind="skip",reason="r",added=2026-01-01}]',
    ):
        path.write_text(text)
        with pytest.raises(InvalidData, match="line by line"):
            remove_entries([path], {"first"})
        assert path.read_text() == text


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(str.strip)


@given(texts, st.sampled_from(["", "2.9"]), st.booleans())
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, reason: str, torch: str, many: bool
) -> None:
    tests = tuple(f"test_cuda.py::TestCuda::test_{number}[{reason!r}]" for number in range(9 if many else 1))
    held = SkipEntry(
        "some.id",
        tests,
        "hang",
        reason,
        date(2026, 1, 2),
        SkipWhere(("gfx94*",), ("linux",), torch, ">=7", "3.12"),
        issue="a/b#1",
        expires=date(2027, 1, 1),
        matches=None,
    )
    path = tmp_path_factory.mktemp("toml") / "f.toml"
    path.write_text(rendered([held], head="about"), encoding="utf-8", newline="")
    assert [one for one, _ in read_file(path)] == [held]
