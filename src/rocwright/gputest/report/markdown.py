"""A report as Markdown, for the summary page of a workflow: tables, cut to what such a page holds.

What was tested and how failed tests are run again stands on the HTML page, too.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

import msgspec

from rocwright.gputest.report.cases import cut_id
from rocwright.gputest.report.values import FailedCase, FailureGroup, Judged, ShardState
from rocwright.model.gpu import in_order
from rocwright.model.testing import BAD
from rocwright.system.workflow import LIMIT, address, cell, code, row, size, table

SOURCE = "https://github.com/pytorch/pytorch"
# So many tests stand in the lines that run them again.
_TESTS = 5
_ERROR = 100
EMULATED = "Runs named emulated had no GPU: an emulator played one. They never count as tests on a GPU."
_MARKS = {"passed": "✅", "failed": "❌", "no report": "⚠️"}
_HEADS = {
    "passed": "All expected runs passed",
    "failed": "Tests failed",
    "no report": "No report",
}
_CAUSES = 40
_RUNS = ("Run", "Result", "Tests", "Passed", "Failed", "Skipped", "Flaky", "Reruns", "Time", "Why")
_GROUPS = ("", "Cause", "Failures", "Tests", "Runs", "Example")


class About(msgspec.Struct, frozen=True):
    """What was tested: versions and places, empty where unknown.

    `family` may be a list of targets, `ref` a branch, tag or commit of PyTorch. `emulated` says that some of
    it ran on emulated GPUs, played by `emulator`.
    """

    torch: str = ""
    rocm: str = ""
    python: str = ""
    family: str = ""
    index: str = ""
    ref: str = ""
    set_id: str = ""
    emulator: str = ""
    emulated: bool = False

    @property
    def source(self) -> str:
        """Where the sources of the tests can be read."""
        return f"{SOURCE}/tree/{self.ref}" if self.ref else ""

    def rows(self) -> tuple[tuple[str, str], ...]:
        """Name and value of what is known."""
        all_rows = (
            ("torch", self.torch),
            ("ROCm", self.rocm),
            ("Python", self.python),
            ("GPU", self.family),
            ("Emulated by", self.emulator),
            ("Index", self.index),
            ("Source", self.source),
            ("Set", self.set_id),
        )
        return tuple((name, value) for name, value in all_rows if value)


def completed(about: About, judged: Judged) -> About:
    """With what the records say, where the command line says nothing."""
    ran = [one.ran for one in judged.shards if one.ran is not None]

    def said(field: str) -> str:
        return ", ".join(sorted({str(getattr(one, field)) for one in ran} - {""}))

    return msgspec.structs.replace(
        about,
        torch=about.torch or said("torch"),
        rocm=about.rocm or said("rocm"),
        python=about.python or said("python"),
        family=about.family or ", ".join(in_order({one.where for one in ran} - {""})),
        emulator="; ".join(sorted({one.emulation.told() for one in judged.shards if one.emulation})),
        emulated=any(one.emulated for one in judged.shards),
    )


def markdown(judged: Judged, about: About, *, combined: bool = False, limit: int = LIMIT) -> str:
    """The report in at most `limit` bytes; tables that are too long say how many rows are left out.

    `combined` adds configuration and shard to each failed test.
    """
    parts = [f"## {_MARKS[judged.state]} {_HEADS[judged.state]}", "", _in_short(judged), ""]
    parts += [f"**{EMULATED}**", ""] if about.emulated else []
    if about.rows():
        parts += table(("", ""), [(name, address(value)) for name, value in about.rows()])
    parts += _section("Runs", _RUNS, map(_shard_row, judged.shards))
    parts += _section("Causes", _GROUPS, map(_group_row, judged.groups[:_CAUSES]))
    if len(judged.groups) > _CAUSES:
        parts += [f"{len(judged.groups) - _CAUSES} more causes.", ""]
    if judged.fixed:
        rows = [(code(one.test), cell(one.where), _error(one.message)) for one in judged.fixed[:_CAUSES]]
        parts += _section(f"Fixed ({len(judged.fixed)})", ("Test", "Where", "It failed with"), rows)
    lines = reproduce(judged, about)
    tail = ["### Reproduce", "", "```sh", *lines, "```", ""] if lines else []
    room = limit - size(parts) - size(tail)
    return "\n".join([*parts, *failed_tests(judged, combined=combined, room=room), *tail])


def failed_tests(judged: Judged, *, combined: bool, room: int) -> list[str]:
    """The table of failed tests, in at most so many bytes."""
    shards = {one.name: one for one in judged.shards}
    bad = [case for group in judged.groups for case in group.cases if case.verdict != "flaky"]
    bad.sort(key=lambda case: (case.shard, case.test))
    if not bad:
        return []
    head: tuple[str, ...] = ("Test File", "Test Class", "Test Name", "Status", "Error")
    head = ("Config", "Shard", *head) if combined else head
    lines = [f"### Failed tests ({len(bad)})", "", *table(head, [])[:-1]]
    # For the line that says how many rows are left out.
    room -= size(lines) + 200
    for number, case in enumerate(bad):
        line = row(_case_row(case, shards.get(case.shard), combined=combined))
        room -= len(line.encode()) + 1
        if room < 0:
            left = f"{len(bad) - number} more failed tests are not shown: the page would be too long."
            return [*lines, "", left, ""]
        lines.append(line)
    return [*lines, ""]


def _in_short(judged: Judged) -> str:
    counts = judged.counts
    bad = sum(counts.get(one, 0) for one in BAD)
    states = [one.state for one in judged.shards]
    runs = f"{states.count('passed')} of {len(states)} runs passed"
    runs += f", {states.count('failed')} failed" if "failed" in states else ""
    runs += f", {states.count('no report')} without a report" if "no report" in states else ""
    tests = f"{sum(counts.values())} tests: {counts.get('passed', 0)} passed, {bad} failed"
    tests += "".join(
        f", {counts[one]} {name}"
        for one, name in (("skipped", "skipped"), ("xfailed", "expected failures"), ("flaky", "flaky"))
        if counts.get(one)
    )
    findings = [f"{judged.of(one)} {one}" for one in ("NEW", "KNOWN", "INFRA") if judged.of(one)]
    findings += [f"{len(judged.fixed)} FIXED"] if judged.fixed else []
    compared = f" Compared with {judged.compared}." if judged.compared else ""
    told = f" Failures: {', '.join(findings)}." if findings else ""
    return f"{runs}. {tests}.{told}{compared}"


def _shard_row(one: ShardState) -> Sequence[str]:
    bad = sum(one.counts.get(verdict, 0) for verdict in BAD)
    skipped = one.counts.get("skipped", 0) + one.counts.get("xfailed", 0)
    why = one.why if one.expected else f"{one.why} (not expected)".strip()
    return (
        code(one.name),
        f"{_MARKS[one.state]} {one.state}",
        str(sum(one.counts.values())),
        str(one.counts.get("passed", 0)),
        str(bad),
        str(skipped),
        str(one.counts.get("flaky", 0)),
        str(one.reruns),
        clock(one.seconds),
        cell(why),
    )


def _group_row(group: FailureGroup) -> Sequence[str]:
    kind = f"{group.finding} ({group.infra})" if group.infra else group.finding
    issues = " ".join(map(address, group.issues))
    return (
        kind,
        " ".join(filter(None, (_error(group.signature), issues))),
        str(len(group.cases)),
        str(len(group.tests)),
        str(len(group.shards)),
        code(group.cases[0].test),
    )


def _case_row(case: FailedCase, shard: ShardState | None, *, combined: bool) -> Sequence[str]:
    file, classes, name = cut_id(case.test)
    ran = shard.ran if shard else None
    where = (cell(ran.config), f"{ran.shard}/{ran.shards}") if ran else ("", "")
    status = case.verdict.upper()
    cells = (code(file), code("::".join(classes)), code(name), status, _error(case.message))
    return (*where, *cells) if combined else cells


def clock(seconds: float) -> str:
    """Seconds as people read them: 7 s, 3 min 20 s, 2 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def _section(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = list(rows)
    return [f"### {title}", "", *table(head, lines)] if lines else []


def _error(message: str) -> str:
    flat = " ".join(message.split())
    return cell(flat if len(flat) <= _ERROR else flat[: _ERROR - 1] + "…")


def reproduce(judged: Judged, about: About) -> tuple[str, ...]:
    """Shell lines that run the first failed tests again; none where nothing failed."""
    failed = [case.test for group in judged.groups for case in group.cases if case.finding != "FLAKY"]
    if not failed:
        return ()
    lines = []
    if about.index and about.torch and "," not in about.torch:
        lines.append(
            f"python -m pip install --index-url {shlex.quote(about.index)} torch=={shlex.quote(about.torch)}"
        )
    branch = f" --branch {shlex.quote(about.ref)}" if about.ref else ""
    lines.append(f"git clone --depth 1{branch} {SOURCE} pytorch")
    return (*lines, *_run_again(dict.fromkeys(failed)))


def _run_again(tests: Iterable[str]) -> list[str]:
    by_file: dict[str, list[str]] = {}
    for test in list(tests)[:_TESTS]:
        file, _, name = cut_id(test)
        # What -k is given is an expression: of parameters only the test's name can stand in it.
        name = name.partition("[")[0]
        by_file.setdefault(file, []).extend([name] if name.isidentifier() else [])
    lines = []
    for file, names in by_file.items():
        chosen = f" -k {shlex.quote(' or '.join(dict.fromkeys(names)))}" if names else ""
        lines.append(f"rocwright test units --pytorch-dir pytorch --suite-files {shlex.quote(file)}{chosen}")
    return lines
