"""The table of projects and versions of PyTorch: documented values, rows of users, addresses, mistakes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocwright.data import load_table
from rocwright.data.overlay import parse_overlay
from rocwright.errors import InvalidData, UnknownRelease, UsageError
from rocwright.model.project import ProjectTable, folder_problem, origin_problem, ref_problem

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
        # As ROCm/TheRock pins it in external-builds/pytorch/ci_commit_pins/triton-windows.txt (2026-08-22).
        "6fe895f6b494b2ffc688e1e552dc2d4a8b5ae3b3",
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
        (row("vllm", origin='"https://u:hunter2@h/x"'), "origin contains a login"),
        (row("vllm", origin='"-x"'), "origin starts with a dash"),
        (row("vllm", directory='"../vllm"'), r"directory '\.\./vllm' is not a bare name"),
        (row("vllm", directory='"con"'), "directory 'con' is the name of a device"),
        (row("v/llm"), "name 'v/llm' is not a bare name"),
        (row("all"), "'all' stands for all projects"),
        (row("vllm", alias='"all"'), "'all' stands for all projects"),
        (row("vllm", ref='"-b"'), "ref '-b' is not a valid name"),
        (row("vllm", ref=""), "neither a ref nor a pin"),
        (row("vllm", alias='"audio"'), "torchaudio and vllm are both called 'audio'"),
        (row("vllm", directory='"PyTorch"'), "torch and vllm are both checked out to 'pytorch'"),
        (row("vllm", pin='{ kind = "commit_file", file = "../x" }'), r"file '\.\./x' is not a path inside"),
        (
            row("vllm", pin='{ kind = "related_commits", file = "/x", key = "v" }'),
            "file '/x' is not a path inside",
        ),
        (row("vllm", pin='{ kind = "commit_file", file = "x", version_file = "v" }'), "go together"),
        (
            row(
                "vllm",
                pin='{ kind = "commit_file", file = "x", version_file = "v", release_ref = "{patch}" }',
            ),
            r"release_ref may use only \{major\} and \{minor\}",
        ),
        (
            row("vllm", windows='{ origin = "ext::sh" }'),
            r"git remote helper .* - at `\$\.projects\.project\[0\]\.win",
        ),
        (line("mine", refs='{ vlm = "main" }'), "the refs of line mine name 'vlm'"),
        (line("mine", refs='{ torch = "main" }'), "the refs of line mine name 'torch'"),
        (line("mine", ref='"a b"'), r"ref 'a b' is not a valid name .* - at `\$\.projects\.line\[0\]`"),
        (line("mine", linux='"maybe"'), "'maybe'"),
    ],
)
def test_a_mistake_in_a_users_row_is_told_with_file_and_field(text: str, said: str) -> None:
    with pytest.raises(InvalidData, match=said) as caught:
        overlaid(text)
    assert caught.value.where == "my/rocwright.toml"
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "origin",
    [
        "https://github.com/ROCm/pytorch.git",
        "http://localhost:8080/torch",
        "https://[::1]:8080/torch",
        "ssh://git@github.com/ROCm/pytorch.git",
        "git@github.com:ROCm/pytorch.git",
        "github.com:ROCm/pytorch",
        "file:///srv/git/my repositories/torch",
        "/srv/git/my repositories/torch",
        "C:/git/torch",
        "C:\\git\\torch",
    ],
)
def test_addresses_that_git_and_a_lock_take(origin: str) -> None:
    assert origin_problem(origin) is None


@pytest.mark.parametrize(
    ("origin", "why"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("--upload-pack=touch x", "starts with a dash"),
        ("https://host/a\nb", "contains control characters"),
        ("https://host/\x1b[31m", "contains control characters"),
        (" https://host/a", "surrounding spaces"),
        ("ext::sh -c id", "names a git remote helper"),
        ("persistent-https::https://host/a", "names a git remote helper"),
        ("gopher://host/a", "has the scheme gopher"),
        ("https://host/a b", "is not a complete address"),
        ("https:///a", "is not a complete address"),
        ("torch", "is a relative path"),
        ("../torch", "is a relative path"),
    ],
)
def test_addresses_that_are_refused(origin: str, why: str) -> None:
    problem = origin_problem(origin)
    assert problem is not None and why in problem


@pytest.mark.parametrize(
    "origin",
    [
        "https://ann:hunter2@host/a",
        "https://hunter2@host/a",
        "http://hunter2:@host/a",
        "ssh://git:hunter2@host/a",
        "HTTPS://hunter2@host/a",
        "https://a@b:hunter2@host/a",
        "https://hunter2@host",
    ],
)
def test_a_login_is_refused_and_not_repeated(origin: str) -> None:
    problem = origin_problem(origin)
    assert problem is not None and problem.startswith("contains a login")
    assert "hunter2" not in problem


def test_a_relative_path_is_good_where_it_can_be_resolved() -> None:
    assert origin_problem("../torch", relative=True) is None
    assert origin_problem("-torch", relative=True) == "starts with a dash"


@pytest.mark.parametrize(
    "name", ["pytorch", "pytorch_audio", "flash-attention", "a", "v2.9", "console", "c++"]
)
def test_folder_names(name: str) -> None:
    assert folder_problem(name) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "not a bare name"),
        (".", "not a bare name"),
        ("..", "not a bare name"),
        (".git", "not a bare name"),
        ("a/b", "not a bare name"),
        ("a\\b", "not a bare name"),
        ("/tmp", "not a bare name"),
        ("C:", "not a bare name"),
        ("-a", "not a bare name"),
        ("a ", "not a bare name"),
        ("a.", "not a bare name"),
        ("a\n", "not a bare name"),
        ("ä", "not a bare name"),
        ("CON", "a device on Windows"),
        ("nul.txt", "a device on Windows"),
        ("com1", "a device on Windows"),
        ("a" * 101, "longer than 100"),
    ],
)
def test_names_that_cannot_be_a_folder_everywhere(name: str, why: str) -> None:
    problem = folder_problem(name)
    assert problem is not None and why in problem


@given(st.text(max_size=12))
def test_a_good_folder_name_is_one_part_of_a_path_on_every_system(name: str) -> None:
    if folder_problem(name) is None:
        assert name not in ("", ".", "..")
        assert not set(name) & set('/\\:*?"<>|\0 ')
        assert not name.endswith(".") and name.isascii()


@pytest.mark.parametrize("ref", ["main", "release/2.9", "refs/heads/v1.x", "a" * 40, "HEAD", "topic@2"])
def test_refs(ref: str) -> None:
    assert ref_problem(ref) is None


@pytest.mark.parametrize(
    "ref", ["", "-b", "a b", "a..b", "a~1", "a^", "a:b", "a*", "a?", "a[", "a\\b", "/a", "a/", "a//b"]
    + ["a.lock", "a.", "a@{1}", "a\x7f", "a\x1b"],
)  # fmt: skip
def test_names_that_git_gives_no_ref(ref: str) -> None:
    assert ref_problem(ref) is not None
