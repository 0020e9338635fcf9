"""A spliced file reads the same by any pieces as the bytes it is made of."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocwright.binary.patch import BytePatch, Copy, Splice
from rocwright.binary.view import Mapped

BASE = Mapped(Path("base"), bytes(range(256)) * 8)


def test_copies_edits_and_zeros() -> None:
    splice = Splice(
        BASE, (Copy(0, 0, 4), Copy(8, 254, 4)), BytePatch(((2, b"XY"), (10, b"Z"), (14, b"end")), 18)
    )
    whole = b"\x00\x01XY" + bytes(4) + b"\xfe\xffZ\x01" + bytes(2) + b"end" + bytes(1)
    assert splice.read_at(0, 100) == whole and splice.size == 18
    assert b"".join(splice.pieces()) == whole
    assert splice.read_at(3, 8) == whole[3:11]
    assert splice.read_at(18, 5) == splice.read_at(40, 5) == b""
    assert splice.path == Path("base")


@pytest.mark.parametrize(
    ("copies", "size"),
    [
        ((Copy(0, 0, 8), Copy(4, 20, 8)), 100),
        ((Copy(8, 0, 8), Copy(0, 20, 8)), 100),
        ((Copy(0, 2040, 9),), 100),
        ((Copy(0, 0, 101),), 100),
    ],
    ids=["overlap", "not sorted", "behind the old file", "behind the new size"],
)
def test_what_is_no_file_is_refused(copies: tuple[Copy, ...], size: int) -> None:
    with pytest.raises(ValueError, match=r"old file|behind the size"):
        Splice(BASE, copies, BytePatch((), size))


@st.composite
def splices(draw: st.DrawFn) -> tuple[Splice, bytes]:
    """A splice, and its bytes put together in the plainest way."""
    end, copies, whole = 0, [], bytearray(3000)
    for gap, source, length in draw(
        st.lists(st.tuples(st.integers(0, 40), st.integers(0, 1500), st.integers(0, 400)), max_size=5)
    ):
        copies.append(Copy(end + gap, source, length))
        whole[end + gap : end + gap + length] = BASE.data[source : source + length]
        end += gap + length
    edits, at = [], 0
    for gap, data in draw(st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=60)), max_size=6)):
        edits.append((at + gap, data))
        whole[at + gap : at + gap + len(data)] = data
        at += gap + len(data)
    size = max(end, at) + draw(st.integers(0, 20))
    return Splice(BASE, tuple(copies), BytePatch(tuple(edits), size)), bytes(whole[:size])


@given(splices(), st.integers(0, 2500), st.integers(0, 2500))
def test_any_piece_is_the_same_piece_of_the_whole(pair: tuple[Splice, bytes], at: int, length: int) -> None:
    splice, whole = pair
    assert splice.read_at(at, length) == whole[at : at + length]
    assert splice.read_at(0, splice.size) == whole


def test_pieces_of_a_file_larger_than_one_and_threads(tmp_path: Path) -> None:
    data = bytes(range(251)) * 20_000
    splice = Splice(
        Mapped(tmp_path, data), (Copy(0, 100, 4_900_000),), BytePatch(((1_048_570, b"x" * 12),), 5_000_000)
    )
    whole = data[100:1_048_670] + b"x" * 12 + data[1_048_682:4_900_100] + bytes(100_000)
    assert b"".join(splice.pieces()) == whole
    places = range(0, 5_000_000, 99_991)
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda at: splice.read_at(at, 99_991), places))
    assert b"".join(parts) == whole
