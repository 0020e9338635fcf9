"""Patched views against plain slicing of bytes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocwright.binary.patch import BytePatch, PatchedFile, apply_patch


def expected(old: bytes, patch: BytePatch) -> bytes:
    """The edit by the book: everything in one bytearray."""
    data = bytearray(old[: patch.size].ljust(patch.size, b"\0"))
    for offset, piece in patch.edits:
        data[offset : offset + len(piece)] = piece
    return bytes(data)


@st.composite
def patches(draw: st.DrawFn) -> BytePatch:
    edits, end = [], 0
    for gap, piece in draw(st.lists(st.tuples(st.integers(0, 40), st.binary(max_size=30)), max_size=6)):
        edits.append((end + gap, piece))
        end += gap + len(piece)
    return BytePatch(tuple(edits), end + draw(st.integers(0, 50)))


@given(st.binary(max_size=120), patches(), st.integers(0, 300), st.integers(0, 300))
def test_any_window_reads_as_the_edited_bytes(
    tmp_path_factory: pytest.TempPathFactory, old: bytes, patch: BytePatch, offset: int, length: int
) -> None:
    path = tmp_path_factory.mktemp("patch") / "file"
    path.write_bytes(old)
    view = PatchedFile(path, patch)
    assert view.size == patch.size
    assert view.read_at(offset, length) == expected(old, patch)[offset : offset + length]
    assert PatchedFile(path).read_at(offset, length) == old[offset : offset + length]
    for file, content in ((view, expected(old, patch)), (PatchedFile(path), old)):
        memory = bytearray(b"?" * length)
        count = file.read_into(offset, memoryview(memory))
        assert memory[:count] == content[offset : offset + length]


def test_apply_keeps_the_mode_and_leaves_the_source(tmp_path: Path) -> None:
    source, target = tmp_path / "tool", tmp_path / "out" / "tool"
    source.write_bytes(b"0123456789")
    source.chmod(0o750)
    apply_patch(source, BytePatch(((2, b"xx"), (12, b"end")), 16), target)
    assert target.read_bytes() == b"01xx456789\0\0end\0"
    assert target.stat().st_mode & 0o7777 == 0o750
    assert source.read_bytes() == b"0123456789"
    assert list(target.parent.iterdir()) == [target]


def test_apply_onto_itself_does_not_reach_hard_links(tmp_path: Path) -> None:
    source, link = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"old")
    os.link(source, link)
    apply_patch(source, BytePatch(((0, b"new"),), 3), source)
    assert (source.read_bytes(), link.read_bytes()) == (b"new", b"old")


def test_a_patch_can_make_the_file_shorter(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert PatchedFile(path, BytePatch((), 4)).read_at(0, 100) == b"0123"


@pytest.mark.parametrize(
    ("edits", "size"), [(((0, b"abc"), (2, b"d")), 9), (((5, b"a"), (0, b"b")), 9), (((8, b"abc"),), 9)]
)
def test_overlapping_unsorted_or_too_long_edits_are_refused(
    edits: tuple[tuple[int, bytes], ...], size: int
) -> None:
    with pytest.raises(ValueError, match="edit"):
        BytePatch(edits, size)


@pytest.mark.parametrize("length", [1, 1 << 40, 1 << 63])
@pytest.mark.parametrize("offset", [0, 9, 10, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_a_forged_place_holds_what_the_file_has_there(tmp_path: Path, offset: int, length: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert PatchedFile(path).read_at(offset, length) == b"0123456789"[offset : offset + length]
