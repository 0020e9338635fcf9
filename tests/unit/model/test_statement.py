from __future__ import annotations

import json

import pytest

from rocwright.errors import InvalidData
from rocwright.model.sets import (
    BUILD,
    FileEntry,
    about_set,
    canonical_json,
    new_set,
    parse_statement,
    set_id,
    statement_id,
)

SET = new_set(
    family="f",
    targets=[],
    platform="linux",
    files=[FileEntry("a-1-py3-none-any.whl", "a" * 64, 1, "a", "1")],
    sources={},
)


def test_the_document_has_the_shape_of_in_toto() -> None:
    statement = about_set(SET, BUILD, {"result": "success"})
    assert json.loads(canonical_json(statement)) == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": "rocwright:set", "digest": {"sha256": set_id(SET)}},
            {"name": "a-1-py3-none-any.whl", "digest": {"sha256": "a" * 64}},
        ],
        "predicateType": "urn:rocwright:build:v1",
        "predicate": {"result": "success"},
    }
    assert parse_statement(canonical_json(statement), where="x") == statement


def test_about_compares_the_set_not_a_file() -> None:
    statement = about_set(SET, BUILD, {})
    assert statement.about(set_id(SET))
    assert not statement.about("a" * 64)


def test_the_same_fact_has_the_same_id_and_another_another() -> None:
    same = statement_id(about_set(SET, BUILD, {"x": 1, "y": 2}))
    assert same == statement_id(about_set(SET, BUILD, {"y": 2, "x": 1}))
    assert same != statement_id(about_set(SET, BUILD, {"y": 2, "x": 2}))


def test_another_type_is_refused() -> None:
    with pytest.raises(InvalidData, match="cannot be read"):
        parse_statement(b'{"_type":"other","subject":[],"predicateType":"x","predicate":{}}', where="x")
    with pytest.raises(InvalidData, match="not a statement"):
        parse_statement(b"{}", where="x")
