"""The gate in front of a channel: a pure function of a set, its statements and a policy.

Every rule is applied; the first that is broken decides:

1. `unreadable`: a statement about this set cannot be read. Nobody knows what it would have said.
2. `unsigned`, `unstaged`, `withdrawn`: what the store says against it (`Policy.against`): nobody whom the
   channel trusts signed the set; it is not where it has to be before; it was taken out of the channel.
3. `unchecked`: no statement says that this set passed its checks, or a statement says that it did not and
   no waiver in force covers each of its errors; or rules were taken away in every check, and that is past its
   last day, or does not count in this channel.
4. `build`: the build of this very set is not stated as successful. Nothing overrides this.
5. `digest`: there are test results, none of them for these bytes. What was tested is what is served.
6. `tests`: a test failed anywhere, or was cancelled or skipped although a runner exists. Never bypassed.
   One on an emulated GPU closes the gate only where it is asked for there: an emulator may be wrong.
7. `untested`: a required test has no result or no runner, and no bypass in force. Blocked by default. A
   bypass that lasts longer than the policy allows, or is of somebody who may not give it, is not in force.
   What passed on an emulated GPU is no result on a GPU; on an unknown kind of device, no result at all.

If none is: `bypassed` (all the rest passed, and what had no runner is bypassed, with reason and expiry),
`passed` (every required test passed on these bytes), or `checked` for a channel that asks for no test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Literal

import msgspec

from rocwright.errors import InvalidData
from rocwright.model.channels import BypassBounds, Channel, Channels
from rocwright.model.findings import Override, Waiver
from rocwright.model.sets import BUILD, TEST, SetManifest, Statement
from rocwright.store.statements import (
    Bypass,
    Opening,
    Required,
    SuiteResult,
    Verdict,
    build_succeeded,
    bypasses_about,
    latest_results,
    of_unknown_devices,
    tested,
    tested_again,
    verdict,
    why_void,
)

Rule = Literal[
    "unreadable",
    "unsigned",
    "unstaged",
    "withdrawn",
    "unchecked",
    "build",
    "digest",
    "tests",
    "untested",
    "bypassed",
    "passed",
    "checked",
]


class Objection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What speaks against a set besides statements: where it stands, who vouches for it."""

    rule: Literal["unreadable", "unsigned", "unstaged", "withdrawn"]
    reason: str
    openings: tuple[Opening, ...] = ()


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a promotion needs. `today` is given, so that the same inputs give the same decision.

    `gate` is `checked` for a channel that asks for the wheel contract only; `tested` asks for a successful
    build and each test in `required`, too. `against` is what the store itself says against the set, `recheck`
    the command that checks its files. `overrides` says whether a check counts in which rules were taken away,
    `bypass` how long a bypass may last, and who may give it. `ignored` says which statements were left out
    because nobody signed them whom the channel trusts.
    """

    required: tuple[Required, ...]
    today: date
    gate: Literal["checked", "tested"] = "tested"
    against: tuple[Objection, ...] = ()
    recheck: tuple[Opening, ...] = ()
    overrides: bool = True
    bypass: BypassBounds = BypassBounds()
    ignored: str = ""

    def __post_init__(self) -> None:
        if not self.required and self.gate == "tested":
            raise InvalidData(
                "a policy that requires no test gates nothing", next_step="name a suite and family"
            )


def policy_for(
    manifest: SetManifest,
    channels: Channels,
    channel: Channel,
    today: date,
    against: Iterable[Objection] = (),
    recheck: tuple[Opening, ...] = (),
    ignored: str = "",
) -> Policy:
    """What `channel` asks of a set: every suite of the table, once or for each target of the set.

    A suite for each target is asked for once where the set names no target: it does not vanish with them.
    """
    required: set[Required] = set()
    for suite in channels.suite if channel.gate == "tested" else ():
        each = manifest.targets if suite.per == "target" else ()
        device = channel.device if suite.per == "target" and suite.device == "gpu" else suite.device
        required |= {Required(suite.name, manifest.family, target, device) for target in each or ("",)}
    asked = tuple(sorted(required))
    return Policy(
        asked, today, channel.gate, tuple(against), recheck, channel.overrides, channels.bypass, ignored
    )


class Ruling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one rule says; `openings` are the commands that take it away where it is broken."""

    rule: Rule
    passed: bool
    reason: str
    openings: tuple[Opening, ...] = ()


class Decision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether this set may be promoted, by which rule, and why in one sentence.

    `waivers` and `overrides` are those that the passed check rests on, `bypasses` those of tests that did not
    run, with reason and last day. `rulings` are what each rule says, in their order; what cannot be known
    because another is broken is left out.
    """

    set_id: str
    promote: bool
    rule: Rule
    reason: str
    waivers: tuple[Waiver, ...] = ()
    rulings: tuple[Ruling, ...] = ()
    overrides: tuple[Override, ...] = ()
    bypasses: tuple[Bypass, ...] = ()


def openings(decision: Decision) -> tuple[Opening, ...]:
    """The commands that take away the rule that decided; none where it is open, or nothing does."""
    first = next((one for one in decision.rulings if not one.passed), None)
    return first.openings if first is not None else ()


def decide(set_id: str, statements: Iterable[Statement], policy: Policy) -> Decision:
    """Apply the rules above. Never raises for what statements say: what cannot be read closes the gate."""
    said = tuple(statements)
    mine = tuple(item for item in said if item.about(set_id))
    try:
        check = verdict(set_id, mine, policy.today, overrides=policy.overrides)
        bypasses = bypasses_about(mine)
        results = latest_results(mine)
    except InvalidData as error:
        return _closed(
            set_id, [Ruling("unreadable", False, error.what, (Opening(("set", "verify", set_id)),))]
        )
    rulings = list(_rulings(set_id, said, check, results, bypasses, policy))
    broken = [one for one in rulings if not one.passed]
    if broken:
        closed = _closed(set_id, rulings)
        return msgspec.structs.replace(closed, waivers=check.waivers, overrides=check.overrides)
    return _open(set_id, rulings, check, results, bypasses, policy)


def _closed(set_id: str, rulings: list[Ruling]) -> Decision:
    first = next(one for one in rulings if not one.passed)
    return Decision(set_id, False, first.rule, first.reason, rulings=tuple(rulings))


def _rulings(
    set_id: str,
    said: tuple[Statement, ...],
    check: Verdict,
    results: dict[Required, SuiteResult],
    bypasses: tuple[Bypass, ...],
    policy: Policy,
) -> Iterator[Ruling]:
    mine = tuple(item for item in said if item.about(set_id))
    for objection in policy.against:
        yield Ruling(objection.rule, False, objection.reason, objection.openings)
    if policy.ignored:
        yield Ruling("unsigned", True, policy.ignored)
    if check.problem is None:
        yield Ruling("unchecked", True, "the wheel contract holds")
    else:
        openings = policy.recheck if check.openings is None else check.openings
        yield Ruling("unchecked", False, check.problem, openings)
    if policy.gate == "checked":
        return
    yield _build(set_id, mine)
    yield _digest(set_id, said, policy)
    yield _tests(set_id, results, mine, policy)
    yield _untested(set_id, results, bypasses, policy)


def _build(set_id: str, mine: tuple[Statement, ...]) -> Ruling:
    results = [item.predicate.get("result") for item in mine if item.predicate_type == BUILD]
    if not results:
        reason = "no statement says that the build of this set succeeded"
        return Ruling("build", False, reason, build_succeeded(set_id))
    bad = sorted({str(result) for result in results if result != "success"})
    if bad:
        return Ruling("build", False, f"the build of this set ended with: {', '.join(bad)}")
    return Ruling("build", True, "the build succeeded")


def _digest(set_id: str, said: tuple[Statement, ...], policy: Policy) -> Ruling:
    tests = [item for item in said if item.predicate_type == TEST]
    if tests and not any(item.about(set_id) for item in tests):
        reason = "tests ran, but on other bytes than the staged ones"
        first = tested(set_id, policy.required[:1], policy.today, policy.bypass)[:1]
        return Ruling("digest", False, reason, first)
    return Ruling("digest", True, "tests of other bytes do not count")


def _tests(
    set_id: str, results: dict[Required, SuiteResult], mine: tuple[Statement, ...], policy: Policy
) -> Ruling:
    bad = {}
    unasked = {}
    for name, result in results.items():
        if name.emulated and name not in policy.required:
            unasked[name] = f"{name} {result.result}"
            continue
        if result.result == "failed" or (result.runner and result.result != "passed"):
            bad[name] = f"{name} {result.result}"
        elif not result.runner and result.result != "skipped":
            # Nobody can have run it: such a statement proves nothing, whatever it says.
            bad[name] = f"{name} {result.result} without a runner"
    if bad:
        reason = f"{'; '.join(sorted(bad.values()))}; a bypass does not apply where a test ran"
        again = tested_again(set_id, {name: results[name] for name in bad})
        return Ruling("tests", False, reason, again)
    # What neither opens nor closes the gate is told: nobody is to think that it did.
    aside = [f"; not asked for here: {'; '.join(sorted(unasked.values()))}"] if unasked else []
    unknown = {f"{one.suite} {one.result} on {one.device!r}" for one in of_unknown_devices(mine)}
    if unknown:
        aside.append(f"; of an unknown kind of device, so no results: {'; '.join(sorted(unknown))}")
    return Ruling("tests", True, f"no test failed{''.join(aside)}")


def _untested(
    set_id: str, results: dict[Required, SuiteResult], bypasses: tuple[Bypass, ...], policy: Policy
) -> Ruling:
    in_force = _in_force(bypasses, policy)
    blocked = {}
    for required in sorted(policy.required):
        result = results.get(required)
        if (result is None or result.result != "passed") and required not in in_force:
            blocked[required] = f"{required}: {_why(result)}{_only_emulated(required, results)}"
    if not blocked:
        return Ruling("untested", True, "each required test passed or is bypassed")
    past = sorted({str(one.required) for one in bypasses if policy.today > one.expires})
    note = f"; expired bypass: {', '.join(past)}" if past else ""
    void = [(one, why_void(one, policy.bypass, policy.today)) for one in bypasses if one.required in blocked]
    note += "".join(sorted(f"; void bypass: {one}: {why}" for one, why in void if why))
    reason = f"not tested: {'; '.join(blocked.values())}{note}; each required test must pass or be bypassed"
    return Ruling("untested", False, reason, tested(set_id, blocked, policy.today, policy.bypass))


def _only_emulated(required: Required, results: Mapping[Required, SuiteResult]) -> str:
    """A word for who expects that an emulated GPU is enough."""
    if required.emulated:
        return ""
    other = results.get(msgspec.structs.replace(required, device="emulated"))
    passed = other is not None and other.result == "passed"
    return " (that it passed on an emulated GPU does not count)" if passed else ""


def _why(result: SuiteResult | None) -> str:
    if result is None:
        return "no result"
    return result.result if result.runner else "no runner"


def _in_force(bypasses: tuple[Bypass, ...], policy: Policy) -> dict[Required, Bypass]:
    """The bypass in force of each test; of several that which lasts longest."""
    lasting = sorted(bypasses, key=lambda one: (one.expires, one.reason))
    return {
        one.required: one
        for one in lasting
        if policy.today <= one.expires and not why_void(one, policy.bypass, policy.today)
    }


def _open(
    set_id: str,
    rulings: list[Ruling],
    check: Verdict,
    results: dict[Required, SuiteResult],
    bypasses: tuple[Bypass, ...],
    policy: Policy,
) -> Decision:
    in_force = _in_force(bypasses, policy)
    passed: list[str] = []
    bypassed: list[Bypass] = []
    for required in sorted(policy.required):
        result = results.get(required)
        if result is not None and result.result == "passed":
            passed.append(str(required))
        else:
            bypassed.append(in_force[required])
    rule: Rule = "checked" if policy.gate == "checked" else "passed"
    reason = f"passed: {', '.join(passed)}" if passed else "no required test ran"
    if rule == "checked":
        reason = "the wheel contract holds; this channel asks for no test"
    elif bypassed:
        rule, reason = "bypassed", f"{reason}; NOT TESTED, bypassed: {'; '.join(map(str, bypassed))}"
    if check.waivers:
        reason = f"{reason}; WAIVED: {'; '.join(map(str, check.waivers))}"
    if check.overrides:
        reason = f"{reason}; OVERRIDDEN: {'; '.join(map(str, check.overrides))}"
    return Decision(
        set_id, True, rule, reason, check.waivers, tuple(rulings), check.overrides, tuple(bypassed)
    )
