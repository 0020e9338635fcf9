"""Variants in a store: what an index states of them, what a lock and a repair make of them, when it goes."""

from __future__ import annotations

import json
import zipfile
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from command_line import Run
from rocwright.device_code.wheel.selectors import DeviceChoice, Selector, write_selectors
from rocwright.errors import IntegrityError, InvalidData, InvalidWheel
from rocwright.model.sets import SetManifest, canonical_json, new_set, parse_set, set_id
from rocwright.model.variants import InvalidVariant
from rocwright.store.adopt.pages import parse_page
from rocwright.store.channel_log import Event
from rocwright.store.index.listed import ListedSet, listed_files
from rocwright.store.index.lock import lock_set
from rocwright.store.index.pages import view_pages
from rocwright.store.index.verify import verify_listed
from rocwright.store.objects.local import LocalStore
from rocwright.store.pool import describe_file, describe_files
from rocwright.store.publish import change, list_set, write_view
from rocwright.store.sets.records import read_set
from rocwright.store.sets.stage import record_set
from wheels import ANY, pack, write_wheel

PREFIX, AT = "v2/fam/", "2026-11-22T08:00:00Z"
NOW = datetime(2026, 11, 22, 8, 0, 0, tzinfo=timezone.utc)
PLAIN = "amd_torch_device-2.9-py3-none-any"


def selectors(folder: Path, *targets: str, version: str = "2.9") -> tuple[Path, ...]:
    """The plain wheel, the null variant and one for each target."""
    same = ("amd-torch-device", version, "torch", "py3-none-any")
    wanted = [Selector(*same, None), Selector(*same, "null")]
    wanted += [Selector(*same, one, one, f"amd-torch-device-{one}") for one in targets]
    return write_selectors([DeviceChoice("amd-torch-device", "", (), tuple(wanted))], folder)


def torch(folder: Path) -> Path:
    return write_wheel(folder, "torch", "2.9", {"torch.py": ""}, tag=ANY, requires=["amd-torch-device==2.9"])


def a_set(*paths: Path, targets: tuple[str, ...] = ("gfx942",)) -> SetManifest:
    files = describe_files(paths)
    return new_set(family="fam", targets=targets, platform="linux", files=files, sources={})


def listed(store: LocalStore, *paths: Path) -> SetManifest:
    """Record a set of these files and list it."""
    manifest = a_set(*paths)
    record_set(store, manifest, {path.name: path for path in paths}, [], NOW)
    list_set(store, PREFIX, manifest, at=AT)
    return manifest


def stated_links(store: LocalStore, page: str) -> list[tuple[str, dict]]:
    """What the page of the project links to about variants: the key in the store, and what stands there."""
    kind = "application/vnd.pypi.simple.v1+json" if "_json" in page else "text/html"
    found = parse_page(store.read(f"{PREFIX}{page}"), kind, f"http://h/{PREFIX}{page}", lambda url: url)
    links = [one for one in found.files if one.name.endswith("-variants.json")]
    keys = [unquote(urlsplit(urljoin(f"http://h/{PREFIX}{page}", one.url)).path)[1:] for one in links]
    return [(key, json.loads(store.read(key))) for key in keys]


PAGES = ("amd-torch-device/index.html", "_json/amd-torch-device/index.html", "_flat/index.html")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_leads_to_what_the_wheels_state(tmp_path: Path, page: str) -> None:
    store = LocalStore(tmp_path / "store")
    listed(store, torch(tmp_path), *selectors(tmp_path, "gfx942", "gfx1151"))
    [(key, said)] = stated_links(store, page)
    assert key.startswith(f"{PREFIX}_variants/") and key.endswith("/amd_torch_device-2.9-variants.json")
    assert list(said["variants"]) == ["gfx1151", "gfx942", "null"]
    # Whoever reads the index has a machine of its own: the provider is asked, and nothing holds for all.
    assert said["providers"]["amd"]["requires"] == ["rocm-bootstrap"]
    assert "static-properties" not in store.read(key).decode()


def test_pages_of_a_project_without_variants_are_what_they_were(tmp_path: Path) -> None:
    """Byte for byte: those of the host, too, whose wheel is the same."""
    files = [torch(tmp_path), write_wheel(tmp_path, "rocm", "7.1", {"rocm.py": ""}, tag=ANY)]
    plain, *rest = selectors(tmp_path, "gfx942")
    without = view_pages(listed_files([ListedSet(a_set(*files, plain))]), PREFIX)
    added = view_pages(listed_files([ListedSet(a_set(*files, plain, *rest))]), PREFIX)
    differing = {key for key in {*without, *added} if without.get(key) != added.get(key)}
    assert {key for key in differing if "_variants/" not in key} == {f"{PREFIX}{page}" for page in PAGES}
    lines = added[f"{PREFIX}{PAGES[0]}"].splitlines()
    assert [line for line in lines if b"-null" not in line and b"-gfx942" not in line][:-3] == without[
        f"{PREFIX}{PAGES[0]}"
    ].splitlines()[:-2]


def test_a_set_without_variants_has_the_id_that_it_had(tmp_path: Path) -> None:
    manifest = a_set(torch(tmp_path))
    assert b"variant" not in canonical_json(manifest)


def test_the_set_itself_has_it_below_its_own_pages(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    digest = set_id(listed(store, torch(tmp_path), *selectors(tmp_path, "gfx942")))
    assert [one.key.rpartition("/")[2] for one in store.list(f"sets/{digest}/_variants/")] == [
        "amd_torch_device-2.9-variants.json"
    ]
    assert read_set(store, digest) == a_set(torch(tmp_path), *selectors(tmp_path, "gfx942"))


def test_sets_of_one_version_stand_in_one_file_and_an_old_page_keeps_its_own(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    listed(store, torch(tmp_path), *selectors(tmp_path, "gfx942"))
    [(before, old)] = stated_links(store, PAGES[0])
    manifest = listed(store, torch(tmp_path), *selectors(tmp_path, "gfx1151"))
    [(after, new)] = stated_links(store, PAGES[0])
    assert [list(said["variants"]) for said in (old, new)] == [
        ["gfx942", "null"],
        ["gfx1151", "gfx942", "null"],
    ]
    assert before != after and store.exists(before)
    # What is stated is read as well, and is no file of the set.
    assert verify_listed(store, PREFIX, manifest).files == len(manifest.files)


def test_a_version_of_another_set_has_a_file_of_its_own(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    listed(store, *selectors(tmp_path, "gfx942"))
    listed(store, *selectors(tmp_path, "gfx942", version="2.10"))
    names = [key.rpartition("/")[2] for key, _ in stated_links(store, PAGES[0])]
    assert names == ["amd_torch_device-2.9-variants.json", "amd_torch_device-2.10-variants.json"]


def test_what_was_lost_or_changed_is_found_and_written_again(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    manifest = listed(store, *selectors(tmp_path, "gfx942"))
    [(key, _)] = stated_links(store, PAGES[0])
    whole = store.read(key)
    store.put_bytes(key, b"{}", overwrite=True)
    with pytest.raises(IntegrityError, match="does not state variants in a form that is known"):
        verify_listed(store, PREFIX, manifest)
    store.put_bytes(key, whole.replace(b"gfx942", b"gfx950"), overwrite=True)
    with pytest.raises(IntegrityError, match="is not what the page names"):
        verify_listed(store, PREFIX, manifest)
    store.delete(key)
    with pytest.raises(IntegrityError, match="is linked to, but not there"):
        verify_listed(store, PREFIX, manifest)
    # Listing anything else finds that it is missing; a repair finds that it differs, too.
    listed(store, write_wheel(tmp_path, "rocm", "7.1", {"rocm.py": ""}, tag=ANY))
    assert store.read(key) == whole
    store.put_bytes(key, b"{}", overwrite=True)
    write_view(store, PREFIX)
    assert store.read(key) == whole


def test_a_set_taken_out_takes_its_variants_along(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    listed(store, torch(tmp_path), *selectors(tmp_path, "gfx942"))
    gone = set_id(listed(store, torch(tmp_path), *selectors(tmp_path, "gfx1151")))
    change(store, PREFIX, Event("drop", (gone,), at=AT, reason="wrong"))
    [(_, said)] = stated_links(store, PAGES[0])
    assert list(said["variants"]) == ["gfx942", "null"]


def test_a_lock_has_the_plain_wheel_and_the_device_package_of_its_target(tmp_path: Path) -> None:
    device = write_wheel(tmp_path, "amd-torch-device-gfx942", "2.9", {"x.txt": ""}, tag=ANY)
    manifest = a_set(torch(tmp_path), device, *selectors(tmp_path, "gfx942"))
    lock = lock_set(ListedSet(manifest), "gfx942", base_url="http://h/")
    assert f"{PLAIN}.whl" in lock and "amd_torch_device_gfx942-2.9" in lock
    assert f"{PLAIN}-" not in lock


def changed(path: Path, label: str, **members: bytes | None) -> Path:
    """A selector with some members of its .dist-info changed, or without them, under another label."""
    with zipfile.ZipFile(path) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    for name, data in members.items():
        key = f"amd_torch_device-2.9.dist-info/{name.replace('_', '.')}"
        found.pop(key, None)
        found |= {} if data is None else {key: data}
    return pack(path.parent / "changed" / f"{PLAIN}-{label}.whl", found)


def test_a_wheel_that_does_not_state_what_its_name_says_is_refused(tmp_path: Path) -> None:
    selector = selectors(tmp_path, "gfx942")[-1]
    with pytest.raises(InvalidVariant, match="states gfx942, and the wheel's name says gfx1151"):
        describe_file(changed(selector, "gfx1151"))
    with pytest.raises(InvalidWheel, match=r"has 0 variant\.json members, expected one"):
        describe_file(changed(selector, "gfx942", variant_json=None))
    with pytest.raises(InvalidVariant, match="does not state variants in a form that is known"):
        describe_file(changed(selector, "gfx942", variant_json=b"{"))


def test_wheels_that_contradict_each_other_are_not_listed(tmp_path: Path) -> None:
    """Two labels of one version that name other providers: nothing of it is written."""
    store = LocalStore(tmp_path / "store")
    listed(store, *selectors(tmp_path, "gfx942"))
    before = store.read(f"{PREFIX}{PAGES[0]}")
    said = {
        "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
        "default-priorities": {"namespace": ["amd"]},
        "providers": {"amd": {"requires": ["somebody-else"]}},
        "variants": {"other": {"amd": {"gfx_arch": ["gfx950"]}}},
    }
    other = changed(tmp_path / f"{PLAIN}-gfx942.whl", "other", variant_json=json.dumps(said).encode())
    with pytest.raises(InvalidVariant, match="do not agree on the provider of amd"):
        listed(store, other)
    assert store.read(f"{PREFIX}{PAGES[0]}") == before


def test_a_manifest_with_a_variant_that_is_none_is_no_manifest(tmp_path: Path) -> None:
    """As any other damage: what repairs go by."""
    data = canonical_json(a_set(*selectors(tmp_path, "gfx942")))
    with pytest.raises(InvalidData, match=r"m is not a set manifest.*'GFX942' is not the label"):
        parse_set(data.replace(b'"gfx942":{', b'"GFX942":{'), where="m")


def test_a_lost_manifest_is_told_again_by_the_files(tmp_path: Path, rocwright: Run) -> None:
    store = LocalStore(tmp_path / "store")
    manifest = listed(store, torch(tmp_path), *selectors(tmp_path, "gfx942"))
    key = f"sets/{set_id(manifest)}/manifest.json"
    whole = store.read(key)
    store.put_bytes(key, b"", overwrite=True)
    done = rocwright("set", "repair", "--store", store.root)
    assert done.code == 0, done.err
    assert store.read(key) == whole
