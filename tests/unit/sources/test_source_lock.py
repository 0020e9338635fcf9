"""Which commit is meant: precedence, remote names, pins of a torch tree, the lock file."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from git_repos import PROJECTS, Family, commit, git

from rocwright.data import parse_table
from rocwright.errors import InvalidData, InvalidPin, Unreachable, UsageError
from rocwright.model.project import ProjectTable
from rocwright.sources.lock import LockedSource, Request, SourceLock, read_lock, resolve, write_lock

A = "a" * 40


def one(request: Request, tmp_path: Path, **more: object) -> LockedSource:
    return resolve([request], projects=PROJECTS, base=tmp_path, **more).sources[0]  # type: ignore[arg-type]


@pytest.fixture
def torch_tree(tmp_path: Path) -> Path:
    tree = tmp_path / "pytorch"
    pins = tree / ".ci/docker/ci_commit_pins"
    pins.mkdir(parents=True)
    (pins / "triton.txt").write_text(A + "\n")
    (tree / ".ci/docker/triton_version.txt").write_text("3.5.1\n")
    (tree / "related_commits").write_text(f"ubuntu|pytorch|torchaudio|release/2.9|{A}|file:///audio\n")
    return tree


def test_documented_defaults_of_every_project() -> None:
    rows = {row.name: (row.directory, row.origin, row.ref, row.hipify) for row in PROJECTS.projects}
    assert rows == {
        "torch": ("pytorch", "https://github.com/pytorch/pytorch.git", "nightly", True),
        "torchaudio": ("pytorch_audio", "https://github.com/pytorch/audio.git", "nightly", True),
        "torchvision": ("pytorch_vision", "https://github.com/pytorch/vision.git", "nightly", True),
        "triton": ("triton", "https://github.com/ROCm/triton.git", None, False),
        "apex": ("apex", "https://github.com/ROCm/apex.git", "master", False),
    }
    windows = PROJECTS.get("triton").on("windows")
    assert (windows.origin, windows.ref, windows.pin) == (
        "https://github.com/triton-lang/triton-windows.git",
        "main-windows",
        None,
    )


def test_a_typing_error_in_the_table_names_file_and_field() -> None:
    with pytest.raises(InvalidData, match=r"projects\.toml does not fit its schema.*`orgin`"):
        parse_table('[[projects]]\nname = "x"\norgin = ""\n', ProjectTable, where="data/projects.toml")


def test_branch_tag_annotated_tag_and_commit_mean_the_same_commit(family: Family, tmp_path: Path) -> None:
    git(family.torch, "tag", "light")
    git(family.torch, "tag", "-a", "-m", "x", "annotated")
    for ref, complete in [
        ("main", "refs/heads/main"),
        ("light", "refs/tags/light"),
        ("annotated", "refs/tags/annotated"),
        ("refs/heads/main", "refs/heads/main"),
        (family.v1, family.v1),
    ]:
        locked = one(Request("torch", origin=family.url, ref=ref), tmp_path)
        assert (locked.commit, locked.ref, locked.why) == (family.v1, complete, "flag")


def test_an_unknown_ref_lists_near_ones_and_an_ambiguous_one_is_refused(
    family: Family, tmp_path: Path
) -> None:
    git(family.torch, "branch", "release/2.9")
    with pytest.raises(Unreachable, match=r"no branch or tag 'release/2.90'\n[\s\S]*release/2\.9;"):
        one(Request("torch", origin=family.url, ref="release/2.90"), tmp_path)
    git(family.torch, "tag", "main")
    commit(family.torch, {"x": "x"})
    with pytest.raises(UsageError, match="both a branch and a tag"):
        one(Request("torch", origin=family.url, ref="main"), tmp_path)


def test_an_unreachable_origin_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"repository file:///no/such/repository cannot be read"):
        one(Request("torch", origin="file:///no/such/repository"), tmp_path)


def test_flag_before_pin_before_default(family: Family, torch_tree: Path, tmp_path: Path) -> None:
    pinned = one(Request("torchaudio"), tmp_path, torch_dir=torch_tree)
    assert (pinned.origin, pinned.ref, pinned.commit, pinned.why, pinned.pin) == (
        "file:///audio",
        "refs/heads/release/2.9",
        A,
        "pin",
        "related_commits:1",
    )
    flagged = one(Request("torchaudio", origin=family.url, ref="main"), tmp_path, torch_dir=torch_tree)
    assert (flagged.origin, flagged.commit, flagged.why, flagged.pin) == (family.url, family.v1, "flag", None)
    git(family.torch, "branch", "nightly")
    default = one(Request("torchvision", origin=family.url), tmp_path, torch_dir=torch_tree)
    assert (default.ref, default.commit, default.why) == ("refs/heads/nightly", family.v1, "default")
    with pytest.raises(InvalidPin, match="no pin for torchvision"):
        one(
            Request("torchvision", origin=family.url),
            tmp_path,
            torch_dir=torch_tree,
            require_related_commit=True,
        )


def test_a_pin_names_the_torch_commit_it_was_read_at(torch_tree: Path, tmp_path: Path) -> None:
    head = commit(torch_tree, {})
    assert one(Request("torchaudio"), tmp_path, torch_dir=torch_tree).pin == f"related_commits:1 @ {head}"


def test_triton_follows_torch(family: Family, torch_tree: Path, tmp_path: Path) -> None:
    pinned = one(Request("triton"), tmp_path, torch_dir=torch_tree)
    assert (pinned.commit, pinned.why, pinned.build_env) == (A, "pin", {"TRITON_WHEEL_VERSION_SUFFIX": ""})
    git(family.torch, "branch", "release/3.5.x")
    release = one(Request("triton", origin=family.url, release=True), tmp_path, torch_dir=torch_tree)
    assert (release.ref, release.commit, release.build_env) == ("refs/heads/release/3.5.x", family.v1, {})
    with pytest.raises(UsageError, match="check torch out first"):
        one(Request("triton"), tmp_path)


def test_a_local_origin_is_locked_as_an_absolute_path(
    family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(family.root)
    assert one(Request("torch", origin="./torch", ref="main"), tmp_path).origin == str(family.torch)


def test_the_lock_file_is_read_back_strictly(tmp_path: Path) -> None:
    source = LockedSource("torch", "https://x", "refs/heads/main", A, "flag", "pytorch", True)
    lock, path = SourceLock(1, (source,)), tmp_path / "lock.json"
    write_lock(lock, path)
    assert json.loads(path.read_text())["sources"][0]["commit"] == A
    assert read_lock(path) == lock
    newer = msgspec.structs.replace(source, ref="refs/heads/other")
    assert lock.updated(SourceLock(1, (newer,))).sources == (newer,)
    for old, new, said in [
        ('"schema": 1', '"schema": 9', "schema 9"),
        ('"origin"', '"orgin"', "orgin"),
        (A, "main", "no commit id"),
    ]:
        path.write_text(path.read_text().replace(old, new))
        with pytest.raises(InvalidData, match=said):
            read_lock(path)
        write_lock(lock, path)
