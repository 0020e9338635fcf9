"""Where a fact comes from: which table and file, which line, what its comment or its row says of its source.

A key is a path such as `compat_libraries.release.7.1.1.versions.hipBLAS`: a table, then names below it. A row
of an array is meant by its number or by one of the fields that name rows. Names may hold dots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from difflib import get_close_matches
from importlib import resources
from typing import Any

import msgspec

from rocwright.data.overlay import OVERLAID, Overlay, merged
from rocwright.data.sources import FactSource, SourceTable, due, load_sources, marked_by
from rocwright.data.toml import comment_above, lines_of, plain
from rocwright.errors import InvalidInput

# Fields by which rows are called, the first one that a row has.
_NAMES = ("id", "name", "rocm", "project", "label")
_SOURCES = ("sources", "source")


class UnknownKey(InvalidInput):
    """A key that names no fact; the message lists near ones."""


class TableInfo(msgspec.Struct, frozen=True):
    """A table: how many facts it holds, whether a rocwright.toml may add to it, and which one does.

    `read` is the day on which the oldest of its sources was read, None where all of it is this project's own;
    `late` names the sources that want to be read again.
    """

    name: str
    facts: int
    overlaid: bool
    where: str
    about: str
    read: date | None = None
    late: tuple[str, ...] = ()


class Cited(msgspec.Struct, frozen=True):
    """Where a fact was read: of when that was, and the day of reading; `own` is no address but this project.

    An address without dates is that of an issue or pull request, which carries its date, or of a user's row.
    """

    url: str
    as_of: str = ""
    read: date | None = None
    own: bool = False
    about: str = ""

    def __str__(self) -> str:
        if self.own:
            return "this project's own"
        read = "" if self.read is None else f", read {self.read}"
        return self.url + (f", as of {self.as_of}" if self.as_of else "") + read


class Explained(msgspec.Struct, frozen=True):
    """A fact: its value, whether it is `built in` or from an `overlay`, where it stands, and why it is so.

    `shown` is the value in short; `source` is where it was read, as addresses, `sources` the same with dates;
    `comment` is what stands above it, `replaces` the built-in value that it took the place of.
    """

    key: str
    value: Any
    shown: str
    origin: str
    where: str
    line: int | None
    source: str
    comment: str
    replaces: str
    sources: tuple[Cited, ...] = ()


class _Found(msgspec.Struct, frozen=True):
    """A value, the names and numbers that lead to it in the merged table, and the rows on the way."""

    value: Any
    steps: tuple[str | int, ...]
    rows: tuple[dict[str, Any], ...]


def _texts() -> dict[str, str]:
    folder = resources.files("rocwright.data")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return {name[:-5]: folder.joinpath(name).read_text(encoding="utf-8") for name in names}


def list_tables(today: date, overlay: Overlay | None = None) -> tuple[TableInfo, ...]:
    """Every built-in table by name, as old as it is today."""
    known = load_sources(overlay)
    return tuple(
        TableInfo(
            name=name,
            facts=sum(1 for _ in _leaves(plain(text, where=f"data/{name}.toml"))),
            overlaid=name in OVERLAID,
            where=overlay.where if overlay is not None and name in overlay.tables else "",
            about=_first_sentence(text),
            read=min((one.read for one in known.of_table(name) if one.read), default=None),
            late=tuple(one.id for one in due(known.of_table(name), today)),
        )
        for name, text in _texts().items()
    )


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for one in value.values():
            yield from _leaves(one)
    elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _first_sentence(text: str) -> str:
    comment: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#") or line == "#":
            break
        comment.append(line.lstrip("# "))
    return " ".join(comment).split(". ")[0].rstrip(".")


def explain(key: str, overlay: Overlay | None = None) -> Explained:
    """Where the fact of a key comes from; raises `UnknownKey` listing the nearest."""
    texts = _texts()
    name, _, rest = key.partition(".")
    if name not in texts:
        near = get_close_matches(name, texts, n=1)
        raise UnknownKey(
            f"there is no table {name!r}; tables: {', '.join(texts)}",
            next_step=f"perhaps {near[0]}" if near else "name one of these",
        )
    base = plain(texts[name], where=f"data/{name}.toml")
    known = load_sources(overlay)
    over = overlay.tables.get(name) if overlay is not None else None
    both = merged(base, over) if over is not None else None
    found = _descend(both.values if both else base, rest, name)
    if overlay is None or both is None:
        return _explained(key, found, texts[name], f"data/{name}.toml", _path(found.steps), known)
    own = _own(found.steps, over, both.offsets)
    if own is None:
        done = _explained(key, found, texts[name], f"data/{name}.toml", _path(found.steps), known)
        if f"${_path(found.steps)}" in both.offsets:
            done = msgspec.structs.replace(done, origin=f"built in, and rows of {overlay.where}")
        return done
    done = _explained(key, found, overlay.text, overlay.where, f".{name}{_path(own)}", known, own=True)
    return msgspec.structs.replace(done, origin="overlay", replaces=_replaced(base, rest, name))


def _path(steps: Iterable[str | int]) -> str:
    """As messages and lines have it: `.release[0].versions`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _explained(
    key: str, found: _Found, text: str, where: str, path: str, known: SourceTable, *, own: bool = False
) -> Explained:
    line = _line(text, path)
    of_table = _refreshed(text, path, known) if own else known.of(key, _name(key, found))
    sources = _sources(found, known) or tuple(_told(row, row.url) for row in of_table)
    return Explained(
        key=key,
        value=found.value,
        shown=_short(found.value),
        origin="built in",
        where=where,
        line=line,
        source=" ".join(row.url for row in sources if row.url),
        comment=comment_above(text, line),
        replaces="",
        sources=sources,
    )


def _name(key: str, found: _Found) -> str:
    """The key without numbers and names of rows: `families.family.tier`, as sources may name it."""
    steps = (step for step in found.steps if isinstance(step, str))
    return ".".join((key.partition(".")[0], *steps))


def _line(text: str, path: str) -> int | None:
    """The line of a path, or of the nearest that is written as a line of its own."""
    lines = lines_of(text)
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["))]
    return lines.get(path)


def _sources(found: _Found, known: SourceTable) -> tuple[Cited, ...]:
    """What the innermost row says of its source, with the dates of what begins so."""
    for row in reversed(found.rows):
        for field in _SOURCES:
            value = row.get(field, ())
            named = [value] if isinstance(value, str) else value
            addresses = [one for one in named if isinstance(one, str) and "://" in one]
            if addresses:
                return tuple(_told(known.dated(one), one) for one in addresses)
    return ()


def _refreshed(text: str, path: str, known: SourceTable) -> tuple[FactSource, ...]:
    """The source from which a refresh wrote a fact of the overlay, or the row around it."""
    lines, at = text.splitlines(), lines_of(text)
    while path:
        number = at.get(path, 0)
        # The mark of a row stands behind its name, below the header.
        here = lines[number - 1 : number + lines[number - 1].startswith("[[")] if number else []
        for line in here:
            if by := marked_by(line):
                return tuple(row for row in known.sources if row.id == by)
        path = path[: max(path.rfind("."), path.rfind("["))]
    return ()


def _told(row: FactSource | None, url: str) -> Cited:
    return Cited(url) if row is None else Cited(url, row.as_of, row.read, row.own, row.about)


def _own(steps: tuple[str | int, ...], over: Any, offsets: Mapping[str, int]) -> tuple[str | int, ...] | None:
    """The steps in the overlay's own file; None for what is built in."""
    here, own = over, list[str | int]()
    for position, step in enumerate(steps):
        if isinstance(step, int):
            before = offsets.get(f"${_path(steps[:position])}", 0)
            if step < before:
                return None
            # What stands below a row of the overlay is the overlay's.
            return (*own, step - before, *steps[position + 1 :])
        if not isinstance(here, dict) or step not in here:
            return None
        here = here[step]
        own.append(step)
    return None if f"${_path(steps)}" in offsets or isinstance(here, dict) else tuple(own)


def _replaced(base: dict[str, Any], rest: str, table: str) -> str:
    """The built-in value of the same key, in short; empty where there is none."""
    try:
        return _short(_descend(base, rest, table).value)
    except UnknownKey:
        return ""


def _descend(values: Any, rest: str, table: str) -> _Found:
    """The value below a path; later rows of the same name take the place of earlier ones."""
    here, rows = values, tuple[dict[str, Any], ...]((values,))
    steps: tuple[str | int, ...] = ()
    while rest:
        step = _step(here, rest)
        if step is None:
            known = [f"{table}.{name}" for name in _below(values)]
            raise UnknownKey(
                f"nothing is called {rest!r} in {table}{_path(steps)}; there are: {_some(_names(here))}",
                next_step=_hint(f"{table}.{rest}", rest, known, _names(here)),
            )
        here, added, rest = step
        steps = (*steps, added)
        if isinstance(here, dict):
            rows = (*rows, here)
    return _Found(here, steps, rows)


def _step(here: Any, rest: str) -> tuple[Any, str | int, str] | None:
    """One step down: the longest name that the rest begins with."""
    options: list[tuple[str, Any, str | int]] = []
    if isinstance(here, dict):
        options = [(str(name), value, str(name)) for name, value in here.items()]
    elif isinstance(here, list):
        for number, value in enumerate(here):
            options.append((str(number), value, number))
            options += [(name, value, number) for name in _called(value)]
    fitting = [one for one in options if rest == one[0] or rest.startswith(f"{one[0]}.")]
    if not fitting:
        return None
    length = max(len(name) for name, _, _ in fitting)
    name, value, added = [one for one in fitting if len(one[0]) == length][-1]
    return value, added, rest[len(name) + 1 :]


def _called(row: Any) -> list[str]:
    if not isinstance(row, dict):
        return []
    return [str(row[field]) for field in _NAMES if isinstance(row.get(field), (str, int))][:1]


def _names(here: Any) -> list[str]:
    """What can follow."""
    if isinstance(here, dict):
        return [str(name) for name in here]
    if isinstance(here, list):
        return [name for row in here for name in _called(row)] or [str(number) for number in range(len(here))]
    return []


def _below(values: Any, prefix: str = "", depth: int = 3) -> Iterator[str]:
    """Keys down to a depth, for near ones."""
    if depth == 0:
        return
    for name in _names(values):
        yield f"{prefix}{name}"
        step = _step(values, name)
        if step is not None:
            yield from _below(step[0], f"{prefix}{name}.", depth - 1)


def _hint(key: str, rest: str, known: list[str], names: list[str]) -> str:
    """The nearest names here, then the nearest keys anywhere in the table."""
    if not names:
        return f"leave out {rest!r}"
    near = get_close_matches(rest.split(".")[0], names, n=3)
    near = near or get_close_matches(key, known, n=3, cutoff=0.85)
    return f"perhaps {' or '.join(near)}" if near else "name one of these"


def _some(names: list[str], most: int = 12) -> str:
    shown = ", ".join(names[:most]) or "none, this is a value"
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _short(value: Any, most: int = 100) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= most else f"{text[:most]}…"
