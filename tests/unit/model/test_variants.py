"""What wheels and indexes state of variants: what is read, what is refused, and AMD's part in it."""

from __future__ import annotations

import json

import pytest

from rocwright.data import load_table
from rocwright.model.variants import (
    InvalidVariant,
    VariantTable,
    default_label,
    encoded,
    index_name,
    merged,
    parse_variants,
    parse_wheel_variant,
    with_label,
)

SCHEMA = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"
PLUGIN = {"requires": ["rocm-bootstrap"], "plugin-api": "rocm_bootstrap.variant_provider:AMDVariantPlugin"}


def said(**changed: object) -> dict[str, object]:
    """A file that is right, with some of its members changed; None leaves one out."""
    whole = {
        "$schema": SCHEMA,
        "default-priorities": {"namespace": ["amd"]},
        "providers": {"amd": PLUGIN},
        "variants": {"gfx1151": {"amd": {"gfx_arch": ["gfx1151"]}}, "null": {}},
        **changed,
    }
    return {key: value for key, value in whole.items() if value is not None}


def parsed(value: object) -> object:
    return parse_variants(json.dumps(value).encode(), where="torch-1-variants.json")


def test_what_was_read_is_written_as_it_was() -> None:
    assert json.loads(encoded(parsed(said()))) == said()


def test_the_same_content_gives_the_same_bytes_in_whatever_order_it_came() -> None:
    turned = {key: said()[key] for key in reversed(list(said()))}
    assert encoded(parsed(turned)) == encoded(parsed(said()))


STATIC = {"static-properties": {"gfx_arch": ["gfx1151"]}}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"variants": {"GFX": {"amd": {"gfx_arch": ["x"]}}}}, "'GFX' is not the label"),
        ({"variants": {"a": {}}}, "'a' has no properties: only 'null' has none"),
        ({"variants": {"null": {"amd": {"gfx_arch": ["x"]}}}}, "'null' has properties"),
        ({"variants": {"a": {"nvidia": {"sm": ["90"]}}}}, "properties of 'nvidia', which has no provider"),
        ({"variants": {"a": {"amd": {}}}}, "names 'amd' without a property"),
        ({"variants": {"a": {"amd": {"gfx-arch": ["x"]}}}}, "'gfx-arch' is not the name of a feature"),
        ({"variants": {"a": {"amd": {"gfx_arch": []}}}}, "must have values, each once"),
        ({"variants": {"a": {"amd": {"gfx_arch": ["x", "x"]}}}}, "must have values, each once"),
        ({"variants": {"a": {"amd": {"gfx_arch": ["gfx90a:xnack+"]}}}}, "is no value for amd :: gfx_arch"),
        ({"default-priorities": {"namespace": []}}, "must be named, each once"),
        ({"default-priorities": {"namespace": ["amd", "amd"]}}, "must be named, each once"),
        ({"default-priorities": {"namespace": ["amd", "cpu"]}}, "must name the same namespaces"),
        ({"default-priorities": {"namespace": ["a-b"]}, "providers": {"a-b": PLUGIN}}, "not a namespace"),
        ({"providers": {}}, "stated for nothing, and default-priorities names amd"),
        ({"providers": {"amd": {}}}, "exactly one of requires, static-properties and builtin"),
        ({"providers": {"amd": PLUGIN | STATIC}}, "exactly one of requires, static-properties and builtin"),
        ({"providers": {"amd": STATIC | {"plugin-api": "a:b"}}}, "plugin-api, and no requires"),
        ({"providers": {"amd": STATIC | {"feature-order": ["x"]}}}, "feature-order of amd must name each"),
        ({"providers": {"amd": {"static-properties": {"a": ["1"], "b": ["2"]}}}}, "feature-order of amd"),
        ({"providers": {"amd": {"static-properties": {"a": []}}}}, "amd :: a must have values"),
        ({"providers": {"amd": PLUGIN | {"install-time": True}}}, "unknown field `install-time`"),
        ({"default-priorities": {"namespace": ["amd"], "property": {}}}, "unknown field `property`"),
        ({"variants": None}, "missing required field `variants`"),
        ({"$schema": None}, "missing required field `\\$schema`"),
        ({"$schema": "https://example.org/9.json", "variants": 1}, "it follows https://example.org/9.json"),
    ],
)  # fmt: skip
def test_what_installers_would_not_read_is_refused_with_its_reason(changed: dict, why: str) -> None:
    with pytest.raises(InvalidVariant, match=why) as refused:
        parsed(said(**changed))
    assert "torch-1-variants.json" in refused.value.what and refused.value.next_step


# As drafts of PEP 817 had it, and ROCm's own splitter writes it: no schema, many variants under other labels.
EARLY = {
    "providers": {"amd": {"install-time": True, "plugin-api": "p:C", "requires": ["p >= 1.0"]}},
    "default-priorities": {"namespace": ["amd"], "property": {"amd": {"gfx_arch": ["gfx942"]}}},
    "variants": {"gfx942": {"amd": {"gfx_arch": ["gfx942"]}}},
}


@pytest.mark.parametrize(
    ("value", "known"),
    [
        (EARLY, True),
        (EARLY | {"default-priorities": {"namespace": ["amd"]}}, True),
        (EARLY | {"providers": {"amd": PLUGIN}}, True),
        (EARLY | {"providers": [], "default-priorities": 1}, False),
        (EARLY | {"providers": {"amd": PLUGIN}, "default-priorities": {"namespace": ["amd"]}}, False),
    ],
)
def test_an_early_draft_is_called_so(value: dict, known: bool) -> None:
    with pytest.raises(InvalidVariant, match="does not state variants in a form that is known") as refused:
        parsed(value)
    assert ("(it follows an early draft of PEP 817)" in refused.value.what) is known


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_such_file_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidVariant, match="does not state variants in a form that is known"):
        parse_variants(data, where="torch-1-variants.json")


def test_an_edition_that_is_not_known_is_read_where_its_content_is() -> None:
    assert parsed(said(**{"$schema": "https://example.org/9.json"})).schema == "https://example.org/9.json"


def test_a_wheel_states_the_one_variant_of_its_name() -> None:
    one = said(variants={"gfx1151": {"amd": {"gfx_arch": ["gfx1151"]}}})
    data = json.dumps(one).encode()
    assert parse_wheel_variant(data, "gfx1151", where="w").label == "gfx1151"
    with pytest.raises(InvalidVariant, match="states gfx1151, and the wheel's name says gfx942"):
        parse_wheel_variant(data, "gfx942", where="w")
    with pytest.raises(InvalidVariant, match="states gfx1151, null, and the wheel's name says gfx1151"):
        parse_wheel_variant(json.dumps(said()).encode(), "gfx1151", where="w")


def test_wheels_of_a_version_stand_in_one_file_that_names_no_machine() -> None:
    table = load_table("variants", VariantTable)
    wheels = [table.selector(target) for target in ("gfx942", None, "gfx1151")]
    found = merged([table.published(one) for one in wheels], where="amd-torch-device")
    assert json.loads(encoded(found)) == said(
        variants={
            "gfx1151": {"amd": {"gfx_arch": ["gfx1151"]}},
            "gfx942": {"amd": {"gfx_arch": ["gfx942"]}},
            "null": {},
        }
    )


def test_a_selector_vouches_for_its_own_value_alone() -> None:
    found = json.loads(encoded(load_table("variants", VariantTable).selector("gfx942")))
    assert found["providers"] == {"amd": {"static-properties": {"gfx_arch": ["gfx942"]}}}
    assert found["variants"] == {"gfx942": {"amd": {"gfx_arch": ["gfx942"]}}}


CPU = {"builtin": "x86_64"}
BOTH = {"default-priorities": {"namespace": ["amd", "cpu"]}, "providers": {"amd": PLUGIN, "cpu": CPU}}
CPU_ONLY = {"default-priorities": {"namespace": ["cpu"]}, "providers": {"cpu": CPU}, "variants": {"null": {}}}


def test_of_several_priorities_the_longest_stand() -> None:
    found = merged([parsed(said(**CPU_ONLY)), parsed(said(**BOTH))], where="torch")
    assert found.default_priorities.namespace == ("amd", "cpu")


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"variants": {"gfx1151": {"amd": {"gfx_arch": ["gfx942"]}}}}, "the properties of gfx1151"),
        ({"providers": {"amd": {"requires": ["other"]}}}, "the provider of amd"),
        (CPU_ONLY, "the priorities of namespaces"),
        ({**BOTH, "default-priorities": {"namespace": ["cpu", "amd"]}}, "the priorities of namespaces"),
    ],
)
def test_wheels_that_contradict_each_other_are_refused(other: dict, what: str) -> None:
    first = BOTH if "cpu" in str(other) and other is not CPU_ONLY else {}
    with pytest.raises(InvalidVariant, match=f"wheels of torch do not agree on {what}"):
        merged([parsed(said(**first)), parsed(said(**other))], where="torch")


def test_names() -> None:
    name = "torch-2.9.0+rocm7-py3-none-linux_x86_64.whl"
    assert with_label(name, "gfx90a") == "torch-2.9.0+rocm7-py3-none-linux_x86_64-gfx90a.whl"
    assert index_name(with_label(name, "gfx90a")) == "torch-2.9.0+rocm7-variants.json"
    with pytest.raises(InvalidVariant, match="'GFX90a' is not the label"):
        with_label(name, "GFX90a")


def test_the_label_that_nobody_gave_is_that_of_variantlib() -> None:
    # printf 'amd :: gfx_arch :: gfx1151\n' | sha256sum | cut -c-8
    assert default_label({"amd": {"gfx_arch": ("gfx1151",)}}) == "e56f00bc"
    assert default_label({}) == "null"
