"""New content of members in which a version stands, for wheels and sdists alike.

`data/reversion.toml` says which members these are. What becomes another version is decided by parsing; all
other bytes stay as they are.
"""

from __future__ import annotations

import ast
import functools
import io
import json
import re
import tokenize
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from packaging.metadata import parse_email

from rocwright.data import load_table
from rocwright.errors import InvalidWheel
from rocwright.model.patterns import fits
from rocwright.wheel.metadata import edit_headers
from rocwright.wheel.reversion.values import Changes, PlannedDistribution
from rocwright.wheel.reversion.versions import edit_requirement

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
            raise Unreadable("it is not certain what is text in it")
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


class ReversionTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names of ROCm's own projects; patterns over paths in a wheel, or below the root of an sdist."""

    own: tuple[str, ...]
    python: tuple[str, ...]
    json: tuple[str, ...]
    headers: tuple[str, ...]
    requirements: tuple[str, ...]

    def is_own(self, project: str) -> bool:
        """Whether a project (normalised name) has the version of ROCm itself."""
        return fits(project, self.own)


@functools.cache
def reversion_table() -> ReversionTable:
    """The built-in table."""
    return load_table("reversion", ReversionTable)


class MemberEdits(msgspec.Struct):
    """Edits members of one file; remembers requirements that changed and what still mentions old versions."""

    file: Path
    version: str
    changes: Changes
    requirements: dict[str, str] = msgspec.field(default_factory=dict)
    left: list[str] = msgspec.field(default_factory=list)

    def edit(self, name: str, data: bytes, edit: Callable[[bytes], bytes]) -> bytes:
        """New bytes of a member, by one of the methods below; raises `InvalidWheel` naming it."""
        # Every version that changes has that of ROCm in it.
        old = str(self.changes.rocm.old)
        try:
            new = edit(data)
        except Unreadable as error:
            if not mentions(data, old):
                return data
            raise InvalidWheel(
                f"{name} in {self.file.name} contains an old version and cannot be parsed: {error}",
                where=self.file,
            ) from error
        if mentions(new, old):
            self.left.append(name)
        return new

    def headers(self, data: bytes) -> bytes:
        """METADATA or PKG-INFO with the new version and requirements, and nothing else that installers see.

        Raises `InvalidWheel` where these see other headers: they end lines and headers at more places.
        """
        new = edit_headers(data, self._header)
        said, unknown = parse_email(data)
        wanted = {**said}
        if "version" in said:
            wanted["version"] = self.version
        if "requires_dist" in said:
            wanted["requires_dist"] = [self._header_requirement(text) for text in said["requires_dist"]]
        if parse_email(new) != (wanted, unknown):
            raise InvalidWheel(
                f"the metadata in {self.file.name} is malformed: installers see other headers in it",
                where=self.file,
                next_step="build the file again with one header a line",
            )
        return new

    def _header(self, key: str, value: str) -> Sequence[str] | None:
        if key == "version":
            return None if value == self.version else [f"Version: {self.version}"]
        if key == "requires-dist":
            new = self._requirement(value)
            return None if new == value else [f"Requires-Dist: {new}"]
        return None

    def _header_requirement(self, text: str) -> str:
        """What a header's text is afterwards; one that stays keeps its folds."""
        plain = " ".join(text.split())
        new = self._requirement(plain)
        return text if new == plain else new

    def _requirement(self, text: str) -> str:
        new = edit_requirement(text, self.changes.projects, self.file.name)
        if new != text:
            self.requirements[text] = new
        return new

    def requirement_lines(self, data: bytes) -> bytes:
        """requires.txt of setuptools: requirements one a line, below the names of extras."""
        text = data.decode("utf-8", "surrogateescape")
        lines = [
            line if not line.strip() or line.lstrip().startswith(("[", "#")) else self._line(line)
            for line in text.split("\n")
        ]
        return "\n".join(lines).encode("utf-8", "surrogateescape")

    def _line(self, line: str) -> str:
        end = "\r" if line.endswith("\r") else ""
        return edit_requirement(line.removesuffix("\r"), self.changes.projects, self.file.name) + end

    def python(self, data: bytes) -> bytes:
        """A module."""
        return edit_python(data, self.changes.texts)

    def json(self, data: bytes) -> bytes:
        """A JSON document."""
        return edit_json(data, self.changes.texts, self.changes.projects)


def editor(edits: MemberEdits, table: ReversionTable, name: str) -> Callable[[bytes], bytes] | None:
    """How a member of this name is edited, by the table; None where it is not."""
    if fits(name, table.python):
        return edits.python
    if fits(name, table.json):
        return edits.json
    return None


def require_new_name(distribution: PlannedDistribution, changed: bool) -> None:
    """Raise `InvalidWheel` for a file that would change under the name it has."""
    if changed:
        raise InvalidWheel(
            f"{distribution.path.name} names an old version, but has no ROCm in its own version: it would "
            "keep its name with other content",
            where=distribution.path,
            next_step="leave it out, or build it again for the new version",
        )
