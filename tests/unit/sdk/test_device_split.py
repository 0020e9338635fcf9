from __future__ import annotations

import json
import os
import resource
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from split_trees import (
    GFX90A,
    GFX942,
    GFX1100,
    XNACK_OFF,
    archived_code,
    code,
    fat,
    library,
    loaded,
    original_code,
)

from oracle.elf_compare import compare
from oracle.fat_library import Wrapper, bundle
from oracle.kpack_reader import read_kpack
from rocwright.device_code.tree.split import split_tree
from rocwright.device_code.tree.tree import Part, Remark
from rocwright.errors import InvalidArchive, InvalidBundle, InvalidInput, UsageError
from trees import files, listing, write


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fat library, linked once."""
    return fat(tmp_path_factory.mktemp("fat") / "libfat.so")


def put(built: Path, place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(built.read_bytes())
    place.chmod(0o755)
    return place


@pytest.fixture
def prefix(built: Path, tmp_path: Path) -> Path:
    """A ROCm prefix with something of everything."""
    root = tmp_path / "rocm"
    put(built, root / "lib/libfat.so.1.0")
    (root / "lib/libfat.so").symlink_to("libfat.so.1.0")
    put(built, root / "bin/deep/er/with space.so").chmod(0o555)
    write(root / "lib/rocblas/library/TensileLibrary.dat")
    write(root / "lib/rocblas/library/TensileLibrary_gfx942.co")
    write(root / "lib/rocblas/library/Kernels.so-000-gfx90a-xnack-.hsaco")
    write(root / "lib/rocblas/library/gfx1100/no_target_in_this_name.dat")
    write(root / "lib/aotriton.images/amd-gfx11xx/flash/a.aks2")
    write(root / "share/miopen/db/gfx90878.kdb")
    write(root / "include/hip.h").chmod(0o600)
    (root / "share/empty/er").mkdir(parents=True)
    (root / "share/empty").chmod(0o700)
    os.link(root / "include/hip.h", root / "include/hip2.h")
    (root / "lib64").symlink_to("lib")
    (root / "dangling").symlink_to(".//no/./where/")
    write(root / os.fsdecode(b"share/caf\xe9"))
    return root


def test_prefix_is_split_by_target(prefix: Path, tmp_path: Path) -> None:
    before = listing(prefix)
    result = split_tree(prefix, tmp_path / "out")

    out = tmp_path / "out"
    assert sorted(p.name for p in out.iterdir()) == [
        "generic",
        "gfx11",
        "gfx1100",
        "gfx908",
        "gfx90a",
        "gfx942",
    ]
    assert files(out / "gfx942") == {
        ".kpack/rocm_gfx942.json",
        ".kpack/rocm_gfx942.kpack",
        "lib/rocblas/library/TensileLibrary_gfx942.co",
    }
    assert files(out / "gfx90a") == {
        ".kpack/rocm_gfx90a.json",
        ".kpack/rocm_gfx90a:xnack-.kpack",
        "lib/rocblas/library/Kernels.so-000-gfx90a-xnack-.hsaco",
    }
    assert files(out / "gfx1100") == {
        ".kpack/rocm_gfx1100.json",
        ".kpack/rocm_gfx1100.kpack",
        "lib/rocblas/library/gfx1100/no_target_in_this_name.dat",
    }
    assert files(out / "gfx11") == {".kpack/rocm_gfx11.json", "lib/aotriton.images/amd-gfx11xx/flash/a.aks2"}
    assert files(out / "gfx908") == {".kpack/rocm_gfx908.json", "share/miopen/db/gfx90878.kdb"}

    generic, split = listing(out / "generic"), {"lib/libfat.so.1.0", "bin/deep/er/with space.so"}
    device = set().union(*(files(p) for p in out.iterdir() if p.name != "generic"))
    moved = {name for name in device if not name.startswith(".kpack/")}
    # What a directory held went with it: it is in the generic part only if it still holds something there.
    emptied = {
        "lib/rocblas/library/gfx1100",
        "lib/aotriton.images",
        "lib/aotriton.images/amd-gfx11xx",
        "lib/aotriton.images/amd-gfx11xx/flash",
        "share/miopen",
        "share/miopen/db",
    }
    assert {n: k for n, k in before.items() if n not in split | moved | emptied} == {
        n: k for n, k in generic.items() if n not in split and n not in (".kpack", ".kpack/rocm.json")
    }
    assert before["share/caf\xe9"] == generic["share/caf\xe9"]
    assert generic["include/hip2.h"] == "=include/hip.h"
    assert generic["share/empty"] == "d700"
    for name in split:
        assert generic[name].split()[0] == before[name].split()[0]
        assert compare(prefix / name, out / "generic" / name, allow_moved_notes=True) == []

    assert listing(prefix) == before
    assert result.objects == result.identical == 10
    said = (out / "gfx11/.kpack/rocm_gfx11.json").stat().st_size
    assert result.parts["gfx11"] == Part(2, 6 + said)
    assert list(result.parts) == ["generic", "gfx908", "gfx90a", "gfx942", "gfx11", "gfx1100"]


def test_archives_hold_exactly_the_code_of_the_libraries(prefix: Path, tmp_path: Path) -> None:
    split_tree(prefix, tmp_path / "out")
    wanted = {
        (kernel, index, target): data
        for kernel in ("lib/libfat.so.1.0", "bin/deep/er/with space.so")
        for (index, target), data in original_code(prefix / kernel).items()
    }
    assert len(wanted) == 10
    assert archived_code(tmp_path / "out") == wanted
    archive = read_kpack(tmp_path / "out/gfx90a/.kpack/rocm_gfx90a:xnack-.kpack")
    assert (archive.group_name, archive.arches) == ("rocm", ("gfx90a:xnack-",))


def test_split_again_changes_nothing(prefix: Path, tmp_path: Path) -> None:
    split_tree(prefix, tmp_path / "out")
    first = listing(tmp_path / "out")
    split_tree(prefix, tmp_path / "out", threads=1)
    assert listing(tmp_path / "out") == first

    again = split_tree(tmp_path / "out/generic", tmp_path / "again", name="rocm")
    assert listing(tmp_path / "again/generic") == listing(tmp_path / "out/generic")
    assert [p.name for p in (tmp_path / "again").iterdir()] == ["generic"]
    assert again.objects == 0
    assert again.groups[0].already == ("bin/deep/er/with space.so", "lib/libfat.so.1.0")
    assert again.groups[0].kept == ()


def test_outputs_share_no_file_with_the_source(prefix: Path, tmp_path: Path) -> None:
    split_tree(prefix, tmp_path / "out")
    sources = {p.stat().st_ino for p in prefix.rglob("*") if p.is_file()}
    copies = {p.stat().st_ino for p in (tmp_path / "out").rglob("*") if p.is_file() and not p.is_symlink()}
    assert sources and copies and not sources & copies


def test_times_of_files_stay(prefix: Path, tmp_path: Path) -> None:
    os.utime(prefix / "include/hip.h", (1_000_000_000, 1_000_000_000))
    split_tree(prefix, tmp_path / "out")
    assert (tmp_path / "out/generic/include/hip.h").stat().st_mtime == 1_000_000_000


def test_a_library_under_several_names_finds_its_code_from_each(built: Path, tmp_path: Path) -> None:
    root = tmp_path / "rocm"
    put(built, root / "lib/libfat.so")
    (root / "lib/very/deep").mkdir(parents=True)
    os.link(root / "lib/libfat.so", root / "lib/very/deep/libother.so")
    split_tree(root, tmp_path / "out")
    generic = tmp_path / "out/generic"
    assert listing(generic)["lib/very/deep/libother.so"] == "=lib/libfat.so"
    overlaid = generic / ".kpack"
    shutil.copytree(tmp_path / "out/gfx942/.kpack", overlaid, dirs_exist_ok=True)
    wanted = [original_code(built)[i, "gfx942"] for i in (0, 1)]
    for name in ("lib/libfat.so", "lib/very/deep/libother.so"):
        assert loaded(generic / name, "gfx942", tmp_path / "load") == wanted


def test_odd_names_of_libraries_lead_to_their_code(built: Path, tmp_path: Path) -> None:
    root = tmp_path / "rocm"
    names = [b"lib/a\\b.so", b"lib/caf\xe9.so", b"lib/a%5Cb.so", "lib/ü ñ#1.so".encode()]
    for name in names:
        put(built, root / os.fsdecode(name))
    result = split_tree(root, tmp_path / "out")
    generic = tmp_path / "out/generic"
    shutil.copytree(tmp_path / "out/gfx1100/.kpack", generic / ".kpack", dirs_exist_ok=True)
    wanted = [original_code(built)[i, "gfx1100"] for i in (0, 1)]
    for name in names:
        assert loaded(generic / os.fsdecode(name), "gfx1100", tmp_path / "load") == wanted
    assert len(archived_code(generic)) == 2 * len(names)
    assert result.objects == 5 * len(names)


# Artifacts.


@pytest.fixture
def artifact(built: Path, tmp_path: Path) -> Path:
    root = tmp_path / "artifacts/blas_lib_gfx94X-dcgpu"
    put(built, root / "math/b/stage/lib/libb.so")
    library(
        put(built, root / "math/a/stage/lib/deep/liba.so"), [bundle([("gfx1100", code(GFX1100, 77))])]
    ).chmod(0o755)
    write(root / "math/c/stage/lib/rocblas/library/x_gfx942.dat")
    write(root / "math/c/stage/readme.txt")
    write(root / "artifact_manifest.txt", "math/c/stage\nmath/b/stage/\nmath/a/stage\n\nmath/c/stage\n")
    return root


def test_artifact_is_split_with_manifests(artifact: Path, tmp_path: Path) -> None:
    result = split_tree(artifact, tmp_path / "out")
    out = tmp_path / "out"
    assert {p.name: files(p) for p in out.iterdir()} == {
        "blas_lib_generic": {
            "artifact_manifest.txt",
            "math/a/stage/.kpack/blas_lib.json",
            "math/a/stage/lib/deep/liba.so",
            "math/b/stage/lib/libb.so",
            "math/c/stage/readme.txt",
        },
        "blas_lib_gfx942": {
            "artifact_manifest.txt",
            "math/b/stage/.kpack/blas_lib_gfx942.json",
            "math/b/stage/.kpack/blas_lib_gfx942.kpack",
            "math/c/stage/lib/rocblas/library/x_gfx942.dat",
        },
        "blas_lib_gfx90a": {
            "artifact_manifest.txt",
            "math/b/stage/.kpack/blas_lib_gfx90a.json",
            "math/b/stage/.kpack/blas_lib_gfx90a:xnack-.kpack",
        },
        # The first prefix by name that has code for the target, not the first in the manifest.
        "blas_lib_gfx1100": {
            "artifact_manifest.txt",
            "math/a/stage/.kpack/blas_lib_gfx1100.json",
            "math/a/stage/.kpack/blas_lib_gfx1100.kpack",
        },
    }
    manifests = {p.name: (p / "artifact_manifest.txt").read_text() for p in out.iterdir()}
    assert manifests == {
        "blas_lib_generic": "math/c/stage\nmath/b/stage\nmath/a/stage\n",
        "blas_lib_gfx942": "math/c/stage\nmath/b/stage\n",
        "blas_lib_gfx90a": "math/b/stage\n",
        "blas_lib_gfx1100": "math/a/stage\n",
    }
    assert set(archived_code(out / "blas_lib_gfx1100")) == {
        ("math/a/stage/lib/deep/liba.so", 0, "gfx1100"),
        ("math/b/stage/lib/libb.so", 0, "gfx1100"),
        ("math/b/stage/lib/libb.so", 1, "gfx1100"),
    }
    assert result.objects == result.identical == 6


def install(root: Path, *parts: Path) -> Path:
    """Lay the prefixes of artifacts over each other, as an installation does."""
    for part in parts:
        for prefix in (part / "artifact_manifest.txt").read_text().splitlines():
            for file in (p for p in (part / prefix).rglob("*") if p.is_file()):
                place = root / file.relative_to(part / prefix)
                place.parent.mkdir(parents=True, exist_ok=True)
                assert not place.exists()
                place.write_bytes(file.read_bytes())
    return root


def test_installed_libraries_find_archives_of_other_prefixes(artifact: Path, tmp_path: Path) -> None:
    split_tree(artifact, tmp_path / "out")
    out = tmp_path / "out"
    root = install(tmp_path / "installed", out / "blas_lib_generic", out / "blas_lib_gfx1100")
    original = original_code(artifact / "math/b/stage/lib/libb.so")
    assert loaded(root / "lib/libb.so", "gfx1100", tmp_path / "l") == [original[i, "gfx1100"] for i in (0, 1)]
    assert loaded(root / "lib/deep/liba.so", "gfx1100", tmp_path / "l") == [code(GFX1100, 77)]


def test_directory_of_artifacts(artifact: Path, tmp_path: Path) -> None:
    write(artifact.parent / "sys_run_generic/base/stage/bin/tool")
    write(artifact.parent / "sys_run_generic/artifact_manifest.txt", "base/stage\n")
    write(artifact.parent / "notes.txt")
    told: list[str] = []
    result = split_tree(artifact.parent, tmp_path / "out", note=told.append)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "blas_lib_generic",
        "blas_lib_gfx1100",
        "blas_lib_gfx90a",
        "blas_lib_gfx942",
        "sys_run_generic",
    ]
    assert listing(tmp_path / "out/sys_run_generic") == listing(artifact.parent / "sys_run_generic")
    assert result.ignored == ("notes.txt",)
    assert "notes.txt is not an artifact; left out" in told
    # A split directory of artifacts is split into itself.
    split_tree(tmp_path / "out", tmp_path / "again")
    assert listing(tmp_path / "again") == listing(tmp_path / "out")
    with pytest.raises(UsageError):
        split_tree(artifact.parent, tmp_path / "other", name="x")


def test_artifacts_of_one_name_are_one_group_and_share_no_file(artifact: Path, tmp_path: Path) -> None:
    other = artifact.parent / "blas_lib_generic"
    write(other / "math/c/stage/more.txt")
    write(other / "artifact_manifest.txt", "math/c/stage\n")
    split_tree(artifact.parent, tmp_path / "out")
    assert {"math/c/stage/more.txt", "math/c/stage/readme.txt"} < files(tmp_path / "out/blas_lib_generic")
    write(other / "math/c/stage/readme.txt")
    with pytest.raises(InvalidInput, match="comes from two directories"):
        split_tree(artifact.parent, tmp_path / "clash")
    assert not (tmp_path / "clash").exists()


def test_a_file_outside_all_prefixes_stays_as_it_is(artifact: Path, built: Path, tmp_path: Path) -> None:
    put(built, artifact / "loose/libfat.so")
    result = split_tree(artifact, tmp_path / "out")
    assert (tmp_path / "out/blas_lib_generic/loose/libfat.so").read_bytes() == built.read_bytes()
    assert [remark.path for remark in result.groups[0].kept] == ["loose/libfat.so"]


@pytest.mark.parametrize("line", ["../outside", "/usr", "a/./b", "a//b"])
def test_manifest_with_a_strange_prefix_is_refused(artifact: Path, tmp_path: Path, line: str) -> None:
    write(artifact / "artifact_manifest.txt", line + "\n")
    with pytest.raises(InvalidInput, match="not a plain relative directory"):
        split_tree(artifact, tmp_path / "out")


def test_artifact_needs_its_kind_of_name(artifact: Path, tmp_path: Path) -> None:
    wrong = artifact.rename(artifact.parent / "blas-lib")
    with pytest.raises(InvalidInput, match="not an artifact name"):
        split_tree(wrong, tmp_path / "out")


def test_the_inner_of_two_prefixes_holds_a_file(built: Path, tmp_path: Path) -> None:
    root = tmp_path / "one_lib_generic"
    put(built, root / "x/stage/lib/libfat.so")
    write(root / "x/stage/lib/rocblas/library/a_gfx906.dat")
    write(root / "only/lib/rocblas/library/b_gfx906.dat")
    write(root / "artifact_manifest.txt", "x\nx/stage\nonly\n")
    split_tree(root, tmp_path / "out")
    assert (tmp_path / "out/one_lib_gfx942/x/stage/.kpack/one_lib_gfx942.kpack").is_file()
    # A prefix that the manifest names is there, though all it held serves one target.
    assert listing(tmp_path / "out/one_lib_generic")["only"] == "d755"
    assert listing(tmp_path / "out/one_lib_generic/only") == {}
    assert (tmp_path / "out/one_lib_gfx906/artifact_manifest.txt").read_text() == "x\nx/stage\nonly\n"


def test_artifacts_are_not_overwritten(artifact: Path, tmp_path: Path) -> None:
    before = listing(artifact.parent)
    for dest in (artifact.parent, artifact / "out", artifact.parent / "out"):
        with pytest.raises(UsageError, match="overwrite"):
            split_tree(artifact.parent, dest)
    assert listing(artifact.parent) == before


# Targets.


def test_what_is_dropped_counts_as_the_runtime_does(tmp_path: Path) -> None:
    bundles = [bundle([("gfx90a:xnack-", code(GFX90A, 1)), ("gfx942", code(GFX942, 2))])]
    library(write(tmp_path / "rocm/lib/libfat.so"), bundles, wrappers=[0, 0])
    result = split_tree(tmp_path / "rocm", tmp_path / "out", targets=["gfx942"])
    assert result.groups[0].dropped == {"gfx90a:xnack-": 2}
    assert result.objects == result.identical == 2


def test_only_wanted_targets_and_the_rest_is_told(prefix: Path, tmp_path: Path) -> None:
    result = split_tree(prefix, tmp_path / "out", targets=["gfx1100", "gfx90a:xnack+"])
    out = tmp_path / "out"
    assert sorted(p.name for p in out.iterdir()) == ["generic", "gfx11", "gfx1100", "gfx90a"]
    assert {target for _, _, target in archived_code(out)} == {"gfx1100", "gfx90a:xnack-"}
    assert result.objects == result.identical == 6
    assert result.groups[0].dropped == {"gfx908": 1, "gfx942": 5}
    full = split_tree(prefix, tmp_path / "full")
    every, some = listing(tmp_path / "full/generic"), listing(out / "generic")
    # Which targets there are is all that differs.
    assert every.pop(".kpack/rocm.json") != some.pop(".kpack/rocm.json")
    assert every == some
    assert listing(tmp_path / "full/gfx1100") == listing(out / "gfx1100")
    assert full.groups[0].dropped == {}


def test_parts_of_an_earlier_run_that_are_no_more_disappear(prefix: Path, tmp_path: Path) -> None:
    split_tree(prefix, tmp_path / "out")
    write(tmp_path / "out/other/file")
    split_tree(prefix, tmp_path / "out", targets=["gfx942"])
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["generic", "gfx942", "other"]


def test_a_library_without_code_for_any_wanted_target_is_an_error(prefix: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="has no code for gfx1201") as error:
        split_tree(prefix, tmp_path / "out", targets=["gfx1201"])
    assert "gfx1100 gfx90a:xnack- gfx942" in str(error.value)
    assert not (tmp_path / "out").exists()


# What is not split, and says so.


def test_what_cannot_be_split_or_placed_stays_and_is_reported(prefix: Path, tmp_path: Path) -> None:
    bundles = [bundle([("gfx942", code(GFX942, 9))]), bundle([("gfx942", code(GFX942, 8))])]
    odd = library(prefix / "lib/libodd.so", bundles, wrappers=[Wrapper(0), Wrapper(0, offset=64)])
    write(prefix / "lib/rocblas/library/x_gfx99999.dat")
    # Never split, as it serves one target, whichever that is.
    name = "lib/libMIOpenCKGroupedConv_gfx99999.so"
    whole = library(prefix / name, [bundle([("gfx942", code(GFX942, 9))])])
    result = split_tree(prefix, tmp_path / "out").groups[0]
    generic = tmp_path / "out/generic"
    assert (generic / "lib/libodd.so").read_bytes() == odd.read_bytes()
    assert (generic / "lib/rocblas/library/x_gfx99999.dat").is_file()
    assert [remark.path for remark in result.kept] == ["lib/libodd.so"]
    assert "does not point to the start of a bundle" in result.kept[0].reason
    assert (generic / name).read_bytes() == whole.read_bytes()
    assert result.unplaced == (
        Remark(name, "gfx99999 is not a known target"),
        Remark("lib/rocblas/library/x_gfx99999.dat", "gfx99999 is not a known target"),
    )
    assert result.objects == 10


def test_device_libraries_are_shipped_whole_though_they_are_fat(prefix: Path, tmp_path: Path) -> None:
    name = "lib/libMIOpenCKGroupedConv_gfx942.so"
    whole = library(prefix / name, [bundle([("gfx942", code(GFX942, 9))])])
    result = split_tree(prefix, tmp_path / "out")
    assert (tmp_path / "out/gfx942" / name).read_bytes() == whole.read_bytes()
    assert not (tmp_path / "out/generic" / name).exists()
    assert result.objects == 10


def test_elf_files_for_other_machines_stay(prefix: Path, tmp_path: Path) -> None:
    (prefix / "lib/crt-i386.o").write_bytes(b"\x7fELF\x01\x01\x01" + bytes(45))
    split_tree(prefix, tmp_path / "out")
    assert (tmp_path / "out/generic/lib/crt-i386.o").read_bytes() == b"\x7fELF\x01\x01\x01" + bytes(45)


def test_merged_tree_splits_into_the_same_parts(prefix: Path, tmp_path: Path) -> None:
    split_tree(prefix, tmp_path / "out")
    subprocess.run(
        f"mkdir {tmp_path}/merged; cp -a {tmp_path}/out/g*/. {tmp_path}/merged", shell=True, check=True
    )
    split_tree(tmp_path / "merged", tmp_path / "again", name="rocm")
    assert listing(tmp_path / "again") == listing(tmp_path / "out")


def test_a_tree_that_is_half_split_keeps_its_archives(prefix: Path, built: Path, tmp_path: Path) -> None:
    split_tree(prefix, tmp_path / "out")
    subprocess.run(f"cp -a {tmp_path}/out/gfx942/. {tmp_path}/out/generic", shell=True, check=True)
    put(built, tmp_path / "out/generic/lib/libnew.so")
    with pytest.raises(InvalidInput, match=r"already has an archive \.kpack/rocm_gfx942\.kpack"):
        split_tree(tmp_path / "out/generic", tmp_path / "again", name="rocm")
    assert not (tmp_path / "again").exists()


def test_archives_of_earlier_splits_go_to_the_target_in_their_table(tmp_path: Path) -> None:
    # Written by hand: what this project writes has one target.
    def archive(name: str, *targets: str) -> None:
        table = {"format_version": 1, "group_name": "x", "gfx_arches": targets, "toc": {}}
        table |= {"compression_scheme": "none", "blobs": []}
        head = b"KPAK" + struct.pack("<IQ", 1, 64) + bytes(48)
        path = write(tmp_path / "rocm/.kpack" / name)
        path.write_bytes(head + msgspec.msgpack.encode(table))

    archive("misleading_gfx906.kpack", "gfx942:xnack+")
    archive("two.kpack", "gfx942", "gfx1100")
    archive("unknown.kpack", "gfx")
    (tmp_path / "rocm/.kpack/link.kpack").symlink_to("nowhere")
    result = split_tree(tmp_path / "rocm", tmp_path / "out")
    assert {p.name: files(p) for p in (tmp_path / "out").iterdir()} == {
        "generic": {".kpack/two.kpack", ".kpack/unknown.kpack", ".kpack/link.kpack"},
        "gfx942": {".kpack/misleading_gfx906.kpack"},
    }
    assert [remark.path for remark in result.groups[0].unplaced] == [
        ".kpack/two.kpack",
        ".kpack/unknown.kpack",
    ]


def test_result_is_json_whatever_the_names(prefix: Path, built: Path, tmp_path: Path) -> None:
    put(built, prefix / os.fsdecode(b"lib/\xff.so"))
    (prefix / os.fsdecode(b"lib/rocblas/library/\xff_gfx99999")).touch()
    result = split_tree(prefix, tmp_path / "out")
    again = split_tree(tmp_path / "out/generic", tmp_path / "again")
    assert json.loads(msgspec.json.encode(result))["groups"][0]["unplaced"][0]["path"].endswith(
        "\\xff_gfx99999"
    )
    assert "lib/\\xff.so" in json.loads(msgspec.json.encode(again))["groups"][0]["already"]


def test_runtimes_without_a_fallback_find_code_beside_a_more_specific_archive(tmp_path: Path) -> None:
    both, plain, special = code(GFX90A, 60), code(GFX90A, 61), code(GFX90A, 62, XNACK_OFF)
    root = tmp_path / "rocm/lib"
    library(write(root / "libboth.so"), [bundle([("gfx90a", both), ("gfx90a:xnack-", special)])])
    library(write(root / "libplain.so"), [bundle([("gfx90a", plain), ("gfx942", code(GFX942, 3))])])
    split_tree(tmp_path / "rocm", tmp_path / "out")
    shutil.copytree(tmp_path / "out/gfx90a", tmp_path / "out/generic", dirs_exist_ok=True)
    lib, isa = tmp_path / "out/generic/lib/libplain.so", "gfx90a:sramecc+:xnack-"
    assert loaded(lib, isa, tmp_path / "load") == [plain]
    assert loaded(lib.parent / "libboth.so", isa, tmp_path / "load") == [special]


# What fails leaves nothing.


def test_a_damaged_archive_is_an_error(prefix: Path, tmp_path: Path) -> None:
    write(prefix / ".kpack/rocm_gfx942.kpack", "no archive")
    with pytest.raises(InvalidArchive, match=r"rocm_gfx942\.kpack"):
        split_tree(prefix, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_directories_that_cannot_be_written_are_replaced_all_the_same(prefix: Path, tmp_path: Path) -> None:
    # Root may write everywhere; the test says more when it is run by somebody else.
    (prefix / "include").chmod(0o555)
    split_tree(prefix, tmp_path / "out")
    split_tree(prefix, tmp_path / "out")
    assert listing(tmp_path / "out/generic")["include"] == "d555"
    for path in (prefix, tmp_path / "out/generic"):
        (path / "include").chmod(0o755)


def test_a_damaged_library_leaves_what_was_there(prefix: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="overwrite"):
        split_tree(prefix, prefix / "lib/out")
    split_tree(prefix, tmp_path / "out")
    before = listing(tmp_path / "out")
    data = bytearray((prefix / "lib/libfat.so.1.0").read_bytes())
    at = data.index(b"__CLANG_OFFLOAD_BUNDLE__") + 24
    data[at : at + 8] = b"\xff" * 8
    (prefix / "lib/libfat.so.1.0").write_bytes(data)
    with pytest.raises(InvalidBundle, match=r"libfat\.so\.1\.0"):
        split_tree(prefix, tmp_path / "out")
    assert listing(tmp_path / "out") == before
    with pytest.raises(InvalidBundle):
        split_tree(prefix, tmp_path / "fresh")
    assert not (tmp_path / "fresh").exists()


def test_what_a_killed_run_left_is_replaced(prefix: Path, tmp_path: Path) -> None:
    write(tmp_path / "out/generic.partial/lib/half")
    write(tmp_path / "out/gfx942.partial/half")
    split_tree(prefix, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.partial"))
    assert not list((tmp_path / "out").rglob("half"))


@pytest.mark.parametrize("limit", [100, 20_000])
def test_a_write_that_fails_leaves_nothing(prefix: Path, tmp_path: Path, limit: int) -> None:
    # A limit on the size of files stands in for a full disk.
    write(prefix / "large", "x" * 30_000)
    words = "import sys, pathlib; from rocwright.device_code.tree.split import split_tree; "
    words += "split_tree(*map(pathlib.Path, sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-B", "-c", words, str(prefix), str(tmp_path / "out")],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
    )
    assert "cannot write" in done.stderr and "File too large" in done.stderr
    assert not (tmp_path / "out").exists()


def test_neither_pipes_nor_the_source_itself(prefix: Path, tmp_path: Path) -> None:
    split_tree(prefix, tmp_path / "out")
    with pytest.raises(UsageError, match="overwrite"):
        split_tree(tmp_path / "out/generic", tmp_path / "out")
    with pytest.raises(InvalidInput, match="not a directory"):
        split_tree(prefix / "include/hip.h", tmp_path / "x")
    os.mkfifo(prefix / "lib/pipe")
    with pytest.raises(InvalidInput, match="lib/pipe is neither a file"):
        split_tree(prefix, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_group_name_is_safe_for_file_names(built: Path, tmp_path: Path) -> None:
    put(built, tmp_path / "my rocm@7/lib/libfat.so")
    result = split_tree(tmp_path / "my rocm@7", tmp_path / "out")
    assert result.groups[0].name == "my-rocm-7"
    assert (tmp_path / "out/gfx942/.kpack/my-rocm-7_gfx942.kpack").is_file()
