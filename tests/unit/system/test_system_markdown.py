"""Markdown of summaries: text stays text, links are links of the web only, pages are cut at lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocwright.system.page import facts, html_page
from rocwright.system.workflow import (
    captured_summary,
    cell,
    code,
    cut,
    link,
    size,
    table,
    tell_block,
    tell_summary,
)


def test_no_text_ends_its_cell_or_becomes_markup() -> None:
    assert cell("a|b\nc *d* <e> [f](g) \\") == "a\\|b c \\*d\\* &lt;e&gt; \\[f\\](g) \\\\"
    assert code("a`b|c\nd") == "`a'b\\|c d`" and code(" ") == ""
    assert table(("A", "B"), [("1", cell("x|y"))]) == ["| A | B |", "| --- | --- |", "| 1 | x\\|y |", ""]


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "https://a/ b", "https://a/>x", "file:///tmp/x", "https://a/|b"]
)
def test_only_an_address_of_the_web_becomes_a_link(url: str) -> None:
    assert "](" not in link("text", url)


def test_a_link_shows_its_text_and_may_hold_brackets() -> None:
    assert link("a [b]", "https://example.org/x(1)") == "[a \\[b\\]](<https://example.org/x(1)>)"
    assert link("a", "") == "a"


def test_what_is_too_long_is_cut_at_a_line_and_says_so() -> None:
    lines = ["ä" * 50] * 10
    assert cut(lines, size(lines)) == tuple(lines)
    short = cut(lines, size(lines) - 1)
    assert size(short) <= size(lines) - 1
    # 1010 bytes; each line has 101; 100 are kept for the last one.
    assert short == (*lines[:9], "", "1 more line is left out: the page would be too long.")
    assert cut(lines, size(lines) - 2)[-1] == "2 more lines are left out: the page would be too long."


def test_summaries_reach_the_step_and_the_copy_for_the_job(tmp_path: Path) -> None:
    place = {"RUNNER_TEMP": str(tmp_path)}
    assert captured_summary(place) == captured_summary({}) == ""
    assert not tell_summary(["first"], place)
    assert tell_summary(["second"], {**place, "GITHUB_STEP_SUMMARY": str(tmp_path / "s")})
    assert (tmp_path / "s").read_text("utf-8") == "second\n"
    assert captured_summary(place) == "first\nsecond"
    assert not tell_block("summary", "x", environment={})


def test_a_page_lets_no_script_run_and_escapes_what_it_is_told() -> None:
    page = html_page(
        "<T>", facts([("Name", "<b>"), ("Empty", ""), ("Link", "https://example.org/")]), "<p>x</p>\n"
    )
    assert "<title>&lt;T&gt;</title>" in page and "<dd>&lt;b&gt;</dd>" in page and "Empty" not in page
    assert "default-src 'none'" in page and "script-src" not in page
    assert '<dd><a href="https://example.org/">https://example.org/</a></dd>' in page
