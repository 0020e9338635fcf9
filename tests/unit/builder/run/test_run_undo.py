"""Files that stand in a tree for the time of a build, and a build that is killed meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rocwright.builder.run.undo import kept_files, restore, write_and_keep, written
from rocwright.errors import InvalidData, InvalidInput


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "torch").mkdir(parents=True)
    (root / "torch" / "version.py").write_text("upstream\n")
    os.utime(root / "torch" / "version.py", (1_000_000_000, 1_000_000_000))
    (tmp_path / "libomp.dll").write_bytes(b"MZ")
    return root


def everything(root: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {path.relative_to(root).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


GENERATED = {"torch/version.py": "ours\n", "torch/_rocm_init.py": "def initialize(): ...\n"}


def test_the_tree_is_as_before_when_the_block_ends(tree: Path, tmp_path: Path) -> None:
    before, keep = everything(tree), tmp_path / "git" / "keep"
    copied = {"torch/lib/deep/libomp.dll": str(tmp_path / "libomp.dll")}
    with written(keep, tree, GENERATED, copied):
        assert (tree / "torch/version.py").read_text() == "ours\n"
        assert (tree / "torch/_rocm_init.py").read_text() == "def initialize(): ...\n"
        assert (tree / "torch/lib/deep/libomp.dll").read_bytes() == b"MZ"
    # Bytes and times: a build system compares them, too.
    assert everything(tree) == before
    assert sorted(path.name for path in (tree / "torch").iterdir()) == ["version.py"]
    assert not keep.exists()


def test_an_error_in_the_block_changes_nothing_of_that(tree: Path, tmp_path: Path) -> None:
    before = everything(tree)
    with pytest.raises(KeyboardInterrupt), written(tmp_path / "keep", tree, GENERATED, {}):
        raise KeyboardInterrupt
    assert everything(tree) == before


def test_a_build_that_is_killed_is_undone_by_the_next(tree: Path, tmp_path: Path) -> None:
    before, keep = everything(tree), tmp_path / "keep"
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom rocwright.builder.run.undo import written\n"
        f"with written(Path({str(keep)!r}), Path({str(tree)!r}), {GENERATED!r}, {{}}):\n"
        "    print('in', flush=True)\n    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as build:
        assert build.stdout is not None and build.stdout.readline() == b"in\n"
        build.send_signal(signal.SIGKILL)
    assert (tree / "torch/version.py").read_text() == "ours\n"
    assert restore(keep) == 2
    assert everything(tree) == before
    assert restore(keep) == 0


def test_a_restoration_that_is_killed_is_taken_up_again(tree: Path, tmp_path: Path) -> None:
    before, keep = everything(tree), tmp_path / "keep"
    block = written(keep, tree, GENERATED, {})
    block.__enter__()
    # Half of it done by hand, as if killed in between.
    (tree / "torch/_rocm_init.py").unlink()
    assert restore(keep) == 2
    assert everything(tree) == before


def test_copies_without_a_journal_are_dropped(tree: Path, tmp_path: Path) -> None:
    """Killed before anything was written: there is nothing to undo."""
    before, keep = everything(tree), tmp_path / "keep"
    keep.mkdir()
    (keep / "0-version.py").write_text("half a c")
    assert restore(keep) == 0
    assert everything(tree) == before and not keep.exists()


def test_a_journal_that_cannot_be_read_is_no_reason_to_guess(tmp_path: Path) -> None:
    (tmp_path / "journal.json").write_text("{half")
    with pytest.raises(InvalidData, match="cannot be read") as caught:
        restore(tmp_path)
    assert str(tmp_path / "journal.json") in str(caught.value)
    assert str(caught.value.next_step).endswith("`git status`, then delete this directory")


@pytest.mark.parametrize("path", ["../outside.py", "/etc/outside.py", "torch/../../outside.py"])
def test_a_path_out_of_the_tree_is_refused_before_anything_is_written(
    tree: Path, tmp_path: Path, path: str
) -> None:
    before = everything(tree)
    generated = {"torch/version.py": "ours\n", path: "x"}
    with (
        pytest.raises(InvalidInput, match="outside of the tree"),
        written(tmp_path / "k", tree, generated, {}),
    ):
        pytest.fail("it was written")
    assert everything(tree) == before


def test_a_file_to_copy_that_is_not_there_is_named(tree: Path, tmp_path: Path) -> None:
    copied = {"torch/lib/uv.dll": str(tmp_path / "libuv" / "uv.dll")}
    with (
        pytest.raises(InvalidInput, match=r"libuv/uv\.dll"),
        written(tmp_path / "k", tree, GENERATED, copied),
    ):
        pytest.fail("it was written")
    assert (tree / "torch/version.py").read_text() == "upstream\n"


def test_a_pattern_stands_for_the_newest_of_several_folders(tree: Path, tmp_path: Path) -> None:
    for version in ("142", "143"):
        folder = tmp_path / f"Microsoft.VC{version}.OpenMP"
        folder.mkdir()
        (folder / "libomp.dll").write_text(version)
    copied = {"torch/lib/libomp.dll": str(tmp_path / "Microsoft.VC*.OpenMP" / "libomp.dll")}
    with written(tmp_path / "keep", tree, {}, copied):
        assert (tree / "torch/lib/libomp.dll").read_text() == "143"


def test_a_file_with_the_same_text_keeps_its_time(tree: Path, tmp_path: Path) -> None:
    """Else everything that depends on it would be compiled again."""
    write_and_keep(tmp_path / "own", tree, {"torch/version.py": "upstream\n"}, {})
    assert (tree / "torch/version.py").stat().st_mtime == 1_000_000_000


def test_what_an_editable_install_left_is_away_for_a_wheel_of_another_kind(
    tree: Path, tmp_path: Path
) -> None:
    """A torch against a plain prefix must not look for ROCm's packages."""
    own, module = tmp_path / "own", tree / "torch" / "_rocm_init.py"
    write_and_keep(own, tree, {"torch/_rocm_init.py": "import rocm_sdk\n"}, {})
    assert kept_files(own) == ("torch/_rocm_init.py",)
    with written(tmp_path / "keep", tree, {}, {}, absent=kept_files(own)):
        assert not module.exists()
    assert module.read_text() == "import rocm_sdk\n"
    write_and_keep(own, tree, {}, {})
    assert not module.exists() and kept_files(own) == ()
