"""The table of projects and versions of PyTorch: documented values, a user's rows, mistakes in them."""

from __future__ import annotations

import pytest

from rocwright.data import load_table
from rocwright.data.overlay import parse_overlay
from rocwright.errors import InvalidData, UnknownRelease, UsageError
from rocwright.model.project import ProjectTable

PROJECTS = load_table("projects", ProjectTable)


def overlaid(text: str) -> ProjectTable:
    return load_table("projects", ProjectTable, parse_overlay(text, where="my/rocwright.toml"))


def row(name: str, **fields: str) -> str:
    """A row of a user's file; values are TOML."""
    given = {
        "name": f'"{name}"',
        "directory": f'"{name}"',
        "origin": f'"https://example.org/{name}.git"',
        "ref": '"main"',
        "hipify": "false",
        "submodules": "true",
        **fields,
    }
    return "[[projects.project]]\n" + "".join(f"{key} = {value}\n" for key, value in given.items() if value)


def line(name: str, **fields: str) -> str:
    given = {
        "name": f'"{name}"',
        "origin": '"https://example.org/torch.git"',
        "ref": '"mine"',
        "linux": '"supported"',
        "windows": '"unsupported"',
        **fields,
    }
    return "[[projects.line]]\n" + "".join(f"{key} = {value}\n" for key, value in given.items() if value)


def test_documented_defaults_of_every_project() -> None:
    rows = {row.name: (row.directory, row.origin, row.ref, row.hipify) for row in PROJECTS.projects}
    assert rows == {
        "torch": ("pytorch", "https://github.com/pytorch/pytorch.git", "nightly", True),
        "torchaudio": ("pytorch_audio", "https://github.com/pytorch/audio.git", "nightly", True),
        "torchvision": ("pytorch_vision", "https://github.com/pytorch/vision.git", "nightly", True),
        "triton": ("triton", "https://github.com/ROCm/triton.git", None, False),
        "apex": ("apex", "https://github.com/ROCm/apex.git", "master", False),
    }
    assert {row.alias: row.name for row in PROJECTS.projects if row.alias} == {
        "audio": "torchaudio",
        "vision": "torchvision",
    }
    windows = PROJECTS.get("triton").on("windows")
    assert (windows.origin, windows.ref, windows.pin) == (
        "https://github.com/triton-lang/triton-windows.git",
        "main-windows",
        None,
    )
    assert [row.name for row in PROJECTS.projects if row.optional("windows")] == ["triton", "apex"]
    assert not any(row.optional("linux") for row in PROJECTS.projects)


UPSTREAM, FORK = "https://github.com/pytorch/pytorch.git", "https://github.com/ROCm/pytorch.git"


@pytest.mark.parametrize(
    ("name", "origin", "ref", "linux", "windows"),
    [
        ("main", UPSTREAM, "main", "supported", "supported"),
        ("nightly", UPSTREAM, "nightly", "supported", "supported"),
        ("2.14", FORK, "release/2.14", "supported", "supported"),
        ("2.13", FORK, "release/2.13", "supported", "supported"),
        ("2.12", FORK, "release/2.12", "supported", "supported"),
        ("2.11", FORK, "release/2.11", "previous", "previous"),
        ("2.10", FORK, "release/2.10", "previous", "previous"),
        ("2.9", FORK, "release/2.9", "previous", "previous"),
        ("2.8", FORK, "release/2.8", "previous", "unsupported"),
        ("2.7", FORK, "release/2.7", "previous", "unsupported"),
    ],
)
def test_versions_of_pytorch(name: str, origin: str, ref: str, linux: str, windows: str) -> None:
    found = PROJECTS.get_line(name)
    assert (found.origin, found.ref, found.on("linux"), found.on("windows")) == (origin, ref, linux, windows)
    assert PROJECTS.get_line(ref) is found
    # Upstream pins triton alone; the fork pins everything.
    assert found.pinned == (origin == FORK)
    assert bool(found.refs) != found.pinned
    assert found.source


def test_an_unknown_name_lists_the_known_ones_the_near_one_first() -> None:
    with pytest.raises(
        UsageError, match=r"unknown project 'torchvison'\n  next: choose one of: torchvision, "
    ):
        PROJECTS.get("torchvison")
    with pytest.raises(
        UnknownRelease, match=r"unknown version of PyTorch: '2\.15'\n  next: choose one of: 2\."
    ):
        PROJECTS.get_line("2.15")


def test_a_user_adds_projects_and_replaces_rows() -> None:
    table = overlaid(
        row("vllm", pin='{ kind = "commit_file", file = ".github/ci_commit_pins/vllm.txt" }', ref="")
        + row("flash-attention", alias='"flash"')
        + row("xformers", pin='{ kind = "related_commits", file = "related_commits", key = "xformers" }')
        + row("torchvision", directory='"vision"', origin='"https://example.org/mine.git"')
        + line("mine", refs='{ vllm = "rocm" }')
    )
    assert [row.name for row in table.projects] == [
        *("torch", "torchaudio", "torchvision", "triton", "apex"),
        *("vllm", "flash-attention", "xformers"),
    ]
    assert table.get("torchvision").origin == "https://example.org/mine.git"
    assert table.get("flash").name == "flash-attention"
    assert table.get_line("mine").refs == {"vllm": "rocm"}
    # The short name of the built-in row went with it.
    with pytest.raises(UsageError, match="unknown project 'vision'"):
        table.get("vision")


def test_the_name_of_a_version_goes_before_the_branch_of_another() -> None:
    table = overlaid(line("main", ref='"nightly"'))
    assert table.get_line("nightly").name == "nightly"
    assert table.get_line("main").ref == "nightly"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (row("vllm", origin=""), r"missing required field `origin` - at `\$\.projects\.project\[0\]`"),
        (
            row("vllm") + row("x", origin='"../x"'),
            r"origin is a relative path - at `\$\.projects\.project\[1\]`",
        ),
        (row("vllm", origin='"https://u:hunter2@h/x"'), "origin holds a login"),
        (row("vllm", origin='"-x"'), "origin starts with a dash"),
        (row("vllm", directory='"../vllm"'), r"directory '\.\./vllm' is no bare name"),
        (row("vllm", directory='"con"'), "directory 'con' is the name of a device"),
        (row("v/llm"), "name 'v/llm' is no bare name"),
        (row("all"), "'all' stands for all projects"),
        (row("vllm", alias='"all"'), "'all' stands for all projects"),
        (row("vllm", ref='"-b"'), "ref '-b' is no name"),
        (row("vllm", ref=""), "neither a ref nor a pin"),
        (row("vllm", alias='"audio"'), "torchaudio and vllm are both called 'audio'"),
        (row("vllm", directory='"PyTorch"'), "torch and vllm are both checked out to 'pytorch'"),
        (row("vllm", pin='{ kind = "commit_file", file = "../x" }'), r"file '\.\./x' is no path inside"),
        (
            row("vllm", pin='{ kind = "related_commits", file = "/x", key = "v" }'),
            "file '/x' is no path inside",
        ),
        (row("vllm", pin='{ kind = "commit_file", file = "x", version_file = "v" }'), "go together"),
        (
            row(
                "vllm",
                pin='{ kind = "commit_file", file = "x", version_file = "v", release_ref = "{patch}" }',
            ),
            r"release_ref knows \{major\} and \{minor\} alone",
        ),
        (
            row("vllm", windows='{ origin = "ext::sh" }'),
            r"git remote helper .* - at `\$\.projects\.project\[0\]\.win",
        ),
        (line("mine", refs='{ vlm = "main" }'), "the refs of line mine name 'vlm'"),
        (line("mine", refs='{ torch = "main" }'), "the refs of line mine name 'torch'"),
        (line("mine", ref='"a b"'), r"ref 'a b' is no name .* - at `\$\.projects\.line\[0\]`"),
        (line("mine", linux='"maybe"'), "'maybe'"),
    ],
)
def test_a_mistake_in_a_users_row_is_told_with_file_and_field(text: str, said: str) -> None:
    with pytest.raises(InvalidData, match=said) as caught:
        overlaid(text)
    assert caught.value.where == "my/rocwright.toml"
    assert "hunter2" not in str(caught.value)
