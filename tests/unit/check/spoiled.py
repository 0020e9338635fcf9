"""Texts as accidents leave them."""

from __future__ import annotations

import random
from collections.abc import Sequence


def spoiled(text: str, chance: random.Random, pieces: Sequence[bytes]) -> bytes:
    """The text after one to three edits of bytes, lines and values; `pieces` are what is put in."""
    data = text.encode()
    for _ in range(chance.randint(1, 3)):
        lines = data.split(b"\n")
        at, number = chance.randrange(len(data) + 1), chance.randrange(len(lines))
        piece = chance.choice(pieces)
        how = chance.randrange(6)
        if how == 0:
            data = data[:at] + piece + data[at + chance.choice((0, 1, 4)) :]
        elif how == 1:
            data = data[:at]
        else:
            if how == 2:
                lines.insert(number, piece)
            elif how == 3:
                lines[number : number + 1] = [lines[number]] * chance.choice((0, 2, 40))
            elif how == 4:
                key, mark, _ = lines[number].partition(chance.choice((b"=", b":")))
                lines[number] = key + mark + b" " + piece
            else:
                chance.shuffle(lines)
            data = b"\n".join(lines)
    return data
