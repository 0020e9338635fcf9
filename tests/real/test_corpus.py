"""The corpus is what its table says: fetched, unpacked, looked into by the second reader of the formats."""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
from pathlib import Path

import pytest

from oracle import fatbin_walk
from real import corpus, corpus_rows

# With the other tests of the corpus, which unpack the same packages.
pytestmark = pytest.mark.long

ITEMS = corpus.load()


def test_the_file_is_the_published_one(unpacked):
    item, package, _ = unpacked
    assert package.name == item.file
    assert package.stat().st_size == item.size
    assert hashlib.sha256(package.read_bytes()).hexdigest() == item.sha256


def test_exactly_the_libraries_of_the_table_hold_device_code(unpacked):
    item, _, tree = unpacked
    found = [path.relative_to(tree).as_posix() for path in corpus_rows.fat_libraries(tree)]
    assert found == [library.path for library in item.libraries]


def test_each_library_holds_the_code_objects_of_the_table(unpacked):
    item, _, tree = unpacked
    observed = [corpus_rows.observe_library(tree, tree / library.path) for library in item.libraries]
    assert observed == list(item.libraries)


def test_each_code_object_is_for_the_target_that_its_bundle_says(unpacked):
    item, _, tree = unpacked
    for library in item.libraries:
        wrappers = list(fatbin_walk.walk(tree / library.path, digest=True))
        wrong = [
            (wrapper.index, fatbin_walk.mismatch(entry, code.header))
            for wrapper in wrappers
            for entry, code in wrapper.device.items()
            if fatbin_walk.mismatch(entry, code.header)
        ]
        assert wrong == []
        # Nothing but padding lies in the section besides.
        assert fatbin_walk.gaps(tree / library.path, wrappers) == []


def test_databases_have_the_files_of_the_table(unpacked):
    item, _, tree = unpacked
    assert corpus_rows.observe_databases(tree) == item.databases


def test_code_objects_of_databases_are_for_the_target_in_their_names(unpacked):
    item, _, tree = unpacked
    for database in item.databases:
        objects = {
            path.name: fatbin_walk.target_of(start)
            for path in (tree / database.path).iterdir()
            if (start := _start(path)).startswith(b"\x7fELF")
        }
        assert len(objects) == database.forms["elf"]
        wrong = {name: target for name, target in objects.items() if not _named_after(name, target)}
        assert wrong == {}


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(64)


def _named_after(name: str, target: str) -> bool:
    # A name with a feature needs code with it; a name without one says nothing about features.
    stem = Path(name).stem.replace("-xnack", ":xnack")
    return stem.endswith((target, target.partition(":")[0]))


# -- the table as a whole ----------------------------------------------------------------------------------


def test_the_table_covers_what_is_published():
    required = {
        "bitsandbytes",
        "jax-rocm7-plugin",
        "jax-rocm60-pjrt",
        "cupy-rocm-5-0",
        "librocsparse0",
        "librocrand1",
        "librocblas0",
    }
    always = [item for item in ITEMS if not item.wide]
    # Neither a suite that moves nor a switch can take these away.
    assert required <= {item.name for item in always if not item.moving}
    libraries = [library for item in always for library in item.libraries]
    assert {library.form for library in libraries} == {"raw", "ccob2", "ccob3"}
    assert {library.bundles for library in libraries} >= {1, 2, 29, 45, 65, 111}
    assert any(":xnack-" in target for library in libraries for target in library.targets)
    rocblas = next(item for item in always if item.name == "librocblas0")
    assert [(database.forms["elf"], len(database.targets)) for database in rocblas.databases] == [(20, 13)]


def test_a_run_does_not_fetch_more_than_a_gigabyte():
    assert sum(item.size for item in ITEMS if not item.wide) < 1_000_000_000


# -- getting packages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["corpus", "debian-12/debs"])
def test_a_kept_package_is_taken_and_a_damaged_one_refused(tmp_path, place):
    kept = tmp_path / place / "kept_1.0_amd64.deb"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"as published")
    item = dataclasses.replace(ITEMS[0], kind="debian", name="kept", file=kept.name, sha256="0" * 64)
    with pytest.raises(ValueError, match=r"has sha256 [0-9a-f]{64}, not 0{64}"):
        corpus.fetch(item, tmp_path)
    published = dataclasses.replace(item, sha256=hashlib.sha256(b"as published").hexdigest())
    assert corpus.fetch(published, tmp_path) == kept


def test_a_version_that_a_moving_suite_no_longer_has_is_told_apart(tmp_path):
    row = next(item for item in ITEMS if item.suite == "sid")
    superseded = dataclasses.replace(row, version="0.1-1", file="superseded_0.1-1_amd64.deb")
    removed = dataclasses.replace(superseded, name="librocwright-never-was")
    for gone in (superseded, removed):
        with pytest.raises(corpus.Gone, match=f"sid no longer has {gone.name} 0.1-1"):
            corpus.fetch(gone, tmp_path)
    with pytest.raises(subprocess.CalledProcessError):
        corpus.fetch(dataclasses.replace(superseded, moving=False), tmp_path)
    # What was not fetched leaves nothing that a later run could take for a package.
    assert [path.name for path in (tmp_path / "corpus").iterdir()] == ["apt"]
