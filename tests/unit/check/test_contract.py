"""The contract's table: rows joined per package, and what a user's rows may choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocwright.check.contract import ContractTable, PackageRow, terms_of
from rocwright.check.loading import load_contract
from rocwright.check.rules import OWN_RULES, RULES, SET_RULES
from rocwright.check.run import check_paths
from rocwright.data.overlay import parse_overlay
from rocwright.errors import InvalidData
from rocwright.model.patterns import fits


def table(*rows: PackageRow) -> ContractTable:
    return ContractTable(package=rows)


def overlaid(text: str) -> ContractTable:
    return load_contract(parse_overlay(text, where="rocwright.toml"))


def test_rows_add_up_and_later_ones_override() -> None:
    rows = table(
        PackageRow(names=("*",), rules=("record", "tags"), severity={"tags": "warning"}, budget=10),
        PackageRow(names=("torch", "my-*"), rules=("torch-hip",), off=("tags",), required=("a",)),
        PackageRow(names=("torch",), rules=("tags",), severity={"tags": "error"}, required=("b",), budget=20),
    )
    torch = terms_of(rows, "torch")
    assert torch.rules == {"record", "tags", "torch-hip"}
    assert (torch.severity, torch.required, torch.budget) == ({"tags": "error"}, ("a", "b"), 20)
    mine = terms_of(rows, "my-torch")
    assert (mine.rules, mine.required, mine.budget) == ({"record", "torch-hip"}, ("a",), 10)
    assert terms_of(rows, "numpy").rules == {"record", "tags"}
    assert terms_of(table(), "numpy").rules == frozenset()


def test_a_device_package_names_its_host() -> None:
    contract = load_contract()
    assert terms_of(contract, "amd-torch-device-gfx11xx").host == "torch"
    assert terms_of(contract, "amd-rocm-device-libs-instinct").host is None
    assert terms_of(contract, "amd-my-ops-device-gfx942").host == "my-ops"
    assert terms_of(contract, "rocm-sdk-device-x").host == "rocm-sdk-libraries"
    assert terms_of(contract, "rocm-sdk-device").host is None
    assert terms_of(contract, "torch").host is None


def test_the_built_in_rows_name_every_rule_about_files_and_no_other() -> None:
    rows = load_contract().package
    named = {name for row in rows for name in (*row.rules, *row.off, *row.severity)}
    assert named == {rule.id for rule in RULES}


def test_no_built_in_row_softens_what_nobody_may_waive() -> None:
    fixed = {rule.id for rule in RULES if not rule.waivable}
    for row in load_contract().package:
        assert not fixed & {*row.off, *row.severity}


def test_every_rule_has_an_id_of_its_own() -> None:
    ids = [rule.id for rule in (*OWN_RULES, *RULES, *SET_RULES)]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("row", "says", "next_step"),
    [
        ('rules = ["torch-hipp"]', "names a rule 'torch-hipp', which does not exist", "torch-hip"),
        ('off = ["elf_rpath"]', "names a rule 'elf_rpath'", "perhaps elf-rpath"),
        ('severity = { sboms = "error" }', "names a rule 'sboms'", "perhaps sbom"),
        ('off = ["zzz"]', "names a rule 'zzz'", "the findings name their rules"),
        ('off = ["set-closed"]', "names set-closed, a rule about sets", "--allow"),
        ('off = ["record"]', "switches record off or makes it a warning", "build the file again"),
        ('required = ["b.py"]', "gives `required`, but the rule required-files is off for b, c-*", "`rules`"),
        ('forbidden = ["b.py"]\noff = ["forbidden-files"]', "the rule forbidden-files is off for", "`rules`"),
        ('severity = { record = "warning" }', "switches record off or makes it a warning", "build the file"),
    ],
)
def test_a_row_that_chooses_what_it_cannot(row: str, says: str, next_step: str) -> None:
    text = f'[[contract.package]]\nnames = ["a"]\n[[contract.package]]\nnames = ["b", "c-*"]\n{row}\n'
    with pytest.raises(InvalidData) as caught:
        overlaid(text)
    assert says in caught.value.what
    assert caught.value.what.startswith("rocwright.toml: [[contract.package]] number 2 (b, c-*) ")
    assert next_step in (caught.value.next_step or "")


@pytest.mark.parametrize("rule", ["record", "kpack-readable", "structure", "elf_rpath"])
def test_what_makes_a_file_another_than_it_claims_is_softened_for_nobody(rule: str) -> None:
    with pytest.raises(InvalidData, match=f"adopted names {rule}: unknown, or rules that cannot be softened"):
        overlaid(f'[contract]\nadopted = ["sbom", "{rule}"]\n')


def test_of_wheels_that_others_built_the_built_in_policy_softens_only_what_may_be_waived() -> None:
    waivable = {rule.id for rule in (*RULES, *SET_RULES) if rule.waivable}
    adopted = set(load_contract().adopted)
    assert adopted < waivable
    # What an installer needs, and what a wheel is for, is asked of everybody.
    assert not adopted & {
        "set-pins",
        "set-closed",
        "set-one-version",
        "tags",
        "elf-machine",
        "device-missing",
    }


def test_a_users_row_decides_what_is_asked_of_a_wheel(build: Any) -> None:
    def rules(path: Path, text: str) -> list[tuple[str, str]]:
        findings = check_paths([path], contract=overlaid(text)).findings
        return [(one.rule, one.severity) for one in findings if one.rule != "set-closed"]

    mine = build("my_torch", "1", {"my_torch/__init__.py": "", "my_torch/notes.orig": ""})
    cpu = build.torch({"torch/version.py": "hip = None\n"})
    rows = (
        '[[contract.package]]\nnames = ["my-*"]\nrules = ["required-files"]\nrequired = ["my_torch/_C*.so"]\n'
    )
    assert rules(mine, "") == []
    assert rules(mine, rows) == [("required-files", "error")]
    assert rules(mine, rows + 'severity = { required-files = "warning" }') == [("required-files", "warning")]
    assert rules(mine, rows + 'forbidden = ["**/*.orig"]') == [
        ("required-files", "error"),
        ("forbidden-files", "error"),
    ]
    assert rules(cpu, rows) == [("torch-hip", "error")]
    off = '[[contract.package]]\nnames = ["torch"]\noff = ["torch-hip"]\n'
    assert rules(cpu, off + 'reason = "for CPUs"\nexpires = 2999-01-01') == []


def test_what_amd_has_on_pypi_org_is_not_ours_alone() -> None:
    """Its bindings have versions of their own, and require each other by range."""
    contract = load_contract()
    assert not any(map(contract.is_own, ("rocm-bootstrap", "rocm-bindings-hip", "rocm-llvm-python")))
    assert all(map(contract.is_own, ("rocm", "rocm-sdk-core", "rocm-profiler", "amd-torch-device-gfx942")))
    pinned = terms_of(contract, "rocm-bindings-hip").pinned
    assert fits("rocm-sdk-core", pinned) and not fits("rocm-bindings-core", pinned)
