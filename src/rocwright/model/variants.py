"""Wheel variants: labels in file names, properties, and the JSON that wheels and indexes state them in.

The edition is that of PEP 825 with the providers of the draft of PEP 850, as uv and variantlib read it. A
variant is a wheel that fits machines with certain properties (`namespace :: feature :: value`); its label
stands behind the tags in its file name. `variant.json` in its `.dist-info` states the one variant,
`NAME-VERSION-variants.json` on the page of a project all variants of that version.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from rocwright.errors import InvalidInput

NULL = "null"
# In `.dist-info` of a wheel; the end of the name of an index's file.
WHEEL_FILE, INDEX_END = "variant.json", "-variants.json"
# Of a provider and of the priorities in drafts of PEP 817, which named no schema; nowhere since.
_EARLY = ("install-time", "property")
# Digits of the label of a variant that nobody gave one.
_HASH_LENGTH = 8
_LABEL, _NAME, _VALUE = re.compile(r"[0-9a-z._]+"), re.compile(r"[a-z0-9_]+"), re.compile(r"[a-z0-9_.]+")
# A build begins with a digit, the tag behind it with a Python; a word elsewhere makes no label of a platform.
_WHEEL = re.compile(
    r"(?P<plain>[^-]+-[^-]+(?:-[0-9][^-]*)?-(?:cp|py|pp|ip|jy|graalpy)[0-9][^-]*-[^-]+-[^-]+)"
    r"-(?P<label>[0-9a-z._]+)\.whl"
)

# By namespace, then feature: values, of which one has to fit.
Properties = Mapping[str, Mapping[str, tuple[str, ...]]]


class InvalidVariant(InvalidInput):
    """A label, a property or a statement of variants that installers would not read."""


# -- names


def split_label(name: str) -> tuple[str, str | None]:
    """A wheel's file name without its label, as readers of plain wheels take it; the label, None without."""
    found = _WHEEL.fullmatch(name)
    return (name, None) if found is None else (f"{found['plain']}.whl", found["label"])


def with_label(name: str, label: str) -> str:
    """The file name of a variant: `name` is that of a wheel without label. Raises `InvalidVariant`."""
    if _LABEL.fullmatch(label) is None:
        raise InvalidVariant(
            f"{label!r} is not the label of a variant",
            next_step="write small letters, digits, dots and underscores",
        )
    return f"{name.removesuffix('.whl')}-{label}.whl"


def index_name(wheel: str) -> str:
    """The name of the index's file about a wheel's project and version: `torch-2.9.1-variants.json`."""
    return "-".join(wheel.split("-")[:2]) + INDEX_END


def default_label(properties: Properties) -> str:
    """The label of a variant that was given none: digits of a digest of its properties."""
    if not properties:
        return NULL
    lines = (
        f"{namespace} :: {feature} :: {value}\n"
        for namespace, features in sorted(properties.items())
        for feature, values in sorted(features.items())
        for value in sorted(values)
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:_HASH_LENGTH]


def flat(properties: Properties) -> dict[str, tuple[str, ...]]:
    """The values, in any order, by feature (`namespace :: feature`)."""
    return {f"{one} :: {feature}": values for one, of in properties.items() for feature, values in of.items()}


def same_properties(first: Properties, second: Properties) -> bool:
    """Whether both are for the same machines; in which order values are written does not matter."""
    one, other = flat(first), flat(second)
    return one.keys() == other.keys() and all(set(one[key]) == set(other[key]) for key in one)


# -- what wheels and indexes state


class Provider(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="kebab", gc=False
):
    """Who says which properties of a namespace a machine has: a package, this very file, or the installer.

    `requires` and `plugin_api` name a Python package and the object in it to ask, `static_properties` are
    values that hold on every machine, `builtin` is something that the installer knows itself.
    """

    requires: tuple[str, ...] = ()
    plugin_api: str | None = None
    static_properties: dict[str, tuple[str, ...]] = {}
    feature_order: tuple[str, ...] = ()
    builtin: str | None = None
    optional: bool = False


class Priorities(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Namespaces, the one whose properties decide first in front."""

    namespace: tuple[str, ...]


class Variants(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab", gc=False):
    """What `variant.json` of a wheel or `…-variants.json` of an index states.

    `variants` are properties by label. Raises `InvalidVariant` where installers would refuse it.
    """

    default_priorities: Priorities
    providers: dict[str, Provider]
    variants: dict[str, dict[str, dict[str, tuple[str, ...]]]]
    schema: str = msgspec.field(name="$schema")

    def __post_init__(self) -> None:
        problem = next(_problems(self), None)
        if problem is not None:
            raise InvalidVariant(problem, next_step="build the wheel again, or write the file anew")

    @property
    def label(self) -> str:
        """The only label; of what a wheel states."""
        (label,) = self.variants
        return label


def _problems(said: Variants) -> Iterator[str]:
    namespaces = said.default_priorities.namespace
    if not namespaces or len(set(namespaces)) != len(namespaces):
        yield "the namespaces of default-priorities must be named, each once"
    if set(said.providers) != set(namespaces):
        yield (
            f"providers are stated for {_some(said.providers)}, and default-priorities names "
            f"{_some(namespaces)}: both must name the same namespaces"
        )
    for namespace in namespaces:
        if _NAME.fullmatch(namespace) is None:
            yield f"{namespace!r} is not a namespace of properties"
    for namespace, provider in said.providers.items():
        yield from _provider_problems(namespace, provider)
    for label, properties in said.variants.items():
        yield from _variant_problems(label, properties, namespaces)


def _provider_problems(namespace: str, one: Provider) -> Iterator[str]:
    kinds = [bool(one.requires), bool(one.static_properties), one.builtin is not None]
    if kinds.count(True) != 1:
        yield f"the provider of {namespace} needs exactly one of requires, static-properties and builtin"
    if one.plugin_api is not None and not one.requires:
        yield f"the provider of {namespace} has plugin-api, and no requires that it could come from"
    static = one.static_properties
    if (one.feature_order or len(static) > 1) and sorted(one.feature_order) != sorted(static):
        yield f"feature-order of {namespace} must name each feature of its static-properties once"
    for feature, values in static.items():
        yield from _value_problems(f"{namespace} :: {feature}", feature, values)


def _variant_problems(label: str, properties: Properties, namespaces: Iterable[str]) -> Iterator[str]:
    if _LABEL.fullmatch(label) is None:
        yield f"{label!r} is not the label of a variant: small letters, digits, dots and underscores"
    if bool(properties) == (label == NULL):
        yield f"the variant {label!r} has {'' if properties else 'no '}properties: only {NULL!r} has none"
    for namespace, features in properties.items():
        if namespace not in namespaces:
            yield f"the variant {label!r} has properties of {namespace!r}, which has no provider"
        if not features:
            yield f"the variant {label!r} names {namespace!r} without a property"
        for feature, values in features.items():
            yield from _value_problems(f"{namespace} :: {feature} of {label!r}", feature, values)


def _value_problems(where: str, feature: str, values: tuple[str, ...]) -> Iterator[str]:
    if _NAME.fullmatch(feature) is None:
        yield f"{feature!r} is not the name of a feature: small letters, digits and underscores"
    if not values or len(set(values)) != len(values):
        yield f"{where} must have values, each once"
    for value in values:
        if _VALUE.fullmatch(value) is None:
            yield f"{value!r} is no value for {where}: small letters, digits, dots and underscores"


def _some(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


def parse_variants(data: bytes, *, where: str) -> Variants:
    """What an index's file states; raises `InvalidVariant` that names the file and what does not fit."""
    try:
        return msgspec.json.decode(data, type=Variants)
    except InvalidVariant as error:
        raise InvalidVariant(f"{where}: {error.what}", where=where, next_step=error.next_step) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidVariant(
            f"{where} does not state variants in a form that is known: {error}{_edition(data)}",
            where=where,
            next_step="plain wheels can be installed all the same; write the file in the edition of PEP 825",
        ) from error


def _edition(data: bytes) -> str:
    """The edition that a file claims, or is known by, for the message about it."""
    try:
        said = msgspec.json.decode(data)
        if "$schema" in said:
            return f" (it follows {said['$schema']})"
        early = any(_EARLY[0] in one for one in said["providers"].values())
        early = early or _EARLY[1] in said["default-priorities"]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, LookupError, TypeError, AttributeError):
        return ""
    return " (it follows an early draft of PEP 817)" if early else ""


def parse_wheel_variant(data: bytes, label: str, *, where: str) -> Variants:
    """What a wheel states of itself: a variant with the `label` of its name. Raises `InvalidVariant`."""
    said = parse_variants(data, where=where)
    if list(said.variants) != [label]:
        raise InvalidVariant(
            f"{where} states {_some(said.variants)}, and the wheel's name says {label}",
            where=where,
            next_step="give the wheel its name back, or build it again",
        )
    return said


def merged(said: Iterable[Variants], *, where: str) -> Variants:
    """All variants of a version in one, labels sorted; raises `InvalidVariant` where two contradict.

    The longest priorities stand; the others must name the same namespaces in the same order, or fewer.
    """
    parts = sorted(said, key=lambda one: len(one.default_priorities.namespace), reverse=True)
    providers: dict[str, Provider] = {}
    variants: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {}
    for one in parts:
        for namespace, provider in one.providers.items():
            if providers.setdefault(namespace, provider) != provider:
                raise _contradiction(where, f"the provider of {namespace}")
        for label, properties in one.variants.items():
            if variants.setdefault(label, properties) != properties:
                raise _contradiction(where, f"the properties of {label}")
    first = parts[0]
    if set(providers) != set(first.providers) or any(_disordered(first, one) for one in parts):
        raise _contradiction(where, "the priorities of namespaces")
    return msgspec.structs.replace(first, variants=dict(sorted(variants.items())), providers=providers)


def _disordered(first: Variants, one: Variants) -> bool:
    known = [name for name in first.default_priorities.namespace if name in one.providers]
    return known != list(one.default_priorities.namespace)


def _contradiction(where: str, what: str) -> InvalidVariant:
    return InvalidVariant(
        f"wheels of {where} do not agree on {what}",
        where=where,
        next_step="build the variants of one version together",
    )


def encoded(said: Variants) -> bytes:
    """As it is written down: the same value gives the same bytes."""
    return msgspec.json.format(msgspec.json.encode(said, order="sorted"), indent=1) + b"\n"


# -- AMD's


class AmdProvider(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"plugin_api": "plugin-api"}
):
    """The provider for AMD's GPUs: its namespace, its one feature, and the package that asks the machine."""

    namespace: str
    feature: str
    requires: tuple[str, ...]
    plugin_api: str


class VariantTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `variants`: the edition that is written, the namespaces with a provider, and AMD's."""

    schema: str
    known: tuple[str, ...]
    provider: AmdProvider

    def selector(self, target: str | None) -> Variants:
        """What a wheel for GPUs of `target` states of itself; None is for the null variant.

        uv asks the provider that the wheel itself names once it has the wheel, and knows none of AMD: so the
        wheel vouches for its own value, and the index alone says who may choose it.
        """
        amd = self.provider
        if target is None:
            return self._stated({NULL: {}}, self._plugin())
        own: dict[str, tuple[str, ...]] = {amd.feature: (target,)}
        return self._stated({target: {amd.namespace: own}}, Provider(static_properties=own))

    def published(self, said: Variants) -> Variants:
        """What an index may state of a wheel: who chooses is the machine's provider, for AMD's namespace."""
        namespace = self.provider.namespace
        if not said.providers.get(namespace, Provider()).static_properties:
            return said
        return msgspec.structs.replace(said, providers={**said.providers, namespace: self._plugin()})

    def _plugin(self) -> Provider:
        return Provider(requires=self.provider.requires, plugin_api=self.provider.plugin_api)

    def _stated(self, variants: dict[str, dict[str, dict[str, tuple[str, ...]]]], by: Provider) -> Variants:
        namespace = self.provider.namespace
        return Variants(
            schema=self.schema,
            default_priorities=Priorities((namespace,)),
            providers={namespace: by},
            variants=variants,
        )
