"""Reading the reference's skip lists: Python files that are parsed, never run.

`generic.py` holds for every version, `pytorch_2.9.py` for one. Each assigns `skip_tests`: section -> module
-> names, where a section is `common`, the beginning of targets (`gfx94`), a family, or a platform, and may
hold another section (`gfx1151` -> `windows` -> modules); then both have to fit. Source: ROCm/TheRock,
external-builds/pytorch/skip_tests/README.md.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from rocwright.errors import InvalidInput

_FILE = re.compile(r"pytorch_([0-9]+\.[0-9]+)\.py")
GENERIC = "generic.py"
VARIABLE = "skip_tests"


class Listed(msgspec.Struct, frozen=True):
    """One name of a list: where it stands, the sections around it from outside, and the comment at it."""

    file: str
    line: int
    torch: str
    sections: tuple[str, ...]
    module: str
    name: str
    comment: str = ""

    @property
    def place(self) -> str:
        """`generic.py:12`."""
        return f"{self.file}:{self.line}"


class Read(msgspec.Struct, frozen=True):
    """What files hold, in order, and what in them can hardly be meant."""

    listed: tuple[Listed, ...]
    notes: tuple[str, ...]


def read_lists(path: Path) -> Read:
    """The lists of a directory, or of one file. Raises `InvalidInput` naming file and line."""
    if path.is_dir():
        files = [one for one in sorted(path.glob("*.py")) if one.name == GENERIC or _FILE.fullmatch(one.name)]
        if not files:
            raise InvalidInput(
                f"{path} contains no skip lists",
                where=path,
                next_step=f"name the directory that holds {GENERIC} and pytorch_2.9.py",
            )
        # What holds for all versions comes first.
        files.sort(key=lambda one: (one.name != GENERIC, _version_key(one.name)))
    else:
        files = [path]
    listed: list[Listed] = []
    notes: list[str] = []
    for file in files:
        found = _read_file(file)
        listed += found.listed
        notes += found.notes
    return Read(tuple(listed), tuple(notes))


def _version_key(name: str) -> tuple[int, ...]:
    match = _FILE.fullmatch(name)
    return tuple(map(int, match[1].split("."))) if match else ()


def _read_file(path: Path) -> Read:
    try:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, filename=str(path))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput(
            f"{path} cannot be read: {why}",
            where=path,
            next_step="name a skip list, or the directory that holds generic.py and pytorch_2.9.py",
        ) from error
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise InvalidInput(
            f"{path}{f':{line}' if line else ''}: {getattr(error, 'msg', error)}",
            where=path,
            next_step="correct the line that is named",
        ) from error
    versions = _FILE.fullmatch(path.name)
    reader = _ScriptReader(path, versions[1] if versions else "", _comments(text), [])
    listed = tuple(reader.sections(_assigned(tree, path), ()))
    return Read(listed, (*reader.notes, *_run_together(text, path.name)))


def _assigned(tree: ast.Module, path: Path) -> ast.expr:
    for statement in tree.body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        target = statement.target if isinstance(statement, ast.AnnAssign) else target
        value = getattr(statement, "value", None)
        if isinstance(target, ast.Name) and target.id == VARIABLE and isinstance(value, ast.expr):
            return value
    raise InvalidInput(
        f"{path} assigns no {VARIABLE}",
        where=path,
        next_step=f"write {VARIABLE} = {{section: {{module: […]}}}}",
    )


class _ScriptReader(msgspec.Struct, frozen=True):
    path: Path
    torch: str
    comments: Mapping[int, str]
    notes: list[str]

    def sections(self, node: ast.expr, around: tuple[str, ...]) -> Iterator[Listed]:
        """The names of a mapping: of modules with names, of sections, or of both."""
        for key, value in self.pairs(node):
            name = self.text(key)
            if isinstance(value, ast.Dict):
                # Of a mapping in a section the reference takes the keys for names: `not nn and not cuda`.
                yield from self.sections(value, (*around, name))
            else:
                yield from self.names(value, around, name)

    def names(self, node: ast.expr, around: tuple[str, ...], module: str) -> Iterator[Listed]:
        """The names of one list."""
        if isinstance(node, ast.Call):
            raise self.refuse(node, "is computed; only literals can be read")
        if not isinstance(node, (ast.List, ast.Set, ast.Tuple)):
            raise self.refuse(node, "is not a list of names")
        if not around:
            raise self.refuse(node, "is outside any section")
        for element in node.elts:
            raw = self.text(element)
            name = raw.strip()
            if name != raw:
                self.notes.append(f"{self.at(element)}: {raw!r} has a space at its end, which is left out")
            if not name:
                raise self.refuse(element, "is empty")
            comment = self.comment_at(element)
            yield Listed(self.path.name, element.lineno, self.torch, around, module, name, comment)

    def pairs(self, node: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
        """Keys and values of a mapping; of two equal keys Python keeps the last, so the first is reported."""
        if not isinstance(node, ast.Dict):
            raise self.refuse(node, "is not a mapping {…}")
        seen: dict[str, ast.expr] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                raise self.refuse(value, "is unpacked; only literals can be read")
            name = self.text(key)
            if name in seen:
                self.notes.append(
                    f"{self.at(key)}: {name!r} is given twice; Python keeps only the last one, "
                    f"here the one in line {seen[name].lineno} is read, too"
                )
            seen[name] = key
            yield key, value

    def text(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        raise self.refuse(node, "is not text")

    def comment_at(self, node: ast.expr) -> str:
        """The comment behind a name, else in the lines right above it."""
        if node.lineno in self.comments:
            return self.comments[node.lineno]
        found: list[str] = []
        line = node.lineno - 1
        while line in self.comments:
            found.insert(0, self.comments[line])
            line -= 1
        return " ".join(found)

    def at(self, node: ast.expr) -> str:
        return f"{self.path.name}:{node.lineno}"

    def refuse(self, node: ast.expr, what: str) -> InvalidInput:
        return InvalidInput(
            f"{self.path}:{node.lineno}: {ast.unparse(node)[:60]} {what}",
            where=self.path,
            next_step=f"write {VARIABLE} = {{section: {{module: [names]}}}}, all of it text",
        )


def _comments(text: str) -> dict[int, str]:
    """Comments by line, without those that hold nothing but a name that was taken out, or a rule."""
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            said = token.string.strip("# -\t")
            if said and not re.match(r"[\"']", said):
                found[token.start[0]] = said
    return found


def _run_together(text: str, name: str) -> Iterator[str]:
    """Two texts without a comma between them become one, which is hardly meant in a list of names."""
    previous: tokenize.TokenInfo | None = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.NL):
            continue
        if token.type == tokenize.STRING and previous is not None and previous.type == tokenize.STRING:
            yield (
                f"{name}:{token.start[0]}: {previous.string} and {token.string} have no comma between them, "
                "so they are one name"
            )
        previous = token
