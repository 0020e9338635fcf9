"""Rules about sizes: within the budget, and not grown since the previous set."""

from __future__ import annotations

from collections.abc import Iterator

from rocwright.check.context import Context, Problem, Rule
from rocwright.check.facts import Facts
from rocwright.check.report import SizeChange, code_sizes, size_key

_BOTH = ("wheel", "sdist")


def _budget(facts: Facts, context: Context) -> Iterator[Problem]:
    terms = context.terms(facts.project)
    if terms.budget is not None and facts.size > terms.budget:
        yield Problem(
            f"it has {_bytes(facts.size)}, its budget is {_bytes(terms.budget)}",
            "look what is large with `rocwright wheel show`; if all of it should be there, raise `budget`",
        )
    for target, size in code_sizes(facts).items():
        if terms.target_budget is not None and size > terms.target_budget:
            yield Problem(
                f"its code for {target} has {_bytes(size)}, "
                f"the budget of a target is {_bytes(terms.target_budget)}",
                "build fewer kernels for it, or raise `target_budget`",
            )


def _growth(facts: Facts, context: Context) -> Iterator[Problem]:
    previous = context.request.previous
    before = None if previous is None else previous.files.get(size_key(facts.name))
    if before is None:
        return
    next_step = "look what came in with `rocwright wheel show`; if it should, waive this once with a reason"
    if _grew(SizeChange("", None, before.size, facts.size), context):
        yield Problem(f"it grew {_figures(before.size, facts.size)} since the previous set", next_step)
    for target, size in code_sizes(facts).items():
        # A target that is new has nothing to grow from.
        old = (before.targets or {}).get(target)
        if old is not None and _grew(SizeChange("", target, old, size), context):
            yield Problem(
                f"its code for {target} grew {_figures(old, size)} since the previous set", next_step
            )


def _grew(change: SizeChange, context: Context) -> bool:
    if change.before is None or change.after is None:
        return False
    more, contract = change.after - change.before, context.contract
    return more > contract.growth * change.before and more > contract.small_growth


def _figures(before: int, after: int) -> str:
    return f"from {_bytes(before)} to {_bytes(after)} ({after / before - 1:+.1%})"


def _bytes(size: int) -> str:
    """Both the number to compare and one to read."""
    return f"{size} bytes" if size < 1_000_000 else f"{size / 1e6:,.1f} MB".replace(",", " ")


RULES: tuple[Rule, ...] = (
    Rule(
        "size-budget",
        "The file, and the device code of each target in it, are within their budgets.",
        _budget,
        kinds=_BOTH,
    ),
    Rule(
        "size-growth",
        "Neither the file nor the code of a target in it grew more since the last set than is allowed.",
        _growth,
        kinds=_BOTH,
    ),
)
