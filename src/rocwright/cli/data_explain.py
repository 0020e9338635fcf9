"""`rocwright data explain`: where a fact comes from."""

from __future__ import annotations

from pathlib import Path

from rocwright.cli.answer import Answer, answers
from rocwright.data.explain import explain
from rocwright.data.overlay import read_overlay
from rocwright.system import console


@answers(before="config")
def data_explain(
    key: str,
    /,
    *,
    config: Path | None = None,
) -> Answer:
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
        console.out(f"{found.key} = {found.shown}")
        console.out(
            f"from      {found.origin}: {found.where}" + (f", line {found.line}" if found.line else "")
        )
        for word, text in (
            ("source", found.source),
            ("comment", found.comment),
            ("replaces", found.replaces),
        ):
            if text:
                console.out(f"{word:<9} {text}")

    return Answer(found, show)
