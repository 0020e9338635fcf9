"""What two locks disagree on, the commits between, and whether checkouts are where a lock says."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from git_repos import Family, commit, git
from rocwright.errors import IntegrityError, UsageError
from rocwright.sources.changes import (
    commits_between,
    compare,
    compare_link,
    verify_checkouts,
)
from rocwright.sources.lock import LockedSource, Outcome, SourceLock
from rocwright.sources.prepare import prepare_family
from rocwright.sources.tree import state as states
from rocwright.system.git import Git

A, B = "a" * 40, "b" * 40
TORCH = LockedSource("torch", "https://host/torch", "refs/heads/main", A, "flag", "pytorch", True)
AUDIO = msgspec.structs.replace(
    TORCH, project="torchaudio", directory="audio", pin=f"related_commits:1 @ {A}"
)
APEX = msgspec.structs.replace(TORCH, project="apex", directory="apex")


def lock(*sources: LockedSource) -> SourceLock:
    return SourceLock(1, "linux", sources)


def test_two_locks_compared() -> None:
    moved = msgspec.structs.replace(TORCH, commit=B, ref="refs/heads/next", origin="https://fork/torch")
    changes = compare(lock(AUDIO, TORCH), lock(APEX, moved))
    assert [(each.project, each.kind, each.fields) for each in changes] == [
        ("torch", "changed", ("origin", "ref", "commit")),
        ("apex", "added", ()),
        ("torchaudio", "removed", ()),
    ]
    torch, apex, audio = changes
    assert (torch.old_commit, torch.new_commit) == (A, B)
    assert (torch.old_origin, torch.new_origin) == ("https://host/torch", "https://fork/torch")
    assert (apex.old_commit, apex.new_commit, apex.old_origin) == (None, A, None)
    assert (audio.old_commit, audio.new_commit, audio.new_origin) == (A, None, None)
    assert (audio.old, audio.new) == (AUDIO, None)


def test_the_same_commit_for_another_reason_is_a_difference_of_the_locks() -> None:
    later = msgspec.structs.replace(AUDIO, pin=f"related_commits:1 @ {B}", outcome=Outcome(A))
    assert [each.fields for each in compare(lock(AUDIO), lock(later))] == [("pin", "outcome")]


def test_equal_locks_and_locks_of_two_platforms() -> None:
    windows = SourceLock(1, "windows", (AUDIO, TORCH))
    assert compare(lock(TORCH, AUDIO), lock(AUDIO, TORCH)) == ()
    assert compare(lock(TORCH, AUDIO), windows) == ()
    assert compare(lock(), lock()) == ()


@pytest.fixture
def history(tmp_path: Path) -> tuple[Path, list[str]]:
    """`one`, `two`, `three` in a row, and `aside` beside the last two."""
    repository = tmp_path / "history"
    ids = [commit(repository, {}, subject) for subject in ("one", "two", "three")]
    git(repository, "checkout", "-q", ids[0])
    ids.append(commit(repository, {}, "aside"))
    return repository, ids


def opened(path: Path) -> Git:
    return Git(path / ".git", path)


def test_commits_between(history: tuple[Path, list[str]]) -> None:
    path, (one, two, three, aside) = history
    log = commits_between("https://github.com/o/r", one, three, [opened(path)])
    assert log is not None
    assert (log.count, log.left, log.descends, log.subjects) == (2, 0, True, ("three", "two"))
    assert log.link == f"https://github.com/o/r/compare/{one}...{three}"
    back = commits_between("/srv/r", three, one, [opened(path)])
    assert back is not None
    assert (back.count, back.left, back.descends, back.subjects, back.link) == (0, 2, False, (), None)
    across = commits_between("/srv/r", two, aside, [opened(path)])
    assert across is not None
    assert (across.count, across.left, across.descends, across.subjects) == (1, 1, False, ("aside",))


def test_a_subject_in_no_known_encoding_stops_nobody(tmp_path: Path) -> None:
    old = commit(tmp_path / "r", {}, "old")
    (tmp_path / "message").write_bytes(b"caf\xe9\n")
    git(tmp_path / "r", "commit", "-q", "--allow-empty", "-F", str(tmp_path / "message"))
    log = commits_between("/srv/r", old, git(tmp_path / "r", "rev-parse", "HEAD"), [opened(tmp_path / "r")])
    assert log is not None and log.count == 1
    assert log.subjects[0].startswith("caf")


def test_only_the_newest_subjects_are_told(tmp_path: Path) -> None:
    ids = [commit(tmp_path / "r", {}, f"change {number}") for number in range(13)]
    log = commits_between("/srv/r", ids[0], ids[-1], [opened(tmp_path / "r")])
    assert log is not None
    assert log.count == 12
    assert log.subjects == tuple(f"change {number}" for number in range(12, 2, -1))


def test_the_repository_that_knows_enough_is_asked(history: tuple[Path, list[str]], tmp_path: Path) -> None:
    path, (one, _, three, _) = history
    commit(tmp_path / "other", {}, "unrelated")
    git(path, "branch", "-f", "main", three)
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", "--branch=main", path.as_uri(), str(shallow))
    git(shallow, "fetch", "-q", "--depth=1", "origin", one)
    # It has both commits, but not what lies between them.
    assert git(shallow, "rev-list", "--count", f"{one}..{three}") == "1"
    without = [opened(tmp_path / "other"), opened(shallow)]
    assert commits_between("/srv/r", one, three, without) is None
    log = commits_between("/srv/r", one, three, [*without, opened(path)])
    assert log is not None and log.count == 2
    assert commits_between("/srv/r", one, three, []) is None


@pytest.mark.parametrize(
    ("origin", "page"),
    [
        ("https://github.com/ROCm/pytorch.git", "https://github.com/ROCm/pytorch"),
        ("https://github.com/ROCm/pytorch/", "https://github.com/ROCm/pytorch"),
        ("git@github.com:ROCm/pytorch.git", "https://github.com/ROCm/pytorch"),
        ("ssh://git@github.com/ROCm/pytorch", "https://github.com/ROCm/pytorch"),
        ("https://gitlab.com/ROCm/pytorch", None),
        ("https://example.org/github.com/ROCm/pytorch", None),
        ("/srv/github.com/ROCm/pytorch", None),
    ],
)
def test_pages_that_show_commits(origin: str, page: str | None) -> None:
    assert compare_link(origin, "1", "2") == (None if page is None else f"{page}/compare/1...2")


class Bench:
    """A checkout as this tool leaves it: upstream commit, hipify commit, the state that names them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.upstream = commit(path, {"a.cu": "cuda"}, "upstream")
        git(path, "tag", "THEROCK_UPSTREAM_DIFFBASE")
        self.hipified = commit(path, {"a.hip": "hip"}, "DO NOT SUBMIT: HIPIFY")
        self.record()

    def record(self, **fields: str) -> None:
        state = states.State(upstream=self.upstream, hipify=self.hipified)
        states.save(opened(self.path), msgspec.structs.replace(state, **fields))

    def locked(self, **fields: object) -> SourceLock:
        source = msgspec.structs.replace(
            TORCH, commit=self.upstream, outcome=Outcome(self.hipified, self.hipified)
        )
        return lock(msgspec.structs.replace(source, **fields))

    def verify(self, held: SourceLock | None = None) -> None:
        verify_checkouts(held or self.locked(), {"torch": self.path})


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "my pytorch")


def test_a_checkout_as_locked(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.verify()
    monkeypatch.chdir(bench.path.parent)
    verify_checkouts(bench.locked(), {"torch": Path(bench.path.name)})
    # Nothing is known of the outcome before the first checkout.
    bench.verify(bench.locked(outcome=None))
    # Edits are every build's.
    (bench.path / "a.cu").write_text("edited")
    bench.verify()


def test_head_that_stays_upstream(bench: Bench) -> None:
    bench.record(head="upstream")
    with pytest.raises(
        IntegrityError, match=f"has HEAD at {bench.hipified[:12]}, and .* {bench.upstream[:12]}"
    ):
        bench.verify()
    git(bench.path, "checkout", "-q", bench.upstream)
    bench.verify()


def test_another_upstream_commit(bench: Bench) -> None:
    with pytest.raises(IntegrityError) as caught:
        bench.verify(bench.locked(commit=A))
    assert caught.value.what == (
        f"torch in {bench.path} is at {bench.upstream[:12]}, and aaaaaaaaaaaa is locked"
    )
    assert caught.value.next_step == (
        "run `rocwright checkout --locked`, or lock what is there with `rocwright checkout`"
    )


def test_another_outcome(bench: Bench) -> None:
    with pytest.raises(IntegrityError, match=f"became {bench.hipified[:12]} .*, and bbbbbbbbbbbb is locked"):
        bench.verify(bench.locked(outcome=Outcome(B, B)))
    bench.record(patched=B)
    with pytest.raises(IntegrityError, match=f"became bbbbbbbbbbbb .*, and {bench.hipified[:12]} is locked"):
        bench.verify()


def test_commits_on_top_and_an_interrupted_run(bench: Bench) -> None:
    mine = commit(bench.path, {"a.cu": "mine"}, "mine")
    with pytest.raises(IntegrityError, match=f"has HEAD at {mine[:12]}"):
        bench.verify()
    git(bench.path, "checkout", "-q", bench.hipified)
    bench.record(pending=bench.upstream)
    with pytest.raises(IntegrityError, match="was left half-way by an interrupted run"):
        bench.verify()


def test_a_clone_that_someone_else_made(tmp_path: Path) -> None:
    made = commit(tmp_path / "clone", {"a": "a"})
    held = lock(msgspec.structs.replace(TORCH, commit=made))
    verify_checkouts(held, {"torch": tmp_path / "clone"})
    commit(tmp_path / "clone", {"a": "b"})
    with pytest.raises(IntegrityError, match=f"and {made[:12]} is locked"):
        verify_checkouts(held, {"torch": tmp_path / "clone"})
    git(tmp_path, "init", "-q", "empty")
    with pytest.raises(IntegrityError, match="has no commit"):
        verify_checkouts(held, {"torch": tmp_path / "empty"})


def test_a_checkout_that_the_documented_scripts_made_before(bench: Bench) -> None:
    """It has the tags and the hipify commit, but nothing recorded."""
    (bench.path / ".git/rocwright/state.json").unlink()
    bench.verify()
    with pytest.raises(IntegrityError, match=f"is at {bench.upstream[:12]}, and aaaaaaaaaaaa is locked"):
        bench.verify(bench.locked(commit=A))


def test_every_project_is_told_and_a_missing_one_first(bench: Bench, tmp_path: Path) -> None:
    apex = commit(tmp_path / "apex", {})
    held = lock(msgspec.structs.replace(TORCH, commit=A), msgspec.structs.replace(APEX, commit=B), AUDIO)
    places = {"torch": bench.path, "apex": tmp_path / "apex"}
    with pytest.raises(IntegrityError) as caught:
        verify_checkouts(held, places)
    assert caught.value.what.splitlines() == [
        f"torch in {bench.path} is at {bench.upstream[:12]}, and aaaaaaaaaaaa is locked",
        f"apex in {tmp_path / 'apex'} is at {apex[:12]}, and bbbbbbbbbbbb is locked",
    ]
    with pytest.raises(UsageError, match=r"^torchaudio is not checked out in .*/audio"):
        verify_checkouts(held, {**places, "torchaudio": tmp_path / "audio"})
    with pytest.raises(UsageError, match="the lock does not hold triton"):
        verify_checkouts(held, {"triton": tmp_path})


def test_submodules_have_to_be_where_the_commit_says(family: Family, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--recurse-submodules", family.url, str(clone))
    held = lock(msgspec.structs.replace(TORCH, commit=family.v1))
    verify_checkouts(held, {"torch": clone})
    inner = commit(clone / "third_party/nest/deep/inner", {"x": "x"})
    said = f"third_party/nest/deep/inner at {inner[:12]}, and {family.inner_1[:12]} is locked"
    with pytest.raises(IntegrityError, match=f"torch in .* has its submodule {said}"):
        verify_checkouts(held, {"torch": clone})
    git(clone, "submodule", "deinit", "-q", "--force", "third_party/nest")
    with pytest.raises(IntegrityError, match="lacks its submodule third_party/nest"):
        verify_checkouts(held, {"torch": clone})
    verify_checkouts(
        lock(msgspec.structs.replace(TORCH, commit=family.v1, submodules=False)), {"torch": clone}
    )


@pytest.mark.parametrize("head", ["tip", "upstream"])
def test_what_was_prepared_is_what_its_lock_says(
    head: states.Head, published: LockedSource, place: Path
) -> None:
    held, _ = prepare_family(lock(published), {"torch": place}, head=head)
    outcome = held.get("torch").outcome
    assert outcome is not None and outcome.tip != published.commit
    verify_checkouts(held, {"torch": place})
    with pytest.raises(IntegrityError, match=f"and {'b' * 12} is locked"):
        verify_checkouts(
            lock(msgspec.structs.replace(published, outcome=msgspec.structs.replace(outcome, tip=B))),
            {"torch": place},
        )
    git(place / "third_party/nest/deep/inner", "checkout", "-q", "--orphan", "mine")
    mine = commit(place / "third_party/nest/deep/inner", {"x": "x"})
    with pytest.raises(IntegrityError, match=f"its submodule third_party/nest/deep/inner at {mine[:12]}"):
        verify_checkouts(held, {"torch": place})
