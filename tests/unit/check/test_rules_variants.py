"""Rules about wheel variants, on small wheels and on what is stated beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oracle.fat_library import build_library, bundle, code_object
from rocwright.check.run import check_paths
from wheels import AMD, variants, write_torch, write_variant, write_wheel

V = "2.9.0+rocm7.10.0"
TAG = "py3-none-linux_x86_64"
SELECTOR = "lynx-device"
STATED = f"lynx_device-{V}-variants.json"


def gpu(*targets: str) -> dict[str, object]:
    return {"amd": {"gfx_arch": list(targets)}}


def device(target: str) -> str:
    return f"lynx-device-{target}=={V}"


def found(folder: Path, *, closed: bool = True) -> list[tuple[str, str, str]]:
    """Rule, file without its version, and cause of each finding."""
    report = check_paths([folder], closed=closed)
    return [(one.rule, one.file.replace(f"-{V}", ""), one.cause.replace(V, "V")) for one in report.findings]


def write(folder: Path, label: str, *targets: str, requires: tuple[str, ...] = (), **options: object) -> Path:
    """A selector for GPUs, null without any."""
    options = {"project": SELECTOR, "version": V, "tag": TAG, "requires": requires, **options}
    properties = options.pop("properties", gpu(*targets) if targets else {})
    return write_variant(folder, label=label, properties=properties, **options)


def write_device(folder: Path, *targets: str) -> None:
    for target in targets:
        write_wheel(folder, f"lynx-device-{target}", V, {}, tag=TAG, requires=[])


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Selectors for two GPUs, the null variant, a plain wheel, the device packages, and what states them."""
    for target in ("gfx1100", "gfx1151"):
        write(tmp_path, target, target, requires=(device(target),))
    write(tmp_path, "null")
    write_wheel(tmp_path, SELECTOR, V, {}, tag=TAG)
    write_device(tmp_path, "gfx1100", "gfx1151")
    stated = variants({"gfx1100": gpu("gfx1100"), "gfx1151": gpu("gfx1151"), "null": {}})
    (tmp_path / STATED).write_text(json.dumps(stated))
    return tmp_path


def test_good_variants_break_no_rule(good: Path):
    assert found(good) == []
    assert found(good, closed=False) == []


# -- one wheel


def test_a_label_without_a_statement_is_an_error(tmp_path: Path):
    write(tmp_path, "gfx1151", "gfx1151", stated=None)
    (rule, _, cause), *_ = found(tmp_path, closed=False)
    assert rule == "variant-label"
    assert cause == "its name is that of the variant gfx1151, and it has no variant.json"


@pytest.mark.parametrize(
    ("stated", "cause"),
    [
        (variants({"gfx1100": gpu("gfx1151")}), "it states gfx1100, and the name of the wheel says gfx1151"),
        (variants({}), "it states none, and the name of the wheel says gfx1151"),
        (
            variants({"gfx1151": gpu("gfx1151"), "gfx1100": gpu("gfx1100")}),
            "it states gfx1151, gfx1100, and the name of the wheel says gfx1151",
        ),
        (
            variants({"gfx1151": {}}),
            "variant.json: the variant 'gfx1151' has no properties: only 'null' has none",
        ),
        (
            variants({"gfx1151": {"cpu": {"level": ["v3"]}}}),
            "variant.json: the variant 'gfx1151' has properties of 'cpu', which has no provider",
        ),
    ],
)  # fmt: skip
def test_a_wheel_states_the_variant_of_its_name_and_no_other(tmp_path: Path, stated, cause):
    write(tmp_path, "gfx1151", "gfx1151", stated=stated)
    assert ("variant-label", cause) in [(rule, said) for rule, _, said in found(tmp_path)]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"variants": 1}', "\xff", "[" * 100_000])
def test_a_damaged_statement_is_told_and_ends_nothing(tmp_path: Path, text: str):
    write(tmp_path, "gfx1151", stated=text.encode("latin-1"))
    [(rule, file, cause), *_] = found(tmp_path, closed=False)
    assert (rule, file) == ("variant-label", f"lynx_device-{TAG}-gfx1151.whl")
    assert cause.startswith("variant.json does not state variants in a form that is known")


def test_a_plain_wheel_states_no_variant(tmp_path: Path):
    path = write(tmp_path, "gfx1151", "gfx1151")
    path.rename(tmp_path / path.name.replace("-gfx1151.whl", ".whl"))
    assert [one[::2] for one in found(tmp_path)] == [
        ("variant-label", "it is the variant gfx1151, and its name has no label")
    ]


@pytest.mark.parametrize(("label", "told"), [("3fa5c6a1", True), ("word", False), ("2d4b4dcb", True)])
def test_a_label_that_looks_computed_is_the_digest_of_its_properties(tmp_path: Path, label: str, told: bool):
    write_wheel(tmp_path, SELECTOR, V, {}, tag=TAG)
    write(tmp_path, label, "gfx1151")
    assert [rule for rule, *_ in found(tmp_path)] == ["variant-hash"] * told


def test_variantlib_computes_the_same_label(tmp_path: Path):
    """By hand: sha256 of `amd :: gfx_arch :: gfx1151` and a newline begins with e56f00bc."""
    write_wheel(tmp_path, SELECTOR, V, {}, tag=TAG)
    write(tmp_path, "e56f00bc", "gfx1151")
    assert found(tmp_path) == []


def test_properties_that_nobody_can_tell_of_a_machine_are_a_warning(tmp_path: Path):
    write_wheel(tmp_path, "dragon", V, {}, tag=TAG)
    properties, provider = {"fire": {"heat": ["high"]}}, {"fire": {"requires": ["fire-provider"]}}
    write(tmp_path, "hot", project="dragon", properties=properties, providers=provider)
    [one] = check_paths([tmp_path]).findings
    assert (one.rule, one.severity) == ("variant-namespace", "warning")
    assert one.cause == "no provider of the properties fire is known"


@pytest.mark.parametrize(
    ("properties", "cause"),
    [
        ({"amd": {"gfx_arch": ["gfx1151", "gfx9999"]}}, "gfx9999 is the name of no GPU target that is known"),
        ({"amd": {"gfx_arch": ["radeon"]}}, "radeon is the name of no GPU target that is known"),
        ({"amd": {"gfx": ["gfx1151"]}}, "amd has no feature gfx, only gfx_arch"),
        ({"amd": {"gfx_arch": ["gfx1151"]}}, None),
    ],
)
def test_properties_that_no_machine_has_are_a_warning(tmp_path: Path, properties, cause: str | None):
    write_wheel(tmp_path, SELECTOR, V, {}, tag=TAG)
    write(tmp_path, "word", properties=properties)
    told = [(one.severity, one.cause) for one in check_paths([tmp_path]).findings]
    assert told == ([("warning", cause)] if cause else [])


@pytest.mark.parametrize(
    ("label", "targets", "requires", "causes"),
    [
        ("gfx1151", ["gfx1151"], ["gfx1100"],
         ["it is for gfx1151, and requires lynx-device-gfx1100",
          "it is for gfx1151, and does not require lynx-device-gfx1151"]),
        ("gfx1151", ["gfx1151"], [], ["it is for gfx1151, and does not require lynx-device-gfx1151"]),
        ("both", ["gfx1151", "gfx1100"], ["gfx1151"],
         ["it is for gfx1151, gfx1100, and does not require lynx-device-gfx1100"]),
        ("both", ["gfx1151", "gfx1100"], ["gfx1151", "gfx1100"], []),
        ("null", [], ["gfx1151"], ["it is for machines with any GPU, and requires lynx-device-gfx1151"]),
    ],
)  # fmt: skip
def test_a_selector_leads_to_the_device_packages_of_its_own_gpus(tmp_path, label, targets, requires, causes):
    write_wheel(tmp_path, SELECTOR, V, {}, tag=TAG)
    write_device(tmp_path, "gfx1100", "gfx1151")
    write(tmp_path, label, *targets, requires=tuple(map(device, requires)))
    told = [cause for rule, _, cause in found(tmp_path, closed=False) if rule == "variant-content"]
    assert told == causes


def test_an_extra_may_bring_any_device_package(tmp_path: Path):
    write_wheel(tmp_path, SELECTOR, V, {}, tag=TAG)
    write_device(tmp_path, "gfx1100", "gfx1151")
    more = f'{device("gfx1100")}; extra == "device-gfx1100"'
    write(tmp_path, "gfx1151", "gfx1151", requires=(device("gfx1151"), more), extras=["device-gfx1100"])
    assert [one for one in found(tmp_path, closed=False) if one[0].startswith("variant")] == []


@pytest.mark.parametrize("target", ["gfx90a", "gfx1151"])
def test_a_variant_with_code_has_it_for_its_own_gpu(tmp_path: Path, target: str):
    # 0x3F is the number of gfx90a in the header of its code.
    fat = build_library(tmp_path / "fat", bundles=[bundle([("gfx90a", code_object(0x3F, bytes(936)))])])
    folder = tmp_path / "dist"
    write(folder, target, target, project="fat", files={"fat/libfat.so": fat.read_bytes()})
    told = [cause for rule, _, cause in found(folder, closed=False) if rule == "variant-content"]
    wrong = "it is for gfx1151, and its device code is for gfx90a, which does not run on gfx1151"
    assert told == ([wrong] if target == "gfx1151" else [])


def test_a_wheel_vouches_for_its_own_gpu_and_no_other(good: Path):
    own = {"amd": {"static-properties": {"gfx_arch": ["gfx1151"]}}}
    write(good, "gfx1151", "gfx1151", requires=(device("gfx1151"),), providers=own)
    assert found(good) == []
    more = {"amd": {"static-properties": {"gfx_arch": ["gfx1151", "gfx1100"]}}}
    write(good, "gfx1151", "gfx1151", requires=(device("gfx1151"),), providers=more)
    assert [one[::2] for one in found(good)] == [
        ("variant-static", "it says of every machine that amd is gfx_arch gfx1100, which is not its own")
    ]


# -- the variants of a version


@pytest.mark.parametrize(
    ("label", "targets", "cause"),
    [
        ("twice", ["gfx1151"], "has the same properties"),
        ("more", ["gfx1151", "gfx906"], "fits as well where a machine has amd :: gfx_arch :: gfx1151"),
        ("other", ["gfx906"], None),
    ],
)
def test_two_variants_never_fit_equally_well(good: Path, label: str, targets: list[str], cause: str | None):
    write_device(good, "gfx906")
    write(good, label, *targets, requires=tuple(map(device, targets)))
    told = [one[::2] for one in found(good) if one[0] == "variant-ranks"]
    first = f"lynx_device-V-{TAG}-gfx1151.whl"
    wrong = ("variant-ranks", f"{first} {cause}: which one is taken, their labels decide")
    assert told == ([wrong] if cause else [])


def test_files_for_other_systems_are_no_rivals(good: Path):
    write(good, "twice", "gfx1151", requires=(device("gfx1151"),), tag="py3-none-win_amd64")
    assert "variant-ranks" not in [rule for rule, *_ in found(good)]


def test_priorities_of_namespaces_are_the_same_or_begin_so(good: Path):
    x86 = {"requires": ["x86-provider"]}
    both = {"amd": {"gfx_arch": ["gfx906"]}, "x86_64": {"level": ["v3"]}}
    write_device(good, "gfx906")
    stated = json.loads((good / STATED).read_text())
    new = variants({**stated["variants"], "fast": both}, amd=AMD, x86_64=x86)
    (good / STATED).write_text(json.dumps(new))
    write(good, "fast", properties=both, providers={"amd": AMD, "x86_64": x86}, requires=(device("gfx906"),))
    assert found(good) == []
    write(good, "fast", properties=both, providers={"x86_64": x86, "amd": AMD}, requires=(device("gfx906"),))
    told = found(good)
    assert {rule for rule, *_ in told} == {"variant-order"}
    other = f"it puts amd, x86_64 in this order, lynx_device-V-{TAG}-fast.whl x86_64, amd"
    assert ("variant-order", "lynx_device-variants.json", other) in told


def test_all_variants_of_a_version_name_one_provider(good: Path):
    other = {"amd": {**AMD, "plugin-api": "another:Plugin"}}
    write(good, "gfx1151", "gfx1151", requires=(device("gfx1151"),), providers=other)
    told = f"it names another provider of amd than lynx_device-V-{TAG}-gfx1100.whl"
    assert ("variant-order", told) in [one[::2] for one in found(good)]


@pytest.mark.parametrize(("closed", "severity"), [(True, "error"), (False, "warning")])
def test_clients_that_know_no_variants_find_a_file(good: Path, closed: bool, severity: str):
    (good / f"lynx_device-{V}-{TAG}.whl").unlink()
    [one] = check_paths([good], closed=closed).findings
    assert (one.rule, one.severity) == ("variant-fallback", severity)
    assert one.cause == (
        "no file for cp312 on linux_x86_64 but variants: pip and others that know none find nothing"
    )
    (good / f"lynx_device-{V}-{TAG}-null.whl").unlink()
    causes = [one[2] for one in found(good, closed=closed) if one[0] == "variant-fallback"]
    assert causes == [one.cause + ", nor a machine without these properties"]


# -- what is stated beside the wheels


@pytest.mark.parametrize(
    ("stated", "cause"),
    [
        ({"gfx1100": gpu("gfx1100"), "null": {}},
         f"it does not state gfx1151, so nobody is given lynx_device-V-{TAG}-gfx1151.whl"),
        ({"gfx1100": gpu("gfx1100"), "gfx1151": gpu("gfx1150"), "null": {}},
         f"it states amd :: gfx_arch :: gfx1150 of gfx1151, and lynx_device-V-{TAG}-gfx1151.whl is for "
         "amd :: gfx_arch :: gfx1151"),
    ],
)  # fmt: skip
def test_each_wheel_is_stated_as_it_is(good: Path, stated, cause):
    (good / STATED).write_text(json.dumps(variants(stated)))
    assert found(good) == [("variants-json", "lynx_device-variants.json", cause)]


@pytest.mark.parametrize("text", ["", "{", "null", '{"$schema": "https://example.org/v9.json", "new": []}'])
def test_a_damaged_file_beside_the_wheels_is_told(good: Path, text: str):
    (good / STATED).write_text(text)
    [(rule, file, cause)] = found(good)
    assert (rule, file) == ("variants-json", "lynx_device-variants.json")
    assert "does not state variants in a form that is known" in cause
    assert ("(it follows https://example.org/v9.json)" in cause) is ("v9" in text)


@pytest.mark.parametrize(("closed", "severity"), [(True, "error"), (False, "warning")])
def test_what_is_stated_is_there(good: Path, closed: bool, severity: str):
    stated = {"gfx1100": gpu("gfx1100"), "gfx1151": gpu("gfx1151"), "gfx1200": gpu("gfx1200"), "null": {}}
    (good / STATED).write_text(json.dumps(variants(stated)))
    [one] = check_paths([good], closed=closed).findings
    assert (one.rule, one.severity, one.file) == ("variants-vain", severity, STATED)
    assert one.cause == "it states gfx1200, of which there is no wheel"


def test_statements_alone_are_no_wheels(good: Path):
    report = check_paths([good / STATED])
    assert ("readable", "it states variants, and none of the wheels that it is about is given") in [
        (one.rule, one.cause) for one in report.findings
    ]
    assert not report.passed


def test_the_null_variant_may_be_stated_without_a_wheel(good: Path):
    (good / f"lynx_device-{V}-{TAG}-null.whl").unlink()
    assert found(good) == []


def test_a_statement_about_another_version_is_told(good: Path):
    (good / "lynx_device-1.0-variants.json").write_text(json.dumps(variants({"null": {}})))
    assert found(good) == [
        ("variants-vain", "lynx_device-1.0-variants.json", "no file of lynx-device 1.0 is there")
    ]


def test_an_index_does_not_say_of_every_machine_which_gpu_it_has(good: Path):
    stated = json.loads((good / STATED).read_text())
    stated["providers"]["amd"] = {"static-properties": {"gfx_arch": ["gfx1151"]}}
    (good / STATED).write_text(json.dumps(stated))
    assert [one[::2] for one in found(good)] == [
        ("variants-static", "it says of every machine that reads it which properties of amd it has")
    ]


# -- rules that know other files, too


def test_of_variants_none_comes_before_another_and_all_of_them_offer_the_devices(good: Path):
    report = check_paths([good], closed=True, targets=["gfx1100", "gfx1151"])
    assert report.findings == ()
    report = check_paths([good], closed=True, targets=["gfx1100", "gfx1151", "gfx1200"])
    assert [one.cause for one in report.findings] == [
        "it offers no device package for gfx1200, only for gfx1100, gfx1151"
    ]


def test_sizes_of_variants_are_told_apart(good: Path):
    keys = sorted(check_paths([good]).sizes.files)
    assert f"lynx-device {TAG}" in keys
    assert f"lynx-device {TAG} gfx1151" in keys


@pytest.mark.parametrize(
    ("pin", "rules"), [("==2.9.0", {"set-closed"}), (">=2", {"set-closed", "family-pin"})]
)
def test_what_chooses_is_the_sets_own_and_required_exactly(tmp_path: Path, pin: str, rules: set[str]):
    requires = ["rocm[libraries]==7.10.0", f"amd-torch-device{pin}"]
    write_torch(tmp_path, requires=requires)
    found = [one for one in check_paths([tmp_path], closed=True).findings if "amd-torch-device" in one.cause]
    assert {one.rule for one in found} == rules
