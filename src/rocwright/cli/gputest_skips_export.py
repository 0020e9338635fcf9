"""`rocwright test skips export`: entries as an expression for pytest's -k, or in the reference's format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers
from rocwright.cli.skips_options import EntryOptions, PlaceOptions, collected_list
from rocwright.errors import UsageError
from rocwright.gputest.skips.export import exported
from rocwright.gputest.skips.expression import expression
from rocwright.gputest.skips.hold import where_fits
from rocwright.gputest.skips.place import closed, unknown_of
from rocwright.gputest.skips.toml_text import write_all_new
from rocwright.model.platforms import this_platform
from rocwright.system import console

_ENTRIES, _PLACE = EntryOptions(), PlaceOptions()
_SHOWN = 10


@answers
def gputest_skips_export(
    *,
    entries: EntryOptions = _ENTRIES,
    place: PlaceOptions = _PLACE,
    format_: Annotated[Literal["expression", "lists"], Parameter(name="--format")] = "expression",
    include: Annotated[bool, Parameter(name=["--include", "--include-tests"])] = False,
    collected: Path | None = None,
    output: Path | None = None,
) -> Answer:
    """Print the entries that hold at a place as an expression for pytest's -k, or write skip lists.

    An expression means more tests than the entries do: -k looks for each word in names of tests, classes and
    files. Without entries nothing is printed. A target, version or platform that is not given is none for an
    expression (the platform: this one), and all of them for lists.

    Parameters
    ----------
    format_
        expression, or lists: files in the format of generic.py and pytorch_2.9.py.
    include
        An expression that runs these tests and no others.
    collected
        A list of node ids: says which tests the expression would hit besides.
    output
        The directory for lists.
    json
        Print the result as JSON.
    """
    chosen, families, asked = entries.entries(), entries.families(), place.place()
    if (format_ == "lists") != (output is not None):
        raise UsageError("--format lists and --output belong together", next_step="give both or none")
    if format_ == "lists" and output is not None:
        fitting = [entry for entry in chosen if where_fits(entry.where, asked, families)]
        lists = exported(fitting, families, asked.torch)
        _say_left_out(lists.left_out)
        written = write_all_new(output, lists.files)

        def show_written() -> None:
            for path in written:
                console.out(str(path))

        return Answer(lists, show_written)
    here = closed(asked, place.target, place.torch, this_platform())
    found = expression(
        [entry for entry in chosen if where_fits(entry.where, here, families)],
        include=include,
        collected=collected_list(collected),
    )
    _say_left_out({**found.left_out, **unknown_of(chosen, here, asked, families)})
    if found.also_hit:
        shown = ", ".join(found.also_hit[:_SHOWN])
        more = f" and {len(found.also_hit) - _SHOWN} more" if len(found.also_hit) > _SHOWN else ""
        console.say(f"warning: the expression also hits {len(found.also_hit)} other tests: {shown}{more}")

    def show() -> None:
        if found.expression:
            console.out(found.expression)
        else:
            console.say("no entry holds there, so there is no expression; leave -k out")

    return Answer(found, show)


def _say_left_out(left_out: dict[str, str]) -> None:
    for name, why in left_out.items():
        console.say(f"note: {name} is left out: it {why}")
