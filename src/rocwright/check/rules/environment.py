"""Rules about what a wheel puts into an environment that is not its own.

Code that runs at every start of Python, modules of others, files of the interpreter and of tools.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from rocwright.check.context import Context, Problem, Rule
from rocwright.check.environments import read_specifier
from rocwright.check.facts import Facts
from rocwright.model.patterns import fits
from rocwright.wheel.read import place_of

_LEAVE_OUT = "leave it out; what a package needs it does when it is imported"
_NAMESPACE = "-nspkg.pth"
_STARTUP = ("sitecustomize", "usercustomize")
_CODE = re.compile(r"import[ \t]")  # as site.py of the standard library tells code from paths
_LATE_PATCH = 99  # a specifier may ask for a certain bugfix release


def _top(place: str) -> str:
    """The name that a path in site-packages is imported by."""
    return place.partition("/")[0].partition(".")[0]


def _places(facts: Facts) -> Iterator[tuple[str, str]]:
    """Each file's path in site-packages, and the member."""
    for member in facts.members:
        place = place_of(member.name)
        if not place.startswith("<") and not member.name.endswith("/"):
            yield place, member.name


def _own_modules(facts: Facts) -> frozenset[str]:
    return frozenset(_top(place) for place, _ in _places(facts) if not place.endswith(".pth"))


def _is_module(place: str) -> bool:
    """Whether Python imports something by the first part of the path."""
    top, below, _ = place.partition("/")
    if below:
        return top.isidentifier()
    return place.endswith((".py", ".pyc", ".pyd", ".so"))


# -- code at the start of Python


def _startup_lines(facts: Facts) -> Iterator[tuple[str, str, str]]:
    """Each line of a .pth file that Python reads: the file's place, the member, the line."""
    for place, member in _places(facts):
        if "/" in place or not place.endswith(".pth"):
            continue
        # The bytes of a mark that editors put in front are none of the text.
        for line in facts.texts.get(member, "").lstrip("\ufeff").splitlines():
            if line.strip() and not line.startswith("#"):
                yield place, member, line.rstrip()


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)) is not None:
        return f"{before}.{node.attr}"
    return None


def _parsed(line: str) -> ast.Module | None:
    try:
        return ast.parse(line)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _package(line: str, context: Context) -> str | None:
    """The package of a wheel at hand that a line, which is a path, leads to."""
    name = ".".join(part for part in re.split(r"[/\\]", line) if part not in ("", "."))
    return name if any(table.kinds.get(name) == "package" for table in context.tables(name)) else None


def _for_namespace(line: str, place: str, context: Context) -> bool:
    """Whether code only makes a namespace package, as older setuptools wrote it into published wheels."""
    module = _parsed(line) if place.endswith(_NAMESPACE) else None
    return module is not None and _makes_namespace(module, context.owned_names.namespace_calls)


def _runs_own(line: str, facts: Facts) -> bool:
    """Whether code only runs what the wheel itself brings."""
    module, own = _parsed(line), _own_modules(facts)
    return module is not None and all(_runs_only(statement, own) for statement in module.body)


def _makes_namespace(module: ast.Module, allowed: frozenset[str]) -> bool:
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
    for call in calls:
        name = _dotted(call.func)
        if name not in allowed:
            return False
        if name == "__import__":
            what = call.args[0] if call.args else None
            if not isinstance(what, ast.Constant) or not str(what.value).startswith("importlib."):
                return False
    imports = [node for node in ast.walk(module) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {alias.name for node in imports for alias in node.names}
    return names <= {"sys", "types", "os"}


def _runs_only(statement: ast.stmt, own: frozenset[str]) -> bool:
    """Whether a statement imports one of these modules, or calls a function of theirs without arguments."""
    if isinstance(statement, ast.Import):
        return all(not alias.asname and alias.name.partition(".")[0] in own for alias in statement.names)
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    call = statement.value
    return not call.args and not call.keywords and (_dotted(call.func) or "").partition(".")[0] in own


def _known(place: str, line: str, facts: Facts, context: Context) -> bool:
    """Whether code is the package's own, or a known one."""
    return context.owned_names.known_startup(place, facts.project) or _runs_own(line, facts)


def _startup_code(facts: Facts, context: Context) -> Iterator[Problem]:
    told: set[str] = set()
    for place, member, line in _startup_lines(facts):
        if member in told:
            continue
        if _CODE.match(line):
            if not _known(place, line, facts, context) and not _for_namespace(line, place, context):
                told.add(member)
                yield Problem("it runs code at every start of Python in the environment", _LEAVE_OUT, member)
        elif line.startswith(("/", "\\")) or re.match("[A-Za-z]:", line) or ".." in re.split(r"[/\\]", line):
            told.add(member)
            yield Problem(
                "it makes Python look for modules outside of site-packages", "install what is needed", member
            )
    for place, member in _places(facts):
        name = _top(place)
        if name in _STARTUP and _is_module(place):
            yield Problem("Python runs it at every start, whatever is started", _LEAVE_OUT, member)
        elif place == "_virtualenv.py" and not context.owned_names.known_startup(place, facts.project):
            yield Problem("virtualenv runs it at every start of Python", _LEAVE_OUT, member)


def _startup_hook(facts: Facts, context: Context) -> Iterator[Problem]:
    told: set[str] = set()
    for place, member, line in _startup_lines(facts):
        if member not in told and _CODE.match(line) and _known(place, line, facts, context):
            told.add(member)
            yield Problem("it runs the package's own code at every start of Python", _LEAVE_OUT, member)
        elif member not in told and (package := _package(line, context)) is not None:
            told.add(member)
            yield Problem(
                f"Python finds the modules of {package} under names of their own, too: imported by both they "
                "are there twice, and each hides another of its name",
                _LEAVE_OUT,
                member,
            )


# -- modules of others


def _serves(facts: Facts, python: str) -> bool:
    """Whether the wheel can be installed with a Python, by Requires-Python and its tags."""
    wanted = read_specifier(facts.headers.requires_python)
    if wanted is None:
        return True
    if not any(wanted.contains(f"{python}.{patch}", prereleases=True) for patch in (0, _LATE_PATCH)):
        return False
    minor = int(python.partition(".")[2])
    for tag in facts.tags:
        interpreter, abi, _ = tag.split("-")
        match = re.fullmatch(r"(py|cp)3([0-9]*)", interpreter)
        if match is None:
            continue
        least = int(match[2] or 0)
        if minor == least or (minor > least and (match[1] == "py" or abi.startswith("abi3"))):
            return True
    return False


def _shadowing(facts: Facts, context: Context) -> Iterator[Problem]:
    table, held = context.owned_names, context.owned_names.recorded
    served = {python for python in held if _serves(facts, python)}
    modules: dict[str, dict[str, str]] = {}
    for place, member in _places(facts):
        if _is_module(place):
            modules.setdefault(_top(place), {})[place] = member
    for name, members in sorted(modules.items()):
        # Where one of the Pythons lacks the module, the wheel may be there to bring it.
        if served and served <= set(table.pythons_with(name)) and not table.is_backport(name, facts.project):
            yield Problem(
                f"{name} is a module of Python itself",
                "move it into the package, or give it another name",
                next(iter(members.values())),
            )
        elif owners := table.owners(name, facts.project):
            # A path that both have is told of the set.
            others = {place for other in context.by_project.get(owners[0], ()) for place, _ in _places(other)}
            foreign = [member for place, member in members.items() if place not in others]
            if foreign:
                yield Problem(
                    f"{name} belongs to the project {owners[0]}",
                    f"require {owners[0]} instead of bringing its files",
                    foreign[0],
                )


# -- files of the environment and of other distributions


def _data_of_wheel(facts: Facts) -> set[str]:
    return {info.removesuffix(".dist-info") + ".data" for info in facts.dist_infos}


def _installed_places(facts: Facts, context: Context) -> Iterator[Problem]:
    own_data, table = _data_of_wheel(facts), context.owned_names
    for member in facts.members:
        top, _, rest = member.name.partition("/")
        if not top.endswith(".data") or member.name.endswith("/"):
            continue
        scheme, _, below = rest.partition("/")
        if top not in own_data and scheme in table.schemes:
            yield Problem(
                "it lies in a .data directory of another wheel", "build the wheel again", member.name
            )
        elif top in own_data and (scheme not in table.schemes or not below):
            yield Problem(
                f"its .data directory has {scheme!r}, which no installer knows",
                f"put it below one of {', '.join(sorted(table.schemes))}",
                member.name,
            )
        elif top in own_data:
            yield from _below_data(scheme, below, member.name, facts, context)


def _below_data(scheme: str, below: str, member: str, facts: Facts, context: Context) -> Iterator[Problem]:
    first = below.partition("/")[0]
    if scheme in ("purelib", "platlib") and first.endswith((".dist-info", ".egg-info")):
        yield Problem(
            "it would be taken for a file of an installed project's metadata", "leave it out", member
        )
    elif scheme == "scripts":
        yield from _program(below.removesuffix(".exe"), member, facts, context)
    elif scheme == "data" and fits(below, context.owned_names.places):
        yield Problem("it replaces a file of the environment itself", "leave it out", member)
    elif scheme == "data" and PurePosixPath(below).parts[:1] in (("bin",), ("Scripts",)):
        yield from _program(PurePosixPath(below).name.removesuffix(".exe"), member, facts, context)


def _program(name: str, member: str, facts: Facts, context: Context) -> Iterator[Problem]:
    owners = context.owned_names.program_owners(name, facts.project)
    if owners is not None:
        whose = f"the program of {owners[0]}" if owners else "a program of the environment itself"
        yield Problem(f"{name} replaces {whose}", "give it another name", member)


_SECTION, _ENTRY = re.compile(r"\[([^]]*)\]"), re.compile(r"(?![#;])([^=]+?)\s*=")
_SCRIPTS = ("console_scripts", "gui_scripts")
_BAD_SCRIPT = re.compile(r"[/\\\x00-\x1f]|^\.+$")


def entry_scripts(facts: Facts) -> Iterator[tuple[str, str]]:
    """Each script that installers make from entry points: its name as written, and the member."""
    for info in facts.dist_infos:
        member, section = f"{info}/entry_points.txt", ""
        for line in facts.texts.get(member, "").splitlines():
            if (begins := _SECTION.fullmatch(line.strip())) is not None:
                section = begins[1].strip()
            elif section in _SCRIPTS and (entry := _ENTRY.match(line.strip())) is not None:
                yield entry[1], member


def _script_names(facts: Facts, context: Context) -> Iterator[Problem]:
    for name, member in entry_scripts(facts):
        if _BAD_SCRIPT.search(name):
            yield Problem(
                f"the script {name!r} would be written outside of the environment's programs",
                "give it a name without a path",
                member,
            )
        else:
            yield from _program(name, member, facts, context)


RULES = (
    Rule(
        "startup-code",
        "It brings no code that runs at every start of Python, and no path outside of site-packages.",
        _startup_code,
        waivable=False,
    ),
    Rule(
        "startup-hook",
        "No .pth file runs even the package's own code at every start of Python, or leads into a package.",
        _startup_hook,
        severity="warning",
    ),
    Rule(
        "shadowed-modules",
        "Its modules have no names of Python's own modules or of another project's.",
        _shadowing,
    ),
    Rule(
        "installed-places",
        "What lies in .data replaces nothing of the environment, its tools or another project.",
        _installed_places,
        waivable=False,
    ),
    Rule(
        "script-names",
        "Scripts of entry points have plain names that are nobody else's.",
        _script_names,
        waivable=False,
    ),
)
