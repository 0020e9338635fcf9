"""Addresses of upstream that pages lead to, and a file of PyTorch's that the documents do not name."""

from __future__ import annotations

import msgspec
from markdown_it import MarkdownIt

from conformance.cases import row
from conformance.table import Row
from conformance.world import World
from rocwright.pipeline.tell import reproduce as reports

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
