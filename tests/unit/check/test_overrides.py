"""What of a rocwright.toml takes away from the contract, and what are facts about packages of one's own."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from rocwright.check.contract import OverlaidContract, terms_of
from rocwright.check.loading import load_contract
from rocwright.check.run import CheckRequest, check_paths, gather_paths
from rocwright.data.overlay import parse_overlay

TODAY = date(2026, 3, 1)
ANSWERED = 'reason = "known"\nexpires = 2026-03-31\n'


def loaded(text: str, today: date = TODAY, **options: bool) -> OverlaidContract:
    table = load_contract(parse_overlay(text, where="/home/me/rocwright.toml"), today, **options)
    assert isinstance(table, OverlaidContract)
    return table


def taken(row: str, names: str = '"mine"') -> list[tuple[str, str, str, str]]:
    """Field, rule, before and after of what a row takes away, which says why and until when."""
    text = f"[[contract.package]]\nnames = [{names}]\n{row}\n{ANSWERED}"
    return [(one.field, one.rule, one.before, one.after) for one in loaded(text).overrides]


@pytest.mark.parametrize(
    "row",
    [
        'rules = ["torch-pin", "elf-runpath"]',
        # A rule that nothing asks of this package, as a warning from the start.
        'rules = ["torch-pin"]\nseverity = { torch-pin = "warning" }',
        'severity = { licences = "error" }',
        # It is a warning for any wheel already.
        'severity = { licences = "warning" }',
        'off = ["torch-hip"]',
        'rules = ["required-files"]\nrequired = ["mine/a.so"]\nforbidden = ["**/*.log"]',
        "budget = 300_000_000",
        # Packages of one's own are as large as they are, and have what they have.
        "budget = 9_000_000_000\ntarget_budget = 9_000_000_000",
        'provided = ["libibverbs.so.1"]\nnever_imported = ["mine/old/**"]\nbundled = ["mine/lib/**"]',
    ],
)
def test_facts_about_packages_of_ones_own_need_no_reason(row: str) -> None:
    assert taken(row) == []
    loaded(f'[[contract.package]]\nnames = ["mine"]\n{row}\n')


@pytest.mark.parametrize(
    ("names", "row", "expected"),
    [
        ('"mine"', 'off = ["sbom"]', [("off", "sbom", "on", "off")]),
        ('"mine"', 'severity = { elf-needed = "warning" }', [("severity", "elf-needed", "error", "warning")]),
        # For these a row of the family made it an error.
        ('"tor*"', 'severity = { top-level = "warning" }', [("severity", "top-level", "error", "warning")]),
        ('"torch"', "budget = 5_000_000_001", [("budget", "size-budget", "5000000000", "5000000001")]),
        ('"torch"', "budget = 5_000_000_000", []),
        ('"apex"', "budget = 1_500_000_001", [("budget", "size-budget", "1500000000", "1500000001")]),
        ('"*"', "budget = 1_000_001", [("budget", "size-budget", "1000000", "1000001")]),
        ('"rocm-sdk-{core,devel}"', 'provided = ["a", "b"]', [("provided", "", "not so", "a, b")]),
        ('"*-device-gfx942"', "refuses = true", [("refuses", "", "not so", "True")]),
    ],
)
def test_less_asked_of_packages_is_taken_away(
    names: str, row: str, expected: list[tuple[str, str, str, str]]
) -> None:
    assert taken(row, names) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("growth = 0.05", [("growth", "size-growth", "0.03", "0.05")]),
        ("growth = 0.01\nsmall_growth = 5", []),
        ('own = ["rocm", "rocm-*", "amd-*-device", "amd-*-device-{gfx,amdgcn}*", "mine"]', []),
        (
            'own = ["mine", "rocm"]',
            [("own", "", "rocm-*, amd-*-device, amd-*-device-{gfx,amdgcn}*", "left out")],
        ),
        ('adopted = ["set-pins", "sbom"]', [("adopted", "set-pins", "error", "warning in wheels of others")]),
    ],
)
def test_values_of_all_packages_take_away_where_they_let_more_pass(
    text: str, expected: list[tuple[str, str, str, str]]
) -> None:
    found = loaded(f"[contract]\n{ANSWERED}{text}\n").overrides
    assert [(one.field, one.rule, one.before, one.after) for one in found] == expected


def test_a_later_row_of_the_file_is_measured_by_those_above_it() -> None:
    stricter = '[[contract.package]]\nnames = ["mine"]\nrules = ["torch-pin"]\n'
    looser = f'[[contract.package]]\nnames = ["mi*"]\noff = ["torch-pin"]\n{ANSWERED}'
    assert [one.rule for one in loaded(stricter + looser).overrides] == ["torch-pin"]


def test_what_is_over_leaves_what_the_row_asks_for() -> None:
    text = (
        '[[contract.package]]\nnames = ["torch"]\nrules = ["wheel-purelib"]\noff = ["torch-hip"]\n'
        'severity = { elf-needed = "warning", licences = "error" }\nbudget = 9_000_000_000\n'
    ) + ANSWERED
    last, over = loaded(text, date(2026, 3, 31)), loaded(text, date(2026, 4, 1))
    assert (len(last.overrides), last.lapsed) == (3, ())
    assert (over.overrides, over.lapsed) == ((), last.overrides)
    for table in (over, loaded(text, overrides=False)):
        terms = terms_of(table, "torch")
        assert {"torch-hip", "wheel-purelib"} <= terms.rules
        assert (terms.severity.get("elf-needed"), terms.severity["licences"]) == (None, "error")
        assert terms.budget == 5_000_000_000
    assert loaded(text, overrides=False).lapsed == ()


def test_values_of_all_packages_are_over_in_time_too() -> None:
    text = f"[contract]\ngrowth = 0.5\n{ANSWERED}"
    assert (loaded(text).growth, loaded(text, date(2026, 4, 1)).growth) == (0.5, 0.03)


def test_a_report_names_the_file_by_its_digest_and_not_by_its_place(build: Any) -> None:
    text = f'[[contract.package]]\nnames = ["mine"]\noff = ["sbom", "licences"]\n{ANSWERED}'
    path = build("mine", "1", {"mine/__init__.py": ""})
    report = check_paths([path], contract=loaded(text))
    assert {(one.file, one.sha256) for one in report.overrides} == {
        ("rocwright.toml", parse_overlay(text, where="elsewhere").sha256)
    }
    assert report.switched_off == ("licences", "sbom")
    assert not set(report.rules) & {"licences", "sbom"}


def test_growth_is_taken_away_only_where_it_was_compared(build: Any, tmp_path: Path) -> None:
    path = build("mine", "1", {"mine/__init__.py": ""})
    contract = loaded(f"[contract]\ngrowth = 0.5\n{ANSWERED}")
    assert check_paths([path], contract=contract).overrides == ()
    found = check_paths([path], contract=contract, previous=path.parent).overrides
    assert [one.field for one in found] == ["growth"]


def test_softening_for_wheels_of_others_is_said_of_these_only(build: Any) -> None:
    path = build("mine", "1", {"mine/__init__.py": ""})
    contract = loaded(f'[contract]\nadopted = ["set-pins"]\n{ANSWERED}')
    for adopted, expected in ((False, []), (True, ["set-pins"])):
        asked = CheckRequest((path,), contract=contract, adopted=adopted)
        assert [one.rule for one in gather_paths(asked).judged().overrides] == expected
