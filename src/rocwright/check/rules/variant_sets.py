"""Rules about the variants of a version together, and about what is stated of them beside the wheels."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from rocwright.check.context import Context, Problem, SetRule
from rocwright.check.facts import Facts, VariantFacts
from rocwright.model.variants import INDEX_END, NULL, Properties, Provider, Variants, flat, same_properties

_ANEW = "write it anew from the wheels that lie there"


def _versions(context: Context) -> Iterator[list[Facts]]:
    """The files of each project's version, as far as there are variants of it."""
    for files in context.by_project.values():
        for version in dict.fromkeys(facts.version for facts in files):
            found = [facts for facts in files if facts.version == version]
            if any(facts.label for facts in found):
                yield found


def _ranks(context: Context) -> Iterator[tuple[str, Problem]]:
    for files in _versions(context):
        told = [facts for facts in files if facts.properties is not None]
        for first, second in combinations(told, 2):
            shared = _shared(first.properties or {}, second.properties or {})
            meet = any(each.takes(first) and each.takes(second) for each in context.environments)
            if first.label == second.label or shared is None or not meet:
                continue
            same = same_properties(first.properties or {}, second.properties or {})
            what = "has the same properties" if same else f"fits as well where a machine has {shared}"
            yield (
                second.name,
                Problem(
                    f"{first.name} {what}: which one is taken, their labels decide",
                    "keep one of them, or give each machine one variant that fits it best",
                ),
            )


def _shared(first: Properties, second: Properties) -> str | None:
    """What a machine has on which two variants fit equally well; None where one always fits better."""
    mine, other = flat(first), flat(second)
    if mine.keys() != other.keys():
        return None
    both = {key: [value for value in values if value in other[key]] for key, values in mine.items()}
    if not all(both.values()):
        return None
    return ", ".join(f"{key} :: {values[0]}" for key, values in both.items())


def _order(context: Context) -> Iterator[tuple[str, Problem]]:
    for files in _versions(context):
        told = [(facts.name, _priorities(facts.variant)) for facts in files]
        told += [(one.file, _priorities(one)) for one in context.indexes if _is_of(one, files[0])]
        longest = max(told, key=lambda one: len(one[1]))
        for name, order in told:
            if order != longest[1][: len(order)]:
                yield (
                    name,
                    Problem(
                        f"it puts {', '.join(order)} in this order, {longest[0]} {', '.join(longest[1])}",
                        "give all variants of a version the same priorities; tools do not join them else",
                    ),
                )
        yield from _providers(context, files)


def _providers(context: Context, files: list[Facts]) -> Iterator[tuple[str, Problem]]:
    """Wheels that an index cannot state together, as each names somebody else for a namespace."""
    named: dict[str, tuple[str, Provider]] = {}
    told = [(facts, facts.variant.said) for facts in files if facts.variant and facts.variant.said]
    for facts, said in told:
        for namespace, provider in context.variants.published(said).providers.items():
            first, known = named.setdefault(namespace, (facts.name, provider))
            if provider != known:
                yield (
                    facts.name,
                    Problem(
                        f"it names another provider of {namespace} than {first}",
                        "build the variants of a version together; no index can state both",
                    ),
                )


def _priorities(variant: VariantFacts | None) -> tuple[str, ...]:
    said = None if variant is None else variant.said
    return () if said is None else said.default_priorities.namespace


def _fallback(context: Context) -> Iterator[tuple[str, Problem]]:
    for files in _versions(context):
        plain = [facts for facts in files if not facts.label]
        variants = [facts for facts in files if facts.label]
        for each in context.environments:
            fitting = [facts for facts in variants if each.takes(facts)]
            if fitting and not any(each.takes(facts) for facts in plain):
                null = any(facts.label == NULL for facts in fitting)
                more = "" if null else ", nor a machine without these properties"
                yield (
                    fitting[0].name,
                    Problem(
                        f"no file for {each} but variants: pip and others that know none find nothing{more}",
                        "put a wheel without label beside them",
                    ),
                )


def _is_of(one: VariantFacts, facts: Facts) -> bool:
    return _about(one) == (facts.project, facts.version)


def _about(one: VariantFacts) -> tuple[str, str]:
    """The project and version that a file beside wheels is about, by its name."""
    name, _, version = one.file.removesuffix(INDEX_END).partition("-")
    try:
        return str(canonicalize_name(name)), str(Version(version))
    except InvalidVersion:
        return str(canonicalize_name(name)), version


def _stated(context: Context) -> Iterator[tuple[str, Problem]]:
    by_version = {(files[0].project, files[0].version): files for files in _versions(context)}
    for one in context.indexes:
        if one.said is None:
            yield one.file, Problem(one.problem or "", f"{_ANEW}; plain wheels install all the same")
            continue
        for facts in by_version.get(_about(one), ()):
            if facts.label and (problem := _unlike(one.said, facts)) is not None:
                yield one.file, Problem(problem, _ANEW)


def _unlike(said: Variants, facts: Facts) -> str | None:
    """Why a file does not state a wheel as it is."""
    stated = said.variants.get(facts.label)
    if stated is None:
        return f"it does not state {facts.label}, so nobody is given {facts.name}"
    if facts.properties is None or same_properties(facts.properties, stated):
        return None
    return f"it states {_words(stated)} of {facts.label}, and {facts.name} is for {_words(facts.properties)}"


def _words(properties: Properties) -> str:
    return (
        ", ".join(f"{key} :: {' or '.join(values)}" for key, values in flat(properties).items())
        or "any machine"
    )


def _vain(context: Context) -> Iterator[tuple[str, Problem]]:
    for one in context.indexes:
        project, version = _about(one)
        files = [facts for facts in context.by_project.get(project, ()) if facts.version == version]
        labels = {facts.label for facts in files}
        gone = [label for label in (one.said.variants if one.said else ()) if label not in labels | {NULL}]
        if not files:
            yield (
                one.file,
                Problem(
                    f"no file of {project} {version} is there", "put it beside the wheels that it is about"
                ),
            )
        elif gone:
            yield one.file, Problem(f"it states {', '.join(gone)}, of which there is no wheel", _ANEW)


def _published(context: Context) -> Iterator[tuple[str, Problem]]:
    amd = context.variants.provider
    for one in context.indexes:
        provider = one.said.providers.get(amd.namespace) if one.said else None
        if provider is not None and provider.static_properties:
            yield (
                one.file,
                Problem(
                    f"it says of every machine that reads it which properties of {amd.namespace} it has",
                    f"name the provider instead ({', '.join(amd.requires)}); static properties are for the "
                    "view of one machine",
                ),
            )


RULES = (
    SetRule("variant-ranks", "On no machine two variants of a version fit equally well.", _ranks),
    SetRule(
        "variant-order",
        "All variants of a version give namespaces the same order, and the same providers.",
        _order,
    ),
    SetRule(
        "variant-fallback",
        "Beside variants there is a file for installers that know none.",
        _fallback,
        open_severity="warning",
        by_metadata=True,
    ),
    SetRule(
        "variants-json",
        "What states the variants of a version beside the wheels can be read, and states each as it is.",
        _stated,
        waivable=False,
    ),
    SetRule(
        "variants-vain",
        "Of each variant that is stated beside the wheels there is one.",
        _vain,
        open_severity="warning",
    ),
    SetRule(
        "variants-static",
        "What is stated beside the wheels does not say of every machine which GPU it has.",
        _published,
    ),
)
