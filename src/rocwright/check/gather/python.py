"""The Python of wheels, as an interpreter sees it: read by a process beside while the members are inflated.

A process of its own takes no turn from the threads that inflate, survives no source that kills an interpreter
in our stead, and may be any Python. A few small sources are looked at here: to start one takes longer.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from rocwright.check.facts import Import, PythonFacts
from rocwright.check.gather import inside_python
from rocwright.errors import CommandFailed
from rocwright.system import process
from rocwright.wheel.read import WheelMember, place_of
from rocwright.wheel.zipformat import DEFLATED, ENCRYPTED, STORED

# Below this a process beside is not worth its start.
_FEW = 64 << 10
_EACH = 4 << 20
_MOST_DEATHS, _LIMIT_S = 3, 900.0
_MODULE = re.compile(r"(?:[^/]+/)*[^/]+\.py")
_TOP = re.compile(r"([A-Za-z_]\w*)(?:/.+|\.py|\..+\.(?:so|pyd)|\.(?:so|pyd))")

Wheels = Mapping[Path, Sequence[WheelMember]]


def is_module(name: str) -> bool:
    """Whether a member is Python that gets into site-packages."""
    return _MODULE.fullmatch(name) is not None and not place_of(name).startswith("<")


class PythonReader:
    """Reads the sources of wheels as soon as it is made, with `threads` to spare; a context.

    `interpreter` is the Python that judges, that of rocwright by default.
    """

    def __init__(self, wheels: Wheels, *, threads: int = 2, interpreter: Path | None = None) -> None:
        self.minor = sys.version_info.minor
        self._asked = [_asked(path, members) for path, members in wheels.items()]
        self._tops = sorted({top for members in wheels.values() for top in _tops(members)})
        self._interpreter = interpreter or Path(sys.executable)
        size = sum(member[3] for wheel in self._asked for member in wheel["sources"])
        self._here = interpreter is None and size <= _FEW
        several = max(1, min(threads // 2, size // _EACH))
        self._pool = ThreadPoolExecutor(several, "rocwright-python")
        # A source takes as long as it has bytes; each process gets some of every wheel.
        self._parts: list[Future[list[_Row]]] = []
        if not self._here:
            shares = (_share(self._asked, number, several) for number in range(several))
            self._parts = [self._pool.submit(self._beside, share) for share in shares]

    def __enter__(self) -> PythonReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def done(self) -> dict[Path, tuple[PythonFacts, ...]]:
        """What the sources of each wheel are, once all of them were read."""
        rows = self._in_place() if self._here else [row for part in self._parts for row in part.result()]
        found: dict[Path, list[PythonFacts]] = {}
        for path, member, answer in rows:
            if answer is not None and (facts := _facts(member, answer)) is not None:
                found.setdefault(Path(path), []).append(facts)
        return {path: tuple(sorted(each, key=lambda one: one.member)) for path, each in found.items()}

    def _in_place(self) -> list[_Row]:
        try:
            answers = list(inside_python.answers(self._asked, set(self._tops)))
        except OSError:
            return []  # whoever reads the members says so
        return [
            (path, name, answer) for (path, name), answer in zip(_names(self._asked), answers, strict=True)
        ]

    def _beside(self, wheels: list[dict[str, Any]]) -> list[_Row]:
        """What a process says; where it dies of a source, another one goes on behind it."""
        rows: list[_Row] = []
        for _ in range(_MOST_DEATHS):
            names = list(_names(wheels))
            if not names:
                break
            answers, complete = self._run(wheels)
            rows += [(path, name, answer) for (path, name), answer in zip(names, answers, strict=False)]
            if complete:
                break
            wheels = _behind(wheels, len(answers) + 1)
        return rows

    def _run(self, wheels: list[dict[str, Any]]) -> tuple[list[Any], bool]:
        with tempfile.TemporaryDirectory(prefix="rocwright-python-") as folder:
            asked, answers = Path(folder, "asked.json"), Path(folder, "answers.jsonl")
            asked.write_text(json.dumps({"wheels": wheels, "tops": self._tops}), encoding="utf-8")
            options = ["-I", "-S", "-X", "utf8", "-W", "ignore"]
            argv: list[str | Path] = [
                self._interpreter,
                *options,
                Path(inside_python.__file__),
                asked,
                answers,
            ]
            complete = True
            try:
                process.run(argv, limit_s=_LIMIT_S)
            except CommandFailed:
                complete = False
            lines = answers.read_text(encoding="utf-8").splitlines() if answers.exists() else []
        return [json.loads(line) for line in lines if line.endswith(("}", "null"))], complete


_Row = tuple[str, str, Any]


def _asked(path: Path, members: Sequence[WheelMember]) -> dict[str, Any]:
    readable = [one for one in members if not one.flags & ENCRYPTED and one.method in (STORED, DEFLATED)]
    sources = [_row(one) for one in readable if is_module(one.name) and one.size <= inside_python.LARGEST]
    entry = next((one for one in readable if one.name.endswith(".dist-info/entry_points.txt")), None)
    return {"path": str(path), "sources": sources, "entry": None if entry is None else _row(entry)}


def _row(member: WheelMember) -> list[Any]:
    return [member.name, member.offset, member.packed, member.size, member.method, member.crc]


def _tops(members: Sequence[WheelMember]) -> Iterator[str]:
    for member in members:
        match = _TOP.fullmatch(place_of(member.name))
        if match is not None:
            yield match.group(1)


def _share(wheels: list[dict[str, Any]], number: int, several: int) -> list[dict[str, Any]]:
    return [{**wheel, "sources": wheel["sources"][number::several]} for wheel in wheels]


def _names(wheels: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for wheel in wheels:
        for member in wheel["sources"]:
            yield wheel["path"], member[0]


def _behind(wheels: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """What is left when `count` sources are done with."""
    left = []
    for wheel in wheels:
        left.append({**wheel, "sources": wheel["sources"][count:]})
        count = max(0, count - len(wheel["sources"]))
    return left


def _facts(member: str, answer: Mapping[str, Any]) -> PythonFacts | None:
    """None for a module of which there is nothing to say."""
    facts = PythonFacts(
        member,
        problem=answer.get("problem"),
        line=answer.get("line", 0),
        needs=answer.get("needs", 0),
        names=frozenset(answer["names"]) if "names" in answer else None,
        dynamic=answer.get("dynamic", False),
        spreads=answer.get("spreads", False),
        version=answer.get("version"),
    )
    imports = tuple(
        Import(line, dots, module, None if names is None else tuple(names), raised)
        for line, dots, module, names, raised in answer["imports"]
    )
    return None if not imports and facts == PythonFacts(member) else replace(facts, imports=imports)
