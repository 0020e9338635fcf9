"""Where facts were read: every table and row says it, with dates; what is older than it keeps is told."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import rocwright.data
from rocwright.data import load_table
from rocwright.data.explain import explain, list_tables
from rocwright.data.overlay import parse_overlay
from rocwright.data.sources import SourceTable, advice, carries_date, load_sources
from rocwright.errors import InvalidData

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(rocwright.data.__file__).parent
TABLES = {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.toml")}
KNOWN = load_sources()


def named(value: Any) -> Iterator[str]:
    """What fields `source`, `sources` and `…_source` of all rows hold."""
    if isinstance(value, dict):
        for key, one in value.items():
            if key in ("source", "sources") or key.endswith("_source"):
                texts = [one] if isinstance(one, str) else one
                yield from (text for text in texts if isinstance(text, str))
            yield from named(one)
    elif isinstance(value, list):
        for one in value:
            yield from named(one)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_fact_of_a_table_has_a_source_or_is_the_projects_own(name: str) -> None:
    for part in TABLES[name]:
        assert explain(f"{name}.{part}").sources, f"{name}.{part}"


def test_every_key_of_a_source_leads_to_a_fact() -> None:
    for row in KNOWN.sources:
        for key in row.of:
            assert explain(key).key == key


def test_every_address_that_a_row_names_has_dates_or_carries_its_own() -> None:
    urls = {url for name, table in TABLES.items() if name != "profiles" for url in named(table)}
    assert len(urls) > 20
    for url in urls:
        row = KNOWN.dated(url)
        assert (row is not None and row.as_of and row.read) or carries_date(url), url


def test_no_comment_says_sources_that_the_table_of_sources_should_say() -> None:
    for name in TABLES:
        lines = (FOLDER / f"{name}.toml").read_text(encoding="utf-8").splitlines()
        assert not [line for line in lines if line.startswith(("# Source:", "# Sources:"))], name


def test_the_longest_beginning_of_an_address_dates_it() -> None:
    docs = "https://rocm.docs.amd.com/en/docs-7.1.0/compatibility/compatibility-matrix.html"
    found = KNOWN.dated(docs)
    assert found is not None and found.as_of == "ROCm 7.1.0"
    readme = KNOWN.dated("https://github.com/ROCm/TheRock/blob/main/external-builds/pytorch/README.md")
    assert readme is not None and readme.as_of == "2026-08-21"
    assert KNOWN.dated("https://example.com/") is None


@pytest.mark.parametrize(
    ("url", "dated"),
    [
        ("https://github.com/ROCm/TheRock/issues/5565", True),
        ("https://github.com/ROCm/TheRock/pull/6040#issuecomment-1", True),
        ("https://github.com/ROCm/TheRock/issues", False),
        ("https://github.com/ROCm/TheRock/issues/new", False),
        ("https://github.com/ROCm/TheRock/blob/main/pull/12x", False),
    ],
)
def test_issues_and_pull_requests_carry_their_dates(url: str, dated: bool) -> None:
    assert carries_date(url) is dated


OURS = """
[[sources.source]]
id = "lab"
url = "https://lab.example/gpus"
as_of = "2026-10-01"
read = 2026-10-02
of = ["families.family"]
days = 30
"""


def test_a_table_is_old_from_the_day_after_its_limit() -> None:
    overlay = parse_overlay(OURS, where="rocwright.toml")

    def late(day: date) -> tuple[str, ...]:
        return next(one.late for one in list_tables(day, overlay) if one.name == "families")

    # 2026-10-02 and 30 days are 2026-11-01.
    assert "lab" not in late(date(2026, 11, 1))
    assert "lab" in late(date(2026, 11, 2))
    assert advice(["families"], date(2026, 11, 1), overlay) == ""
    said = advice(["families", "contract"], date(2026, 11, 2), overlay)
    assert said == (
        "facts that this rests on are old: families, read 2026-10-02 (31 days ago); "
        "see what changed: rocwright data refresh --dry-run"
    )


def test_a_row_of_the_overlay_takes_the_place_of_the_built_in_one() -> None:
    newer = """
[[sources.source]]
id = "llvm-amdgpu"
url = "https://llvm.org/docs/AMDGPUUsage.html"
as_of = "2027-01-01"
read = 2027-01-02
of = ["families.generic"]
"""
    overlay = parse_overlay(newer, where="rocwright.toml")
    (found,) = explain("families.generic", overlay).sources
    assert str(found) == "https://llvm.org/docs/AMDGPUUsage.html, as of 2027-01-01, read 2027-01-02"


def test_what_never_changes_is_never_old() -> None:
    assert next(one.late for one in list_tables(date(2099, 1, 1)) if one.name == "machines") == ()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ('id = "x"', "needs a url, as_of and read"),
        ('id = "x"\nurl = "https://a.example/"\nas_of = "2026"', "needs a url, as_of and read"),
        ('id = "x"\nown = true\nonw = 1', "`onw`"),
        ('id = "x"\nurl = "https://a.example/"\nas_of = 2026-01-01\nread = 2026-01-01', "as_of"),
    ],
)
def test_a_source_without_dates_is_refused(row: str, words: str) -> None:
    overlay = parse_overlay(f"[[sources.source]]\n{row}\n", where="my/rocwright.toml")
    with pytest.raises(InvalidData, match=words) as caught:
        load_table("sources", SourceTable, overlay)
    assert caught.value.where == "my/rocwright.toml"
