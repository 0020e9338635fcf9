from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import msgspec
import pytest
from watched_store import PowerCut, WatchedStore

from rocwright.errors import IntegrityError
from rocwright.model.sets import PROVENANCE, FileEntry, about_set, new_set, set_id
from rocwright.store.index.listed import ListedFile, ListedSet, listed_files
from rocwright.store.index.pages import page_keys, view_pages, write_pages
from rocwright.store.index.set_pages import publish_attested
from rocwright.store.objects.local import LocalStore
from rocwright.store.pool import describe_file, put_pooled
from rocwright.store.sets.records import read_listed, save_statement
from rocwright.store.sets.stage import record_set

PREFIX = "v2/fam/"


def entry(project: str, version: str, *depends: str) -> FileEntry:
    name = f"{project}-{version}-py3-none-any.whl"
    return FileEntry(name, (version[-1] * 64), 1, project, version, None, None, depends)


def view(*entries: FileEntry) -> dict[str, bytes]:
    return dict(view_pages([ListedFile(one, f"files/{one.name}") for one in entries], PREFIX))


ROCM, TORCH = entry("rocm", "1"), entry("torch", "1", "rocm")
NEXT = entry("rocm", "2"), entry("torch", "2", "rocm")
AUDIO = entry("audio", "1", "torch")


def pages_in(store: LocalStore) -> dict[str, bytes]:
    return {one.key: store.read(one.key) for one in LocalStore(store.root).list(PREFIX)}


def test_only_what_differs_is_written_in_order(tmp_path: Path) -> None:
    store = WatchedStore(tmp_path)
    first = view(ROCM, TORCH)
    assert write_pages(store, PREFIX, first) == tuple(first)
    assert store.changed == list(first)
    assert pages_in(store) == first
    store.changed.clear()
    assert write_pages(store, PREFIX, first) == ()
    assert write_pages(store, PREFIX, view(ROCM, TORCH, NEXT[1])) == (
        "v2/fam/torch/index.html",
        "v2/fam/_json/torch/index.html",
        "v2/fam/_flat/index.html",
    )
    assert len(store.changed) == 3, "the root names the same projects, so it stays"


def test_requests_do_not_grow_with_files(tmp_path: Path) -> None:
    store = WatchedStore(tmp_path)
    many = [entry("torch", f"1.{number}") for number in range(300)]
    write_pages(store, PREFIX, view(*many))
    store.asked.clear()
    store.changed.clear()
    write_pages(store, PREFIX, view(*many, entry("torch", "2")))
    kinds = [kind for kind, _ in store.asked]
    assert kinds.count("list") == 1
    assert kinds.count("read") <= 5
    assert len(store.changed) == 3


def test_a_page_that_somebody_else_changed_is_mended(tmp_path: Path) -> None:
    store = WatchedStore(tmp_path)
    wanted = view(ROCM, TORCH)
    write_pages(store, PREFIX, wanted)
    page = "v2/fam/torch/index.html"
    store.put_bytes(page, wanted[page].replace(b"torch-1", b"torch-9"), overwrite=True)
    assert write_pages(store, PREFIX, wanted) == (page,)
    assert pages_in(store) == wanted


def test_after_a_kill_at_any_point_the_next_run_completes_the_view(tmp_path: Path) -> None:
    before, after = view(ROCM, TORCH, AUDIO), view(ROCM, TORCH, *NEXT)
    keys = page_keys([ROCM, TORCH, AUDIO, *NEXT], PREFIX)
    steps = 0
    while True:
        store = WatchedStore(tmp_path / str(steps))
        write_pages(store, PREFIX, before)
        store.changed.clear()
        store.after = steps
        try:
            write_pages(store, PREFIX, after, order=keys, reverse=True)
        except PowerCut:
            store.after = None
            write_pages(store, PREFIX, after)
            assert pages_in(store) == after
        else:
            break
        steps += 1
    assert steps == 9, "four pages of two projects, flat page, two roots; two pages go"


def test_what_is_withdrawn_goes_in_front_of_what_it_needs(tmp_path: Path) -> None:
    store = WatchedStore(tmp_path)
    old, new = [ROCM, TORCH, AUDIO], [ROCM]
    write_pages(store, PREFIX, view(*old))
    store.changed.clear()
    write_pages(store, PREFIX, view(*new), order=page_keys(old, PREFIX), reverse=True)
    assert store.changed == [
        "v2/fam/_json/index.html",
        "v2/fam/index.html",
        "v2/fam/_flat/index.html",
        "-v2/fam/_json/audio/index.html",
        "-v2/fam/audio/index.html",
        "-v2/fam/_json/torch/index.html",
        "-v2/fam/torch/index.html",
    ]
    assert pages_in(store) == view(*new)


def test_pages_that_nobody_ordered_go_behind_the_root(tmp_path: Path) -> None:
    store = WatchedStore(tmp_path)
    write_pages(store, PREFIX, view(ROCM, TORCH))
    assert write_pages(store, PREFIX, view(ROCM))[-2:] == (
        "v2/fam/_json/torch/index.html",
        "v2/fam/torch/index.html",
    )


def test_what_is_no_page_of_the_view_stays(tmp_path: Path) -> None:
    store = WatchedStore(tmp_path)
    others = ["_log/00000001-aaaaaaaaaaaaaaaa.json", "_other/index.html", "torch/notes/index.html", "a.html"]
    for name in others:
        store.put_bytes(f"{PREFIX}{name}", b"kept")
    write_pages(store, PREFIX, view(ROCM))
    write_pages(store, PREFIX, {})
    assert sorted(pages_in(store)) == sorted(f"{PREFIX}{name}" for name in others)


def test_a_file_enters_the_pool_once_and_only_as_what_it_is(
    tmp_path: Path, make_wheel: Callable[..., Path]
) -> None:
    store = LocalStore(tmp_path / "store")
    wheel = make_wheel("torch", "1+r")
    described = describe_file(wheel)
    other = make_wheel("torch", "1+r", body="changed", folder=tmp_path / "other")
    with pytest.raises(IntegrityError, match="sha256 of torch-1"):
        put_pooled(store, other, described)
    assert store.list("") == ()
    put_pooled(store, wheel, described)
    wheel.unlink()
    put_pooled(store, wheel, described)
    assert [one.key.rpartition("/")[2] for one in store.list("")] == [wheel.name, f"{wheel.name}.metadata"]
    wrong = msgspec.structs.replace(describe_file(other), metadata_sha256="0" * 64)
    with pytest.raises(IntegrityError, match="METADATA of torch-1"):
        put_pooled(store, other, wrong)


@pytest.fixture
def recorded(tmp_path: Path, make_wheel: Callable[..., Path]) -> tuple[LocalStore, ListedSet]:
    store = LocalStore(tmp_path / "store")
    wheels = [make_wheel("torch", "2.9.0+rocm7.1", requires=["rocm==7.1"]), make_wheel("rocm", "7.1")]
    wheels += [make_wheel(f"rocm_sdk_device_{target}", "7.1") for target in ("gfx90a", "gfx942")]
    manifest = new_set(
        family="fam",
        targets=["gfx90a", "gfx942:xnack+"],
        platform="linux",
        files=[describe_file(wheel) for wheel in wheels],
        sources={},
    )
    now = datetime(2026, 11, 22, 8, 0, 0, tzinfo=timezone.utc)
    record_set(store, manifest, {wheel.name: wheel for wheel in wheels}, [], now)
    return store, read_listed(store, set_id(manifest))


def test_pages_of_a_set_say_what_two_have_stated_at_once(recorded: tuple[LocalStore, ListedSet]) -> None:
    """One reads, the other states and writes all of its own, then the one writes."""
    store, one = recorded
    digest = set_id(one.manifest)

    def stated(name: str) -> None:
        files = {"files": {name: f"https://p.example/{name}.provenance"}, "number": 1}
        save_statement(store, digest, about_set(one.manifest, PROVENANCE, files))

    torch, rocm = (
        next(e.name for e in one.manifest.files if e.project == name) for name in ("torch", "rocm")
    )
    others = [rocm]

    class Meanwhile(LocalStore):
        def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
            if others:
                stated(others.pop())
                publish_attested(store, digest)
            super().put_bytes(key, data, overwrite=overwrite)

    stated(torch)
    publish_attested(Meanwhile(store.root), digest)
    for project in ("torch", "rocm"):
        assert b"data-provenance" in store.read(f"sets/{digest}/{project}/index.html")


def test_view_of_a_recorded_set(recorded: tuple[LocalStore, ListedSet]) -> None:
    store, one = recorded
    pages = view_pages(listed_files([one]), PREFIX)
    assert write_pages(store, PREFIX, pages) == tuple(pages)
