"""A report as an HTML page for people: one file with its plots as SVG, nothing from elsewhere, no script.

Bars and plots are drawn in the page's own colours, each with its numbers in words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from html import escape
from importlib import resources

import msgspec

from rocwright.gputest.report.markdown import EMULATED, About, clock, reproduce
from rocwright.gputest.report.values import (
    FailedCase,
    FailureGroup,
    Judged,
    SetPoint,
    ShardState,
    SkipReason,
    passed_of,
    ran_of,
)
from rocwright.model.gpu import in_order
from rocwright.model.testing import BAD
from rocwright.system import page
from rocwright.system.page import facts, heads, legend, linked, shares, table

_STATES = {
    "passed": "✓ All expected runs passed",
    "failed": "✗ Not every run passed",
    "no report": "? Not every expected run gave a report",
}
_MARKS = {"passed": "✓", "failed": "✗", "no report": "?"}
# The page stays below 300 kB; the JSON has all.
_GROUPS, _CASES, _DETAIL, _FIXED, _FILES, _SKIPS, _RUNS = 60, 20, 2000, 60, 15, 40, 200
# So many runs that passed are shown at once.
_FEW = 8


def html_page(
    judged: Judged, about: About, *, title: str = "Test report", history: Sequence[SetPoint] = ()
) -> str:
    """The page; `history` are earlier sets, oldest first. The same report is the same bytes."""
    parts = [
        _tiles(judged),
        _whole(judged),
        _groups(judged.groups),
        _runs(judged.shards),
        _gpus(judged.shards),
        _skips(judged),
        _fixed(judged),
        _reproduce(judged, about),
        _plots(judged, history),
        _files(judged),
    ]
    state = f'<p class="state {judged.state.replace(" ", "-")}">{_state(judged)}</p>\n'
    state += f"<p><b>{EMULATED}</b></p>\n" if about.emulated else ""
    head = state + facts(_about(judged, about))
    style = resources.files("rocwright.gputest.report").joinpath("page.css").read_text("utf-8")
    return page.html_page(title, head, "".join(parts), style=style)


def _state(judged: Judged) -> str:
    passed, bad, skipped = _split(judged.counts)
    told = []
    if bad:
        causes = sum(group.finding != "FLAKY" for group in judged.groups)
        told.append(f"{_count(bad, 'failure')}, {_count(causes, 'cause')}, {judged.of('NEW'):,} new")
    elif judged.state == "passed":
        told.append(f"{_count(passed, 'test')} passed, {skipped:,} skipped")
    silent = sum(one.state == "no report" for one in judged.shards)
    told += [f"{_count(silent, 'run')} gave no report"] if silent else []
    return _STATES[judged.state] + (f": {'; '.join(told)}" if told else "")


def _about(judged: Judged, about: About) -> list[tuple[str, str]]:
    """What was tested; set, torch and GPU are named also where nobody said them."""
    known = dict(about.rows())
    on_cpu = any(one.ran is not None and not one.ran.target for one in judged.shards)
    unknown = {
        "Set": "not named (rocwright test report --set)",
        "torch": "not known (--torch-version)",
        "GPU": "none: the tests ran on the CPU" if on_cpu else "not known (--target)",
    }
    first = [(name, known.pop(name, "") or instead) for name, instead in unknown.items()]
    return [*first, *known.items(), ("Compared with", judged.compared or "no earlier set")]


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
    return page.tiles(counted)


# -- bars: the tests of a run, or of all, by how they ended


def _split(counts: Mapping[str, int]) -> tuple[int, int, int]:
    """Passed, failed, skipped: each test is one of them."""
    return passed_of(counts), sum(counts.get(verdict, 0) for verdict in BAD), counts.get("skipped", 0)


def _bar(counts: Mapping[str, int]) -> str:
    passed, bad, skipped = _split(counts)
    words = f"{passed:,} passed, {bad:,} failed, {skipped:,} skipped"
    return shares([("passed", passed), ("failed", bad), ("quiet", skipped)], words)


def _whole(judged: Judged) -> str:
    """All tests as one bar, with what its colours mean here and below."""
    counts = judged.counts
    whole = sum(counts.values())
    if not whole:
        return ""
    named = zip(("passed", "failed", "quiet"), ("passed", "failed", "skipped"), _split(counts), strict=True)
    parts = [(kind, f"{count:,} {name} ({_percent(100 * count / whole)})") for kind, name, count in named]
    passed_so = (("xfailed", "failed as expected"), ("flaky", "passed in a later attempt"))
    kinds = [f"{counts[verdict]:,} that {words}" for verdict, words in passed_so if counts.get(verdict)]
    told = f"Passed includes {' and '.join(kinds)}." if kinds else ""
    return f'<div class="whole">{_bar(counts)}</div>\n{legend(parts, told)}'


def _numbers(counts: Mapping[str, int], seconds: float) -> str:
    cells = [f"{number:,}" for number in (sum(counts.values()), *_split(counts))]
    told = "".join(f'<td class="number">{number}</td>' for number in (*cells, clock(seconds)))
    return f'{told}<td class="bar">{_bar(counts)}</td>'


_NUMBERS = ("Tests", "Passed", "Failed", "Skipped", "Time", "Share")


def _gpus(shards: Sequence[ShardState]) -> str:
    """All runs of each GPU together, where there are several."""
    held: dict[str, list[ShardState]] = {}
    for one in shards:
        held.setdefault(one.where, []).append(one)
    if len(held) < 2:
        return ""
    rows = ""
    for target in (*in_order(set(held) - {""}), *({""} & set(held))):
        states = [one.state for one in held[target]]
        state = next(one for one in ("failed", "no report", "passed") if one in states)
        counts: Counter[str] = Counter()
        for one in held[target]:
            counts.update(one.counts)
        rows += (
            f"<tr><td><b>{escape(target or 'no GPU')}</b></td>{_told(state)}"
            f"<td class='number'>{states.count('passed')} / {len(states)}</td>"
            f"{_numbers(counts, sum(one.seconds for one in held[target]))}</tr>\n"
        )
    head = heads(("GPU", "Result", "Runs passed", *_NUMBERS), numbers=(2, 3, 4, 5, 6, 7))
    return f"<h2>GPUs ({len(held)})</h2>\n{table(head, rows, 'GPUs')}"


def _told(state: str) -> str:
    return f'<td class="state {state.replace(" ", "-")}">{_MARKS[state]} {state}</td>'


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
    return f"<h2>Causes of failures ({len(groups)})</h2>\n{shown}{_left(len(groups), _GROUPS, 'causes')}"


def _group(group: FailureGroup) -> str:
    issues = " ".join(map(linked, group.issues))
    sizes = ((len(group.cases), "failure"), (len(group.tests), "test"), (len(group.shards), "run"))
    words = [_count(number, name) for number, name in sizes]
    new = sum(case.finding == "NEW" for case in group.cases)
    words += [f"{new} of them new"] if 0 < new < len(group.cases) else []
    cases = "".join(map(_case, group.cases[:_CASES]))
    # The machine's fault has a name; what it looked like is told, too.
    told = escape(f"{group.signature}: {group.cases[0].message}" if group.infra else group.signature)
    # The end tells most.
    cut = group.detail if len(group.detail) <= _DETAIL else f"…{group.detail[-_DETAIL:]}"
    detail = f"<pre>{escape(cut)}</pre>\n" if cut else ""
    return (
        f'<details class="group" id="{group.id}">\n<summary>'
        f'<span class="state {group.finding}">{group.finding}</span> <code>{told}</code> '
        f'<span class="counts">{", ".join(words)}</span></summary>\n'
        f"{f'<p>{issues}</p>' if issues else ''}{detail}<ul>\n{cases}</ul>\n"
        f"{_left(len(group.cases), _CASES)}</details>\n"
    )


def _case(case: FailedCase) -> str:
    told = f"{case.shard}: {case.verdict}"
    told += f", entry {case.entry}" if case.entry else ""
    told += f": {case.message}" if case.message else ""
    return f"<li><code>{escape(case.test)}</code> <span class='quiet'>{escape(told)}</span></li>\n"


def _runs(shards: Sequence[ShardState]) -> str:
    """Those that did not pass first; many that passed are folded."""
    if not shards:
        return ""
    bad = [one for one in shards if one.state != "passed"]
    good = [one for one in shards if one.state == "passed"]
    shown = _table_of(bad, "Runs that did not pass") if bad else ""
    if len(good) > _FEW or (bad and good):
        inside = _table_of(good, "Runs that passed")
        shown += f"<details><summary>{_count(len(good), 'run')} passed</summary>\n{inside}</details>\n"
    elif good:
        shown += _table_of(good, "Runs that passed")
    return f"<h2>Runs ({len(shards)})</h2>\n{shown}"


def _table_of(shards: Sequence[ShardState], label: str) -> str:
    head = heads(("Run", "Result", "Why", *_NUMBERS), numbers=(3, 4, 5, 6, 7))
    return table(head, "".join(map(_run, shards[:_RUNS])), label) + _left(len(shards), _RUNS)


def _run(one: ShardState) -> str:
    why = one.why if one.expected else f"{one.why} (not expected)".strip()
    why = "; ".join(filter(None, (why, *(note for note in one.notes if note != one.why))))
    return (
        f'<tr><td><code>{escape(one.name)}</code></td>{_told(one.state)}<td class="why">{escape(why)}</td>'
        f"{_numbers(one.counts, one.seconds)}</tr>\n"
    )


def _skips(judged: Judged) -> str:
    """Why tests were skipped: what they say themselves, and entries of a list with their issues."""
    whole = sum(one.count for one in judged.skips)
    if not whole:
        return ""
    every = {one.where for one in judged.shards} - {""}
    rows = "".join(_skip(one, whole, every) for one in judged.skips[:_SKIPS])
    head = heads(("Reason", "Skipped", "Share", "", "GPU", "Such as"), numbers=(1, 2))
    return (
        f"<h2>Why tests were skipped ({whole:,})</h2>\n"
        "<p class='quiet'>A test skips itself and says why, or an entry of a skip list names it. What was "
        "skipped says nothing about this torch: it counts neither as passed nor as failed.</p>\n"
        f"{table(head, rows, 'Reasons of skips')}{_left(len(judged.skips), _SKIPS, 'reasons')}"
    )


def _skip(one: SkipReason, whole: int, every: Set[str]) -> str:
    reason = escape(one.reason) or "<i>the test gives no reason</i>"
    if one.entry:
        reason += f'<br><span class="quiet">skip entry {escape(one.entry)}</span> {linked(one.issue)}'
    share = _percent(100 * one.count / whole)
    gpus = "all" if len(every) > 1 and every == set(one.targets) else ", ".join(one.targets)
    return (
        f'<tr><td class="why">{reason}</td><td class="number">{one.count:,}</td>'
        f'<td class="number">{share}</td>'
        f'<td class="bar">{shares([("quiet", one.count)], share, of=whole)}</td>'
        f"<td>{escape(gpus)}</td><td><code>{escape(one.example)}</code></td></tr>\n"
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
    return f"{head}<ul>\n{items}</ul>\n{_left(len(judged.fixed), _FIXED)}"


def _files(judged: Judged) -> str:
    files = [one for one in judged.files[:_FILES] if one.seconds]
    if not files:
        return ""
    whole = sum(one.seconds for one in judged.files)
    rows = "".join(
        f'<tr><td><code>{escape(one.file)}</code></td><td class="number">{one.tests:,}</td>'
        f'<td class="number">{clock(one.seconds)}</td>'
        f'<td class="number">{_percent(100 * one.seconds / whole)}</td>'
        f'<td class="bar wide">{shares([("share", one.seconds)], clock(one.seconds), of=whole)}</td></tr>\n'
        for one in files
    )
    head = heads(("File", "Tests", "Time", "Share", f"Of {clock(whole)} of all tests"), numbers=(1, 2, 3))
    return f"<h2>Where the time goes</h2>\n{table(head, rows, 'Times of test files')}"


def _reproduce(judged: Judged, about: About) -> str:
    lines = reproduce(judged, about)
    return f"<h2>Reproduce</h2>\n<pre>{escape(chr(10).join(lines))}</pre>\n" if lines else ""


def _left(there: int, shown: int, what: str = "") -> str:
    more = " ".join(filter(None, (f"{there - shown:,} more", what)))
    return f"<p>{more}: <code>rocwright test report --json</code>.</p>\n" if there > shown else ""


def _count(number: int, one: str) -> str:
    return f"{number:,} {one if number == 1 else one + 's'}"


# -- plots


_WIDTH, _HEIGHT = 560, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 14, 34
# So many labels fit below the axis.
_LABELS = 4
# Above so many characters two of them do; above the second number they are cut.
_SHORT, _LONG = 14, 30


class Mark(msgspec.Struct, frozen=True):
    """A point over the sets: `label` names the set, `bad` marks a failed set, `now` this report."""

    label: str
    value: float
    bad: bool = False
    now: bool = False


def line_plot(
    title: str, marks: Sequence[Mark], shown: Callable[[float], str], *, top: float | None = None
) -> str:
    """Values over sets as a line; `top` is the largest value that there can be. Empty below two points."""
    if len(marks) < 2:
        return ""
    values = [one.value for one in marks]
    low, high, step = scale(min(values), max(values) if top is None else top, zero=top is None)
    x = [_LEFT + (_WIDTH - _LEFT - _RIGHT) * at / (len(marks) - 1) for at in range(len(marks))]
    y = [_y(value, low, high) for value in values]
    grid = []
    for number in range(round((high - low) / step) + 1):
        value = low + number * step
        at = _y(value, low, high)
        grid.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        grid.append(f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{escape(shown(value))}</text>')
    path = " ".join(f"{'L' if at else 'M'}{x[at]:.1f} {y[at]:.1f}" for at in range(len(marks)))
    dots = "".join(_dot(one, x[at], y[at], shown) for at, one in enumerate(marks))
    words = f"{title}: from {shown(values[0])} to {shown(values[-1])} over {len(marks)} sets"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(words)}">'
        f'{"".join(grid)}<path class="line" d="{path}"/>{dots}{_below(marks, x)}</svg>'
    )


def _dot(one: Mark, x: float, y: float, shown: Callable[[float], str]) -> str:
    kind = "dot bad" if one.bad else "dot"
    told = f"{one.label}{' (this report)' if one.now else ''}: {shown(one.value)}"
    told += ", did not pass" if one.bad else ""
    # What did not pass is a square: colour alone tells some people nothing.
    shape = (
        f'<rect class="{kind}" x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9">'
        if one.bad
        else f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4">'
    )
    return f"{shape}<title>{escape(told)}</title></{'rect' if one.bad else 'circle'}>"


def _below(marks: Sequence[Mark], x: Sequence[float]) -> str:
    """Labels under the axis: the ends, and some between where there is room."""
    labels = _short([one.label for one in marks if not one.now])
    labels += [one.label for one in marks if one.now]
    longest = max(map(len, labels))
    count = min(_LABELS if longest <= _SHORT else 2, len(marks))
    chosen = sorted({round(number * (len(marks) - 1) / (count - 1)) for number in range(count)})
    texts = []
    for at in chosen:
        anchor = "start" if at == 0 else "end" if at == len(marks) - 1 else "middle"
        near = _LEFT if at == 0 else x[at]
        name = labels[at] if len(labels[at]) <= _LONG else "…" + labels[at][1 - _LONG :]
        texts.append(f'<text x="{near:.1f}" y="{_HEIGHT - 10}" text-anchor="{anchor}">{escape(name)}</text>')
    return "".join(texts)


def _short(labels: Sequence[str]) -> list[str]:
    """Labels without what all of them begin with: of nightlies the days stay."""
    first, last = min(labels), max(labels)
    same = [one == other for one, other in zip(first, last, strict=False)]
    common = first[: same.index(False)].rstrip("0123456789") if False in same else ""
    return [label[len(common) :] or label for label in labels]


def unit_of(seconds: float) -> tuple[int, str]:
    """The unit that so many seconds are plotted in: how long it is, and its name."""
    for length, name in ((3600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return length, name
    return 1, "s"


def _y(value: float, low: float, high: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - (value - low) / (high - low))


def scale(smallest: float, largest: float, *, zero: bool) -> tuple[float, float, float]:
    """Ends of an axis and the step between its lines: a round number, three to six lines."""
    low, high = (0.0 if zero else smallest), max(largest, smallest)
    if high - low <= 0:
        low, high = (0.0, high or 1.0) if zero else (low - max(1.0, abs(low) * 0.01), high)
    rough = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough * 0.999)
    first = math.floor(low / step + 1e-9) * step
    # A share has an end above which there is nothing.
    last = math.ceil(high / step - 1e-9) * step
    return first, last, step
