"""`…-variants.json` of an index (wheel variants, PEP 825): what it says, and it with a machine's GPUs."""

import hashlib
import json
import re

from ._fetch import IndexProblem, shown
from ._pages import normal

NAMESPACE, FEATURE = "amd", "gfx_arch"
_PLACE = "https://variants-schema.wheelnext.dev/"
# Those of uv 0.13 and of variantlib 0.2: what is read and written here is the same in all.
EDITIONS = tuple(_PLACE + one for one in ("peps/850/v0.2.0.json", "peps/825/v0.1.1.json", "v0.2.0.json"))
_KEYS = {"$schema", "default-priorities", "providers", "variants"}
_NAME = re.compile(r"([A-Za-z0-9._]+)-([A-Za-z0-9.!+_]+)-variants\.json")
_LABEL = re.compile(r"[0-9a-z_.]+")


def is_variants(name, project):
    """Whether a file of a project says what variants a version of it has."""
    match = _NAME.fullmatch(name)
    return match is not None and normal(match[1]) == project


def version(name):
    """The version that such a file is about."""
    return _NAME.fullmatch(name)[2]


def digest(data):
    """The sha256 of a file, as pages write it."""
    return "sha256=" + hashlib.sha256(data).hexdigest()


def read(got, wanted):
    """What the file says; raises `IndexProblem` for one that is damaged, or of an edition with other content.

    `wanted` is the digest that its page names, or empty.
    """
    where = shown(got.url)
    if wanted and wanted != digest(got.data):
        raise IndexProblem(f"{where} is not the file that its page names: its sha256 is another")
    try:
        said = json.loads(got.data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise IndexProblem(f"{where} is damaged: it is no JSON ({error})") from None
    why = _damage(said)
    if why and isinstance(said, dict) and said.get("$schema") not in (None, *EDITIONS):
        raise IndexProblem(
            f"{where} is of an edition of wheel variants that is not known here ({said['$schema']}): {why}; "
            f"known are {' '.join(EDITIONS)}. A newer rocwright-detect may know it; without variants the "
            "index installs as it is"
        )
    if why:
        raise IndexProblem(f"{where} is damaged: {why}")
    return said


def values(said):
    """The values of `amd :: gfx_arch` that some variant asks for."""
    asked = [variant.get(NAMESPACE, {}).get(FEATURE, []) for variant in said["variants"].values()]
    return {value for found in asked for value in found}


def is_static(said):
    """Whether the index itself says what GPUs a machine has, which would hold for everybody's."""
    return bool(said.get("providers", {}).get(NAMESPACE, {}).get("static-properties"))


def is_of_amd(said):
    """Whether AMD's properties decide about some of the variants."""
    return NAMESPACE in said["default-priorities"]["namespace"]


def with_properties(said, targets):
    """The file's bytes with these values of `amd :: gfx_arch`, best first, in place of its provider."""
    static = {"static-properties": {FEATURE: list(targets)}}
    changed = dict(said, providers=dict(said.get("providers", {}), **{NAMESPACE: static}))
    return (json.dumps(changed, indent=1) + "\n").encode()


def _damage(said):
    """What is wrong, in words; None for a file in order."""
    if not isinstance(said, dict) or not isinstance(said.get("$schema"), str):
        return "it names no edition ($schema)"
    # PEP 825 alone knows no providers: those are the installer's.
    if set(said) | {"providers"} != _KEYS:
        return f"its keys are {' '.join(sorted(said))}, not {' '.join(sorted(_KEYS))}"
    providers, variants = said.get("providers", {}), said["variants"]
    if not isinstance(providers, dict) or not all(isinstance(one, dict) for one in providers.values()):
        return "providers is no table of tables"
    order = said["default-priorities"]
    order = order.get("namespace") if isinstance(order, dict) else None
    if not order or not _words(order) or set(order) != set(providers or order):
        return "default-priorities does not name each provider"
    if not providers and NAMESPACE in order and len(order) > 1:
        return "it names no providers"
    if not isinstance(variants, dict):
        return "variants is no table"
    for label, variant in variants.items():
        if not _LABEL.fullmatch(label):
            return f"{label!r} is no label of a variant"
        if not isinstance(variant, dict) or not all(map(_features, variant.values())):
            return f"the properties of variant {label} cannot be read"
        if not set(variant) <= set(order):
            return f"variant {label} has properties that there is no provider for"
    return None


def _features(found):
    return isinstance(found, dict) and all(map(_words, found.values()))


def _words(found):
    return isinstance(found, list) and all(isinstance(one, str) for one in found)
