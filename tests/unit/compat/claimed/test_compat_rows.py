"""Rows of the compatibility data equal the document's: none missing, none added, links and notes kept."""

from __future__ import annotations

import re

import msgspec
import pytest

from rocwright.compat.claimed.facts import load_facts
from rocwright.compat.claimed.render import exported, markup_of, page_markdown, page_rst
from unit.compat.claimed.compat_rows import FEATURES, rows

FACTS = load_facts()
PAGE = FACTS.page
RST = page_rst(FACTS)
# Also without line breaks: names may stand at the end of a line.
FLAT = re.sub(r"\s+", " ", RST)


def test_the_list_is_whole() -> None:
    assert [len(rows(kind)) for kind in ("AL", "AD", "AM", "AO", "CO")] == [20, 22, 8, 43, 8]


def test_libraries_are_the_documents_in_its_order_with_link_and_version_reference() -> None:
    wanted = [re.fullmatch(r"(.+) (https://\S+) (.+ rocm_version)", row.item) for row in rows("AL")]
    assert [(row.name, row.address) for row in FACTS.libraries.library] == [
        (match[1], match[2]) for match in wanted if match
    ]
    for match in filter(None, wanted):
        assert f"    * - `{match[1]} <{match[2]}>`__\n      - :version-ref:`{match[3]}`\n" in RST
    assert all(row.purpose and row.users for row in FACTS.libraries.library)


def test_data_types_are_the_documents_in_its_order() -> None:
    wanted = []
    for row in rows("AD"):
        text, unsupported, _ = row.fact.partition(" (not natively supported in ROCm)")
        wanted.append((tuple(row.item.split(" = ")), text, not unsupported))
    assert [((row.name, *row.aliases), row.text, row.native) for row in PAGE.data_type] == wanted


def test_the_unsigned_note_is_kept_and_says_which_types_it_is_about() -> None:
    # "Unsigned types, except uint8, have limited support in eager mode"; for torch.compile.
    assert {row.name for row in PAGE.data_type if row.eager == "limited"} == {
        "torch.uint16",
        "torch.uint32",
        "torch.uint64",
    }
    note = RST.partition(".. note::")[2]
    for name in ("``uint8``", "``torch.compile``", "eager mode", "<rocm:reference/precision-support>`"):
        assert name in note


def test_domain_libraries_are_the_documents_in_its_order() -> None:
    assert [f"{row.name} {row.address}" for row in PAGE.domain] == [row.item for row in rows("AM")]


@pytest.mark.parametrize(
    ("name", "release", "note"),
    [
        ("torchaudio", "", "`.to('cuda')`"),
        ("torchtune", "only", "official releases only"),
        ("torchvision", "", ""),
        ("torchdata", "beta", "beta"),
        ("torchrec", "", "no kernels of its own for ROCm"),
        ("torchserve", "ended", "last official release came with PyTorch 2.4"),
        ("torchrl", "only", "official releases only"),
        ("tensordict", "only", "official releases only"),
    ],
)
def test_notes_of_domain_libraries_are_kept(name: str, release: str, note: str) -> None:
    row = next(row for row in PAGE.domain if row.name == name)
    assert row.release == release
    assert note in row.note and bool(note) == bool(row.note)


@pytest.mark.parametrize("row", rows("AO"), ids=lambda row: row.id)
def test_names_are_spelled_as_in_pytorch(row) -> None:
    assert f"``{row.item}``" in FLAT or f"`{row.item} <" in FLAT
    markdown = page_markdown(FACTS, markup_of(FACTS, "latest"))
    assert f"`{row.item}`" in markdown or f"[{row.item}](" in markdown


def test_lists_of_features_have_all_rows_of_the_document() -> None:
    assert [len(words) for words in FEATURES.values()] == [10, 3, 13]
    assert [row.id for row in FACTS.features.list] == list(FEATURES)
    for name, wanted in FEATURES.items():
        found = [row.text for row in FACTS.features.feature if row.list == name]
        assert len(found) == len(wanted)
        for text, words in zip(found, wanted, strict=True):
            assert [word for word in words if word not in text] == []


def test_known_issues_are_the_documents() -> None:
    (row,) = [row for row in rows("CO") if row.id == "CO-06"]
    # The others are those of release notes.
    own = [issue for issue in PAGE.issue if not issue.sources]
    assert sorted(name for issue in own for name in issue.names) == sorted(re.findall(r"`([^`]+)`", row.item))
    assert {(issue.module, issue.torch, issue.rocm) for issue in own} == {
        ("torch.backends.cuda", ("2.7", "2.8"), ("7.0", "7.1"))
    }


def test_docker_images_are_quarterly_and_tested() -> None:
    found = PAGE.docker
    assert (found.image, found.released, found.tested) == ("rocm/pytorch", "quarterly", True)
    assert found.tags == "https://hub.docker.com/r/rocm/pytorch/tags"


def test_use_cases_lead_where_the_documents_do() -> None:
    assert [row.address for row in PAGE.use_case] == [
        "doc::/how-to/rocm-for-ai/training/benchmark-docker/pytorch-training",
        "doc::/how-to/rocm-for-ai/fine-tuning/single-gpu-fine-tuning-and-inference",
        "doc::/how-to/rocm-for-ai/fine-tuning/multi-gpu-fine-tuning-and-inference",
        "doc::/how-to/rocm-for-ai/inference-optimization/workload",
        "doc::/conceptual/ai-pytorch-inception",
        "https://rocm.blogs.amd.com/blog/tag/pytorch.html",
    ]


@pytest.mark.parametrize(
    "address",
    [
        "https://pytorch.org/",
        "https://github.com/ROCm/MIOpen",
        "https://github.com/ROCm/rccl",
        "https://github.com/ROCm/pytorch",
        "https://github.com/pytorch/pytorch",
        "https://pytorch.org/get-started/locally/",
        "https://pytorch.org/get-started/previous-versions/",
        "https://pytorch.org/docs/stable/tensors.html",
        "https://pytorch.org/docs/stable/index.html",
        "https://pytorch.org/domains/",
        "rocm-install-on-linux:install/3rd-party/pytorch-install",
        "rocm-install-on-linux:pytorch-docker-support",
        "hipify:index",
    ],
)
def test_links_of_the_document_are_kept(address: str) -> None:
    assert f"<{address}>`" in RST


def test_what_is_built_is_as_the_readme_says() -> None:
    assert [(row.name, row.linux, row.windows) for row in PAGE.status] == [
        ("torch", "supported", "supported"),
        ("torchaudio", "supported", "supported"),
        ("torchvision", "supported", "supported"),
        ("apex", "supported", "not supported"),
        ("torchcodec", "not supported", "not supported"),
        ("Flash attention via [ao]triton", "supported", "supported"),
        ("triton", "supported", "in progress"),
        ("FBGEMM GenAI", "supported", "not supported"),
        # As of 2025-12-17, for PyTorch up to 2.10.
        ("FBGEMM GenAI", "not supported", "not supported"),
    ]
    previously = ("previously built", "previously built", "")
    assert [(row.name, row.linux, row.windows, row.ref) for row in PAGE.torch] == [
        ("2.14", "supported", "supported", "release/2.14"),
        ("2.13", "supported", "supported", "release/2.13"),
        ("2.13 alpha", "supported", "supported", "nightly"),
        ("2.12", "supported", "supported", "release/2.12"),
        ("2.12 alpha", *previously),
        ("2.11", *previously),
        ("2.11 alpha", *previously),
        ("2.10", *previously),
        ("2.10 alpha", *previously),
        ("2.9", "previously built", "previously built", "release/2.9"),
        ("2.9 alpha", *previously),
        # As of 2025-12-17.
        ("2.8", "supported", "unsupported", "release/2.8"),
        ("2.7", "previously built", "unsupported", "release/2.7"),
    ]


# Read by hand off the table of RELEASES.md in ROCm/TheRock, 2026-08-22.
@pytest.mark.parametrize(
    ("torch", "audio", "vision", "apex"),
    [
        ("2.14", "2.11", "0.29", "1.14"),
        ("2.13", "2.11", "0.28", "1.13"),
        ("2.12", "2.11", "0.27", "1.12"),
        ("2.11", "2.11", "0.26", "1.11"),
    ],
)
def test_versions_that_go_with_one_of_pytorch_are_the_documents(
    torch: str, audio: str, vision: str, apex: str
) -> None:
    (row,) = [row for row in PAGE.torch if row.name == torch]
    assert row.versions == {"torchaudio": audio, "torchvision": vision, "apex": apex}


# Read by hand: for 6.x off another page than the built-in table was taken from, the matrix as of ROCm 6.3.1
# (github.com/ROCm/ROCm, docs/compatibility/compatibility-matrix.rst); for 5.2.3 off ROCm's changelog.
@pytest.mark.parametrize(
    ("rocm", "versions"),
    [
        ("6.3.1", {"MIGraphX": "2.11.0", "RCCL": "2.21.5", "hipRAND": "2.11.1", "rocJPEG": "0.6.0"}),
        ("6.3.0", {"hipRAND": "2.11.0", "hipBLASLt": "0.10.0", "RPP": "1.9.1", "rocDecode": "0.8.0"}),
        ("6.2.0", {"rocAL": "1.0.0", "hipFFT": "1.0.14", "rocThrust": "3.0.1", "hipTensor": "1.3.0"}),
        ("5.2.3", {"hipBLAS": "0.51.0", "RCCL": "2.12.10", "rocWMMA": "0.7", "rocThrust": "2.15.0"}),
    ],
)
def test_versions_agree_with_other_pages(rocm: str, versions: dict[str, str]) -> None:
    found = FACTS.release(rocm)
    assert {name: found.versions[name] for name in versions} == versions
    assert found.source.startswith("https://rocm.docs.amd.com/")


# Whole columns, read by hand off the pages of three releases: the matrix as of ROCm 7.2.4, 7.1.1 and 6.3.1.
COLUMNS = {
    "7.2.4": """1.2.0 3.2.0 1.2.2 4.2.0 1.0.22 3.1.0 3.2.0 4.2.0 0.2.6 2.2.0
                3.5.1 2.15.0 3.5.0 2.5.0 2.27.7 1.7.0 1.4.0 2.2.1 4.2.0 2.2.0""",
    "7.1.1": """1.1.0 3.1.0 1.1.0 4.1.0 1.0.21 3.1.0 3.1.0 4.1.0 0.2.5 2.0.0
                3.5.1 2.14.0 3.4.0 2.4.0 2.27.7 1.4.0 1.2.0 2.1.0 4.1.0 2.1.0""",
    "6.3.1": """1.1.0 2.3.0 0.10.0 3.3.0 1.0.17 2.11.1 2.3.0 3.1.2 0.2.2 1.4.0
                3.3.0 2.11.0 3.1.0 2.1.0 2.21.5 0.8.0 0.6.0 1.9.1 3.3.0 1.6.0""",
}


@pytest.mark.parametrize("rocm", COLUMNS)
def test_whole_columns_agree_with_the_pages(rocm: str) -> None:
    found = FACTS.release(rocm).versions
    assert [found[row.name] for row in FACTS.libraries.library] == COLUMNS[rocm].split()


# ROCm 10.1.0, read by hand: its changelogs have twelve of them, its table of frameworks MIGraphX.
NEWEST = {
    "Composable Kernel": "1.3.0",
    "hipBLAS": "3.7.0",
    "hipCUB": "4.7.0",
    "hipFFT": "1.0.26",
    "hipSOLVER": "3.7.0",
    "hipSPARSE": "4.8.0",
    "MIOpen": "3.6.1",
    "MIGraphX": "2.18",
    "RCCL": "2.30.7",
    "rocDecode": "1.10.0",
    "rocJPEG": "1.9.0",
    "RPP": "3.2.0",
    "rocThrust": "4.7.0",
}


def test_what_no_source_says_is_empty_and_what_is_not_there_is_said() -> None:
    assert FACTS.release("6.2.0").absent == ("rocJPEG",)
    old = FACTS.release("5.2.3")
    # The changelog lists eight of them, and says nothing of the others.
    assert len(old.versions) == 8 and old.absent == () and "MIOpen" not in old.versions
    newest = FACTS.release("latest")
    assert newest.rocm == "10.1.0" and newest.absent == ()
    assert newest.versions == NEWEST


# Days of releases, read by hand off ROCm's release history (docs-10.1.0/release/versions.html).
@pytest.mark.parametrize(
    ("rocm", "day"),
    [("10.1.0", "2026-10-05"), ("10.0.0", "2026-08-26"), ("7.14.0", "2026-07-15"), ("7.2.4", "2026-05-29")]
    + [("7.2.0", "2026-01-21"), ("7.1.1", "2025-11-26"), ("6.1.5", "2025-03-13"), ("6.0.0", "2023-12-15")],
)
def test_a_release_has_the_day_it_came_out(rocm: str, day: str) -> None:
    assert FACTS.release(rocm).date == day


# Read by hand off the components of the release notes of two releases.
@pytest.mark.parametrize(
    ("rocm", "versions"),
    [
        (
            "10.0.0",
            """1.2.0 3.6.0 1.4.1 4.6.0 1.0.25 3.4.0 3.6.0 4.7.0 0.2.9 -
               3.6.0 2.17 - - 2.30.7 1.9.0 1.7.0 - 4.6.0 2.2.1""",
        ),
        (
            "7.14.0",
            """1.2.0 3.5.0 1.4.1 4.5.0 1.0.24 3.4.0 3.5.0 4.6.0 0.2.9 -
               3.5.2 2.16 - - 2.30.4 1.8.0 1.6.0 - 4.5.0 2.2.1""",
        ),
    ],
)
def test_components_agree_with_the_release_notes(rocm: str, versions: str) -> None:
    found = FACTS.release(rocm).versions
    assert [found.get(row.name, "-") for row in FACTS.libraries.library] == versions.split()


def test_json_holds_every_row() -> None:
    shown = msgspec.json.decode(msgspec.json.encode(exported(FACTS, "", "latest")))
    lengths = {name: len(shown[name]) for name in ("libraries", "data_types", "domain_libraries", "features")}
    assert lengths == {"libraries": 20, "data_types": 22, "domain_libraries": 8, "features": 26}
    assert {"page", "overview", "use_cases", "docker", "issues", "releases", "status", "statements"} <= set(
        shown
    )


def test_no_sentence_is_longer_than_a_table_can_show() -> None:
    assert max(len(row.text) for row in FACTS.features.feature) < 300
