"""Checkout: whose files are whose. What a user has is never overwritten, also where git would not notice."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path, PureWindowsPath

import msgspec
import pytest
from test_source_checkout import HIPIFY, REPOSITORIES, UPSTREAM, heads, listing

from git_repos import Family, commit, git
from rocwright.errors import InvalidData, Unreachable, UnsavedWork, UsageError
from rocwright.sources.aside import Work
from rocwright.sources.checkout import Checkout, checkout
from rocwright.sources.hipify import hipify
from rocwright.sources.lock import LockedSource
from rocwright.sources.plan import plan_checkout
from rocwright.sources.tree.whole import long_paths

# Many processes of git, pip or compilers: seconds each.
pytestmark = pytest.mark.slow

Lock = Callable[..., LockedSource]
Bring = Callable[..., Checkout]


def refused(run: Callable[[], object], *said: str) -> None:
    with pytest.raises(UnsavedWork) as caught:
        run()
    for text in said:
        assert text in str(caught.value)


@pytest.mark.parametrize(
    ("mine", "theirs", "said"),
    [
        ("build/out", "build/out", "in the way: build/out"),
        ("build/out", "build", "in the way: build/out"),
        ("build", "build/out", "in the way: build"),
        ("third_party/nest/build/deep", "third_party/nest", None),
    ],
)
def test_an_ignored_file_in_the_way_stops_the_checkout(
    family: Family, lock: Lock, bring: Bring, place: Path, mine: str, theirs: str, said: str | None
) -> None:
    commit(family.torch, {".gitignore": "build\n"})
    (family.nest / ".gitignore").write_text("build\n")
    bring(lock())
    product = place / mine
    product.parent.mkdir(exist_ok=True)
    product.write_text("precious\n")
    if theirs == "third_party/nest":
        git(family.torch, "rm", "-q", theirs)
    path = family.torch / theirs
    path.parent.mkdir(exist_ok=True)
    path.write_text("theirs\n")
    git(family.torch, "add", "--force", theirs)
    git(family.torch, "commit", "-q", "-m", "theirs")
    before = heads(place)
    locked = lock()
    refused(lambda: bring(locked), said or "third_party/nest: added: build/deep")
    assert (heads(place), product.read_text()) == (before, "precious\n")
    bring(locked, work=Work(discard=True))
    assert (place / theirs).read_text() == "theirs\n"


def test_an_ignored_file_where_hipify_writes(family: Family, lock: Lock, bring: Bring, place: Path) -> None:
    commit(family.torch, {"secret.cu": "cuda s\n"})
    done = bring(lock(submodules=False))
    mine = place / "hip/secret.hip"
    mine.parent.mkdir()
    mine.write_text("precious\n")
    refused(lambda: hipify(done), "in the way: hip/secret.hip")
    assert mine.read_text() == "precious\n"
    mine.write_text("hip s\n")  # what hipify makes: nothing is lost
    assert hipify(done).hipify_commit is not None
    assert git(place, "status", "--porcelain", "--ignored") == ""


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_edits_that_git_was_told_to_overlook_are_seen(
    lock: Lock, bring: Bring, place: Path, flag: str
) -> None:
    bring(lock(submodules=False))
    git(place, "update-index", flag, "readme")
    (place / "readme").write_text("precious\n")
    assert git(place, "status", "--porcelain") == ""
    refused(lambda: bring(lock(submodules=False)), "changed: readme")
    assert (place / "readme").read_text() == "precious\n"
    (place / "readme").write_text("one\n")
    bring(lock(submodules=False))
    assert git(place, "ls-files", "-v", "readme") == "H readme"
    assert not bring(lock(submodules=False)).changed


def test_a_sparse_checkout_becomes_whole(family: Family, lock: Lock, bring: Bring, place: Path) -> None:
    git(place.parent.parent, "clone", "-q", "--sparse", str(family.torch), str(place))
    assert not (place / "tools").exists()
    bring(lock())
    assert (place / "tools/amd_build/build_amd.py").is_file()
    assert git(place, "status", "--porcelain", "--ignored") == ""
    hipify(bring(lock()))
    assert git(place, "rev-parse", HIPIFY) == heads(place)[0]


def test_files_directories_links_and_modes_change_places(
    family: Family, lock: Lock, bring: Bring, place: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "inside.txt").write_text("not ours\n")
    first = commit(family.torch, {"swap": "file\n", "folder/inside.txt": "ours\n", "run": "x\n"})
    commit(family.torch, {"swap": None, "folder/inside.txt": None})
    commit(family.torch, {"swap/deep/er": "file\n"})
    (family.torch / "folder").rmdir()
    (family.torch / "folder").symlink_to(outside)
    (family.torch / "run").chmod(0o755)
    second = commit(family.torch, {})
    for target in (first, second, first, second):
        hipify(bring(lock(target, submodules=False)))
        assert (place / "swap").is_file() == (target == first)
        assert (place / "folder").is_symlink() == (target == second)
        assert bool((place / "run").stat().st_mode & 0o100) == (target == second)
        assert git(place, "status", "--porcelain", "--ignored") == ""
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"inside.txt": "not ours\n"}
    (place / "run").chmod(0o644)
    refused(lambda: bring(lock(first, submodules=False)), "changed: run")


def test_a_directory_replaced_by_a_link_is_not_followed(
    lock: Lock, bring: Bring, place: Path, tmp_path: Path
) -> None:
    bring(lock(submodules=False))
    shutil.move(place / "tools", tmp_path / "tools")
    (place / "tools").symlink_to(tmp_path / "tools")
    refused(lambda: bring(lock(submodules=False)), "changed: tools/amd_build/build_amd.py", "added: tools")
    assert (tmp_path / "tools/amd_build/build_amd.py").is_file()


def test_what_other_tools_left_is_taken_over(family: Family, lock: Lock, bring: Bring, place: Path) -> None:
    # As the documented scripts leave it: hipify commits, tags, submodules hidden from git.
    git(place.parent.parent, "clone", "-q", "--recurse-submodules", str(family.torch), str(place))
    for path in reversed(REPOSITORIES):
        repository = place / path
        git(repository, "checkout", "-q", "--detach")
        git(repository, "tag", UPSTREAM)
        name = next(repository.glob("*.cu"), None) or next(repository.glob("*.txt"))
        (repository / f"{name.stem}.hip").write_text("hip\n")
        git(repository, "add", "-A", "--", f"{name.stem}.hip")
        git(repository, "commit", "-q", "-m", "DO NOT SUBMIT: HIPIFY")
        git(repository, "tag", HIPIFY)
    for path in ("third_party/fmt lib", "third_party/nest"):
        git(place, "config", f"submodule.{path}.ignore", "all")
        git(place, "update-index", "--skip-worktree", path)
    mine = place / "third_party/fmt lib/plain.txt"
    mine.write_text("precious\n")
    refused(lambda: bring(lock()), "third_party/fmt lib: changed: plain.txt")
    mine.write_text("x\n")
    bring(lock())
    assert heads(place) == [family.v1, family.fmt_1, family.nest_1, family.inner_1]
    assert listing(place) & {"a.hip", "third_party/nest/deep/inner/inner.hip"} == set()
    mine.write_text("y\n")
    assert "third_party/fmt lib" in git(place, "status", "--porcelain")


def test_a_failed_fetch_of_a_submodule_changes_nothing(
    family: Family, lock: Lock, bring: Bring, place: Path
) -> None:
    hipify(bring(lock()))
    before = heads(place), listing(place), git(place, "for-each-ref", "refs/tags")
    family.version_2()
    family.inner.rename(family.inner.with_name("gone"))
    with pytest.raises(Unreachable):
        bring(lock())
    assert (heads(place), listing(place), git(place, "for-each-ref", "refs/tags")) == before
    assert not hipify(bring(lock(family.v1))).changed


def test_commits_in_a_submodule_that_went_and_came_back(
    family: Family, lock: Lock, bring: Bring, place: Path
) -> None:
    first = lock()
    bring(first)
    mine = commit(place / "third_party/nest", {"mine": "x\n"})
    shutil.rmtree(place / "third_party/nest")
    (place / "third_party/nest").mkdir()
    bring(first)
    assert heads(place)[2] == family.nest_1
    assert git(place / "third_party/nest", "branch", "--contains", mine) == f"left-{mine[:12]}"
    assert not bring(first).changed


def test_a_state_of_an_earlier_version(family: Family, lock: Lock, bring: Bring, place: Path) -> None:
    # Then files alone were hipified, index and HEAD upstream's.
    commit(family.torch, {"secret.cu": "cuda s\n"})
    locked = lock(submodules=False)
    tip = hipify(bring(locked), head="upstream").hipify_commit
    git(place, "reset", "-q", "--mixed", locked.commit)
    state = place / ".git/rocwright/state.json"
    old = {"schema": 1, "upstream": locked.commit, "hipify": tip, "committed": False, "pending": None}
    state.write_bytes(msgspec.json.encode(old))
    (place / "hip/secret.hip").write_text("precious\n")
    refused(lambda: hipify(bring(locked)), "hip/secret.hip")
    (place / "hip/secret.hip").write_text("hip s\n")
    assert hipify(bring(locked)).hipify_commit == tip
    assert git(place, "status", "--porcelain", "--ignored") == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "is damaged"), ('{"schema":9}', "has schema 9"), ('{"schema":2,"mine":1}', "is damaged")],
)
def test_a_state_that_cannot_be_read(lock: Lock, bring: Bring, place: Path, text: str, said: str) -> None:
    bring(lock(submodules=False))
    (place / ".git/rocwright/state.json").write_text(text)
    with pytest.raises(InvalidData, match=said) as caught:
        bring(lock(submodules=False))
    assert caught.value.next_step is not None


def test_a_file_where_a_submodule_belongs(lock: Lock, bring: Bring, place: Path) -> None:
    bring(lock(submodules=False))
    (place / "third_party/nest").rmdir()
    (place / "third_party/nest").write_text("precious\n")
    refused(lambda: bring(lock()), "changed: third_party/nest")
    (place / "third_party/nest").unlink()
    (place / "third_party/nest").mkdir()
    (place / "third_party/nest/nest.txt").write_text("precious\n")
    refused(lambda: bring(lock()), "in the way: third_party/nest/nest.txt")
    assert (place / "third_party/nest/nest.txt").read_text() == "precious\n"


def test_a_copied_checkout_is_in_place(lock: Lock, bring: Bring, place: Path, tmp_path: Path) -> None:
    locked = lock(submodules=False)
    hipify(bring(locked))
    shutil.copytree(place, tmp_path / "copy", symlinks=True, copy_function=shutil.copyfile)
    done = bring(locked, tmp_path / "copy")
    assert (done.changed, hipify(done).changed) == (False, False)


def test_long_paths_are_those_that_windows_cannot_open() -> None:
    directory = PureWindowsPath("C:/b/pytorch")  # 12 characters and a separator
    fits, over = "x" * 246, "y" * 247
    assert long_paths(directory, [fits, over, "z" * 300]) == ("z" * 300, over)
    # a/k.cu of 242 characters becomes a/hip/k.hip of 247.
    source = "a/" + "k" * 237 + ".cu"
    assert len(source) == 242
    assert long_paths(directory, [source]) == ()
    assert long_paths(directory, [source], hipify=True) == (source,)
    assert long_paths(directory, ["a/" + "k" * 237 + ".py"], hipify=True) == ()


def test_windows_refuses_long_paths_before_a_file_is_written(
    family: Family, lock: Lock, place: Path, tmp_path: Path
) -> None:
    long = "third_party/fmt lib/" + "d" * 100 + "/" + "f" * 120
    commit(family.fmt, {long.removeprefix("third_party/fmt lib/"): "x\n"})
    git(family.torch / "third_party/fmt lib", "pull", "-q", "origin", "main")
    commit(family.torch, {})
    deep = tmp_path / ("p" * 40) / "pytorch"
    with pytest.raises(UsageError, match=r"1 path\(s\) would be longer than the 259") as caught:
        checkout(lock(), deep, platform="windows")
    room = 259 - 1 - len(long)
    assert f"at most {room} characters" in str(caught.value)
    assert listing(deep) == set()
    checkout(lock(), deep)
    # The plan knows it, too, for a commit that is here already.
    with pytest.raises(UsageError, match="longer"):
        plan_checkout(lock(commit(deep, {"g" * 250: "x\n"})), deep, platform="windows")
