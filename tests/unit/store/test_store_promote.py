from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from rocwright.errors import GateClosed, IntegrityError
from rocwright.model.manifest import SetManifest, new_set, set_id
from rocwright.model.statement import FINDINGS, PROMOTION, Statement, about_set, statement_id
from rocwright.store.gate import Decision
from rocwright.store.objects import LocalStore
from rocwright.store.promote import promote
from rocwright.store.publish import describe_files, stage_set
from rocwright.store.records import read_statements


class PowerCut(Exception):
    """The machine stops between two writes."""


class FailingStore(LocalStore):
    """A local store that stops before its n-th write."""

    def __init__(self, root: Path, writes: int) -> None:
        super().__init__(root)
        self.left = writes

    def _spend(self) -> None:
        if self.left == 0:
            raise PowerCut
        self.left -= 1

    def put_file(self, source: Path, key: str) -> None:
        self._spend()
        super().put_file(source, key)

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        self._spend()
        super().put_bytes(key, data, overwrite=overwrite)


def contents(store: LocalStore) -> dict[str, str]:
    return {key: store.digest(key) for key in store.list("")}


def dangling(store: LocalStore) -> list[str]:
    """Links of index pages that lead nowhere."""
    found = []
    for key in store.list(""):
        if key.endswith("index.html"):
            for href in re.findall(r'href="([^"]+)"', store.read(key).decode()):
                target = unquote(urlsplit(urljoin(f"http://x/{key}", href)).path).lstrip("/")
                if not store.exists(target + "index.html" if target.endswith("/") else target):
                    found.append(f"{key}: {href}")
    return found


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
    stage_set(store, manifest, paths, statements, date(2026, 11, 21))
    return manifest, statements, Decision(set_id(manifest), True, "passed", "passed: gpu on fam")


def test_exactly_the_staged_bytes_are_released(tmp_path: Path, wheels: list[Path]) -> None:
    store = LocalStore(tmp_path / "store")
    manifest, statements, decision = stage(store, wheels)
    done = promote(store, manifest, decision, statements, by="nightly")
    assert done.index_url == (tmp_path / "store/v2/fam").as_uri() + "/"
    staged = {key.removeprefix("v2-staging/"): store.digest(key) for key in store.list("v2-staging/")}
    released = {key.removeprefix("v2/"): store.digest(key) for key in store.list("v2/")}
    assert released == staged
    assert len(released) == 3 + 3 + 3 + 1 + 1
    assert dangling(store) == []


def test_the_promotion_says_what_why_and_on_which_evidence(tmp_path: Path, wheels: list[Path]) -> None:
    store = LocalStore(tmp_path / "store")
    manifest, statements, decision = stage(store, wheels)
    promote(store, manifest, decision, statements, by="nightly")
    said = [item for item in read_statements(store, set_id(manifest)) if item.predicate_type == PROMOTION]
    assert [item.predicate for item in said] == [
        {
            "from": "v2-staging",
            "to": "v2",
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
    promote(store, manifest, decision, statements)
    before = contents(store)
    promote(store, manifest, decision, read_statements(store, set_id(manifest)))
    assert contents(store) == before


def test_a_closed_gate_changes_nothing(tmp_path: Path, wheels: list[Path]) -> None:
    store = LocalStore(tmp_path / "store")
    manifest, statements, decision = stage(store, wheels)
    before = contents(store)
    closed = Decision(set_id(manifest), False, "tests", "gpu on fam failed")
    with pytest.raises(GateClosed, match="gpu on fam failed"):
        promote(store, manifest, closed, statements)
    with pytest.raises(GateClosed, match="is about set"):
        promote(store, manifest, Decision("0" * 64, True, "passed", ""), statements)
    assert contents(store) == before
    assert decision.promote


@pytest.mark.parametrize(
    "which", ["torch-2.9.0+rocm7.1-py3-none-any.whl", "torch-2.9.0+rocm7.1-py3-none-any.whl.metadata"]
)
def test_a_staged_file_changed_after_the_test_is_not_released(
    tmp_path: Path, wheels: list[Path], which: str
) -> None:
    store = LocalStore(tmp_path / "store")
    manifest, statements, decision = stage(store, wheels)
    store.put_bytes(f"v2-staging/fam/{which}", b"other", overwrite=True)
    before = contents(store)
    with pytest.raises(IntegrityError, match="the tested file has"):
        promote(store, manifest, decision, statements)
    (tmp_path / "store" / "v2-staging" / "fam" / which).unlink()
    with pytest.raises(IntegrityError, match="is not staged"):
        promote(store, manifest, decision, statements)
    del before[f"v2-staging/fam/{which}"]
    assert contents(store) == before


def test_interrupted_anywhere_nothing_dangles_and_a_second_run_completes(
    tmp_path: Path, wheels: list[Path], make_wheel: Callable[..., Path]
) -> None:
    def prepare(root: Path) -> tuple[Any, ...]:
        # An older set is already released, so that there are pages to keep true.
        store = LocalStore(root)
        old = stage(store, [make_wheel("torch", "2.8.0")])
        promote(store, old[0], old[2], old[1])
        return stage(store, wheels)

    whole = LocalStore(tmp_path / "whole")
    manifest, statements, decision = prepare(whole.root)
    promote(whole, manifest, decision, statements)
    expected = contents(whole)

    cuts = 0
    while True:
        root = tmp_path / f"cut{cuts}"
        prepare(root)
        store = FailingStore(root, cuts)
        try:
            promote(store, manifest, decision, statements)
        except PowerCut:
            assert dangling(store) == []
            assert "torch-2.8.0-py3-none-any.whl" in store.read("v2/fam/torch/index.html").decode()
            promote(LocalStore(root), manifest, decision, statements)
            assert contents(LocalStore(root)) == expected
            cuts += 1
            continue
        break
    # manifest, findings, 3 files and 3 sidecars, 3 pages, root, log, promotion
    assert cuts == 2 + 6 + 3 + 1 + 1 + 1


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
    promote(Watching(store.root), manifest, decision, statements)
    pages = [key for key in order if key.startswith("v2/fam/") and not key.endswith(".metadata")]
    assert pages == [
        "v2/fam/rocm/index.html",
        "v2/fam/torch/index.html",
        "v2/fam/torchvision/index.html",
        "v2/fam/index.html",
        "v2/fam/channel.json",
    ]
