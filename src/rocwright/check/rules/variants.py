"""Rules about a wheel that is a variant: its label and properties, and what is in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rocwright.check.context import Context, Problem, Rule, parsed_requirements, required_name
from rocwright.check.facts import Facts
from rocwright.check.rules.archive import unreadable_members
from rocwright.check.rules.choice import beyond
from rocwright.check.rules.device import belongs
from rocwright.device_code.tree.names import tables
from rocwright.device_code.verify.sources import device_part
from rocwright.model.gpu import in_order
from rocwright.model.variants import WHEEL_FILE, Properties, Provider, default_label

_REBUILD = "build the variant again, or give the file its name back"
# As a variant is called that nobody gave a label.
_HASH = re.compile(r"[0-9a-f]{8}")


def _label(facts: Facts, _: Context) -> Iterator[Problem]:
    if len(facts.dist_infos) != 1:
        return
    member = f"{facts.dist_infos[0]}/{WHEEL_FILE}"
    variant = facts.variant
    if variant is None:
        if facts.label and member not in unreadable_members(facts):
            what = f"its name is that of the variant {facts.label}, and it has no {WHEEL_FILE}"
            yield Problem(what, "take the label off its name, or build it as a variant")
    elif variant.said is None:
        yield Problem(variant.problem or "", _REBUILD, member)
    elif not facts.label:
        stated = ", ".join(variant.said.variants)
        yield Problem(f"it is the variant {stated}, and its name has no label", _REBUILD, member)
    elif list(variant.said.variants) != [facts.label]:
        stated = ", ".join(variant.said.variants) or "none"
        yield Problem(f"it states {stated}, and the name of the wheel says {facts.label}", _REBUILD, member)


def _hash(facts: Facts, _: Context) -> Iterator[Problem]:
    properties = facts.properties
    if properties is not None and _HASH.fullmatch(facts.label) and facts.label != default_label(properties):
        yield Problem(
            f"its label {facts.label} looks like the digest of its properties, which is "
            f"{default_label(properties)}",
            "a label that was computed names other properties: build the variant again, or give it a word",
        )


def _known(facts: Facts, context: Context) -> Iterator[Problem]:
    for namespace in facts.properties or ():
        if namespace not in context.variants.known:
            yield Problem(
                f"no provider of the properties {namespace} is known",
                "installers that cannot ask a machine for them pass the variant over",
            )
    amd = context.variants.provider
    for feature, values in (facts.properties or {}).get(amd.namespace, {}).items():
        strange = [value for value in values if value not in tables().targets]
        if feature != amd.feature:
            what = f"{amd.namespace} has no feature {feature}, only {amd.feature}"
        elif strange:
            what = f"{', '.join(strange)} is the name of no GPU target that is known"
        else:
            continue
        yield Problem(what, "correct the property: no machine has it, so nobody is given the variant")


def _content(facts: Facts, context: Context) -> Iterator[Problem]:
    """A variant for some GPUs leads to code for these, and to no code for others."""
    properties = facts.properties
    if properties is None:
        return
    values = _gpus(properties, context)
    brought = _brought(facts, context)
    if not values:
        for name in brought:
            what = f"it is for machines with any GPU, and requires {name}"
            yield Problem(what, "leave it to the variants for that GPU, or to an extra")
        return
    said = f"it is for {', '.join(values)}"
    for name, part in brought.items():
        if not any(belongs(value, part) for value in values):
            yield Problem(f"{said}, and requires {name}", "require the device package of its own GPU")
    for stem in dict.fromkeys(name.removesuffix(part) for name, part in brought.items()):
        parts = [part for name, part in brought.items() if name.removesuffix(part) == stem]
        for value in (value for value in values if not any(belongs(value, part) for part in parts)):
            yield Problem(f"{said}, and does not require {stem}{value}", "require it, or drop the property")
    code = facts.code_targets
    if code:
        for value in beyond(values, code):
            what = f"{said}, and its device code is for {', '.join(in_order(code))}, which does not run on"
            yield Problem(f"{what} {value}", "build it with that target, or correct its properties")
    elif not brought:
        for name in (f"{facts.project}-{value}" for value in values):
            if name in context.by_project:
                yield Problem(f"{said}, and does not require {name}", "require the device package")


def _gpus(properties: Properties, context: Context) -> tuple[str, ...]:
    """The targets that a variant is for, none where it does not depend on AMD's GPU."""
    amd = context.variants.provider
    return properties.get(amd.namespace, {}).get(amd.feature, ())


def _brought(facts: Facts, context: Context) -> dict[str, str]:
    """The device packages that a wheel requires without any extra, each with its target or group."""
    here = [each for each in context.environments if each.takes(facts)]
    found = {}
    for requirement in parsed_requirements(facts):
        name = required_name(requirement)
        part = device_part(name)
        if part is not None and any(each.applies(requirement) for each in here):
            found[name] = part
    return found


def _vouched(facts: Facts, context: Context) -> Iterator[Problem]:
    """What a wheel says of every machine may be what it is for, and no more."""
    amd = context.variants.provider
    properties, variant = facts.properties, facts.variant
    if properties is None or variant is None or variant.said is None:
        return
    static = variant.said.providers.get(amd.namespace, Provider()).static_properties
    own = properties.get(amd.namespace, {})
    more = sorted(
        {
            f"{feature} {one}"
            for feature, values in static.items()
            for one in values
            if one not in own.get(feature, ())
        }
    )
    if more:
        yield Problem(
            f"it says of every machine that {amd.namespace} is {', '.join(more)}, which is not its own",
            "leave the GPU of a machine to the provider; a wheel vouches for nothing but itself",
            variant.file,
        )


RULES = (
    Rule(
        "variant-label",
        "A variant states itself under the label of its file name; what has no label states none.",
        _label,
        waivable=False,
    ),
    Rule("variant-hash", "A label that looks like a digest of properties is that of its own.", _hash),
    Rule(
        "variant-namespace",
        "There may be machines with its properties, and somebody who can tell of one whether it has them.",
        _known,
        severity="warning",
    ),
    Rule(
        "variant-content",
        "A variant for GPUs requires their device packages or has code for them, and a variant for any "
        "machine requires none.",
        _content,
    ),
    Rule("variant-static", "A variant does not say of every machine which GPU it has.", _vouched),
)
