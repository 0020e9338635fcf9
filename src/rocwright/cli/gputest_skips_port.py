"""`rocwright test skips port`: carry entries over to another version of torch, those that still fail."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers
from rocwright.cli.gputest_options import Gpus, TestedTorch
from rocwright.cli.skips_bench import RerunOptions, opened_bench
from rocwright.cli.skips_options import EntryOptions
from rocwright.gputest.skips.act import port, port_plan
from rocwright.gputest.skips.toml_text import rendered, write_new
from rocwright.system import console
from rocwright.system.days import today

_ENTRIES, _RERUN, _TESTED, _GPUS = EntryOptions(), RerunOptions(), TestedTorch(), Gpus()


@answers
def gputest_skips_port(
    old: str,
    new: str,
    /,
    *,
    tested: TestedTorch = _TESTED,
    gpus: Gpus = _GPUS,
    entries: EntryOptions = _ENTRIES,
    rerun: RerunOptions = _RERUN,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    output: Path | None = None,
) -> Answer:
    """Run the tests of the entries for one version of torch with another one; keep what still fails.

    Prints a file of new entries for --skips, each with exactly the tests that fail. What passes is named, and
    not carried over.

    Parameters
    ----------
    old
        The version that the entries hold for, such as 2.9.
    new
        The version of the checkout and of the installed torch, such as 2.10.
    dry_run
        List the entries and how many tests they match there, and run none.
    output
        Where to write the new entries (default: stdout).
    json
        Print what becomes of each entry as JSON.
    """
    chosen = entries.entries()
    with opened_bench(tested, gpus, rerun) as bench:
        if dry_run:
            plan = port_plan(bench, chosen, old, new, today())
            rows = [(name, str(len(tests))) for name, tests in plan.items()]
            head = ("entry", f"tests in {new}")
            return Answer(plan, lambda: console.table(f"Entries for torch {old}", head, rows, right=(1,)))
        found = port(bench, chosen, old, new, today(), tell=console.say)
    for one in found:
        console.say(f"{one.fate:6}{one.entry}: {one.why}")
    kept = [one.new for one in found if one.new is not None]
    text = rendered(kept)
    if output is not None:
        write_new(output, text)

    def show() -> None:
        if output is None and kept:
            console.out(text.rstrip("\n"))

    return Answer(found, show)
