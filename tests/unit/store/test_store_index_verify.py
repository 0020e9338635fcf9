from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from command_line import status
from rocwright import cli
from rocwright.errors import IntegrityError, Unreachable, UsageError
from rocwright.model.sets import new_set, set_id
from rocwright.store.index.listed import listed_files
from rocwright.store.index.pages import view_pages, write_pages
from rocwright.store.index.verify import verify_served
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.serve import serving
from rocwright.store.pool import describe_files
from rocwright.store.sets.records import read_listed
from rocwright.store.sets.stage import record_set

PREFIX = "v2/fam/"
TORCH = "torch-2.9.0+rocm7.1-py3-none-any.whl"


@pytest.fixture
def store(tmp_path: Path, make_wheel: Callable[..., Path], make_sdist: Callable[..., Path]) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    sets, rocm = [], make_sdist("rocm", "7.1")
    for version, yanked in (("2.9.0+rocm7.1", None), ("2.8.0", "old & <bad>")):
        files = [make_wheel("torch", version, requires=["rocm==7.1"]), rocm]
        manifest = new_set(
            family="fam", targets=["gfx90a"], platform="linux", files=describe_files(files), sources={}
        )
        at = datetime(2026, 11, 22, tzinfo=timezone.utc)
        record_set(store, manifest, {path.name: path for path in files}, [], at)
        sets.append(read_listed(store, set_id(manifest), yanked=yanked))
    write_pages(store, PREFIX, view_pages(listed_files(sets), PREFIX))
    return store


@pytest.fixture
def requests() -> list[str]:
    return []


@pytest.fixture
def url(store: LocalStore, requests: list[str]) -> Iterator[str]:
    with serving(store, requests=requests) as base:
        yield base + PREFIX


def key_of(store: LocalStore, name: str) -> str:
    [key] = [one.key for one in store.list("files/") if one.key.endswith(f"/{name}")]
    return key


def edit(store: LocalStore, name: str, old: str, new: str) -> None:
    key = f"{PREFIX}{name}"
    page = store.read(key).decode()
    assert old in page
    store.put_bytes(key, page.replace(old, new).encode(), overwrite=True)


def faults(url: str) -> list[tuple[str, str]]:
    base = url.removesuffix(PREFIX)
    return [(one.url.removeprefix(base), one.what) for one in verify_served(url).faults]


def test_what_was_published_is_sound(url: str, requests: list[str]) -> None:
    found = verify_served(url)
    assert found.faults == ()
    found.require_sound()
    assert (found.pages, found.files) == (7, 3)
    # Seven pages, three sizes, the METADATA of two wheels.
    assert found.requests == len(requests) == 12


def test_the_index_of_a_set_is_sound(store: LocalStore, url: str) -> None:
    for digest in store.folders("sets/"):
        assert verify_served(f"{url.removesuffix(PREFIX)}sets/{digest}").faults == ()


def test_only_some_files_are_asked_for(url: str, requests: list[str]) -> None:
    assert verify_served(url, names={TORCH}).files == 1
    assert sum("/files/" in path for path in requests) == 2


def test_a_file_that_is_not_there(store: LocalStore, url: str) -> None:
    key = key_of(store, TORCH)
    store.delete(key)
    assert (key.replace("+", "%2B"), "is linked to, but not there (404)") in faults(url)
    with pytest.raises(IntegrityError, match="not there"):
        verify_served(url).require_sound()


def test_a_file_cut_short(store: LocalStore, url: str) -> None:
    key = key_of(store, TORCH)
    size = len(store.read(key))
    (store.root / key).unlink()
    (store.root / key).write_bytes(b"x" * (size - 1))
    assert faults(url) == [
        (key.replace("+", "%2B"), f"has {size - 1:,} bytes, the page says {size:,}"),
    ]


def test_metadata_that_is_another_or_missing(store: LocalStore, url: str) -> None:
    key = key_of(store, f"{TORCH}.metadata")
    shown = key.replace("+", "%2B")
    store.put_bytes(key, b"Name: torch\n", overwrite=True)
    assert faults(url) == [(shown, "is not the METADATA that the page names")]
    store.delete(key)
    assert faults(url) == [(shown, "is promised, but not there (404)")]


def test_pages_that_disagree(store: LocalStore, url: str) -> None:
    edit(store, "torch/index.html", "&gt;=3.10", "&gt;=3.11")
    what = "differs from the HTML page about {}, or only one of them has it"
    assert faults(url) == [
        ("v2/fam/_json/torch/", what.format(name)) for name in ("torch-2.8.0-py3-none-any.whl", TORCH)
    ]


def test_a_page_that_is_not_there(store: LocalStore, url: str) -> None:
    store.delete(f"{PREFIX}_json/torch/index.html")
    found = faults(url)
    assert found[0] == ("v2/fam/_json/torch/", "is not there (404)")
    assert len(found) == 3, "and it lacks both files that the HTML page has"


def test_roots_that_disagree(store: LocalStore, url: str) -> None:
    edit(store, "index.html", '<a href="rocm/">rocm</a><br>\n', "")
    assert faults(url) == [("v2/fam/", "does not list rocm")]


def test_a_flat_page_of_another_day(store: LocalStore, url: str) -> None:
    edit(store, "_flat/index.html", TORCH.replace("+", "%2B"), "torch-2.7-py3-none-any.whl")
    assert [where for where, _ in faults(url)] == ["v2/fam/_flat/"] * 2


def test_a_page_that_is_no_page(store: LocalStore, url: str) -> None:
    store.put_bytes(f"{PREFIX}_json/rocm/index.html", b"<html>oops", overwrite=True)
    assert any(where == "v2/fam/_json/rocm/" for where, _ in faults(url))


def test_no_index_and_no_address(url: str) -> None:
    with pytest.raises(Unreachable):
        verify_served(f"{url}nothing/")
    with pytest.raises(UsageError, match="not a web address"):
        verify_served("v2/fam/")


@pytest.fixture
def foreign(tmp_path: Path, make_wheel: Callable[..., Path]) -> Iterator[str]:
    """The address of an index by hand: HTML pages (PEP 503), wheels with hashes, nothing else."""
    folder = tmp_path / "foreign"
    links = {}
    for project in ("torch", "torchvision"):
        wheel = make_wheel(project, "1.0")
        place = folder / "simple" / project
        place.mkdir(parents=True)
        (place / wheel.name).write_bytes(wheel.read_bytes())
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        links[project] = f'<a href="{wheel.name}#sha256={digest}">{wheel.name}</a>'
        (place / "index.html").write_text(f"<!DOCTYPE html><html><body>{links[project]}</body></html>")
    anchors = "".join(f'<a href="{project}/">{project}</a>' for project in links)
    (folder / "simple" / "index.html").write_text(f"<!DOCTYPE html><html><body>{anchors}</body></html>")
    with plain_server(folder) as base:
        yield f"{base}simple/"


@contextmanager
def plain_server(folder: Path) -> Iterator[str]:
    """Python's own server of files, which knows nothing of indexes."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_a_foreign_index_lacks_nothing_for_having_html_only(
    foreign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    assert run(foreign) == 0
    said = capsys.readouterr()
    assert said.out == "2 files on 3 pages; faults: 0\n"
    assert "only HTML pages were checked" in said.err
    [wheel] = (tmp_path / "foreign/simple/torch").glob("*.whl")
    wheel.unlink()
    assert run(foreign) == 6
    assert "is linked to, but not there (404)\n2 files on 3 pages; faults: 1\n" in capsys.readouterr().out
    # One page of links, as --find-links takes it, is looked at, too; a page about something else is no index.
    assert verify_served(f"{foreign}torchvision/").files == 1
    (tmp_path / "foreign/index.html").write_text("<p>It works!")
    [fault] = verify_served(foreign.removesuffix("simple/")).faults
    assert fault.what == "links to no project and no file"


def test_what_a_store_of_ours_lacks_is_a_fault(store: LocalStore, url: str) -> None:
    for key in [one.key for one in store.list(PREFIX) if "/_json/" in one.key or "/_flat/" in one.key]:
        store.delete(key)
    assert verify_served(url).faults == ()
    assert {one.what for one in verify_served(url, own=True).faults} >= {"is not there (404)"}


def run(*words: object) -> int:
    return status("store", "verify", *words)


def test_the_command_looks_at_a_store_or_an_address(
    store: LocalStore,
    url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    assert run(PREFIX, "--store", store.root) == 0
    assert capsys.readouterr().out == "3 files on 7 pages; faults: 0\n"
    assert run(url, "--json") == 0
    assert json.loads(capsys.readouterr().out)["faults"] == []
    store.delete(key_of(store, TORCH))
    assert run(PREFIX, "--store", store.root) == 6
    said = capsys.readouterr()
    assert "is linked to, but not there (404)\n3 files on 7 pages; faults: 1\n" in said.out
    assert "error (IntegrityError): 1 fault in the index at " in said.err
    assert len(said.err.splitlines()) == 2
    assert run("v2/nothing/", "--store", store.root) == 5
