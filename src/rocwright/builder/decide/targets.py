"""For which GPUs to compile: from a flag, a variable, or what the ROCm at hand has device code for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rocwright.builder.rocm.rocm import Rocm
from rocwright.data import load_table
from rocwright.errors import UsageError
from rocwright.model.gpu import Families, InvalidTarget, base_targets, parse_target, parse_targets

VARIABLE = "PYTORCH_ROCM_ARCH"
FLAG = "--pytorch-rocm-arch"
ALL = "all"


def parse_build_targets(flag: str | None, caller: Mapping[str, str], rocm: Rocm) -> tuple[str, ...]:
    """The targets to build for: the flag, else the caller's `PYTORCH_ROCM_ARCH`, else the ROCm's own.

    Separated by spaces, commas or semicolons; names of families stand for their targets, `all` for every
    target that the ROCm has device code for, or of the table where it does not say. Raises `UsageError`
    naming the flag when all three are empty, `InvalidTarget` for text that is neither target nor family.
    """
    for text, origin in ((flag, FLAG), (caller.get(VARIABLE), VARIABLE)):
        if text and (words := _words(text)):
            return _expanded(words, origin, rocm)
    if rocm.targets:
        return _not_brought(rocm.targets)
    raise UsageError(
        "no GPU target to build for: none was given, and the ROCm does not say which ones it has code for",
        next_step=f"give {FLAG}, for example {FLAG} gfx942,gfx1100",
    )


def require_part(part: Sequence[str], targets: Sequence[str]) -> None:
    """Raise `UsageError` unless every target of a part is among those of the build, by its base."""
    known = {text.partition(":")[0] for text in targets}
    foreign = sorted({parse_target(text).base for text in part} - known)
    if foreign:
        raise UsageError(
            f"{', '.join(foreign)} is no target of this build, which is for {', '.join(targets)}",
            next_step=f"name with {FLAG} the targets of all parts, and with --device-part those of this one",
        )


def _not_brought(targets: tuple[str, ...]) -> tuple[str, ...]:
    """Without generic targets that are there because the package of one that they serve requires theirs."""
    generic = load_table("families", Families).generic
    return tuple(
        target for target in targets if not set(generic.get(target, ())) & set(base_targets(targets))
    )


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[\s,;]+", text) if word]


def _expanded(words: list[str], origin: str, rocm: Rocm) -> tuple[str, ...]:
    families = load_table("families", Families).families
    found: list[str] = []
    for word in words:
        if word == ALL:
            known = {target for members in families.values() for target in members}
            found.extend(_not_brought(rocm.targets) or base_targets(known))
        elif word in families:
            found.extend(families[word])
        else:
            found.extend(str(target) for target in _targets(word, origin, families))
    return tuple(dict.fromkeys(found))


def _targets(word: str, origin: str, families: Mapping[str, object]) -> tuple[object, ...]:
    try:
        return parse_targets(word)
    except InvalidTarget as error:
        raise InvalidTarget(
            f"{origin}: {error.what}, and no family",
            next_step="families: " + " ".join(sorted(families)),
        ) from error
