"""The rule about what torch loads before its own libraries, and all that is read out of `_rocm_init.py`.

A framework's `__init__.py` calls `initialize()` of that module before it loads an extension. So the function
takes no argument, and the module imports nothing by itself: where ROCm's packages are not installed, that
must come up in the call, where the framework can explain it. Its source is read as a tree and never run.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence

from rocwright.check.context import Context, Problem, Rule
from rocwright.check.facts import Facts
from rocwright.check.libraries import directory_of, search_entries
from rocwright.check.rules.elf import native

_FAULTS = (SyntaxError, ValueError, TypeError, RecursionError)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LIBRARY = re.compile(r"[^\s/]+(/[^\s/]+)+(\.so(\.[0-9.]+)?|\.dll)", re.IGNORECASE)
_WANTED = ("preload_shortnames", "check_version")
_INIT = "torch/_rocm_init.py"
_FUNCTION, _MODULE, _CALLED = "initialize", "rocm_sdk", "initialize_process"


def parse_source(text: str) -> ast.Module | str:
    """The tree of a module, or why there is none."""
    try:
        with warnings.catch_warnings():
            # About the style of a text that is not ours.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except MemoryError:
        return "it is nested too deeply to be read"  # what the parser of CPython before 3.13 says of that
    except _FAULTS as error:
        return f"it is not valid Python: {error}"


def literal(node: ast.expr) -> object:
    """The value of a literal; None for what is none, such as a call, or a list as a key."""
    try:
        return ast.literal_eval(node)
    except (*_FAULTS, MemoryError):
        return None


def what_is_wrong(text: str, rocm_version: str | None) -> Iterator[str]:
    """Causes, each a sentence; none for a good module.

    `rocm_version` is the version of ROCm that the wheel requires, None where it requires no exact version.
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
        yield "it imports something when it is loaded; imports belong in initialize()"
    function = _initialize(module)
    if function is None:
        names = [node.name for node in module.body if isinstance(node, _DEFINITIONS)]
        yield f"it defines {', '.join(names) or 'nothing'}; expected exactly {_FUNCTION}()"
    elif needed := _required_arguments(function):
        yield f"{_FUNCTION}() cannot be called without {', '.join(needed)}"


def _initialize(module: ast.Module | str) -> ast.FunctionDef | None:
    """The only function that a module defines, when it is the right function."""
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
        # Of `**options` nothing is known.
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
        yield f"check_version is {value.value!r}, not a version"
    elif not re.fullmatch(".*".join(map(re.escape, value.value.split("*"))), rocm_version):
        yield f"it checks for ROCm {value.value}, but the wheel requires rocm {rocm_version}"


_CALL, _LIST = "initialize_process", "preload_shortnames"


def _preload(facts: Facts, context: Context) -> Iterator[Problem]:
    """What the list lacks, directly needed names only: what ROCm's libraries need they find themselves.

    A library that the RPATH of what needs it leads to, in the files at hand, need not be in the list.
    That another name in the list happens to load it does not count: that changes from release to release.
    """
    text = facts.texts.get(_INIT)
    # That it is missing, or does not initialise ROCm, is a finding of its own.
    if text is None or any(what_is_wrong(text, None)):
        return
    module = parse_source(text)
    loaded = _listed(module) if isinstance(module, ast.Module) else None
    if loaded is None:
        yield Problem(
            f"its {_LIST} is not a list of strings, so it cannot be compared", "write a list", _INIT
        )
        return
    for member, library in (*_elf_needs(facts, context), *_pe_needs(facts)):
        named = context.rocm_libraries.short_name(library, "linux" if ".so" in library else "windows")
        if named is not None and named[0] not in loaded:
            yield Problem(
                f"it needs {library} before anything has loaded it: {_LIST} in {_INIT} lacks {named[0]!r}",
                f"add {named[0]!r} to the list of libraries that torch's recipe preloads",
                member,
            )


def _elf_needs(facts: Facts, context: Context) -> Iterator[tuple[str, str]]:
    places = context.libraries.places
    for elf in native(facts, context):
        here = [directory_of(elf, entry) for entry in search_entries(elf)]
        for name in elf.needed:
            reached = any(f"{directory}/{name}" in places for directory in here if directory is not None)
            if not reached and not context.libraries.holds(facts, name):
                yield elf.member, name


def _pe_needs(facts: Facts) -> Iterator[tuple[str, str]]:
    own = {pe.member.rpartition("/")[2].lower() for pe in facts.pe}
    for pe in facts.pe:
        yield from ((pe.member, name) for name in pe.imports if name.lower() not in own)


def _listed(module: ast.Module) -> frozenset[str] | None:
    """The literal list given to initialize_process; None when it is made elsewhere."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and _name(node.func) == _CALL:
            value = next((keyword.value for keyword in node.keywords if keyword.arg == _LIST), None)
            if value is None:
                return None
            names = literal(value)
            if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
                return None
            return frozenset(names)
    return None


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


RULES = (
    Rule(
        "torch-preload",
        "torch/_rocm_init.py loads each ROCm library that torch's own libraries need but cannot find.",
        _preload,
    ),
)
