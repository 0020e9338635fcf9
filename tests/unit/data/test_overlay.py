"""A user's rocwright.toml: what it adds to the built-in tables, and how its mistakes are told."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rocwright.check.contract import ContractTable
from rocwright.data import load_table
from rocwright.data.overlay import changed, merged, parse_overlay, read_overlay
from rocwright.errors import InvalidData
from rocwright.model.plan import ProfileTable


def contract(text: str) -> ContractTable:
    return load_table("contract", ContractTable, parse_overlay(text, where="my/rocwright.toml"))


def test_rows_are_appended_tables_merged_and_other_values_replaced() -> None:
    base = {"row": [{"a": 1}], "table": {"x": 1, "inner": {"y": 2}}, "list": ["p", "q"], "number": 1}
    over = {
        "row": [{"a": 2}, {"a": 3}],
        "table": {"inner": {"z": 3}},
        "list": ["r"],
        "number": 5,
        "new": [{"b": 1}],
    }
    assert merged(base, over).values == {
        "row": [{"a": 1}, {"a": 2}, {"a": 3}],
        "table": {"x": 1, "inner": {"y": 2, "z": 3}},
        "list": ["r"],
        "number": 5,
        "new": [{"b": 1}],
    }
    # The built-in values are shared by every reader.
    assert base["row"] == [{"a": 1}] and base["table"] == {"x": 1, "inner": {"y": 2}}


def test_the_contract_with_rows_of_a_user() -> None:
    built_in = load_table("contract", ContractTable)
    table = contract('[contract]\ngrowth = 0.5\n[[contract.package]]\nnames = ["mine"]\nbudget = 7\n')
    assert table.package[:-1] == built_in.package
    assert (table.package[-1].names, table.package[-1].budget, table.growth) == (("mine",), 7, 0.5)
    assert table.own == built_in.own
    assert contract("") == built_in


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # The number is the row's in the user's file, whatever the built-in table holds.
        (
            '[[contract.package]]\nnames = ["a"]\n[[contract.package]]\nnames = ["b"]\nrules = "record"',
            r"Expected `array`, got `str` - at `\$\.contract\.package\[1\]\.rules`",
        ),
        ('[[contract.package]]\nnames = ["a"]\nforbiden = []', r"`forbiden` .*\$\.contract\.package\[0\]`"),
        ("[[contract.package]]\nrules = []", r"`names` - at `\$\.contract\.package\[0\]`"),
        (
            '[[contract.package]]\nnames = ["a"]\nseverity = { record = "fatal" }',
            r"'fatal'.*package\[0\]\.sev",
        ),
        ('[contract]\ngrowth = "much"', r"Expected `float`, got `str` - at `\$\.contract\.growth`"),
        ("[contract]\ngrwth = 1", r"`grwth`"),
        ('[contract.package]\nnames = ["a"]', r"Expected `array`, got `object` - at `\$\.contract\.package`"),
        ("contract = 1", r"gives 'contract' a value; it is a table"),
        ('[[contract]]\nnames = ["a"]', r"gives 'contract' a value; it is a table"),
        ("[contracts]\ngrowth = 1", r"cannot have a table 'contracts'; it can have .*contract"),
        ("[machines]\nx = []", r"cannot have a table 'machines'"),
        ("[contract\n", r"is not valid TOML: .*line 1"),
        ("[[contract.package]]\nnames = []", r"a row without names .*package\[0\]"),
        ('[[contract.package]]\nnames = ["My_Torch"]', r"'My_Torch' fits no package"),
        ('[[contract.package]]\nnames = ["a"]\nrequired = ["x/{a,b"]', r"'x/\{a,b' has a brace without"),
    ],
)
def test_a_mistake_is_told_with_file_and_field(text: str, words: str) -> None:
    with pytest.raises(InvalidData, match=words) as caught:
        contract(text)
    assert caught.value.where == "my/rocwright.toml"
    assert str(caught.value).startswith("my/rocwright.toml")
    assert caught.value.next_step
    assert caught.value.exit_code == 3


def test_a_near_name_is_proposed() -> None:
    with pytest.raises(InvalidData) as caught:
        parse_overlay("[contracts]\n", where="x")
    assert caught.value.next_step == "write [contract]"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('[[contract.package]]\nname = ["a"]', "perhaps names"),
        ("[contract]\ngrwth = 1", "perhaps growth"),
        ("[contract]\nzzz = 1", "compare the named field with the other rows of the table"),
        ("[contract]\ngrowth = 'x'", "compare the named field with the other rows of the table"),
    ],
)
def test_a_near_field_is_proposed(text: str, meant: str) -> None:
    with pytest.raises(InvalidData) as caught:
        contract(text)
    assert caught.value.next_step == meant


def test_a_path_with_the_number_of_two_rows_is_turned_back_once() -> None:
    both = merged({"row": [{}, {}]}, {"row": [{}, {}, {}]})
    assert both.own_path("bad - at `$.row[3].x`", "t") == "bad - at `$.t.row[1].x`"


def test_which_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_overlay() is None
    (tmp_path / "other.toml").write_text("[contract]\ngrowth = 0.2\n")
    (tmp_path / "rocwright.toml").write_text("[contract]\ngrowth = 0.1\n")
    here, other = read_overlay(), read_overlay(tmp_path / "other.toml")
    assert here is not None and other is not None
    assert (here.where, here.tables["contract"]) == ("rocwright.toml", {"growth": 0.1})
    assert other.tables["contract"] == {"growth": 0.2}


def test_a_given_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"absent\.toml cannot be read: No such file"):
        read_overlay(tmp_path / "absent.toml")
    with pytest.raises(InvalidData, match="cannot be read: Is a directory"):
        read_overlay(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"# \xe9\n")
    with pytest.raises(InvalidData, match=r"latin\.toml cannot be read: it is not UTF-8"):
        read_overlay(tmp_path / "latin.toml")


def test_what_an_overlay_changes_is_told_value_by_value() -> None:
    base = {"max": 1, "by": [], "row": [{"a": 1}], "of": {"x": True, "y": "same"}}
    over = {"max": 2, "by": ["ada"], "row": [{"a": 2}], "of": {"x": False, "y": "same"}, "new": {"z": 1}}
    assert list(changed(base, over)) == [
        ("max", "1", "2"),
        ("by", "[]", '["ada"]'),
        ("row", "", '{"a": 2}'),
        ("of.x", "true", "false"),
        ("new", "", '{"z": 1}'),
    ]


def test_an_overlay_is_known_by_its_name_and_the_digest_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"[contract]\r\n")
    read = read_overlay(path)
    assert read is not None
    # printf '[contract]\r\n' | sha256sum
    assert (read.name, read.sha256) == (
        "mine.toml",
        "3f388e7e65cff8acf10832db7af28e73ca2ac51461ed9d901611e46ed1cf9ab7",
    )


def test_a_table_without_an_overlay_is_the_built_in_one() -> None:
    class Demo(msgspec.Struct):
        targets: list[str]

    overlay = parse_overlay("[contract]\ngrowth = 1.0\n", where="x")
    assert load_table("demo", Demo, overlay).targets == load_table("demo", Demo).targets != []


ROWS = """[[profiles.profile]]
name = "one"
release_type = "dev"
platforms = ["linux"]
pythons = ["3.12"]
refs = ["nightly"]
tier = "presubmit"

[[profiles.profile]]  # the second
name = "two"
release_type = "dev"
platforms = ["linux"]
pythons = ["3.12"]
refs = ["nightly"]
tier = "presubmit"
"""


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('two"\nrelease_type = "dev"', 'two"\nrelease_type = 3', r"profile\[1\].release_type`, line 11"),
        ('name = "two"\n', "", r"`name` - at `\$.profiles.profile\[1\]`, line 9"),
        ('two"\n', 'two"\nplatform = "linux"\n', r"unknown field `platform` .*, line 11"),
        (
            'two"\nrelease_type = "dev"\nplatforms = ["linux"]',
            'two"\nrelease_type = "dev"\nplatforms = [1]',
            "line 12",
        ),
    ],
)
def test_a_mistake_is_told_by_its_line(right: str, wrong: str, said: str) -> None:
    text = ROWS.replace(right, wrong)
    assert text != ROWS
    with pytest.raises(InvalidData, match=said):
        load_table("profiles", ProfileTable, parse_overlay(text, where="rocwright.toml"))
