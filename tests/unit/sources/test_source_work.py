"""Work that stands in a checkout's way: refused, kept on a branch, discarded; never half, never silently."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_source_aside import aside

from git_repos import Family, commit, git
from rocwright.errors import CommandFailed, RocwrightError, UnsavedWork, UsageError
from rocwright.sources.aside import REFUSE, KeptWork, Work
from rocwright.sources.checkout import Checkout, checkout
from rocwright.sources.hipify import hipify
from rocwright.sources.lock import LockedSource
from rocwright.sources.tree.state import Head

# Many processes, or many megabytes: `make slow` and CI run them.
pytestmark = pytest.mark.slow

Lock = Callable[..., LockedSource]
Bring = Callable[..., Checkout]
FMT, NEST, INNER = "third_party/fmt lib", "third_party/nest", "third_party/nest/deep/inner"
KEPT = "Work in progress, kept by rocwright"


def facts(place: Path) -> tuple[str, ...]:
    """Everything that must not change when work is refused."""
    repositories = [place, *(place / path for path in (FMT, NEST, INNER))]
    words: Iterator[tuple[str, ...]] = iter(
        [
            ("for-each-ref",),
            ("rev-parse", "HEAD"),
            ("status", "--porcelain", "--untracked-files=all"),
            ("diff",),
        ]
    )
    listed = [*words]
    return tuple(git(repository, *each) for repository in repositories for each in listed)


def test_nothing_in_the_way_is_nothing_to_do(hipified: Path) -> None:
    before = facts(hipified)
    assert aside(hipified, Work(discard=True)) == aside(hipified, Work(keep_branch="mine")) == ()
    assert facts(hipified) == before


@pytest.mark.parametrize("head", ["tip", "upstream"])
def test_kept_work_is_all_on_the_branch(
    published: LockedSource, hipified: Path, place: Path, head: Head
) -> None:
    tip = hipify(checkout(published, place), head=head)
    top = git(place, "rev-parse", "THEROCK_HIPIFY_DIFFBASE")
    (place / "readme").write_text("mine\n")
    (place / "a.cu").unlink()
    (place / "tools/new.py").write_text("new\n")
    (place / "link").symlink_to("nowhere/at/all")
    (place / "tools/amd_build/build_amd.py").chmod(0o755)
    (place / "build").mkdir()
    (place / "build/product").write_text("ignored\n")
    kept = aside(place, Work(keep_branch="topic/mine"))
    assert [(each.repository, each.fate, each.branch) for each in kept] == [("", "kept", "topic/mine")]
    assert kept[0].commit == git(place, "rev-parse", "topic/mine")
    assert git(place, "log", "-1", "--format=%s|%P", "topic/mine") == f"{KEPT}|{top}"
    # Exactly the user's changes, whatever HEAD is.
    assert git(place, "diff-tree", "-r", "--name-status", "--no-renames", top, "topic/mine").splitlines() == [
        "D\ta.cu",
        "A\tlink",
        "M\treadme",
        "M\ttools/amd_build/build_amd.py",
        "A\ttools/new.py",
    ]
    assert git(place, "show", "topic/mine:readme") == "mine"
    assert git(place, "show", "topic/mine:link") == "nowhere/at/all"
    assert git(place, "ls-tree", "topic/mine", "tools/amd_build/build_amd.py").startswith("100755")
    assert (place / "readme").read_text() == "one\n"
    assert (place / "a.cu").exists()
    assert not (place / "tools/new.py").exists()
    assert not (place / "link").is_symlink()
    assert (place / "build/product").read_text() == "ignored\n"
    again = hipify(checkout(published, place), head=head)
    assert "hip/a.hip" in again.changed_files
    assert git(place, "rev-parse", "HEAD") == (top if head == "tip" else tip.upstream_commit)


def test_commits_of_head_stay_below_the_kept_changes(pristine: Path, published: LockedSource) -> None:
    (pristine / "readme").write_text("two\n")
    git(pristine, "commit", "-qam", "mine")
    own = git(pristine, "rev-parse", "HEAD")
    aside(pristine, Work(keep_branch="mine"))
    assert git(pristine, "rev-parse", "mine") == own  # no changes: nothing on top
    assert git(pristine, "rev-parse", "HEAD") == published.commit


def test_staged_and_unstaged_versions_are_both_kept(pristine: Path) -> None:
    (pristine / "readme").write_text("staged\n")
    git(pristine, "add", "readme")
    (pristine / "readme").write_text("edited further\n")
    aside(pristine, Work(keep_branch="mine"))
    assert git(pristine, "show", "mine:readme") == "edited further"
    assert git(pristine, "show", "mine~:readme") == "staged"
    assert git(pristine, "log", "--format=%s", "-2", "mine").splitlines() == [
        KEPT,
        f"Staged {KEPT[0].lower()}{KEPT[1:]}",
    ]


def test_staged_deletions_and_files_hidden_from_git(pristine: Path) -> None:
    git(pristine, "rm", "-q", "readme")
    git(pristine, "rm", "-q", "--cached", "b.h")
    (pristine / ".git/info").mkdir(exist_ok=True)
    (pristine / ".git/info/exclude").write_text("b.h\n")
    (pristine / "b.h").write_text("precious\n")
    aside(pristine, Work(keep_branch="mine"))
    assert git(pristine, "show", "mine:b.h") == "precious"
    assert "readme" not in git(pristine, "ls-tree", "--name-only", "mine").split()
    assert (pristine / "b.h").read_text() == "cuda b 1\n"
    assert (pristine / "readme").read_text() == "one\n"


def test_work_in_a_submodule_is_named_all_the_way_up(hipified: Path) -> None:
    (hipified / INNER / "inner.cu").write_text("mine\n")
    before = [git(hipified / path, "rev-parse", "HEAD") for path in ("", FMT, NEST, INNER)]
    kept = aside(hipified, Work(keep_branch="mine"))
    assert [each.repository for each in kept] == ["", NEST, INNER]
    inner = git(hipified / INNER, "rev-parse", "mine")
    nest = git(hipified / NEST, "rev-parse", "mine")
    assert git(hipified / NEST, "ls-tree", "mine", "deep/inner").split()[2] == inner
    assert git(hipified, "ls-tree", "mine", NEST).split()[2] == nest
    assert git(hipified, "diff", "--name-only", "mine~", "mine") == NEST
    assert git(hipified / FMT, "branch", "--list", "mine") == ""
    assert [git(hipified / path, "rev-parse", "HEAD") for path in ("", FMT, NEST, INNER)] == before
    assert (hipified / INNER / "inner.cu").read_text() == "cuda inner 1\n"
    # The branch is complete: plain git brings everything back.
    git(hipified, "checkout", "-q", "mine")
    git(hipified, "submodule", "update", "-q", "--recursive", "--no-fetch")
    assert (hipified / INNER / "inner.cu").read_text() == "mine\n"


@pytest.mark.parametrize("name", ["taken", "taken/deeper", "up", "-x", "a..b", "HEAD", "two words", ""])
def test_a_branch_that_cannot_be_is_refused_first(pristine: Path, name: str) -> None:
    git(pristine / FMT, "branch", "taken")
    git(pristine / FMT, "branch", "up/there")
    (pristine / "readme").write_text("mine\n")
    (pristine / FMT / "plain.txt").write_text("mine\n")
    before = facts(pristine)
    with pytest.raises(UsageError, match=r"there is a branch|cannot be the name"):
        aside(pristine, Work(keep_branch=name))
    assert facts(pristine) == before


def test_a_file_that_cannot_be_read_stops_everything(pristine: Path) -> None:
    (pristine / "readme").write_text("mine\n")
    # Nobody can read a file whose name is no text; a missing permission would not stop root.
    Path(os.fsdecode(os.fsencode(pristine) + b"/caf\xe9")).write_text("x\n")
    before = sorted(pristine.iterdir())
    with pytest.raises(RocwrightError, match="not UTF-8"):
        aside(pristine, Work(keep_branch="mine"))
    assert sorted(pristine.iterdir()) == before
    assert git(pristine, "for-each-ref", "refs/heads") == ""
    assert (pristine / "readme").read_text() == "mine\n"


def conflict(place: Path, kind: str) -> None:
    """Leave a merge, rebase or cherry-pick unfinished."""
    base = git(place, "rev-parse", "HEAD")
    (place / "readme").write_text("theirs\n")
    git(place, "commit", "-qam", "theirs")
    git(place, "branch", "theirs")
    git(place, "checkout", "-q", base)
    (place / "readme").write_text("ours\n")
    git(place, "commit", "-qam", "ours")
    git(place, "branch", "ours")
    with pytest.raises(Exception, match="exit status 1"):
        git(place, kind, "theirs")


@pytest.mark.parametrize("kind", ["merge", "rebase", "cherry-pick"])
@pytest.mark.parametrize("keep", [True, False], ids=["keep", "refuse"])
def test_what_git_has_not_finished_is_left_to_the_user(pristine: Path, kind: str, keep: bool) -> None:
    conflict(pristine, kind)
    before = facts(pristine)
    with pytest.raises(UnsavedWork, match=f"a {kind}") as caught:
        aside(pristine, Work(keep_branch="mine") if keep else REFUSE)
    assert f"git {kind} --abort" in str(caught.value) or kind == "rebase"
    assert facts(pristine) == before


def test_discarding_ends_a_merge_but_not_a_rebase(pristine: Path, published: LockedSource) -> None:
    conflict(pristine, "merge")
    aside(pristine, Work(discard=True))
    assert git(pristine, "status", "--porcelain") == ""
    assert git(pristine, "rev-parse", "HEAD") == published.commit
    assert not (pristine / ".git/MERGE_HEAD").exists()
    git(pristine, "checkout", "-q", "ours")
    with pytest.raises(Exception, match="exit status 1"):
        git(pristine, "rebase", "theirs")
    with pytest.raises(UnsavedWork, match="git rebase --abort"):
        aside(pristine, Work(discard=True))
    git(pristine, "rebase", "--abort")


def test_a_bisect_is_ended_by_its_owner(pristine: Path) -> None:
    git(pristine, "bisect", "start", "HEAD", "HEAD~1")
    with pytest.raises(UnsavedWork, match="git bisect reset"):
        aside(pristine, REFUSE)


def test_discard_says_what_it_throws_away_and_where_commits_are(
    pristine: Path, published: LockedSource
) -> None:
    (pristine / "readme").write_text("two\n")
    git(pristine, "commit", "-qam", "mine alone")
    own = git(pristine, "rev-parse", "HEAD")
    git(pristine, "stash", "list")
    (pristine / "b.h").write_text("changed\n")
    (pristine / "fresh/dir").mkdir(parents=True)
    (pristine / "fresh/dir/file").write_text("x\n")
    (pristine / "build").mkdir()
    (pristine / "build/product").write_text("ignored\n")
    (pristine / FMT / "extra").write_text("x\n")
    lost = {each.repository: each for each in aside(pristine, Work(discard=True))}
    assert {each.fate for each in lost.values()} == {"discarded"}
    assert (lost[""].commit, lost[FMT].commit) == (own, None)
    said = lost[""].said()
    for part in ("changed: b.h", "fresh/dir/file", f"commit {own[:7]} mine alone", f"git branch NAME {own}"):
        assert part in said
    assert "extra" in lost[FMT].said()
    assert git(pristine, "rev-parse", "HEAD") == published.commit
    assert git(pristine, "status", "--porcelain") == ""
    assert not (pristine / "fresh").exists()
    assert not (pristine / FMT / "extra").exists()
    assert (pristine / "build/product").exists()
    assert own in git(pristine, "reflog", "--format=%H").split()


def test_a_foreign_clone_goes_back_to_what_was_published_below_its_commits(
    family: Family, place: Path, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", str(family.torch), str(place))
    public = git(place, "rev-parse", "HEAD")
    git(place, "checkout", "-q", "--detach")
    commit(place, {"one": "1\n"})
    own = commit(place, {"two": "2\n"})
    (lost,) = aside(place, Work(discard=True))
    assert lost.commit == own
    assert git(place, "rev-parse", "HEAD") == public
    assert not (place / "one").exists()


def test_a_stash_is_nobody_s_business(pristine: Path) -> None:
    (pristine / "readme").write_text("stashed\n")
    git(pristine, "stash", "-q")
    (pristine / "readme").write_text("gone\n")
    aside(pristine, Work(discard=True))
    assert git(pristine, "stash", "list").count("stash@") == 1
    git(pristine, "stash", "pop", "-q")
    assert (pristine / "readme").read_text() == "stashed\n"


def test_a_branch_of_the_user_stays_and_is_named(pristine: Path, published: LockedSource) -> None:
    git(pristine, "checkout", "-qb", "mine")
    (pristine / "readme").write_text("two\n")
    git(pristine, "commit", "-qam", "mine")
    own = git(pristine, "rev-parse", "HEAD")
    (pristine / "b.h").write_text("changed\n")
    left, lost = aside(pristine, Work(discard=True))
    assert (left.fate, left.branch, left.commit) == ("left", "mine", own)
    assert lost.commit is None  # no commit is lost: the branch has it
    assert git(pristine, "rev-parse", "mine") == own
    assert git(pristine, "rev-parse", "HEAD") == published.commit
    assert git(pristine, "branch", "--show-current") == ""


def test_the_door_keeps_and_then_moves(
    family: Family, lock: Lock, bring: Bring, hipified: Path, tmp_path: Path
) -> None:
    (hipified / "readme").write_text("mine\n")
    v2 = family.version_2()
    with pytest.raises(UnsavedWork, match="changed: readme"):
        bring(lock())
    done = checkout(lock(), hipified, work=Work(keep_branch="mine"))
    assert done.commit == git(hipified, "rev-parse", "HEAD") == v2
    assert (hipified / "readme").read_text() == "one\n"
    assert git(hipified, "show", "mine:readme") == "mine"
    (hipified / "readme").write_text("again\n")
    hipify(done, work=Work(discard=True))
    assert (hipified / "readme").read_text() == "one\n"


def test_what_turns_up_later_in_a_run_gets_a_branch_of_its_own(
    family: Family, lock: Lock, bring: Bring, place: Path
) -> None:
    hipify(bring(lock()))
    (family.torch / "build").mkdir()
    (family.torch / "build/config").write_text("upstream's\n")
    git(family.torch, "add", "--force", "build/config")
    commit(family.torch, {}, "a file where products lie")
    (place / "build").mkdir()
    (place / "build/config").write_text("mine, ignored by git\n")
    (place / "readme").write_text("mine\n")
    with pytest.raises(UnsavedWork, match="readme"):
        bring(lock())
    done = checkout(lock(), place, work=Work(keep_branch="mine"))
    assert [(each.branch, each.items) for each in done.kept] == [
        ("mine", ("changed: readme",)),
        ("mine-2", ("in the way: build/config",)),
    ]
    assert git(place, "show", "mine:readme") == "mine"
    assert git(place, "show", "mine-2:build/config") == "mine, ignored by git"
    assert (place / "build/config").read_text() == "upstream's\n"


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_edits_that_git_was_told_to_overlook_are_kept(pristine: Path, flag: str) -> None:
    git(pristine, "update-index", flag, "readme")
    (pristine / "readme").write_text("mine\n")
    assert git(pristine, "status", "--porcelain") == ""
    with pytest.raises(UnsavedWork, match="readme"):
        aside(pristine, REFUSE)
    aside(pristine, Work(keep_branch="mine"))
    assert git(pristine, "show", "mine:readme") == "mine"
    assert (pristine / "readme").read_text() == "one\n"
    assert aside(pristine, REFUSE) == ()


def test_the_branch_is_there_before_files_go(pristine: Path) -> None:
    (pristine / "readme").write_text("mine\n")
    (pristine / "new").write_text("mine, too\n")
    (pristine / ".git/index.lock").touch()  # no command can move files now
    with pytest.raises(CommandFailed, match="checkout"):
        aside(pristine, Work(keep_branch="mine"))
    assert git(pristine, "show", "mine:readme") == "mine"
    assert git(pristine, "show", "mine:new") == "mine, too"


def test_much_work_is_told_in_short() -> None:
    kept = KeptWork("", "kept", "mine", "1" * 40, tuple(f"changed: {n}" for n in range(12)))
    assert kept.said().startswith("kept on branch mine: changed: 0; changed: 1; ")
    assert kept.said().endswith("; changed: 9; and 2 more")
