"""What surrounds a checkout (configuration, other tools, an old git) changes neither result nor reach."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from git_repos import PROJECTS, Family, git
from rocwright.errors import MissingTool, UnsavedWork, UsageError
from rocwright.sources.checkout import Checkout, found
from rocwright.sources.hipify import hipify
from rocwright.sources.lock import LockedSource
from rocwright.system.git import Git

pytestmark = pytest.mark.slow

Lock = Callable[..., LockedSource]
Bring = Callable[..., Checkout]
FMT = "third_party/fmt lib"


def test_what_a_repository_is_told_changes_no_hipify_commit(
    lock: Lock, bring: Bring, place: Path, tmp_path: Path
) -> None:
    expected = hipify(bring(lock(), tmp_path / "plain")).hipify_commit
    bring(lock())
    for setting, value in {
        "i18n.commitEncoding": "latin1",
        "core.autocrlf": "true",
        "core.commentChar": ";",
        "diff.noprefix": "true",
        "status.showUntrackedFiles": "no",
        "submodule.recurse": "true",
        "filter.loud.clean": "tr a-z A-Z",
    }.items():
        git(place, "config", setting, value)
    (place / ".git/info").mkdir(exist_ok=True)
    (place / ".git/info/attributes").write_text("*.hip filter=loud\n*.cu eol=crlf\n")
    other = git(place, "hash-object", "-w", ".gitignore")
    git(place, "replace", git(place, "rev-parse", "HEAD:a.cu"), other)
    assert hipify(bring(lock())).hipify_commit == expected


def test_variables_of_a_git_hook_that_calls_it_reach_nothing(
    lock: Lock, bring: Bring, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    around = tmp_path / "around"
    around.mkdir()
    git(around, "init", "-q")
    before = {path: path.read_bytes() for path in around.rglob("*") if path.is_file()}
    monkeypatch.setenv("GIT_DIR", str(around / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(around))
    monkeypatch.setenv("GIT_INDEX_FILE", str(around / ".git/index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(around / ".git/objects"))
    hipify(bring(lock()))
    assert not bring(lock()).changed
    assert {path: path.read_bytes() for path in around.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("which", ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"])
def test_proxies_and_the_like_of_the_system_s_configuration_count_for_servers(
    family: Family, lock: Lock, bring: Bring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    configuration = tmp_path / "configuration"
    configuration.write_text(f'[url "{family.root.as_uri()}/"]\n\tinsteadOf = https://rocwright.invalid/\n')
    monkeypatch.setenv(which, str(configuration))
    locked = msgspec.structs.replace(lock(submodules=False), origin="https://rocwright.invalid/torch")
    assert bring(locked).commit == locked.commit


def test_a_git_that_is_too_old_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock: Lock, bring: Bring
) -> None:
    locked = lock()
    program = tmp_path / "old/git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho git version 2.25.1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with pytest.raises(MissingTool, match=r"git 2\.32 or later is needed, .*old/git is 2\.25"):
        bring(locked)


def test_a_submodule_without_its_git_file_is_nowhere_to_keep_work(
    lock: Lock, bring: Bring, place: Path
) -> None:
    bring(lock())
    (place / FMT / ".git").unlink()
    (place / FMT / "plain.txt").write_text("my edit\n")
    with pytest.raises(UnsavedWork, match="no repository here yet") as caught:
        bring(lock())
    assert "--keep-branch" not in str(caught.value)
    (place / FMT / "plain.txt").write_text("x\n")
    bring(lock())
    assert git(place / FMT, "status", "--porcelain") == ""


def test_a_checkout_stands_collecting_moving_and_copying(
    family: Family, lock: Lock, bring: Bring, place: Path, tmp_path: Path
) -> None:
    old = lock()
    family.version_2()
    new = lock()
    expected = hipify(bring(old), head="upstream").hipify_commit
    hipify(bring(new), head="upstream")
    for path in (".", FMT, "third_party/nest", "third_party/nest/deep/inner"):
        git(place / path, "reflog", "expire", "--expire=now", "--all")
        git(place / path, "gc", "-q", "--prune=now")
    moved = place.rename(tmp_path / "moved")
    copied = Path(shutil.copytree(moved, tmp_path / "copied", symlinks=True))
    for directory in (moved, copied):
        assert not hipify(bring(new, directory), head="upstream").changed
        back = hipify(bring(old, directory), head="upstream")
        assert (back.hipify_commit, back.cached) == (expected, True)
        assert git(directory, "diff") == ""


def test_objects_elsewhere(tmp_path: Path) -> None:
    first, second = (tmp_path / name for name in ("first", "second"))
    for place in (first, second):
        place.mkdir()
        git(place, "init", "-q")
    (second / "file").write_text("x\n")
    shared = Git(second / ".git", second, objects=first / ".git/objects")
    oid = shared.run("hash-object", "-w", "file").strip()
    assert git(first, "cat-file", "blob", oid) == "x"


def test_another_work_tree_of_a_checkout_is_said_to_be_one(pristine: Path, tmp_path: Path) -> None:
    git(pristine, "worktree", "add", "-q", str(tmp_path / "another"))
    for place in (tmp_path / "another", pristine / FMT):
        with pytest.raises(UsageError, match="is a work tree or submodule of another repository"):
            found(place, PROJECTS)
