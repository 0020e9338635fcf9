"""Entries as TOML text: written anew, or taken out of a file of which everything else stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from rocwright.data import parse_table
from rocwright.errors import InvalidData, UsageError
from rocwright.model.skips import SkipEntry, SkipTable
from rocwright.system.files import write_text

_HEADER = re.compile(r"\s*\[\[\s*entry\s*\]\]\s*(#.*)?")


def rendered(entries: Iterable[SkipEntry], head: str = "") -> str:
    """Entries as the text of a file for `--skips`, behind the lines of a comment."""
    blocks = ["".join(f"# {line}".rstrip() + "\n" for line in head.splitlines())] if head else []
    return "\n".join([*blocks, *map(_block, entries)])


def _block(entry: SkipEntry) -> str:
    lines = ["[[entry]]", f"id = {_text(entry.id)}", f"tests = {_list(entry.tests)}"]
    if entry.matches is not None:
        lines.append(f"matches = {entry.matches}")
    where = [
        *([f"targets = {_list(entry.where.targets)}"] if entry.where.targets else []),
        *([f"platforms = {_list(entry.where.platforms)}"] if entry.where.platforms else []),
        *([f"torch = {_text(entry.where.torch)}"] if entry.where.torch else []),
        *([f"rocm = {_text(entry.where.rocm)}"] if entry.where.rocm else []),
        *([f"python = {_text(entry.where.python)}"] if entry.where.python else []),
    ]
    if where:
        lines.append(f"where = {{ {', '.join(where)} }}")
    lines += [f"kind = {_text(entry.kind)}", f"reason = {_text(entry.reason)}"]
    if entry.issue:
        lines.append(f"issue = {_text(entry.issue)}")
    lines.append(f"added = {entry.added}")
    if entry.expires is not None:
        lines.append(f"expires = {entry.expires}")
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    # What JSON escapes, TOML's basic strings escape the same; DEL only TOML does.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _list(values: Collection[str]) -> str:
    if len(values) == 1:
        return f"[{_text(next(iter(values)))}]"
    short = f"[{', '.join(map(_text, values))}]"
    if len(short) <= 80:
        return short
    return "[\n" + "".join(f"  {_text(value)},\n" for value in values) + "]"


def without(text: str, ids: Collection[str], path: Path) -> str:
    """The text of a file without some of its entries, and without the comments right above them.

    Everything else stays byte by byte. Raises `InvalidData` where the text is laid out so that this cannot be
    done safely: what is left is read again and compared.
    """
    before = parse_table(text, SkipTable, where=str(path)).entry
    lines = text.splitlines(keepends=True)
    headers = [number for number, line in enumerate(lines) if _HEADER.fullmatch(line.rstrip("\r\n"))]
    gone: set[int] = set()
    if len(headers) == len(before):
        for entry, begin in zip(before, headers, strict=True):
            if entry.id in ids:
                gone.update(range(_with_comments(lines, begin), _end(lines, begin)))
    left = "".join(line for number, line in enumerate(lines) if number not in gone)
    kept = tuple(entry for entry in before if entry.id not in ids)
    if not _holds_exactly(left, kept, path):
        raise InvalidData(
            f"{path} is laid out in a way that entries cannot be taken out of by lines",
            where=path,
            next_step=f"begin each with a line [[entry]]; or take out by hand: {', '.join(sorted(ids))}",
        )
    return left


def _with_comments(lines: list[str], begin: int) -> int:
    while begin > 0 and lines[begin - 1].lstrip().startswith("#"):
        # The head of the file, which a blank line parts from the first entry, is not reached.
        begin -= 1
    return begin


def _end(lines: list[str], begin: int) -> int:
    """The line behind an entry: the next entry with the comments above it, or the end."""
    for number in range(begin + 1, len(lines)):
        if _HEADER.fullmatch(lines[number].rstrip("\r\n")):
            return _with_comments(lines, number)
    return len(lines)


def _holds_exactly(text: str, entries: tuple[SkipEntry, ...], path: Path) -> bool:
    try:
        found = parse_table(text, SkipTable, where=str(path)).entry
    except InvalidData:
        return False
    return found == entries


def write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet; raises `UsageError` for one that is."""
    write_all_new(path.parent, {path.name: text})


def write_all_new(directory: Path, files: Mapping[str, str]) -> list[Path]:
    """Write files into a directory, none of them when one is there already; raises `UsageError` naming it."""
    paths = {directory / name: text for name, text in files.items()}
    for path in paths:
        if path.exists() or path.is_symlink():
            raise UsageError(f"{path} exists already", next_step="name another place, or move it away")
    for path, text in paths.items():
        write_text(path, text)
    return list(paths)


def remove_entries(paths: Iterable[Path], ids: Collection[str]) -> dict[Path, tuple[str, ...]]:
    """Take entries out of the files that hold them; returns what was taken out of which.

    All new texts are made before the first is written. Raises `InvalidData` as `without`.
    """
    texts: dict[Path, tuple[str, tuple[str, ...]]] = {}
    for path in paths:
        text = path.read_bytes().decode()
        held = parse_table(text, SkipTable, where=str(path)).entry
        gone = tuple(entry.id for entry in held if entry.id in ids)
        if gone:
            texts[path] = without(text, gone, path), gone
    for path, (text, _) in texts.items():
        write_text(path, text)
    return {path: gone for path, (_, gone) in texts.items()}
