"""`rocwright data list`: the tables of facts."""

from __future__ import annotations

from pathlib import Path

from rocwright.cli.answer import Answer, answers
from rocwright.data.explain import list_tables
from rocwright.data.overlay import read_overlay
from rocwright.system import console


@answers(before="config")
def data_list(*, config: Path | None = None) -> Answer:
    """List the tables of facts: what each holds, and which a rocwright.toml may add to.

    For example: rocwright data list; rocwright data explain families

    Parameters
    ----------
    json
        Print the tables as JSON.
    config
        A rocwright.toml (default: the one here), of whose tables the lines are shown.
    """
    tables = list_tables(read_overlay(config))

    def show() -> None:
        rows = [
            (one.name, str(one.facts), "yes" if one.overlaid else "no", one.where, one.about)
            for one in tables
        ]
        console.table(
            "Tables of facts", ("table", "facts", "overlay", "adds here", "about"), rows, right=(1,)
        )

    return Answer(tables, show)
