from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from split_trees import GFX942, archived_code, code, fat, library, loaded, original_code

from oracle.fat_library import bundle
from rocwright.device_code.tree.merge import merge_trees
from rocwright.device_code.tree.split import split_tree
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.gpu import InvalidTarget
from trees import files, listing, write


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix with a library and databases for gfx90a, gfx942 and gfx1100, and a group's images."""
    root = tmp_path_factory.mktemp("fat") / "rocm"
    write(root / "lib/rocblas/library/TensileLibrary_gfx942.co")
    fat(root / "lib/libfat.so")
    (root / "lib/libalias.so").symlink_to("libfat.so")
    write(root / "lib/rocblas/library/TensileLibrary.dat")
    write(root / "lib/rocblas/library/gfx942/no_target_in_this_name.dat")
    write(root / "lib/rocblas/library/x_gfx90a.dat").chmod(0o600)
    write(root / "lib/aotriton.images/amd-gfx11xx/a.aks2")
    write(root / "lib/aotriton.images/amd-gfx942/a.aks2")
    os.link(root / "lib/rocblas/library/TensileLibrary.dat", root / "share.dat")
    (root / "empty").mkdir(mode=0o700)
    return root


@pytest.fixture(scope="module")
def whole(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "split"
    split_tree(prefix, out)
    return out


@pytest.fixture
def shards(prefix: Path, tmp_path: Path) -> list[Path]:
    """The same tree split for different targets, as several builds would."""
    wanted = [["gfx942"], ["gfx90a", "gfx942"], ["gfx1100"]]
    for number, targets in enumerate(wanted):
        split_tree(prefix, tmp_path / f"shard{number}", targets=targets)
    return [tmp_path / f"shard{number}" for number in range(3)]


# Shards.


def test_shards_make_the_split_of_all_targets(shards: list[Path], whole: Path, tmp_path: Path) -> None:
    before = [listing(shard) for shard in shards]
    result = merge_trees(shards, tmp_path / "out")
    assert listing(tmp_path / "out") == listing(whole)
    assert [listing(shard) for shard in shards] == before
    assert list(result.parts) == ["generic", "gfx90a", "gfx942", "gfx11", "gfx1100"]
    assert result.parts["gfx11"].files == 2
    assert result.absent == ()
    inodes = {p.stat().st_ino for shard in shards for p in shard.rglob("*") if p.is_file()}
    assert not inodes & {p.stat().st_ino for p in (tmp_path / "out").rglob("*") if p.is_file()}


def test_a_shard_may_lack_the_generic_part_but_not_all(
    shards: list[Path], whole: Path, tmp_path: Path
) -> None:
    for shard in shards[:2]:
        shutil.rmtree(shard / "generic")
    merge_trees(shards, tmp_path / "out")
    assert listing(tmp_path / "out") == listing(whole)
    with pytest.raises(InvalidInput, match="no source has generic, only parts for gfx90a gfx942"):
        merge_trees(shards[:2], tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)], ids=["last", "first"])
def test_an_untransformed_generic_part_never_wins(
    prefix: Path, shards: list[Path], tmp_path: Path, order: slice
) -> None:
    shutil.copy2(prefix / "lib/libfat.so", shards[2] / "generic/lib/libfat.so")
    with pytest.raises(InvalidInput) as error:
        merge_trees(shards[order], tmp_path / "out")
    assert f"lib/libfat.so: not split in {shards[2]}" in str(error.value)
    assert not (tmp_path / "out").exists()


def damage_content(generic: Path) -> None:
    # As long as before.
    (generic / "share.dat").write_text("tensileLibrary.dat")


def lengthen(generic: Path) -> None:
    with (generic / "share.dat").open("a") as stream:
        stream.write("more")


def damage_mode(generic: Path) -> None:
    (generic / "lib/libfat.so").chmod(0o700)


def damage_directory_mode(generic: Path) -> None:
    (generic / "empty").chmod(0o755)


def damage_link(generic: Path) -> None:
    (generic / "lib/libalias.so").unlink()
    (generic / "lib/libalias.so").symlink_to("./libfat.so")


def damage_kind(generic: Path) -> None:
    (generic / "lib/libalias.so").unlink()
    shutil.copy2(generic / "lib/libfat.so", generic / "lib/libalias.so")


def damage_hard_link(generic: Path) -> None:
    (generic / "share.dat").unlink()
    shutil.copy2(generic / "lib/rocblas/library/TensileLibrary.dat", generic / "share.dat")


def one_more(generic: Path) -> None:
    write(generic / "lib/more")


def one_less(generic: Path) -> None:
    (generic / "empty").rmdir()


@pytest.mark.parametrize(
    "change, line",
    [
        (damage_content, "share.dat: other contents"),
        (lengthen, "share.dat: other contents"),
        (damage_mode, "lib/libfat.so: mode 755 and 700"),
        (damage_directory_mode, "empty: mode 700 and 755"),
        (damage_link, "lib/libalias.so: leads elsewhere"),
        (damage_kind, "lib/libalias.so: of another kind"),
        (damage_hard_link, "share.dat: hard links differ"),
        (one_more, "lib/more: only in {shard}"),
        (one_less, "empty: only in {first}"),
    ],
)
def test_generic_parts_must_be_the_same(shards: list[Path], tmp_path: Path, change, line: str) -> None:
    change(shards[2] / "generic")
    with pytest.raises(InvalidInput, match="generic differs between") as error:
        merge_trees(shards, tmp_path / "out")
    assert line.format(shard=shards[2], first=shards[0]) in str(error.value)
    assert not (tmp_path / "out").exists()


def test_one_target_from_two_builds_must_be_the_same(shards: list[Path], tmp_path: Path) -> None:
    archive = shards[1] / "gfx942/.kpack/rocm_gfx942.kpack"
    data = bytearray(archive.read_bytes())
    data[100] ^= 1
    archive.write_bytes(data)
    with pytest.raises(InvalidInput, match="gfx942 differs between") as error:
        merge_trees(shards, tmp_path / "out")
    assert ".kpack/rocm_gfx942.kpack: other contents" in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_long_list_of_differences_is_cut(shards: list[Path], tmp_path: Path) -> None:
    for number in range(13):
        write(shards[0] / f"generic/extra{number:02}")
    with pytest.raises(InvalidInput) as error:
        merge_trees(shards, tmp_path / "out")
    assert "extra09" in str(error.value) and "extra10" not in str(error.value)
    assert "and 3 more" in str(error.value)


# Families.


def test_family_tree_has_its_targets_and_finds_their_code(whole: Path, prefix: Path, tmp_path: Path) -> None:
    families = {"small": ["gfx942"], "large": ["gfx90a", "gfx1100"]}
    result = merge_trees([whole], tmp_path / "out", families=families)
    out = tmp_path / "out"
    assert sorted(p.name for p in out.iterdir()) == ["large", "small"]
    shared = {
        "empty",
        "lib/libalias.so",
        "lib/libfat.so",
        "lib/rocblas/library/TensileLibrary.dat",
        "share.dat",
    }
    assert files(out / "small") == shared - {"empty"} | {
        ".kpack/rocm.json",
        ".kpack/rocm_gfx942.json",
        ".kpack/rocm_gfx942.kpack",
        "lib/rocblas/library/TensileLibrary_gfx942.co",
        "lib/rocblas/library/gfx942/no_target_in_this_name.dat",
        "lib/aotriton.images/amd-gfx942/a.aks2",
    }
    assert files(out / "large") == shared - {"empty"} | {
        ".kpack/rocm.json",
        ".kpack/rocm_gfx11.json",
        ".kpack/rocm_gfx1100.json",
        ".kpack/rocm_gfx1100.kpack",
        ".kpack/rocm_gfx90a.json",
        ".kpack/rocm_gfx90a:xnack-.kpack",
        "lib/rocblas/library/x_gfx90a.dat",
        "lib/aotriton.images/amd-gfx11xx/a.aks2",
    }
    assert result.parts["small"].files == 10

    code_of = original_code(prefix / "lib/libfat.so")
    for tree, isa, target in [
        ("small", "gfx942:sramecc+:xnack-", "gfx942"),
        ("large", "gfx1100", "gfx1100"),
    ]:
        wanted = [code_of[0, target], code_of[1, target]]
        assert loaded(out / tree / "lib/libfat.so", isa, tmp_path / "load") == wanted
        assert loaded(out / tree / "lib/libalias.so", isa, tmp_path / "load") == wanted
    # The second wrapper has no code for gfx90a, and must not get another one's.
    gfx90a = loaded(out / "large/lib/libfat.so", "gfx90a:sramecc+:xnack-", tmp_path / "load")
    assert gfx90a == [code_of[0, "gfx90a:xnack-"], None]
    assert loaded(out / "small/lib/libfat.so", "gfx1100", tmp_path / "load") == [None, None]


def test_family_of_all_targets_is_the_input_with_its_code_in_archives(
    whole: Path, prefix: Path, tmp_path: Path
) -> None:
    merge_trees([whole], tmp_path / "out", families={"all": ["gfx90a", "gfx942", "gfx1100"]})
    before, after = listing(prefix), listing(tmp_path / "out/all")
    archives = {name for name in after if name.startswith(".kpack")}
    assert sum(name.endswith(".kpack") for name in archives) == 4  # of which one is their directory
    assert after.keys() - archives == before.keys()
    assert {n for n in before if before[n] != after[n]} == {"lib/libfat.so"}
    wanted = {("lib/libfat.so", *key): data for key, data in original_code(prefix / "lib/libfat.so").items()}
    assert archived_code(tmp_path / "out/all") == wanted


def test_families_by_name_come_from_the_table(whole: Path, tmp_path: Path) -> None:
    merge_trees([whole], tmp_path / "out", families=["gfx94X-dcgpu", "gfx90a"])
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["gfx90a", "gfx94X-dcgpu"]
    assert (tmp_path / "out/gfx94X-dcgpu/.kpack/rocm_gfx942.kpack").is_file()
    assert not list((tmp_path / "out/gfx90a").rglob("*gfx942*"))
    with pytest.raises(InvalidTarget, match="gfx77X"):
        merge_trees([whole], tmp_path / "out", families=["gfx77X"])


def test_missing_target_is_named(whole: Path, tmp_path: Path) -> None:
    # gfx11 serves gfx1101 too, but gfx1100 has a part of its own and gfx1101 has none.
    for family in ({"x": ["gfx942", "gfx1101"]}, {"x": ["gfx1101"]}):
        with pytest.raises(InvalidInput, match="family x needs gfx1101, which no source") as error:
            merge_trees([whole], tmp_path / "out", families=family)
        assert "there are: gfx90a gfx942 gfx11 gfx1100" in str(error.value)
    assert not (tmp_path / "out").exists()


def test_files_for_groups_alone_serve_their_members(tmp_path: Path) -> None:
    write(tmp_path / "rocm/lib/aotriton.images/amd-gfx120x/a.aks2")
    write(tmp_path / "rocm/lib/aotriton.images/amd-gfx115x/a.aks2")
    split_tree(tmp_path / "rocm", tmp_path / "split")
    assert sorted(p.name for p in (tmp_path / "split").iterdir()) == ["generic", "gfx115x", "gfx12_0"]
    merge_trees([tmp_path / "split"], tmp_path / "out", families={"f": ["gfx1201"]})
    assert files(tmp_path / "out/f") == {"lib/aotriton.images/amd-gfx120x/a.aks2"}
    merge_trees([tmp_path / "split"], tmp_path / "all", families={"f": ["gfx1151", "gfx1201"]})
    assert listing(tmp_path / "all/f") == listing(tmp_path / "rocm")


def test_family_of_a_feature_is_that_of_its_target(whole: Path, tmp_path: Path) -> None:
    merge_trees([whole], tmp_path / "out", families={"f": ["gfx90a:xnack+"]})
    assert (tmp_path / "out/f/.kpack/rocm_gfx90a:xnack-.kpack").is_file()


# Artifacts.


@pytest.fixture
def artifacts(prefix: Path, tmp_path: Path) -> Path:
    root = tmp_path / "artifacts"
    blas, rand = root / "blas_lib_all", root / "rand_lib_all"
    (blas / "b/stage/lib").mkdir(parents=True)
    shutil.copy2(prefix / "lib/libfat.so", blas / "b/stage/lib/libfat.so")
    write(blas / "a/stage/lib/rocblas/library/x_gfx90a.dat")
    write(blas / "artifact_manifest.txt", "b/stage\na/stage\n")
    library(write(rand / "r/stage/lib/librand.so"), [bundle([("gfx942", code(GFX942, 50))])])
    write(rand / "artifact_manifest.txt", "r/stage\n")
    write(root / "sys_run_generic/s/bin/tool")
    write(root / "sys_run_generic/artifact_manifest.txt", "s\n")
    return root


def test_artifacts_by_family(artifacts: Path, tmp_path: Path) -> None:
    split_tree(artifacts, tmp_path / "split")
    families = {"one": ["gfx942"], "two": ["gfx90a", "gfx942"]}
    told: list[str] = []
    result = merge_trees([tmp_path / "split"], tmp_path / "out", families=families, note=told.append)
    out = tmp_path / "out"
    names = ("rand_lib.json", "rand_lib_gfx942.json", "rand_lib_gfx942.kpack")
    rand = {f"r/stage/.kpack/{name}" for name in names}
    assert {p.name: files(p) - {"artifact_manifest.txt"} for p in out.iterdir()} == {
        "blas_lib_one": {
            "b/stage/lib/libfat.so",
            "b/stage/.kpack/blas_lib.json",
            "b/stage/.kpack/blas_lib_gfx942.json",
            "b/stage/.kpack/blas_lib_gfx942.kpack",
        },
        "blas_lib_two": {
            "b/stage/lib/libfat.so",
            "b/stage/.kpack/blas_lib.json",
            "a/stage/.kpack/blas_lib_gfx90a.json",
            "b/stage/.kpack/blas_lib_gfx942.json",
            "b/stage/.kpack/blas_lib_gfx942.kpack",
            "b/stage/.kpack/blas_lib_gfx90a:xnack-.kpack",
            "a/stage/lib/rocblas/library/x_gfx90a.dat",
        },
        "rand_lib_one": {"r/stage/lib/librand.so", *rand},
        "rand_lib_two": {"r/stage/lib/librand.so", *rand},
        "sys_run_one": {"s/bin/tool"},
        "sys_run_two": {"s/bin/tool"},
    }
    assert (out / "blas_lib_two/artifact_manifest.txt").read_text() == "b/stage\na/stage\n"
    # Others have gfx90a, so it is no error; an artifact without any device code lacks nothing.
    assert [(r.path, r.reason) for r in result.absent] == [("rand_lib_two", "no device code for gfx90a")]
    assert told == [f"merging {name}" for name in sorted(p.name for p in out.iterdir())]
    split_tree(out / "blas_lib_two", tmp_path / "again")
    assert listing(tmp_path / "again/blas_lib_gfx90a") == listing(tmp_path / "split/blas_lib_gfx90a")


def test_artifact_shards(artifacts: Path, tmp_path: Path) -> None:
    split_tree(artifacts / "blas_lib_all", tmp_path / "one", targets=["gfx942"])
    split_tree(artifacts / "blas_lib_all", tmp_path / "two", targets=["gfx1100", "gfx90a"])
    split_tree(artifacts, tmp_path / "all")
    split_tree(artifacts / "rand_lib_all", tmp_path / "rand")
    split_tree(artifacts / "sys_run_generic", tmp_path / "sys")
    names = ["one", "two", "rand", "sys"]
    merge_trees([tmp_path / name for name in names], tmp_path / "out")
    assert listing(tmp_path / "out") == listing(tmp_path / "all")


# What is refused.


def test_a_path_in_two_parts_is_refused(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "split", symlinks=True)
    write(tmp_path / "split/gfx942/lib/rocblas/library/x_gfx90a.dat")
    merge_trees([tmp_path / "split"], tmp_path / "fine", families=["gfx942"])
    with pytest.raises(InvalidInput, match=r"x_gfx90a\.dat comes from two directories"):
        merge_trees([tmp_path / "split"], tmp_path / "out", families={"f": ["gfx90a", "gfx942"]})
    assert not (tmp_path / "out/f").exists()


def test_what_is_no_split_tree_is_refused(prefix: Path, whole: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="empty is not a part of a split tree"):
        merge_trees([prefix], tmp_path / "out")
    shutil.copytree(whole, tmp_path / "odd", symlinks=True)
    (tmp_path / "odd/gfx90a").rename(tmp_path / "odd/gfx90a:xnack-")
    with pytest.raises(InvalidInput, match="gfx90a:xnack- is not a part of a split tree"):
        merge_trees([tmp_path / "odd"], tmp_path / "out")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InvalidInput, match="is empty"):
        merge_trees([whole, tmp_path / "nothing"], tmp_path / "out")
    with pytest.raises(InvalidInput, match="is not a directory"):
        merge_trees([whole, tmp_path / "absent"], tmp_path / "out")
    with pytest.raises(UsageError, match="nothing to merge"):
        merge_trees([], tmp_path / "out")


def test_a_source_is_never_overwritten(shards: list[Path], tmp_path: Path) -> None:
    before = listing(shards[0])
    for dest in (shards[0], shards[0] / "generic/out"):
        with pytest.raises(UsageError, match="would overwrite"):
            merge_trees(shards, dest)
    with pytest.raises(UsageError, match="would overwrite"):
        merge_trees(shards, tmp_path, families={shards[0].name: ["gfx942"]})
    assert listing(shards[0]) == before


def test_output_of_an_earlier_merge_is_replaced(shards: list[Path], tmp_path: Path) -> None:
    merge_trees(shards, tmp_path / "out")
    merge_trees(shards[:1], tmp_path / "out")
    assert listing(tmp_path / "out") == listing(shards[0])
