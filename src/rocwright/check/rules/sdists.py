"""Rules about sdists: that a build can begin. Nothing of them is run; that is tried with `--install`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from packaging.utils import canonicalize_name

from rocwright.check.context import Context, Problem, Rule, required_name
from rocwright.check.environments import read_requirement
from rocwright.check.facts import Facts, Headers
from rocwright.data.toml import plain
from rocwright.errors import InvalidData

_BUILD = "pyproject.toml"
_FIX = "correct it where the sdist is made, and make it again"


def _folder(facts: Facts, _: Context) -> Iterator[Problem]:
    stem = facts.name.removesuffix(".tar.gz")
    tops = sorted({member.name.removeprefix("./").partition("/")[0] for member in facts.members})
    if not tops or facts.headers == Headers():
        return
    if len(tops) > 1:
        yield Problem(
            f"its files lie in {len(tops)} folders, {', '.join(tops[:3])}; it has one, {stem}", _FIX
        )
        return
    project, _dash, version = tops[0].rpartition("-")
    if (canonicalize_name(project), version) != (facts.project, stem.rpartition("-")[2]):
        yield Problem(f"its files lie in {tops[0]}, not in {stem}", _FIX)


def _build(facts: Facts, context: Context) -> Iterator[Problem]:
    if facts.headers == Headers():
        return
    if _BUILD not in facts.texts:
        if "setup.py" not in _files(facts) and _BUILD not in _files(facts):
            yield Problem("it has neither pyproject.toml nor setup.py, so nothing can build it", _FIX)
        return
    try:
        system = plain(facts.texts[_BUILD], where=_BUILD).get("build-system", {})
    except (InvalidData, RecursionError):
        yield Problem("its pyproject.toml is not valid TOML, so no installer builds it", _FIX, _BUILD)
        return
    requires = system.get("requires", []) if isinstance(system, Mapping) else None
    if not isinstance(requires, list) or not isinstance(system, Mapping):
        yield Problem("[build-system] has no list of requirements in `requires`", _FIX, _BUILD)
        return
    yield from _requires(facts, context, requires)
    yield from _backend(facts, system, requires)


def _requires(facts: Facts, context: Context, requires: list[object]) -> Iterator[Problem]:
    for text in requires:
        read = read_requirement(text) if isinstance(text, str) else "it is no text"
        if isinstance(read, str):
            yield Problem(f"its build requires {text!r}, which is malformed: {read}", _FIX, _BUILD)
        elif read.url is None and context.request.closed and context.leads_into_set(read):
            held = context.by_project.get(required_name(read), ())
            if not any(read.specifier.contains(one.version, prereleases=True) for one in held):
                yield Problem(
                    f"its build requires {read}, which is not in the set",
                    "put it into the set, or let the build do without",
                    _BUILD,
                )


def _backend(facts: Facts, system: Mapping[str, object], requires: list[object]) -> Iterator[Problem]:
    backend, paths = system.get("build-backend"), system.get("backend-path")
    if backend is None and paths is None:
        return  # setuptools, as installers assume
    if not isinstance(backend, str) or not all(map(str.isidentifier, _words(backend))):
        yield Problem(f"build-backend {backend!r} is not the name of a module", _FIX, _BUILD)
        return
    if paths is None:
        if not requires:
            yield Problem(
                f"its build-backend is {backend}, which neither `requires` nor `backend-path` brings",
                _FIX,
                _BUILD,
            )
        return
    outside = [path for path in paths if not _inside(path)] if isinstance(paths, list) else [paths]
    if outside or not isinstance(paths, list):
        yield Problem(
            f"backend-path {outside[0]!r} leads out of the sdist: installers refuse it", _FIX, _BUILD
        )
        return
    yield from _in_tree(facts, backend, paths)


def _in_tree(facts: Facts, backend: str, paths: list[str]) -> Iterator[Problem]:
    module = backend.partition(":")[0].replace(".", "/")
    files = _files(facts)
    places = [(PurePosixPath(path) / module).as_posix() for path in paths]
    found = [
        f"{place}{end}" for place in places for end in (".py", "/__init__.py") if f"{place}{end}" in files
    ]
    if not found:
        yield Problem(
            f"its build-backend is {backend}, and backend-path {', '.join(paths)} has no such module",
            _FIX,
            _BUILD,
        )
    elif found[0] in facts.texts and (why := _unreadable(facts.texts[found[0]])) is not None:
        yield Problem(f"it builds the sdist, and cannot be compiled: {why}", _FIX, found[0])


def _unreadable(text: str) -> str | None:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return str(error)
    return None


def _words(backend: str) -> list[str]:
    return backend.replace(":", ".").split(".")


def _inside(path: object) -> bool:
    if not isinstance(path, str):
        return False
    return not path.startswith("/") and "\\" not in path and ".." not in path.split("/")


def _files(facts: Facts) -> set[str]:
    """Files by their path below the sdist's folder."""
    return {member.name.removeprefix("./").partition("/")[2] for member in facts.members}


RULES = (
    Rule("sdist-folder", "All files of an sdist lie in the folder of its name.", _folder, kinds=("sdist",)),
    Rule(
        "sdist-build",
        "An sdist says what builds it, and its own build backend is in it.",
        _build,
        kinds=("sdist",),
    ),
)
