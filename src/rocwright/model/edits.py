"""A change that sources need, as data: a text in one file of them and what is to stand there instead."""

from __future__ import annotations

from pathlib import PureWindowsPath

import msgspec


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`find` is in the file `file`, below the sources, once; `put` takes its place.

    Sources that do not have the text are newer or older, and need no such change.
    """

    file: str
    find: str
    put: str

    def __post_init__(self) -> None:
        path = PureWindowsPath(self.file)
        if not path.parts or path.anchor or ".." in path.parts:
            raise ValueError(f"file {self.file!r} is not a path below the sources")
        if not self.find:
            raise ValueError(f"the edit of {self.file} does not say what to find")


def edited(text: str, edit: Edit) -> str | None:
    """The text with the change made; None where it has nothing to change.

    Raises `ValueError` for a text that has the place several times.
    """
    times = text.count(edit.find)
    if times > 1:
        raise ValueError(f"what is to be changed stands there {times} times")
    return text.replace(edit.find, edit.put) if times else None
