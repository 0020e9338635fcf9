"""What the documents link to: anchors and addresses in pages of this project, and of upstream."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import msgspec
from docutils import nodes
from markdown_it import MarkdownIt
from mdit_py_plugins.anchors import anchors_plugin

from conformance.scenes import compatibility
from conformance.table import Row, row
from conformance.world import World
from rocwright.pipeline.tell import reproduce as reports

THEROCK = "https://github.com/ROCm/TheRock"
TESTING = (
    "https://rocm.docs.amd.com/projects/install-on-linux/en/latest/install/3rd-party/pytorch-install.html"
    "#testing-the-pytorch-installation"
)
# Addresses of several rows that stand in cells as one, written out.
SEVERAL = {
    "UR-25": """https://github.com/ROCm/pytorch https://github.com/pytorch/pytorch https://pytorch.org/
        https://pytorch.org/get-started/locally/ https://pytorch.org/get-started/previous-versions/""",
    "UR-26": "https://hub.docker.com/r/rocm/pytorch/tags",
    "UR-27": """https://rocm.blogs.amd.com/blog/tag/pytorch.html https://pytorch.org/domains/
        https://pytorch.org/docs/stable/index.html https://pytorch.org/docs/stable/tensors.html
        https://pytorch.org/tutorials/advanced/cpp_extension.html""",
    "UR-28": """https://docs.pytorch.org/audio/stable/index.html
        https://docs.pytorch.org/vision/stable/index.html https://docs.pytorch.org/rl/stable/index.html
        https://docs.pytorch.org/tensordict/stable/index.html https://docs.pytorch.org/serve/
        https://meta-pytorch.org/torchtune/stable/index.html
        https://meta-pytorch.org/data/beta/index.html#torchdata https://meta-pytorch.org/torchrec/""",
    "UR-29": " ".join(
        f"https://github.com/ROCm/{name}"
        for name in (
            *("composable_kernel", "hipBLAS", "hipBLASLt", "hipCUB", "hipFFT", "hipRAND", "hipSOLVER"),
            *("hipSPARSE", "hipSPARSELt", "hipTensor", "MIOpen", "AMDMIGraphX", "MIVisionX", "rocAL"),
            *("rccl", "rocDecode", "rocJPEG", "RPP", "rocThrust", "rocWMMA"),
        )
    ),
}
# References of ROCm's Sphinx: whether to a page or to a label, and where they lead.
REFERENCES = {
    ("doc", "rocm-install-on-linux:install/3rd-party/pytorch-install"),
    ("ref", "rocm-install-on-linux:pytorch-docker-support"),
    ("doc", "hipify:index"),
    ("doc", "rocm:reference/precision-support"),
    ("doc", "/how-to/rocm-for-ai/training/benchmark-docker/pytorch-training"),
    ("doc", "/how-to/rocm-for-ai/fine-tuning/single-gpu-fine-tuning-and-inference"),
    ("doc", "/how-to/rocm-for-ai/fine-tuning/multi-gpu-fine-tuning-and-inference"),
    ("doc", "/how-to/rocm-for-ai/inference-optimization/workload"),
    ("doc", "/conceptual/ai-pytorch-inception"),
}


class Page(HTMLParser):
    """What links of a page lead to, what can be linked to in it, and the text of its headings and code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.headings: list[str] = []
        self.codes: list[str] = []
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        self.anchors.add(held.get("id") or "")
        if tag == "a" and held.get("href"):
            self.links.append(str(held["href"]))
        if tag in ("h1", "h2", "h3", "code"):
            self._open = tag
            (self.codes if tag == "code" else self.headings).append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = "" if tag == self._open else self._open

    def handle_data(self, data: str) -> None:
        if self._open:
            (self.codes if self._open == "code" else self.headings)[-1] += data


def site(world: World) -> Path:
    """The documentation of the clone as HTML; whatever Sphinx warns of is an error."""

    def make(place: Path) -> None:
        words = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(world.clone() / "docs")]
        done = subprocess.run([*words, str(place / "html")], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    return world.once("documentation", make) / "html"


def page(world: World, name: str) -> Page:
    """A page of the documentation, or one beside it, as GitHub shows it."""
    root = world.clone()
    if (root / name).is_file():
        return _shown(root / name)
    return _read(site(world) / f"{name}.html")


@cache
def _read(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


@cache
def _shown(path: Path) -> Page:
    markdown = MarkdownIt("commonmark").enable("table").use(anchors_plugin, max_level=3)
    return Page(markdown.render(path.read_text(encoding="utf-8")))


def on_the_page(world: World, *addresses: str) -> None:
    """These addresses are links of the compatibility page, in ROCm's form and in our documentation."""
    found = compatibility.links(compatibility.page(world))
    assert [one for one in addresses if one not in found] == []
    found = page(world, "reference/compatibility").links
    assert [one for one in addresses if one not in found] == []


@row(
    *(f"AU-{number:03}" for number in (*range(1, 10), *range(12, 22), *range(34, 40), *range(57, 69))),
)
def an_address_of_the_compatibility_page_is_a_link_there(world: World, row: Row) -> None:
    on_the_page(world, row.item)


@row(*SEVERAL)
def addresses_of_the_compatibility_page_are_links_there(world: World, row: Row) -> None:
    on_the_page(world, *SEVERAL[row.id].split())


@row("UR-31")
def references_of_sphinx_are_rendered_as_such_and_as_links(world: World, row: Row) -> None:
    tree = compatibility.page(world)
    found = {
        (kind, one.astext().rpartition("<")[2].rstrip(">"))
        for one in tree.findall(nodes.literal)
        for kind in one["classes"]
        if kind in ("doc", "ref")
    }
    assert found == REFERENCES
    # In our documentation, which knows nothing of ROCm's, each leads to ROCm's pages.
    linked = page(world, "reference/compatibility").links
    for _, target in REFERENCES:
        # A label is a place on the page of the installation guide.
        path = target.rpartition(":")[2].strip("/").replace("pytorch-docker-support", "pytorch-install.html")
        assert [one for one in linked if path in one and one.startswith("https://rocm.docs.amd.com/")], target


@row("AU-010", "AU-011", "AU-070", "UR-22", "UR-23", "UR-30")
def an_address_is_a_link_where_it_matters(world: World, row: Row) -> None:
    places = {
        "AU-010": [("reference/compatibility", f"{THEROCK}/issues/2056")],
        "AU-011": [("development/github_actions_debugging", f"{THEROCK}/issues/3177")],
        "UR-30": [("packaging/python_packaging", f"{THEROCK}/actions")],
        "UR-23": [("how-to/test-wheels", TESTING)],
    }
    places |= {"UR-22": [*places["AU-010"], *places["AU-011"]], "AU-070": places["UR-23"]}
    for name, address in places[row.id]:
        assert address in page(world, name).links


@row("FD-01", "FD-02", "FD-33")
def what_the_documents_link_to_in_the_repository_is_there(world: World, row: Row) -> None:
    name, anchor, heading, linked = {
        "FD-01": (
            "RELEASES.md",
            "installing-releases-using-pip",
            "Installing releases using pip",
            "docs/packaging/python_packaging.md",
        ),
        "FD-02": ("packaging/python_packaging", "make-them", "Python packages of ROCm", ""),
        "FD-33": (
            "README.md",
            "building-from-source",
            "Building from source",
            "docs/how-to/build-wheels.md",
        ),
    }[row.id]
    found = page(world, name)
    assert anchor in found.anchors
    assert [one for one in found.headings if one.startswith(heading)]
    assert not linked or linked in found.links


@row("FD-03")
def the_script_that_builds_follow_is_named_and_linked(world: World, row: Row) -> None:
    address = "https://github.com/pytorch/pytorch/blob/main/.ci/manywheel/build_rocm.sh"
    found = page(world, "how-to/build-wheels")
    assert address in found.links and ".ci/manywheel/build_rocm.sh" in found.codes


@row("FD-59", "AG-7")
def what_ci_proves_and_when_a_release_run_is_needed_is_written_down(world: World, row: Row) -> None:
    found = page(world, "development/github_actions_debugging")
    assert "testing-pytorch-release-workflows" in found.anchors
    titles = [one.rstrip("¶") for one in found.headings]
    assert {"Testing PyTorch release workflows", "When a release run is still needed"} <= set(titles)
    if row.id == "AG-7":
        assert "CI workflow reference" in titles
        # Every workflow of the chain is in the reference.
        assert {
            *("ci.yml", "ci_linux.yml", "ci_windows.yml", "test_rocm_wheels.yml", "test_pytorch_wheels.yml"),
            *("build_portable_linux_pytorch_wheels.yml", "build_windows_pytorch_wheels.yml"),
            *("release_portable_linux_pytorch_wheels.yml", "release_windows_pytorch_wheels.yml"),
        } <= set(found.codes)


@row("NM-09")
def what_is_supported_stands_on_a_page_made_of_data(world: World, row: Row) -> None:
    told = compatibility.data(world)["status"]
    # The row is of the end of 2025: of FBGEMM GenAI that one stands beside today's.
    found = {(one["name"], one["torch"]): (one["linux"], one["windows"]) for one in told}
    assert {
        ("torch", ""): ("supported", "supported"),
        ("torchaudio", ""): ("supported", "supported"),
        ("torchvision", ""): ("supported", "supported"),
        ("Flash attention via [ao]triton", ""): ("supported", "supported"),
        ("FBGEMM GenAI", ">=2.7,<2.11"): ("not supported", "not supported"),
        ("FBGEMM GenAI", ">=2.12"): ("supported", "not supported"),
    }.items() <= found.items()
    text = (world.clone() / "docs/reference/compatibility.md").read_text()
    row_of_then = (
        f"| FBGEMM GenAI | >=2.7, <2.11 | not supported | not supported | [issue]({THEROCK}/issues/2056)"
    )
    assert row_of_then in text


UPSTREAM = "https://github.com/pytorch"
# The page of this project that leads there.
LINKS = {
    f"{UPSTREAM}/pytorch#from-source": "docs/explanation/building.md",
    f"{UPSTREAM}/pytorch/blob/main/RELEASE.md": "docs/reference/pytorch-versions.md",
    f"{UPSTREAM}/pytorch/issues/159520": "docs/how-to/build-real-pytorch.md",
    f"{UPSTREAM}/vision/issues/9165": "docs/environment_setup_guide.md",
}


def links(world: World, page: str) -> list[str]:
    """Where the links of a page lead to."""
    tokens = MarkdownIt("commonmark").enable("table").parse((world.clone() / page).read_text())
    children = [child for token in tokens for child in token.children or ()]
    return [str(child.attrs["href"]) for child in children if child.type == "link_open"]


@row("AU-047", "AU-048", "AU-050", "AU-054")
def a_page_leads_there(world: World, row: Row) -> None:
    assert row.item in links(world, LINKS[row.item])


@row("UR-19")
def pages_lead_to_all_three(world: World, row: Row) -> None:
    for address in list(LINKS)[:3]:
        assert address in links(world, LINKS[address])


@row("FD-64")
def requirements_of_ci_are_those_of_the_sources_that_are_tested(world: World, row: Row) -> None:
    index = "https://example.org/v2/gfx110X-all/"
    about = reports.tested(torch="2.9.1", python="3.12", ref="release/2.9", index=index)
    lines = reports.reproduce(about)
    clone = "git clone --branch release/2.9 --origin rocm https://github.com/ROCm/pytorch.git"
    # The file is in the clone that the line before makes.
    assert lines[-2:] == [clone, "pip install -r pytorch/.ci/docker/requirements-ci.txt"]
    # Where there are no sources, or only those of the miniature, nobody is sent for it.
    for none in (msgspec.structs.replace(about, ref=""), msgspec.structs.replace(about, miniature=True)):
        assert not [line for line in reports.reproduce(none) if "requirements-ci" in line]
