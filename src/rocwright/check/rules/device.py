"""Rules about device code: that it is there, for the right targets, in the right wheel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.utils import canonicalize_name

from rocwright.check.context import Context, Problem, Rule
from rocwright.check.facts import CodeFile, Facts
from rocwright.device_code.tree.names import package_of
from rocwright.device_code.verify.sources import device_part
from rocwright.model.gpu import InvalidTarget, in_order, is_target, parse_target

_REBUILD = "build the wheel again; a wheel is never repaired by hand"


def _offers_parts(facts: Facts) -> bool:
    """Whether extras of the wheel bring its device code, so that it should hold none."""
    return any(extra.startswith("device-") for extra in facts.headers.extras)


def _found(facts: Facts, requested: frozenset[str]) -> frozenset[str] | None:
    """The targets to compare with the request; None where the code is elsewhere, unreadable, or not there."""
    held = facts.targets.union(*(archive.targets for archive in facts.archives))
    unread = any(pe.device_code for pe in facts.pe)
    if not held and (unread or _offers_parts(facts) or facts.project != "torch"):
        return None
    return frozenset(_comparable(target, requested) for target in held)


def _missing(facts: Facts, context: Context) -> Iterator[Problem]:
    requested = context.request.targets
    found = None if requested is None else _found(facts, requested)
    if requested is None or found is None:
        return
    for target in in_order(requested - found):
        yield Problem(
            f"no library holds code for {target}; requested: {', '.join(in_order(requested))}",
            "build with every requested target in PYTORCH_ROCM_ARCH",
        )


def _extra(facts: Facts, context: Context) -> Iterator[Problem]:
    requested = context.request.targets
    found = None if requested is None else _found(facts, requested)
    if requested is None or found is None:
        return
    for target in in_order(found - requested):
        yield Problem(
            f"libraries hold code for {target}, which was not requested: {', '.join(in_order(requested))}",
            "build with the requested targets only",
        )


def _comparable(target: str, requested: frozenset[str]) -> str:
    """`gfx90a:xnack-` answers a request for it and, without that feature, a request for the base target."""
    return target if target in requested else _base(target)


def _base(target: str) -> str:
    try:
        return parse_target(target).base
    except InvalidTarget:
        return target  # not ours, and reported as such


def _flags(facts: Facts, _: Context) -> Iterator[Problem]:
    next_step = "look for objects of another build that were mixed in, and build again"
    held = [(elf.member, elf.wrong_code) for elf in facts.elf]
    held += [(archive.member, archive.wrong_code) for archive in facts.archives]
    for member, wrong in held:
        for code in wrong:
            yield Problem(f"it has code that is labelled as {code.said}: {code.what}", next_step, member)
    for file in facts.code:
        if file.wrong is not None:
            said = "it is device code" if file.said is None else f"its path says it is for {file.said}"
            yield Problem(f"{said}: {file.wrong}", next_step, file.member)


def _foreign(facts: Facts, _: Context) -> Iterator[Problem]:
    """A device wheel is installed for one target, or one group of them: nobody would find anything else."""
    part = _part(facts)
    if part is None:
        return
    for member, targets in _serves(facts):
        others = in_order(target for target in targets if not belongs(target, part))
        if others:
            yield Problem(
                f"it serves {', '.join(others)}, the wheel is for {part}",
                "move it into the wheel of its target; split the device code again",
                member,
            )


def _serves(facts: Facts) -> Iterator[tuple[str, Iterable[str]]]:
    """Members with device code, and the targets or groups that they serve."""
    yield from ((elf.member, elf.targets) for elf in facts.elf)
    yield from ((archive.member, archive.targets) for archive in facts.archives)
    for file in facts.code:
        yield file.member, _served(file)


def _served(file: CodeFile) -> tuple[str, ...]:
    """What the path says; without a word in the path, what is inside."""
    if file.said is not None:
        return (file.said,)
    return in_order(file.targets) if file.machine is None else (file.machine,)


def belongs(target: str, part: str) -> bool:
    """Whether code for a target, features aside, or for a group goes into the wheel with this ending."""
    if part in {canonicalize_name(name) for name in (_base(target), package_of(_base(target)))}:
        return True
    # The wheel of a group (`gfx11xx`) has the code of its members.
    stem = part.rstrip("x")
    return (
        not is_target(part) and stem != part and len(_base(target)) == len(part) and target.startswith(stem)
    )


def _in_host(facts: Facts, context: Context) -> Iterator[Problem]:
    if not _is_host(facts, context):
        return
    next_step = "split the device code again: it goes into the device wheels alone"
    for_all = {file.member for file in facts.code if file.for_all}
    for member, targets in _serves(facts):
        if targets and member not in for_all:
            yield Problem(
                f"it has device code for {', '.join(in_order(targets))}, which the device wheels bring",
                next_step,
                member,
            )
    for pe in facts.pe:
        if pe.device_code:
            yield Problem("it has device code, which the device wheels bring", next_step, pe.member)


def _is_host(facts: Facts, context: Context) -> bool:
    """Whether device wheels bring this wheel's code: it offers them, or one of the set requires it."""
    if _part(facts) is not None:
        return False
    return _offers_parts(facts) or any(
        _part(other) is not None for other in context.requiring.get(facts.project, ())
    )


def _part(facts: Facts) -> str | None:
    """The target or group of a device wheel; a package for a family may be named for one target, too."""
    return device_part(facts.project) if "-device-" in facts.project else None


def _kpack_readable(facts: Facts, _: Context) -> Iterator[Problem]:
    problems = [(one.member, one.problem) for one in facts.archives]
    problems += [(one.member, one.problem) for one in facts.origins]
    for member, problem in problems:
        if problem is not None:
            yield Problem(problem, _REBUILD, member)


RULES = (
    Rule("device-missing", "The libraries hold code for every requested target.", _missing),
    Rule("device-extra", "The libraries hold code for the requested targets only.", _extra),
    Rule(
        "device-flags",
        "The header of device code names the same target as its container or path.",
        _flags,
    ),
    Rule("device-foreign", "A device wheel serves its own target only.", _foreign),
    Rule("device-in-host", "A wheel whose device code comes in device wheels has none itself.", _in_host),
    Rule("kpack-readable", "Each archive of device code can be read.", _kpack_readable, waivable=False),
)
