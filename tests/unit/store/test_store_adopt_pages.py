from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocwright.errors import InvalidData, InvalidInput
from rocwright.store.adopt.fetch import Fetcher
from rocwright.store.adopt.offered import Link, Offered, OfferedFiles
from rocwright.store.adopt.pages import parse_page, read_folder
from rocwright.store.layout import file_key
from rocwright.store.objects.local import LocalStore
from rocwright.store.sets.records import recordable
from rocwright.system.http import Web

URL = "https://packages.example/simple/torch/"
DIGEST = "ab" * 32
OTHER = "cd" * 32
HTML = "text/html"
JSON = "application/vnd.pypi.simple.v1+json"


def page(text: str, content_type: str = HTML, url: str = URL):
    return parse_page(text.encode(), content_type, url, Web().enter)


def test_what_an_anchor_says() -> None:
    [link] = page(
        f'<a href="../../files/torch-2.9%2Brocm7.1-py3-none-any.whl#sha256={DIGEST.upper()}"'
        f' data-requires-python="&gt;=3.10" data-core-metadata="sha256={OTHER}" data-yanked="broken">x</a>'
    ).files
    assert link == Link(
        name="torch-2.9+rocm7.1-py3-none-any.whl",
        url="https://packages.example/files/torch-2.9%2Brocm7.1-py3-none-any.whl",
        sha256=DIGEST,
        requires_python=">=3.10",
        metadata=OTHER,
        yanked="broken",
    )


def test_older_and_missing_attributes() -> None:
    old, bare, refused = page(
        '<a href="a-1-py3-none-any.whl" data-dist-info-metadata="true">a</a>'
        f'<a href="b-1-py3-none-any.whl#md5={"0" * 32}" data-yanked>b</a>'
        '<a href="c-1.tar.gz" data-core-metadata="false">c</a>'
    ).files
    assert (old.metadata, old.sha256, old.yanked) == (True, None, None)
    assert (bare.metadata, bare.sha256, bare.yanked) == (False, None, "")
    assert refused.metadata is False


def test_the_base_of_a_page_counts_once() -> None:
    text = '<base href="/mirror/"><base href="/no/"><a href="a-1-py3-none-any.whl">a</a>'
    assert page(text).files[0].url == "https://packages.example/mirror/a-1-py3-none-any.whl"


def test_the_same_as_json() -> None:
    value = {
        "meta": {"api-version": "1.3", "unknown": 1},
        "files": [
            {
                "filename": "torch-2.9+rocm7.1-py3-none-any.whl",
                "url": "../../files/torch-2.9%2Brocm7.1-py3-none-any.whl",
                "hashes": {"sha256": DIGEST, "md5": "0"},
                "size": 17,
                "requires-python": ">=3.10",
                "core-metadata": {"sha256": OTHER},
                "yanked": "broken",
            },
            {"filename": "a-1.tar.gz", "url": "https://x.example/a-1.tar.gz", "hashes": {}, "yanked": True},
            {"filename": 1, "url": "x"},
            {"filename": "b-1.tar.gz", "url": "file:///etc/passwd", "hashes": {}},
        ],
    }
    found = page(json.dumps(value), JSON)
    first, second = found.files
    assert (first.size, first.sha256, first.metadata, first.yanked) == (17, DIGEST, OTHER, "broken")
    assert first.url == "https://packages.example/files/torch-2.9%2Brocm7.1-py3-none-any.whl"
    assert (second.size, second.sha256, second.yanked) == (None, None, "")
    assert len(found.notes) == 2


def test_projects_of_a_root_page() -> None:
    root = "https://packages.example/simple/"
    text = (
        '<a href="Torch_Vision/">x</a><a href="/simple/rocm/">x</a><a href="../">up</a><a href="#top">t</a>'
        '<a href="https://docs.example/rocm/">help</a><a href="/simple/triton/index.html">t</a>'
        '<a href="&lt;script&gt;/">s</a><a href="http://[/">bad</a>'
    )
    found = page(text, url=root)
    assert found.projects == {
        "torch-vision": f"{root}Torch_Vision/",
        "rocm": f"{root}rocm/",
        "triton": f"{root}triton/index.html",
    }
    assert found.files == ()
    listed = {"meta": {"api-version": "1.0"}, "projects": [{"name": "Torch_Vision"}, {"name": "<b>"}, 7]}
    found = page(json.dumps(listed), JSON, url=root)
    assert found.projects == {"torch-vision": f"{root}torch-vision/"}
    assert len(found.notes) == 2


@pytest.mark.parametrize("said", [HTML, "application/json", "text/plain", "application/octet-stream", ""])
def test_a_content_type_that_lies_is_found_out(said: str) -> None:
    html = page('\n <a href="a-1-py3-none-any.whl">a</a>', said)
    as_json = page('{"meta": {"api-version": "1.0"}, "files": []}', said)
    assert [link.name for link in html.files] == ["a-1-py3-none-any.whl"]
    lies = [one for one in (html, as_json) if any("installers believe it" in note for note in one.notes)]
    assert len(lies) == 1
    assert (html in lies) == (said == "application/json")


def test_a_login_on_a_page_goes_into_no_link() -> None:
    [link] = page('<a href="https://user:secret@files.example/a-1-py3-none-any.whl">a</a>').files
    assert link.url == "https://files.example/a-1-py3-none-any.whl"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is no"),
        ("[]", "not a page of an index"),
        ('{"files": {}}', "no list of files"),
        ('{"meta": {"api-version": "2.0"}}', "version 2.0"),
        ('<meta name="pypi:repository-version" content="2.1"><a href="x/">x</a>', "version 2.1"),
        ("not found", "neither HTML nor JSON"),
    ],
)
def test_what_is_no_page(text: str, what: str) -> None:
    with pytest.raises(InvalidData, match=what):
        page(text)


def test_names_that_no_store_can_take_are_left_out() -> None:
    gathered = OfferedFiles()
    gathered.add(
        Link(name, f"https://x.example/{name}")
        for name in (
            "a-1-py3-none-any.whl",
            "<script>-1-py3-none-any.whl",
            "..-1.tar.gz",
            "a b-1.tar.gz",
            "a-one-py3-none-any.whl",
            "noversion.tar.gz",
        )
    )
    assert list(gathered.files) == ["a-1-py3-none-any.whl"]
    assert len(gathered.notes) == 5
    gathered.add([Link("b-1.tar.gz", "u", sha256=DIGEST), Link("b-1.tar.gz", "v", sha256=OTHER)])
    assert "twice with different sha256" in gathered.notes[-1]


@pytest.mark.parametrize(
    "text", ["ftp://x.example/", "x.example", "https://", "http://x:99999/", "file:///x"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(InvalidInput, match="address"):
        Web().enter(text)


@pytest.mark.parametrize(
    ("url", "recorded"),
    [
        ("https://u:p@x.example/a%2B1.whl", "https://x.example/a%2B1.whl"),
        ("https://x.example/a.whl?versionId=7", "https://x.example/a.whl?versionId=7"),
        ("https://x.example/a.whl?X-Amz-Date=1&X-Amz-Signature=abc", "https://x.example/a.whl"),
        ("https://x.example/a.whl?token=abc", "https://x.example/a.whl"),
    ],
)
def test_only_what_anybody_may_know_of_an_address_is_recorded(url: str, recorded: str) -> None:
    assert recordable(url) == recorded


def test_a_query_of_a_page_is_told_to_nobody() -> None:
    with pytest.raises(InvalidData) as refused:
        page("{", url=f"{URL}?token=abcdef")
    assert "abcdef" not in str(refused.value)
    assert "abcdef" not in page("<a>", JSON, url=f"{URL}?token=abcdef").notes[0]


# ---- where a file comes from ----


class Offering:
    """A web of one folder, that writes down what is fetched from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fetched: list[str] = []

    def save(self, url: str, path: Path, *, sha256: str | None = None) -> str:
        name = url.rpartition("/")[2]
        self.fetched.append(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.folder / name, path)
        return sha256 or ""


class Going(LocalStore):
    """A store of which somebody deletes what another one has just seen."""

    def exists(self, key: str) -> bool:
        found = super().exists(key)
        if found:
            self.delete(key)
        return found


@pytest.mark.parametrize("how", ["whole", "damaged", "going"])
def test_a_file_that_the_store_has_and_cannot_give_is_still_offered(
    tmp_path: Path, make_wheel: Callable[..., Path], how: str
) -> None:
    wheel = make_wheel("torch", "1")
    store = (Going if how == "going" else LocalStore)(tmp_path / "store")
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    place = store.root / file_key(sha256, wheel.name)
    place.parent.mkdir(parents=True)
    place.write_bytes(b"" if how == "damaged" else wheel.read_bytes())
    offered = Offered(Link(wheel.name, f"https://example.org/{wheel.name}", sha256), "torch", "1")
    web = Offering(wheel.parent)
    fetcher = Fetcher(web, tmp_path / "scratch", pool=store)
    found = fetcher.paths([offered], lambda note: None)
    assert found[wheel.name].read_bytes() == wheel.read_bytes()
    assert fetcher.gone == {}
    assert web.fetched == ([] if how == "whole" else [wheel.name])
    assert [how in ("damaged", "going")] == [any("store's own" in one for one in fetcher.notes)]


def test_a_folder_with_a_percent_sign_in_its_name(tmp_path: Path, make_wheel: Callable[..., Path]) -> None:
    wheel = make_wheel("torch", "1", folder=tmp_path / "a%20b")
    reading = read_folder(wheel.parent)
    [entry] = Fetcher(reading.web, tmp_path / "scratch").entries(reading.catalogue.files["torch"])
    assert entry.name == wheel.name
