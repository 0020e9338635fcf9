"""What the tests say of themselves: how they break wheels for each rule, how they cover the documents."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blocks.rules import rule_ids
from blocks.text import code, table
from rocwright.check.rules import OWN_RULES

TESTS = str(Path(__file__).resolve().parents[2] / "tests")


@contextmanager
def _with_tests() -> Iterator[None]:
    """Modules of the tests can be imported for as long as it takes."""
    sys.path.insert(0, TESTS)
    try:
        yield
    finally:
        sys.path.remove(TESTS)


def render_mutations() -> str:
    """Each rule with the ways in which the tests break good wheels for it."""
    with _with_tests():
        from real.mutations import MUTATIONS
    order = [*(rule.id for rule in OWN_RULES), *rule_ids()]
    rows = sorted(MUTATIONS, key=lambda one: order.index(one.rule))
    head = ("Rule", "What is broken", "In the set", "Test")
    return f"{len(rows)} mutations for {len(order)} rules.\n\n" + table(
        head, ((code(one.rule), one.breaks, one.of, code(one.id)) for one in rows)
    )


def render_conformance() -> str:
    """How each row of the documents is covered."""
    with _with_tests():
        from conformance.page import render

        return render()
