"""Reports made by hand, for the tests of reports."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import quoteattr

from rocwright.data import load_table
from rocwright.gputest.record import write_record
from rocwright.gputest.report.values import Report
from rocwright.model.testing import CaseResult, Ran, RunRecord, SignatureTable, Verdict

TABLE = load_table("signatures", SignatureTable)


def case(test: str, verdict: Verdict = "passed", message: str = "", **more: object) -> CaseResult:
    return CaseResult(test, verdict, 1.0, message, **more)


def report(*results: CaseResult, name: str = "", complete: bool = True, **ran: object) -> Report:
    where = Ran(**{"suite": "units", "target": "gfx942", **ran})
    return Report(name or where.key, where, results, complete=complete, names=(where.key,))


def recorded(folder: Path, *results: CaseResult, complete: bool = True, **ran: object) -> Path:
    where = Ran(**{"suite": "units", "target": "gfx942", **ran})
    record = RunRecord(where, results, seconds=float(len(results)), complete=complete)
    return write_record(record, folder / where.key)


def junit(cases: Iterable[str], **counts: int) -> str:
    """A file of pytest's with these cases; `counts` are what its head says."""
    head = "".join(f' {name}="{number}"' for name, number in counts.items())
    body = "".join(cases)
    return f'<?xml version="1.0"?><testsuites><testsuite name="pytest"{head}>{body}</testsuite></testsuites>'


def xml_case(classname: str, name: str, inner: str = "", **more: str) -> str:
    extra = "".join(f" {key}={quoteattr(value)}" for key, value in more.items())
    return f"<testcase classname={quoteattr(classname)} name={quoteattr(name)}{extra}>{inner}</testcase>"


def problem(tag: str, message: str, text: str = "", **more: str) -> str:
    extra = "".join(f" {key}={quoteattr(value)}" for key, value in more.items())
    return f"<{tag} message={quoteattr(message)}{extra}>{text}</{tag}>"
