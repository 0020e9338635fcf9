"""What a tree holds, for the question whether a wheel is still what it was made from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from git_repos import git
from rocwright.builder.run.tree import clean_up, held_tree, source_tree
from trees import write


def repository(root: Path, **files: str) -> Path:
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    for name, text in {"setup.py": "setup()\n", ".gitignore": "/build/\n/dist/\n", **files}.items():
        write(root / name, text)
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "begin")
    return root


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    inner = repository(tmp_path / "inner")
    root = repository(tmp_path / "tree")
    git(root, "submodule", "add", "-q", str(inner), "third_party")
    git(root, "commit", "-q", "-m", "submodule")
    return root


def digest(root: Path) -> str:
    return source_tree(root).content().digest()


def edit(root: Path) -> None:
    (root / "setup.py").write_text("setup(1)\n")


def stage(root: Path) -> None:
    edit(root)
    git(root, "add", ".")


def commit(root: Path) -> None:
    git(root, "commit", "-q", "--allow-empty", "-m", "more")


def new_file(root: Path) -> None:
    (root / "kernel.hip").write_text("x")


def new_folder(root: Path) -> None:
    (root / "csrc").mkdir()
    (root / "csrc" / "kernel.hip").write_text("x")


def remove(root: Path) -> None:
    (root / "setup.py").unlink()


def in_submodule(root: Path) -> None:
    edit(root / "third_party")


def commit_in_submodule(root: Path) -> None:
    commit(root / "third_party")


CHANGES = [edit, stage, commit, new_file, new_folder, remove, in_submodule, commit_in_submodule]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_every_change_of_the_sources_is_another_content(tree: Path, change: Callable[[Path], None]) -> None:
    before = digest(tree)
    assert digest(tree) == before
    change(tree)
    assert digest(tree) != before


def test_a_second_edit_of_the_same_file_is_one_too(tree: Path) -> None:
    new_folder(tree)
    in_submodule(tree)
    first = digest(tree)
    (tree / "csrc" / "kernel.hip").write_text("y")
    second = digest(tree)
    (tree / "third_party" / "setup.py").write_text("setup(2)\n")
    assert len({first, second, digest(tree)}) == 3


def test_what_builds_make_and_git_ignores_is_no_content(tree: Path) -> None:
    before = digest(tree)
    write(tree / ".git" / "info" / "exclude", "*.o\nvenv/\n.cache/\nthird_party/build/\n")
    write(tree / "build" / "generated.h", "made")
    write(tree / "kernel.o", "object")
    write(tree / "venv" / "pyvenv.cfg", "home = /usr/bin")
    write(tree / "venv" / "lib" / "package.py", "installed")
    write(tree / ".cache" / "local.py", "cached")
    assert digest(tree) == before


@pytest.mark.parametrize("name", ["local.h", "private/kernel.hip", "cmake/build/rules.cmake"])
def test_a_source_that_git_ignores_is_content_all_the_same(tree: Path, name: str) -> None:
    write(tree / ".git" / "info" / "exclude", "local.h\nprivate/\n/cmake/\n")
    write(tree / name, "one")
    before = digest(tree)
    write(tree / name, "two")
    assert digest(tree) != before


def test_ignored_files_that_a_build_writes_are_its_outputs_from_then_on(tree: Path) -> None:
    write(tree / ".git" / "info" / "exclude", "local.h\nversion.py\nother.py\n")
    write(tree / "local.h", "mine")
    write(tree / "other.py", "of a run by hand")
    held = source_tree(tree)
    content = held.content()
    # The build.
    write(tree / "version.py", "1.0")
    write(tree / "other.py", "of this build")
    settled = held.settled(content).digest()
    assert digest(tree) == settled
    # That of another Python.
    write(tree / "version.py", "1.1")
    write(tree / "other.py", "of that build")
    assert digest(tree) == settled
    write(tree / "local.h", "mine, edited")
    assert digest(tree) != settled


def test_a_directory_of_a_larger_repository_is_judged_alone(tmp_path: Path) -> None:
    root = repository(tmp_path / "many")
    for name in ("pytorch", "vision"):
        (root / name).mkdir()
        (root / name / "setup.py").write_text(name)
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "two")
    before = digest(root / "pytorch")
    (root / "vision" / "setup.py").write_text("edited")
    git(root, "commit", "-q", "-a", "-m", "vision only")
    assert digest(root / "pytorch") == before
    (root / "pytorch" / "setup.py").write_text("edited")
    assert digest(root / "pytorch") != before


@pytest.mark.parametrize("ignored", ["", "pytorch/\n"])
def test_a_directory_that_a_larger_repository_does_not_have_has_no_history(
    tmp_path: Path, ignored: str
) -> None:
    root = repository(tmp_path / "many")
    write(root / ".git" / "info" / "exclude", ignored)
    write(root / "pytorch" / "setup.py", "one")
    before = digest(root / "pytorch")
    assert source_tree(root / "pytorch").git is None
    write(root / "pytorch" / "setup.py", "two")
    assert digest(root / "pytorch") != before


def test_a_linked_worktree_is_a_tree_of_its_own(tree: Path, tmp_path: Path) -> None:
    git(tree, "worktree", "add", "-q", str(tmp_path / "second"))
    before = digest(tree)
    edit(tmp_path / "second")
    assert digest(tree) == before
    assert digest(tmp_path / "second") != before
    assert source_tree(tree).own != source_tree(tmp_path / "second").own


def test_a_tree_without_history_is_read_whole(tmp_path: Path) -> None:
    root = tmp_path / "plain"
    (root / "src").mkdir(parents=True)
    (root / "src" / "kernel.hip").write_text("one")
    before = digest(root)
    for name in ("build/kernel.o", "dist/old.whl", "torch.egg-info/PKG-INFO", "src/__pycache__/a.pyc"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("made")
    assert digest(root) == before
    write(root / "python" / "setup.py", "setup()")
    before = digest(root)
    write(root / "python" / "build" / "kernel.o", "made")
    assert digest(root) == before
    # No output of a build system, only named like one.
    write(root / "src" / "build" / "rules.py", "rule")
    assert digest(root) != before
    before = digest(root)
    write(root / "src" / "kernel.hip", "two")
    assert digest(root) != before


def test_files_by_their_ending(tmp_path: Path) -> None:
    """With names as they are, new ones too, none that git ignores; of a part of a larger tree those in it."""
    files = {"a.hip": "", "sub dir/b é.hip": "", "sub dir/deep/c.hip": "", "sub dir/hip": "", "d.hip.cpp": ""}
    root = repository(tmp_path / "root", **files)
    for path in ("new/new.hip", "build/made.hip"):
        write(root / path, "")
    assert sorted(source_tree(root).having(".hip")) == [
        *("a.hip", "new/new.hip", "sub dir/b é.hip", "sub dir/deep/c.hip"),
    ]
    assert sorted(source_tree(root / "sub dir").having(".hip")) == ["b é.hip", "deep/c.hip"]
    bare = tmp_path / "bare"
    for path in ("build/made.hip", "x/y.hip"):
        write(bare / path, "")
    assert source_tree(bare).having(".hip") == ["x/y.hip"]


def test_holding_a_tree_leaves_nothing_in_it(tmp_path: Path) -> None:
    plain, tracked = tmp_path / "plain", repository(tmp_path / "tracked")
    plain.mkdir()
    for root in (plain, tracked):
        names = sorted(path.name for path in root.iterdir())
        with held_tree(root, pytest.fail):
            pass
        assert sorted(path.name for path in root.iterdir()) == names
    assert git(tracked, "status", "--porcelain") == ""


def test_what_build_systems_leave_unignored_goes_and_anything_else_is_named(tmp_path: Path) -> None:
    root = repository(tmp_path / "tree")
    (root / ".gitignore").unlink()
    git(root, "commit", "-q", "-a", "-m", "ignore nothing")
    (root / "notes.txt").write_text("of before")
    tree = source_tree(root)
    before = tree.untracked()
    for name in ("build/a.o", "dist/a.whl", "toy.egg-info/PKG-INFO", "work.py"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("x")
    said: list[str] = []
    assert clean_up(tree, before, said.append) == ("work.py",)
    assert git(root, "status", "--porcelain") == "?? notes.txt\n?? work.py"
    assert said == [f"new in {root}, not ignored by git, and left there: work.py"]


def test_a_build_directory_that_is_ignored_stays_for_the_next_build(tmp_path: Path) -> None:
    root = repository(tmp_path / "tree")
    tree = source_tree(root)
    before = tree.untracked()
    (root / "build").mkdir()
    (root / "build" / "a.o").write_text("x")
    assert clean_up(tree, before, pytest.fail) == ()
    assert (root / "build" / "a.o").exists()


def test_what_is_compiled_stays_when_a_build_fails_and_goes_when_one_works(tmp_path: Path) -> None:
    root = repository(tmp_path / "tree")
    (root / ".gitignore").unlink()
    git(root, "commit", "-q", "-a", "-m", "ignore nothing")
    (root / "sub" / "build").mkdir(parents=True)
    (root / "sub" / "build" / "mine.txt").write_text("of before")
    tree = source_tree(root)
    before = tree.untracked()
    tree.begin(root / "build", before)
    for name in ("build/a.o", "dist/a.whl", "toy.egg-info/PKG-INFO"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("x")
    assert clean_up(tree, before, pytest.fail, failed=True) == ()
    assert git(root, "status", "--porcelain") == "?? build/\n?? sub/"
    assert tree.content().files.keys() == {"sub"}
    # The next finds it there, as it would after a kill, and it is not the user's.
    before = tree.content().untracked
    tree.begin(root / "build", before)
    assert clean_up(tree, before, pytest.fail) == ()
    assert git(root, "status", "--porcelain") == "?? sub/"
    # From here on such a directory is, also where a build ended before it compiled anything.
    tree.begin(root / "build", tree.untracked())
    assert clean_up(tree, tree.untracked(), pytest.fail, failed=True) == ()
    (root / "build").mkdir()
    (root / "build" / "mine.txt").write_text("x")
    tree.begin(root / "build", tree.untracked())
    assert clean_up(tree, tree.untracked(), pytest.fail) == ()
    assert (root / "build" / "mine.txt").exists()
