"""Every library of the corpus is split; host file and archives are judged by readers that share no code."""

from __future__ import annotations

import hashlib
import io
import itertools
import shutil
import subprocess
import zipfile
from collections import defaultdict
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from needs import find_llvm_tool, need, needs
from oracle import elf_compare, fatbin_walk, kpack_reader, loader
from real import corpus_rows
from rocwright.binary.elf import read_elf
from rocwright.binary.view import mapped
from rocwright.device_code.archives import split_library
from rocwright.device_code.kernels import kernels_of_wrappers
from rocwright.device_code.tree.merge import merge_trees
from rocwright.device_code.tree.split import split_tree
from rocwright.device_code.tree.unsplit import unsplit_tree
from rocwright.device_code.unsplit_library import unsplit_library
from rocwright.device_code.verify.verify import verify
from rocwright.device_code.wheel.unsplit import unsplit_wheels
from rocwright.device_code.wheel.wheel import split_wheel
from rocwright.model.gpu import base_targets

# Begins early: it takes minutes.
pytestmark = pytest.mark.long


@pytest.fixture(scope="session")
def split(unpacked, tmp_path_factory):
    """The package's libraries, each with its row, the original and the directory it was split into."""
    item, _, tree = unpacked
    root = tmp_path_factory.mktemp("split")
    done = []
    for number, library in enumerate(item.libraries):
        directory = root / str(number)
        result = split_library(tree / library.path, directory, threads=2)
        done.append((library, tree / library.path, directory, result))
    yield done
    shutil.rmtree(root)


def _contents(directory: Path) -> list[tuple[int, str, int, str]]:
    """All code objects below `directory` as (wrapper index, target, bytes, sha256)."""
    found = []
    for path in sorted((directory / ".kpack").iterdir()):
        for (_, index, target), code in kpack_reader.read_kpack(path).entries.items():
            found.append((index, target, len(code), hashlib.sha256(code).hexdigest()))
    return found


def test_every_library_is_split_and_proven(split):
    for library, original, _, result in split:
        assert result is not None, library.path
        assert result.kept is None, (library.path, result.kept)
        assert result.identical == result.objects == library.objects
        assert result.fat_size == original.stat().st_size
        # What is cut out is what the table says is inside, up to the alignment of segments.
        assert result.host_size < result.fat_size


def test_archives_hold_exactly_the_code_objects_of_the_table(split):
    for library, _, directory, _ in split:
        found = _contents(directory)
        assert len(found) == library.objects
        assert tuple(sorted({target for _, target, _, _ in found})) == library.targets
        assert corpus_rows.digest_of(found) == library.sha256


@needs("clang-offload-bundler")
def test_the_compilers_own_tool_takes_the_same_objects_out(split):
    """clang-offload-bundler sees one raw bundle at a time; a few of each library are enough to compare."""
    tool = find_llvm_tool("clang-offload-bundler")
    for _, original, directory, _ in split:
        stored = {
            (index, target): code
            for path in (directory / ".kpack").iterdir()
            for (_, index, target), code in kpack_reader.read_kpack(path).entries.items()
        }
        for wrapper in itertools.islice(fatbin_walk.walk(original), 2):
            for entry in itertools.islice(wrapper.device, 4):
                target = corpus_rows.target_of_entry(entry)
                assert fatbin_walk.bundler(tool, wrapper.bundle, entry) == stored[wrapper.index, target]


def test_host_files_differ_only_where_they_must(split):
    for _, original, directory, _ in split:
        assert elf_compare.compare(original, directory / original.name) == []


def test_every_kernel_that_a_host_launches_is_in_its_archives(split):
    """What HIP's compiler made of constructors is read right: nothing is told of that is not there.

    A library may leave kernels out for some of its targets, as rocBLAS does for those of gfx10.
    """
    for _, original, directory, _ in split:
        with mapped(directory / original.name) as file:
            by_wrapper = kernels_of_wrappers(read_elf(file), file)
        assert by_wrapper, original
        defined = defaultdict(set)
        for path in (directory / ".kpack").iterdir():
            for (_, number, _), code in kpack_reader.read_kpack(path).entries.items():
                defined[number] |= _defined(code)
        launched = frozenset().union(*by_wrapper.values())
        assert launched <= set().union(*defined.values()), original
        strange = [n for n, names in by_wrapper.items() if n >= 0 and names.isdisjoint(defined[n])]
        assert strange == [], original


def _defined(code: bytes) -> set[str]:
    """Kernels of a code object, by pyelftools."""
    symbols = ELFFile(io.BytesIO(code)).get_section_by_name(".dynsym").iter_symbols()
    return {symbol.name.removesuffix(".kd") for symbol in symbols if symbol.name.endswith(".kd")}


def test_the_loader_finds_the_same_code_through_the_marker(split, tmp_path):
    for number, (library, original, directory, _) in enumerate(split):
        isa = library.targets[-1]
        before = loader.load(original, isa=isa, workdir=_new(tmp_path / f"{number}-fat"))
        after = loader.load(directory / original.name, isa=isa, workdir=_new(tmp_path / f"{number}-split"))
        assert _errors(after, directory) == _errors(before, original.parent)
        if "not found (required by" in before.error:
            # Built for a newer C or C++ library than this system's: both are refused alike.
            assert len(after) == len(before) == 0
            continue
        assert len(after) == len(before) == library.bundles
        fat = {registration.wrapper: registration for registration in before}
        for registration in after:
            assert registration.magic == loader.HIPK
            assert registration.read() == fat[registration.wrapper].read()
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()


@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_archives_are_found_through_links(split, tmp_path, kind):
    """A mapping has the path of the hard link, but the target's path behind a symbolic one."""
    for number, (library, original, directory, _) in enumerate(split):
        host, place = directory / original.name, _new(tmp_path / str(number))
        link = place / host.name if kind == "symbolic" else directory / f"hard-{host.name}"
        link.symlink_to(host) if kind == "symbolic" else link.hardlink_to(host)
        found = loader.load(link, isa=library.targets[0], workdir=_new(place / "work"))
        if "not found (required by" not in found.error:
            assert [registration.reason for registration in found] == [""] * library.bundles
        if kind == "hard":
            link.unlink()


@pytest.mark.parametrize("tool", ["strip", "llvm-strip", "patchelf"])
def test_split_libraries_survive_the_next_tools(split, tmp_path, tool):
    command = {
        "strip": ["strip"],
        "llvm-strip": ["llvm-strip"],
        "patchelf": ["patchelf", "--set-rpath", "$ORIGIN/" + "../" * 60],
    }[tool]
    need(tool)
    for number, (library, original, directory, _) in enumerate(split):
        place = _new(tmp_path / str(number))
        (place / ".kpack").symlink_to(directory / ".kpack")
        again = Path(shutil.copy(directory / original.name, place))
        subprocess.run([*command, str(again)], check=True)
        before = loader.load(original, isa=library.targets[0], workdir=_new(place / "before"))
        found = loader.load(again, isa=library.targets[0], workdir=_new(place / "work"))
        assert _errors(found, place) == _errors(before, original.parent)
        if found.error:
            continue
        assert [registration.reason for registration in found] == [""] * library.bundles


def test_a_second_split_changes_nothing(split, tmp_path):
    for number, (_, original, directory, _) in enumerate(split):
        host = directory / original.name
        again = split_library(host, tmp_path / str(number))
        assert again is not None
        assert again.kept == "it is already split"
        assert (tmp_path / str(number) / original.name).read_bytes() == host.read_bytes()


def test_set_back_every_library_has_its_code_objects_and_splits_as_before(split, tmp_path):
    for number, (library, original, directory, _) in enumerate(split):
        place = _new(tmp_path / str(number))
        done = unsplit_library(directory / original.name, place)
        assert done.objects == done.identical == library.objects
        fat = place / original.name
        found = [
            (wrapper.index, corpus_rows.target_of_entry(entry), code.size, code.sha256)
            for wrapper in fatbin_walk.walk(fat, digest=True)
            for entry, code in wrapper.device.items()
        ]
        assert corpus_rows.digest_of(found) == library.sha256
        _require_loaded_alike(library, original, fat, place)
        again = split_library(fat, place / "again", threads=2)
        assert again is not None and again.kept is None
        assert _contents(place / "again") == _contents(directory)
        shutil.rmtree(place)


@pytest.mark.parametrize("tool", ["strip", "llvm-strip", "patchelf"])
def test_libraries_that_were_set_back_survive_the_next_tools(split, tmp_path, tool):
    need(tool)
    words = ["--set-rpath", "$ORIGIN/" + "../" * 60] if tool == "patchelf" else []
    # Set back they are laid out alike (the test before): one of each package, the smallest.
    for library, original, directory, _ in sorted(split, key=lambda one: one[1].stat().st_size)[:1]:
        place = _new(tmp_path / "back")
        unsplit_library(directory / original.name, place, targets=library.targets[-1:])
        subprocess.run([tool, *words, str(place / original.name)], check=True)
        _require_loaded_alike(library, original, place / original.name, place)
        shutil.rmtree(place)


def _require_loaded_alike(library, original: Path, fat: Path, place: Path) -> None:
    """The loader gets the original's code from fat wrappers, or both libraries are refused alike."""
    isa = library.targets[-1]
    before = loader.load(original, isa=isa, workdir=_new(place / "before"))
    after = loader.load(fat, isa=isa, workdir=_new(place / "after"))
    assert _errors(after, fat.parent) == _errors(before, original.parent)
    assert len(after) == len(before) == (0 if "not found (required by" in before.error else library.bundles)
    assert [(one.wrapper, one.magic) for one in after] == [(one.wrapper, loader.HIPF) for one in before]
    assert [one.read() for one in after] == [one.read() for one in before]


@pytest.fixture(scope="session")
def whole(unpacked, tmp_path_factory):
    """The package as its users have it (a wheel, or a tree), split as a whole, and merged again."""
    item, package, tree = unpacked
    root = tmp_path_factory.mktemp("whole")
    out, merged = root / "split", root / "merged"
    if item.kind == "pypi":
        original = package
        split_wheel(package, out, threads=2)
        parts = sorted(out.iterdir())
        # What installers do: host and device wheels in one place, no file from two of them.
        for part in parts:
            with zipfile.ZipFile(part) as archive:
                twice = [name for name in archive.namelist() if (merged / name).is_file()]
                assert twice == []
                archive.extractall(merged)
    else:
        original = tree
        done = split_tree(tree, out, name=item.name, threads=2)
        assert [remark for group in done.groups for remark in group.kept] == []
        parts = [out]
        targets = base_targets({target for library in item.libraries for target in library.targets})
        databases = {part for part in done.parts if part != "generic"}
        merge_trees([out], root, families={"merged": sorted({*targets, *databases})})
    yield item, original, parts, merged
    shutil.rmtree(root)


def test_the_whole_package_verifies_against_the_original(whole):
    item, original, parts, _ = whole
    if not item.libraries:
        pytest.skip("a package of kernel files alone has no library to split")
    report = verify(parts, against=[original], threads=2)
    assert [str(finding) for finding in report.findings] == []
    assert report.identical == sum(library.objects for library in item.libraries)
    assert len(report.libraries) == len(item.libraries)


def test_merged_again_every_library_has_its_code_objects(whole):
    item, _, _, merged = whole
    found: dict[str, list[tuple[int, str, int, str]]] = {}
    for path in merged.rglob("?*.kpack"):
        for (kernel, index, target), code in kpack_reader.read_kpack(path).entries.items():
            row = (index, target, len(code), hashlib.sha256(code).hexdigest())
            found.setdefault(kernel, []).append(row)
    for library in item.libraries:
        (kernel,) = [name for name in found if library.path.endswith(name)]
        assert corpus_rows.digest_of(found.pop(kernel)) == library.sha256
    assert found == {}


def test_kernel_files_go_to_their_target_and_come_back(whole, unpacked):
    item, _, parts, merged = whole
    _, _, tree = unpacked
    if not item.databases:
        pytest.skip("no kernel files in this package")
    for database in item.databases:
        before = {path.name: path.read_bytes() for path in (tree / database.path).iterdir()}
        after = {path.name: path.read_bytes() for path in (merged / database.path).iterdir()}
        assert after == before
        generic = {path.name for path in (parts[0] / "generic" / database.path).iterdir()}
        assert not [name for name in generic if "gfx" in name]
        for target in database.targets:
            base = target.partition("-")[0]
            if base:
                named = [path.name for path in (parts[0] / base / database.path).iterdir()]
                assert {name for name in before if f"{target}." in name} <= set(named)


def test_set_back_the_package_is_what_it_was(whole, tmp_path):
    item, original, parts, _ = whole
    if not item.libraries:
        pytest.skip("a package of kernel files alone has no library to set back")
    if item.kind == "pypi":
        done = unsplit_wheels(parts, tmp_path, threads=2)
        names = []
        for path in (original, tmp_path / original.name):
            with zipfile.ZipFile(path) as archive:
                (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
                # A split leaves entries for directories and signatures of RECORD out.
                kept = [n for n in archive.namelist() if not n.endswith(("/", ".jws", ".p7s"))]
                names.append((set(kept), archive.read(metadata)))
        assert names[0] == names[1]
    else:
        done = unsplit_tree(parts, tmp_path)
        trees = [{str(p.relative_to(root)) for p in root.rglob("*")} for root in (original, tmp_path / "fat")]
        assert trees[0] == trees[1]
    assert done.objects == done.identical == sum(library.objects for library in item.libraries)


def _errors(loading: loader.Loading, directory: Path) -> list[str]:
    """What the dynamic linker said, lazily and at once, without the place of the library."""
    return [text.replace(str(directory), "") for text in (loading.error, loading.error_now)]


def _new(path: Path) -> Path:
    path.mkdir(parents=True)
    return path
