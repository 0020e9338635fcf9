"""GitHub's expressions, as much of them as rendered workflows use; knows nothing of the renderer.

Source: GitHub's reference "Evaluate expressions in workflows and actions".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+(?:\.\d+)?)|(?P<name>[A-Za-z_][\w-]*)"
    r"|(?P<sign>\|\||&&|==|!=|<=|>=|[!<>().,\[\]]))"
)
_WHOLE = re.compile(r"\$\{\{(.*)\}\}", re.DOTALL)
_PART = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
Functions = Mapping[str, Callable[..., Any]]


class BadExpression(Exception):
    """GitHub would refuse it."""


def is_true(value: Any) -> bool:
    return not (value is None or value is False or value == "" or (value == 0 and value is not True))


def as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)


def _number(value: Any) -> float:
    if value is None or value == "":
        return 0.0
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one.casefold() == other.casefold()
    if type(one) is type(other) and isinstance(one, (dict, list)):
        return one is other
    return one == other if type(one) is type(other) else _number(one) == _number(other)


def _format(pattern: str, *values: Any) -> str:
    def put(found: re.Match[str]) -> str:
        return found[0][0] if found[1] is None else as_text(values[int(found[1])])

    # Two braces stand for one.
    return re.sub(r"\{\{|\}\}|\{(\d+)\}", put, pattern)


FUNCTIONS: Functions = {
    "fromjson": lambda text: json.loads(text),
    "tojson": lambda value: json.dumps(value, indent=2),
    "format": _format,
    "contains": lambda held, item: (
        any(equal(one, item) for one in held) if isinstance(held, list) else as_text(item) in as_text(held)
    ),
    "startswith": lambda text, start: as_text(text).casefold().startswith(as_text(start).casefold()),
}


class _Reader:
    def __init__(self, text: str, contexts: Mapping[str, Any], functions: Functions) -> None:
        self.contexts, self.functions = contexts, {**FUNCTIONS, **functions}
        self.words: list[tuple[str, str]] = []
        at = 0
        text = text.strip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise BadExpression(text)
            self.words.append((str(found.lastgroup), found[str(found.lastgroup)]))
            at = found.end()
        self.at = 0

    def sign(self, *wanted: str) -> str:
        if self.at < len(self.words) and self.words[self.at] in [("sign", one) for one in wanted]:
            self.at += 1
            return self.words[self.at - 1][1]
        return ""

    def need(self, wanted: str) -> None:
        if not self.sign(wanted):
            raise BadExpression(f"{wanted} expected in {self.words}")

    # Each gives a function, so that && and || leave out what GitHub leaves out.
    def either(self) -> Any:
        value = self.both()
        while self.sign("||"):
            other = self.both()
            value = value if is_true(value) else other
        return value

    def both(self) -> Any:
        value = self.compared()
        while self.sign("&&"):
            other = self.compared()
            value = other if is_true(value) else value
        return value

    def compared(self) -> Any:
        value = self.turned()
        while found := self.sign("==", "!="):
            value = equal(value, self.turned()) == (found == "==")
        return value

    def turned(self) -> Any:
        return not is_true(self.turned()) if self.sign("!") else self.reached()

    def reached(self) -> Any:
        value = self.atom()
        while found := self.sign(".", "["):
            if found == ".":
                key: Any = self.words[self.at][1]
                self.at += 1
            else:
                key = self.either()
                self.need("]")
            value = _member(value, key)
        return value

    def atom(self) -> Any:
        if self.sign("("):
            value = self.either()
            self.need(")")
            return value
        kind, word = self.words[self.at]
        self.at += 1
        if kind == "text":
            return word[1:-1].replace("''", "'")
        if kind == "number":
            return float(word)
        if kind != "name":
            raise BadExpression(word)
        if self.sign("("):
            given = []
            while not self.sign(")"):
                given.append(self.either())
                self.sign(",")
            return self.functions[word.casefold()](*given)
        if word in ("true", "false", "null"):
            return {"true": True, "false": False, "null": None}[word]
        if word not in self.contexts:
            raise BadExpression(f"there is no {word} here: {sorted(self.contexts)}")
        return self.contexts[word]


def _member(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        return next((held for name, held in value.items() if equal(name, key)), None)
    if isinstance(value, list) and isinstance(key, float):
        return value[int(key)] if 0 <= int(key) < len(value) else None
    return None


def evaluate(text: str, contexts: Mapping[str, Any], functions: Functions = FUNCTIONS) -> Any:
    """The value of what stands between the braces."""
    reader = _Reader(text, contexts, functions)
    value = reader.either()
    if reader.at < len(reader.words):
        raise BadExpression(text)
    return value


def filled(value: Any, contexts: Mapping[str, Any], functions: Functions = FUNCTIONS) -> Any:
    """A value of a workflow with its expressions evaluated, in lists and tables, too."""
    if isinstance(value, dict):
        return {key: filled(held, contexts, functions) for key, held in value.items()}
    if isinstance(value, list):
        return [filled(held, contexts, functions) for held in value]
    if not isinstance(value, str):
        return value
    whole = _WHOLE.fullmatch(value.strip())
    if whole is not None and "${{" not in whole[1]:
        return evaluate(whole[1], contexts, functions)
    return _PART.sub(lambda part: as_text(evaluate(part[1], contexts, functions)), value)
