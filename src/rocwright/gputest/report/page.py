"""A report as an HTML page for people: one file, nothing from elsewhere, no script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

from rocwright.gputest.report.about import About, reproduce
from rocwright.gputest.report.markdown import clock
from rocwright.gputest.report.plots import Mark, bar, line_plot, unit_of
from rocwright.gputest.report.values import (
    FailedCase,
    FailureGroup,
    Judged,
    SetPoint,
    ShardState,
    passed_of,
    ran_of,
)
from rocwright.model.testing import BAD
from rocwright.system import page
from rocwright.system.page import facts, heads, linked, table

_STATES = {
    "passed": "✓ All expected runs passed",
    "failed": "✗ Tests failed",
    "no report": "? Not every expected run gave a report",
}
_MARKS = {"passed": "✓", "failed": "✗", "no report": "?"}
# Beyond these the page would be slow; the JSON has all.
_GROUPS, _CASES, _FIXED, _FILES = 200, 200, 200, 15


def html_page(
    judged: Judged, about: About, *, title: str = "Test report", history: Sequence[SetPoint] = ()
) -> str:
    """The page; `history` are earlier sets, oldest first. The same report is the same bytes."""
    parts = [
        _tiles(judged),
        _plots(judged, history),
        _groups(judged.groups),
        _runs(judged.shards),
        _fixed(judged),
        _files(judged),
        _reproduce(judged, about),
    ]
    head = f'<p class="state {judged.state.replace(" ", "-")}">{_state(judged)}</p>\n{facts(about.rows())}'
    style = resources.files("rocwright.gputest.report").joinpath("page.css").read_text("utf-8")
    return page.html_page(title, head, "".join(parts), style=style)


def _state(judged: Judged) -> str:
    silent = sum(one.state == "no report" for one in judged.shards)
    told = f"; {_count(silent, 'run')} gave no report" if judged.state == "failed" and silent else ""
    return _STATES[judged.state] + told


def _tiles(judged: Judged) -> str:
    counts = judged.counts
    passed = [one.state for one in judged.shards].count("passed")
    counted = [
        (f"{passed} / {len(judged.shards)}", "runs passed", ""),
        (f"{sum(counts.values()):,}", "tests", ""),
        (f"{judged.of('NEW'):,}", "new failures", "NEW" if judged.of("NEW") else ""),
        (f"{judged.of('KNOWN'):,}", "known failures", ""),
        (f"{judged.of('INFRA'):,}", "failures of machines", ""),
        (f"{counts.get('flaky', 0):,}", "flaky", ""),
        (f"{len(judged.fixed):,}", "fixed", "FIXED" if judged.fixed else ""),
        (f"{counts.get('skipped', 0):,}", "skipped", ""),
    ]
    compared = f"<p class='quiet'>Compared with {escape(judged.compared)}.</p>\n" if judged.compared else ""
    return page.tiles(counted) + compared


def _plots(judged: Judged, history: Sequence[SetPoint]) -> str:
    if not history:
        return ""
    counts = judged.counts
    now = SetPoint(
        set_id="",
        label="this report",
        ran=ran_of(counts),
        passed=passed_of(counts),
        seconds=sum(one.seconds for one in judged.shards),
        state=judged.state,
    )
    points = [*history, now]

    def marks(values: Iterable[float]) -> list[Mark]:
        return [
            Mark(point.label, value, bad=point.state != "passed", now=point is now)
            for point, value in zip(points, values, strict=True)
        ]

    rate = line_plot("Tests that passed", marks(_rate(one) for one in points), _percent, top=100)
    unit, name = unit_of(max(one.seconds for one in points))
    time = line_plot(
        "Time of all runs", marks(one.seconds / unit for one in points), lambda value: f"{value:.3g} {name}"
    )
    rows = "".join(
        f"<tr><td>{escape(one.label)}</td><td>{one.state}</td><td class='number'>{one.ran:,}</td>"
        f"<td class='number'>{_percent(_rate(one))}</td><td class='number'>{clock(one.seconds)}</td></tr>\n"
        for one in points
    )
    head = heads(("Set", "Result", "Tests that ran", "Passed", "Time"), numbers=(2, 3, 4))
    return (
        "<h2>Over the sets</h2>\n"
        '<div class="plots">\n'
        f"<figure><figcaption>Tests that passed, of those that ran</figcaption>{rate}</figure>\n"
        f"<figure><figcaption>Time of all runs</figcaption>{time}</figure>\n</div>\n"
        "<p class='quiet'>A square is a set that did not pass.</p>\n"
        f"<details><summary>The same as a table</summary>\n{table(head, rows, 'The sets')}</details>\n"
    )


def _rate(one: SetPoint) -> float:
    return 100 * one.passed / one.ran if one.ran else 0.0


def _percent(value: float) -> str:
    # 99.96 % is not all of them.
    floor = int(value * 100) / 100
    return f"{floor:.2f}".rstrip("0").rstrip(".") + " %"


def _groups(groups: Sequence[FailureGroup]) -> str:
    if not groups:
        return ""
    shown = "".join(map(_group, groups[:_GROUPS]))
    left = f"<p>{len(groups) - _GROUPS} more causes.</p>\n" if len(groups) > _GROUPS else ""
    return f"<h2>Causes of failures ({len(groups)})</h2>\n{shown}{left}"


def _group(group: FailureGroup) -> str:
    issues = " ".join(map(linked, group.issues))
    sizes = ((len(group.cases), "failure"), (len(group.tests), "test"), (len(group.shards), "run"))
    words = [_count(number, name) for number, name in sizes]
    new = sum(case.finding == "NEW" for case in group.cases)
    words += [f"{new} of them new"] if 0 < new < len(group.cases) else []
    cases = "".join(map(_case, group.cases[:_CASES]))
    left = len(group.cases) - _CASES
    more = f"<p>{left} more.</p>\n" if left > 0 else ""
    # The machine's fault has a name; what it looked like is told, too.
    told = escape(f"{group.signature}: {group.cases[0].message}" if group.infra else group.signature)
    detail = f"<pre>{escape(group.detail)}</pre>\n" if group.detail else ""
    return (
        f'<details class="group" id="{group.id}">\n<summary>'
        f'<span class="state {group.finding}">{group.finding}</span> <code>{told}</code> '
        f'<span class="counts">{", ".join(words)}</span></summary>\n'
        f"{f'<p>{issues}</p>' if issues else ''}{detail}<ul>\n{cases}</ul>\n{more}</details>\n"
    )


def _case(case: FailedCase) -> str:
    told = f"{case.shard}: {case.verdict}"
    told += f", entry {case.entry}" if case.entry else ""
    told += f": {case.message}" if case.message else ""
    return f"<li><code>{escape(case.test)}</code> <span class='quiet'>{escape(told)}</span></li>\n"


def _runs(shards: Sequence[ShardState]) -> str:
    longest = max((one.seconds for one in shards), default=0.0) or 1.0
    rows = "".join(_run(one, longest) for one in shards)
    head = heads(("Run", "Result", "Why", "Tests", "Failed", "Skipped", "Time", ""), numbers=(3, 4, 5, 6))
    return f"<h2>Runs ({len(shards)})</h2>\n{table(head, rows, 'Runs')}" if shards else ""


def _run(one: ShardState, longest: float) -> str:
    bad = sum(count for verdict, count in one.counts.items() if verdict in BAD)
    skipped = one.counts.get("skipped", 0) + one.counts.get("xfailed", 0)
    why = one.why if one.expected else f"{one.why} (not expected)".strip()
    why = "; ".join(filter(None, (why, *(note for note in one.notes if note != one.why))))
    state = one.state.replace(" ", "-")
    time = clock(one.seconds)
    numbers = (f"{sum(one.counts.values()):,}", f"{bad:,}", f"{skipped:,}", time)
    cells = "".join(f'<td class="number">{number}</td>' for number in numbers)
    return (
        f'<tr><td><code>{escape(one.name)}</code></td><td class="state {state}">{_MARKS[one.state]} '
        f'{one.state}</td><td class="why">{escape(why)}</td>{cells}'
        f'<td class="bar">{bar(one.seconds / longest, time)}</td></tr>\n'
    )


def _fixed(judged: Judged) -> str:
    if not judged.fixed:
        return ""
    items = "".join(
        f"<li><code>{escape(one.test)}</code> <span class='quiet'>{escape(one.where)}: "
        f"{escape(one.message)}</span></li>\n"
        for one in judged.fixed[:_FIXED]
    )
    head = f"<h2>Fixed ({len(judged.fixed)})</h2>\n<p>These failed before and pass now.</p>\n"
    return f"{head}<ul>\n{items}</ul>\n"


def _files(judged: Judged) -> str:
    files = [one for one in judged.files[:_FILES] if one.seconds]
    if not files:
        return ""
    longest = files[0].seconds
    rows = "".join(
        f'<tr><td><code>{escape(one.file)}</code></td><td class="number">{one.tests:,}</td>'
        f'<td class="number">{clock(one.seconds)}</td>'
        f'<td class="bar wide">{bar(one.seconds / longest, clock(one.seconds))}</td></tr>\n'
        for one in files
    )
    head = heads(("File", "Tests", "Time", ""), numbers=(1, 2))
    return f"<h2>Where the time goes</h2>\n{table(head, rows, 'Times of test files')}"


def _reproduce(judged: Judged, about: About) -> str:
    lines = reproduce(judged, about)
    return f"<h2>Reproduce</h2>\n<pre>{escape(chr(10).join(lines))}</pre>\n" if lines else ""


def _count(number: int, one: str) -> str:
    return f"{number:,} {one if number == 1 else one + 's'}"
