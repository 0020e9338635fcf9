"""Rules about what a set is for: the file that installers take of several, and the targets of its ROCm."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from packaging.tags import compatible_tags, cpython_tags

from rocwright.check.context import Context, Problem, SetRule
from rocwright.check.environments import PythonPlatform
from rocwright.check.facts import Facts
from rocwright.device_code.tree.names import also_runs, package_of, served
from rocwright.device_code.verify.sources import device_part
from rocwright.model.gpu import base_targets, in_order
from rocwright.model.patterns import fits

_ROCM_SET = "rocm_set.json"
_GLIBC = re.compile(r"manylinux(_(?P<major>[0-9]{1,4})_(?P<minor>[0-9]{1,4})|(?P<year>1|20[0-9]{2}))_")
# The old names of manylinux tags (PEP 600).
_YEARS = {"1": 5, "2010": 12, "2014": 17}


def _outranked(context: Context) -> Iterator[tuple[str, Problem]]:
    """A file that nobody gets: pip and uv take another one of the same version wherever it fits."""
    for files in context.by_project.values():
        wheels = [one for one in files if one.kind == "wheel" and one.unreadable is None]
        for facts in wheels:
            # Of several versions another rule tells; a variant is taken for what a machine has.
            same = (facts.version, facts.label)
            rivals = [one for one in wheels if (one.version, one.label) == same and one.name != facts.name]
            fitting = [each for each in context.environments if each.takes(facts)] if rivals else []
            better = {_first([facts, *rivals], each).name: None for each in fitting}
            if fitting and facts.name not in better:
                yield (
                    facts.name,
                    Problem(
                        f"pip and uv take {' or '.join(better)} instead of it, wherever it fits",
                        "keep the file that is meant; a set has one of each project per Python and platform",
                    ),
                )


def _first(files: list[Facts], environment: PythonPlatform) -> Facts:
    """What an installer takes: the most specific tag, and of equal ones the higher build tag."""
    held = [one for one in files if environment.takes(one)]
    minor = int(environment.python.removeprefix("cp3"))
    platforms = sorted({tag.rpartition("-")[2] for one in held for tag in one.tags} - {"any"}, key=_age)
    order = chain(
        cpython_tags((3, minor), [environment.abi], platforms),
        compatible_tags((3, minor), environment.python, platforms),
    )
    rank = {str(tag): at for at, tag in reversed(list(enumerate(order)))}

    def key(facts: Facts) -> tuple[int, tuple[int, str] | tuple[()]]:
        best = min((rank.get(tag, len(rank)) for tag in facts.tags), default=len(rank))
        return -best, facts.build

    return max(held, key=key)


def _age(platform: str) -> tuple[int, ...]:
    """Installers take what asks for the newest C library first, and what names none last."""
    match = _GLIBC.match(platform)
    if match is None:
        return (1,)
    minor = _YEARS.get(match["year"] or "") or int(match["minor"] or 0)
    return (0, -int(match["major"] or 2), -minor)


def _targets(context: Context) -> Iterator[tuple[str, Problem]]:
    """ROCm's own packages of a closed set serve the targets that were asked for."""
    if context.request.targets is None or not context.request.closed or context.blind:
        return
    wanted = base_targets(context.request.targets)
    for facts in context.files:
        listed = _listed(facts)
        if listed and (missing := beyond(wanted, listed)):
            yield facts.name, _lacking(missing, f"its {_ROCM_SET} lists {', '.join(in_order(listed))}")
    libraries = [
        one for one in context.files if fits(one.project, context.contract.rocm_code) and one.code_targets
    ]
    if any(device_part(one.project) is not None for one in context.files):
        return  # the code comes in packages of its own, which other rules count
    held = frozenset(target for one in libraries for target in one.code_targets)
    missing = beyond(wanted, held) if held else []
    for facts in libraries if missing else ():
        what = f"its libraries have code for {', '.join(in_order(facts.code_targets))}"
        yield facts.name, _lacking(missing, what)


def beyond(wanted: Iterable[str], held: Iterable[str]) -> list[str]:
    """The targets on whose GPUs none of this code runs."""
    bases = {word.partition(":")[0] for word in held}
    reach = {target for word in bases for target in (word, *served(word), *also_runs(word))}
    return [one for one in wanted if not {one, package_of(one)} & reach]


def _lacking(missing: list[str], what: str) -> Problem:
    return Problem(
        f"{what}; nothing of ROCm in the set serves {', '.join(missing)}, which was asked for",
        "take ROCm's packages for the family of that GPU, or correct --targets",
    )


def _listed(facts: Facts) -> frozenset[str] | None:
    """The targets that the `rocm` sdist leads to; None where it does not tell."""
    text = facts.texts.get(_ROCM_SET) if facts.kind == "sdist" else None
    try:
        told = json.loads(text or "null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, Mapping):
        return None
    # Where the code comes in packages of its own, its requirements list them.
    families = told.get("families")
    lists = families.values() if isinstance(families, Mapping) else ()
    return frozenset(word for one in lists if isinstance(one, list) for word in one if isinstance(word, str))


SET_RULES = (
    SetRule(
        "set-outranked",
        "No file is in the set that installers never take, as another one of its version comes first.",
        _outranked,
        open_severity="warning",
        by_metadata=True,
    ),
    SetRule("set-targets", "ROCm's packages in the set serve every requested target.", _targets),
)
