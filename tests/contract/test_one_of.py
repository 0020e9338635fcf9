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


def containing(*parts: bytes) -> Found:
    """A text or bytes with any of these in it, however it goes on; what has several lines explains."""

    def found(node: ast.AST) -> bool:
        value = node.value if isinstance(node, ast.Constant) else None
        data = value.encode("latin-1", "replace") if isinstance(value, str) else value
        return isinstance(data, bytes) and b"\n" not in data and any(part in data for part in parts)

    return found


def imported(name: str) -> Found:
    return lambda node: (
        (isinstance(node, ast.ImportFrom) and node.module == name)
        or (isinstance(node, ast.Import) and any(one.name == name for one in node.names))
    )


def called(*names: str) -> Found:
    return lambda node: (
        isinstance(node, ast.Call)
        and (getattr(node.func, "id", None) in names or getattr(node.func, "attr", None) in names)
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
    "the marks of a zip archive, in any spelling": (
        containing(b"PK\3", b"PK\1", b"PK\5", b"PK\6", b"PK\7"),
        ["wheel/zipformat.py"],
    ),
    "the mark of a kpack archive, in any spelling": (containing(b"KPAK"), ["device_code/kpack.py"]),
    "a finding made of a row of a catalogue": (
        called("broken"),
        [
            "check/run.py",
            "compat/doctor/observations.py",
            "device_code/verify/report.py",
            "gputest/skips/lint.py",
            "pipeline/doctor/conditions.py",
        ],
    ),
    "a catalogue of rules": (
        # An `Examination` is a clause that also says in which table of the doctor it stands.
        called("Clause", "Examination"),
        [
            "check/rules/__init__.py",
            "check/run.py",
            "compat/doctor/observations.py",
            "device_code/verify/report.py",
            "gputest/skips/lint.py",
            "pipeline/doctor/conditions.py",
        ],
    ),
    "the end of a process and of those below it": (called("killpg"), ["system/group.py"]),
    # Jobs keep the order that graphlib gives them: it stands in plans that are recorded.
    "the order of what needs each other": (
        imported("graphlib"),
        [
            "builder/decide/extension.py",
            "builder/decide/recipe.py",
            "engine/graph.py",
            "pipeline/define/cells.py",
        ],
    ),
    "sorting by needs": (called("TopologicalSorter"), ["engine/graph.py", "pipeline/define/cells.py"]),
    "holding a directory against other runs": (called("_marked"), ["engine/hold.py"]),
    "what finished work left behind": (
        imported("rocwright.engine.record"),
        [
            "builder/run/family.py",
            "pipeline/cells/act.py",
            "pipeline/cells/inputs.py",
            "pipeline/demo.py",
        ],
    ),
    "running a planned build": (called("Build"), ["builder/run/family.py"]),
    "carrying out the plan of a family": (called("run_family"), ["builder/family.py"]),
    "printing what a command replies as JSON": (called("out_json"), ["cli/reply.py"]),
    "what of the environment decides a build": (
        called("outcome_environment"),
        [
            "builder/run/caching.py",
            "builder/run/family.py",
            "builder/run/leftovers.py",
            "pipeline/steps/torch.py",
        ],
    ),
    "carrying out builds behind a compiler cache": (called("Caching"), ["builder/run/family.py"]),
    "which compiler cache a step takes": (called("compiler_cache"), ["pipeline/steps/torch.py"]),
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


def test_one_place_decides_between_json_and_what_people_read() -> None:
    chosen = {
        path.relative_to(SOURCES).as_posix()
        for path in (SOURCES / "cli").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, (ast.If, ast.IfExp))
        and any(
            getattr(name, "id", getattr(name, "attr", "")) in ("json", "as_json")
            for name in ast.walk(node.test)
        )
    }
    assert chosen == {"cli/reply.py"}
