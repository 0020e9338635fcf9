"""What pages say of provenance (PEP 740), of status (PEP 792) and of where else a project is (PEP 708)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from rocwright.errors import InvalidData, InvalidInput
from rocwright.model.sets import FileEntry, SetManifest, new_set
from rocwright.store.adopt.pages import parse_page
from rocwright.store.index.listed import ListedFile, ListedSet, listed_files
from rocwright.store.index.pages import sealed_view, view_pages
from rocwright.store.index.projects import ProjectFacts, read_facts, save_facts
from rocwright.store.objects.local import LocalStore

JSON_TYPE = "application/vnd.pypi.simple.v1+json"
ROCM = FileEntry("rocm-7.1.tar.gz", "d" * 64, 10, "rocm", "7.1")
TORCH = FileEntry("torch-2.9.0+r7-py3-none-any.whl", "a" * 64, 9, "torch", "2.9.0+r7", ">=3.10", "b" * 64)
# Made by the program as it was before it knew of any of this.
BEFORE = {
    "v2/fam/rocm/index.html": "45b1df2d52ab6af2",
    "v2/fam/_json/rocm/index.html": "e606a65f608dca23",
    "v2/fam/torch/index.html": "ad4fa0881a57785d",
    "v2/fam/_json/torch/index.html": "f62b60bd08dd40bc",
    "v2/fam/_flat/index.html": "6eb8c0e5a6d095aa",
    "v2/fam/index.html": "e861e4c504ea6c22",
    "v2/fam/_json/index.html": "c263d7cb94ed45e4",
}
PLACE = "https://a.example/p%2Bq?a=1&b=2"


def both(**more: str) -> tuple[ListedFile, ...]:
    return (
        ListedFile(ROCM, f"files/{ROCM.sha256}/{ROCM.name}"),
        ListedFile(TORCH, f"files/{TORCH.sha256}/{TORCH.name}", uploaded="2026-01-01T00:00:00Z", **more),
    )


def page(pages: dict[str, bytes], key: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(pages[key])
    return found


def test_pages_of_which_nothing_more_is_said_have_the_bytes_that_they_had() -> None:
    pages = view_pages(both(), "v2/fam/")
    assert {key: hashlib.sha256(data).hexdigest()[:16] for key, data in pages.items()} == BEFORE


def test_provenance_stands_beside_the_file_on_every_page() -> None:
    pages = dict(view_pages(both(provenance=PLACE), "v2/fam/"))
    for key in ("v2/fam/torch/index.html", "v2/fam/_flat/index.html"):
        assert (
            ' data-provenance="https://a.example/p%2Bq?a=1&amp;b=2">torch-2.9.0+r7-py3-none-any.whl</a>'
            in pages[key].decode()
        )
    said = page(pages, "v2/fam/_json/torch/index.html")
    assert said["meta"] == {"api-version": "1.3"}
    assert said["files"][0]["provenance"] == PLACE
    assert b'repository-version" content="1.3"' in pages["v2/fam/torch/index.html"]
    # Only this project says more than before.
    plain = view_pages(both(), "v2/fam/")
    assert {key for key in plain if plain[key] != pages[key]} == {
        "v2/fam/torch/index.html",
        "v2/fam/_json/torch/index.html",
        "v2/fam/_flat/index.html",
    }


def test_a_file_of_two_sets_has_the_provenance_of_either() -> None:
    def one(family: str, **more: object) -> ListedSet:
        manifest: SetManifest = new_set(
            family=family, targets=("gfx90a",), platform="linux", files=(TORCH,), sources={}
        )
        return ListedSet(manifest, **more)

    [file] = listed_files([one("a"), one("b", provenance={TORCH.name: PLACE})])
    assert file.provenance == PLACE


def test_a_project_says_its_status_and_where_else_it_is() -> None:
    facts = ProjectFacts(
        "deprecated", "use <b>", ("https://a.example/torch/",), ("https://b.example/torch/",)
    )
    pages = dict(view_pages(both(), "v2/fam/", {"torch": facts}))
    html = pages["v2/fam/torch/index.html"].decode()
    for line in (
        '<meta name="pypi:repository-version" content="1.4">',
        '<meta name="pypi:tracks" content="https://a.example/torch/">',
        '<meta name="pypi:alternate-locations" content="https://b.example/torch/">',
        '<meta name="pypi:project-status" content="deprecated">',
        '<meta name="pypi:project-status-reason" content="use &lt;b&gt;">',
    ):
        assert f"{line}\n" in html
    said = page(pages, "v2/fam/_json/torch/index.html")
    assert said["meta"] == {"api-version": "1.4", "tracks": ["https://a.example/torch/"]}
    assert said["alternate-locations"] == ["https://b.example/torch/"]
    assert said["project-status"] == {"status": "deprecated", "reason": "use <b>"}
    assert len(said["files"]) == 1
    # The flat page has the file as before: the head of a page is no part of its lines.
    assert pages["v2/fam/_flat/index.html"] == view_pages(both(), "v2/fam/")["v2/fam/_flat/index.html"]


def test_a_project_in_quarantine_offers_no_file_on_any_page() -> None:
    pages = dict(view_pages(both(), "v2/fam/", {"torch": ProjectFacts("quarantined")}))
    said = page(pages, "v2/fam/_json/torch/index.html")
    assert (said["files"], said["versions"]) == ([], [])
    assert said["project-status"] == {"status": "quarantined"}
    assert all(b"torch-2.9.0" not in data for data in pages.values())
    assert b"rocm-7.1.tar.gz" in pages["v2/fam/_flat/index.html"]


def test_our_reader_takes_from_both_forms_what_pages_say() -> None:
    facts = ProjectFacts("archived", "done", ("https://a.example/torch/",), ("https://b.example/torch/",))
    pages = view_pages(both(provenance=PLACE), "v2/fam/", {"torch": facts})
    said = ("it is archived: done", "it tracks https://a.example/torch/", "it is at https://b.example/torch/")
    for key, kind in (("torch/index.html", "text/html"), ("_json/torch/index.html", JSON_TYPE)):
        url = f"https://host/root/v2/fam/{key}"
        found = parse_page(pages[f"v2/fam/{key}"], kind, url, lambda text: text)
        assert found.said == said
        [link] = found.files
        assert link.provenance == PLACE


def test_what_is_said_is_kept_beside_the_log_and_taken_back(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    facts = ProjectFacts("archived", "done")
    assert save_facts(store, "v2/fam/", "torch", facts)
    assert not save_facts(store, "v2/fam/", "torch", facts)
    assert read_facts(store, "v2/fam/") == {"torch": facts}
    assert save_facts(store, "v2/fam/", "torch", ProjectFacts())
    assert read_facts(store, "v2/fam/") == {}


def test_a_page_that_fits_its_seal_is_rendered_when_its_project_gets_a_status(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    manifest = new_set(family="fam", targets=("gfx90a",), platform="linux", files=(ROCM, TORCH), sources={})
    sets = {"1": ListedSet(manifest)}
    first = sealed_view(store, "v2/fam/", sets, {})
    for key, data in first.pages.items():
        store.put_bytes(key, data, overwrite=True)
    assert len(sealed_view(store, "v2/fam/", sets, first.seals).right) == 4
    save_facts(store, "v2/fam/", "torch", ProjectFacts("archived"))
    again = sealed_view(store, "v2/fam/", sets, first.seals)
    assert again.right == {"v2/fam/rocm/index.html", "v2/fam/_json/rocm/index.html"}
    assert b'content="archived"' in again.pages["v2/fam/torch/index.html"]


@pytest.mark.parametrize("url", ["torch", "https://a.example/torch", "file:///a/", "https:///torch/"])
def test_what_is_no_page_of_a_project_is_refused(url: str) -> None:
    with pytest.raises(InvalidData, match="is not the address of a project's page"):
        ProjectFacts(tracks=(url,))


def test_damaged_facts_are_told_by_their_key(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_bytes("v2/fam/_projects.json", b'{"projects": {"torch": {"status": "odd"}}}')
    with pytest.raises(InvalidData, match=r"v2/fam/_projects\.json does not say"):
        read_facts(store, "v2/fam/")
    with pytest.raises(InvalidInput, match="normalised"):
        save_facts(store, "v2/other/", "Torch_", ProjectFacts("archived"))
