"""What pytest's reports of one test come to: a verdict, a line, and the details."""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from typing import Any

MESSAGE = 500
DETAIL = 60_000
OUTPUT = 8_000
PRINTED = "\n\nPrinted:\n"
ENTRY = "rocwright_entry"
_BAD = ("error", "failed", "xpassed")


def node_id(item: Any, root: str) -> str:
    """pytest's node id with the file relative to `root`; pytest's own is relative to its root directory."""
    path = os.path.relpath(str(item.path), root).replace(os.sep, "/")
    return path + "".join(item.nodeid.partition("::")[1:])


def around(node: str) -> tuple[str, ...]:
    """A node id and its beginnings: file, class."""
    parts = node.split("[")[0].split("::")
    return (node, *("::".join(parts[:count]) for count in range(1, len(parts) + 1)))


def of_test(reports: list[Any], problem: BaseException | None) -> tuple[str, str, str, str, int]:
    """Verdict, message, details, id of the skip entry, attempts."""
    verdict, entry, attempts = "", "", 1
    messages: list[str] = []
    details: list[str] = []
    for report in reports:
        entry = next((str(value) for key, value in report.user_properties if key == ENTRY), entry)
        if report.outcome == "rerun":
            attempts += report.when == "call" or report.failed
            verdict, messages, details = "", [], []
            continue
        found, message = _of_report(report)
        if hasattr(report, "context") and found not in _BAD:
            continue  # a part of a test that passed or was skipped is not the test
        if found in _BAD:
            text = _detail(report)
            if text and text not in details:
                details.append(text)
        if _rank(found) < _rank(verdict):
            messages = [message, *messages]
            verdict = found
        else:
            messages.append(message)
    if problem is not None:
        message, text = of_error(problem)
        return "failed", f"raised {message}", cut("\n\n".join([*details, text])), entry, attempts
    if not verdict:
        return "error", "pytest reported nothing about this test", "", entry, attempts
    if verdict == "passed" and attempts > 1:
        verdict = "flaky"
    message = next((one for one in messages if one), "")
    return verdict, message, cut("\n\n".join(details)), entry, attempts


def _rank(verdict: str) -> int:
    # Setup and teardown pass wherever a test was skipped, so passing says less than the rest.
    order = ("error", "failed", "xpassed", "xfailed", "skipped", "passed", "")
    return order.index(verdict)


def _of_report(report: Any) -> tuple[str, str]:
    marked = report.wasxfail if hasattr(report, "wasxfail") else None
    if report.outcome == "skipped":
        if marked is not None:
            return "xfailed", one_line(str(marked).removeprefix("reason: "))
        return "skipped", reason(report.longrepr)
    if report.outcome == "passed":
        if marked is not None and report.when == "call":
            return "passed", one_line(f"passed although it may fail: {marked}")
        return ("passed" if report.when == "call" else ""), ""
    text = str(report.longrepr or "")
    if report.when != "call":
        return "error", one_line(f"{report.when}: {crash_line(report.longrepr)}")
    if text.startswith("[XPASS(strict)]"):
        why = text.partition("]")[2].strip()
        return "xpassed", one_line("passed, but is expected to fail" + (f": {why}" if why else ""))
    if text.strip() == "Unexpected success":
        return "xpassed", "passed, but is marked as an expected failure"
    return "failed", crash_line(report.longrepr)


def of_collect(report: Any) -> tuple[str, str, str]:
    """Verdict, message and details of a file, class or directory that gave no tests."""
    if report.outcome == "skipped":
        return "skipped", reason(report.longrepr), ""
    text = str(report.longrepr or "")
    lines = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    line = lines[-1] if lines else crash_line(report.longrepr)
    return "error", one_line(line.removeprefix("_pytest.outcomes.")), cut(text)


def of_error(error: BaseException, *, plain: bool = False) -> tuple[str, str]:
    """Message and details of an exception."""
    text = one_line(f"{error}" if plain else f"{type(error).__name__}: {error}".removesuffix(": "))
    if plain:
        return text, ""
    return text, cut("".join(traceback.format_exception(type(error), error, error.__traceback__)))


def reason(longrepr: Any) -> str:
    """Why a test was skipped."""
    text = longrepr[2] if isinstance(longrepr, tuple) and len(longrepr) == 3 else str(longrepr or "")
    return one_line(text.removeprefix("Skipped: "))


def crash_line(longrepr: Any) -> str:
    """The exception's line; of plain text the last."""
    message: str = getattr(getattr(longrepr, "reprcrash", None), "message", "")
    if message:
        return one_line(message)
    lines = [line for line in str(longrepr or "").splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else ""


def one_line(text: str) -> str:
    """The first line that says something, no longer than a report's line."""
    lines = [line.strip() for line in _clean(text).splitlines() if line.strip()]
    line = lines[0] if lines else ""
    return line if len(line) <= MESSAGE else line[: MESSAGE - 1] + "…"


def cut(text: str) -> str:
    """Both ends of a long text."""
    text = _clean(text)
    if len(text) <= DETAIL:
        return text
    return f"{text[: DETAIL // 2]}\n[… {len(text) - DETAIL} characters …]\n{text[-DETAIL // 2 :]}"


def with_output(detail: str, log: int, spans: Sequence[tuple[int, int]]) -> str:
    """Details, and the end of what the test printed into these parts of the log."""
    if not hasattr(os, "pread"):
        return detail
    try:
        parts = [os.pread(log, min(end - start, OUTPUT), max(start, end - OUTPUT)) for start, end in spans]
    except OSError:
        return detail
    printed = "\n".join(part.decode("utf-8", "replace").strip() for part in parts if part.strip())
    return f"{detail}{PRINTED}{_clean(printed[-OUTPUT:])}" if printed else detail


def _detail(report: Any) -> str:
    captured = "".join(f"\n\n{title}:\n{text.strip()}" for title, text in report.sections if text.strip())
    return f"{report.longrepr or ''}{captured}"


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
