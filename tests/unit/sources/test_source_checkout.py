"""Checkout: exactly one commit, idempotent, resumable, correct on a re-pin, and nobody's work is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from git_repos import PROJECTS, Family, commit, git

from rocwright.errors import RocwrightError, Unreachable, UsageError
from rocwright.sources.checkout import checkout, plan_checkout
from rocwright.sources.hipify import hipify
from rocwright.sources.lock import LockedSource, Request, SourceLock, resolve, write_lock

Lock = Callable[..., LockedSource]
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


def test_one_commit_detached_with_submodules_and_tags(family: Family, lock: Lock, tmp_path: Path) -> None:
    git(family.torch, "tag", "v0.1")
    git(family.torch, "branch", "other")
    done = checkout(lock())
    directory = tmp_path / "work/pytorch"
    expected = [family.v1, family.fmt_1, family.nest_1, family.inner_1]
    assert heads(directory) == expected
    assert [done.commit, *(sub.commit for sub in done.submodules)] == expected
    assert done.tree == git(family.torch, "rev-parse", "HEAD^{tree}")
    assert git(directory, "tag").split() == [UPSTREAM]
    assert git(directory, "branch", "-r").split() == ["origin/main"]
    for path in REPOSITORIES:
        assert (
            git(directory / path, "rev-parse", UPSTREAM, "HEAD").split()[0] == heads(directory / path / "")[0]
            if not path
            else True
        )
        assert git(directory / path, "rev-parse", UPSTREAM) == git(directory / path, "rev-parse", "HEAD")
        assert git(directory / path, "status", "--porcelain") == ""
        assert git(directory / path, "branch", "--show-current") == ""
    # Plain git agrees with the layout: nothing to update, nothing out of place.
    git(directory, "submodule", "update", "--init", "--recursive", "--no-fetch")
    assert heads(directory) == expected


def test_second_run_only_verifies_and_is_fast(lock: Lock, family: Family, tmp_path: Path) -> None:
    locked = lock()
    first = checkout(locked)
    family.torch.rename(tmp_path / "gone")  # a second run needs no network
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*") if path.is_file()}
    began = time.monotonic()
    again = checkout(locked)
    assert time.monotonic() - began < 0.3
    assert (again.changed, again.commit, again.submodules) == (False, first.commit, first.submodules)
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*") if path.is_file()}
    # git itself may refresh what it remembers of file times.
    assert {p.name for p in after if after[p] != before.get(p)} <= {"index"}


def test_repin_moves_every_submodule_and_back(family: Family, lock: Lock, tmp_path: Path) -> None:
    directory = tmp_path / "work/pytorch"
    first = lock()
    checkout(first)
    v2 = family.version_2()
    checkout(lock())
    assert heads(directory) == [v2, family.fmt_2, family.nest_2, family.inner_2]
    assert git(directory, "status", "--porcelain") == ""
    checkout(first)
    assert heads(directory) == [family.v1, family.fmt_1, family.nest_1, family.inner_1]
    assert "c.cu" not in listing(directory)


def test_a_removed_submodule_disappears_and_comes_back(family: Family, lock: Lock, tmp_path: Path) -> None:
    directory = tmp_path / "work/pytorch"
    first = lock()
    checkout(first)
    hipify(checkout(first), commit=False)
    git(family.torch, "rm", "-q", "third_party/nest")
    commit(family.torch, {"third_party/nest/now_a_file": "x\n"}, "without nest")
    checkout(lock())
    assert listing(directory / "third_party/nest") == {"now_a_file"}
    assert git(directory, "status", "--porcelain") == ""
    checkout(first)
    assert heads(directory)[3] == family.inner_1
    assert listing(directory / "third_party/nest") == {".gitmodules", "nest.txt", "deep/inner/inner.cu"}


def test_without_submodules_and_later_with(lock: Lock, tmp_path: Path) -> None:
    directory = tmp_path / "work/pytorch"
    assert checkout(lock(), submodules=False).submodules == ()
    assert listing(directory / "third_party") == set()
    assert len(checkout(lock()).submodules) == 3
    assert checkout(lock(), submodules=False).submodules == ()
    assert listing(directory / "third_party") == set()
    assert git(directory, "status", "--porcelain") == ""


def test_depth_limits_history(lock: Lock, family: Family, tmp_path: Path) -> None:
    checkout(lock(), depth=1)
    assert git(tmp_path / "work/pytorch", "rev-list", "--count", "HEAD") == "1"
    assert git(family.torch, "rev-list", "--count", "HEAD") == "2"


def test_plan_says_what_will_be_done_and_does_nothing(lock: Lock, tmp_path: Path) -> None:
    locked = lock()
    plan = plan_checkout(locked)
    assert (plan.action, plan.current, plan.obstacles) == ("clone", None, ())
    assert not (tmp_path / "work").exists()
    assert f"fetch {locked.commit}" in plan.steps()[0]
    checkout(locked)
    assert plan_checkout(locked).action == "verify"


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
            "deep/inner: 1 commit(s) that are not",
        ),
        ("committed", "mine", "commit", "1 commit(s) that are not ours"),
    ],
)
def test_foreign_work_is_refused_and_kept(
    family: Family, lock: Lock, tmp_path: Path, path: str, change: str, said: str, hipified: str
) -> None:
    directory = tmp_path / "work/pytorch"
    done = checkout(lock())
    if hipified != "pristine":
        hipify(done, commit=hipified == "committed")
    file = directory / path
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
    before = (listing(directory), heads(directory))
    family.version_2()
    with pytest.raises(RocwrightError) as caught:
        checkout(lock())
    assert said in str(caught.value)
    assert (listing(directory), heads(directory)) == before
    if change in ("edit", "commit"):
        assert file.read_text() == "precious\n"
    with pytest.raises(RocwrightError, match="not from this tool"):
        hipify(done)


def test_ignored_files_do_not_stand_in_the_way(family: Family, lock: Lock, tmp_path: Path) -> None:
    checkout(lock())
    product = tmp_path / "work/pytorch/build/libtorch.so"
    product.parent.mkdir()
    product.write_text("x")
    family.version_2()
    checkout(lock())
    assert product.read_text() == "x"


def test_a_directory_in_other_use_is_refused(lock: Lock, tmp_path: Path) -> None:
    directory = tmp_path / "work/pytorch"
    directory.mkdir(parents=True)
    (directory / "thesis.txt").write_text("x")
    with pytest.raises(UsageError, match="is no checkout"):
        checkout(lock())


def test_a_plain_clone_is_taken_over_only_when_nothing_is_lost(
    family: Family, lock: Lock, tmp_path: Path
) -> None:
    directory = tmp_path / "work/pytorch"
    git(tmp_path, "clone", "-q", "--recurse-submodules", str(family.torch), str(directory))
    family.version_2()
    done = checkout(lock())
    assert heads(directory)[0] == done.commit
    git(directory, "checkout", "-q", "main")
    commit(directory, {"mine": "x"})
    with pytest.raises(RocwrightError, match=r"1 commit\(s\) that are not ours"):
        checkout(lock())


def test_a_server_that_hands_out_only_tips(
    family: Family, lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Protocol 0 refuses commits that no ref names, as servers without allowAnySHA1InWant do.
    (tmp_path / "home/.gitconfig").write_text("[protocol]\n\tversion = 0\n")
    family.version_2()
    old = lock(family.v1)
    assert checkout(old).commit == family.v1
    assert git(tmp_path / "work/pytorch", "for-each-ref", "refs/rocwright/found") == ""
    with pytest.raises(Unreachable, match=r"commit 1{40} is in no branch or tag"):
        checkout(lock("1" * 40))


def test_a_commit_that_does_not_exist_leaves_the_checkout_as_it_was(lock: Lock, tmp_path: Path) -> None:
    checkout(lock())
    before = heads(tmp_path / "work/pytorch")
    with pytest.raises(Unreachable, match="is in no branch or tag"):
        checkout(lock("2" * 40))
    assert heads(tmp_path / "work/pytorch") == before


def test_user_configuration_changes_no_byte(lock: Lock, tmp_path: Path) -> None:
    (tmp_path / "ignore").write_text("*.txt\n")
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").write_text("#!/bin/sh\necho hooked > hooked\n")
    (hooks / "post-checkout").chmod(0o755)
    (tmp_path / "home/.gitconfig").write_text(
        f"[core]\n autocrlf = true\n hooksPath = {hooks}\n excludesFile = {tmp_path}/ignore\n"
        "[commit]\n gpgSign = true\n[tag]\n gpgSign = true\n[submodule]\n recurse = true\n"
    )
    done = checkout(lock())
    hipify(done)
    directory = tmp_path / "work/pytorch"
    assert (directory / "readme").read_bytes() == b"one\n"
    assert "hooked" not in listing(directory)


def test_build_env_is_written_for_a_pinned_commit_only(family: Family, tmp_path: Path) -> None:
    torch = tmp_path / "pins"
    (torch / ".ci/docker/ci_commit_pins").mkdir(parents=True)
    (torch / ".ci/docker/ci_commit_pins/triton.txt").write_text(family.v1)
    triton = Request("triton", origin=family.url)
    pinned = resolve([triton], projects=PROJECTS, base=tmp_path, torch_dir=torch).sources[0]
    assert checkout(pinned).changed
    path = tmp_path / "triton/build_env.json"
    assert path.read_text() == '{"TRITON_WHEEL_VERSION_SUFFIX":""}\n'
    assert git(path.parent, "status", "--porcelain") == ""
    assert not checkout(pinned).changed
    flagged = Request("triton", origin=family.url, ref="main")
    checkout(resolve([flagged], projects=PROJECTS, base=tmp_path).sources[0])
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
        ("nothing", "fetch", 3, ":"),
        ("nothing", "checkout", 1, TORN),
        ("committed", "checkout", 1, TORN),
        ("uncommitted", "reset", 1, '{git} "$@"'),
        ("uncommitted", "checkout", 4, '{git} "$@"'),
        ("committed", "update-ref", 3, ":"),
    ],
)
def test_a_killed_run_is_resumed_and_leaves_nothing_stale(
    family: Family, lock: Lock, tmp_path: Path, start: str, word: str, nth: int, before: str
) -> None:
    directory, lock_file, old = tmp_path / "work/pytorch", tmp_path / "lock.json", lock()
    if start != "nothing":
        hipify(checkout(old), commit=start == "committed")
    v2 = family.version_2()
    new = lock()
    write_lock(SourceLock(1, (new,)), lock_file)
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
        checkout(read_lock(Path({str(lock_file)!r})).sources[0], jobs=1)
    """)
    env = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    died = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert died.returncode == -9, died.stderr
    # Either the same commit again or another one: both end in exactly that commit.
    checkout(new)
    assert heads(directory) == [v2, family.fmt_2, family.nest_2, family.inner_2]
    for path in REPOSITORIES:
        assert git(directory / path, "status", "--porcelain", "--ignored") == ""
    assert git(directory, "for-each-ref", "refs/tags/" + HIPIFY) == ""


def test_a_killed_move_followed_by_another_target_leaves_nothing_stale(
    family: Family, lock: Lock, tmp_path: Path
) -> None:
    old = lock()
    family.version_2()
    new = lock()
    directory = tmp_path / "work/pytorch"
    checkout(old)
    # As a kill in the middle of the move to v2 leaves it: files of v2 written, HEAD and index still at v1.
    state = directory / ".git/rocwright/state.json"
    state.write_text(state.read_text().replace('"pending":null', f'"pending":"{new.commit}"'))
    git(directory, "fetch", "-q", "origin", f"{new.commit}:refs/rocwright/commits/{new.commit}")
    (directory / "c.cu").write_text("cuda c\n")
    (directory / "b.h").write_text("cuda b 1\nan edit made in between\n")
    checkout(old)
    assert "c.cu" not in listing(directory)
    assert git(directory, "status", "--porcelain", "--ignored") == ""
    saved = directory / ".git/rocwright/saved/b.h"
    assert saved.read_text() == "cuda b 1\nan edit made in between\n"
