"""Markdown for summary pages: tables, text that stays text, cut to what such a page holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# GitHub shows no summary of a step above 1 MiB.
LIMIT = 1_000_000


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table, and an empty line."""
    return [row(head), row(["---"] * len(head)), *map(row, rows), ""]


def row(cells: Sequence[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def cell(text: str) -> str:
    """Text that neither ends its cell nor becomes markup."""
    flat = " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
    for mark in "`*_[]":
        flat = flat.replace(mark, f"\\{mark}")
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def code(text: str) -> str:
    """Text as code, which holds no backtick."""
    flat = " ".join(text.split()).replace("`", "'").replace("|", "\\|")
    return f"`{flat}`" if flat else ""


def address(value: str) -> str:
    """A link of what is an address as a whole; else only text."""
    # Angle brackets would end it.
    if value.startswith(("https://", "http://")) and not set(value) & set("<>| \n"):
        return f"<{value}>"
    return cell(value)


def link(text: str, url: str) -> str:
    """A link that shows `text`; where `url` is no address of the web, text and address as code."""
    if url.startswith(("https://", "http://")) and not set(url) & set("<>| \n"):
        return f"[{cell(text)}](<{url}>)"
    return f"{cell(text)} ({code(url)})" if url else cell(text)


def size(lines: Iterable[str]) -> int:
    """Bytes of the lines with their ends."""
    return sum(len(line.encode()) + 1 for line in lines)


def cut(lines: Sequence[str], limit: int = LIMIT) -> tuple[str, ...]:
    """The lines in at most `limit` bytes; a last line says how many are left out."""
    if size(lines) <= limit:
        return tuple(lines)
    room, kept = limit - 100, []
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept.append(line)
    left = len(lines) - len(kept)
    told = f"{left:,} more lines are left out" if left > 1 else "1 more line is left out"
    return (*kept, "", f"{told}: the page would be too long.")
