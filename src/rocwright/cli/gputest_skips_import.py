"""`rocwright test skips import`: skip lists of the reference's format become entries."""

from __future__ import annotations

from pathlib import Path

from rocwright.cli.answer import Answer, answers
from rocwright.cli.skips_options import Kind, collected_list, day_of
from rocwright.data.overlay import read_overlay
from rocwright.gputest.skips.bring import imported
from rocwright.gputest.skips.entries import families_table
from rocwright.gputest.skips.reference import read_lists
from rocwright.gputest.skips.toml_text import rendered, write_new
from rocwright.system import console


@answers
def gputest_skips_import(
    path: Path,
    /,
    *,
    collected: Path | None = None,
    kind: Kind = "skip",
    added: str | None = None,
    output: Path | None = None,
) -> Answer:
    """Read skip lists (generic.py, pytorch_2.9.py: skip_tests = {section: {module: [names]}}) as entries.

    The files are parsed, never run. Prints a file of entries for --skips.

    Parameters
    ----------
    path
        The directory with the lists, or one of them.
    collected
        A list of node ids (pytest --collect-only -q), or the results.json of a whole run: entries then name
        exact tests. Without it their patterns are wide, and each is to be narrowed.
    kind
        What the entries do.
    added
        The day to write as theirs, such as 2026-01-31 (default: today).
    output
        Where to write the entries (default: stdout).
    json
        Print the entries, and what was odd, as JSON.
    """
    found = imported(
        read_lists(path),
        families_table(read_overlay()),
        added=day_of(added, "--added"),
        kind=kind,
        collected=collected_list(collected),
    )
    for note in found.notes:
        console.say(f"note: {note}")
    if found.wide:
        console.say(
            f"{len(found.wide)} of {len(found.entries)} entries may match more than their names say; "
            + ("give their exact tests" if collected else "--collected FILE makes them exact")
        )
    text = rendered(found.entries)
    if output is not None:
        write_new(output, text)
        console.say(f"wrote {len(found.entries)} entries to {output}")

    def show() -> None:
        if output is None:
            console.out(text.rstrip("\n"))

    return Answer(found, show)
