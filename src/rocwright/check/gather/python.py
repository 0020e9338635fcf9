"""The Python of wheels, as an interpreter sees it: read by a process beside while the members are inflated.

A process of its own takes no turn from the threads that inflate, survives no source that kills an interpreter
in our stead, and may be any Python. A few small sources are looked at here: to start one takes longer. What
stands in no package and no entry point leads to is data to every rule, and is not read.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from rocwright.check.facts import Import, PythonFacts
from rocwright.check.gather import inside_python
from rocwright.check.modules import absolute, dotted, is_init
from rocwright.errors import CommandFailed
from rocwright.system import process
from rocwright.wheel.read import WheelMember, place_of
from rocwright.wheel.zipformat import DEFLATED, ENCRYPTED, STORED

# Below this a process beside is not worth its start.
_FEW = 64 << 10
_EACH = 4 << 20
_MOST_DEATHS, _LIMIT_S = 3, 900.0
# By what a source itself ends an interpreter; any other end is the machine's.
_FATAL = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 11: "SIGSEGV"}
_VERSIONS = re.compile(r"[^/]+/_?version\.py")
_MODULE = re.compile(r"(?:[^/]+/)*[^/]+\.py")
_TOP = re.compile(r"([A-Za-z_]\w*)(?:/.+|\.py|\..+\.(?:so|pyd)|\.(?:so|pyd))")

Wheels = Mapping[Path, Sequence[WheelMember]]


def is_module(name: str) -> bool:
    """Whether a member is Python that gets into site-packages."""
    return _MODULE.fullmatch(name) is not None and not place_of(name).startswith("<")


class PythonReader:
    """Reads the sources of wheels as soon as it is made, with `threads` to spare; a context.

    `interpreter` is the Python that judges, that of rocwright by default. With `only`, members of these names
    are read, wherever they stand.
    """

    def __init__(
        self,
        wheels: Wheels,
        *,
        threads: int = 2,
        interpreter: Path | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        self.minor = sys.version_info.minor
        self.left: dict[Path, str] = {}
        # Members that entry points lead to.
        self._named: set[str] = set()
        self._asked = [_asked(path, members, only, self._named) for path, members in wheels.items()]
        self._tops = sorted({top for members in wheels.values() for top in _tops(members)})
        self._interpreter = interpreter or Path(sys.executable)
        size = sum(member[3] for wheel in self._asked for member in wheel["sources"])
        self._here = interpreter is None and size <= _FEW
        several = max(1, min(threads, size // _EACH))
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
        asked, there = set(_asked_for_names(rows)), {(path, member) for path, member, _ in rows}
        for path, member, answer in rows:
            hidden = (path, f"{member.removesuffix('.py')}/__init__.py") in there
            names = hidden or is_init(member) or dotted(member) in asked or member in self._named
            if answer is not None and (facts := _facts(member, answer, names=names)) is not None:
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
        """What a process says; where it dies of a source, that is told, and another one goes on behind it."""
        rows: list[_Row] = []
        deaths = 0
        careful = False
        while names := list(_names(wheels)):
            answers, failed = self._run(wheels, careful=careful)
            rows += [(path, name, answer) for (path, name), answer in zip(names, answers, strict=False)]
            if failed is None and len(answers) >= len(names):
                break
            wheels = _behind(wheels, len(answers))
            if careful:
                deaths += 1
                path, name = names[min(len(answers), len(names) - 1)]
                killed = _FATAL.get(-failed.status) if failed is not None else None
                if killed is None or deaths > _MOST_DEATHS:
                    why = "the interpreter ended early" if failed is None else failed.what
                    self.left.update((Path(wheel["path"]), why) for wheel in wheels if wheel["sources"])
                    break
                said = f"it ends the interpreter itself ({killed})"
                rows.append((path, name, {"imports": [], "problem": said, "line": 1, "dynamic": True}))
                wheels = _behind(wheels, 1)
            careful = True
        return rows

    def _run(self, wheels: list[dict[str, Any]], *, careful: bool) -> tuple[list[Any], CommandFailed | None]:
        with tempfile.TemporaryDirectory(prefix="rocwright-python-") as folder:
            asked, answers = Path(folder, "asked.json"), Path(folder, "answers.jsonl")
            what = {"wheels": wheels, "tops": self._tops, "careful": careful}
            asked.write_text(json.dumps(what), encoding="utf-8")
            options = ["-I", "-S", "-X", "utf8", "-W", "ignore"]
            program = Path(inside_python.__file__)
            failed = None
            try:
                process.run([self._interpreter, *options, program, asked, answers], limit_s=_LIMIT_S)
            except CommandFailed as error:
                failed = error
            return list(_read(answers)), failed


def _read(answers: Path) -> Iterator[Any]:
    """The answers in a file; what stands behind the last end of a line may be cut."""
    with suppress(FileNotFoundError), answers.open(encoding="utf-8", newline="\n") as lines:
        yield from (json.loads(line) for line in lines if line.endswith("\n"))


_Row = tuple[str, str, Any]


def _asked(
    path: Path, members: Sequence[WheelMember], only: Collection[str] | None, leads: set[str]
) -> dict[str, Any]:
    """What is asked of a wheel; members that entry points lead to go into `leads`."""
    readable = [one for one in members if not one.flags & ENCRYPTED and one.method in (STORED, DEFLATED)]
    named: set[str] = set()
    for one in readable:
        if one.name.endswith(".dist-info/entry_points.txt"):
            with suppress(OSError):  # whoever reads the members says so
                named |= inside_python.entry_modules(str(path), _row(one))
    leads.update(one.name for one in readable if named and _is_named(one.name, named))
    packages = {_folder(one.name) for one in members if one.name.rpartition("/")[2].startswith("__init__.")}

    def matters(name: str) -> bool:
        if only is not None:
            return name in only
        return name in leads or _is_inside(place_of(name), packages)

    sources = [
        _row(one)
        for one in readable
        if one.size <= inside_python.LARGEST and is_module(one.name) and matters(one.name)
    ]
    return {"path": str(path), "sources": sources}


def _is_named(name: str, named: set[str]) -> bool:
    """Whether entry points lead to a module, wherever below a folder it stands."""
    stem = name.removesuffix(".py").replace("/", ".")
    return any(stem == one or stem.endswith("." + one) for one in named)


def _asked_for_names(rows: Sequence[_Row]) -> Iterator[str]:
    """Modules of which another one asks for names."""
    for _, member, answer in rows:
        for line, dots, module, names, raised in answer["imports"] if answer is not None else ():
            if names is not None:
                yield absolute(member, Import(line, dots, module, tuple(names), raised)) or ""


def _folder(name: str) -> str:
    return place_of(name).rpartition("/")[0]


def _is_inside(place: str, packages: set[str]) -> bool:
    """Whether a module stands at the top, or anywhere below a package."""
    if "/" not in place or _VERSIONS.fullmatch(place):
        return True
    folder = place
    while folder := folder.rpartition("/")[0]:
        if folder in packages:
            return True
    return False


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


def _facts(member: str, answer: Mapping[str, Any], *, names: bool) -> PythonFacts | None:
    """None for a module of which there is nothing to say; whether there is may depend on its `names`."""
    facts = PythonFacts(
        member,
        problem=answer.get("problem"),
        line=answer.get("line", 0),
        needs=answer.get("needs", 0),
        names=frozenset(answer["names"].split()) if names and "names" in answer else None,
        dynamic=names and answer.get("dynamic", False),
        spreads=names and answer.get("spreads", False),
        unread=answer.get("unread"),
        version=answer.get("version"),
    )
    imports = tuple(
        Import(line, dots, module, None if names is None else tuple(names), raised)
        for line, dots, module, names, raised in answer["imports"]
    )
    if not imports and facts == PythonFacts(member):
        return None
    return msgspec.structs.replace(facts, imports=imports)
