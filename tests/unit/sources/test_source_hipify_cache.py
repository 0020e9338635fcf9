"""Hipify results are found again where all inputs agree, and survive a kill at any moment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from test_source_checkout import DEADLY_GIT, HIPIFY, REPOSITORIES, UPSTREAM, heads

from git_repos import Family, commit, git
from git_server import serving
from rocwright.sources import script
from rocwright.sources.checkout import Checkout
from rocwright.sources.hipify import hipify
from rocwright.sources.lock import SCHEMA, LockedSource, SourceLock, write_lock
from rocwright.sources.mirror import Mirrors

# Many processes of git, pip or compilers: seconds each.
pytestmark = pytest.mark.slow

Lock = Callable[..., LockedSource]
Bring = Callable[..., Checkout]


def trees(place: Path) -> list[str]:
    """The tree of the index of every repository, which `git status` compares the files with."""
    assert all(git(place / path, "diff", "--ignore-submodules") == "" for path in REPOSITORIES)
    return [git(place / path, "write-tree") for path in REPOSITORIES]


def test_another_commit_with_the_same_tree_reuses_the_result(
    family: Family, lock: Lock, bring: Bring, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = hipify(bring(lock()))
    assert not first.cached
    again = commit(family.torch, {}, "nothing new")
    monkeypatch.setattr(script, "make_commits", None)
    second = hipify(bring(lock()))
    assert second.cached
    assert second.hipify_commit != first.hipify_commit
    assert git(place, "rev-parse", "HEAD^", HIPIFY, UPSTREAM).split() == [again, second.hipify_commit, again]
    assert git(place, "rev-parse", "HEAD^{tree}") == git(
        place, "rev-parse", f"{first.hipify_commit}^{{tree}}"
    )
    assert second.changed_files == first.changed_files


@pytest.mark.parametrize("change", ["submodule", "script", "rules", "source"])
def test_every_input_counts(family: Family, lock: Lock, bring: Bring, change: str) -> None:
    rules = "torch/utils/hipify/rules.py"
    commit(family.torch, {rules: "1\n"})
    first = hipify(bring(lock()))
    if change == "submodule":
        family.version_2()
    else:
        path = {"script": "tools/amd_build/build_amd.py", "rules": rules, "source": "a.cu"}[change]
        commit(family.torch, {path: (family.torch / path).read_text() + "# more\n"})
    second = hipify(bring(lock()))
    assert not second.cached
    assert (second.rules == first.rules) == (change in ("submodule", "source"))


def test_results_are_shared_through_mirrors(
    family: Family, lock: Lock, bring: Bring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = Mirrors(tmp_path / "mirrors")
    with serving(family.root) as server:
        locked = msgspec.structs.replace(lock(), origin=server.url("torch"))
        made = hipify(bring(locked, tmp_path / "one", mirrors=shared), mirrors=shared)
        shutil.rmtree(tmp_path / "one")
        monkeypatch.setattr(script, "make_commits", None)
        done = bring(locked, tmp_path / "two", mirrors=shared)
        found = hipify(done, mirrors=shared)
    assert (made.cached, found.cached) == (False, True)
    assert (found.hipify_commit, found.changed_files) == (made.hipify_commit, made.changed_files)
    shutil.rmtree(tmp_path / "mirrors")
    for path in REPOSITORIES:
        git(tmp_path / "two" / path, "fsck", "--strict")
        assert git(tmp_path / "two" / path, "status", "--porcelain", "--ignored") == ""


def test_python_is_an_input_and_not_part_of_the_commit(
    family: Family, lock: Lock, bring: Bring, tmp_path: Path
) -> None:
    # Hipify makes the same tree with every Python so far; a script need not.
    other = tmp_path / "python"
    other.write_text(
        f'#!/bin/sh\ncase "$*" in *version_info*) echo 3.99;; *) exec {sys.executable} "$@";; esac\n'
    )
    other.chmod(0o755)
    done = bring(lock())
    one, two = hipify(done), hipify(done, python=other)
    assert (two.python, two.cached) == ("3.99", False)
    assert one.hipify_commit == two.hipify_commit


@pytest.mark.parametrize(
    ("head", "word", "nth", "before"),
    [
        ("tip", "read-tree", 2, '{git} "$@"'),  # exporting
        ("upstream", "update-ref", 2, '{git} "$@"'),  # some results kept
        ("upstream", "read-tree", 5, "printf half > third_party/nest/deep/inner/hip.tmp"),
        ("tip", "read-tree", 6, '{git} "$@"'),  # one submodule moved, its HEAD not
        ("upstream", "update-index", 2, '{git} "$@"'),
        ("tip", "read-tree", 8, "mkdir -p hip; printf h > hip/a.hip; touch .git/index.lock"),  # torn
        ("upstream", "read-tree", 8, '{git} "$@"'),
    ],
    ids=["exporting", "keeping", "stray", "submodule", "entries", "torn", "project"],
)
@pytest.mark.slow
def test_a_killed_hipify_is_resumed(
    family: Family,
    lock: Lock,
    bring: Bring,
    place: Path,
    tmp_path: Path,
    head: str,
    word: str,
    nth: int,
    before: str,
) -> None:
    locked = lock()
    hipify(bring(locked, tmp_path / "quiet"), head=head)
    bring(locked)
    write_lock(SourceLock(SCHEMA, "linux", (locked,)), tmp_path / "lock.json")
    real = shutil.which("git")
    program = tmp_path / "bin/git"
    program.parent.mkdir()
    program.write_text(
        DEADLY_GIT.format(
            word=word, nth=nth, before=before.replace("{git}", str(real)), git=real, count=tmp_path / "count"
        )
    )
    program.chmod(0o755)
    code = textwrap.dedent(f"""
        from pathlib import Path
        from rocwright.sources.lock import read_lock
        from rocwright.sources.checkout import checkout
        from rocwright.sources.hipify import hipify
        locked = read_lock(Path({str(tmp_path / "lock.json")!r})).sources[0]
        hipify(checkout(locked, Path({str(place)!r}), jobs=1), jobs=1, head={head!r})
    """)
    env = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    died = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, cwd=place
    )
    assert died.returncode == -9, died.stderr
    stray = place / "third_party/nest/deep/inner/hip.tmp"
    stray.unlink(missing_ok=True)
    hipify(bring(locked), head=head)
    assert trees(place) == trees(tmp_path / "quiet")
    assert heads(place) == heads(tmp_path / "quiet")
    for path in REPOSITORIES:
        assert git(place / path, "rev-parse", HIPIFY) == git(tmp_path / "quiet" / path, "rev-parse", HIPIFY)
        assert git(place / path, "ls-files", "--others") == ""
    assert not hipify(bring(locked), head=head).changed
