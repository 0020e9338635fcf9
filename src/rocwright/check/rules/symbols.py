"""Rules about what the loader and the interpreter look for by name: symbols, and the entry of a module."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from rocwright.binary.symbols import Want
from rocwright.check.context import Context, Problem, Rule
from rocwright.check.facts import ElfFacts, Facts
from rocwright.check.rules.elf import linux_tags, loadable, native
from rocwright.wheel.tags import STABLE

_SHOWN = 3
_LIBRARY = re.compile(r".+\.so(\.[0-9]+)*")
# Names that only the import system gives meaning to; a plain `.so` may be anything.
_MODULE = re.compile(r"(?P<name>[^./]+)\.(?:cpython-3[0-9]+[a-z]*(?:-[^./]+)?|abi3t?)\.so")
# A module's name, with something behind it or its end cut off.
_LOST = re.compile(r"[^./]+(?:\.(?:cpython-3|abi3)[^./]*)?\.so\.[0-9.]+|[^./]+\.cpython-3[^./]*")
_VERSIONED = re.compile(r"\.cpython-3([0-9]+)-[^./]+\.so$")
_ABI = re.compile(r"cp3([0-9]+)")
_STABLE_TAG = re.compile(r"cp3([0-9]+)-abi3")
# Without one of these nothing makes a module: it is a library that something else opens.
_MAKES_MODULE = frozenset({"PyModule_Create2", "PyModule_FromDefAndSpec2", "PyModuleDef_Init"})


def _symbols(facts: Facts, context: Context) -> Iterator[Problem]:
    closed = context.request.closed
    for elf in native(facts, context):
        missing = context.scopes.missing(facts, elf, closed=closed)
        if missing:
            yield Problem(
                f"nothing that it loads defines {_shown([_spelled(want) for want in missing])}",
                "build it against the libraries that it is published with, or link what has the symbol",
                elf.member,
            )
            continue
        minor = _minor(facts, elf)
        lacking = _no_python_has(facts, elf, minor, context) if minor is not None else []
        if lacking:
            yield Problem(
                f"neither Python 3.{minor} nor anything that it loads defines {_shown(lacking)}",
                "build it with the headers of the Python that it is for",
                elf.member,
            )


def _minor(facts: Facts, elf: ElfFacts) -> int | None:
    """The Python that a library is for, when it is only one: its own name says it, or the wheel's tags."""
    match = _VERSIONED.search(PurePosixPath(elf.member).name)
    if match is not None:
        return int(match[1])
    abis = {tag.split("-")[1] for tag in facts.tags}
    one = _ABI.fullmatch(next(iter(abis))) if len(abis) == 1 else None
    return None if one is None or _MODULE.fullmatch(PurePosixPath(elf.member).name) else int(one[1])


def _no_python_has(facts: Facts, elf: ElfFacts, minor: int, context: Context) -> list[str]:
    """What a library that Python loads wants of it, and no release of this version is known to have."""
    known = context.scopes.interpreter(minor)
    if known is None or elf.symbols is None or not context.scopes.serves_modules(elf):
        return []
    since = context.stable_abi.since
    names = [
        name
        for name in sorted(elf.symbols.python)
        if name not in known and since.get(name, minor + 1) > minor
    ]
    return context.scopes.undefined(facts, elf, names) if names else []


def _spelled(want: Want) -> str:
    version = f"@{want.version}" if want.version else ""
    return f"{want.name}{version}" + (f" ({want.library})" if want.library else "")


def _shown(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _of_programs(name: str, facts: Facts) -> bool:
    """Whether programs load a library as they start, and nothing else needs it."""
    users = [elf for elf in facts.elf if name in elf.needed]
    return bool(users) and all(elf.kind == "exec" or elf.program for elf in users)


def _program(facts: Facts, _: Context) -> Iterator[Problem]:
    needed = {name for elf in facts.elf for name in elf.needed}
    for elf in loadable(facts):
        name = PurePosixPath(elf.member).name
        if not _LIBRARY.fullmatch(name):
            continue
        if elf.not_opened and not _of_programs(name, facts):
            yield Problem(
                "it forbids the loader to open it for a running program, as Python does",
                "link it without -z nodlopen",
                elf.member,
            )
        if not (elf.kind == "exec" or elf.program):
            continue
        if _MODULE.fullmatch(name) or name in needed or name.startswith("lib"):
            yield Problem(
                "it is a program under the name of a library, which no loader accepts as one",
                "link it with -shared; look for a -pie or -no-pie among the link flags",
                elf.member,
            )


def _init(facts: Facts, context: Context) -> Iterator[Problem]:
    needed = {name for elf in facts.elf for name in elf.needed}
    for elf in native(facts, context):
        path = PurePosixPath(elf.member)
        stem = path.name.partition(".")[0]
        if _LOST.fullmatch(path.name) and elf.symbols and init_name(stem) in elf.symbols.inits:
            if not needed & {path.name, elf.soname}:
                yield Problem(
                    "it is an extension module under a name that no Python imports",
                    f"call it {stem}.abi3.so, or as the suffix of its Python says, without more behind",
                    elf.member,
                )
            continue
        match = _MODULE.fullmatch(path.name)
        if match is None or elf.symbols is None or elf.kind != "dyn" or elf.program:
            continue
        # A package may be an extension itself, and has the name of its folder.
        wanted = init_name(path.parent.name if match["name"] == "__init__" else match["name"])
        inits = elf.symbols.inits
        if wanted in inits:
            continue
        if inits:
            cause = f"it defines {_shown(sorted(inits))}, but Python looks for {wanted}"
        elif _MAKES_MODULE & elf.symbols.python:
            cause = f"it makes a module, but does not define {wanted}, by which Python enters it"
        else:
            continue
        yield Problem(
            cause,
            "give file and module one name, and export its entry: PyMODINIT_FUNC, no -fvisibility without it",
            elf.member,
        )


def init_name(module: str) -> str:
    """The function by which Python enters an extension module, from the last part of its name."""
    try:
        module.encode("ascii")
    except UnicodeEncodeError:
        return "PyInitU_" + module.encode("punycode").decode("ascii").replace("-", "_")
    return f"PyInit_{module}"


def _stable(facts: Facts, context: Context) -> Iterator[Problem]:
    tags = [match for tag in facts.tags if (match := _STABLE_TAG.match(tag))]
    if not tags or any(tag.split("-")[1] not in STABLE for tag in facts.tags) or not linux_tags(facts):
        return
    oldest = min(int(match[1]) for match in tags)
    since = context.stable_abi.since
    for elf in native(facts, context):
        if not _is_stable_module(elf):
            continue
        used = sorted(elf.symbols.python) if elf.symbols else []
        other = context.scopes.undefined(facts, elf, [name for name in used if name not in since])
        # What was there before it was promised does no harm.
        known = context.scopes.interpreter(oldest) or frozenset()
        later = [
            f"{name} (3.{since[name]})"
            for name in used
            if since.get(name, 0) > max(oldest, 2) and name not in known
        ]
        if other:
            yield Problem(
                f"it uses {_shown(other)}, no part of the stable ABI that its tag promises",
                "build it with Py_LIMITED_API, or tag it for one version of Python",
                elf.member,
            )
        if later:
            yield Problem(
                f"it uses {_shown(later)}, newer than Python 3.{oldest}, for which it is tagged",
                "define Py_LIMITED_API as the version in the tag, or raise the tag",
                elf.member,
            )


def _is_stable_module(elf: ElfFacts) -> bool:
    """Whether a module claims the stable ABI itself: others in the wheel may be for some Pythons only."""
    name = PurePosixPath(elf.member).name
    return name.endswith(tuple(f".{abi}.so" for abi in STABLE)) and bool(elf.symbols and elf.symbols.inits)


RULES = (
    Rule(
        "elf-symbols",
        "Each symbol that a library needs is defined by something that is loaded with it.",
        _symbols,
    ),
    Rule(
        "elf-program",
        "No library or extension module is a program, or forbids the loader to open it.",
        _program,
    ),
    Rule(
        "extension-init",
        "An extension module has a name that Python imports, and the function to enter it by.",
        _init,
    ),
    Rule(
        "stable-abi",
        "Modules of a wheel tagged abi3 use nothing but the stable ABI of the Python in the tag.",
        _stable,
    ),
)
