"""Rules about what must be in a wheel: files by pattern, and a torch that was really built for ROCm."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from packaging.version import InvalidVersion, Version

from rocwright.check.context import Context
from rocwright.check.facts import Facts
from rocwright.check.rules.archive import unreadable_members
from rocwright.check.rules.base import Problem, Rule
from rocwright.check.rules.requires import rocm_pin
from rocwright.check.rules.rocm_init import what_is_wrong, what_is_wrong_inside
from rocwright.check.rules.source import parse_source
from rocwright.model.patterns import any_pattern, fits
from rocwright.wheel.read import place_of

_INIT, _VERSION = "torch/_rocm_init.py", "torch/version.py"


def _required(facts: Facts, context: Context) -> Iterator[Problem]:
    places = [place_of(member.name) for member in facts.members if not member.name.endswith("/")]
    for pattern in dict.fromkeys(context.terms(facts.project).required):
        expression = any_pattern((pattern,))
        if not any(map(expression.fullmatch, places)):
            yield Problem(
                f"it has no {pattern}",
                "look in the build's log for the part that was left out, then build again",
            )


def _forbidden(facts: Facts, context: Context) -> Iterator[Problem]:
    patterns = tuple(dict.fromkeys(context.terms(facts.project).forbidden))
    for member in facts.members:
        place = place_of(member.name.removesuffix("/"))
        if fits(place, patterns):
            pattern = next(each for each in patterns if fits(place, (each,)))
            yield Problem(
                f"no wheel of this package has {pattern}",
                "clean the tree before the build, or leave it out where the package lists its files",
                member.name,
            )


def _is_there(facts: Facts, name: str) -> bool:
    return any(member.name == name for member in facts.members)


def _unread(facts: Facts, name: str) -> Iterator[Problem]:
    """A source that is there, but was not read: damaged, which another rule says, or no source at all."""
    if name not in unreadable_members(facts):
        yield Problem("it is far larger than any source", "look at what wrote it", name)


def _rocm_init(facts: Facts, context: Context) -> Iterator[Problem]:
    text = facts.texts.get(_INIT)
    if text is None:
        if _is_there(facts, _INIT):
            yield from _unread(facts, _INIT)
        elif not context.brings_rocm(facts):
            yield Problem(
                "it is missing, so torch does not find ROCm's Python packages",
                "write it into the source tree before the wheel is built",
                _INIT,
            )
        return
    if context.brings_rocm(facts):
        causes = what_is_wrong_inside(text, [member.name for member in facts.members])
    else:
        causes = what_is_wrong(text, rocm_pin(facts))
    for cause in causes:
        yield Problem(cause, "generate it again", _INIT)


def _assigned(module: ast.Module, name: str) -> object:
    """The literal last assigned to a module's variable; None when there is none."""
    value: object = None
    for node in module.body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            assert isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
            value = node.value.value if isinstance(node.value, ast.Constant) else None
    return value


def _same_version(said: str, version: str) -> bool:
    """Whether a module's version is the wheel's; where that has no local part, any will do."""
    try:
        ours, theirs = Version(version), Version(said)
    except InvalidVersion:
        return False
    return ours.public == theirs.public and ours.local in (None, theirs.local)


def _hip(facts: Facts, _: Context) -> Iterator[Problem]:
    text = facts.texts.get(_VERSION)
    next_step = "look in the build's log for why ROCm was not found (USE_ROCM, ROCM_HOME), then build again"
    if text is None and _is_there(facts, _VERSION):
        yield from _unread(facts, _VERSION)
        return
    if text is None:
        yield Problem("it is missing", next_step, _VERSION)
        return
    module = parse_source(text)
    if isinstance(module, str):
        yield Problem(module, next_step, _VERSION)
        return
    said = _assigned(module, "__version__")
    if isinstance(said, str) and not _same_version(said, facts.version):
        yield Problem(
            f"it says {said}, the wheel is {facts.version}",
            "build it again with that version; who changes a wheel's version changes this, too",
            _VERSION,
        )
    hip, cuda = _assigned(module, "hip"), _assigned(module, "cuda")
    if not isinstance(hip, str) or not hip:
        built_for = "CUDA" if isinstance(cuda, str) and cuda else "the CPU only"
        yield Problem(f"it says hip = {hip!r}: this torch was built for {built_for}", next_step, _VERSION)


RULES = (
    Rule("required-files", "Every file is there that a whole build of the package has.", _required),
    Rule("forbidden-files", "Nothing is in it that only a build or a checkout leaves behind.", _forbidden),
    Rule(
        "torch-rocm-init",
        "torch/_rocm_init.py is there, and its initialize() can be called and loads ROCm.",
        _rocm_init,
    ),
    Rule(
        "torch-hip",
        "torch/version.py names the wheel's version and a HIP version: it is no build for the CPU.",
        _hip,
    ),
)
