"""Promotion: the tested bytes and no others, resumable wherever it stops, nothing through a closed gate."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from watched_store import PowerCut, WatchedStore

from rocwright.data import load_table
from rocwright.errors import GateClosed, IntegrityError
from rocwright.model.channels import Channels
from rocwright.model.sets import (
    FINDINGS,
    PROMOTION,
    SetManifest,
    Statement,
    about_set,
    new_set,
    set_id,
    statement_id,
)
from rocwright.store.gate import Decision
from rocwright.store.objects.local import LocalStore
from rocwright.store.pool import describe_files
from rocwright.store.sets.promote import promote
from rocwright.store.sets.records import Locations, read_statements, save_locations, save_set
from rocwright.store.sets.stage import stage_set
from rocwright.store.sets.verify import verify_set

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)
CHANNELS = load_table("channels", Channels)
STAGING, RELEASE = CHANNELS.named("staging"), CHANNELS.named("release")


def contents(store: LocalStore) -> dict[str, str]:
    return {one.key: store.digest(one.key) for one in store.list("")}


def dangling(store: LocalStore) -> list[str]:
    """Links of pages for installers that lead nowhere; the page for people has tests of its own."""
    found = []
    for key in (one.key for one in store.list("")):
        if key.endswith("index.html") and key.count("/") > 1:
            for href in re.findall(r'href="([^"]+)"', store.read(key).decode()):
                target = unquote(urlsplit(urljoin(f"http://x/{key}", href)).path).lstrip("/")
                if not store.exists(target + "index.html" if target.endswith("/") else target):
                    found.append(f"{key}: {href}")
    return found


def pages_of(store: LocalStore, prefix: str) -> list[str]:
    """Keys of HTML pages for installers, other forms of them left out."""
    keys = [one.key for one in store.list(f"{prefix}fam/")]
    return [key for key in keys if key.endswith("index.html") and "/_" not in key]


@pytest.fixture
def wheels(make_wheel: Callable[..., Path]) -> list[Path]:
    return [
        make_wheel("rocm", "7.1"),
        make_wheel("torch", "2.9.0+rocm7.1", requires=["rocm==7.1"]),
        make_wheel("torchvision", "0.24.0+rocm7.1", requires=["torch==2.9.0+rocm7.1"]),
    ]


def stage(store: LocalStore, paths: list[Path]) -> tuple[SetManifest, list[Statement], Decision]:
    manifest = new_set(
        family="fam", targets=["gfx90a"], platform="linux", files=describe_files(paths), sources={}
    )
    files = [entry.name for entry in manifest.files]
    statements = [about_set(manifest, FINDINGS, {"passed": True, "files": files})]
    stage_set(store, STAGING, manifest, paths, statements, NOW)
    return manifest, statements, Decision(set_id(manifest), True, "passed", "passed: gpu on fam")


def test_exactly_the_staged_bytes_are_released(tmp_path: Path, wheels: list[Path]) -> None:
    store = LocalStore(tmp_path / "store")
    manifest, statements, decision = stage(store, wheels)
    done = promote(store, RELEASE, manifest, decision, statements, NOW, by="nightly")
    assert done.index_url == (tmp_path / "store/v2/fam").as_uri() + "/"
    pages = {
        prefix: {key.removeprefix(prefix): store.read(key) for key in pages_of(store, prefix)}
        for prefix in ("v2/", "v2-staging/")
    }
    assert list(pages["v2/"]) == [
        "fam/index.html",
        "fam/rocm/index.html",
        "fam/torch/index.html",
        "fam/torchvision/index.html",
    ]
    # Both lead to the same files in the pool.
    assert pages["v2/"] == pages["v2-staging/"]
    assert len(store.list("files/")) == 3 + 3
    assert dangling(store) == []


def test_the_promotion_says_what_why_and_on_which_evidence(tmp_path: Path, wheels: list[Path]) -> None:
    store = LocalStore(tmp_path / "store")
    manifest, statements, decision = stage(store, wheels)
    promote(store, RELEASE, manifest, decision, statements, NOW, by="nightly")
    said = [item for item in read_statements(store, set_id(manifest)) if item.predicate_type == PROMOTION]
    assert [item.predicate for item in said] == [
        {
            "from": "staging",
            "to": "release",
            "family": "fam",
            "rule": "passed",
            "reason": "passed: gpu on fam",
            "waivers": [],
            "by": "nightly",
            "evidence": [statement_id(statements[0])],
        }
    ]


def test_again_changes_nothing_even_with_all_recorded_statements(tmp_path: Path, wheels: list[Path]) -> None:
    store = LocalStore(tmp_path / "store")
    manifest, statements, decision = stage(store, wheels)
    promote(store, RELEASE, manifest, decision, statements, NOW)
    before = contents(store)
    promote(store, RELEASE, manifest, decision, read_statements(store, set_id(manifest)), NOW)
    assert contents(store) == before


def test_a_closed_gate_changes_nothing(tmp_path: Path, wheels: list[Path]) -> None:
    store = LocalStore(tmp_path / "store")
    manifest, statements, decision = stage(store, wheels)
    before = contents(store)
    closed = Decision(set_id(manifest), False, "tests", "gpu on fam failed")
    with pytest.raises(GateClosed, match="gpu on fam failed"):
        promote(store, RELEASE, manifest, closed, statements, NOW)
    with pytest.raises(GateClosed, match="is about set"):
        promote(store, RELEASE, manifest, Decision("0" * 64, True, "passed", ""), statements, NOW)
    assert contents(store) == before
    assert decision.promote


@pytest.mark.parametrize("which", [".whl", ".whl.metadata"])
def test_a_staged_file_changed_after_the_test_is_not_released(
    tmp_path: Path, wheels: list[Path], which: str
) -> None:
    store = LocalStore(tmp_path / "store")
    manifest, statements, decision = stage(store, wheels)
    [key] = [one.key for one in store.list("files/") if "/torch-" in one.key and one.key.endswith(which)]
    store.put_bytes(key, b"other", overwrite=True)
    before = contents(store)
    with pytest.raises(IntegrityError, match="the tested file has"):
        promote(store, RELEASE, manifest, decision, statements, NOW)
    store.delete(key)
    with pytest.raises(IntegrityError, match="is not staged"):
        promote(store, RELEASE, manifest, decision, statements, NOW)
    del before[key]
    assert contents(store) == before


def test_interrupted_anywhere_nothing_dangles_and_a_second_run_completes(
    tmp_path: Path, wheels: list[Path], make_wheel: Callable[..., Path]
) -> None:
    # Pages for people name the address of their store, so every run uses the same one.
    root, prepared = tmp_path / "store", tmp_path / "prepared"
    store = LocalStore(root)
    # An older set is already released, so that there are pages to keep true.
    old = stage(store, [make_wheel("torch", "2.8.0")])
    promote(store, RELEASE, old[0], old[2], old[1], NOW)
    manifest, statements, decision = stage(store, wheels)
    shutil.copytree(root, prepared)
    promote(store, RELEASE, manifest, decision, statements, NOW)
    expected = contents(store)

    cuts = 0
    while True:
        shutil.rmtree(root)
        shutil.copytree(prepared, root)
        store = WatchedStore(root, after=cuts)
        try:
            promote(store, RELEASE, manifest, decision, statements, NOW)
        except PowerCut:
            assert dangling(store) == []
            assert "torch-2.8.0-py3-none-any.whl" in store.read("v2/fam/torch/index.html").decode()
            promote(LocalStore(root), RELEASE, manifest, decision, statements, NOW)
            assert contents(LocalStore(root)) == expected
            cuts += 1
            continue
        break
    # At least promotion, event, 3 pages and the root: it was cut in each of these places.
    assert cuts >= 1 + 1 + 3 + 1


def test_a_set_without_another_version_of_a_dependency_never_shows_first(
    tmp_path: Path, wheels: list[Path]
) -> None:
    """The page of torch appears only when the page of the rocm it needs is there."""
    order: list[str] = []

    class Watching(LocalStore):
        def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
            order.append(key)
            super().put_bytes(key, data, overwrite=overwrite)

    store = LocalStore(tmp_path / "store")
    manifest, statements, decision = stage(store, wheels)
    promote(Watching(store.root), RELEASE, manifest, decision, statements, NOW)
    pages = [key for key in order if key in pages_of(store, "v2/")]
    assert pages == [
        "v2/fam/rocm/index.html",
        "v2/fam/torch/index.html",
        "v2/fam/torchvision/index.html",
        "v2/fam/index.html",
    ]
    # What is listed follows from the event, which is there before any page.
    assert "/_log/" in next(key for key in order if key.startswith("v2/fam/"))


def test_files_that_lie_elsewhere_are_listed_by_address_and_digest(
    tmp_path: Path, wheels: list[Path]
) -> None:
    """An adopted set is not copied; installers refuse other bytes by the digest on its pages."""
    store = LocalStore(tmp_path / "store")
    manifest = new_set(family="fam", targets=[], platform="linux", files=describe_files(wheels), sources={})
    digest = set_id(manifest)
    save_set(store, manifest)
    urls = {path.name: f"https://index.example/whl/{path.name}" for path in wheels}
    decision = Decision(digest, True, "checked", "")
    with pytest.raises(IntegrityError, match="is not staged"):
        promote(store, STAGING, manifest, decision, [], NOW)
    save_locations(store, digest, Locations(files=urls))
    promote(store, STAGING, manifest, decision, [], NOW)
    page = store.read("v2-staging/fam/rocm/index.html").decode()
    [rocm] = [entry for entry in manifest.files if entry.project == "rocm"]
    assert f'href="https://index.example/whl/{rocm.name}#sha256={rocm.sha256}"' in page
    assert store.list("files/") == ()
    found = verify_set(store, digest)
    assert (found.problems, found.files, found.elsewhere) == ((), 0, tuple(sorted(urls)))
