"""Places in a deflate stream: taken further, copied, gone back to."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from rocwright.wheel import deflate
from rocwright.wheel.stream import Cursor, Damaged, PackedMember

DATA = random.Random(1).randbytes(3 << 20) + b"a text that compresses " * 200_000 + bytes(9 << 20)
Opened = Callable[..., Cursor]


@pytest.fixture(params=["zlib-ng", "zlib"])
def opened(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Opened]:
    """Makes a cursor over data that was compressed; with the codec of `fast`, and without."""
    if request.param == "zlib":
        monkeypatch.setattr(deflate, "_codec", zlib)
        monkeypatch.setattr(deflate, "INFLATE_ERRORS", (zlib.error,))
    with ExitStack() as stack:

        def make(data: bytes, *, every: int = 0, behind: bytes = b"", less: int = 0) -> Cursor:
            packer = zlib.compressobj(6, zlib.DEFLATED, -15)
            packed = packer.compress(data) + packer.flush() + behind
            path = tmp_path / "packed"
            path.write_bytes(b"header" + packed)
            handle = stack.enter_context(path.open("rb")).fileno()
            return Cursor(PackedMember(handle, 6, len(packed) - less), every)

        yield make


def test_exact_lengths_until_the_end(opened: Opened) -> None:
    cursor, place = opened(DATA), 0
    for length in (1, 0, 4096, 300_000, 1 << 20, 5 << 20, 7):
        assert cursor.take(length) == DATA[place : place + length]
        place += length
        assert cursor.place == place
    with pytest.raises(Damaged, match="do not end where they should"):
        cursor.require_end()
    assert cursor.take(len(DATA)) == DATA[place:]
    assert cursor.take(1) == b""
    cursor.require_end()


def test_copies_go_their_own_way(opened: Opened) -> None:
    cursor = opened(DATA)
    cursor.take(2_000_001)
    copy = cursor.copy()
    assert copy.take(100_000) == cursor.take(100_000) == DATA[2_000_001:2_100_001]
    assert cursor.take(5) == DATA[2_100_001:2_100_006]
    assert copy.place == 2_100_001


def test_places_left_behind(opened: Opened) -> None:
    cursor = opened(DATA, every=1 << 20)
    while cursor.take(256 << 10):
        pass
    places = [passed.place for passed in cursor.passed]
    # What compresses well is quickly inflated again, from further away.
    assert len(places) >= 2
    assert all(1 << 20 <= after - before < 2 << 20 for before, after in pairwise([0, *places]))
    for passed in cursor.passed:
        assert passed.copy().take(1000) == DATA[passed.place : passed.place + 1000]
        assert passed.passed == []


def test_a_member_that_ends_early_or_late(opened: Opened) -> None:
    cursor = opened(DATA, less=5)
    with pytest.raises(Damaged, match="do not end where they should"):
        cursor.take(len(DATA) + 1)
    cursor = opened(DATA, behind=b"more")
    assert cursor.take(len(DATA) + 1) == DATA
    with pytest.raises(Damaged, match="do not end where they should"):
        cursor.require_end()
    cursor = opened(DATA, less=-5)  # behind the end of the file
    assert cursor.take(len(DATA)) == DATA
    with pytest.raises(Damaged, match="do not end where they should"):
        cursor.require_end()


def test_a_stream_that_is_none(opened: Opened) -> None:
    cursor = opened(b"")
    handle = cursor.packed
    bad = Cursor(PackedMember(handle.handle, 0, 6))  # the header
    with pytest.raises(Damaged):
        bad.take(100)
