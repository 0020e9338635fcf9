"""What an interpreter makes of a wheel's Python; a program of the standard library alone, for any Python.

``python inside_python.py ASKED ANSWERS`` reads the sources right out of the wheels and writes one line of
JSON for each; `careful`, flushed at once: where the interpreter itself dies of a source, the lines before it
are there.

No source is run. That a module compiles is judged by its symbol table, which costs half of its syntax tree,
or of its code; imports are looked for by expressions at the beginning of lines, where no condition can hold
them.
"""

from __future__ import annotations

import ast
import json
import re
import struct
import sys
import warnings
import zlib

# What the module without the underscore makes objects of, one for each name.
from _symtable import DEF_IMPORT, DEF_LOCAL, symtable  # type: ignore[import-not-found]
from typing import Any

# No source that a person wrote is as large.
LARGEST = 4 << 20
_ROOM, _BUFFER = 1 << 10, 256 << 10
_MOST_NAMES = 2000
_LINE = 200
# Faults that the symbol table does not show: only at the beginning of a line can they stand outside of all.
_LATE = re.compile(rb"^(?:return|break|continue|yield|await)\b", re.MULTILINE)
# Syntax that came with Python 3.10 to 3.12, as far as one can see from afar.
_NEW = re.compile(
    rb"^[ \t]*(?:match\b[^\n]*:|type[ \t]+\w+[ \t]*[\[=])",
    re.MULTILINE,
)
# Without one of these words, which are looked for in no time, there is none of it.
_NEW_WORDS = (b"match", b"type ", b"type\t")
# The rest of it, which begins with words that most sources have.
_MORE_NEW = re.compile(rb"\b(?:def|class)[ \t]+\w+[ \t]*\[|\bexcept[ \t]*\*")
_OLDEST, _NEWEST_SYNTAX = 7, 13
_IMPORT = re.compile(
    rb"^(?:from[ \t]+(?P<dots>\.*)[ \t]*(?P<module>[\w.]*)[ \t]+import[ \t]*"
    rb"(?:\((?P<many>[^()]{0,20000})\)|(?P<few>[^\n#;\\(]+))"
    rb"|import[ \t]+(?P<plain>[^\n#;\\]+))",
    re.MULTILINE,
)
_TEXT = re.compile(
    rb"#[^\n]*"
    rb'|"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
    rb"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
    rb'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    rb"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'",
    re.DOTALL,
)
_COMMENT = re.compile(rb"#[^\n]*")
_NAME = re.compile(rb"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
# How a module gets names that its source does not show, and a package modules that it has no file of.
_MORE_NAMES = re.compile(
    rb"__getattr__|__dict__|globals\b|\blocals\b|\bvars\b|\bglobal\b|_convert_?\("
    rb"|current_?module|_getframe|currentframe"
    rb"|\bexec\b|\beval\b|\bsetattr\b|import[ \t]*\*"
    rb"|import_module|__import__|[Ll]azy|sys\.modules"
)
_MORE_WORDS = (
    *(b"__getattr__", b"__dict__", b"globals", b"locals", b"vars", b"global", b"exec", b"eval", b"setattr"),
    *(
        b"import*",
        b"import *",
        b"import\t",
        b"import  ",
        b"import \t",
        b"import_module",
        b"__import__",
        b"azy",
        b"sys.modules",
        b"_convert",
        b"current_module",
        b"currentmodule",
        b"currentframe",
        b"_getframe",
    ),
)
_MORE_MODULES = re.compile(
    rb"__path__|extend_path|meta_path|path_hooks|declare_namespace|[Ll]azy|sys\.modules"
)
_MORE_MODULE_WORDS = (
    *(b"__path__", b"extend_path", b"meta_path", b"path_hooks", b"declare_namespace", b"azy", b"sys.modules"),
)
_VERSION = re.compile(
    rb"""^__version__[ \t]*(?::[^=\n]*)?=[ \t]*["']([^"'\n]+)["'][ \t]*(?:#.*)?\r?$""", re.MULTILINE
)
# What it has none of (before Python 3.10) is told; whoever asks knows the rest.
_STDLIB: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())
_ENTRY = re.compile(r"=\s*([\w.]+)\s*:")


def main(asked_path: str, answers_path: str) -> None:
    """Answer for each source asked for; see `answers`."""
    with open(asked_path, encoding="utf-8") as stream:
        asked = json.load(stream)
    with open(answers_path, "w", encoding="utf-8", buffering=1 if asked["careful"] else _BUFFER) as out:
        out.writelines(json.dumps(answer) + "\n" for answer in answers(asked["wheels"], set(asked["tops"])))


def answers(wheels: list[dict[str, Any]], tops: set[str]) -> Any:
    """One answer for each source, in order; None where it cannot be had, which another reader says.

    A wheel is its `path` and its `sources`: name, offset of the local header, bytes packed and unpacked,
    method, and CRC.
    """
    known: dict[tuple[int, int], dict[str, Any]] = {}
    with warnings.catch_warnings():
        # About the style of sources that are not ours.
        warnings.simplefilter("ignore")
        for wheel in wheels:
            with open(wheel["path"], "rb", buffering=0) as stream:
                for member in wheel["sources"]:
                    key = (member[5], member[3])
                    if key not in known:
                        data = _inflated(stream, member)
                        if data is None:
                            yield None
                            continue
                        known[key] = look(data, tops)
                    yield known[key]


def _inflated(stream: Any, member: list[Any]) -> bytes | None:
    _, offset, packed, size, method, _ = member
    if size > LARGEST or packed > 2 * LARGEST:
        return None
    stream.seek(offset)
    # The extra field of the local header is not known before.
    read = stream.read(_ROOM + 4 * len(member[0]) + packed)
    if len(read) < 30:
        return None
    start = 30 + sum(struct.unpack_from("<2H", read, 26))
    if len(read) < start + packed:
        stream.seek(offset)
        read = stream.read(start + packed)
    data: bytes = read[start : start + packed]
    try:
        data = zlib.decompressobj(-15).decompress(data, size + 1) if method else data
    except zlib.error:
        return None
    return data if len(data) == size else None


def entry_modules(path: str, member: list[Any]) -> set[str]:
    """The modules that the entry points in a member of a wheel lead to."""
    with open(path, "rb", buffering=0) as stream:
        data = _inflated(stream, member)
    return set(_ENTRY.findall((data or b"").decode("utf-8", "replace")))


def look(data: bytes, tops: set[str]) -> dict[str, Any]:
    """What a source is; what is not told is nothing.

    `problem` and `line` say why it does not compile, `unread` why nobody knows; `needs` is the minor version
    of Python whose syntax it has; `names` it binds, in one text, `dynamic` when there may be more; `spreads`
    when modules below it may have no file. `imports` are unconditional: line, dots, module, names or None,
    whether something is raised before.
    """
    found: dict[str, Any] = {"imports": imports(data, tops)}
    version = _VERSION.search(data) if b"\n__version__" in data or data.startswith(b"__version__") else None
    if version is not None:
        found["version"] = version.group(1).decode("utf-8", "replace")[:_LINE]
    if any(word in data for word in _MORE_WORDS) and _MORE_NAMES.search(data):
        found["dynamic"] = True
    if any(word in data for word in _MORE_MODULE_WORDS) and _MORE_MODULES.search(data):
        found["spreads"] = True
    try:
        names = symtable(data, "<module>", "exec").symbols
        if _LATE.search(data):
            compile(data, "<module>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return {**found, "problem": (error.msg or "invalid syntax")[:_LINE], "line": error.lineno or 1}
    except ValueError as error:
        return {**found, "problem": str(error)[:_LINE], "line": 1}
    except (RecursionError, MemoryError):
        # Another interpreter may have more room.
        return {**found, "dynamic": True, "spreads": True, "unread": "it is nested too deeply"}
    if (any(word in data for word in _NEW_WORDS) and _NEW.search(data)) or _MORE_NEW.search(data):
        found["needs"] = needed(data)
    bound = [name for name, flags in names.items() if flags & (DEF_LOCAL | DEF_IMPORT)]
    if len(bound) > _MOST_NAMES:
        found["dynamic"] = True
    found["names"] = " ".join(bound[:_MOST_NAMES])
    return found


def needed(data: bytes) -> int:
    """The oldest minor version of Python whose syntax a source keeps to, as this interpreter knows them."""
    for minor in range(_NEWEST_SYNTAX - 1, _OLDEST - 1, -1):
        try:
            compile(data, "<module>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True, _feature_version=minor)
        except SyntaxError as error:
            return minor + 1 if "only supported in Python" in str(error.msg) else 0
        except (ValueError, RecursionError, MemoryError):
            return 0
    return 0


def imports(data: bytes, tops: set[str]) -> list[list[Any]]:
    """Imports at the beginning of a line, outside of texts and comments.

    Of modules that no wheel at hand has, the top level alone is told, once, unless it is Python's own.
    """
    matches = list(_IMPORT.finditer(data))
    if not matches:
        return []
    hidden = _hidden(data, {match.start() for match in matches})
    rows: list[list[Any]] = []
    line, at = 1, 0
    raises = data.find(b"raise")
    known = set(_STDLIB)
    for match in matches:
        if match.start() in hidden:
            continue
        line, at = line + data.count(b"\n", at, match.start()), match.start()
        raised = 0 <= raises < at
        if match["plain"] is not None:
            words = map(_NAME.match, map(bytes.strip, match["plain"].split(b",")))
            modules = [one.group().decode() for one in words if one]
            asked = None
        else:
            modules = [match["module"].decode()]
            listed = _COMMENT.sub(b"", match["many"] if match["many"] is not None else match["few"])
            words = map(_NAME.match, map(bytes.strip, listed.split(b",")))
            asked = [one.group().decode() for one in words if one]
        dots = len(match["dots"] or b"")
        for module in modules:
            top = module.partition(".")[0]
            if dots or top in tops:
                rows.append([line, dots, module, asked, raised])
            elif top not in known:
                known.add(top)
                rows.append([line, 0, top, None, raised])
    return rows


def _hidden(data: bytes, places: set[int]) -> set[int]:
    """Those of the places that lie inside of a text."""
    last = max(places)
    found: set[int] = set()
    left = sorted(places)
    for text in _TEXT.finditer(data):
        if text.start() > last:
            break
        while left and left[0] < text.start():
            left.pop(0)
        while left and left[0] < text.end():
            found.add(left.pop(0))
    return found


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
