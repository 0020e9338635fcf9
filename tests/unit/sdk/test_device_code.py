"""Device code is listed and taken out wherever it is: libraries, archives, trees, artifacts, wheels."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
import zstandard
from split_trees import GFX942, code, fat, library, original_code

from oracle.fat_library import build_library, bundle, ccob
from rocwright.binary.view import mapped
from rocwright.device_code.archives import split_library, store
from rocwright.device_code.kpack import ArchiveWriter, Entry, Marker
from rocwright.device_code.split import LibraryPlan, plan_library
from rocwright.device_code.tree.code import DeviceFile, Listing, list_device_code
from rocwright.device_code.tree.extract import Extraction, extract, safe
from rocwright.device_code.tree.split import split_tree
from rocwright.device_code.wheel.wheel import split_wheel
from rocwright.errors import InvalidArchive, InvalidBundle, InvalidElf, InvalidInput, InvalidWheel
from rocwright.system.files import walk_files
from trees import write
from unit.builder import fat_wheels

FAT_CODE = {(0, "gfx90a:xnack-"), (0, "gfx942"), (0, "gfx1100"), (1, "gfx942"), (1, "gfx1100")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fat library that tests copy."""
    return fat(tmp_path_factory.mktemp("built") / "libfat.so")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fat wheel in `fat`, and the host and device wheels that it becomes in `split`."""
    root = tmp_path_factory.mktemp("wheels")
    members = fat_wheels.usual(fat_wheels.fat_bytes(root / "work"))
    split_wheel(fat_wheels.write(root / "fat", members), root / "split", overlay_root="torch")
    return root


def put(built: Path, place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(built, place)
    return place


def only(listing: Listing) -> DeviceFile:
    (found,) = listing.files
    assert listing.damaged == ()
    return found


def numbered(found: DeviceFile) -> set[tuple[int | None, str]]:
    return {(one.index, one.target) for one in found.code}


def by_number(done: Extraction) -> dict[tuple[int | None, str], bytes]:
    return {(one.index, one.target): one.path.read_bytes() for one in done.written}


def archive(path: Path, target: str, objects: Iterable[tuple[str, int, bytes]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        writer = ArchiveWriter(stream, "g", target)
        for kernel, index, data in objects:
            frame = writer.add(zstandard.ZstdCompressor().compress(data))
            writer.enter(Entry(kernel, index, target, frame, len(data)))
        writer.close()
    return path


# -- single files ------------------------------------------------------------------------------------------


def test_a_fat_library_by_wrapper_and_target(built: Path, tmp_path: Path) -> None:
    found = only(list_device_code([built]))
    assert (found.kind, found.name, found.member, found.wrappers) == ("fat", str(built), None, 2)
    assert found.size == built.stat().st_size
    expected = original_code(built)
    assert numbered(found) == FAT_CODE == set(expected)
    assert {(c.index, c.target): c.size for c in found.code} == {k: len(d) for k, d in expected.items()}
    size = len(code(0, 0))
    assert found.targets == {"gfx1100": (2, 2 * size), "gfx90a:xnack-": (1, size), "gfx942": (2, 2 * size)}
    done = extract([built], tmp_path / "out")
    assert by_number(done) == expected
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "libfat.so#0-gfx1100.hsaco",
        "libfat.so#0-gfx90a:xnack-.hsaco",
        "libfat.so#0-gfx942.hsaco",
        "libfat.so#1-gfx1100.hsaco",
        "libfat.so#1-gfx942.hsaco",
    ]


def test_only_the_targets_that_were_asked_for(built: Path, tmp_path: Path) -> None:
    done = extract([built], tmp_path, targets=frozenset({"gfx90a:xnack-"}))
    assert [path.name for path in tmp_path.iterdir()] == ["libfat.so#0-gfx90a:xnack-.hsaco"]
    assert [one.target for one in done.written] == ["gfx90a:xnack-"]
    assert extract([built], tmp_path, targets=frozenset({"gfx90a"})).written == ()


def test_two_wrappers_on_one_bundle_are_both_there(tmp_path: Path) -> None:
    one = code(GFX942, 1)
    place = library(tmp_path / "libtwice.so", [bundle([("gfx942", one)])], wrappers=[0, 0])
    assert numbered(only(list_device_code([place]))) == {(0, "gfx942"), (1, "gfx942")}
    done = extract([place], tmp_path / "out")
    assert by_number(done) == {(0, "gfx942"): one, (1, "gfx942"): one}


def test_wrapper_numbers_do_not_follow_the_order_of_bundles(tmp_path: Path) -> None:
    codes = [code(GFX942, 1), code(GFX942, 2)]
    bundles = [ccob(bundle([("gfx942", data)])) for data in codes]
    place = library(tmp_path / "libturned.so", bundles, wrappers=[1, 0])
    assert by_number(extract([place], tmp_path / "out")) == {
        (0, "gfx942"): codes[1],
        (1, "gfx942"): codes[0],
    }


def test_a_bundle_without_a_wrapper_has_no_number(tmp_path: Path) -> None:
    codes = [code(GFX942, 1), code(GFX942, 2)]
    place = library(tmp_path / "lib.so", [bundle([("gfx942", c)]) for c in codes], wrappers=[0])
    found = only(list_device_code([place]))
    assert [one.index for one in found.code] == [0, None]
    done = extract([place], tmp_path / "out")
    assert [one.path.read_bytes() for one in done.written] == codes
    assert done.written[1].path.name == f"lib.so#at-{found.code[1].place:#x}-gfx942.hsaco"


def test_a_target_twice_in_a_bundle_is_written_twice(tmp_path: Path) -> None:
    codes = [code(GFX942, 1), code(GFX942, 2)]
    place = library(tmp_path / "lib.so", [bundle([("gfx942", c) for c in codes])])
    done = extract([place], tmp_path / "out")
    assert [one.path.name for one in done.written] == ["lib.so#0-gfx942.hsaco", "lib.so#0-gfx942~2.hsaco"]
    assert [one.path.read_bytes() for one in done.written] == codes


def test_bundles_in_a_file_of_their_own(tmp_path: Path) -> None:
    one = code(GFX942, 1)
    place = tmp_path / "kernels.co"
    place.write_bytes(ccob(bundle([("gfx942", one)])))
    found = only(list_device_code([place]))
    assert (found.kind, [c.form for c in found.code]) == ("fat", ["compressed"])
    assert by_number(extract([place], tmp_path / "out")) == {(0, "gfx942"): one}


def test_wrappers_that_cannot_be_told_leave_the_code_readable(tmp_path: Path) -> None:
    work = tmp_path / "work"
    build_library(work, bundles=[bundle([("gfx942", code(GFX942, 1))])])
    found = only(list_device_code([work / ".build" / "device.o"]))
    assert found.remark is not None and [c.index for c in found.code] == [None]
    done = extract([work / ".build" / "device.o"], tmp_path / "out")
    assert [one.path.read_bytes() for one in done.written] == [code(GFX942, 1)]


def test_a_split_library_brings_its_archives(built: Path, tmp_path: Path) -> None:
    split_library(built, tmp_path / "split")
    host = tmp_path / "split" / "libfat.so"
    found = only(list_device_code([host]))
    assert (found.kind, found.wrappers, numbered(found)) == ("split", 2, FAT_CODE)
    assert [Path(name).name for name in found.archives] == [
        "libfat.so_gfx1100.kpack",
        "libfat.so_gfx90a:xnack-.kpack",
        "libfat.so_gfx942.kpack",
    ]
    assert by_number(extract([host], tmp_path / "out")) == original_code(built)


def test_a_link_is_followed_to_where_the_library_is(built: Path, tmp_path: Path) -> None:
    split_library(built, tmp_path / "split")
    link = tmp_path / "elsewhere.so"
    link.symlink_to(tmp_path / "split" / "libfat.so")
    assert numbered(only(list_device_code([link]))) == FAT_CODE


def test_only_code_of_its_own_name_belongs_to_a_library(built: Path, tmp_path: Path) -> None:
    split_library(built, tmp_path)
    archive(tmp_path / ".kpack" / "libfat.so_gfx1101.kpack", "gfx1101", [("libother.so", 0, b"x" * 99)])
    found = only(list_device_code([tmp_path / "libfat.so"]))
    assert numbered(found) == FAT_CODE and len(found.archives) == 4
    assert len(extract([tmp_path / "libfat.so"], tmp_path / "out").written) == 5


def test_a_backslash_in_a_name_is_a_slash_to_readers_of_archives(built: Path, tmp_path: Path) -> None:
    marker = Marker((".kpack/w_@GFXARCH@.kpack",), "lib\\libfat.so")
    with mapped(built) as file:
        plan = plan_library(file, marker)
        assert isinstance(plan, LibraryPlan)
        store([plan], lambda target: tmp_path / ".kpack" / f"w_{target}.kpack", "w")
        (tmp_path / "libfat.so").write_bytes(b"".join(plan.host.pieces()))
    assert numbered(only(list_device_code([tmp_path / "libfat.so"]))) == FAT_CODE
    assert by_number(extract([tmp_path / "libfat.so"], tmp_path / "out")) == original_code(built)


def test_a_split_library_alone_says_so(built: Path, tmp_path: Path) -> None:
    split_library(built, tmp_path / "split")
    host = Path(shutil.move(tmp_path / "split" / "libfat.so", tmp_path / "libfat.so"))
    found = only(list_device_code([host]))
    assert (found.kind, found.code, found.archives) == ("split", (), ())
    with pytest.raises(InvalidInput, match="its archives are not beside it") as caught:
        extract([host], tmp_path / "out")
    assert "device wheels" in str(caught.value) and not (tmp_path / "out").exists()


def test_an_archive_on_its_own(built: Path, tmp_path: Path) -> None:
    split_library(built, tmp_path / "split")
    place = tmp_path / "split" / ".kpack" / "libfat.so_gfx942.kpack"
    found = only(list_device_code([place]))
    assert (found.kind, found.wrappers, numbered(found)) == ("archive", 2, {(0, "gfx942"), (1, "gfx942")})
    expected = {key: data for key, data in original_code(built).items() if key[1] == "gfx942"}
    assert by_number(extract([place], tmp_path / "out")) == expected


def test_files_without_device_code(tmp_path: Path) -> None:
    write(tmp_path / "README")
    (tmp_path / "empty").touch()
    (tmp_path / "link").symlink_to("nowhere")
    assert list_device_code([tmp_path]) == Listing((), ())
    with pytest.raises(InvalidInput, match="no device code"):
        extract([tmp_path], tmp_path / "out")


# -- directories -------------------------------------------------------------------------------------------


def test_a_prefix_and_its_split_have_the_same_code(built: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "rocm"
    put(built, prefix / "lib" / "libfat.so")
    put(built, prefix / "lib" / "plugins" / "libfat.so")
    (prefix / "lib" / "libfat.so.1").symlink_to("libfat.so")
    before = list_device_code([prefix])
    assert [Path(one.name).relative_to(prefix).as_posix() for one in before.files] == [
        "lib/libfat.so",
        "lib/plugins/libfat.so",
    ]
    split_tree(prefix, tmp_path / "split")
    listing = list_device_code([tmp_path / "split"])
    kinds = [one.kind for one in listing.files]
    assert (kinds.count("split"), kinds.count("archive"), listing.damaged) == (2, 3, ())
    assert all(numbered(one) == FAT_CODE for one in listing.files if one.kind == "split")
    first, second = extract([prefix], tmp_path / "a"), extract([tmp_path / "split"], tmp_path / "b")
    assert len(first.written) == 10
    assert {p.name: p.read_bytes() for p in (tmp_path / "a").iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "b").iterdir()
    }
    assert {one.kernel for one in second.written} == {"lib/libfat.so", "lib/plugins/libfat.so"}


def test_the_part_for_the_host_finds_the_parts_beside_it(built: Path, tmp_path: Path) -> None:
    put(built, tmp_path / "rocm" / "lib" / "libfat.so")
    split_tree(tmp_path / "rocm", tmp_path / "split")
    shutil.copytree(tmp_path / "split" / "gfx942", tmp_path / "split" / "unrelated")
    found = only(list_device_code([tmp_path / "split" / "generic" / "lib" / "libfat.so"]))
    assert numbered(found) == FAT_CODE
    parts = [Path(name).relative_to(tmp_path / "split").parts[0] for name in found.archives]
    assert parts == ["gfx1100", "gfx90a", "gfx942"]
    shutil.rmtree(tmp_path / "split" / "gfx942")
    found = only(list_device_code([tmp_path / "split" / "generic"]))
    assert {one.target for one in found.code} == {"gfx1100", "gfx90a:xnack-"}


def test_artifacts_whose_prefixes_are_laid_over_each_other(built: Path, tmp_path: Path) -> None:
    whole = tmp_path / "blas_lib_gfx94X"
    put(built, whole / "math" / "stage" / "lib" / "libfat.so")
    put(built, whole / "a" / "stage" / "lib" / "libother.so")
    write(whole / "artifact_manifest.txt", "a/stage\nmath/stage\n")
    split_tree(whole, tmp_path / "split")
    host = tmp_path / "split" / "blas_lib_generic" / "math" / "stage" / "lib" / "libfat.so"
    found = only(list_device_code([host]))
    assert numbered(found) == FAT_CODE
    assert {Path(name).relative_to(tmp_path / "split").parts[0] for name in found.archives} == {
        "blas_lib_gfx90a",
        "blas_lib_gfx942",
        "blas_lib_gfx1100",
    }
    assert by_number(extract([host], tmp_path / "out")) == original_code(built)
    assert len(extract([tmp_path / "split"], tmp_path / "all").written) == 10


def test_an_archive_in_another_prefix_of_the_same_artifact(built: Path, tmp_path: Path) -> None:
    whole = tmp_path / "blas_lib_generic"
    split_library(built, tmp_path / "s")
    put(tmp_path / "s" / "libfat.so", whole / "math" / "stage" / "libfat.so")
    shutil.copytree(tmp_path / "s" / ".kpack", whole / "a" / "stage" / ".kpack")
    write(whole / "artifact_manifest.txt", "a/stage\nmath/stage\n")
    assert numbered(only(list_device_code([whole / "math"]))) == FAT_CODE


def test_an_archive_that_libraries_share_is_written_once(built: Path, tmp_path: Path) -> None:
    split_library(built, tmp_path / "s")
    done = extract([tmp_path / "s", tmp_path / "s" / "libfat.so", tmp_path / "s"], tmp_path / "out")
    assert len(done.written) == 5


# -- wheels ------------------------------------------------------------------------------------------------

WHEEL_CODE = {
    **{("torch/lib/libraw.so", 0, target): data for target, data in fat_wheels.ALPHA.items()},
    **{("torch/lib/libraw.so", 1, target): data for target, data in fat_wheels.GAMMA.items()},
    **{("torch/_C.so", 0, target): data for target, data in fat_wheels.BETA.items()},
}


def test_a_fat_wheel(wheels: Path, tmp_path: Path) -> None:
    place = wheels / "fat" / fat_wheels.FILENAME
    listing = list_device_code([place])
    assert {one.member: numbered(one) for one in listing.files} == {
        "torch/lib/libraw.so": {(i, t) for k, i, t in WHEEL_CODE if k == "torch/lib/libraw.so"},
        "torch/_C.so": {(i, t) for k, i, t in WHEEL_CODE if k == "torch/_C.so"},
    }
    assert [one.name for one in listing.files] == [f"{place}: {one.member}" for one in listing.files]
    assert {one.path for one in listing.files} == {place}
    done = extract([place], tmp_path)
    assert {(o.kernel, o.index, o.target): o.path.read_bytes() for o in done.written} == WHEEL_CODE


def test_a_host_wheel_finds_its_code_in_the_device_wheels(wheels: Path, tmp_path: Path) -> None:
    listing = list_device_code([wheels / "split"])
    split = {one.member: one for one in listing.files if one.kind == "split"}
    assert listing.damaged == () and set(split) == {"torch/lib/libraw.so", "torch/_C.so"}
    expected = {(i, t) for k, i, t in WHEEL_CODE if k == "torch/lib/libraw.so"}
    assert numbered(split["torch/lib/libraw.so"]) == expected
    assert all(
        name.partition(": ")[2].startswith("torch/.kpack/mini_torch_")
        for name in split["torch/_C.so"].archives
    )
    done = extract([wheels / "split"], tmp_path)
    # Archives name libraries from the directory above their own.
    assert {(f"torch/{o.kernel}", o.index, o.target): o.path.read_bytes() for o in done.written} == WHEEL_CODE


def test_wheels_given_one_by_one_are_one_set(wheels: Path) -> None:
    host = wheels / "split" / fat_wheels.FILENAME
    device = next((wheels / "split").glob("*device_gfx1100*"))
    listing = list_device_code([host, device])
    assert {one.kind: set(one.targets) for one in listing.files} == {
        "split": {"gfx1100"},
        "archive": {"gfx1100"},
    }


def test_a_host_wheel_alone_has_no_code(wheels: Path, tmp_path: Path) -> None:
    host = wheels / "split" / fat_wheels.FILENAME
    assert {(one.kind, one.code) for one in list_device_code([host]).files} == {("split", ())}
    with pytest.raises(InvalidInput, match="its archives are not beside it"):
        extract([host], tmp_path)


def test_wheels_for_two_pythons_keep_their_own_code(wheels: Path, tmp_path: Path) -> None:
    alone = library(tmp_path / "l.so", [bundle([("gfx942", code(GFX942, 9))])])
    members = {"torch/lib/libraw.so": alone.read_bytes()}
    filename = fat_wheels.FILENAME.replace("cp311-cp311", "cp312-cp312")
    place = fat_wheels.write(tmp_path / "fat", members, filename=filename)
    split_wheel(place, tmp_path / "split", overlay_root="torch")
    listing = list_device_code([wheels / "split", tmp_path / "split"])
    found = {one.path.name: one for one in listing.files if one.kind == "split"}
    assert len(listing.files) == 2 + 4 + 1 + 1 and set(found) == {fat_wheels.FILENAME, filename}
    assert [(c.index, c.target, c.size) for c in found[filename].code] == [
        (0, "gfx942", len(code(GFX942, 9)))
    ]
    assert len(found[filename].archives) == 1


def test_a_library_in_the_data_directory_is_where_it_gets_installed(tmp_path: Path, built: Path) -> None:
    split_library(built, tmp_path / "s")
    data = fat_wheels.INFO.replace(".dist-info", ".data")
    members = {f"{data}/platlib/torch/libfat.so": (tmp_path / "s" / "libfat.so").read_bytes()}
    for place in sorted((tmp_path / "s" / ".kpack").iterdir()):
        members[f"torch/.kpack/{place.name}"] = place.read_bytes()
    wheel = fat_wheels.write(tmp_path / "w", members)
    (host,) = (one for one in list_device_code([wheel]).files if one.kind == "split")
    assert numbered(host) == FAT_CODE


def test_stored_members_are_read_where_they_lie(wheels: Path, tmp_path: Path) -> None:
    place = tmp_path / fat_wheels.FILENAME
    with zipfile.ZipFile(wheels / "fat" / place.name) as source, zipfile.ZipFile(place, "w") as out:
        for name in source.namelist():
            out.writestr(name, source.read(name))
    done = extract([place], tmp_path / "out")
    assert {(o.kernel, o.index, o.target): o.path.read_bytes() for o in done.written} == WHEEL_CODE


# -- damage ------------------------------------------------------------------------------------------------


def test_a_damaged_file_does_not_stop_a_list(built: Path, tmp_path: Path) -> None:
    put(built, tmp_path / "lib" / "liba.so").write_bytes(built.read_bytes()[: built.stat().st_size // 2])
    put(built, tmp_path / "lib" / "libb.so")
    (tmp_path / "lib" / "c.kpack").write_bytes(b"KPAK" + b"\xff" * 60)
    (tmp_path / "lib" / "d.co").write_bytes(bundle([("gfx942", b"x" * 500)])[:-1])
    listing = list_device_code([tmp_path])
    assert [Path(one.name).name for one in listing.files] == ["libb.so"]
    assert [type(error) for error in listing.damaged] == [InvalidArchive, InvalidBundle, InvalidElf]
    for error, name in zip(listing.damaged, ("c.kpack", "d.co", "liba.so"), strict=True):
        assert name in error.what and error.where == str(tmp_path / "lib" / name)


@pytest.mark.parametrize("name", ["liba.so", "c.kpack"])
def test_extracting_stops_at_damage(built: Path, tmp_path: Path, name: str) -> None:
    place = put(built, tmp_path / name)
    place.write_bytes(built.read_bytes()[:-5000] if name == "liba.so" else b"KPAK" + b"\xff" * 60)
    with pytest.raises((InvalidElf, InvalidArchive), match=name):
        extract([tmp_path], tmp_path / "out")


def test_damaged_programs_without_device_code_are_nobodys_business_in_a_directory(tmp_path: Path) -> None:
    place = tmp_path / "tool"
    place.write_bytes(b"\x7fELF" + b"\xff" * 200)
    assert list_device_code([tmp_path]) == Listing((), ())
    assert [type(error) for error in list_device_code([place]).damaged] == [InvalidElf]


def test_a_damaged_archive_is_named_once_and_its_library_listed(built: Path, tmp_path: Path) -> None:
    split_library(built, tmp_path)
    bad = tmp_path / ".kpack" / "libfat.so_gfx942.kpack"
    bad.write_bytes(bad.read_bytes()[:-1])
    listing = list_device_code([tmp_path])
    (error,) = listing.damaged
    assert isinstance(error, InvalidArchive) and error.where == str(bad)
    (host,) = (one for one in listing.files if one.kind == "split")
    assert set(host.targets) == {"gfx1100", "gfx90a:xnack-"} and len(host.archives) == 3


def test_a_damaged_marker_names_its_file(built: Path, tmp_path: Path) -> None:
    split_library(built, tmp_path)
    host = tmp_path / "libfat.so"
    data = host.read_bytes()
    at = data.index(b"kpack_search_paths")
    host.write_bytes(data[:at] + b"X" + data[at + 1 :])
    (error,) = list_device_code([host]).damaged
    assert isinstance(error, InvalidArchive) and "libfat.so" in error.what and error.where == str(host)


def test_damage_in_a_wheel_names_wheel_and_member(wheels: Path, tmp_path: Path) -> None:
    place = tmp_path / fat_wheels.FILENAME
    data = bytearray((wheels / "fat" / place.name).read_bytes())
    at = data.index(b"torch/_C.so") + 200
    data[at : at + 64] = b"\xff" * 64
    place.write_bytes(data)
    listing = list_device_code([place])
    assert [one.member for one in listing.files] == ["torch/lib/libraw.so"]
    (error,) = listing.damaged
    assert isinstance(error, InvalidWheel) and f"torch/_C.so in {place.name} is damaged" in error.what
    with pytest.raises(InvalidWheel, match=r"torch/_C\.so"):
        extract([place], tmp_path / "out")


def test_a_wheel_that_is_none_does_not_stop_the_others(wheels: Path, tmp_path: Path) -> None:
    shutil.copytree(wheels / "fat", tmp_path / "w")
    (tmp_path / "w" / "broken-1-py3-none-any.whl").write_bytes(b"PK\3\4")
    (tmp_path / "w" / "noname.whl").write_bytes(b"")
    listing = list_device_code([tmp_path / "w"])
    assert len(listing.files) == 2
    assert [Path(error.where or "").name for error in listing.damaged] == [
        "broken-1-py3-none-any.whl",
        "noname.whl",
    ]


def test_a_pipe_is_refused_rather_than_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInput, match="is not a file"):
        list_device_code([tmp_path / "pipe"])
    assert list_device_code([tmp_path]) == Listing((), ())


# -- names of what is written ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("lib/librand.so.1#0-gfx90a:xnack-", "lib__librand.so.1#0-gfx90a:xnack-"),
        ("../../etc/passwd#0-gfx942", "_.__..__etc__passwd#0-gfx942"),
        ("..", "_."),
        (".hidden", "_hidden"),
        ("a\0b\nc\\d e", "a_b_c_d_e"),
        ("grüße", "gr__e"),
        ("/", "__"),
    ],
)
def test_a_name_is_one_harmless_component(text: str, name: str) -> None:
    assert safe(text) == name


def test_long_names_are_cut_and_stay_different() -> None:
    first, second = safe("x" * 500 + "1#0-gfx942"), safe("x" * 500 + "2#0-gfx942")
    assert first != second and max(len(first), len(second)) <= 180
    assert first.endswith("#0-gfx942") and safe("x" * 180) == "x" * 180


def test_hostile_names_stay_in_the_directory_and_do_not_collide(tmp_path: Path) -> None:
    names = ["../../evil", "..__..__evil", "/evil", "a\0b", "a b", "A B", "x" * 400, "x" * 401, "..", ""]
    objects = [(name, 0, f"{number}".encode() * 50) for number, name in enumerate(names)]
    place = archive(tmp_path / "in" / "g_gfx942.kpack", "../gfx942\0", objects)
    done = extract([place], tmp_path / "in" / "out")
    written = {one.kernel: one.path.read_bytes() for one in done.written}
    assert written == {name: data for name, _, data in objects}
    everything = set(walk_files(tmp_path))
    assert everything == {place, *(one.path for one in done.written)}
    assert len({one.path.name.casefold() for one in done.written}) == len(names)
    assert {one.path.parent for one in done.written} == {tmp_path / "in" / "out"}
