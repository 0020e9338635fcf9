"""Rules about device code: that it is there, for the right targets, in the right wheel."""

from __future__ import annotations

from collections.abc import Iterator

from rocwright.check.context import Context
from rocwright.check.facts import Facts
from rocwright.check.rules.base import Problem, Rule
from rocwright.model.gpu import InvalidTarget, parse_target


def _found(facts: Facts, requested: frozenset[str]) -> frozenset[str] | None:
    """The targets to compare with the request; None where the code is in device wheels, or there is none."""
    split = any(extra.startswith("device-") for extra in facts.headers.extras)
    if not facts.targets and (split or facts.project != "torch"):
        return None
    return frozenset(_comparable(target, requested) for target in facts.targets)


def _missing(facts: Facts, context: Context) -> Iterator[Problem]:
    requested = context.request.targets
    found = None if requested is None else _found(facts, requested)
    if requested is None or found is None:
        return
    for target in sorted(requested - found):
        yield Problem(
            f"no library holds code for {target}; requested: {', '.join(sorted(requested))}",
            "build with every requested target in PYTORCH_ROCM_ARCH",
        )


def _extra(facts: Facts, context: Context) -> Iterator[Problem]:
    requested = context.request.targets
    found = None if requested is None else _found(facts, requested)
    if requested is None or found is None:
        return
    for target in sorted(found - requested):
        yield Problem(
            f"libraries hold code for {target}, which was not requested: {', '.join(sorted(requested))}",
            "build with the requested targets only",
        )


def _comparable(target: str, requested: frozenset[str]) -> str:
    """`gfx90a:xnack-` answers a request for it and, without one, a request for the base target."""
    if target in requested:
        return target
    try:
        return parse_target(target).base
    except InvalidTarget:
        return target  # not one of ours, and reported as such


RULES = (
    Rule("device-missing", "The libraries hold code for each target asked for.", _missing),
    Rule("device-extra", "The libraries hold code for no other target than those asked for.", _extra),
)
