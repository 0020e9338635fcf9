from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import msgspec
import pytest

from rocwright.errors import IntegrityError, InvalidData
from rocwright.model.sets import FileEntry, SetManifest, new_set
from rocwright.store.index.listed import (
    ListedFile,
    ListedSet,
    flat_page,
    listed_files,
    project_page,
    root_page,
)
from rocwright.store.index.pages import dependency_order, page_keys, project_json, root_json, view_pages

TORCH = FileEntry(
    "torch-2.9.0+rocm7.1-cp311-cp311-linux_x86_64.whl",
    "a" * 64,
    10,
    "torch",
    "2.9.0+rocm7.1",
    '>=3.10,<"4"',
    "b" * 64,
    ("rocm",),
)
OLD = FileEntry("torch-2.10.0-cp311-cp311-linux_x86_64.whl", "c" * 64, 10, "torch", "2.10.0")
ROCM = FileEntry("rocm-7.1.tar.gz", "d" * 64, 10, "rocm", "7.1", None, None, ("rocm-sdk-core",))
CORE = FileEntry("rocm_sdk_core-7.1-py3-none-linux_x86_64.whl", "e" * 64, 10, "rocm-sdk-core", "7.1")


class Anchors(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.append(dict(attrs))


def pooled(entry: FileEntry, **more: str) -> ListedFile:
    return ListedFile(entry, f"files/{entry.sha256}/{entry.name}", **more)


def a_set(*entries: FileEntry, targets: tuple[str, ...] = ("gfx90a",)) -> SetManifest:
    return new_set(family="fam", targets=targets, platform="linux", files=entries, sources={})


def test_a_link_carries_digest_python_and_metadata() -> None:
    [link] = Anchors(project_page("torch", [pooled(TORCH)], base="../../../")).found
    assert link == {
        "href": f"../../../files/{'a' * 64}/torch-2.9.0%2Brocm7.1-cp311-cp311-linux_x86_64.whl"
        f"#sha256={'a' * 64}",
        "data-requires-python": '>=3.10,<"4"',
        "data-core-metadata": f"sha256={'b' * 64}",
    }


def test_python_requirement_is_escaped_in_the_text() -> None:
    page = project_page("torch", [pooled(TORCH)], base="")
    assert 'data-requires-python="&gt;=3.10,&lt;&quot;4&quot;"' in page


def test_every_link_of_every_page_leads_to_the_pool() -> None:
    pages = view_pages(listed_files([ListedSet(a_set(TORCH, CORE))]), "v2/family/")
    for key in ("v2/family/torch/index.html", "v2/family/_flat/index.html"):
        link = Anchors(pages[key].decode()).found[-1]
        path = unquote(urlsplit(urljoin(f"http://host/some/{key}", link["href"])).path)
        assert path == f"/some/files/{'a' * 64}/{TORCH.name}"
    [file] = json.loads(pages["v2/family/_json/torch/index.html"])["files"]
    path = unquote(urlsplit(urljoin("http://host/some/v2/family/_json/torch/", file["url"])).path)
    assert path == f"/some/files/{'a' * 64}/{TORCH.name}"


def test_an_sdist_promises_no_metadata() -> None:
    [link] = Anchors(project_page("rocm", [pooled(ROCM)], base="")).found
    assert set(link) == {"href"}
    [file] = json.loads(project_json("rocm", [pooled(ROCM)], base=""))["files"]
    assert set(file) == {"filename", "url", "hashes", "size"}


def test_json_says_what_the_standard_names() -> None:
    listed = pooled(TORCH, uploaded="2026-11-22T08:00:00Z", yanked="wrong <kernels>")
    assert json.loads(project_json("torch", [listed, pooled(OLD)], base="../")) == {
        "meta": {"api-version": "1.1"},
        "name": "torch",
        "versions": ["2.9.0+rocm7.1", "2.10.0"],
        "files": [
            {
                "filename": TORCH.name,
                "url": f"../files/{'a' * 64}/torch-2.9.0%2Brocm7.1-cp311-cp311-linux_x86_64.whl",
                "hashes": {"sha256": "a" * 64},
                "size": 10,
                "requires-python": '>=3.10,<"4"',
                "core-metadata": {"sha256": "b" * 64},
                "upload-time": "2026-11-22T08:00:00Z",
                "yanked": "wrong <kernels>",
            },
            {
                "filename": OLD.name,
                "url": f"../files/{'c' * 64}/{OLD.name}",
                "hashes": {"sha256": "c" * 64},
                "size": 10,
            },
        ],
    }
    assert json.loads(root_json(["torch", "rocm"])) == {
        "meta": {"api-version": "1.1"},
        "projects": [{"name": "rocm"}, {"name": "torch"}],
    }


def test_yanked_without_a_reason_is_yanked_all_the_same() -> None:
    listed = pooled(OLD, yanked="")
    [link] = Anchors(project_page("torch", [listed], base="")).found
    assert link["data-yanked"] == ""
    [file] = json.loads(project_json("torch", [listed], base=""))["files"]
    assert file["yanked"] is True


def test_the_flat_page_leaves_out_what_is_yanked() -> None:
    pages = view_pages([pooled(OLD, yanked="bad<br>\nreally <br>\n"), pooled(TORCH)], "v2/f/")
    [link] = Anchors(pages["v2/f/_flat/index.html"].decode()).found
    assert TORCH.sha256 in (link["href"] or "")
    assert "really" not in pages["v2/f/_flat/index.html"].decode()
    assert len(Anchors(pages["v2/f/torch/index.html"].decode()).found) == 2


def test_pages_do_not_depend_on_the_order_of_their_input() -> None:
    files = [pooled(one) for one in (TORCH, OLD, ROCM, CORE)]
    assert list(view_pages(files, "v2/f/").items()) == list(view_pages(files[::-1], "v2/f/").items())
    names = [unquote(link["href"] or "") for link in Anchors(project_page("torch", files[:2], base="")).found]
    # 2.10 is newer than 2.9, although its text sorts before.
    assert [name.rpartition("/")[2].split("#")[0] for name in names] == [TORCH.name, OLD.name]


def test_two_spellings_of_a_version_have_one_order() -> None:
    files = [
        pooled(FileEntry(f"a-{text}-py3-none-any.whl", digit * 64, 1, "a", text))
        for text, digit in (("1.0.0", "1"), ("1.0", "2"), ("1", "3"), ("1.0.post1", "4"), ("1.0rc1", "5"))
    ]
    versions = json.loads(project_json("a", files, base=""))["versions"]
    assert versions == ["1.0rc1", "1", "1.0", "1.0.0", "1.0.post1"]
    assert project_json("a", files[::-1], base="") == project_json("a", files, base="")


@pytest.mark.parametrize(
    ("version", "encoded"),
    [
        ("1!2.0", "a-1%212.0-py3-none-any.whl"),
        ("1.0+rocm7.1.g0", "a-1.0%2Brocm7.1.g0-py3-none-any.whl"),
        ("1.0.post2", "a-1.0.post2-py3-none-any.whl"),
        ("2.0a0", "a-2.0a0-py3-none-any.whl"),
    ],
)
def test_versions_in_addresses(version: str, encoded: str) -> None:
    listed = pooled(FileEntry(f"a-{version}-py3-none-any.whl", "1" * 64, 1, "a", version))
    assert f'/{encoded}#sha256={"1" * 64}"' in project_page("a", [listed], base="")
    [file] = json.loads(project_json("a", [listed], base=""))["files"]
    assert file["url"].endswith(f"/{encoded}")


def test_root_lists_normalised_names_once() -> None:
    assert [
        link["href"] for link in Anchors(root_page(["Rocm_SDK.core", "torch", "rocm-sdk-core"])).found
    ] == [
        "rocm-sdk-core/",
        "torch/",
    ]


def test_pages_are_published_behind_what_they_depend_on_and_the_root_last() -> None:
    order = [
        "rocm-sdk-core/index.html",
        "_json/rocm-sdk-core/index.html",
        "rocm/index.html",
        "_json/rocm/index.html",
        "torch/index.html",
        "_json/torch/index.html",
        "_flat/index.html",
        "index.html",
        "_json/index.html",
    ]
    assert list(view_pages([pooled(one) for one in (TORCH, ROCM, CORE)], "")) == order
    assert list(page_keys([TORCH, ROCM, CORE], "")) == order


def test_a_cycle_of_dependencies_ends() -> None:
    one = FileEntry("a-1.tar.gz", "a" * 64, 1, "a", "1", None, None, ("b",))
    two = FileEntry("b-1.tar.gz", "b" * 64, 1, "b", "1", None, None, ("a", "elsewhere"))
    assert dependency_order([one, two]) == ["b", "a"]


def test_a_chain_of_any_length_has_an_order() -> None:
    chain = [
        FileEntry(f"p{number}-1.tar.gz", "a" * 64, 1, f"p{number}", "1", None, None, (f"p{number + 1}",))
        for number in range(5000)
    ]
    assert dependency_order(chain) == [f"p{number}" for number in range(4999, -1, -1)]


def test_what_two_need_stands_in_front_of_both_once() -> None:
    needs = {"a": ("c", "b"), "b": ("d",), "c": ("d", "b"), "d": ()}
    files = [FileEntry(f"{n}-1.tar.gz", "a" * 64, 1, n, "1", None, None, d) for n, d in needs.items()]
    assert dependency_order(files) == ["d", "b", "c", "a"]


def test_text_of_others_is_escaped() -> None:
    assert "<title>a&lt;b</title>" in flat_page([], title="a<b", base="")
    bad = '"><script>alert(1)</script>'
    listed = pooled(msgspec.structs.replace(TORCH, requires_python=bad), yanked=bad)
    elsewhere = msgspec.structs.replace(listed, apart=f"https://host/{bad}x.whl#sha256=no")
    for page in (
        project_page(bad, [elsewhere], base="../"),
        flat_page([listed, elsewhere], title=bad, base="../"),
    ):
        assert "<script" not in page
        assert Anchors(page).found[-1]["data-yanked"] == bad
    assert Anchors(page).found[-1]["href"] == f"https://host/{bad}x.whl#sha256={'a' * 64}"


@pytest.mark.parametrize("project", ["../torch", "_json", "Torch", "a/b", "a b", "", "töst", '"><b>'])
def test_a_project_that_is_none_gets_no_page(project: str) -> None:
    with pytest.raises(InvalidData, match="normalised name"):
        view_pages([pooled(msgspec.structs.replace(TORCH, project=project))], "v2/f/")


@pytest.mark.parametrize("version", ["", "nightly", "1.0+rocm+x", "1.0-gitdeadbeef"])
def test_a_version_that_is_none_is_named(version: str) -> None:
    with pytest.raises(InvalidData, match="is not a version") as raised:
        view_pages([pooled(msgspec.structs.replace(TORCH, version=version))], "v2/f/")
    assert raised.value.where == TORCH.name


def test_sets_of_several_places_on_one_page() -> None:
    away = ListedSet(a_set(OLD), elsewhere={OLD.name: f"https://host/whl/{OLD.name}"})
    files = listed_files([ListedSet(a_set(TORCH, ROCM)), away])
    links = [link["href"] for link in Anchors(flat_page(files, title="all", base="../")).found]
    assert links == [
        f"../files/{'d' * 64}/{ROCM.name}#sha256={'d' * 64}",
        f"../files/{'a' * 64}/{TORCH.name.replace('+', '%2B')}#sha256={'a' * 64}",
        f"https://host/whl/{OLD.name}#sha256={'c' * 64}",
    ]


def test_a_file_of_two_sets_is_yanked_where_both_are() -> None:
    first = ListedSet(a_set(TORCH), uploaded="2026-11-20T00:00:00Z", yanked="bad")
    second = ListedSet(a_set(TORCH, ROCM), uploaded="2026-11-22T00:00:00Z")
    found = {one.entry.name: one for one in listed_files([second, first])}
    assert (found[TORCH.name].uploaded, found[TORCH.name].yanked) == ("2026-11-20T00:00:00Z", None)
    both = listed_files([first, msgspec.structs.replace(second, yanked="too")])
    assert {one.entry.name: one.yanked for one in both} == {TORCH.name: "bad", ROCM.name: "too"}


def test_one_name_with_two_contents_is_refused() -> None:
    other = msgspec.structs.replace(TORCH, sha256="f" * 64)
    with pytest.raises(IntegrityError, match=r"v2/f/ already lists torch-2\.9"):
        listed_files([ListedSet(a_set(TORCH)), ListedSet(a_set(other))], where="v2/f/")


def test_no_page_names_a_place_on_this_machine(tmp_path: Path) -> None:
    pages = view_pages([pooled(TORCH)], "v2/f/")
    assert str(tmp_path) not in b"".join(pages.values()).decode()
