"""Texts in which a version stands: which of them become another one, decided by parsing, byte for byte."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

_QUOTED = re.compile(r'("(?:[^"\\]|\\.)*")(?P<key>\s*:)?')
_SIMPLE = re.compile(r"""(?P<open>[rRuU]?(?P<quote>'''|\"{3}|'|"))(?P<text>.*)(?P=quote)""", re.DOTALL)
_DIGITS = frozenset(bytes([digit]) for digit in b"0123456789")
_NUMERIC = _DIGITS | {b"."}
_FAILS = (SyntaxError, ValueError, tokenize.TokenError, RecursionError, MemoryError)


class Unreadable(Exception):
    """A text that does not parse; says why."""


def edit_python(data: bytes, versions: Mapping[str, str]) -> bytes:
    """A module whose string literals that are exactly an old version are the new one; the rest as it was.

    Comments, docstrings that say more, and texts that contain a version stay. Raises `Unreadable`.
    """
    with warnings.catch_warnings():
        # About escapes in other people's modules; whoever compiles them is told.
        warnings.simplefilter("ignore")
        return _edit_python(data, versions)


def _edit_python(data: bytes, versions: Mapping[str, str]) -> bytes:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        ast.parse(data)
        found = [(token.start, token.end, token.string) for token in _strings(data)]
        lines = data.decode(encoding).split("\n")
    except _FAILS as error:
        raise Unreadable(str(error)) from error
    for (row, start), (last, end), text in reversed(found):
        value = _literal(text)
        if row == last and isinstance(value, str) and value in versions:
            line = lines[row - 1]
            # What the tokenizer counts begins behind a byte order mark.
            lines[row - 1] = line[:start] + _spelled(text, value, versions[value]) + line[end:]
    mark = b"\xef\xbb\xbf" if encoding == "utf-8-sig" else b""
    return mark + "\n".join(lines).encode(encoding.removesuffix("-sig"))


def _strings(data: bytes) -> Iterator[tokenize.TokenInfo]:
    """String literals but those inside of f-strings, which older Pythons see as one."""
    depth = 0
    for token in tokenize.tokenize(io.BytesIO(data).readline):
        kind = tokenize.tok_name[token.type]
        depth += (kind == "FSTRING_START") - (kind == "FSTRING_END")
        if kind == "STRING" and not depth:
            yield token


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except _FAILS:
        return None


def _spelled(text: str, value: str, new: str) -> str:
    """The literal with its own prefix and quotes, where the old version stood in it as it is."""
    match = _SIMPLE.fullmatch(text)
    return match["open"] + new + match["quote"] if match is not None and match["text"] == value else repr(new)


def edit_json(data: bytes, versions: Mapping[str, str], projects: Iterable[str]) -> bytes:
    """JSON whose texts that are exactly an old version are the new one; keys and all else as they were.

    A package URL (`pkg:pypi/torch@…`) of one of `projects` counts by its version. Raises `Unreadable`.
    """
    wanted = dict(versions)
    for old, new in versions.items():
        for project in projects:
            # Both spellings are in use.
            for safe in ("", "+"):
                start = f"pkg:pypi/{project}@"
                wanted[start + quote(old, safe=safe)] = start + quote(new, safe=safe)

    def replaced(match: re.Match[str]) -> str:
        new = None if match["key"] else wanted.get(json.loads(match[1], strict=False))
        return match[0] if new is None else json.dumps(new)

    try:
        text = data.decode("utf-8")
        before = json.loads(text)
        edited = _QUOTED.sub(replaced, text)
        if json.loads(edited) != _mapped(before, wanted):
            raise Unreadable("what is text in it cannot be told for sure")
    except _FAILS as error:
        raise Unreadable(str(error)) from error
    return edited.encode()


def _mapped(value: Any, wanted: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return wanted.get(value, value)
    if isinstance(value, dict):
        return {key: _mapped(item, wanted) for key, item in value.items()}
    return [_mapped(item, wanted) for item in value] if isinstance(value, list) else value


def mentions(data: bytes, version: str) -> bool:
    """Whether a version stands in bytes, not as a part of a longer number."""
    text, at = version.encode(), -1
    while (at := data.find(text, at + 1)) >= 0:
        end = at + len(text)
        if data[max(0, at - 1) : at] not in _NUMERIC and data[end : end + 1] not in _DIGITS:
            return True
    return False
