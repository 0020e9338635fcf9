"""A name has one concept: whoever reads `Wanted` in a traceback need not ask in which of eight rooms."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src" / "rocwright"
# Two rooms may each have a small helper of the same name; where three have it, the name says nothing.
MOST = 2


def test_no_class_name_is_defined_in_three_places() -> None:
    places = defaultdict(list)
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.relative_to(SOURCES).as_posix())
    assert len(places) > 500
    assert {name: found for name, found in places.items() if len(found) > MOST} == {}
