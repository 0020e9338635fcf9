"""Checkout: exactly one commit, idempotent, resumable, correct on a re-pin, and nobody's work is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from git_repos import Family, commit, git
from rocwright.errors import RocwrightError, Unreachable, UnsavedWork, UsageError
from rocwright.sources.aside import Work
from rocwright.sources.checkout import Checkout
from rocwright.sources.hipify import hipify
from rocwright.sources.lock import SCHEMA, LockedSource, SourceLock, write_lock
from rocwright.sources.plan import plan_checkout

# Many processes, or many megabytes: `make slow` and CI run them.
pytestmark = pytest.mark.slow

Lock = Callable[..., LockedSource]
Bring = Callable[..., Checkout]
REPOSITORIES = ("", "third_party/fmt lib", "third_party/nest", "third_party/nest/deep/inner")
UPSTREAM, HIPIFY = "THEROCK_UPSTREAM_DIFFBASE", "THEROCK_HIPIFY_DIFFBASE"


def heads(directory: Path) -> list[str]:
    return [git(directory / path, "rev-parse", "HEAD") for path in REPOSITORIES]


def listing(directory: Path) -> set[str]:
    return {
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(directory).parts
    }


def test_one_commit_detached_with_submodules_and_tags(
    family: Family, lock: Lock, bring: Bring, place: Path
) -> None:
    git(family.torch, "tag", "v0.1")
    git(family.torch, "branch", "other")
    done = bring(lock())
    expected = [family.v1, family.fmt_1, family.nest_1, family.inner_1]
    assert heads(place) == expected
    assert [done.commit, *(sub.commit for sub in done.submodules)] == expected
    assert done.tree == git(family.torch, "rev-parse", "HEAD^{tree}")
    assert git(place, "tag").split() == [UPSTREAM]
    assert git(place, "branch", "-r").split() == ["origin/main"]
    for path in REPOSITORIES:
        assert (
            git(place / path, "rev-parse", UPSTREAM, "HEAD").split()[0] == heads(place / path / "")[0]
            if not path
            else True
        )
        assert git(place / path, "rev-parse", UPSTREAM) == git(place / path, "rev-parse", "HEAD")
        assert git(place / path, "status", "--porcelain") == ""
        assert git(place / path, "branch", "--show-current") == ""
    # Plain git agrees with the layout: nothing to update, nothing out of place.
    git(place, "submodule", "update", "--init", "--recursive", "--no-fetch")
    assert heads(place) == expected


def test_second_run_only_verifies_and_is_fast(
    lock: Lock, bring: Bring, family: Family, tmp_path: Path
) -> None:
    locked = lock()
    first = bring(locked)
    family.torch.rename(tmp_path / "gone")  # a second run needs no network
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*") if path.is_file()}
    began = time.monotonic()
    again = bring(locked)
    assert time.monotonic() - began < 0.3
    assert (again.changed, again.commit, again.submodules) == (False, first.commit, first.submodules)
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*") if path.is_file()}
    # git itself may refresh what it remembers of file times.
    assert {p.name for p in after if after[p] != before.get(p)} <= {"index"}


def test_repin_moves_every_submodule_and_back(family: Family, lock: Lock, bring: Bring, place: Path) -> None:
    first = lock()
    bring(first)
    v2 = family.version_2()
    bring(lock())
    assert heads(place) == [v2, family.fmt_2, family.nest_2, family.inner_2]
    assert git(place, "status", "--porcelain") == ""
    bring(first)
    assert heads(place) == [family.v1, family.fmt_1, family.nest_1, family.inner_1]
    assert "c.cu" not in listing(place)


def test_a_removed_submodule_disappears_and_comes_back(
    family: Family, lock: Lock, bring: Bring, place: Path
) -> None:
    first = lock()
    bring(first)
    hipify(bring(first), head="upstream")
    git(family.torch, "rm", "-q", "third_party/nest")
    commit(family.torch, {"third_party/nest/now_a_file": "x\n"}, "without nest")
    bring(lock())
    assert listing(place / "third_party/nest") == {"now_a_file"}
    assert git(place, "status", "--porcelain") == ""
    bring(first)
    assert heads(place)[3] == family.inner_1
    assert listing(place / "third_party/nest") == {".gitmodules", "nest.txt", "deep/inner/inner.cu"}


def test_without_submodules_and_later_with(lock: Lock, bring: Bring, place: Path) -> None:
    assert bring(lock(submodules=False)).submodules == ()
    assert listing(place / "third_party") == set()
    assert len(bring(lock()).submodules) == 3
    assert bring(lock(submodules=False)).submodules == ()
    assert listing(place / "third_party") == set()
    assert git(place, "status", "--porcelain") == ""


def test_depth_limits_history(lock: Lock, bring: Bring, family: Family, place: Path) -> None:
    bring(lock(), depth=1)
    assert git(place, "rev-list", "--count", "HEAD") == "1"
    assert git(family.torch, "rev-list", "--count", "HEAD") == "2"


def test_plan_says_what_will_be_done_and_does_nothing(
    lock: Lock, bring: Bring, tmp_path: Path, place: Path
) -> None:
    locked = lock()
    plan = plan_checkout(locked, place)
    assert (plan.action, plan.current, plan.obstacles) == ("clone", None, ())
    assert not (tmp_path / "work").exists()
    assert f"fetch {locked.commit}" in plan.steps()[0]
    bring(locked)
    assert plan_checkout(locked, place).action == "verify"


@pytest.mark.parametrize(
    ("hipified", "path", "change", "said"),
    [
        ("pristine", "b.h", "edit", "changed: b.h"),
        ("pristine", "readme", "delete", "changed: readme"),
        ("uncommitted", "readme", "stage", "changed: readme"),
        ("uncommitted", "notes.txt", "edit", "added: notes.txt"),
        ("pristine", "third_party/fmt lib/fmt.h", "edit", "third_party/fmt lib: changed: fmt.h"),
        (
            "committed",
            "third_party/nest/deep/inner/new",
            "commit",
            "deep/inner: 1 commit of yours",
        ),
        ("committed", "mine", "commit", "1 commit of yours, up to"),
    ],
)
def test_foreign_work_is_refused_and_kept(
    family: Family, lock: Lock, bring: Bring, place: Path, path: str, change: str, said: str, hipified: str
) -> None:
    done = bring(lock())
    if hipified != "pristine":
        hipify(done, head="tip" if hipified == "committed" else "upstream")
    file = place / path
    if change == "delete":
        file.unlink()
    else:
        original = file.read_text() if file.exists() else ""
        file.write_text("precious\n")
    if change == "commit":
        git(file.parent, "add", file.name)
        git(file.parent, "commit", "-q", "-m", "mine")
    if change == "stage":
        git(file.parent, "add", file.name)
        file.write_text(original)  # only the index holds the work
    before = (listing(place), heads(place))
    family.version_2()
    with pytest.raises(RocwrightError) as caught:
        bring(lock())
    assert said in str(caught.value)
    assert (listing(place), heads(place)) == before
    if change in ("edit", "commit"):
        assert file.read_text() == "precious\n"
    with pytest.raises(RocwrightError, match="contains work of yours"):
        hipify(done)


def test_ignored_files_do_not_stand_in_the_way(family: Family, lock: Lock, bring: Bring, place: Path) -> None:
    bring(lock())
    product = place / "build/libtorch.so"
    product.parent.mkdir()
    product.write_text("x")
    family.version_2()
    bring(lock())
    assert product.read_text() == "x"


def test_a_directory_in_other_use_is_refused(lock: Lock, bring: Bring, place: Path) -> None:
    place.mkdir(parents=True)
    (place / "thesis.txt").write_text("x")
    with pytest.raises(UsageError, match="is not a checkout"):
        bring(lock())


def test_a_plain_clone_is_taken_over_only_when_nothing_is_lost(
    family: Family, lock: Lock, bring: Bring, tmp_path: Path, place: Path
) -> None:
    git(tmp_path, "clone", "-q", "--recurse-submodules", str(family.torch), str(place))
    family.version_2()
    done = bring(lock())
    assert heads(place)[0] == done.commit
    # A branch of the user's holds his commit: leaving it loses nothing.
    git(place, "checkout", "-q", "main")
    mine = commit(place, {"mine": "x"})
    assert bring(lock()).commit == done.commit
    assert git(place, "rev-parse", "main") == mine
    git(place, "checkout", "-q", "--detach", "main")
    commit(place, {"more": "x"})
    with pytest.raises(UnsavedWork, match="1 commit of yours, up to"):
        bring(lock())


def test_a_server_that_hands_out_only_tips(
    family: Family, lock: Lock, bring: Bring, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Protocol 0 refuses commits that no ref names, as servers without allowAnySHA1InWant do.
    (tmp_path / "home/.gitconfig").write_text("[protocol]\n\tversion = 0\n")
    family.version_2()
    old = lock(family.v1)
    assert bring(old).commit == family.v1
    assert git(place, "for-each-ref", "refs/rocwright/found") == ""
    with pytest.raises(Unreachable, match=r"commit 1{40} is in no branch or tag"):
        bring(lock("1" * 40))
    # A commit of a pull request is below no branch: the ref of the lock leads to it.
    git(family.torch, "checkout", "-q", "--detach")
    pulled = commit(family.torch, {"pulled": "1\n"})
    commit(family.torch, {"pulled": "2\n"})
    git(family.torch, "update-ref", "refs/pull/7/head", "HEAD")
    git(family.torch, "checkout", "-q", "main")
    ref = msgspec.structs.replace(lock(pulled), ref="refs/pull/7/head")
    assert bring(ref, place.parent / "pulled").commit == pulled


def test_a_commit_that_does_not_exist_leaves_the_checkout_as_it_was(
    lock: Lock, bring: Bring, place: Path
) -> None:
    bring(lock())
    before = heads(place)
    with pytest.raises(Unreachable, match="is in no branch or tag"):
        bring(lock("2" * 40))
    assert heads(place) == before


def test_user_configuration_changes_no_byte(lock: Lock, bring: Bring, tmp_path: Path, place: Path) -> None:
    (tmp_path / "ignore").write_text("*.txt\n")
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").write_text("#!/bin/sh\necho hooked > hooked\n")
    (hooks / "post-checkout").chmod(0o755)
    (tmp_path / "home/.gitconfig").write_text(
        f"[core]\n autocrlf = true\n hooksPath = {hooks}\n excludesFile = {tmp_path}/ignore\n"
        "[commit]\n gpgSign = true\n[tag]\n gpgSign = true\n[submodule]\n recurse = true\n"
    )
    done = bring(lock())
    hipify(done)
    assert (place / "readme").read_bytes() == b"one\n"
    assert "hooked" not in listing(place)


def test_build_env_is_written_and_removed_as_locked(lock: Lock, bring: Bring, place: Path) -> None:
    plain = lock()
    pinned = msgspec.structs.replace(plain, build_env={"TRITON_WHEEL_VERSION_SUFFIX": ""})
    assert bring(pinned).changed
    path = place / "build_env.json"
    assert path.read_text() == '{"TRITON_WHEEL_VERSION_SUFFIX":""}\n'
    assert git(place, "status", "--porcelain") == ""
    assert not bring(pinned).changed
    bring(plain)
    assert not path.exists()


# A git that dies together with the program that called it, at the Nth call of one of its commands.
DEADLY_GIT = """\
#!/bin/sh
case " $* " in
  *" {word} "*)
    echo x >> {count}
    if [ "$(wc -l < {count})" = {nth} ]; then
      {before}
      kill -9 $PPID
      exit 1
    fi;;
esac
exec {git} "$@"
"""
TORN = "printf cud > c.cu; printf 'cu' > b.h; touch .git/index.lock"


@pytest.mark.parametrize(
    ("start", "word", "nth", "before"),
    [
        ("nothing", "init", 1, '{git} "$@"; rm -r .git/objects; touch .git/config.lock'),
        ("nothing", "fetch", 3, ":"),
        ("nothing", "read-tree", 1, TORN),
        ("tip", "read-tree", 1, TORN),
        ("tip", "read-tree", 2, '{git} "$@"'),
        ("tip", "update-ref", 2, '{git} "$@"'),
        ("tip", "update-ref", 6, ":"),
        ("upstream", "read-tree", 4, '{git} "$@"'),
        ("upstream", "update-ref", 3, ":"),
    ],
    ids=["beginning", "fetching", "first", "torn", "project", "head", "tags", "submodule", "between"],
)
@pytest.mark.slow
def test_a_killed_run_is_resumed_and_leaves_nothing_stale(
    family: Family,
    lock: Lock,
    bring: Bring,
    tmp_path: Path,
    place: Path,
    start: str,
    word: str,
    nth: int,
    before: str,
) -> None:
    lock_file, old = tmp_path / "lock.json", lock()
    if start != "nothing":
        hipify(bring(old), head="tip" if start == "tip" else "upstream")
    v2 = family.version_2()
    new = lock()
    write_lock(SourceLock(SCHEMA, "linux", (new,)), lock_file)
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    program = tmp_path / "bin/git"
    program.parent.mkdir()
    program.write_text(
        DEADLY_GIT.format(
            word=word, nth=nth, before=before.replace("{git}", real), git=real, count=tmp_path / "count"
        )
    )
    program.chmod(0o755)
    code = textwrap.dedent(f"""
        from pathlib import Path
        from rocwright.sources.lock import read_lock
        from rocwright.sources.checkout import checkout
        checkout(read_lock(Path({str(lock_file)!r})).sources[0], Path({str(place)!r}), jobs=1)
    """)
    env = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    died = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert died.returncode == -9, died.stderr
    # Either the same commit again or another one: both end in exactly that commit.
    bring(new)
    assert heads(place) == [v2, family.fmt_2, family.nest_2, family.inner_2]
    for path in REPOSITORIES:
        assert git(place / path, "status", "--porcelain", "--ignored") == ""
    assert git(place, "for-each-ref", "refs/tags/" + HIPIFY) == ""


def test_a_killed_move_followed_by_another_target_leaves_nothing_stale(
    family: Family, lock: Lock, bring: Bring, place: Path
) -> None:
    old = lock()
    family.version_2()
    new = lock()
    bring(old)
    # As a kill in the middle of the move to v2 leaves it: files of v2 written, HEAD and index still at v1.
    state = place / ".git/rocwright/state.json"
    state.write_text(state.read_text().replace('"pending":null', f'"pending":"{new.commit}"'))
    git(place, "fetch", "-q", "origin", f"{new.commit}:refs/rocwright/commits/{new.commit}")
    (place / "c.cu").write_text("cuda c\n")
    (place / "b.h").write_text("cuda b")
    bring(old)
    assert "c.cu" not in listing(place)
    assert git(place, "status", "--porcelain", "--ignored") == ""
    assert (place / ".git/rocwright/saved/b.h").read_text() == "cuda b"


@pytest.mark.parametrize("name", ["b.h", "c.cu"])
def test_an_edit_made_after_a_kill_is_work_like_any_other(
    family: Family, lock: Lock, bring: Bring, place: Path, name: str
) -> None:
    old = lock()
    family.version_2()
    new = lock()
    bring(old)
    state = place / ".git/rocwright/state.json"
    state.write_text(state.read_text().replace('"pending":null', f'"pending":"{new.commit}"'))
    git(place, "fetch", "-q", "origin", f"{new.commit}:refs/rocwright/commits/{new.commit}")
    (place / name).write_text("cuda b 1\nan edit made in between\n")
    (place / ".git/index.lock").touch()
    for locked in (old, new):
        with pytest.raises(UnsavedWork, match=name):
            bring(locked)
        assert (place / name).read_text() == "cuda b 1\nan edit made in between\n"
    bring(new, work=Work(keep_branch="mine"))
    assert git(place, "show", f"mine:{name}") == "cuda b 1\nan edit made in between"
    assert heads(place)[0] == new.commit
    assert git(place, "status", "--porcelain", "--ignored") == ""
