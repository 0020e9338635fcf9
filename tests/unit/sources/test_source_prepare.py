"""The whole way of one project and of a family: the lock says what it becomes, no failure hides another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from git_repos import SCRIPT, Family, commit, git
from rocwright.errors import (
    CommandFailed,
    IntegrityError,
    Interrupted,
    UnsavedWork,
    UsageError,
)
from rocwright.sources import prepare as whole_way
from rocwright.sources.aside import Work
from rocwright.sources.lock import LockedSource, Outcome, SourceLock
from rocwright.sources.prepare import FamilyFailed, Prepared, prepare, prepare_family

# Many processes of git, pip or compilers: seconds each.
pytestmark = pytest.mark.slow

Lock = Callable[..., LockedSource]
PATCH = """\
From: Bob <bob@example.org>
Date: Wed, 15 Nov 2023 12:00:00 +0100
Subject: [PATCH] Two

---
diff --git a/readme b/readme
--- a/readme
+++ b/readme
@@ -1 +1 @@
-one
+two
"""


@pytest.fixture
def patches(tmp_path: Path) -> Path:
    (tmp_path / "patches/pytorch").mkdir(parents=True)
    (tmp_path / "patches/pytorch/1.patch").write_text(PATCH)
    return tmp_path / "patches"


def lock_of(*sources: LockedSource) -> SourceLock:
    return SourceLock(schema=1, platform="linux", sources=sources)


def named(locked: LockedSource, project: str) -> LockedSource:
    return msgspec.structs.replace(locked, project=project, directory=project)


class Told:
    """A watch that remembers; `during` is called when a piece starts."""

    def __init__(self, during: Callable[[str], None] = lambda name: None) -> None:
        self.ends: dict[str, str] = {}
        self._during = during

    def expect(self, count: int) -> None:
        pass

    def start(self, name: str) -> None:
        if "/" not in name:
            self._during(name)

    def note(self, name: str, text: str) -> None:
        pass

    def end(self, name: str, state: str, text: str = "") -> None:
        if "/" not in name:  # submodules are pieces of their own
            self.ends[name] = state


def test_the_outcome_is_what_lies_there(family: Family, lock: Lock, place: Path, tmp_path: Path) -> None:
    plain = prepare(lock(hipify=False), place)
    assert plain.hipified is None and plain.patched is None
    assert plain.outcome == Outcome(tip=family.v1)
    done = prepare(lock(), place)
    assert done.hipified is not None
    assert done.outcome.tip == done.outcome.hipify_commit == git(place, "rev-parse", "HEAD") != family.v1
    # A replay of the lock with its outcome agrees with itself, here and elsewhere.
    replayed = msgspec.structs.replace(lock(), outcome=done.outcome)
    assert prepare(replayed, place).outcome == done.outcome
    assert prepare(replayed, tmp_path / "elsewhere/src").outcome == done.outcome


def test_a_replay_that_differs_says_why(
    published: LockedSource, hipified: Path, patches: Path, tmp_path: Path
) -> None:
    done = prepare(published, hipified)
    older = msgspec.structs.replace(done.outcome, tip="1" * 40, hipify_commit="1" * 40, python="3.9")
    with pytest.raises(IntegrityError) as caught:
        prepare(msgspec.structs.replace(published, outcome=older), hipified)
    for part in (
        f"torch became {done.outcome.tip[:12]}, the lock says 111111111111",
        f"hipify made {done.outcome.tip[:12]}, not 111111111111",
        "ran it, not 3.9",
    ):
        assert part in str(caught.value)
    with pytest.raises(IntegrityError, match="the patches, or their order"):
        prepare(msgspec.structs.replace(published, outcome=done.outcome), hipified, patches=patches)
    patched = prepare(published, hipified, patches=patches)
    with pytest.raises(IntegrityError, match="made with patches on top; give the same with --patches"):
        prepare(msgspec.structs.replace(published, outcome=patched.outcome), tmp_path / "fresh")


def test_a_family_comes_side_by_side_and_the_lock_gets_every_outcome(lock: Lock, tmp_path: Path) -> None:
    # Each waits for the other to have begun: one after the other would never end.
    both = threading.Barrier(2, timeout=30)
    told = Told(lambda name: both.wait() and None)
    family_lock = lock_of(lock(), named(lock(hipify=False), "torchaudio"))
    places = {"torch": tmp_path / "src/pytorch", "torchaudio": tmp_path / "src/pytorch_audio"}
    done, prepared = prepare_family(family_lock, places, jobs=2, watch=told)
    assert told.ends == {"torch": "done", "torchaudio": "done"}
    assert [source.project for source in done.sources] == ["torch", "torchaudio"]
    assert [source.outcome for source in done.sources] == [prepared[p].outcome for p in places]
    assert [git(place, "rev-parse", "HEAD") for place in places.values()] == [
        source.outcome.tip for source in done.sources if source.outcome is not None
    ]
    told = Told()
    assert prepare_family(done, places, jobs=1, watch=told)[0] == done
    assert told.ends == {"torch": "cached", "torchaudio": "cached"}


def test_every_failure_is_told_and_the_others_are_done(family: Family, lock: Lock, tmp_path: Path) -> None:
    good = lock()
    commit(family.torch, {"tools/amd_build/build_amd.py": "raise SystemExit('no hip here')\n"}, "broken")
    broken = named(lock(), "torchvision")
    dirty = named(msgspec.structs.replace(good, hipify=False), "torchaudio")
    places = {name: tmp_path / "src" / name for name in ("torch", "torchaudio", "torchvision")}
    prepare(dirty, places["torchaudio"])
    (places["torchaudio"] / "readme").write_text("mine\n")
    moved = msgspec.structs.replace(dirty, commit=broken.commit, ref=broken.commit)
    told = Told()
    with pytest.raises(FamilyFailed) as caught:
        prepare_family(lock_of(good, moved, broken), places, watch=told)
    error = caught.value
    assert {name: type(each) for name, each in error.errors.items()} == {
        "torchaudio": UnsavedWork,
        "torchvision": CommandFailed,
    }
    assert error.exit_code == 11
    for part in ("2 of 3 projects failed", "torchaudio: ", "changed: readme", "torchvision: ", "no hip here"):
        assert part in str(error)
    assert told.ends == {"torch": "done", "torchaudio": "failed", "torchvision": "failed"}
    outcomes = {source.project: source.outcome for source in error.lock.sources}
    assert outcomes == {"torch": error.prepared["torch"].outcome, "torchaudio": None, "torchvision": None}
    assert (places["torchaudio"] / "readme").read_text() == "mine\n"


def test_one_failure_reads_like_itself(lock: Lock, tmp_path: Path) -> None:
    place = tmp_path / "src/pytorch"
    prepare(lock(), place)
    (place / "readme").write_text("mine\n")
    with pytest.raises(FamilyFailed) as caught:
        prepare_family(lock_of(lock(hipify=False)), {"torch": place})
    assert str(caught.value).startswith("torch: ")
    assert "changed: readme" in str(caught.value)
    assert caught.value.next_step is not None and "--keep-branch" in caught.value.next_step
    done, _ = prepare_family(lock_of(lock(hipify=False)), {"torch": place}, work=Work(keep_branch="mine"))
    assert git(place, "show", "mine:readme") == "mine"
    assert done.sources[0].outcome is not None


def test_an_interrupt_is_no_failure_among_others(
    lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(locked: LockedSource, *args: object, **options: object) -> Prepared:
        raise Interrupted("stopped") if locked.project == "torch" else UsageError("something else")

    monkeypatch.setattr(whole_way, "prepare", stopped)
    places = {name: tmp_path / name for name in ("torch", "torchaudio")}
    with pytest.raises(Interrupted):
        prepare_family(lock_of(lock(), named(lock(), "torchaudio")), places)


def test_checkouts_do_not_lie_in_each_other(lock: Lock, tmp_path: Path) -> None:
    family_lock = lock_of(lock(), named(lock(), "torchaudio"))
    for inner in ("pytorch", "pytorch/audio"):
        with pytest.raises(UsageError, match="would lie inside the checkout of"):
            prepare_family(family_lock, {"torch": tmp_path / "pytorch", "torchaudio": tmp_path / inner})
    assert not (tmp_path / "pytorch").exists()


def test_patches_for_nobody_are_noticed_before_anything(lock: Lock, place: Path, patches: Path) -> None:
    (patches / "pytorch").rename(patches / "torch-patches")
    with pytest.raises(UsageError, match="holds no patches for these projects") as caught:
        prepare_family(lock_of(lock()), {"torch": place}, patches=patches)
    assert "pytorch" in str(caught.value)
    assert not place.exists()


def test_patches_are_found_below_the_usual_name_too(lock: Lock, tmp_path: Path, patches: Path) -> None:
    done = prepare(lock(), tmp_path / "my-torch", patches=patches)
    assert done.patched is not None
    assert (tmp_path / "my-torch/readme").read_text() == "two\n"
    (patches / "my-torch").mkdir()
    assert prepare(lock(), tmp_path / "my-torch", patches=patches).patched is None


def test_another_python_is_recorded_as_such(family: Family, lock: Lock, place: Path) -> None:
    assert "readlines" not in SCRIPT  # the script needs nothing of a certain version
    done = prepare(lock(), place)
    assert done.outcome.python is not None and done.outcome.rules is not None
