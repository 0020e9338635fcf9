"""`rocwright test skips lint`: does each entry match what it says, and nothing else?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rocwright.cli.answer import Answer, answers
from rocwright.cli.skips_options import EntryOptions, PlaceOptions, collected_list, require_one_source
from rocwright.errors import ContractBroken
from rocwright.gputest.skips.hold import where_fits
from rocwright.gputest.skips.lint import lint
from rocwright.gputest.skips.tree import TestTree
from rocwright.system import console
from rocwright.system.days import today

_ENTRIES, _PLACE = EntryOptions(), PlaceOptions()


@answers
def gputest_skips_lint(
    *,
    entries: EntryOptions = _ENTRIES,
    place: PlaceOptions = _PLACE,
    collected: Path | None = None,
    pytorch_dir: Path | None = None,
    python: Path | None = None,
) -> Iterator[Answer]:
    """Judge the entries against the tests that there are; exit code 9 when one is wrong.

    Wrong is an entry that matches no test, more tests than it declares or tests of several files, one that
    has expired, and two entries for one test in one place. Without a list of tests only what the entries say
    of themselves is judged.

    Parameters
    ----------
    collected
        A list of node ids (pytest --collect-only -q), or the results.json of a whole run.
    pytorch_dir
        A PyTorch checkout: the files that the entries name are collected there.
    python
        The interpreter with torch and pytest for that (default: the one that runs here).
    json
        Print the findings as JSON.
    """
    require_one_source(collected, pytorch_dir)
    chosen, families, asked = entries.entries(), entries.families(), place.place()
    judged = tuple(entry for entry in chosen if where_fits(entry.where, asked, families))
    tests = collected_list(collected)
    if pytorch_dir is not None:
        tests = TestTree.opened(pytorch_dir, python).collected(judged)
    found = lint(chosen, families, today(), place=asked, collected=tests)

    def show() -> None:
        if found.findings:
            rows = [(one.entry, one.severity, one.rule, one.test, one.what) for one in found.findings]
            console.table("", ("entry", "severity", "rule", "pattern", "what"), rows)

    yield Answer(found, show)
    against = f"against {len(tests.ids)} tests" if tests else "without a list of tests"
    console.say(
        f"entries judged {against}: {len(judged)}; "
        f"errors: {len(found.errors)}, warnings: {len(found.findings) - len(found.errors)}"
    )
    if found.errors:
        raise ContractBroken(
            f"findings against skip entries: {len(found.errors)}",
            next_step="mend the entries that are named, or take them out",
        )
