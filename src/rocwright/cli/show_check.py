"""How the outcome of a check is printed: a line for each file, its findings below, the counts at the end.

Findings that say nearly the same are told as one: what they share once, and below it what differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby, takewhile
from pathlib import Path

from rocwright.check.report import Report
from rocwright.cli.reply import plain
from rocwright.data.overlay import Overlay
from rocwright.errors import ContractBroken
from rocwright.model.findings import Finding, Waiver, Weighed
from rocwright.system import console

# So many differences are listed; --json has all of them.
_LISTED = 20
# Short differences stand on one line up to this width.
_WIDTH = 90


@dataclass(frozen=True)
class Told:
    """Findings of one rule with one next step: a line for each cause, or one for all with `items` below."""

    causes: tuple[str, ...]
    items: tuple[str, ...] = ()


def runs(findings: Sequence[Finding]) -> Iterator[list[Finding]]:
    """Neighbours of one rule and severity that ask for the same next step."""
    for _, run in groupby(findings, lambda one: (one.severity, one.rule, one.next_step)):
        yield list(run)


def told(run: Sequence[Finding]) -> Told:
    """How to tell such neighbours: folded when most words of their causes are the same."""
    folded = _folded([finding.cause for finding in run])
    if folded is None:
        return Told(tuple(f"{finding.about}{finding.cause}" for finding in run))
    shared, different = folded
    items: list[str] = []
    pairs = zip((finding.about for finding in run), different, strict=True)
    for about, same in groupby(pairs, lambda pair: pair[0]):
        texts = [text for _, text in same]
        line = ", ".join(texts)
        items += [f"{about}{line}"] if len(line) <= _WIDTH else [f"{about}{text}" for text in texts]
    if len(items) > _LISTED:
        items = [*items[:_LISTED], f"and {len(items) - _LISTED} more; --json lists all"]
    return Told((f"{len(run)} times: {shared}",), tuple(items))


def _folded(causes: Sequence[str]) -> tuple[str, list[str]] | None:
    """The shared text, with … for what differs, and the differences; None when too little is shared."""
    split = [cause.split(" ") for cause in causes]
    shortest = min(map(len, split))
    before = _common(split, shortest)
    after = _common([words[::-1] for words in split], shortest - before)
    if len(causes) < 2 or before + after >= shortest or 2 * (before + after) < shortest:
        return None
    middles = [" ".join(words[before : len(words) - after]) for words in split]
    head, tail = split[0][:before], split[0][len(split[0]) - after :] if after else []
    mark = next((end for end in ",;:" if all(middle.endswith(end) for middle in middles)), "")
    return " ".join([*head, f"…{mark}", *tail]), [middle.removesuffix(mark) for middle in middles]


def _common(split: Sequence[Sequence[str]], most: int) -> int:
    """How many words all begin with, at most so many."""
    columns = list(zip(*split, strict=False))[:most]
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))


# Of the first word of a line, on a terminal.
_STYLES = {
    "ok": "green",
    "failed": "bold red",
    "error": "red",
    "warned": "yellow",
    "warning": "yellow",
    "waived": "cyan",
    "override": "yellow",
    "lapsed": "yellow",
}
# A line names so many GPU targets, or up to two more when these are all.
_TARGETS = 6


def show_report(
    report: Report,
    waivers: Sequence[Waiver] = (),
    today: date = date.min,
    *,
    seconds: float | None = None,
) -> None:
    """Print files with what was found in them, in the order of the report; of many without findings some.

    The counts follow where it passed; where it did not, `verdict` says them.
    """
    by_file: dict[str, list[Finding]] = {name: [] for name in report.files}
    for finding in report.findings:
        by_file.setdefault(finding.file, []).append(finding)
    about = {looked.name: looked for looked in report.looked}
    weighed = report.weighed(waivers, today)
    sound = 0
    for name, findings in by_file.items():
        sound += not findings
        if not findings and sound > _LISTED:
            continue
        head = [_state(findings, weighed), plain(name)]
        if name in about:
            head += [console.human_bytes(about[name].size), targets_text(about[name].targets)]
        console.out("  ".join(filter(None, head)), _STYLES.get(head[0].strip(), ""), hang=8)
        for line in _lines(findings, weighed):
            console.out(f"  {plain(line)}", _STYLES.get(line.split()[0], ""), hang=4)
    if sound > _LISTED:
        console.out(f"ok      {_count(sound - _LISTED, 'more file')}; --json lists all")
    for line in override_lines(report):
        console.out(plain(line), _STYLES[line.split()[0]], hang=2)
    _show_changes(report)
    if report.stand_ins:
        console.out(f"empty stand-ins while installing: {' '.join(map(plain, report.stand_ins))}")
    for line in proved_lines(report):
        console.out(line)
    if report.passed_on(today, waivers):
        console.out(summary(report, waivers, today, seconds=seconds))


def override_lines(report: Report) -> Iterator[str]:
    """What a rocwright.toml took away of the contract, and what it did to a day that is past."""
    for one in report.overrides:
        yield f"override {one.what}, by {one.file} until {one.expires}: {one.reason}"
    for one in report.lapsed:
        yield f"lapsed {one.what}, by {one.file} until {one.expires}: it is asked for again ({one.reason})"


def overlay_lines(overlay: Overlay | None) -> Iterator[str]:
    """Where a file adds to the contract: nobody is to be judged by one that they do not know of."""
    table = overlay.tables.get("contract") if overlay is not None else None
    if overlay is None or not table:
        return
    rows = table.get("package", ())
    names = dict.fromkeys(name for row in rows for name in row.get("names", ()))
    values = [name for name in table if name not in ("package", "reason", "expires")]
    parts = ([f"rows for {', '.join(names)}"] if names else []) + ([", ".join(values)] if values else [])
    yield f"note: {Path(overlay.where).absolute()} changes the contract: {'; '.join(parts)}"


def proved_lines(report: Report) -> list[str]:
    """What was proved by installing, a line for each Python and platform."""
    lines = []
    for where, group in groupby(report.proved, lambda one: one.where):
        done = list(group)
        tools = " and ".join(f"{one.installer} {one.version}" for one in done)
        imported = sorted(set.intersection(*(set(one.imported) for one in done)))
        counts = f"{_count(len(done[0].projects), 'package')}, {_count(len(imported), 'module')} imported"
        lines.append(f"proved: {tools} install the set for {plain(where)}: {counts}")
    if report.compiled:
        lines.append(
            f"compiled with Python {', '.join(report.compiled)}: the modules of the wheels that are for it"
        )
    return lines


def _show_changes(report: Report) -> None:
    """Sizes that differ from the previous set's, by file and by target."""
    rows = [
        (
            plain(change.file) or "all files",
            plain(change.target or ""),
            *(
                console.human_bytes(size) if size is not None else "-"
                for size in (change.before, change.after)
            ),
            f"{change.growth:+.1%}" if change.growth is not None else "",
        )
        for change in report.changes
    ]
    if rows:
        console.out("")
        console.table("", ("Size of", "Target", "Before", "Now", ""), rows, right=(2, 3, 4))
        console.out("")


def summary(report: Report, waivers: Sequence[Waiver], today: date, *, seconds: float | None = None) -> str:
    """Files, rules, errors, warnings, waived errors and time in one line."""
    refusing = len(report.weighed(waivers, today).refused)
    waived = report.errors - refusing
    counts = [_count(refusing, "error"), _count(report.warnings, "warning")]
    counts += [f"{waived} waived"] if waived else []
    counts += [f"{seconds:.1f} s"] if seconds is not None else []
    return f"{_count(len(report.files), 'file')}, {_rules(report)}: {', '.join(counts)}"


def _rules(report: Report) -> str:
    """How many rules were applied, and which were not because a file says so."""
    off = report.switched_off
    if not off:
        return f"{len(report.rules)} rules"
    files = dict.fromkeys(one.file for one in report.overrides if one.field == "off")
    said = f"{len(off)} switched off by {', '.join(files)}: {', '.join(off)}"
    return f"{len(report.rules)} of {len(report.rules) + len(off)} rules ({said})"


def verdict(
    report: Report,
    waivers: Sequence[Waiver] = (),
    today: date = date.min,
    *,
    seconds: float | None = None,
) -> None:
    """Raise `ContractBroken` with the counts unless something was checked and every error is waived."""
    if not report.passed_on(today, waivers):
        raise ContractBroken(
            summary(report, waivers, today, seconds=seconds),
            next_step="each finding above says what to do; then check again",
        )


def _state(findings: Sequence[Finding], weighed: Weighed) -> str:
    """One word for a file; padded, so that names stand below each other."""
    if any(finding in weighed.refused for finding in findings):
        word = "failed"
    elif any(finding.severity == "error" for finding in findings):
        word = "waived"
    else:
        word = "warned" if findings else "ok"
    return word.ljust(6)


def targets_text(targets: Sequence[str]) -> str:
    """GPU targets for a line: the first few, and how many more."""
    more = len(targets) - _TARGETS
    return " ".join(targets) if more <= 2 else f"{' '.join(targets[:_TARGETS])} and {more} more"


def _lines(findings: Sequence[Finding], weighed: Weighed) -> Iterator[str]:
    """What has to be resolved first, then what is waived, then what is a warning."""
    covered = dict(weighed.waived)
    groups: dict[Waiver | None, list[Finding]] = {None: []}
    for finding in findings:
        if finding.severity == "error":
            groups.setdefault(covered.get(finding), []).append(finding)
    refused = groups.pop(None)
    warnings = [finding for finding in findings if finding.severity != "error"]
    for waiver, group in ((None, refused), *groups.items(), (None, warnings)):
        for run in runs(group):
            word = "waived" if waiver else run[0].severity
            story = told(run)
            yield from (f"{word} [{run[0].rule}] {cause}" for cause in story.causes)
            yield from (f"  {item}" for item in story.items)
            if waiver is not None:
                yield f"  until {waiver.expires}: {waiver.reason}"
            yield f"  next: {run[0].next_step}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
