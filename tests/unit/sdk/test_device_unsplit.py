"""Split trees set back: fat libraries with the original's code, and every other file where it was."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from split_trees import GFX942, code, fat, library, loaded, original_code

from needs import needs
from oracle.fat_library import bundle
from rocwright.device_code.tree.merge import merge_trees
from rocwright.device_code.tree.split import split_tree
from rocwright.device_code.tree.unsplit import unsplit_tree
from rocwright.device_code.unsplit_library import unsplit_library
from rocwright.errors import InvalidArchive, InvalidInput, UsageError
from trees import files, link, listing, write

pytestmark = needs("gcc")

TARGETS = ("gfx90a", "gfx942", "gfx1100")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix with two libraries under several names, databases of two targets and a group, odd modes."""
    root = tmp_path_factory.mktemp("fat") / "rocm"
    write(root / "lib/rocblas/library/TensileLibrary_gfx942.co")
    fat(root / "lib/libfat.so")
    fat(root / "lib/plugins/libother.so", 20).chmod(0o750)
    os.link(root / "lib/libfat.so", root / "lib/plugins/libhard.so")
    link(root / "lib/libfat.so.1", "libfat.so")
    link(root / "lib/nowhere.so", "gone.so")
    write(root / "lib/rocblas/library/TensileLibrary.dat")
    write(root / "lib/rocblas/library/x_gfx90a.dat").chmod(0o600)
    write(root / "lib/aotriton.images/amd-gfx11xx/a.aks2")
    write(root / "bin/tool", b"#!/bin/sh\n").chmod(0o755)
    (root / "empty").mkdir(mode=0o700)
    return root


@pytest.fixture(scope="module")
def whole(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "split"
    split_tree(prefix, out)
    return out


def shape(root: Path) -> dict[str, str]:
    """What is where, but for the contents of libraries."""
    found = listing(root)
    return {
        path: kind.split()[0] if path.endswith(("libfat.so", "libother.so")) else kind
        for path, kind in found.items()
    }


@pytest.mark.parametrize("installed", [False, True], ids=["parts", "installed"])
def test_a_prefix_comes_back(installed: bool, prefix: Path, whole: Path, tmp_path: Path) -> None:
    source = whole
    if installed:
        merge_trees([whole], tmp_path / "merged", families={"all": TARGETS})
        source = tmp_path / "merged/all"
    before = listing(source)
    done = unsplit_tree([source], tmp_path / "out")
    assert listing(source) == before
    back = tmp_path / "out/fat"
    assert shape(back) == shape(prefix)
    assert back.stat().st_mode == prefix.stat().st_mode
    for name in ("lib/libfat.so", "lib/plugins/libother.so"):
        assert original_code(back / name) == original_code(prefix / name)
        assert (back / name).stat().st_mtime_ns == (prefix / name).stat().st_mtime_ns
        for isa in TARGETS:
            mine = loaded(back / name, f"{isa}:xnack-" if isa == "gfx90a" else isa, tmp_path / "work")
            assert mine == loaded(
                prefix / name, f"{isa}:xnack-" if isa == "gfx90a" else isa, tmp_path / "work"
            )
    assert list(done.parts) == ["fat"] and done.parts["fat"].files == len(files(prefix))
    assert (done.objects, done.identical, done.orphans) == (10, 10, ())
    assert [one.name for one in done.libraries] == ["lib/libfat.so", "lib/plugins/libother.so"]


def test_the_same_tree_is_split_again_to_the_same_archives(prefix: Path, whole: Path, tmp_path: Path) -> None:
    unsplit_tree([whole], tmp_path / "out")
    split_tree(tmp_path / "out/fat", tmp_path / "again", name="rocm")
    for target in ("gfx90a", "gfx942", "gfx1100", "gfx11"):
        assert listing(tmp_path / "again" / target) == listing(whole / target)
    hosts = [
        json.loads((root / "generic/.kpack/rocm.json").read_bytes()) for root in (whole, tmp_path / "again")
    ]
    assert hosts[0] == hosts[1]


def test_targets_choose_code_and_databases(prefix: Path, whole: Path, tmp_path: Path) -> None:
    done = unsplit_tree([whole], tmp_path / "out", targets=["gfx942"])
    back = tmp_path / "out/fat"
    wanted = {
        key: data for key, data in original_code(prefix / "lib/libfat.so").items() if key[1] == "gfx942"
    }
    assert len(wanted) == 2 and original_code(back / "lib/libfat.so") == wanted
    gone = {"lib/rocblas/library/x_gfx90a.dat", "lib/aotriton.images/amd-gfx11xx/a.aks2"}
    assert files(back) == files(prefix) - gone
    assert {one.targets for one in done.libraries} == {("gfx942",)}
    # A group's files come with its members.
    unsplit_tree([whole], tmp_path / "out", targets=["gfx1100"])
    assert (back / "lib/aotriton.images/amd-gfx11xx/a.aks2").exists()
    assert {target for _, target in original_code(back / "lib/libfat.so")} == {"gfx1100"}


def test_parts_of_several_builds_are_taken_together(prefix: Path, tmp_path: Path) -> None:
    shards = [tmp_path / target for target in TARGETS]
    for target, shard in zip(TARGETS, shards, strict=True):
        split_tree(prefix, shard / "split", targets=[target])
    unsplit_tree([shard / "split" for shard in shards], tmp_path / "out")
    assert original_code(tmp_path / "out/fat/lib/libfat.so") == original_code(prefix / "lib/libfat.so")
    assert shape(tmp_path / "out/fat") == shape(prefix)


def artifacts(root: Path) -> Path:
    """Two artifacts; the second prefix of the first has a library, too."""
    for stem, prefixes, seed in (
        ("rand_lib", ("math/rand", "core/base"), 0),
        ("blas_lib", ("math/blas",), 40),
    ):
        place = root / f"{stem}_gfx94X"
        for number, name in enumerate(prefixes):
            (place / name / "lib").mkdir(parents=True)
            fat(place / name / f"lib/lib{number}.so", seed + 10 * number)
        write(place / prefixes[0] / "share/text")
        write(place / "artifact_manifest.txt", "".join(f"{name}\n" for name in prefixes))
    return root


def test_artifacts_come_back_by_name(tmp_path: Path) -> None:
    source = artifacts(tmp_path / "in")
    split_tree(source, tmp_path / "split")
    done = unsplit_tree([tmp_path / "split"], tmp_path / "out")
    assert sorted(done.parts) == ["blas_lib_fat", "rand_lib_fat"]
    for stem in ("blas_lib", "rand_lib"):
        back, before = tmp_path / f"out/{stem}_fat", source / f"{stem}_gfx94X"
        assert files(back) == files(before)
        assert (back / "artifact_manifest.txt").read_text() == (before / "artifact_manifest.txt").read_text()
        for path in sorted(before.rglob("*.so")):
            assert original_code(back / path.relative_to(before)) == original_code(path)


def test_a_dry_run_tells_the_same_and_writes_nothing(whole: Path, tmp_path: Path) -> None:
    planned = unsplit_tree([whole], tmp_path / "out", targets=["gfx942"], dry_run=True)
    assert not (tmp_path / "out").exists() and planned.parts == {} and planned.identical == 0
    done = unsplit_tree([whole], tmp_path / "out", targets=["gfx942"])
    assert [one.fat_size for one in planned.libraries] == [one.fat_size for one in done.libraries]
    assert planned.objects == done.objects == 4


def test_an_earlier_tree_is_replaced_whole(prefix: Path, whole: Path, tmp_path: Path) -> None:
    write(tmp_path / "out/fat/left.txt")
    unsplit_tree([whole], tmp_path / "out")
    assert shape(tmp_path / "out/fat") == shape(prefix)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["fat"]


def test_archives_of_libraries_that_are_not_there(whole: Path, tmp_path: Path) -> None:
    source = tmp_path / "split"
    shutil.copytree(whole, source, symlinks=True)
    (source / "generic/lib/plugins/libother.so").unlink()
    done = unsplit_tree([source], tmp_path / "out")
    assert len(done.orphans) == 3 and all(".kpack/rocm_gfx" in path for path in done.orphans)


# -- what is refused ---------------------------------------------------------------------------------------


@pytest.fixture
def split(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "split", symlinks=True)
    return tmp_path / "split"


def refused(split: Path, kind: type[Exception], targets: tuple[str, ...] = ()) -> str:
    """The error's text; what was there before stays, and nothing else is."""
    out = split.parent / "out"
    write(out / "fat/mine")
    with pytest.raises(kind) as caught:
        unsplit_tree([split], out, targets=targets)
    assert files(out) == {"fat/mine"}
    return f"{caught.value}\n{getattr(caught.value, 'next_step', '')}"


def test_a_target_that_is_not_there(split: Path) -> None:
    text = refused(split, InvalidInput, ("gfx1201",))
    assert "for gfx1201" in text and "there are: gfx90a:xnack- gfx942 gfx1100;" in text


def test_an_archive_that_is_cut(split: Path) -> None:
    path = split / "gfx942/.kpack/rocm_gfx942.kpack"
    path.write_bytes(path.read_bytes()[:-9])
    assert "rocm_gfx942.kpack" in refused(split, InvalidArchive)


def test_code_that_cannot_be_unpacked_is_found_while_writing(split: Path) -> None:
    """The table is sound, a frame is not: a tree that was begun is gone."""
    path = split / "gfx942/.kpack/rocm_gfx942.kpack"
    data = bytearray(path.read_bytes())
    data[72:76] = bytes(4)  # the magic of the first frame, behind two numbers of four bytes
    path.write_bytes(data)
    path.with_suffix(".json").unlink()  # it names the archive
    assert "cannot be unpacked" in refused(split, InvalidArchive)


def test_an_archive_that_is_not_the_one_that_its_part_names(split: Path, tmp_path: Path) -> None:
    path = split / "gfx942/.kpack/rocm_gfx942.kpack"
    data = bytearray(path.read_bytes())
    data[20] ^= 1  # one that nothing else reads
    path.write_bytes(data)
    text = refused(split, InvalidArchive)
    assert "rocm_gfx942.kpack: it is of another build, or damaged: its sha256 is " in text
    assert ", and .kpack/rocm_gfx942.json names " in text
    # Other targets' code is set back without it.
    unsplit_tree([split], tmp_path / "some", targets=("gfx1100",))
    with pytest.raises(InvalidArchive, match=r"rocm_gfx942\.kpack: it is of another build, or damaged"):
        unsplit_library(split / "generic/lib/libfat.so", tmp_path / "one")
    assert not (tmp_path / "one").exists()
    unsplit_library(split / "generic/lib/libfat.so", tmp_path / "one", targets=("gfx1100",))


def test_the_part_of_another_build(split: Path, tmp_path: Path) -> None:
    other = tmp_path / "other/rocm"
    (other / "lib").mkdir(parents=True)
    library(
        other / "lib/libfat.so",
        [bundle([("gfx942", code(GFX942, 9))])] * 2,
        extra_asm=".section .rodata\n.zero 99\n",
    )
    split_tree(other, tmp_path / "strange")
    shutil.copy(tmp_path / "strange/gfx942/.kpack/rocm_gfx942.kpack", split / "gfx942/.kpack")
    assert "rocm_gfx942.kpack is not of lib/libfat.so" in refused(split, InvalidInput)
    # The same where there are databases alone.
    (split / "gfx942/.kpack/rocm_gfx942.kpack").unlink()
    shutil.copy(tmp_path / "strange/gfx942/.kpack/rocm_gfx942.json", split / "gfx942/.kpack")
    assert ".kpack/rocm_gfx942.json is of build " in refused(split, InvalidInput)


def test_a_host_alone(split: Path) -> None:
    for word in ("gfx90a", "gfx942", "gfx1100", "gfx11"):
        shutil.rmtree(split / word)
    assert "lib/libfat.so is split, but its archives are not beside it" in refused(split, InvalidInput)


def test_a_tree_without_split_libraries(prefix: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is not split"):
        unsplit_tree([prefix], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_output_inside_of_the_input(split: Path) -> None:
    with pytest.raises(UsageError, match="would overwrite"):
        unsplit_tree([split], split / "out")
    (split.parent / "x").mkdir()
    split.rename(split.parent / "x/fat")
    with pytest.raises(UsageError, match="would overwrite"):
        unsplit_tree([split.parent / "x/fat"], split.parent / "x")


def test_several_trees_that_are_no_parts(prefix: Path, whole: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no parts of a split"):
        unsplit_tree([prefix, whole], tmp_path / "out")
