"""The compatibility page as `rocwright compat show` renders it, and every row of its document on it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes

from conformance.table import Row, row
from conformance.world import Shell, Transcript, World
from unit.compat.claimed.compat_rows import FEATURES, rows
from unit.compat.claimed.test_compat_page import read_rst
from unit.compat.claimed.test_compat_rows import NEWEST

LIBRARIES, TYPES, DOMAINS = (
    "Key ROCm libraries for PyTorch",
    "Supported data types",
    "Supported domain libraries",
)
# Of each library, what the document says that it is for, and the names of PyTorch that use it.
PURPOSES = {
    "Composable Kernel": "GEMM torch.permute torch.view torch.matmul torch.mm torch.bmm torch.nn.Conv2d "
    "torch.nn.Conv3d torch.nn.MultiheadAttention",
    "hipBLAS": "BLAS",
    "hipBLASLt": "fused torch.matmul torch.mm",
    "hipCUB": "scan torch.sum torch.cumsum torch.sort",
    "hipFFT": "Fourier torch.fft",
    "hipRAND": "Random torch.rand torch.randn torch.nn.Dropout",
    "hipSOLVER": "eigenvalues torch.linalg.solve torch.linalg.eig torch.linalg.svd",
    "hipSPARSE": "sparse torch.sparse",
    "hipSPARSELt": "sparse torch.sparse",
    "hipTensor": "contractions",
    "MIOpen": "convolution torch.nn.Conv2d torch.nn.ReLU torch.nn.LSTM",
    "MIGraphX": "ONNX torch.nn.Conv2d torch.nn.ReLU torch.nn.LSTM",
    "MIVisionX": "vision torch.utils.data torchvision",
    "rocAL": "MIVisionX torch.utils.data torchvision",
    "RCCL": "AllReduce torch.nn.parallel.DistributedDataParallel",
    "rocDecode": "Decodes torch.utils.data torchvision.transforms torch.distributed",
    "rocJPEG": "JPEG torchvision.io.decode_jpeg torchvision.io.encode_jpeg torch.utils.data torchvision",
    "RPP": "Augmentation torch.utils.data torchvision",
    "rocThrust": "C++",
    "rocWMMA": "mixed torch.nn.Linear torch.nn.Conv2d torch.matmul torch.bmm",
}
NOTES = {
    "torchaudio": ".to('cuda')",
    "torchtune": "official releases only",
    "torchvision": "",
    "torchdata": "beta",
    "torchrec": "no kernels of its own for ROCm",
    "torchserve": "last official release came with PyTorch 2.4",
    "torchrl": "official releases only",
    "tensordict": "official releases only",
}
# Where the document names what is not in its table of libraries.
ELSEWHERE = {
    "Supported data types": "torch.int8 torch.uint32 torch.compile",
    "Supported modules": "torch torch.nn torch.cuda torch.backends.cuda torch.backends.cudnn",
    "Supported domain libraries": "torchaudio.transforms torchrec torchvision",
    "Docker image compatibility": "rocm/pytorch",
    "Key features and enhancements for PyTorch 2.8 with ROCm 7.1": "torch.nn.functional."
    "scaled_dot_product_attention",
    "Known issues and notes": "matmul.allow_bf16_reduced_precision_reduction "
    "matmul.allow_fp16_reduced_precision_reduction",
}
LISTS = {
    "2.9/7.1.1": "Key features and enhancements for PyTorch 2.9 with ROCm 7.1.1",
    "2.8/7.1": "Key features and enhancements for PyTorch 2.8 with ROCm 7.1",
    "2.7/7.0": "Key features and enhancements for PyTorch 2.7/2.8 with ROCm 7.0",
}


def shown(world: World) -> Transcript:
    """The page in its forms, two questions that it answers, and the smoke tests of data types, listed."""

    def play(shell: Shell) -> None:
        shell.world.activate(shell)
        shell("cd $HOME")
        # Listing the tests asks torch for nothing but names.
        (shell.home / "names").mkdir()
        (shell.home / "names/torch.py").write_text("def __getattr__(name): return name\n")
        tests = "rocwright/external-builds/pytorch/smoke-tests/test_gpu_types.py"
        shell(f"PYTHONPATH=names python -m pytest --collect-only -q {tests}")
        for form in ("rst", "markdown"):
            shell(f"rocwright compat show --format {form} > page.{form}")
        shell("rocwright compat show --json > page.json")
        for name in ("fp16", "bf16"):
            option = f"torch.backends.cuda.matmul.allow_{name}_reduced_precision_reduction"
            shell(f'rocwright compat query "{option} torch 2.8" > {name}.txt', code=None)

    return world.scene("compatibility", play)


def type_names() -> list[str]:
    """The data types of the document, each with its other names."""
    return [one.item for one in rows("AD")]


@cache
def _tree(path: Path) -> nodes.document:
    return read_rst(path.read_text(encoding="utf-8"))


def page(world: World) -> nodes.document:
    """The page, as docutils reads it; whatever it warns of is an error."""
    return _tree(shown(world).home / "page.rst")


def data(world: World) -> dict[str, Any]:
    """The page's JSON twin."""
    found: dict[str, Any] = json.loads((shown(world).home / "page.json").read_text())
    return found


def links(tree: nodes.Element) -> list[str]:
    """The addresses that lead out of it."""
    return [node["refuri"] for node in tree.findall(nodes.reference) if "refuri" in node]


def section(world: World, title: str) -> nodes.section:
    """The section with this title."""
    (found,) = [one for one in page(world).findall(nodes.section) if one[0].astext() == title]
    return found


def cells(world: World, title: str) -> Iterator[list[nodes.entry]]:
    """The rows of a section's table, without its head."""
    table = next(section(world, title).findall(nodes.table))
    (body,) = table.findall(nodes.tbody)
    for one in body.findall(nodes.row):
        yield list(one.findall(nodes.entry))


def flat(node: nodes.Element) -> str:
    """Its text on one line."""
    return " ".join(node.astext().split())


def _literals(node: nodes.Element) -> list[str]:
    return [one.astext() for one in node.findall(nodes.literal)]


@row(*(f"AL-{number:02}" for number in range(1, 21)))
def a_library_has_its_link_version_purpose_and_users(world: World, row: Row) -> None:
    match = re.fullmatch(r"(.+) (https://\S+) (.+ rocm_version)", row.item)
    assert match is not None
    found = list(cells(world, LIBRARIES))
    name, version, purpose, users = found[int(row.id[3:]) - 1]
    assert (flat(name), links(name)) == (match[1], [match[2]])
    # In ROCm's documentation versions come from the set that the page names.
    assert _literals(version) == [match[3]]
    word, *names = PURPOSES[match[1]].split()
    assert word in flat(purpose) + flat(users)
    assert set(names) <= set(_literals(users)) and flat(purpose) and flat(users)
    # In Markdown and JSON it is the version of the newest release.
    wanted = NEWEST.get(match[1], "")
    assert data(world)["versions"]["versions"].get(match[1], "") == wanted
    lines = (shown(world).home / "page.markdown").read_text().splitlines()
    assert [line for line in lines if line.startswith(f"| [{match[1]}]({match[2]}) | {wanted} | ")]


def data_type_has_its_names_and_description(world: World, row: Row) -> None:
    """Row AD on the page; what a torch makes of it is another scene."""
    name, text = list(cells(world, TYPES))[int(row.id[3:]) - 1]
    names = row.item.split(" = ")
    described, foreign, _ = row.expectation.partition(" (not natively supported in ROCm)")
    assert _literals(name) == names
    assert flat(text) == described + ("; not natively supported in ROCm" if foreign else "")
    (told,) = [one for one in data(world)["data_types"] if one["name"] == names[0]]
    assert (told["aliases"], told["native"]) == (names[1:], not foreign)


@row(*(f"AM-{number:02}" for number in range(1, 9)))
def a_domain_library_has_its_link_and_note(world: World, row: Row) -> None:
    name, text, note = list(cells(world, DOMAINS))[int(row.id[3:]) - 1]
    wanted, address = row.item.split(" ")
    assert (flat(name), links(name)) == (wanted, [address])
    assert flat(text)
    assert NOTES[wanted] in flat(note) and bool(NOTES[wanted]) == bool(flat(note))


def name_stands_as_code_where_the_document_has_it(world: World, row: Row) -> None:
    """Row AO on the page."""
    titles = [title for title, names in ELSEWHERE.items() if row.item in names.split()]
    if any(row.item in names.split() for names in PURPOSES.values()):
        titles.append(LIBRARIES)
    assert titles
    for title in titles:
        found = section(world, title)
        named = {*_literals(found), *(one.astext() for one in found.findall(nodes.reference))}
        assert row.item in named, title


@row("CO-01")
def all_libraries_and_no_other_are_on_the_page(world: World, row: Row) -> None:
    found = list(cells(world, LIBRARIES))
    assert [flat(one[0]) for one in found] == re.findall(r"`([^`]+)`", row.item) == list(PURPOSES)
    assert {len(links(one[0])) for one in found} == {1}
    assert all(flat(cell) for one in found for cell in one)


def all_data_types_are_on_the_page_and_in_the_smoke_tests(world: World) -> None:
    """Row CO-02 on the page, and the ids of the smoke tests."""
    found = [_literals(name) for name, _ in cells(world, TYPES)]
    assert found == [one.split(" = ") for one in type_names()]
    # The smoke tests make one of each on a GPU; their ids name the types.
    (collected,) = shown(world).calling("--collect-only")
    tried = set(re.findall(r"test_gpu_types\.py::test_\w+?\[(\w+)", collected.out)) | {"quint4x2"}
    assert "test_quint4x2_is_made" in collected.out
    assert {names[0].removeprefix("torch.") for names in found} <= tried


@row("CO-03")
def all_domain_libraries_are_on_the_page_with_their_notes(world: World, row: Row) -> None:
    found = {flat(name): flat(note) for name, _, note in cells(world, DOMAINS)}
    assert list(found) == list(NOTES)
    told = {one["name"]: one["release"] for one in data(world)["domain_libraries"]}
    assert {name for name, release in told.items() if release == "only"} == {
        "torchtune",
        "torchrl",
        "tensordict",
    }
    assert (told["torchdata"], told["torchserve"]) == ("beta", "ended")


@row("CO-04", "CO-05")
def features_stand_below_their_release(world: World, row: Row) -> None:
    for name in ("2.9/7.1.1",) if row.id == "CO-04" else ("2.8/7.1", "2.7/7.0"):
        found = section(world, LISTS[name])
        items = [flat(one) + " ".join(links(one)) for one in found.findall(nodes.list_item)]
        assert len(items) == len(FEATURES[name])
        for text, words in zip(items, FEATURES[name], strict=True):
            assert [word for word in words if word not in text] == []


def known_issues_are_on_the_page_and_answered_with_a_warning(world: World, row: Row) -> None:
    """Row CO-06 on the page, and a question about each."""
    text = flat(section(world, "Known issues and notes"))
    for name in re.findall(r"`([^`]+)`", row.item):
        assert name in text
        said = (shown(world).home / f"{'fp16' if 'fp16' in name else 'bf16'}.txt").read_text()
        assert "not supported" in said, said
    assert text.count("not supported") == 2


@row("CO-07")
def docker_images_are_linked(world: World, row: Row) -> None:
    address = "https://hub.docker.com/r/rocm/pytorch/tags"
    found = section(world, "Docker image compatibility")
    assert links(found) == [address] and "rocm/pytorch" in _literals(found)
    assert "quarterly" in flat(found)
    overview = flat(section(world, "Version support"))
    assert "every quarter" in overview and "AMD's tests" in overview


@row("CO-08")
def the_page_begins_as_pages_of_rocm_do(world: World, row: Row) -> None:
    lines = (shown(world).home / "page.rst").read_text().splitlines()
    assert lines[0] == ":orphan:"
    assert lines[2:5] == [
        ".. meta::",
        "    :description: PyTorch compatibility",
        "    :keywords: GPU, PyTorch, deep learning, framework compatibility",
    ]
    assert ".. version-set:: rocm_version latest" in lines
    found = [node for node in page(world).findall(nodes.literal) if "version-ref" in node["classes"]]
    assert len(found) == 20
