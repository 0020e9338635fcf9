"""`rocwright test summarize`, also known as `summarize_test_results.py`."""

from __future__ import annotations

from pathlib import Path

from rocwright.cli.report_options import ABOUT, AboutRuns, Flag
from rocwright.cli.store_options import Several
from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.gputest.report.find import Places, judge_places, require_passed, tell_summary
from rocwright.gputest.report.markdown import markdown
from rocwright.model.testing import SignatureTable
from rocwright.system import console


def gputest_summarize(
    *,
    reports_dir: Path = Path("pytorch/test/test-reports"),
    combined_dir: Path | None = None,
    expect: Several = (),
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
        The reports of several: a directory with one of each, test-reports-CONFIG-SHARD-SHARDS. Then
        --reports-dir is not looked at.
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
