"""Waivers are statements: what they let pass, on which day, and what nothing lets pass."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rocwright.data import load_table
from rocwright.errors import ContractBroken, InvalidData
from rocwright.model.channels import Channels
from rocwright.model.findings import Waiver
from rocwright.model.sets import (
    BUILD,
    FINDINGS,
    RECEIPT,
    TEST,
    WAIVER,
    FileEntry,
    Statement,
    about_set,
    new_set,
    parse_statement,
    set_id,
    waiver_statement,
)
from rocwright.store.gate import Policy, decide
from rocwright.store.objects.local import LocalStore
from rocwright.store.pool import describe_files
from rocwright.store.sets.records import read_statements
from rocwright.store.sets.stage import stage_set
from rocwright.store.statements import Required, verdict, verdict_on

WHEEL = "torch-1-py3-none-any.whl"


def make_set(digest: str = "a") -> Any:
    entry = FileEntry(WHEEL, digest * 64, 1, "torch", "1")
    return new_set(family="fam", targets=[], platform="linux", files=[entry], sources={})


SET = make_set()
ID = set_id(SET)
STAGING = load_table("channels", Channels).named("staging")
TODAY = date(2026, 3, 1)
LATER = date(2026, 4, 1)


def error(rule: str = "elf-rpath", file: str = WHEEL) -> dict[str, str]:
    return {"rule": rule, "severity": "error", "file": file, "cause": "x", "next_step": "y"}


def checked(*findings: dict[str, str], of: Any = SET, **more: Any) -> Statement:
    content = {"passed": not findings, "files": [WHEEL], "findings": list(findings), "unwaivable": ["record"]}
    return about_set(of, FINDINGS, {**content, **more})


def waived(rule: str = "elf-rpath", expires: date = LATER, file: str = "*", of: Any = SET) -> Statement:
    return waiver_statement(of, Waiver(rule, "known upstream, fixed in 2.10", expires, file))


def problem(*statements: Statement, today: date = TODAY) -> str | None:
    assert verdict(ID, statements, today) == verdict(ID, statements[::-1], today)
    assert verdict_on(SET, statements, today).passed == verdict(ID, statements, today).passed
    return verdict(ID, statements, today).problem


def test_every_error_covered_is_a_pass_that_names_its_waiver() -> None:
    found = verdict(ID, [checked(error()), waived()], TODAY)
    assert found.passed
    assert found.waivers == (Waiver("elf-rpath", "known upstream, fixed in 2.10", LATER),)


def test_without_errors_no_waiver_is_used() -> None:
    warning = {**error(), "severity": "warning"}
    found = verdict(ID, [checked(), checked(warning, passed=True), waived()], TODAY)
    assert found.passed
    assert found.waivers == ()


def test_the_last_day_counts_and_the_next_does_not() -> None:
    said = [checked(error()), waived(expires=TODAY)]
    assert problem(*said) is None
    after = problem(*said, today=date(2026, 3, 2))
    assert after is not None
    assert "reported errors: elf-rpath" in after
    assert "until 2026-03-01" in after


@pytest.mark.parametrize(
    "waiver",
    [waived("elf-runpath"), waived(file="triton-*.whl"), waived(of=make_set("b"))],
    ids=["another rule", "another file", "another set"],
)
def test_a_waiver_of_something_else_is_none(waiver: Statement) -> None:
    assert problem(checked(error()), waiver) is not None


def test_one_error_left_is_enough() -> None:
    said = problem(checked(error(), error("tags")), waived())
    assert said == "a check of this set reported errors: tags"


def test_every_check_has_to_pass_not_only_the_last() -> None:
    assert problem(checked(), checked(error("tags"))) == "a check of this set reported errors: tags"
    assert problem(checked(error("tags")), checked(error()), waived(), waived("tags")) is None


def test_what_cannot_be_waived_is_not_even_by_a_statement() -> None:
    assert problem(checked(error("record")), waived("record")) == (
        "a check of this set reported errors: record (record cannot be waived)"
    )
    # A check that does not say what can be waived gives nothing to waive.
    assert problem(checked(error(), unwaivable=None), waived()) is not None


def test_a_check_of_some_of_the_files_is_no_check() -> None:
    assert problem(checked(files=[])) == "a check of this set looked at no file"
    assert problem(checked(files=["other.whl"])) == f"a check of this set left out {WHEEL}"


def test_a_statement_that_hides_files_is_no_check_of_them() -> None:
    """Its subjects are as easily left out as the names it says it looked at."""
    silent = msgspec.structs.replace(checked(files=[]), subject=checked().subject[:1])
    assert problem(silent) == "a check of this set looked at no file"
    other = msgspec.structs.replace(checked(files=["other.whl"]), subject=checked().subject[:1])
    left_out = f"a check of this set left out {WHEEL}"
    assert verdict(ID, [other], TODAY, files=[WHEEL]).problem == left_out
    assert not verdict_on(SET, [other], TODAY).passed
    # Where only statements are at hand, another that is about the set tells its files.
    assert verdict(ID, [other, about_set(SET, BUILD, {"result": "success"})], TODAY).problem == left_out


@pytest.mark.parametrize(
    "content",
    [{"passed": "yes"}, {"passed": False}, {"files": "all"}, {"findings": [{"rule": "x"}]}],
    ids=["passed is a word", "failed without errors", "files is a word", "half a finding"],
)
def test_a_check_that_cannot_be_understood_is_no_pass(content: dict[str, Any]) -> None:
    assert problem(checked(**content)) is not None
    assert problem(checked(), checked(**content)) is not None


def test_saying_passed_does_not_outweigh_an_error() -> None:
    assert problem(checked(error(), passed=True)) is not None


def test_a_malformed_waiver_is_an_error_not_ignored() -> None:
    with pytest.raises(InvalidData, match="waiver statement"):
        verdict(ID, [checked(), about_set(SET, WAIVER, {"rule": "tags"})], TODAY)
    nameless = {"rule": "x", "reason": " ", "expires": "2026-01-01"}
    with pytest.raises(InvalidData, match="gives no reason"):
        verdict(ID, [checked(), about_set(SET, WAIVER, nameless)], TODAY)


def test_the_gate_decides_alike_and_says_what_it_rests_on() -> None:
    policy = Policy(required=(Required("gpu", "fam"),), today=TODAY)
    good = [
        about_set(SET, BUILD, {"result": "success"}),
        about_set(SET, TEST, {"suite": "gpu", "family": "fam", "result": "passed", "runner": True}),
    ]
    decision = decide(ID, [*good, checked(error()), waived()], policy)
    assert (decision.promote, decision.rule) == (True, "passed")
    assert decision.reason == (
        "passed: gpu on fam; WAIVED: elf-rpath (until 2026-04-01: known upstream, fixed in 2.10)"
    )
    assert [waiver.rule for waiver in decision.waivers] == ["elf-rpath"]
    closed = decide(ID, [*good, checked(error()), waived(expires=date(2026, 2, 28))], policy)
    assert (closed.promote, closed.rule, closed.waivers) == (False, "unchecked", ())
    assert "elf-rpath" in closed.reason


def test_a_waived_set_is_staged_with_its_waiver(tmp_path: Path, make_wheel: Callable[..., Path]) -> None:
    store = LocalStore(tmp_path / "store")
    paths = [make_wheel("torch", "1")]
    manifest = new_set(family="fam", targets=[], platform="linux", files=describe_files(paths), sources={})
    said = [checked(error(), of=manifest), waived(of=manifest)]
    with pytest.raises(ContractBroken, match="reported errors: elf-rpath"):
        stage_set(store, STAGING, manifest, paths, said, datetime(2026, 4, 2, tzinfo=timezone.utc))
    assert store.list("") == ()
    # The last day of the waiver, to its last second.
    now = datetime(2026, 4, 1, 23, 59, 59, tzinfo=timezone.utc)
    staged = stage_set(store, STAGING, manifest, paths, said, now)
    kept = read_statements(store, staged.set_id)
    assert {item.predicate_type for item in kept} == {FINDINGS, WAIVER, RECEIPT}
    keys = [one.key for one in store.list(f"sets/{staged.set_id}/_statements/") if "/waiver-" in one.key]
    [waiver] = [parse_statement(store.read(key), where=key) for key in keys]
    assert waiver.predicate == {
        "rule": "elf-rpath",
        "reason": "known upstream, fixed in 2.10",
        "expires": "2026-04-01",
        "file": "*",
    }
