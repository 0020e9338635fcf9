"""Changes that a project's sdists need, made when they are unpacked."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rocwright.errors import InvalidData
from rocwright.model.edits import Edit
from rocwright.sources.project import ProjectSource, ProjectTree, from_sdist
from small_extension import sdist

KERNEL = 'extern "C" const char *targets() { return ARCH; }\n'
QUIET = Edit("csrc/kernel.cu", "return ARCH;", "return ARCH; // told")


def brought(folder: Path, *edits: Edit) -> ProjectTree:
    archive = sdist(folder, "tiny-scatter", "2.1.2")
    source = ProjectSource("path", place=str(archive))
    wanted = {"tiny-scatter": edits}
    return from_sdist(archive, source, folder / "src", origin=str(archive), edits=lambda name: wanted[name])


def kernel(tree: ProjectTree) -> Path:
    return Path(tree.directory) / "csrc/kernel.cu"


def test_an_edit_is_made_where_its_text_is_and_keeps_the_time_of_the_file(tmp_path: Path) -> None:
    plain = brought(tmp_path)
    assert (plain.changed, plain.edits, kernel(plain).read_text()) == ((), "", KERNEL)
    time = kernel(plain).stat().st_mtime_ns

    tree = brought(tmp_path, QUIET, Edit("csrc/kernel.cu", "const char", "char const"))
    assert tree.changed == ("csrc/kernel.cu",)
    assert kernel(tree).read_text() == 'extern "C" char const *targets() { return ARCH; // told }\n'
    assert kernel(tree).stat().st_mtime_ns == time
    # The date of the sources, and what they are, stay those of the sdist.
    assert (tree.date, tree.sha256) == (plain.date, plain.sha256)


def test_what_lies_there_is_unpacked_again_when_the_edits_are_others(tmp_path: Path) -> None:
    tree = brought(tmp_path, QUIET)
    (Path(tree.directory) / "build").mkdir()
    assert brought(tmp_path, QUIET) == tree
    assert (Path(tree.directory) / "build").is_dir()

    assert kernel(brought(tmp_path)).read_text() == KERNEL
    assert not (Path(tree.directory) / "build").exists()


def test_sources_that_are_mended_need_no_edit(tmp_path: Path) -> None:
    other = Edit("csrc/kernel.cu", "return NOTHING;", "return ARCH;")
    gone = Edit("csrc/other.cu", "a", "b")
    tree = brought(tmp_path, other, gone)
    assert (tree.changed, kernel(tree).read_text()) == ((), KERNEL)


def test_an_edit_that_fits_twice_is_refused_and_nothing_counts_as_brought(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"csrc/kernel.cu cannot be changed: .* stands there 2 times"):
        brought(tmp_path, Edit("csrc/kernel.cu", "ar", "AR"))
    # A later one with a better edit begins anew.
    edited = kernel(brought(tmp_path, QUIET)).read_text()
    assert edited != KERNEL
    # What failed meanwhile has left other sources than those that were recorded.
    with pytest.raises(InvalidData):
        brought(tmp_path, Edit("csrc/kernel.cu", "ar", "AR"), QUIET)
    assert kernel(brought(tmp_path, QUIET)).read_text() == edited


@pytest.mark.parametrize("file", ["../setup.py", "/etc/passwd", "C:\\x", "a/../../b", ""])
def test_an_edit_stays_below_the_sources(file: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="is not a path below the sources"):
        msgspec.convert({"file": file, "find": "a", "put": "b"}, Edit)


def test_an_edit_that_finds_nothing_is_no_edit() -> None:
    with pytest.raises(msgspec.ValidationError, match="does not say what to find"):
        msgspec.convert({"file": "a", "find": "", "put": "b"}, Edit)
