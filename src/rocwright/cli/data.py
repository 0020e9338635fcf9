"""`rocwright data`: the tables of facts that rocwright decides by, and where a fact comes from."""

from __future__ import annotations

from pathlib import Path

from rocwright.cli.reply import Reply, replies
from rocwright.data.explain import TableInfo, explain, list_tables
from rocwright.data.overlay import read_overlay
from rocwright.system import console
from rocwright.system.days import today


@replies(before="config")
def data_list(*, config: Path | None = None) -> Reply:
    """List the tables of facts: what each holds, and which a rocwright.toml may add to.

    For example: rocwright data list; rocwright data explain families

    Parameters
    ----------
    json
        Print the tables as JSON.
    config
        A rocwright.toml (default: the one here); the lines of its tables are shown.
    """
    tables = list_tables(today(), read_overlay(config))

    def show() -> None:
        rows = [
            (one.name, str(one.facts), _age(one), "yes" if one.overlaid else "no", one.where, one.about)
            for one in tables
        ]
        console.table(
            "Tables of facts", ("table", "facts", "read", "overlay", "adds here", "about"), rows, right=(1,)
        )

    return Reply(tables, show)


def _age(one: TableInfo) -> str:
    return ("" if one.read is None else str(one.read)) + (" (old)" if one.late else "")


@replies(before="config")
def data_explain(
    key: str,
    /,
    *,
    config: Path | None = None,
) -> Reply:
    """Say where a fact comes from: built in or your rocwright.toml, in which file and line, and its source.

    A key is the name of a table and the names below it, with dots; a row of a list is named by its number, or
    by what it is called. A dot inside a name is written as it is.

    For example: rocwright data explain families.family.gfx1151; rocwright data explain channels.max_age

    Parameters
    ----------
    key
        The fact.
    json
        Print the explanation as JSON.
    config
        A rocwright.toml (default: the one here).
    """
    found = explain(key, read_overlay(config))

    def show() -> None:
        console.out(f"{found.key} = {found.shown}", hang=4)
        console.out(
            f"from      {found.origin}: {found.where}" + (f", line {found.line}" if found.line else ""),
            hang=10,
        )
        for word, text in (
            *(("source", str(one)) for one in found.sources),
            ("comment", found.comment),
            ("replaces", found.replaces),
        ):
            if text:
                console.out(f"{word:<9} {text}", hang=10)

    return Reply(found, show)
