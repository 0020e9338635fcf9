"""Rules about Python sources: they compile for the Pythons of the wheel, and what they import is there."""

from __future__ import annotations

from collections.abc import Iterator

from rocwright.check.context import Context, Problem, Rule
from rocwright.check.facts import Facts, PythonFacts
from rocwright.check.modules import Imports, Lost, ModuleTable, dotted, is_init
from rocwright.check.pythons import claimed, lowest_told
from rocwright.model.patterns import any_pattern, fits
from rocwright.wheel.read import place_of

_MERGE = "resolve the merge in the source tree, then build again"
_FOR_ALL = "write it for this Python, too, or say in Requires-Python that the wheel is not for it"
_WHOLE = "look whether the file was cut or changed by a tool after it was tested, then build again"


def imports_of(facts: Facts, context: Context) -> Imports:
    """What is imported in a wheel; with a complete set also out of its other projects' wheels."""
    own = context.modules[facts.name]
    closed = context.request.closed and not context.blind
    return Imports(own, context.tables) if closed else Imports(own)


def _is_judged(facts: Facts) -> bool:
    """Whether the Python that judged may speak for one that the wheel is for: it is one, or a newer."""
    minors = claimed(facts)
    return bool(minors) and facts.judged_by >= min(minors)


def _syntax(facts: Facts, context: Context, *, reached: bool) -> Iterator[Problem]:
    broken = list(_broken(facts))
    if not broken:
        return
    apart = {*context.terms(facts.project).told_apart, *facts.unmerged}
    at_once = imports_of(facts, context).imported
    lowest = lowest_told(facts)
    newer = {one.member for one in facts.python if lowest is not None and one.needs > lowest}
    told: set[str] = set()
    for minor, one in broken:
        if one.member in apart or one.member in told or (dotted(one.member) in at_once) != reached:
            continue
        if minor < facts.judged_by:
            # Of what is not imported at once some is for newer Pythons; newer syntax has a rule of its own.
            if not reached or one.member in newer:
                continue
        elif not reached and not _is_module(one, facts, context):
            continue
        told.add(one.member)
        step = _WHOLE if minor == facts.judged_by else _FOR_ALL
        yield Problem(f"Python 3.{minor} cannot compile it: line {one.line}: {one.problem}", step, one.member)


def _broken(facts: Facts) -> Iterator[tuple[int, PythonFacts]]:
    """What does not compile, and with which Python 3.x, that which judged all first."""
    if _is_judged(facts):
        yield from ((facts.judged_by, one) for one in facts.python if one.problem is not None)
    for minor, modules in sorted((facts.other_pythons or {}).items()):
        yield from ((minor, one) for one in modules)


def _at_once(facts: Facts, context: Context) -> Iterator[Problem]:
    yield from _syntax(facts, context, reached=True)


def _rest(facts: Facts, context: Context) -> Iterator[Problem]:
    yield from _syntax(facts, context, reached=False)


def _is_module(one: PythonFacts, facts: Facts, context: Context) -> bool:
    """Whether anything can import a file where it stands: templates, fixtures and samples are data."""
    place = place_of(one.member)
    if fits(place, context.terms(facts.project).never_imported):
        return False
    parts = place.removesuffix(".py").split("/")
    if not all(map(str.isidentifier, parts)):
        return False
    kinds = context.modules[facts.name].kinds
    folders = [kinds.get(".".join(parts[:end])) for end in range(1, len(parts))]
    # Below a package every folder is one; above there may be namespaces.
    first = folders.index("package") if "package" in folders else len(folders)
    return all(kind == "package" for kind in folders[first:]) and (first < len(folders) or len(parts) == 1)


def _newer(facts: Facts, context: Context) -> Iterator[Problem]:
    lowest = lowest_told(facts)
    if lowest is None or not any(one.needs > lowest for one in facts.python):
        return
    for one in imports_of(facts, context).reached.values():
        if one.needs > lowest:
            yield Problem(
                f"it has syntax of Python 3.{one.needs}, and the wheel is for Python 3.{lowest}, too",
                f"write it for 3.{lowest}, or say Requires-Python: >=3.{one.needs}",
                one.member,
            )


def _merge(facts: Facts, context: Context) -> Iterator[Problem]:
    broken = {one.member for one in facts.python if one.problem is not None}
    for member, line in facts.unmerged.items():
        # In a text of a module that compiles they are what the module is about.
        told = member in broken if member.endswith(".py") else True
        if told and not fits(place_of(member), context.terms(facts.project).never_imported):
            yield Problem(f"line {line} has the marks of a merge that was not resolved", _MERGE, member)


def _unread(facts: Facts, context: Context) -> Iterator[Problem]:
    for one in facts.python:
        if one.unread is not None and _is_module(one, facts, context):
            yield Problem(
                f"Python 3.{facts.judged_by} cannot tell whether it compiles: {one.unread}",
                "write it with less depth, or import it with each Python that the wheel is for",
                one.member,
            )
    if facts.unjudged is not None:
        yield Problem(
            f"Python 3.{facts.judged_by} did not come to the end of its modules: {facts.unjudged}",
            "check it again, with more memory and with another Python",
        )


# -- imports that lead nowhere


def _lost_at_once(facts: Facts, context: Context) -> Iterator[Problem]:
    imports = imports_of(facts, context)
    for source in imports.reached.values():
        for lost in imports.lost(source):
            if not _told_elsewhere(lost, facts, context):
                yield _problem(lost, f"importing {dotted(source.member).split('.')[0]} fails")


def _lost_later(facts: Facts, context: Context) -> Iterator[Problem]:
    imports = imports_of(facts, context)
    at_once = {lost.module for source in imports.reached.values() for lost in imports.lost(source)}
    for source in facts.python:
        if (
            dotted(source.member) in imports.reached
            or not source.imports
            or not _is_module(source, facts, context)
        ):
            continue
        lines = {one.line for one in source.imports if not one.raised}
        for lost in imports.lost(source):
            if (
                lost.line in lines
                and lost.module not in at_once
                and not _told_elsewhere(lost, facts, context)
            ):
                yield _problem(lost, "importing the module fails")


def _hidden(facts: Facts, context: Context) -> Iterator[Problem]:
    """A package beside a module of the same name, which Python takes; it is no loss where it has all."""
    packages = {one.member: one for one in facts.python if is_init(one.member)}
    for one in facts.python:
        stem = one.member.removesuffix(".py")
        package = packages.get(f"{stem}/__init__.py")
        if package is None or package.dynamic or package.spreads or package.problem is not None:
            continue
        if one.names is None or package.names is None or not _is_module(one, facts, context):
            continue
        gone = sorted(name for name in one.names - package.names if not name.startswith("_"))
        if gone:
            yield Problem(
                f"a package of its name is imported in its place, and has no {', '.join(gone[:3])}",
                "leave one of them out; mostly one was left behind when the other came",
                one.member,
            )


def _outside(facts: Facts, context: Context) -> Iterator[Problem]:
    if not context.request.closed or context.blind:
        return
    for top, (member, line) in imports_of(facts, context).outside.items():
        if not context.owned_names.pythons_with(top) and not _may_come(top, context):
            yield Problem(
                f"line {line} imports {top}, which is not Python's, not the set's and of nothing it requires",
                "correct the name, or require the package that has it",
                member,
            )


def _may_come(top: str, context: Context) -> bool:
    """Whether a package from elsewhere may bring a module of this name.

    What it brings must be known: not its name alone, for with it comes what it requires itself.
    """
    owned = context.owned_names
    return bool(owned.owners(top, "")) or not all(map(owned.is_known, context.elsewhere))


def _told_elsewhere(lost: Lost, facts: Facts, context: Context) -> bool:
    """Whether a rule about the files that a package must have says so."""
    place = lost.module.replace(".", "/")
    places = [place, *(f"{place}/{name}" for name in lost.names)]
    required = any_pattern((*context.terms(facts.project).required, *context.terms(facts.project).told_apart))
    endings = (".py", "/__init__.py", ".so", ".pyd")
    return any(required.fullmatch(f"{each}{ending}") for each in places for ending in endings)


def _problem(lost: Lost, what: str) -> Problem:
    if lost.package:
        cause = f"{lost.module} has no __init__.py, so what is imported from it is not there: {what}"
    else:
        cause = f"it imports {lost.module}, which is not in the wheel: {what}"
    return Problem(cause, "look in the build's log for what was left out, then build again", lost.importer)


RULES = (
    Rule("merge-marks", "No source or other text that machines read has the marks of a merge.", _merge),
    Rule("python-syntax", "What importing its packages imports can be compiled.", _at_once),
    Rule("python-compiles", "Every other module of its packages can be compiled, too.", _rest),
    Rule(
        "python-newer",
        "What importing its packages imports has no syntax newer than the oldest Python of the wheel.",
        _newer,
    ),
    Rule("python-unread", "All its modules were judged.", _unread, severity="warning"),
    Rule(
        "import-missing", "Modules of its own that importing its packages imports are there.", _lost_at_once
    ),
    Rule(
        "import-outside",
        "In a complete set, what importing its packages imports is Python's, its own or of what it requires.",
        _outside,
    ),
    Rule(
        "module-hidden",
        "No module is hidden by a package of the same name that lacks what it has.",
        _hidden,
        severity="warning",
    ),
    Rule(
        "import-later",
        "Modules of its own that its other modules import are there.",
        _lost_later,
        severity="warning",
    ),
)
__all__ = ["RULES", "ModuleTable", "imports_of"]
