"""Headers of members that are copied, wherever the pieces end that the copy is made of."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rocwright.errors import InvalidWheel
from rocwright.wheel.reversion import write
from rocwright.wheel.reversion.plan import plan_reversion
from rocwright.wheel.reversion.write import write_reversion
from unit.wheel.test_wheel_reversion_files import OLD, RELEASE, TAG, files_of, pack, reversion, torch

CHUNKS = (1, 29, 30, 31, 64, 1 << 20)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_the_size_of_the_pieces_makes_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    files = {f"torch/n{number}": bytes(number) for number in range(40)}
    source = torch(tmp_path, files)
    expected = reversion(tmp_path / "a", source)["torch"].sha256
    monkeypatch.setattr(write, "CHUNK", chunk)
    assert reversion(tmp_path / "b", source)["torch"].sha256 == expected


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("at", [0, 4, 6, 8, 14, 18, 22, 26, 28, 30])
def test_a_header_that_says_something_else_is_found_in_any_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, at: int
) -> None:
    """The second of three neighbours: mark, flags, method, CRC, sizes, lengths, name, each in turn.

    The version needed (4) may differ: writers are not of one mind about it.
    """
    members = files_of("torch", OLD, {"torch/a": b"a" * 50, "torch/b": b"b" * 50, "torch/c": b"c"})
    source = pack(tmp_path / f"torch-{OLD}-{TAG}.whl", members, method=0)
    data = bytearray(source.read_bytes())
    name = data.index(b"torch/b")
    assert struct.unpack_from("<4s", data, name - 30) == (b"PK\3\4",)
    data[name - 30 + at] ^= 1
    source.write_bytes(data)
    plan = plan_reversion([source], RELEASE)
    monkeypatch.setattr(write, "CHUNK", chunk)
    if at == 4:
        assert write_reversion(plan, tmp_path / "out")
        return
    with pytest.raises(InvalidWheel, match="torch/b"):
        write_reversion(plan, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
