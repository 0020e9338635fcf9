"""What is wrong with the text of `_rocm_init.py`, found by reading it, never by running it.

A framework's `__init__.py` calls `initialize()` of that module before it loads an extension. So the function
takes no argument, and the module imports nothing by itself: where ROCm's packages are not installed, that
must come up in the call, where the framework can explain it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from rocwright.check.rules.source import parse_source

_FUNCTION, _MODULE, _CALLED = "initialize", "rocm_sdk", "initialize_process"
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LIBRARY = re.compile(r"[^\s/]+(/[^\s/]+)+(\.so(\.[0-9.]+)?|\.dll)", re.IGNORECASE)
_WANTED = ("preload_shortnames", "check_version")


def what_is_wrong(text: str, rocm_version: str | None) -> Iterator[str]:
    """Causes, each a sentence; none for a good module.

    `rocm_version` is the version of ROCm that the wheel requires, None where it requires no exact one.
    """
    module = parse_source(text)
    yield from _shape(module)
    function = _initialize(module)
    if function is not None:
        yield from _in_function(function, rocm_version)


def what_is_wrong_inside(text: str, members: Sequence[str]) -> Iterator[str]:
    """Causes in the module of a wheel that has ROCm inside, among these members."""
    module = parse_source(text)
    yield from _shape(module)
    function = _initialize(module)
    if function is not None and any(_imports_rocm(node) for node in ast.walk(function)):
        yield f"it imports {_MODULE}, of packages that a wheel with ROCm inside does not require"
    if function is not None:
        for path in _library_paths(function):
            if not any(f"/{member}".endswith(f"/{path}") for member in members):
                yield f"it loads {path}, which is not in the wheel"


def _library_paths(function: ast.FunctionDef) -> Iterator[str]:
    """Texts that are paths of libraries."""
    texts = [node.value for node in ast.walk(function) if isinstance(node, ast.Constant)]
    named = [text for text in texts if isinstance(text, str) and _LIBRARY.fullmatch(text)]
    yield from dict.fromkeys(named)


def _imports_rocm(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.partition(".")[0] == _MODULE for alias in node.names)
    return isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == _MODULE


def _shape(module: ast.Module | str) -> Iterator[str]:
    """What is wrong with the module around the body of its one function."""
    if isinstance(module, str):
        yield module
        return
    if any(_is_import(node) for node in module.body):
        yield "it imports something when it is loaded; imports belong into initialize()"
    function = _initialize(module)
    if function is None:
        names = [node.name for node in module.body if isinstance(node, _DEFINITIONS)]
        yield f"it defines {', '.join(names) or 'nothing'}; expected exactly {_FUNCTION}()"
    elif needed := _required_arguments(function):
        yield f"{_FUNCTION}() cannot be called without {', '.join(needed)}"


def _initialize(module: ast.Module | str) -> ast.FunctionDef | None:
    """The one function that a module defines, when it is the right one."""
    if isinstance(module, str):
        return None
    defined = [node for node in module.body if isinstance(node, _DEFINITIONS)]
    if len(defined) == 1 and isinstance(defined[0], ast.FunctionDef) and defined[0].name == _FUNCTION:
        return defined[0]
    return None


def _is_import(node: ast.stmt) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module != "__future__"
    return isinstance(node, ast.Import)


def _required_arguments(function: ast.FunctionDef) -> list[str]:
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    needed = plain[: len(plain) - len(arguments.defaults)]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return [each.arg for each in (*needed, *(arg for arg, default in pairs if default is None))]


def _in_function(function: ast.FunctionDef, rocm_version: str | None) -> Iterator[str]:
    nodes = list(ast.walk(function))
    calls = [node for node in nodes if isinstance(node, ast.Call) and _is_wanted(node.func, nodes)]
    if not calls:
        yield f"{_FUNCTION}() does not import {_MODULE} and call {_MODULE}.{_CALLED}()"
    for call in calls:
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        # Of `**options` nothing can be said.
        missing = [name for name in _WANTED if name not in given and None not in given]
        if missing:
            yield f"{_CALLED}() is called without {' and '.join(missing)}"
        yield from _version(given.get("check_version"), rocm_version)


def _is_wanted(function: ast.expr, nodes: list[ast.AST]) -> bool:
    """Whether a call is of `rocm_sdk.initialize_process`, as imported among the nodes."""
    modules = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == _MODULE
    }
    names = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == _MODULE
        for alias in node.names
        if alias.name == _CALLED
    }
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return function.attr == _CALLED and function.value.id in modules
    return isinstance(function, ast.Name) and function.id in names


def _version(value: ast.expr | None, rocm_version: str | None) -> Iterator[str]:
    """A pattern that the required ROCm does not fit would warn at each import of the framework."""
    if not isinstance(value, ast.Constant) or rocm_version is None:
        return
    if not isinstance(value.value, str):
        yield f"check_version is {value.value!r}, no version"
    elif not re.fullmatch(".*".join(map(re.escape, value.value.split("*"))), rocm_version):
        yield f"it checks for ROCm {value.value}, but the wheel requires rocm {rocm_version}"
