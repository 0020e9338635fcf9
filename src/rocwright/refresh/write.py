"""Changes as TOML: as a diff to read, into a rocwright.toml, and as a patch of the built-in tables.

What is written into a rocwright.toml has a mark behind it; what has none somebody wrote by hand.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any

from rocwright.data import load_table
from rocwright.data.overlay import Overlay, parse_overlay
from rocwright.data.sources import MARK, SourceTable, marked_by
from rocwright.data.toml import lines_of, plain
from rocwright.errors import InvalidInput, MissingTool
from rocwright.model.compat_releases import LibraryTable
from rocwright.model.gpu import Families, GpuTable
from rocwright.model.plan import ProfileTable
from rocwright.refresh.compare import FactChange
from rocwright.system.files import write_text

# The schemas of what is written, and the field that names a row.
_TYPES: Mapping[str, tuple[type[Any], str]] = {
    "families": (Families, "name"),
    "gpus": (GpuTable, "name"),
    "profiles": (ProfileTable, "name"),
    "compat_libraries": (LibraryTable, "rocm"),
    "sources": (SourceTable, "id"),
}
_FOLDER = "src/rocwright/data"


def marked(overlay: Overlay, change: FactChange) -> bool:
    """Whether an overlay leaves this fact to refreshes: it does not have it, or has it from one."""
    here: Any = overlay.tables.get(change.table, {})
    for step in change.path:
        if not isinstance(here, Mapping) or step not in here:
            return True
        here = here[step]
    path = f".{change.table}{''.join(f'.{step}' for step in change.path)}"
    if change.row:
        by = _TYPES[change.table][1]
        numbers = [number for number, row in enumerate(here) if row.get(by) == change.row]
        if not numbers:
            return True
        path += f"[{numbers[-1]}].{by}"
    line = lines_of(overlay.text).get(path)
    return line is not None and bool(marked_by(overlay.text.splitlines()[line - 1]))


def written(changes: Iterable[FactChange]) -> list[FactChange]:
    """Those that are written."""
    return [one for one in changes if one.kind in ("added", "changed")]


def write_overlay(path: Path, changes: Iterable[FactChange]) -> None:
    """Add the changes to a rocwright.toml, which is there whole as it was, or whole as it is to be.

    Comments and order stay. Raises `InvalidInput` where the file has a table in a form that rows cannot be
    added to, or would not be read again.
    """
    # A link stays one.
    path = path.resolve()
    text = path.read_bytes().decode() if path.is_file() else ""
    done = _edited(text, written(changes), own=True)
    overlay = parse_overlay(done, where=str(path))
    for name in {one.table for one in written(changes)}:
        load_table(name, _TYPES[name][0], overlay)
    write_text(path, done)


def write_patch(path: Path, changes: Iterable[FactChange]) -> None:
    """The changes as a unified diff of the built-in tables, for `git apply`."""
    by_table: dict[str, list[FactChange]] = {}
    for one in written(changes):
        by_table.setdefault(one.table, []).append(one)
    lines: list[str] = []
    for name, some in sorted(by_table.items()):
        before = resources.files("rocwright.data").joinpath(f"{name}.toml").read_text(encoding="utf-8")
        after, file = _edited(before, some, own=False), f"{_FOLDER}/{name}.toml"
        lines += difflib.unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{file}", f"b/{file}"
        )
    write_text(path, "".join(lines))


def _edited(text: str, changes: Iterable[FactChange], *, own: bool) -> str:
    """TOML text with changes in it: of a rocwright.toml (`own`), or of the table that they are about."""
    try:
        import tomlkit
        from tomlkit.exceptions import TOMLKitError
    except ImportError as error:
        raise MissingTool(
            "TOML is written with tomlkit, which is not installed",
            next_step="pip install 'rocwright[refresh]'",
        ) from error
    try:
        document = tomlkit.parse(text)
        spelled = tomlkit.dumps(document)
        for change in changes:
            _put(document, change, own=own)
        edited = tomlkit.dumps(document)
        done = _spelled_as(text, spelled, edited)
        if plain(done, where="the result") != plain(edited, where="the result"):
            raise ValueError("some lines are written in a way that would be lost")
    except (TOMLKitError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise InvalidInput(
            f"the changes cannot be written into the file as it stands: {error}",
            next_step="write its tables as [table] and [[table.row]], or write to another file",
        ) from error
    return done


def _spelled_as(text: str, spelled: str, edited: str) -> str:
    """The edited text with all other lines as they stood: tomlkit writes some a little otherwise."""
    lines, before, after = (one.splitlines(keepends=True) for one in (text, spelled, edited))
    if len(lines) != len(before):
        return edited
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    done: list[str] = []
    for what, start, end, first, last in matcher.get_opcodes():
        done += lines[start:end] if what == "equal" else after[first:last]
    return "".join(done)


def _put(document: Any, change: FactChange, *, own: bool) -> None:
    """Write one change into a document."""
    import tomlkit
    from tomlkit.items import AoT, InlineTable

    here = document
    steps = ((change.table,) if own else ()) + (change.path if change.row else change.path[:-1])
    for number, step in enumerate(steps):
        if step not in here:
            last_of_row = change.row and number == len(steps) - 1
            here[step] = tomlkit.aot() if last_of_row else tomlkit.table(is_super_table=number == 0)
        here = here[step]
        if isinstance(here, InlineTable):
            raise ValueError(f"{step} is written in one line")
    mark = f"{MARK}: {change.source}, as of {change.as_of}" if own else ""
    if not change.row:
        _set(here, change.path[-1], change.new, mark)
        return
    if not isinstance(here, AoT):
        raise ValueError(f"the rows of {change.path[-1]} are written in one list")
    by = _TYPES[change.table][1]
    found = [one for one in here if one.get(by) == change.row]
    if not found:
        found = [tomlkit.table()]
        _fill(found[0], {by: change.new[by], **change.new}, by, mark)
        here.append(found[0])
        return
    # In a table only what differs is written anew.
    old = {} if own else change.old or {}
    _fill(found[-1], {key: value for key, value in change.new.items() if old.get(key) != value}, by, mark)
    for key in list(found[-1]):
        if key not in change.new:
            del found[-1][key]


def _fill(row: MutableMapping[str, Any], values: Mapping[str, Any], by: str, mark: str) -> None:
    import tomlkit

    for key, value in values.items():
        if (
            isinstance(value, Mapping)
            and value
            and all(not isinstance(one, Mapping) for one in value.values())
        ):
            held = row.get(key)
            if not isinstance(held, MutableMapping):
                row[key] = held = tomlkit.table()
            for name in [name for name in held if name not in value]:
                del held[name]
            for name, one in value.items():
                if held.get(name) != one:
                    _set(held, name, one, "")
        else:
            _set(row, key, value, mark if key == by else "")


def _set(where: Any, key: str, value: Any, mark: str) -> None:
    import tomlkit

    made = tomlkit.item(value)
    if mark:
        made.comment(mark)
    if key in where:
        where[key] = made
    elif hasattr(where, "append") and not isinstance(value, Mapping):
        where.append(key, made)
    else:
        where[key] = made


# -- to read


def as_diff(changes: Iterable[FactChange]) -> Iterator[str]:
    """Lines of a diff of TOML rows, by source: `+` what the source has, `-` what a table has."""
    last = ""
    for change in changes:
        head = f"# {change.source}: {change.url}, as of {change.as_of}"
        if head != last:
            yield from ((["", head]) if last else [head])
            last = head
        if change.kind == "noted":
            yield f"note     {change.key}: {change.says}"
            continue
        yield f"{change.kind:<8} {change.key}"
        yield from (f"    {line}" for line in _lines(change))


def _lines(change: FactChange) -> Iterator[str]:
    if change.kind == "vanished":
        if not change.row:
            yield f"! {_toml(change.old)}"
        return
    if not change.row:
        name = _key(change.path[-1])
        yield from ([] if change.old is None else [f"- {name} = {_toml(change.old)}"])
        yield f"+ {name} = {_toml(change.new)}"
        return
    old = change.old or {}
    for key in {**old, **change.new}:
        before, after = old.get(key), change.new.get(key)
        if before == after:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            for name in {**before, **after}:
                if before.get(name) != after.get(name):
                    yield from _pair(f"{key}.{_key(name)}", before.get(name), after.get(name))
        else:
            yield from _pair(key, before, after)


def _pair(name: str, before: Any, after: Any) -> Iterator[str]:
    yield from ([] if before is None else [f"- {name} = {_toml(before)}"])
    yield from ([] if after is None else [f"+ {name} = {_toml(after)}"])


def _key(text: str) -> str:
    return text if text.isidentifier() and text.isascii() else json.dumps(text, ensure_ascii=False)


def _toml(value: Any) -> str:
    """A value as TOML has it, in one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return str(value) if isinstance(value, date) else json.dumps(value, ensure_ascii=False)
