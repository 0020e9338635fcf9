"""`rocwright set create --from-index` on an index with variants, which are taken as they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import Ended, Run
from index_server import TARGETS, IndexServer, build, serving
from rocwright.model.sets import FileEntry
from rocwright.store.objects.local import LocalStore
from rocwright.store.sets.records import read_set
from wheels import AMD, variants, write_variant, write_wheel

# Many processes: `make slow` and CI run them.
pytestmark = pytest.mark.slow

TORCH = "2.10.0+rocm7.12.0a20260429"
SELECTOR, TAG = "amd-torch-device", "py3-none-linux_x86_64"
STATED = f"amd_torch_device-{TORCH}-variants.json"


def file(label: str) -> str:
    return "-".join(filter(None, (f"amd_torch_device-{TORCH}-{TAG}", label))) + ".whl"


def gpu(target: str) -> dict[str, object]:
    return {"amd": {"gfx_arch": [target]}}


@pytest.fixture
def one(tmp_path: Path) -> Iterator[IndexServer]:
    """An index of one build with selectors for its three GPU targets, and what states them."""
    folder = tmp_path / "index"
    build(folder, "20260429")
    for target in TARGETS:
        requires = [f"amd-torch-device-{target}=={TORCH}"]
        write_variant(folder, SELECTOR, TORCH, target, gpu(target), tag=TAG, requires=requires)
    write_variant(folder, SELECTOR, TORCH, "null", {}, tag=TAG)
    write_wheel(folder, SELECTOR, TORCH, {}, tag=TAG)
    stated = {**{target: gpu(target) for target in TARGETS}, "null": {}}
    (folder / STATED).write_text(json.dumps(variants(stated)))
    with serving(folder) as server:
        yield server


def adopted(tmp_path: Path, ended: Ended) -> dict[str, FileEntry]:
    """The selectors of the set that was made, by name."""
    assert ended.code == 0, ended.err
    files = read_set(LocalStore(tmp_path / "store"), ended.out.strip()).files
    return {entry.name: entry for entry in files if entry.project == SELECTOR}


def test_variants_come_along(one: IndexServer, create: Run, tmp_path: Path) -> None:
    found = adopted(tmp_path, create("--from-index", one.url()))
    assert sorted(found) == sorted(file(label) for label in ("", "null", *TARGETS))
    said = found[file("gfx1100")].variant
    assert said.variants == {"gfx1100": {"amd": {"gfx_arch": ("gfx1100",)}}}
    assert said.providers["amd"].requires == ("rocm-bootstrap",)
    [stated] = (tmp_path / "store").rglob(f"_variants/*/{STATED}")
    assert set(json.loads(stated.read_text())["variants"]) == {"null", *TARGETS}


@pytest.mark.parametrize("kind", ["json", "flat", "folder"])
def test_every_kind_of_index_gives_the_same_set(one: IndexServer, create: Run, kind: str) -> None:
    first = create("--from-index", one.url()).out
    one.manner.json = kind == "json"
    words = {
        "json": ("--from-index", one.url()),
        "flat": ("--from-page", one.url("flat.html")),
        "folder": ("--from-folder", one.folder),
    }
    assert create(*words[kind]).out == first


def test_without_digests_beside_the_wheels_the_set_is_the_same(
    one: IndexServer, create: Run, tmp_path: Path
) -> None:
    first = create("--from-index", one.url()).out
    one.manner.sidecars = False
    assert create("--from-index", one.url(), "--store", tmp_path / "other").out == first


def test_pip_and_uv_resolve_what_metadata_promises(one: IndexServer, create: Run) -> None:
    ended = create("--from-index", one.url(), resolve=True)
    assert ended.code == 0, ended.err


def test_for_one_gpu_its_variant_and_the_plain_wheel_are_taken(
    one: IndexServer, create: Run, tmp_path: Path
) -> None:
    found = adopted(tmp_path, create("--from-index", one.url(), "--target", "gfx1100"))
    assert sorted(found) == sorted(file(label) for label in ("", "null", "gfx1100"))


def test_a_variant_whose_device_package_is_gone_makes_the_set_mixed(one: IndexServer, create: Run) -> None:
    (one.folder / f"amd_torch_device_gfx1201-{TORCH}-{TAG}.whl").unlink()
    ended = create("--from-index", one.url())
    assert ended.code == 9
    assert "requires amd-torch-device-gfx1201" in ended.err


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps(variants({"gfx1100": {}}))])
def test_a_damaged_statement_is_told_and_the_wheels_come_along(
    one: IndexServer, create: Run, tmp_path: Path, text: str
) -> None:
    (one.folder / STATED).write_text(text)
    ended = create("--from-index", one.url())
    assert sorted(adopted(tmp_path, ended)) == sorted(file(label) for label in ("", "null", *TARGETS))
    assert f"what {STATED} states of variants is passed over: " in ended.err


def test_a_statement_that_is_not_there_is_told(one: IndexServer, create: Run, tmp_path: Path) -> None:
    one.manner.absent = {STATED}
    ended = create("--from-index", one.url())
    assert len(adopted(tmp_path, ended)) == 5
    assert f"what {STATED} states of variants is passed over: " in ended.err


def test_a_variant_that_is_stated_otherwise_than_it_is_stays_out(
    one: IndexServer, create: Run, tmp_path: Path
) -> None:
    stated = {"gfx1100": gpu("gfx942"), "gfx1201": gpu("gfx1201"), "null": {}}
    (one.folder / STATED).write_text(json.dumps(variants(stated)))
    ended = create("--from-index", one.url())
    left = ("", "null", "gfx1201", "gfx942")
    assert sorted(adopted(tmp_path, ended)) == sorted(map(file, left))
    assert f"{STATED} does not state gfx942, so nobody is given {file('gfx942')}" in ended.err
    assert f"the index states other properties of {file('gfx1100')} than the wheel itself" in ended.err


def test_a_variant_that_states_nothing_stays_out(one: IndexServer, create: Run, tmp_path: Path) -> None:
    write_variant(
        one.folder, SELECTOR, TORCH, "gfx1100", {}, stated=None, tag=TAG,
        requires=[f"amd-torch-device-gfx1100=={TORCH}"],
    )  # fmt: skip
    ended = create("--from-index", one.url())
    assert file("gfx1100") not in adopted(tmp_path, ended)
    assert "variant.json" in ended.err


EARLY = {
    "providers": {"amd": {"install-time": True, "plugin-api": "p:C", "requires": ["p >= 1.0"]}},
    "default-priorities": {"namespace": ["amd"], "property": {"amd": {"gfx_arch": list(TARGETS)}}},
    "variants": {target: gpu(target) for target in TARGETS},
}


@pytest.mark.parametrize("how", ["--from-index", "--from-folder"])
def test_a_variant_of_an_early_draft_stays_out_and_the_rest_comes_along(
    one: IndexServer, create: Run, tmp_path: Path, how: str
) -> None:
    """As ROCm's own splitter writes it: the host once more, with markers that nothing else reads.

    Every host of it requires AMD's provider, which pypi.org has and no set.
    """
    devices = [
        f'amd-torch-device-{one}=={TORCH}; "amd :: gfx_arch :: {one}" in variant_properties'
        for one in TARGETS
    ]
    write_variant(
        one.folder,
        "torchvision",
        "0.25.0+rocm7.12.0a20260429",
        "amd",
        {},
        stated=json.dumps(EARLY),
        requires=devices,
    )
    write_wheel(
        one.folder,
        "torchvision",
        "0.25.0+rocm7.12.0a20260429",
        {},
        requires=[f"torch=={TORCH}", "rocm-bootstrap"],
    )
    ended = create(how, one.url() if how == "--from-index" else one.folder)
    assert ended.code == 0, ended.err
    files = read_set(LocalStore(tmp_path / "store"), ended.out.strip()).files
    assert "torchvision" in {entry.project for entry in files}
    assert not [entry.name for entry in files if entry.name.endswith("-amd.whl")]
    assert "the set is without torchvision-0.25.0+rocm7.12.0a20260429-" in ended.err
    assert "(it follows an early draft of PEP 817)" in ended.err


def write_gfx1100(folder: Path, requires: str, **options: object) -> None:
    needs = [f"amd-torch-device-{requires}=={TORCH}"]
    write_variant(folder, SELECTOR, TORCH, "gfx1100", gpu("gfx1100"), tag=TAG, requires=needs, **options)


def test_what_comes_whole_is_checked(one: IndexServer, create: Run) -> None:
    write_gfx1100(one.folder, "gfx1201")
    ended = create("--from-index", one.url(), "--download", "--json")
    assert ended.code == 0, ended.err
    found = [one for one in ended.json["checked"]["findings"] if one["rule"].startswith("variant")]
    assert [one["cause"] for one in found] == [
        "it is for gfx1100, and requires amd-torch-device-gfx1201",
        "it is for gfx1100, and does not require amd-torch-device-gfx1100",
    ]


def test_variants_that_no_index_can_state_together_are_refused(
    one: IndexServer, create: Run, tmp_path: Path
) -> None:
    write_gfx1100(one.folder, "gfx1100", providers={"amd": {**AMD, "plugin-api": "another:Plugin"}})
    ended = create("--from-index", one.url())
    assert ended.code == 3
    assert "wheels of amd_torch_device do not agree on the provider of amd" in ended.err
    assert not (tmp_path / "store").exists()
