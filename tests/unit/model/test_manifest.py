from __future__ import annotations

import hashlib
import json

import pytest

from rocwright.errors import InvalidData
from rocwright.model.sets import FileEntry, SetManifest, new_set, parse_set, set_id

A = FileEntry("a-1-py3-none-any.whl", "a" * 64, 10, "a", "1")
B = FileEntry("b-1+rocm7.1-py3-none-any.whl", "b" * 64, 20, "b", "1+rocm7.1", ">=3.10", "c" * 64, ("a",))


def make(files: list[FileEntry], targets: list[str] | None = None) -> SetManifest:
    return new_set(
        family="gfx90X-dcgpu",
        targets=targets or ["gfx90a", "gfx906"],
        platform="linux",
        files=files,
        sources={"torch": "deadbeef", "rocm": "7.1"},
    )


def test_id_is_the_sha256_of_sorted_compact_json() -> None:
    document = {
        "family": "gfx90X-dcgpu",
        "targets": ["gfx906", "gfx90a"],
        "platform": "linux",
        "schema": "rocwright.set/1",
        "sources": {"torch": "deadbeef", "rocm": "7.1"},
        "files": [
            {
                "name": "a-1-py3-none-any.whl",
                "sha256": "a" * 64,
                "size": 10,
                "project": "a",
                "version": "1",
                "requires_python": None,
                "metadata_sha256": None,
                "depends": [],
            },
            {
                "name": "b-1+rocm7.1-py3-none-any.whl",
                "sha256": "b" * 64,
                "size": 20,
                "project": "b",
                "version": "1+rocm7.1",
                "requires_python": ">=3.10",
                "metadata_sha256": "c" * 64,
                "depends": ["a"],
            },
        ],
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    assert set_id(make([B, A])) == hashlib.sha256(text.encode()).hexdigest()


def test_order_of_files_and_targets_does_not_change_the_id() -> None:
    assert set_id(make([A, B])) == set_id(make([B, A], ["gfx906", "gfx90a", "gfx906"]))


def test_another_digest_is_another_set() -> None:
    other = FileEntry(A.name, "d" * 64, 10, "a", "1")
    assert set_id(make([A, B])) != set_id(make([other, B]))


def test_round_trip() -> None:
    manifest = make([A, B])
    import msgspec

    assert parse_set(msgspec.json.encode(manifest), where="x") == manifest


@pytest.mark.parametrize(
    "name", ["../a.whl", "/a.whl", "a/b.whl", "a\\b.whl", "", ".hidden", "a b.whl", "a:b.whl"]
)
def test_a_name_that_could_leave_its_folder_is_refused(name: str) -> None:
    with pytest.raises(InvalidData, match="file name"):
        FileEntry(name, "a" * 64, 1, "a", "1")


def test_bad_values_are_refused() -> None:
    with pytest.raises(InvalidData, match="sha256"):
        FileEntry("a.whl", "A" * 64, 1, "a", "1")
    with pytest.raises(InvalidData, match="twice"):
        make([A, A])
    with pytest.raises(InvalidData, match="at least one file"):
        make([])
    with pytest.raises(InvalidData, match="sorted"):
        SetManifest("f", (), "linux", (B, A), {})
    with pytest.raises(InvalidData, match="not a set manifest"):
        parse_set(b'{"family": 3}', where="manifest.json")
