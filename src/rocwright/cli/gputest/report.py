"""`rocwright test report | summarize`: what test runs came to, for people, workflows and the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.gputest.options import of_environment
from rocwright.cli.options import Files, Repeated, Text
from rocwright.cli.reply import Reply, replies
from rocwright.cli.store.options import StoreOptions
from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.gputest.report.find import Places, judge_places, require_passed, tell_summary
from rocwright.gputest.report.markdown import About, clock, markdown
from rocwright.gputest.report.page import html_page
from rocwright.gputest.report.values import Judged
from rocwright.gputest.skips.entries import load_entries
from rocwright.model.testing import BAD, Ran, SignatureTable
from rocwright.pipeline.tested import compare_with, state_tested
from rocwright.store.sets.find import resolve_set
from rocwright.system import console, days, files
from rocwright.system.redact import without_login

Flag = Annotated[bool, Parameter(negative=())]


@Parameter(name="*")
@dataclass(frozen=True)
class AboutRuns:
    """What the reports are of, for the head of the page and for runs whose files do not say it."""

    suite: Text = ""
    """The suite that ran: units, smoke-gpu."""

    test_config: Annotated[str, Parameter(env_var="TEST_CONFIG", show_default=False)] = ""
    """The configuration that ran: default, distributed, inductor."""

    target: Text = ""
    """The GPU target that it ran on."""

    emulated: Flag = False
    """The target's GPU was played by an emulator: nothing of it is stated as a test on a GPU."""

    amdgpu_family: Annotated[str, Parameter(env_var="AMDGPU_FAMILY", show_default=False)] = ""
    """The GPU family that the wheels are for."""

    torch_version: Annotated[str, Parameter(env_var="TORCH_VERSION", show_default=False)] = ""
    """The version of torch."""

    python_version: Annotated[str, Parameter(env_var="PYTHON_VERSION", show_default=False)] = ""
    """The version of Python."""

    package_index_url: Annotated[str, Parameter(env_var="PACKAGE_INDEX_URL", show_default=False)] = ""
    """The index that the wheels came from."""

    pytorch_git_ref: Annotated[str, Parameter(env_var="PYTORCH_GIT_REF", show_default=False)] = ""
    """The branch, tag or commit of PyTorch that the tests came from."""

    def told(self) -> Ran:
        """For runs whose files do not say it."""
        return Ran(
            suite=self.suite,
            config=self.test_config or "default",
            target=self.target,
            torch=self.torch_version,
            python=self.python_version,
            device="emulated" if self.emulated else "gpu",
        )

    def about(self, set_id: str = "") -> About:
        """For the head of the report; `set_id` is the set that was tested."""
        return About(
            torch=self.torch_version,
            python=self.python_version,
            family=self.amdgpu_family or self.target,
            index=without_login(self.package_index_url),
            ref=self.pytorch_git_ref,
            set_id=set_id,
        )


ABOUT = AboutRuns()

_DEFAULTS = StoreOptions()
_USUAL = Path("test-reports")
_WHERE = "name the directory that the tests wrote to: --reports-dir DIR"


@replies
def gputest_report(
    *,
    reports_dir: Files = (),
    combined_dir: Files = (),
    expect: Repeated = (),
    previous: Text = "",
    set_: Annotated[str, Parameter(name="--set", show_default=False)] = "",
    attempt: Annotated[int | None, of_environment("GITHUB_RUN_ATTEMPT")] = None,
    markdown_file: Annotated[Path | None, Parameter(name="--markdown")] = None,
    html: Path | None = None,
    title: str = "Test report",
    skips: Files = (),
    exit_status: Flag = False,
    about: AboutRuns = ABOUT,
    options: StoreOptions = _DEFAULTS,
) -> Iterator[Reply]:
    """Report on test runs: each expected run passed, failed or gave no report; failures by cause.

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
        The set that was tested: its results are recorded in the store, and the reports are kept beside it.
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

    yield Reply({"state": judged.state, "report": judged, "stated": stated}, show)
    for path in (markdown_file, html):
        if path is not None:
            console.say(f"written: {path}")
    if all(one.empty for one in found):
        require_passed(judged, next_step=_WHERE)
    if exit_status:
        require_passed(judged, next_step="see the causes above; --html writes a page with all details")


_CAUSES = 20


def show_report(judged: Judged) -> None:
    """Tables on stdout: each run, the causes of failures with the most important first, what is fixed."""
    rows = []
    for one in judged.shards:
        bad = sum(count for verdict, count in one.counts.items() if verdict in BAD)
        tests = str(sum(one.counts.values()))
        why = one.why if one.expected else f"{one.why} (not expected)".strip()
        rows.append((one.name, one.state, tests, str(bad), clock(one.seconds), why))
    console.table("Runs", ("run", "result", "tests", "failed", "time", "why"), rows, right=(2, 3, 4))
    if judged.groups:
        console.out("")
        causes = [
            (
                group.finding,
                str(len(group.cases)),
                str(len(group.tests)),
                str(len(group.shards)),
                group.signature,
                group.tests[0],
            )
            for group in judged.groups[:_CAUSES]
        ]
        head = ("", "failures", "tests", "runs", "cause", "such as")
        console.table("Causes", head, causes, right=(1, 2, 3))
        if len(judged.groups) > _CAUSES:
            console.out(f"and {len(judged.groups) - _CAUSES} more")
    if judged.fixed:
        console.out("")
        fixed = [(one.test, one.where) for one in judged.fixed[:_CAUSES]]
        console.table(f"Fixed ({len(judged.fixed)})", ("test", "where"), fixed)


def gputest_summarize(
    *,
    reports_dir: Path = Path("pytorch/test/test-reports"),
    combined_dir: Path | None = None,
    expect: Repeated = (),
    about: AboutRuns = ABOUT,
    exit_status: Flag = False,
) -> None:
    """Summarize the JUnit files of one run, or of all shards, as Markdown for the page of a workflow.

    It is printed, and appended to the file that GITHUB_STEP_SUMMARY names. Ends with 0 whatever the tests
    showed; see --exit-status. `rocwright test report` says more.

    Parameters
    ----------
    reports_dir
        The reports of one run, as PyTorch's run_test.py or pytest wrote them.
    combined_dir
        The reports of several runs: a directory with one directory for each,
        test-reports-CONFIG-SHARD-SHARDS. --reports-dir is then ignored.
    expect
        Which runs have to report: the JSON file of `rocwright test plan`, the id of a run, or CONFIG=SHARDS.
    exit_status
        End with 1 unless every expected run passed.
    """
    places = Places(
        reports=() if combined_dir else (reports_dir,),
        combined=(combined_dir,) if combined_dir else (),
        expect=expect,
        told=about.told(),
    )
    table = load_table("signatures", SignatureTable, read_overlay())
    _, judged, head = judge_places(places, about.about(), table)
    text = markdown(judged, head, combined=combined_dir is not None)
    console.out(text.rstrip("\n"))
    if not tell_summary(text):
        console.say("GITHUB_STEP_SUMMARY is not set: the summary is only printed")
    if exit_status:
        require_passed(judged, next_step="see the summary above")
