"""Addresses, folder names and refs that a table, a pin or a lock may hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocwright.model.project import folder_problem, origin_problem, ref_problem


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
        ("https://host/a\nb", "holds control characters"),
        ("https://host/\x1b[31m", "holds control characters"),
        (" https://host/a", "spaces around it"),
        ("ext::sh -c id", "names a git remote helper"),
        ("persistent-https::https://host/a", "names a git remote helper"),
        ("gopher://host/a", "has the scheme gopher"),
        ("https://host/a b", "is no complete address"),
        ("https:///a", "is no complete address"),
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
    assert problem is not None and problem.startswith("holds a login")
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
        ("", "no bare name"),
        (".", "no bare name"),
        ("..", "no bare name"),
        (".git", "no bare name"),
        ("a/b", "no bare name"),
        ("a\\b", "no bare name"),
        ("/tmp", "no bare name"),
        ("C:", "no bare name"),
        ("-a", "no bare name"),
        ("a ", "no bare name"),
        ("a.", "no bare name"),
        ("a\n", "no bare name"),
        ("ä", "no bare name"),
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
