"""`rocwright test skips audit | port`: run the tests of skip entries again, here or with another torch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.gputest.options import Gpus, TestedTorch, wanted
from rocwright.cli.gputest.skips import EntryOptions
from rocwright.cli.options import Amount, Count, OptionalAmount
from rocwright.cli.reply import Reply, replies
from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.gputest.environment import fresh_cache
from rocwright.gputest.setting import environment_of, gather
from rocwright.gputest.skips.audit import Audit, Bench, as_markdown, audit
from rocwright.gputest.skips.bring import port, port_plan
from rocwright.gputest.skips.entries import families_table, remove_entries, rendered, write_new
from rocwright.model.platforms import this_platform
from rocwright.model.suites import SuiteTable
from rocwright.system import console
from rocwright.system.days import today
from rocwright.system.files import write_text


@Parameter(name="*")
@dataclass(frozen=True)
class RerunOptions:
    """How tests are run again."""

    test_timeout: OptionalAmount = None
    """Seconds that one test may take (default: 900)."""

    hang_timeout: Amount = 60
    """Seconds for a test that an entry says hangs."""

    times: Count = 1
    """How often each test runs; it passes when it passes every time."""

    log_dir: Path = Path("skips-logs")
    """Where the workers' logs go."""


@contextmanager
def opened_bench(tested: TestedTorch, gpus: Gpus, rerun: RerunOptions) -> Iterator[Bench]:
    """The place to run tests again in. Raises `UsageError`, `MissingTool`, `NoGpu` as `test units`."""
    overlay = read_overlay()
    table, families = load_table("tests", SuiteTable, overlay), families_table(overlay)
    setting = gather(wanted(tested, gpus), table, families, platform=this_platform(), note=console.say)
    targets = tuple(setting.by_target)
    if len(targets) > 1:
        raise UsageError(
            f"there are GPUs of several targets: {', '.join(targets)}",
            next_step=f"choose one: --amdgpu-family {targets[0]}",
        )
    with fresh_cache() as cache:
        yield Bench(
            setting=setting,
            target=targets[0],
            table=table,
            environment=environment_of(setting, table, Path(cache), os.environ),
            work_dir=rerun.log_dir,
            test_s=rerun.test_timeout or table.limits.test_s,
            hang_s=rerun.hang_timeout,
            times=rerun.times,
            families=families,
        )


_ENTRIES, _RERUN, _TESTED, _GPUS = EntryOptions(), RerunOptions(), TestedTorch(), Gpus()


@replies
def gputest_skips_audit(
    *,
    tested: TestedTorch = _TESTED,
    gpus: Gpus = _GPUS,
    entries: EntryOptions = _ENTRIES,
    rerun: RerunOptions = _RERUN,
    report: Path | None = None,
    write: Annotated[bool, Parameter(negative=())] = False,
) -> Iterator[Reply]:
    """Run the tests of skip entries that apply here, isolated and not skipped, and advise which may go.

    An entry may go when all of its tests pass, or no longer exist. Entries for flaky tests are not judged.

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
        raise UsageError(
            "--write changes the files that --skips names, and none is named", next_step="give --skips FILE"
        )
    chosen = entries.entries()
    with opened_bench(tested, gpus, rerun) as bench:
        found = audit(bench, chosen, today(), tell=console.say)
    if report is not None:
        write_text(report, as_markdown(found))
    yield Reply(found, lambda: _show_advice(found))
    if write:
        for path, gone in remove_entries(entries.skips, found.removable).items():
            console.say(f"removed from {path}: {', '.join(gone)}")


def _show_advice(found: Audit) -> None:
    if not found.entries:
        console.say("no entry that applies here has tests to run again")
        return
    rows = [(one.entry, one.kind, one.advice, one.why) for one in found.entries]
    console.table("Skip entries", ("entry", "kind", "advice", "why"), rows)


@replies
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
) -> Reply:
    """Run the tests of the entries for one version of torch with another one; keep what still fails.

    Prints a file of new entries for --skips, each with exactly the tests that fail. Tests that pass are
    named, and left out.

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
            return Reply(plan, lambda: console.table(f"Entries for torch {old}", head, rows, right=(1,)))
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

    return Reply(found, show)
