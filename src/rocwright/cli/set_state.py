"""`rocwright set state`."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from rocwright.check.waivers import ask_waivers
from rocwright.cli.answer import Answer, answers
from rocwright.cli.numbers import Count
from rocwright.cli.store_options import StoreOptions, Text
from rocwright.store.gate.said import Result
from rocwright.store.sets.find import resolve_set
from rocwright.store.sets.state import Said, state_set
from rocwright.system import console, days

_DEFAULTS = StoreOptions()


@answers
def set_state(
    which: str,
    /,
    *,
    suite: str | None = None,
    target: Text = "",
    result: Result | None = None,
    runner: bool = True,
    attempt: Count = 1,
    detail: Text = "",
    build: Literal["success", "failure", "cancelled", "skipped"] | None = None,
    bypass: bool = False,
    allow: Annotated[
        tuple[str, ...], Parameter(name=("--waive", "--allow"), negative=(), show_default=False)
    ] = (),
    reason: str | None = None,
    expires: str | None = None,
    by: Text = "",
    options: StoreOptions = _DEFAULTS,
) -> Answer:
    """Record what was found out about a set: a test's result, a build's, a waiver, or a bypass of a test.

    Statements are written once and never taken back; the set itself does not change. A bypass lifts the want
    of a result, never a failure.

    Parameters
    ----------
    which
        Eight or more digits of its id, CHANNEL:FAMILY for the set that installers take from there, or newest:
        that of the first channel (newest:FAMILY where it has several).
    suite
        The suite of tests that the result or bypass is about.
    target
        The GPU target that it ran on, for a suite that runs for each of them; several separated by commas.
    result
        How the suite ended.
    runner
        Whether a machine that can run it exists; --no-runner goes with --result skipped.
    attempt
        Which run of the suite this is; a later one replaces an earlier one.
    detail
        A sentence for people.
    build
        How the build of the set ended.
    bypass
        Let the set be promoted without this suite; needs --reason and --expires.
    allow
        A rule whose errors pass (RULE, or RULE:PATTERN over file names); needs --reason and --expires.
    reason
        Why.
    expires
        The last day on which the bypass or waiver holds, such as 2030-01-31.
    by
        Who decides; recorded with a bypass.
    json
        Print the keys of the statements as JSON.
    """
    store, channels = options.opened(), options.channels()
    today = days.today()
    said = Said(
        suite=suite,
        target=target,
        result=result,
        runner=runner,
        attempt=attempt,
        detail=detail,
        build=build,
        bypass=bypass,
        reason=reason,
        expires=expires,
        by=by,
        waivers=ask_waivers(allow, reason, expires, today) if allow else (),
    )
    digest = resolve_set(store, channels, which)
    keys = state_set(store, channels, digest, said, today)

    def show() -> None:
        for key in keys:
            console.out(key)

    return Answer({"set": digest, "statements": keys}, show)
