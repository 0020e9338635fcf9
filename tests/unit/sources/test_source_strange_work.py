"""Work in places where nobody looks for it: behind links, in submodules that go, below commits that moved."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_source_checkout import UPSTREAM, heads

from git_repos import Family, commit, git
from rocwright.errors import RocwrightError, UnsavedWork
from rocwright.sources.aside import Work
from rocwright.sources.checkout import Checkout
from rocwright.sources.hipify import hipify
from rocwright.sources.lock import LockedSource
from rocwright.system import process

pytestmark = pytest.mark.slow

Lock = Callable[..., LockedSource]
Bring = Callable[..., Checkout]
FMT = "third_party/fmt lib"


@pytest.mark.parametrize("work", [Work(), Work(discard=True), Work(keep_branch="mine")], ids=str)
def test_a_link_in_place_of_a_submodule_is_not_followed(
    family: Family, lock: Lock, bring: Bring, place: Path, tmp_path: Path, work: Work
) -> None:
    bring(lock())
    elsewhere = tmp_path / "my fmt"
    git(tmp_path, "clone", "-q", str(family.fmt), str(elsewhere))
    (elsewhere / "plain.txt").write_text("my edit\n")
    before = git(elsewhere, "for-each-ref"), git(elsewhere, "rev-parse", "HEAD")
    shutil.rmtree(place / FMT)
    (place / FMT).symlink_to(elsewhere)
    if work == Work():
        with pytest.raises(UnsavedWork, match=f"changed: {FMT}"):
            bring(lock())
        assert (place / FMT).is_symlink()
    else:
        bring(lock(), work=work)
        assert git(place / FMT, "rev-parse", "HEAD") == family.fmt_1
        assert not bring(lock()).changed
    if work.keep_branch:
        assert git(place, "show", f"mine:{FMT}") == str(elsewhere)
    assert (elsewhere / "plain.txt").read_text() == "my edit\n"
    assert (git(elsewhere, "for-each-ref"), git(elsewhere, "rev-parse", "HEAD")) == before
    assert not (elsewhere / ".git/rocwright").exists()


def test_a_link_above_a_submodule_is_not_followed(
    family: Family, lock: Lock, bring: Bring, place: Path, tmp_path: Path
) -> None:
    bring(lock())
    elsewhere = tmp_path / "elsewhere"
    (place / "third_party").rename(elsewhere)
    (place / "third_party").symlink_to(elsewhere)
    own = commit(elsewhere / "own", {"x": "x\n"})
    with pytest.raises(UnsavedWork, match="added: third_party"):
        bring(lock())
    bring(lock(), work=Work(discard=True))
    assert git(place / FMT, "rev-parse", "HEAD") == family.fmt_1
    assert (elsewhere / "nest/nest.txt").exists()
    assert git(elsewhere / "own", "rev-parse", "HEAD") == own


@pytest.mark.parametrize("ways", [{"keep_branch": "mine"}, {"discard": True}], ids=str)
def test_a_file_that_a_commit_of_the_user_s_ignores_is_his(
    lock: Lock, bring: Bring, place: Path, ways: dict[str, Any]
) -> None:
    bring(lock())
    git(place, "rm", "-q", "--cached", "readme")
    (place / ".gitignore").write_text("build/\nreadme\n")
    git(place, "commit", "-qam", "stop tracking")
    (place / "readme").write_text("my notes\n")
    done = bring(lock(), work=Work(**ways))
    assert (place / "readme").read_text() == "one\n"
    assert any("readme" in item for item in done.kept[0].items)
    if "keep_branch" in ways:
        assert git(place, "show", "mine:readme") == "my notes"


@pytest.mark.parametrize("how", ["staged", "committed on a branch"])
def test_commits_of_a_submodule_are_work_also_where_the_project_names_them(
    lock: Lock, bring: Bring, place: Path, how: str
) -> None:
    bring(lock())
    own = commit(place / FMT, {"mine.txt": "mine\n"})
    if how == "staged":
        git(place, "add", FMT)
    else:
        git(place, "checkout", "-q", "-b", "topic")
        git(place, "commit", "-qam", "move fmt")
    with pytest.raises(UnsavedWork, match=f"{FMT}: 1 commit"):
        bring(lock())
    bring(lock(), work=Work(keep_branch="mine"))
    assert "mine" in git(place / FMT, "branch", "--contains", own)


def test_a_commit_in_place_of_the_hipify_commit_is_work(
    published: LockedSource, hipified: Path, bring: Bring
) -> None:
    (hipified / "mine.txt").write_text("mine\n")
    git(hipified, "add", "mine.txt")
    git(hipified, "commit", "-q", "--amend", "--no-edit")
    git(hipified, "tag", "-f", "THEROCK_HIPIFY_DIFFBASE")
    own = git(hipified, "rev-parse", "HEAD")
    with pytest.raises(UnsavedWork, match=f"1 commit.*{own[:12]}"):
        bring(published)
    assert git(hipified, "rev-parse", "HEAD", "THEROCK_HIPIFY_DIFFBASE^{}").split() == [own, own]


def without_fmt(family: Family, lock: Lock) -> LockedSource:
    git(family.torch, "rm", "-q", "-f", FMT)
    commit(family.torch, {}, "no fmt")
    return lock()


def test_ignored_files_in_a_submodule_that_goes_are_asked_for(
    family: Family, lock: Lock, bring: Bring, place: Path
) -> None:
    commit(family.fmt, {".gitignore": "build/\n"})
    git(family.torch / FMT, "pull", "-q")
    commit(family.torch, {}, "pin")
    bring(lock())
    goes = without_fmt(family, lock)
    product = place / FMT / "build/product"
    product.parent.mkdir()
    product.write_text("ignored\n")
    with pytest.raises(UnsavedWork, match=f"{FMT}: in the way: build/product"):
        bring(goes)
    assert product.read_text() == "ignored\n"
    bring(goes, work=Work(discard=True))
    assert not (place / FMT).exists()


@pytest.mark.parametrize("work", [Work(), Work(discard=True), Work(keep_branch="mine")], ids=str)
def test_a_clone_in_place_of_a_submodule_that_goes_stays(
    family: Family, lock: Lock, bring: Bring, place: Path, work: Work
) -> None:
    bring(lock())
    goes = without_fmt(family, lock)
    shutil.rmtree(place / FMT)
    git(place, "clone", "-q", str(family.fmt), FMT)
    git(place / FMT, "checkout", "-q", "-b", "topic")
    own = commit(place / FMT, {"mine": "x\n"})
    git(place / FMT, "checkout", "-q", "--detach", family.fmt_1)
    with pytest.raises(UnsavedWork, match="your own repository"):
        bring(goes, work=work)
    assert git(place / FMT, "rev-parse", "topic") == own


def test_a_git_that_is_at_work_is_let_end(
    family: Family, lock: Lock, bring: Bring, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "pause", lambda seconds: None)
    bring(lock())
    before = heads(place)
    family.version_2()
    busy = place / ".git/index.lock"
    busy.touch()
    for _ in range(2):
        with pytest.raises(RocwrightError, match="another git is at work"):
            bring(lock())
        assert busy.exists()
    assert heads(place) == before
    busy.unlink()
    assert bring(lock()).changed


def test_a_submodule_gets_another_address(
    family: Family, lock: Lock, bring: Bring, place: Path, tmp_path: Path
) -> None:
    bring(lock())
    other = tmp_path / "origins/other"
    shutil.copytree(family.fmt, other)
    there = commit(other, {"fmt.h": "cuda other\n"})
    git(family.torch, "config", "-f", ".gitmodules", f"submodule.{FMT}.url", "../other")
    git(family.torch / FMT, "fetch", "-q", str(other))
    git(family.torch / FMT, "checkout", "-q", there)
    commit(family.torch, {}, "other fmt")
    bring(lock())
    assert git(place / FMT, "rev-parse", "HEAD") == there
    assert git(place / FMT, "config", "remote.origin.url") == other.as_uri()


def test_a_submodule_moves_and_another_comes_to_its_place(
    family: Family, lock: Lock, bring: Bring, place: Path
) -> None:
    old = lock()
    git(family.torch, "mv", FMT, "third_party/old")
    git(family.torch, "submodule", "add", "-q", "--name", "another", "../inner", FMT)
    commit(family.torch, {}, "swap")
    new = lock()
    bring(old)
    for _ in range(2):
        hipify(bring(new))
        assert git(place / FMT, "rev-parse", f"{UPSTREAM}^{{}}") == family.inner_1
        assert git(place / "third_party/old", "rev-parse", f"{UPSTREAM}^{{}}") == family.fmt_1
        assert git(place, "status", "--porcelain") == ""
        assert not bring(new).changed
        hipify(bring(old))
        assert git(place / FMT, "rev-parse", f"{UPSTREAM}^{{}}") == family.fmt_1
        assert git(place, "status", "--porcelain") == ""


def test_the_repository_of_a_submodule_that_went_can_be_read(
    family: Family, lock: Lock, bring: Bring, place: Path
) -> None:
    bring(lock())
    own = commit(place / "third_party/nest/deep/inner", {"mine": "x\n"})
    git(family.torch, "rm", "-q", "-f", "third_party/nest")
    commit(family.torch, {}, "no nest")
    bring(lock(), work=Work(keep_branch="mine"))
    inner = place / ".git/modules/third_party/nest/modules/deep/inner"
    assert git(inner, "rev-parse", "mine") == own


@pytest.mark.parametrize("ways", [{"keep_branch": "mine"}, {"discard": True}], ids=str)
def test_submodules_of_a_conflict_that_nobody_resolved(
    lock: Lock, bring: Bring, place: Path, ways: dict[str, Any]
) -> None:
    bring(lock())
    torn = "<<<<<<< HEAD\n" + (place / ".gitmodules").read_text()
    (place / ".gitmodules").write_text(torn)
    with pytest.raises(UnsavedWork, match=r"changed: \.gitmodules"):
        bring(lock())
    bring(lock(), work=Work(**ways))
    assert git(place, "status", "--porcelain") == ""
    if "keep_branch" in ways:
        assert git(place, "show", "mine:.gitmodules") == torn.strip()
