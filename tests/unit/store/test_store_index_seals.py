"""Seals of pages: only what changed is rendered, and nothing that is wrong is taken for right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rocwright.errors import IntegrityError
from rocwright.model.sets import FileEntry, SetManifest, new_set, set_id
from rocwright.store.channel_log import mark_shown, read_log
from rocwright.store.index import pages as rendering
from rocwright.store.index.listed import listed_files
from rocwright.store.index.pages import view_pages
from rocwright.store.objects.local import LocalStore
from rocwright.store.pool import wanted_objects
from rocwright.store.publish import list_set, view_sets, write_view
from rocwright.store.sets.records import Locations, save_locations, save_receipt, save_set
from rocwright.store.withdraw import withdraw

PREFIX = "v2/fam/"
AT = "2026-11-21T00:00:00Z"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def entry(project: str, version: str, *depends: str, sha256: str = "a") -> FileEntry:
    name = f"{project}-{version}-py3-none-any.whl"
    return FileEntry(name, sha256 * 64, 1, project, version, None, None, depends)


def recorded(store: LocalStore, *entries: FileEntry, received: bool = True) -> SetManifest:
    manifest = new_set(family="fam", targets=["gfx90a"], platform="linux", files=entries, sources={})
    save_set(store, manifest)
    if received:
        for key in (key for one in entries for key in wanted_objects(one)):
            store.put_bytes(key, b"x")
        save_receipt(store, manifest, AT)
    return manifest


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The projects whose pages were rendered."""
    found: list[str] = []
    render = rendering._project

    def noted(project: str, *args: Any) -> rendering.ProjectPages:
        found.append(project)
        return render(project, *args)

    monkeypatch.setattr(rendering, "_project", noted)
    rendering._form()
    found.clear()
    return found


@pytest.fixture
def first(store: LocalStore) -> SetManifest:
    """What the channel lists already."""
    manifest = recorded(store, entry("rocm", "1"), entry("torch", "1", "rocm"))
    list_set(store, PREFIX, manifest, at=AT)
    return manifest


def in_line(store: LocalStore) -> bool:
    sets = view_sets(store, read_log(store, PREFIX).state)
    served = {one.key: store.read(one.key) for one in store.list(PREFIX) if "/_log/" not in one.key}
    return served == dict(view_pages(listed_files(sets, where=PREFIX), PREFIX))


def test_only_projects_that_changed_are_rendered(
    store: LocalStore, first: SetManifest, rendered: list[str]
) -> None:
    list_set(store, PREFIX, recorded(store, entry("torch", "2")), at=AT)
    assert rendered == ["torch"]
    assert in_line(store)
    assert "torch-1-" in store.read(f"{PREFIX}_flat/index.html").decode()


@pytest.mark.parametrize("page", ["rocm/index.html", "_json/rocm/index.html"])
@pytest.mark.parametrize("how", ["other bytes", "gone"])
def test_a_page_of_another_project_that_was_spoiled_is_mended(
    store: LocalStore, first: SetManifest, page: str, how: str
) -> None:
    key = f"{PREFIX}{page}"
    if how == "gone":
        store.delete(key)
    else:
        # As long as it was.
        store.put_bytes(key, store.read(key).replace(b"a" * 64, b"b" * 64), overwrite=True)
    list_set(store, PREFIX, recorded(store, entry("torch", "2")), at=AT)
    assert in_line(store)


def test_files_that_came_into_the_store_since_change_the_pages_of_their_projects(store: LocalStore) -> None:
    adopted = recorded(store, entry("rocm", "1"), received=False)
    url = "https://example.org/rocm-1-py3-none-any.whl"
    save_locations(store, set_id(adopted), Locations({adopted.files[0].name: url}))
    list_set(store, PREFIX, adopted, at=AT)
    assert url in store.read(f"{PREFIX}rocm/index.html").decode()
    recorded(store, *adopted.files)
    list_set(store, PREFIX, recorded(store, entry("torch", "2")), at=AT)
    assert in_line(store)
    assert url not in store.read(f"{PREFIX}rocm/index.html").decode()


def test_another_way_to_render_renders_everything(
    store: LocalStore, first: SetManifest, rendered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "_form", lambda: "of a later version")
    list_set(store, PREFIX, recorded(store, entry("torch", "2")), at=AT)
    assert sorted(rendered) == ["rocm", "torch"]


def test_a_log_of_before_there_were_seals_renders_everything(
    store: LocalStore, first: SetManifest, rendered: list[str]
) -> None:
    log = read_log(store, PREFIX)
    [mark] = [one.key for one in store.list(f"{PREFIX}_log/") if "shown" in one.key]
    store.delete(mark)
    mark_shown(store, PREFIX, msgspec.structs.replace(log, shown=()))
    list_set(store, PREFIX, recorded(store, entry("torch", "2")), at=AT)
    assert sorted(rendered) == ["rocm", "torch"]


def test_a_repair_takes_no_seal_for_it(store: LocalStore, first: SetManifest) -> None:
    log = read_log(store, PREFIX)
    key = f"{PREFIX}rocm/index.html"
    store.put_bytes(key, b"mine", overwrite=True)
    origin = log.seals["rocm"].partition(".")[0]
    json_digest = store.digest(f"{PREFIX}_json/rocm/index.html")
    [mark] = [one.key for one in store.list(f"{PREFIX}_log/") if "shown" in one.key]
    store.delete(mark)
    forged = {**log.seals, "rocm": rendering._seal(origin, store.digest(key), json_digest)}
    mark_shown(store, PREFIX, msgspec.structs.replace(log, shown=()), forged)
    write_view(store, PREFIX)
    assert in_line(store)


def test_one_name_with_two_contents_is_refused_whatever_changed(
    store: LocalStore, first: SetManifest
) -> None:
    before = {one.key: store.digest(one.key) for one in store.list("v2/")}
    other = recorded(store, entry("rocm", "1", sha256="b"), entry("torch", "2"))
    with pytest.raises(IntegrityError, match=r"already lists rocm-1-.* with other content"):
        list_set(store, PREFIX, other, at=AT)
    assert {one.key: store.digest(one.key) for one in store.list("v2/")} == before
    assert store.list("_leases/") == ()


def test_one_name_of_two_projects_is_refused(store: LocalStore, first: SetManifest) -> None:
    other = recorded(store, msgspec.structs.replace(entry("rocm", "1"), project="torch"))
    with pytest.raises(IntegrityError, match=r"already lists rocm-1-.* as of rocm"):
        list_set(store, PREFIX, other, at=AT)


def test_a_project_that_goes_leaves_the_pages_of_others_alone(
    store: LocalStore, first: SetManifest, rendered: list[str]
) -> None:
    more = recorded(store, entry("vision", "1", "torch"))
    list_set(store, PREFIX, more, at=AT)
    rendered.clear()
    withdraw(store, PREFIX, "drop", lambda state: (set_id(more),), reason="old", at=AT, max_age=0)
    assert rendered == []
    assert in_line(store)
    assert not store.exists(f"{PREFIX}vision/index.html")
