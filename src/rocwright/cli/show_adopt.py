"""How adopted sets are printed, and the sets that an index has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rocwright.check.report import Report
from rocwright.cli.answer import Answer
from rocwright.cli.fold_findings import runs, told
from rocwright.cli.show_check import targets_text
from rocwright.pipeline.adopt.find import Judged
from rocwright.pipeline.adopt.run import Adopted
from rocwright.system import console
from rocwright.system.console import human_bytes


def sets_answer(found: Sequence[Judged]) -> Answer:
    """Print the sets of an index: what each grows from, whether it is whole, and what does not fit."""
    rows = [
        {
            "project": one.found.root[0],
            "version": one.found.root[1],
            "build": one.found.label,
            "whole": one.whole,
            "versions": one.found.versions,
            "files": [file.name for file in one.files],
            "problems": one.problems,
        }
        for one in found
    ]

    def show() -> None:
        table = [(one.name, "whole" if one.whole else "mixed", str(len(one.files))) for one in found]
        console.table("", ("Set", "State", "Files"), table, right=(2,))
        for one in found:
            for problem in one.problems:
                console.out(f"{one.name}: {problem}")

    return Answer({"sets": rows}, show)


def adopted_answers(done: Adopted, after: Sequence[str]) -> Iterator[Answer]:
    """An adopted set: its id, what it is made of, how much was read for it; the lines `after` are said."""
    for note in done.notes:
        console.say(f"note: {note}")
    for name, why in done.missing.items():
        console.say(f"warning: the set is without {name}: {why}")
    value = {
        "set": done.set_id,
        "family": done.manifest.family,
        "targets": done.manifest.targets,
        "files": [entry.name for entry in done.manifest.files],
        "recorded": done.recorded,
        "index_url": done.index_url,
        "basis": "metadata" if done.checked is None else "files",
        "metadata": done.report.predicate(),
        "checked": None if done.checked is None else done.checked.predicate(),
        "requests": done.requests,
        "received": done.received,
        "downloaded": done.downloaded,
        "missing": done.missing,
        "notes": done.notes,
    }
    yield Answer(value, lambda: _show_adopted(done))
    for line in after:
        console.say(line)


def _show_adopted(done: Adopted) -> None:
    for run in runs((done.checked or done.report).findings):
        story = told(run)
        for line in (*story.causes, *(f"  {item}" for item in story.items)):
            console.say(f"{run[0].severity} [{run[0].rule}] {line}")
    console.say(_verdict("metadata", done.report))
    if done.checked is not None:
        console.say(f"{_verdict('files', done.checked)} (as wheels that others built)")
    else:
        console.say("its files were not looked at: no channel takes it before that")
    if done.downloaded:
        console.say(f"downloaded whole: {', '.join(done.downloaded)}")
    console.say(f"{done.requests} requests, {human_bytes(done.received)}")
    if done.index_url is not None:
        console.say(f"index of this set: {done.index_url}")
    for entry in done.manifest.files:
        console.say(f"  {entry.name}  {human_bytes(entry.size)}")
    console.say(
        f"for {done.manifest.family}: {targets_text(done.manifest.targets) or 'no GPU target is named'}"
    )
    console.out(done.set_id)


def _verdict(what: str, report: Report) -> str:
    return f"{what}: {report.errors} errors, {report.warnings} warnings"
