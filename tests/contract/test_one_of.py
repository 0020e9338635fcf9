"""What stands in one place, and must not be worked out again in the next room."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "src" / "rocwright"
Found = Callable[[ast.AST], bool]


def constant(*values: object) -> Found:
    return lambda node: (
        isinstance(node, ast.Constant)
        and any(type(node.value) is type(value) and node.value == value for value in values)
    )


def imported(name: str) -> Found:
    return lambda node: (
        (isinstance(node, ast.ImportFrom) and node.module == name)
        or (isinstance(node, ast.Import) and any(one.name == name for one in node.names))
    )


def called(name: str) -> Found:
    return lambda node: (
        isinstance(node, ast.Call)
        and (getattr(node.func, "id", None) == name or getattr(node.func, "attr", None) == name)
    )


ONE_OF = {
    "the layout of a kpack archive": (
        constant(b"KPAK", "<4sIQ", "zstd-per-kernel", "gfx_arch_family", "kpack_search_paths"),
        ["device_code/kpack.py"],
    ),
    "the layout of a zip archive": (
        constant(
            *(b"PK\3\4", b"PK\1\2", b"PK\5\6", b"PK\6\6", b"PK\6\7", b"PK\7\x08"),
            *("<4sHHHHHIIIHH", "<4sHHHHHHIIIHHHHHII", "<4sHHHHIIH", "<4sQHHIIQQQQ", "<4sIQI"),
        ),
        ["wheel/zipformat.py"],
    ),
    # Jobs keep the order that graphlib gives them: it stands in plans that are recorded.
    "the order of what needs each other": (
        imported("graphlib"),
        [
            "build/decide/recipe.py",
            "engine/graph.py",
            "model/order.py",
            "pipeline/define/jobs.py",
        ],
    ),
    "sorting by needs": (called("TopologicalSorter"), ["model/order.py", "pipeline/define/jobs.py"]),
    "holding a directory against other runs": (called("_marked"), ["engine/hold.py"]),
    "what finished work left behind": (
        imported("rocwright.engine.record"),
        [
            "build/run/family.py",
            "build/run/resume.py",
            "pipeline/cells/act.py",
            "pipeline/cells/inputs.py",
            "pipeline/demo.py",
            "sdk/stamp.py",
        ],
    ),
    "running a planned build": (called("Build"), ["build/run/family.py"]),
    "carrying out the plan of a family": (called("run_family"), ["build/family.py"]),
    "what of the environment decides a build": (
        called("outcome_environment"),
        ["build/run/leftovers.py", "build/run/resume.py", "pipeline/steps/torch.py"],
    ),
}


@cache
def nodes() -> dict[str, list[ast.AST]]:
    """Of each module, what may tell: parsing takes longer than looking."""
    kinds = (ast.Constant, ast.Import, ast.ImportFrom, ast.Call)
    return {
        path.relative_to(SOURCES).as_posix(): [
            node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, kinds)
        ]
        for path in sorted(SOURCES.rglob("*.py"))
    }


def holders(found: Found) -> Iterator[str]:
    return (path for path, held in nodes().items() if any(map(found, held)))


@pytest.mark.parametrize("what", ONE_OF)
def test_each_concept_stands_where_it_belongs(what: str) -> None:
    found, places = ONE_OF[what]
    assert list(holders(found)) == places
