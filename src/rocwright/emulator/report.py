"""What ran under an emulator, for people: one view of a result, as Markdown, as a page, as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import msgspec

from rocwright.emulator.calibrate import WRONG, Calibration
from rocwright.emulator.objects import GOOD, LoadedCode, LoadedObject
from rocwright.emulator.values import EmulatorTable
from rocwright.model.emulated import Emulated
from rocwright.system import page, workflow
from rocwright.system.files import write_text

# What the program says of integers, and of what is no number.
_NO_DISTANCE = 1e30
# So many objects stand in a table; those that are wrong come first, and the record has all of them.
_LISTED = 200
_NOTED = 10
_PROVES = (
    "Emulated: no GPU ran this. Numbers, loading and metadata are shown; timing, hazards, caches, driver and "
    "firmware are not."
)


class ViewRow(msgspec.Struct, frozen=True):
    """A line of the table; `good` is None where it says nothing either way."""

    cells: tuple[str, ...]
    good: bool | None = True


class View(msgspec.Struct, frozen=True):
    """A result: its title, whether it passed with a sentence, what it ran on, a table, notes.

    Of one that is `brief` a terminal shows the rows that are not good.
    """

    title: str
    good: bool
    says: str
    about: tuple[tuple[str, str], ...]
    head: tuple[str, ...]
    rows: tuple[ViewRow, ...]
    notes: tuple[str, ...] = (_PROVES,)
    brief: bool = False


def view_of_calibration(found: Calibration, table: EmulatorTable) -> View:
    """What an emulator is right about; it has passed when it ran, whatever it is wrong about."""
    what = {row.name: row.what for row in table.operation}
    rows = tuple(
        ViewRow(
            (
                one.name,
                one.state,
                f"{one.wrong} of {one.of}" if one.of else "",
                f"{one.worst:.3g}" if one.wrong and one.worst < _NO_DISTANCE else "",
                f"{one.seconds:.1f} s" if one.seconds else "",
                one.detail or what[one.name],
            ),
            None if one.state == "absent" else one.state not in WRONG,
        )
        for one in found.answers
    )
    tried = [one for one in found.answers if one.state != "absent"]
    if found.problem:
        says = f"Not calibrated: {found.problem}"
    elif found.emulated.dispatches == 0:
        says = "Not calibrated: no kernel was executed"
    elif not found.usable:
        says = f"Not calibrated: it is right about none of {len(tried)} operations"
    elif found.wrong:
        says = (
            f"Right about {len(tried) - len(found.wrong)} of {len(tried)} operations; what rests on "
            f"{', '.join(found.wrong)} says nothing here"
        )
    else:
        says = f"Right about all {len(tried)} operations"
    return View(
        f"Calibration of {found.emulated.name} as {found.emulated.target} (emulated)",
        found.usable,
        says,
        _about(found.emulated, found.seconds, found.cpu_s, found.own_s),
        ("Operation", "Answers", "Wrong", "Relative", "Took", ""),
        rows,
    )


def view_of_objects(found: LoadedCode) -> View:
    """Which code objects the runtime loads; those that it does not come first."""
    ordered = sorted(found.objects, key=lambda one: one.state in GOOD)
    kernels = sum(one.kernels for one in found.objects)
    count = Counter(one.state for one in found.objects)
    counted = ", ".join(f"{number} {state}" for state, number in sorted(count.items()))
    if found.problem:
        says = f"Not loaded: {found.problem}"
    elif found.objects and found.emulated.dispatches == 0:
        says = "Not loaded: no kernel was executed, not even the runtime's own"
    elif found.absent and not found.bad:
        files = "file" if len(found.absent) == 1 else "files"
        says = f"Archives of {len(found.absent)} split {files} are missing; the rest loads ({counted})"
    elif found.unlike and not found.bad:
        archives = "archive is" if len(found.unlike) == 1 else "archives are"
        says = f"{len(found.unlike)} {archives} of another build, or damaged; all code loads ({counted})"
    elif found.passed:
        says = f"All of {_objects(len(found.objects))} load, with {kernels} kernels ({counted})"
    else:
        is_ = "is" if len(found.bad) == 1 else "are"
        says = f"{len(found.bad)} of {_objects(len(found.objects))} {is_} wrong ({counted})"
    notes = [_PROVES, "Code objects are loaded and their kernels looked up; none of them is launched."]
    notes += [f"{name} has code for other targets only" for name in found.lacking[:_NOTED]]
    if len(found.lacking) > _NOTED:
        notes.append(f"and {len(found.lacking) - _NOTED} more have; results.json names them")
    notes += [f"{name} is split, and its archives are not beside it" for name in found.absent]
    notes += found.unlike
    if len(ordered) > _LISTED:
        notes.append(f"{len(ordered) - _LISTED} more objects stand in results.json")
    rows = tuple(
        ViewRow((one.name, one.source, one.state, str(one.kernels), _why(one)), one.state in GOOD)
        for one in ordered[:_LISTED]
    )
    return View(
        f"Code objects for {found.emulated.target} (emulated)",
        found.passed,
        says,
        _about(found.emulated, found.seconds, found.cpu_s, found.own_s),
        ("Code object", "File", "", "Kernels", "Why"),
        rows,
        tuple(notes),
        brief=True,
    )


def _objects(count: int) -> str:
    return f"{count} code {'object' if count == 1 else 'objects'}"


def _why(one: LoadedObject) -> str:
    if not one.bad:
        return one.detail
    first, why = one.bad[0]
    more = one.bad_count - 1
    return f"{first}: {why}" + (f", and {more} more" if more > 0 else "")


def _about(record: Emulated, wall: float, cpu: float, own: float) -> tuple[tuple[str, str], ...]:
    return (
        ("device", f"{record.target}, emulated"),
        ("emulator", f"{record.name} {record.version}".rstrip()),
        ("its digest", record.digest),
        ("configuration", record.configuration),
        ("HIP's runtime", record.runtime),
        ("kernels executed", str(record.dispatches)),
        ("took", f"{wall:.1f} s, {cpu:.1f} s of processor; the runner itself {own:.2f} s"),
    )


def as_markdown(view: View) -> str:
    """The view as Markdown."""
    rows = [[workflow.cell(text) for text in (_mark(row.good), *row.cells)] for row in view.rows]
    lines = [f"# {view.title}", "", f"{_mark(view.good)} {view.says}", ""]
    lines += workflow.table(("", *view.head), rows)
    lines += [f"- {name}: {value}" for name, value in view.about if value]
    return "\n".join([*lines, "", *view.notes, ""])


def as_page(view: View) -> str:
    """The view as an HTML page; the word emulated stands in its title."""
    kind = "passed" if view.good else "failed"
    head = f'<p class="state {kind}">{_mark(view.good)} {escape(view.says)}</p>\n{page.facts(view.about)}'
    body = "".join(
        f'<tr><td class="state {_class(row.good)}">{_mark(row.good)}</td>'
        + "".join(f"<td>{escape(text)}</td>" for text in row.cells)
        + "</tr>\n"
        for row in view.rows
    )
    notes = "".join(f"<p>{escape(text)}</p>\n" for text in view.notes)
    return page.html_page(
        view.title, head, notes + page.table(page.heads(("", *view.head)), body, view.title)
    )


def _mark(good: bool | None) -> str:
    return "–" if good is None else "✓" if good else "✗"


def _class(good: bool | None) -> str:
    return "quiet" if good is None else "passed" if good else "failed"


def write_report(directory: Path, view: View, record: Calibration | LoadedCode) -> None:
    """Write `results.json`, `report.md` and `index.html` into a directory."""
    write_text(
        directory / "results.json", msgspec.json.format(msgspec.json.encode(record), indent=1).decode()
    )
    write_text(directory / "report.md", as_markdown(view))
    write_text(directory / "index.html", as_page(view))


def disagreements(named: Mapping[str, Mapping[str, str]]) -> tuple[tuple[str, dict[str, str]], ...]:
    """What came out differently under several emulators: its name, and the state under each.

    `named` maps emulators to the state of each thing.
    """
    things = dict.fromkeys(thing for states in named.values() for thing in states)
    rows: Sequence[tuple[str, dict[str, str]]] = [
        (thing, {one: states.get(thing, "not run") for one, states in named.items()}) for thing in things
    ]
    return tuple((thing, states) for thing, states in rows if len(set(states.values())) > 1)
