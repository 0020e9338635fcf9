"""JUnit files: written in pytest's dialect; read in that, unittest-xml-reporting's and PyTorch's own.

A file that breaks off is no report: `read_junit` refuses it. `salvage_junit` gives what stands before the
break, for people to see.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast, get_args
from xml.sax.saxutils import quoteattr

import msgspec

from rocwright.errors import InvalidInput
from rocwright.gputest.report.cases import cut_id, merged, node_id
from rocwright.model.testing import BAD, CaseResult, RunRecord, Verdict
from rocwright.system.files import CHUNK, make_directory, write_text

_NEXT = "run the tests again; a process that is killed while it writes leaves such a file"
# Not allowed in XML, in whatever form.
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|#x1B\[[0-9;]*[A-Za-z]")
# How the runner's own verdicts stand in a dialect that has only two for what is bad.
_TAGS: Mapping[Verdict, str] = {
    "failed": "failure",
    "xpassed": "failure",
    "error": "error",
    "crashed": "error",
    "hung": "error",
    "memory": "error",
    "skipped": "skipped",
    "xfailed": "skipped",
}
# The property that says what ran the code for a GPU, where that was no GPU.
_DEVICE = "rocwright_device"
_VERDICTS: frozenset[str] = frozenset(get_args(Verdict))
_CRASHED = re.compile(r"^worker '[^']+' crashed while running|^Fatal Python error")
_HUNG = re.compile(r"Timeout\W*\(?>\s*[0-9.]+\s*s")
_XPASSED = re.compile(r"^\[XPASS\(strict\)\]|^(Failed: )?Unexpected success", re.IGNORECASE)
_WRAPPED = re.compile(r'^failed on (?:setup|teardown) with "(?P<inner>.*)"$', re.DOTALL)


def write_junit(record: RunRecord, directory: Path) -> tuple[Path, ...]:
    """Write one JUnit file for each test file of the record; returns their paths in order.

    Equal records are equal bytes: nothing of the time or the machine is written. A file of a run on an
    emulated GPU says so, in its name of the suite and as a property. Raises `NoSpace` or
    `InvalidInput` where nothing can be written.
    """
    make_directory(directory)
    by_file: dict[str, list[CaseResult]] = {}
    for one in record.results:
        by_file.setdefault(one.file, []).append(one)
    written: dict[str, Path] = {}
    for file, results in sorted(by_file.items()):
        stem = file.removesuffix(".py").replace("\\", "/").replace("/", ".").strip(".") or "tests"
        name, number = stem, 2
        # `a/b.py` and `a.b.py` are two files; so are A.py and a.py, but not on every file system.
        while name.lower() in written:
            name, number = f"{stem}-{number}", number + 1
        path = directory / f"{name}.xml"
        write_text(path, _file_text(file, results, record))
        written[name.lower()] = path
    return tuple(written.values())


def _file_text(file: str, results: Sequence[CaseResult], record: RunRecord) -> str:
    tags = [_TAGS.get(one.verdict) for one in results]
    counts = {
        "errors": tags.count("error"),
        "failures": tags.count("failure"),
        "skipped": tags.count("skipped"),
        "tests": len(results),
        "time": f"{sum(one.seconds for one in results):.3f}",
    }
    head = "".join(f' {name}="{value}"' for name, value in counts.items())
    name = f"{file} on {record.ran.where}" if record.ran.emulated else file
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f"<testsuites><testsuite name={_quoted(name)}{head}>"]
    if record.ran.emulated:
        told: dict[str, str] = {_DEVICE: record.ran.kind}
        told |= {"rocwright_emulator": record.emulation.told()} if record.emulation else {}
        lines.append(_properties(told))
    lines += [_case_text(one) for one in results]
    return "\n".join([*lines, "</testsuite></testsuites>", ""])


def _case_text(one: CaseResult) -> str:
    _, classes, name = cut_id(one.id)
    dotted = one.file.removesuffix(".py").replace("/", ".")
    classname = ".".join([dotted, *classes]) if name else ""
    properties = {"rocwright_id": one.id, "rocwright_verdict": one.verdict}
    properties |= {"rocwright_entry": one.entry} if one.entry else {}
    properties |= {"rocwright_attempts": str(one.attempts)} if one.attempts != 1 else {}
    inner = _properties(properties)
    tag = "rerun" if one.verdict == "flaky" else _TAGS.get(one.verdict)
    if tag is not None:
        kind = {"skipped": ' type="pytest.skip"', "xfailed": ' type="pytest.xfail"'}.get(one.verdict, "")
        inner += f"<{tag}{kind} message={_quoted(one.message)}>{_text(one.detail)}</{tag}>"
    names = f"classname={_quoted(classname)} name={_quoted(name or one.id)}"
    return f'<testcase {names} file={_quoted(one.file)} time="{one.seconds:.3f}">{inner}</testcase>'


def _properties(values: Mapping[str, str]) -> str:
    inner = "".join(
        f"<property name={_quoted(key)} value={_quoted(value)}/>" for key, value in values.items()
    )
    return f"<properties>{inner}</properties>"


def _visible(text: str) -> str:
    return _NO_XML.sub(lambda found: f"#x{ord(found.group()):02X}", text)


def _quoted(text: str) -> str:
    return quoteattr(_visible(text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _text(text: str) -> str:
    escaped = _visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("\r", "&#13;")


class Salvaged(msgspec.Struct, frozen=True):
    """What stands in a JUnit file up to where it breaks off, and why it is no report; `problem` is empty for
    a whole file. `began` is the latest time at which a suite of it began, as the file writes it;
    `foreign` is XML of something else, `emulated` a file that says so of its GPU."""

    results: tuple[CaseResult, ...]
    problem: str = ""
    began: str = ""
    foreign: bool = False
    emulated: bool = False


def read_junit(path: Path) -> tuple[CaseResult, ...]:
    """The results of a JUnit file, attempts of a test merged into one.

    Raises `InvalidInput` for a file that is missing, breaks off, is no JUnit, or counts more failures than
    it holds.
    """
    found = salvage_junit(path)
    if found.problem:
        raise InvalidInput(
            f"{path} is not a readable test report: {found.problem}", where=path, next_step=_NEXT
        )
    return found.results


def salvage_junit(path: Path) -> Salvaged:
    """What can be read of a JUnit file; never raises for what is in it."""
    attempts: list[CaseResult] = []
    counted, held, cases = 0, 0, 0
    began, problem, root, emulated = "", "", "", False
    try:
        for event, item in _events(path):
            if event == "start":
                root = root or item.tag
                if item.tag == "testsuite":
                    counted += _number(item, "failures") + _number(item, "errors")
                    cases += _number(item, "tests")
                    began = max(began, item.get("timestamp") or "")
            elif item.tag == "property":
                emulated |= (item.get("name"), item.get("value")) == (_DEVICE, "emulated")
            elif item.tag == "testcase":
                held += len(item.findall("failure")) + len(item.findall("error"))
                attempts.append(_case(item, path.parent.name))
                item.clear()
            elif item.tag == "testsuite":
                own = list(_suite_errors(item, path))
                held += len(own)
                attempts += own
    except OSError as error:
        problem = error.strerror or str(error)
    except (ElementTree.ParseError, ValueError) as error:
        problem = f"it breaks off or is not XML ({error})"
    if not problem and root not in ("testsuites", "testsuite"):
        return Salvaged((), "it is XML, but not of a test run", foreign=True)
    elif not problem and counted > held:
        problem = f"it counts {counted} failures and errors but contains {held}"
    elif not problem and cases and not attempts:
        problem = f"it counts {cases} tests but contains none"
    return Salvaged(merged(attempts), problem, began, emulated=emulated)


def _events(path: Path) -> Iterator[tuple[str, ElementTree.Element]]:
    """Elements as they begin and end; all before a break are given before the error."""
    parser: ElementTree.XMLPullParser[ElementTree.Element] = ElementTree.XMLPullParser(("start", "end"))
    with path.open("rb") as stream:
        first = True
        while piece := stream.read(CHUNK):
            # No report needs a document type; entities in it could be made to expand without end.
            if first and b"<!DOCTYPE" in piece.partition(b"<testsuite")[0]:
                raise ValueError("it declares a document type")
            first = False
            parser.feed(piece)
            yield from _read(parser)
    parser.close()
    yield from _read(parser)


def _read(
    parser: ElementTree.XMLPullParser[ElementTree.Element],
) -> Iterator[tuple[str, ElementTree.Element]]:
    for event in parser.read_events():
        yield cast("tuple[str, ElementTree.Element]", event)


def _number(item: ElementTree.Element, name: str) -> int:
    text = item.get(name) or "0"
    return int(text) if text.isdecimal() else 0


def _suite_errors(suite: ElementTree.Element, path: Path) -> Iterator[CaseResult]:
    """What is wrong with a suite as a whole: such as a file that could not be imported."""
    for tag in ("error", "failure"):
        for problem in suite.findall(tag):
            file = suite.get("file") or ""
            message, detail = _said(problem)
            yield CaseResult(
                node_id("", suite.get("name") or path.stem, file=file),
                "error",
                message=message,
                detail=detail,
            )


def _case(item: ElementTree.Element, report: str) -> CaseResult:
    own = {
        one.get("name"): one.get("value") or ""
        for one in item.iterfind("properties/property")
        if (one.get("name") or "").startswith("rocwright_")
    }
    given = own.get("rocwright_id") or node_id(
        item.get("classname") or "", item.get("name") or "", file=item.get("file") or "", report=report
    )
    verdict, message, detail = _verdict(item)
    said = own.get("rocwright_verdict")
    # A verdict in a property never makes something good of what the file calls bad.
    if said in _VERDICTS and (said in BAD) == (verdict in BAD):
        verdict = cast(Verdict, said)
    try:
        seconds = max(0.0, float((item.get("time") or "0").replace(",", "")))
    except ValueError:
        seconds = 0.0
    told = own.get("rocwright_attempts", "")
    attempts = int(told) if told.isdecimal() and told != "0" else 1 + len(item.findall("rerun"))
    if verdict == "flaky" and not told:
        # Each `rerun` is an attempt that failed; the last attempt passed.
        attempts = max(2, attempts)
    return CaseResult(given, verdict, seconds, message, detail, attempts, own.get("rocwright_entry", ""))


def _verdict(item: ElementTree.Element) -> tuple[Verdict, str, str]:
    problem = item.find("error")
    if problem is None:
        problem = item.find("failure")
    if problem is not None:
        message, detail = _said(problem)
        kind = problem.get("type") or ""
        if kind == "UnexpectedSuccess" or _XPASSED.search(message):
            return "xpassed", message, detail
        if _CRASHED.search(message):
            return "crashed", message, detail
        if _HUNG.search(message):
            return "hung", message, detail
        return ("error" if problem.tag == "error" else "failed"), message, detail
    skipped = item.find("skipped")
    if skipped is not None:
        message, detail = _said(skipped)
        expected = (skipped.get("type") or "").lower() in ("pytest.xfail", "xfail")
        return ("xfailed" if expected else "skipped"), message, detail
    rerun = item.find("rerun")
    if rerun is not None:
        return "flaky", *_said(rerun)
    return "passed", "", ""


def _said(problem: ElementTree.Element) -> tuple[str, str]:
    """Message and detail; the message names the exception, in its first line the cause."""
    detail = _ANSI.sub("", problem.text or "").strip("\n")
    message = _ANSI.sub("", problem.get("message") or "").strip()
    wrapped = _WRAPPED.match(message)
    message = wrapped["inner"].strip() if wrapped else message
    if message in ("", "collection failure"):
        raised = [line[1:].strip() for line in detail.splitlines() if re.match(r"E\s", line)]
        lines = [line.strip() for line in detail.splitlines() if line.strip()]
        message = raised[0] if raised else lines[-1] if lines else message
    if not message and problem.tag != "skipped":
        message = "no message"
    kind = problem.get("type") or ""
    if problem.tag in ("error", "failure") and re.fullmatch(r"(\w+\.)*[A-Z]\w+", kind):
        short = kind.rpartition(".")[2]
        message = message if short in message.partition(":")[0] else f"{kind}: {message}"
    return one_line(message), detail


def one_line(message: str) -> str:
    """The first line of a message, with the second where the first ends in a colon: the cause follows."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[1]}"
    return lines[0] if lines else ""
