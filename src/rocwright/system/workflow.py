"""The door to what GitHub Actions reads back from a step: its outputs, and its summary, which is Markdown."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rocwright.system.files import disk_error


def tell_workflow(
    lines: Sequence[str], variable: str = "GITHUB_OUTPUT", environment: Mapping[str, str] = os.environ
) -> bool:
    """Append `name=value` lines to the file that a variable names; False where it is not set or empty."""
    said = environment.get(variable)
    if not said:
        return False
    try:
        with Path(said).open("a", encoding="utf-8") as stream:
            stream.writelines(line + "\n" for line in lines)
    except OSError as error:
        raise disk_error(error, Path(said)) from error
    return True


def tell_summary(lines: Sequence[str], environment: Mapping[str, str] = os.environ) -> bool:
    """Add lines of Markdown to the step's summary; False where there is no workflow.

    A later step cannot read an earlier one's summary: a copy for the whole job lies where `job_summary` says.
    """
    copy = job_summary(environment)
    if copy is not None:
        tell_workflow(lines, "summary", {"summary": str(copy)})
    return tell_workflow(lines, "GITHUB_STEP_SUMMARY", environment)


def job_summary(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The file with all summaries of this job, in the runner's directory of temporary files."""
    temporary = environment.get("RUNNER_TEMP")
    return Path(temporary) / "rocwright-job-summary.md" if temporary else None


def captured_summary(environment: Mapping[str, str] = os.environ) -> str:
    """All summaries of this job up to now; empty where there is none."""
    copy = job_summary(environment)
    if copy is None or not copy.is_file():
        return ""
    try:
        return copy.read_text("utf-8").strip("\n")
    except OSError as error:
        raise disk_error(error, copy) from error


def tell_block(
    name: str, text: str, variable: str = "GITHUB_OUTPUT", environment: Mapping[str, str] = os.environ
) -> bool:
    """Append a value of several lines, as `tell_workflow` does a value of a line."""
    lines = text.split("\n")
    end = "END"
    # The line that ends the value must not be a line of it.
    while end in lines:
        end += "_"
    return tell_workflow([f"{name}<<{end}", *lines, end], variable, environment)


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
