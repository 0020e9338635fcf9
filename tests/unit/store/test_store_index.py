from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from rocwright.model.manifest import FileEntry
from rocwright.store.index import dependency_order, find_links_page, project_page, root_page, simple_pages

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


def test_a_link_carries_digest_python_and_metadata() -> None:
    [link] = Anchors(project_page("torch", [TORCH])).found
    assert link == {
        "href": f"../torch-2.9.0%2Brocm7.1-cp311-cp311-linux_x86_64.whl#sha256={'a' * 64}",
        "data-requires-python": '>=3.10,<"4"',
        "data-dist-info-metadata": f"sha256={'b' * 64}",
        "data-core-metadata": f"sha256={'b' * 64}",
    }


def test_python_requirement_is_escaped_in_the_text() -> None:
    assert 'data-requires-python="&gt;=3.10,&lt;&quot;4&quot;"' in project_page("torch", [TORCH])


def test_links_resolve_to_the_file_beside_the_project_folder() -> None:
    [link] = Anchors(project_page("torch", [TORCH])).found
    address = urljoin("http://host/v2/family/torch/", link["href"])
    assert unquote(urlsplit(address).path) == f"/v2/family/{TORCH.name}"
    [flat] = Anchors(find_links_page([TORCH], title="run")).found
    assert unquote(urlsplit(urljoin("http://host/run/index.html", flat["href"])).path) == f"/run/{TORCH.name}"


def test_an_sdist_promises_no_metadata() -> None:
    [link] = Anchors(project_page("rocm", [ROCM])).found
    assert set(link) == {"href"}


def test_pages_do_not_depend_on_the_order_of_their_input() -> None:
    files = [TORCH, OLD, ROCM, CORE]
    assert simple_pages(files) == simple_pages(files[::-1])
    assert list(simple_pages(files)) == list(simple_pages(files[::-1]))
    names = [unquote(link["href"] or "") for link in Anchors(project_page("torch", files)).found]
    # 2.10 is newer than 2.9, although its text sorts before.
    assert [name.split("#")[0] for name in names] == [f"../{TORCH.name}", f"../{OLD.name}"]


def test_root_lists_normalised_names_once() -> None:
    assert [
        link["href"] for link in Anchors(root_page(["Rocm_SDK.core", "torch", "rocm-sdk-core"])).found
    ] == [
        "rocm-sdk-core/",
        "torch/",
    ]


def test_pages_are_published_behind_what_they_depend_on_and_the_root_last() -> None:
    assert list(simple_pages([TORCH, ROCM, CORE])) == [
        "rocm-sdk-core/index.html",
        "rocm/index.html",
        "torch/index.html",
        "index.html",
    ]


def test_a_cycle_of_dependencies_ends() -> None:
    one = FileEntry("a-1.tar.gz", "a" * 64, 1, "a", "1", None, None, ("b",))
    two = FileEntry("b-1.tar.gz", "b" * 64, 1, "b", "1", None, None, ("a", "elsewhere"))
    assert dependency_order([one, two]) == ["b", "a"]


def test_titles_are_escaped() -> None:
    assert "<title>a&lt;b</title>" in find_links_page([], title="a<b")


def test_no_page_names_a_place_on_this_machine(tmp_path: Path) -> None:
    assert str(tmp_path) not in "".join(simple_pages([TORCH]).values())
