"""Where pins are read from: trees as users leave them, and commits that nobody checked out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from git_repos import commit, git
from rocwright.errors import InvalidPin
from rocwright.sources.pins import CommitPins, TreePins, read_checkout
from rocwright.sources.tree import state as states
from rocwright.system.git import Git

TEXT = "one\ntwo\n"


@pytest.fixture
def torch(tmp_path: Path) -> Path:
    tree = tmp_path / "my torch"
    commit(tree, {"related_commits": TEXT, "setup.py": ""})
    return tree


def test_a_plain_directory_has_no_commit(tmp_path: Path) -> None:
    (tmp_path / "related_commits").write_text(TEXT)
    pins = TreePins(tmp_path)
    assert pins.text("related_commits") == TEXT
    assert pins.said("related_commits", 2) == "related_commits:2"
    assert pins.said("related_commits", None) == "related_commits"
    assert pins.where("related_commits") == str(tmp_path / "related_commits")


@pytest.mark.parametrize("name", ["related_commits", ".ci/docker/triton.txt"])
def test_what_is_absent(tmp_path: Path, name: str) -> None:
    assert TreePins(tmp_path / "nowhere").text(name) is None
    (tmp_path / "file").write_text("")
    assert TreePins(tmp_path / "file").text(name) is None
    (tmp_path / ".ci").write_text("a file where a folder should be")
    assert TreePins(tmp_path).text(name) is None


def test_a_pin_names_the_torch_commit_it_was_read_at(torch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = git(torch, "rev-parse", "HEAD")
    assert TreePins(torch).said("related_commits", 1) == f"related_commits:1 @ {head}"
    monkeypatch.chdir(torch.parent)
    assert TreePins(Path(torch.name)).said("related_commits", 1) == f"related_commits:1 @ {head}"


def test_an_edited_file_counts_and_is_told(torch: Path) -> None:
    head = git(torch, "rev-parse", "HEAD")
    (torch / "related_commits").write_text("three\n")
    pins = TreePins(torch)
    assert pins.text("related_commits") == "three\n"
    assert pins.said("related_commits", 1) == f"related_commits:1 @ {head}, edited"
    (torch / "new.txt").write_text("new\n")
    assert pins.said("new.txt", None) == f"new.txt @ {head}, edited"


def test_other_line_ends_and_a_byte_order_mark_are_no_edit(torch: Path) -> None:
    (torch / "related_commits").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    pins = TreePins(torch)
    assert pins.text("related_commits") == "one\r\ntwo\r\n"
    assert pins.said("related_commits", 1).endswith(git(torch, "rev-parse", "HEAD"))


def test_in_a_hipified_tree_the_upstream_commit_is_named(torch: Path) -> None:
    upstream = git(torch, "rev-parse", "HEAD")
    git(torch, "tag", "THEROCK_UPSTREAM_DIFFBASE")
    commit(torch, {"setup.py": "hip"}, "DO NOT SUBMIT: HIPIFY")
    assert TreePins(torch).said("related_commits", 1) == f"related_commits:1 @ {upstream}"
    git(torch, "tag", "THEROCK_HIPIFY_DIFFBASE")
    assert TreePins(torch).said("related_commits", 1) == f"related_commits:1 @ {upstream}"
    commit(torch, {"related_commits": "mine\n"}, "a pin of mine")
    assert TreePins(torch).said("related_commits", 1) == f"related_commits:1 @ {upstream}, edited"


def test_a_tag_left_behind_on_another_branch_is_not_believed(torch: Path) -> None:
    git(torch, "tag", "THEROCK_UPSTREAM_DIFFBASE")
    git(torch, "checkout", "-q", "--orphan", "other")
    other = commit(torch, {"related_commits": "other\n"}, "another beginning")
    assert TreePins(torch).said("related_commits", 1) == f"related_commits:1 @ {other}"


def test_a_work_tree_whose_repository_lies_elsewhere(torch: Path, tmp_path: Path) -> None:
    git(torch, "worktree", "add", "-q", str(tmp_path / "second"))
    head = git(torch, "rev-parse", "HEAD")
    assert TreePins(tmp_path / "second").said("related_commits", 1) == f"related_commits:1 @ {head}"


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "related_commits").write_text(TEXT)
    assert TreePins(tmp_path).said("related_commits", 1) == "related_commits:1"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"one\ntwo \xff\n", ":2: it is not UTF-8"),
        ("ubuntu".encode("utf-16"), ":1: it is not UTF-8"),
        (b"one\n\ntwo\0\n", ":3: a NUL character"),
        (b"x" * ((1 << 20) + 1), " is larger than 1 MiB"),
    ],
)
def test_a_file_that_is_no_pin_file(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "related_commits"
    path.write_bytes(content)
    with pytest.raises(InvalidPin) as caught:
        TreePins(tmp_path).text("related_commits")
    assert f"{path}{said}" in caught.value.what
    assert caught.value.next_step


def test_a_very_large_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "related_commits").open("wb") as stream:
        # A hole: it takes no room on the disk, and would take a terabyte of memory.
        stream.truncate(1 << 40)
    with pytest.raises(InvalidPin, match="is larger than 1 MiB"):
        TreePins(tmp_path).text("related_commits")


def test_a_directory_or_a_pipe_in_the_place_of_a_pin_file(tmp_path: Path) -> None:
    (tmp_path / "related_commits").mkdir()
    with pytest.raises(InvalidPin, match="it is a directory"):
        TreePins(tmp_path).text("related_commits")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidPin, match="it is not a regular file"):
        TreePins(tmp_path).text("pipe")


def test_a_commit_is_asked_once_for_all_files() -> None:
    asked: list[tuple[str, str, tuple[str, ...]]] = []

    def read(origin: str, commit: str, names: Sequence[str]) -> Mapping[str, str]:
        asked.append((origin, commit, tuple(names)))
        return {"related_commits": "\ufeffone\n", "bad": "a\nb\0", "latin": "a\nb\n\ufffd"}

    names = ("related_commits", "triton.txt", "bad", "latin")
    pins = CommitPins("https://ann:hunter2@h/torch", "a" * 40, read, names)
    assert asked == []
    assert (pins.text("related_commits"), pins.text("triton.txt")) == ("one\n", None)
    assert asked == [("https://ann:hunter2@h/torch", "a" * 40, names)]
    assert pins.said("related_commits", 3) == f"related_commits:3 @ {'a' * 40}"
    assert pins.said("triton.txt", None) == f"triton.txt @ {'a' * 40}"
    assert pins.where("related_commits") == "related_commits of https://***@h/torch @ aaaaaaaaaaaa"
    with pytest.raises(InvalidPin, match=r"bad of .* @ aaaaaaaaaaaa:2: a NUL character"):
        pins.text("bad")
    with pytest.raises(InvalidPin, match=r"latin of .* @ aaaaaaaaaaaa:3: it is not UTF-8"):
        pins.text("latin")


def test_a_checkout_of_the_commit_spares_the_server(torch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = git(torch, "rev-parse", "HEAD")
    names = ["related_commits", "triton.txt"]
    # Somebody else's clone may lack objects.
    assert read_checkout(torch, head, names) is None
    repository = Git(torch / ".git", torch)
    states.save(repository, states.State(upstream=head))
    (torch / "related_commits").write_text("edited\n")
    assert read_checkout(torch, head, names) == {"related_commits": TEXT}
    monkeypatch.chdir(torch.parent)
    assert read_checkout(Path(torch.name), head, names) == {"related_commits": TEXT}
    assert read_checkout(torch, "a" * 40, names) is None
    assert read_checkout(torch / "nowhere", head, names) is None
    (torch / ".git/rocwright/state.json").write_text("{")
    assert read_checkout(torch, head, names) is None
