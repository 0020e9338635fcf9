"""Versions and specifiers after PEP 440, requirements and markers after PEP 508: as much as indexes need."""

import re

_VERSION = re.compile(
    r"v?(?:(?P<epoch>[0-9]+)!)?(?P<release>[0-9]+(?:\.[0-9]+)*)"
    r"(?:[-_.]?(?P<pre>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pren>[0-9]*))?"
    r"(?P<post>-(?P<postn1>[0-9]+)|[-_.]?(?:post|rev|r)[-_.]?(?P<postn2>[0-9]*))?"
    r"(?P<dev>[-_.]?dev[-_.]?(?P<devn>[0-9]*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?"
)
_PRE = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
_REQUIREMENT = re.compile(
    r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?\s*\(?([^;()@]*)\)?\s*(?:;(.*))?"
)
_CLAUSE = re.compile(r"\s*(===|==|!=|<=|>=|~=|<|>)\s*([^\s,]+)\s*")
# Far more than anybody writes; a marker that is longer is nobody's.
_LONG = 2000


def normal(name):
    """A project's name as indexes spell it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def key(text):
    """What versions are ordered by; None for text that is none."""
    match = _VERSION.fullmatch(text.strip().lower())
    if match is None:
        return None
    release = _trimmed(map(int, match["release"].split(".")))
    pre = (_PRE.get(match["pre"], match["pre"]), int(match["pren"] or 0)) if match["pre"] else None
    post = int(match["postn1"] or match["postn2"] or 0) if match["post"] else None
    dev = int(match["devn"] or 0) if match["dev"] else None
    # A dev release comes before all pre-releases, which come before the release; the post releases after it.
    first = ("", -1) if pre is None and post is None and dev is not None else ("z", 0) if pre is None else pre
    local = re.split(r"[-_.]", match["local"]) if match["local"] else []
    return (
        int(match["epoch"] or 0),
        release,
        first,
        -1 if post is None else post,
        float("inf") if dev is None else dev,
        # Numbers come after words; one that goes on comes after one that ends.
        tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in local),
    )


def is_pre(text):
    """Whether installers take the version only when they are told to."""
    match = _VERSION.fullmatch(text.strip().lower())
    return bool(match and (match["pre"] or match["dev"]))


def _trimmed(numbers):
    found = list(numbers)
    while len(found) > 1 and not found[-1]:
        found.pop()
    return tuple(found)


def allows(specifier, text):
    """Whether all clauses of a specifier (`>=3.10,<3.14`) hold for a version; one that is unreadable does."""
    return all(_holds(match[1], match[2], text) for match in _CLAUSE.finditer(specifier))


def pinned(specifier):
    """The version that a specifier asks for exactly; None where it leaves a choice."""
    match = _CLAUSE.fullmatch(specifier)
    return match[2] if match and match[1] in ("==", "===") and not match[2].endswith("*") else None


def _holds(operator, wanted, text):
    public = text.partition("+")[0]
    if wanted.endswith(".*"):
        same = _begins(public, wanted[:-2])
        return same if operator == "==" else not same
    here = key(text if "+" in wanted else public)
    there = key(wanted)
    if here is None or there is None:
        return True
    if operator == "~=":
        return here >= there and _begins(public, wanted.rpartition(".")[0])
    return {
        "===": here == there,
        "==": here == there,
        "!=": here != there,
        "<=": here <= there,
        ">=": here >= there,
        "<": here < there,
        ">": here > there,
    }[operator]


def _begins(text, beginning):
    release = [_VERSION.fullmatch(one.strip().lower()) for one in (text, beginning)]
    if None in release:
        return True
    here, there = ([int(part) for part in one["release"].split(".")] for one in release)
    return (here + [0] * len(there))[: len(there)] == there


def requirement(text):
    """(name, extras, specifier, marker) of a `Requires-Dist`; None for one that is unreadable or a URL."""
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        return None
    extras = {normal(one.strip()) for one in (match[2] or "").split(",") if one.strip()}
    return normal(match[1]), extras, (match[3] or "").strip(), (match[4] or "").strip()


def applies(marker, values, extras):
    """Whether a marker holds for variables by name, with one of the extras or none; unreadable: it does."""
    if not marker:
        return True
    import ast

    try:
        # A marker is an expression of Python, too, except for ~= and ===.
        tree = ast.parse(marker[:_LONG].strip(), mode="eval").body
        return any(_true(tree, {**values, "extra": extra}) for extra in ("", *extras))
    except (SyntaxError, ValueError, KeyError, RecursionError, MemoryError):
        return True


def _true(node, values):
    kind = type(node).__name__
    if kind == "BoolOp":
        found = [_true(one, values) for one in node.values]
        return all(found) if type(node.op).__name__ == "And" else any(found)
    if kind != "Compare" or len(node.ops) != 1:
        raise ValueError(kind)
    left, right = (_text(one, values) for one in (node.left, node.comparators[0]))
    operator = type(node.ops[0]).__name__
    if operator in ("In", "NotIn"):
        return (left in right) == (operator == "In")
    if "extra" in (getattr(node.left, "id", ""), getattr(node.comparators[0], "id", "")):
        left, right = normal(left), normal(right)
    elif key(left) is not None and key(right) is not None:
        signs = {"Eq": "==", "NotEq": "!=", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">="}
        return _holds(signs[operator], right, left)
    return {"Eq": left == right, "NotEq": left != right}[operator]


def _text(node, values):
    if type(node).__name__ == "Name":
        return values[node.id]
    # Python 3.8 has it as a Constant, too.
    if isinstance(getattr(node, "value", None), str):
        return node.value
    raise ValueError("neither a variable nor a text")
