"""How a report is printed for people: runs, causes, what is fixed."""

from __future__ import annotations

from rocwright.gputest.report.markdown import clock
from rocwright.gputest.report.values import Judged
from rocwright.model.testing import BAD
from rocwright.system import console

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
