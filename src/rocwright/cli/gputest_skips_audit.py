"""`rocwright test skips audit`: run what entries leave out, and say which of them may go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers
from rocwright.cli.gputest_options import Gpus, TestedTorch
from rocwright.cli.skips_bench import RerunOptions, opened_bench
from rocwright.cli.skips_options import EntryOptions
from rocwright.errors import UsageError
from rocwright.gputest.skips.act import audit
from rocwright.gputest.skips.audit import Audit, as_markdown
from rocwright.gputest.skips.toml_text import remove_entries
from rocwright.system import console
from rocwright.system.days import today
from rocwright.system.files import write_text

_ENTRIES, _RERUN, _TESTED, _GPUS = EntryOptions(), RerunOptions(), TestedTorch(), Gpus()


@answers
def gputest_skips_audit(
    *,
    tested: TestedTorch = _TESTED,
    gpus: Gpus = _GPUS,
    entries: EntryOptions = _ENTRIES,
    rerun: RerunOptions = _RERUN,
    report: Path | None = None,
    write: Annotated[bool, Parameter(negative=())] = False,
) -> Iterator[Answer]:
    """Run the tests of the entries that hold here, isolated and without the entries, and advise.

    An entry may go when all of its tests pass, or are no more. Flaky ones are not judged.

    Parameters
    ----------
    report
        Where to write the advice as Markdown.
    write
        Take entries that may go out of the --skips files; everything else in them stays as it is.
    json
        Print the advice as JSON.
    """
    if write and not entries.skips:
        raise UsageError("--write changes files of --skips, and none is given", next_step="give --skips FILE")
    chosen = entries.entries()
    with opened_bench(tested, gpus, rerun) as bench:
        found = audit(bench, chosen, today(), tell=console.say)
    if report is not None:
        write_text(report, as_markdown(found))
    yield Answer(found, lambda: _show(found))
    if write:
        for path, gone in remove_entries(entries.skips, found.removable).items():
            console.say(f"took out of {path}: {', '.join(gone)}")


def _show(found: Audit) -> None:
    if not found.entries:
        console.say("no entry holds here whose tests could be run again")
        return
    rows = [(one.entry, one.kind, one.advice, one.why) for one in found.entries]
    console.table("Skip entries", ("entry", "kind", "advice", "why"), rows)
