"""`rocwright test report`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers
from rocwright.cli.gputest_options import of_environment
from rocwright.cli.report_options import ABOUT, AboutRuns, Flag, Paths
from rocwright.cli.show_report import show_report
from rocwright.cli.store_options import Several, StoreOptions, Text
from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.gputest.report.markdown import markdown
from rocwright.gputest.report.page import html_page
from rocwright.gputest.report.run import Places, judge_places, require_passed, tell_summary
from rocwright.gputest.skips.entries import load_entries
from rocwright.model.signatures import SignatureTable
from rocwright.pipeline.tested import compare_with, state_tested
from rocwright.store.sets.find import resolve_set
from rocwright.system import console, days, files

_DEFAULTS = StoreOptions()
_USUAL = Path("test-reports")
_WHERE = "name the directory that the tests wrote to: --reports-dir DIR"


@answers
def gputest_report(
    *,
    reports_dir: Paths = (),
    combined_dir: Paths = (),
    expect: Several = (),
    previous: Text = "",
    set_: Annotated[str, Parameter(name="--set", show_default=False)] = "",
    attempt: Annotated[int | None, of_environment("GITHUB_RUN_ATTEMPT")] = None,
    markdown_file: Annotated[Path | None, Parameter(name="--markdown")] = None,
    html: Path | None = None,
    title: str = "Test report",
    skips: Paths = (),
    exit_status: Flag = False,
    about: AboutRuns = ABOUT,
    options: StoreOptions = _DEFAULTS,
) -> Iterator[Answer]:
    """Say what test runs came to: each expected run passed, failed or gave no report; failures by cause.

    Reads what `rocwright test units`, `full` and `smoke` wrote, and JUnit files of pytest, unittest and
    PyTorch's run_test.py. Failures are NEW, KNOWN (an entry says so, or they failed like that before), INFRA
    (the machine's fault) or FLAKY; what failed before and passes now is FIXED. With --set it is recorded in
    the store, where the gate reads it. In a workflow the summary of the step gets the report, too.

    Parameters
    ----------
    reports_dir
        Reports of one or several runs (default: test-reports); may be given several times.
    combined_dir
        A directory with one directory for each run, such as downloaded artifacts; may be given several times.
    expect
        Which runs have to report: the JSON file of `rocwright test plan`, the id of a run, or CONFIG=SHARDS.
        May be given several times (default: all shards that the reports count).
    previous
        What to compare with: a directory of reports, or a set in the store (default: with --set, the set of
        its family that was tested before it).
    set_
        The set that was tested: its results are stated in the store, and the reports kept beside it.
    attempt
        Which run of the suite this is (default: what the records say, else 1); a later one replaces an
        earlier one.
    markdown_file
        Write the report as Markdown to this file.
    html
        Write the report as a page to this file.
    title
        The title of the page.
    skips
        TOML files with skip entries whose issues are named with failures; may be given several times.
    exit_status
        End with 1 unless every expected run passed (without it: only where none gave a report).
    json
        Print the report as JSON.
    """
    overlay = read_overlay(options.config)
    table = load_table("signatures", SignatureTable, overlay)
    reports = reports_dir or (() if combined_dir else (_USUAL,))
    # What is named and not there is a run that gave no report, and the report says so; here nothing is named.
    if not (reports_dir or combined_dir or expect or _USUAL.exists()):
        raise UsageError(f"there is no {_USUAL} here, and no other reports are named", next_step=_WHERE)
    places = Places(reports, combined_dir, expect, about.told())
    channels = options.channels()
    digest = resolve_set(options.opened(), channels, set_) if set_ else ""
    compared = compare_with(previous, about.told(), options.opened, channels, digest)
    found, judged, head = judge_places(
        places,
        about.about(digest),
        table,
        previous=compared.reports,
        compared=compared.name,
        entries=load_entries(skips, overlay),
    )
    text = markdown(judged, head, combined=len(judged.shards) > 1)
    if markdown_file is not None:
        files.write_text(markdown_file, text)
    if html is not None:
        files.write_text(html, html_page(judged, head, title=title, history=compared.history))
    tell_summary(text)
    stated = None
    if digest:
        today = days.today()
        stated = state_tested(
            options.opened(), channels, digest, found, judged, suite=about.suite, attempt=attempt, today=today
        )

    def show() -> None:
        show_report(judged)
        for key in stated.statements if stated else ():
            console.say(f"stated: {key}")

    yield Answer({"state": judged.state, "report": judged, "stated": stated}, show)
    for path in (markdown_file, html):
        if path is not None:
            console.say(f"written: {path}")
    if all(one.empty for one in found):
        require_passed(judged, next_step=_WHERE)
    if exit_status:
        require_passed(judged, next_step="see the causes above; --html writes a page with all details")
