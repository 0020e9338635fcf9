"""Whatever a user left in a checkout, going to another version loses none of it, or he said so.

Every kind of work, in every state that a checkout can be in, against the three ways on: the command
refuses and says what it found, `--keep-branch NAME` puts it aside, `--discard` throws it away.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from git_repos import Family
from git_server import serving
from real.sources.desk import SUBMODULES, Desk, facts, listing

# Begins early: it takes minutes.
pytestmark = pytest.mark.long

STATES = {
    "pristine": ("--no-hipify",),
    "hipified": (),
    "upstream": ("--head-stays-upstream",),
    "patched": ("--patches", "patches"),
}
UNSAVED = 11
NAME = "my/work"


@dataclass
class Checkouts:
    """A desk with a checkout of the first version in each state, and what the second looks like there."""

    desk: Desk
    fresh: dict[str, dict[str, bytes | str]]
    tips: dict[str, str]


@pytest.fixture(scope="module")
def checkouts(newcomer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkouts]:
    """Checkouts of `v1` and `v2` in each state; the tests work on copies."""
    family = Family(tmp_path_factory.mktemp("unsaved") / "origins")
    family.version_2()
    place = Path(newcomer.home) / "desks" / "unsaved"
    place.mkdir(parents=True)
    with serving(family.root) as server:
        desk = Desk(newcomer, place, {"torch": server.url("torch")})
        make_patch(desk, family)
        fresh, tips = {}, {}
        for state, flags in STATES.items():
            desk.checkout("--directory", f"v1-{state}", *flags, ref=family.v1)
            desk.checkout("--directory", f"v2-{state}", *flags)
            fresh[state] = listing(place / f"v2-{state}/pytorch")
            tips[state] = desk.ref("HEAD", at=f"v2-{state}/pytorch")
        # HEAD is upstream's commit in two of them, whose files differ.
        assert len(set(tips.values())) == 3
        assert tips["upstream"] == tips["pristine"]
        assert fresh["upstream"] == fresh["hipified"] != fresh["pristine"]
        yield Checkouts(desk, fresh, tips)
    shutil.rmtree(place)


def make_patch(desk: Desk, family: Family) -> None:
    """One patch that fits both versions."""
    desk.checkout("--directory", "patching", ref=family.v1)
    desk.write("patching/pytorch/readme", "patched\n")
    desk.git("commit", "-qam", "Patch the readme", at="patching/pytorch")
    desk.run("sources", "save-patches", desk.place / "patching/pytorch", "--output-dir", "patches")
    assert list((desk.place / "patches").rglob("*.patch"))


# The kinds of work. Each leaves content in the checkout `at` and returns the pieces that must not be lost.


def staged(desk: Desk, at: str) -> list[str]:
    desk.write(f"{at}/b.h", "staged edit\n")
    desk.git("add", "b.h", at=at)
    desk.write(f"{at}/new/staged.txt", "staged new file\n")
    desk.git("add", "new", at=at)
    return ["staged edit\n", "staged new file\n"]


def staged_only(desk: Desk, at: str) -> list[str]:
    """What is staged lies nowhere but in the index: the file has other content by now."""
    desk.write(f"{at}/readme", "only in the index\n")
    desk.git("add", "readme", at=at)
    desk.write(f"{at}/readme", "in the file\n")
    return ["only in the index\n", "in the file\n"]


def unstaged(desk: Desk, at: str) -> list[str]:
    desk.write(f"{at}/b.h", "unstaged edit\n")
    return ["unstaged edit\n"]


def untracked(desk: Desk, at: str) -> list[str]:
    """One of them stands where the next version has a file."""
    desk.write(f"{at}/c.cu", "untracked in the way\n")
    desk.write(f"{at}/notes/späte ideen.txt", "untracked notes\n")
    return ["untracked in the way\n", "untracked notes\n"]


def ignored(desk: Desk, at: str) -> list[str]:
    desk.write(f"{at}/build/libtorch.so", "hours of compiling\n")
    return ["hours of compiling\n"]


def detached_commit(desk: Desk, at: str) -> list[str]:
    desk.write(f"{at}/b.h", "committed on a detached HEAD\n")
    desk.git("commit", "-qam", "mine", at=at)
    return ["committed on a detached HEAD\n"]


def branch_commit(desk: Desk, at: str) -> list[str]:
    desk.git("checkout", "-q", "-b", "topic", at=at)
    desk.write(f"{at}/b.h", "committed on a branch\n")
    desk.git("commit", "-qm", "mine", "--", "b.h", at=at)
    return ["committed on a branch\n"]


def in_submodule(desk: Desk, at: str) -> list[str]:
    where = f"{at}/{SUBMODULES[0]}"
    desk.write(f"{where}/fmt.h", "edit in a submodule\n")
    desk.write(f"{where}/mine.txt", "untracked in a submodule\n")
    return ["edit in a submodule\n", "untracked in a submodule\n"]


def commit_in_submodule(desk: Desk, at: str) -> list[str]:
    where = f"{at}/{SUBMODULES[0]}"
    desk.write(f"{where}/fmt.h", "commit in a submodule\n")
    desk.git("commit", "-qam", "mine", at=where)
    return ["commit in a submodule\n"]


def in_nested_submodule(desk: Desk, at: str) -> list[str]:
    where = f"{at}/{SUBMODULES[2]}"
    desk.write(f"{where}/inner.cu", "edit two submodules down\n")
    return ["edit two submodules down\n"]


def merge(desk: Desk, at: str) -> list[str]:
    """A merge that stopped at a conflict; one side is only named by MERGE_HEAD."""
    base = desk.ref("HEAD", at=at)
    desk.write(f"{at}/readme", "theirs in a merge\n")
    desk.git("commit", "-qm", "theirs", "--", "readme", at=at)
    theirs = desk.ref("HEAD", at=at)
    desk.git("reset", "-q", "--soft", base, at=at)
    desk.write(f"{at}/readme", "ours in a merge\n")
    desk.git("commit", "-qm", "ours", "--", "readme", at=at)
    desk.git("merge", "-q", theirs, at=at, ok=(1,))
    assert "<<<<<<<" in (desk.place / at / "readme").read_text()
    return ["theirs in a merge\n", "ours in a merge\n"]


KINDS: dict[str, Callable[[Desk, str], list[str]]] = {
    function.__name__: function
    for function in (
        staged,
        staged_only,
        unstaged,
        untracked,
        ignored,
        detached_commit,
        branch_commit,
        in_submodule,
        commit_in_submodule,
        in_nested_submodule,
        merge,
    )
}
# Leaving these loses nothing: the command may go on, and then they are where they were.
HARMLESS = {"ignored", "branch_commit"}


def lost(desk: Desk, at: str, precious: list[str]) -> list[str]:
    """The pieces that neither lie in a file nor can be reached from a ref (the index counts as one)."""
    root = desk.place / at
    found = {content for content in listing(root).values() if isinstance(content, bytes)}
    missing = []
    for piece in precious:
        if piece.encode() in found:
            continue
        where = [at, *(f"{at}/{path}" for path in SUBMODULES if (root / path / ".git").exists())]
        if not any(_reachable(desk, repository, piece) for repository in where):
            missing.append(piece)
    return missing


def _reachable(desk: Desk, at: str, piece: str) -> bool:
    scratch = desk.write(".home/piece", piece)
    blob = desk.git("hash-object", "--no-filters", "--", str(scratch), at=at)
    objects = desk.git("rev-list", "--objects", "--all", "--indexed-objects", "HEAD", at=at)
    merging = "MERGE_HEAD" if desk.ref("MERGE_HEAD", at=at) else "HEAD"
    return blob in objects or blob in desk.git("rev-list", "--objects", merging, at=at)


def in_history(desk: Desk, at: str, precious: list[str], name: str) -> bool:
    """Whether every piece is in the files or history of the branch `name`, of any repository that has it."""
    objects = ""
    for where in (at, *(f"{at}/{path}" for path in SUBMODULES)):
        if (desk.place / where / ".git").exists() and desk.ref(f"refs/heads/{name}", at=where):
            objects += desk.git("rev-list", "--objects", f"refs/heads/{name}", at=where)
    blobs = [
        desk.git("hash-object", "--no-filters", "--", str(desk.write(".home/piece", piece)), at=at)
        for piece in precious
    ]
    return all(blob in objects for blob in blobs)


def move(desk: Desk, at: str, state: str, *more: str, code: int = 0) -> str:
    """Take a checkout to the second version, as it was made; returns what was said."""
    done = desk.checkout("--directory", str(Path(at).parent), *STATES[state], *more, code=code)
    return done.stdout + done.stderr


# git itself begins no merge while the index differs from HEAD, as it does where HEAD stays upstream.
CELLS = [(kind, state) for kind in KINDS for state in STATES if (kind, state) != ("merge", "upstream")]


@pytest.mark.parametrize(("kind", "state"), CELLS)
class TestWork:
    def bring(self, checkouts: Checkouts, kind: str, state: str) -> tuple[Desk, str, list[str]]:
        desk = checkouts.desk
        shutil.rmtree(desk.place / "try", ignore_errors=True)
        desk.copy(f"v1-{state}", "try")
        return desk, "try/pytorch", KINDS[kind](desk, "try/pytorch")

    def test_is_not_lost(self, checkouts: Checkouts, kind: str, state: str) -> None:
        desk, at, precious = self.bring(checkouts, kind, state)
        if kind in HARMLESS:
            move(desk, at, state)
            assert lost(desk, at, precious) == []
            assert desk.ref("HEAD", at=at) == checkouts.tips[state]
            return
        before, files = facts(desk, at), listing(desk.place / at)
        said = move(desk, at, state, code=UNSAVED)
        assert facts(desk, at) == before
        assert listing(desk.place / at) == files
        if kind == "merge":
            assert "git merge --abort" in said, "no commit can hold a half-done merge"
        else:
            assert "--keep-branch" in said
            assert "--discard" in said
        if "submodule" in kind:
            assert SUBMODULES[2 if "nested" in kind else 0] in said, "it says where"
        self.keep(checkouts, desk, at, kind, state, precious)

    def keep(
        self, checkouts: Checkouts, desk: Desk, at: str, kind: str, state: str, precious: list[str]
    ) -> None:
        before = facts(desk, at)
        if kind == "merge":
            said = move(desk, at, state, "--keep-branch", NAME, code=UNSAVED)
            assert "merge" in said
            assert facts(desk, at) == before
            assert lost(desk, at, precious) == []
            return
        move(desk, at, state, "--keep-branch", NAME)
        assert in_history(desk, at, precious, NAME)
        assert listing(desk.place / at) == checkouts.fresh[state]
        assert desk.ref("HEAD", at=at) == checkouts.tips[state]

    def test_is_gone_when_discarded(self, checkouts: Checkouts, kind: str, state: str) -> None:
        desk, at, precious = self.bring(checkouts, kind, state)
        move(desk, at, state, "--discard")
        assert desk.ref("HEAD", at=at) == checkouts.tips[state]
        files = listing(desk.place / at)
        if kind in HARMLESS:
            assert lost(desk, at, precious) == [], "discarding does not reach what is in nobody's way"
            files.pop("build/libtorch.so", None)
        assert files == checkouts.fresh[state]
        assert desk.git("status", "--porcelain", at=at) == desk.git(
            "status", "--porcelain", at=f"v2-{state}/pytorch"
        )
