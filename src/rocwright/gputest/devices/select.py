"""Choose the GPUs to test on: those that are wanted, that torch was built for, and that it sees."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from rocwright.errors import NoGpu, UsageError
from rocwright.model.gpu import SPIRV, is_target, parse_target
from rocwright.model.testing import Device, TorchFacts

# `unique`: the first GPU of each target; `all`: every GPU.
Query = Literal["unique", "all"]
# `single`: a run sees one GPU; `all`: a run sees all chosen GPUs of its target.
Policy = Literal["single", "all"]

_BEGINNING = re.compile(r"(gfx[0-9a-f]*)x", re.IGNORECASE)
_CUDA_TARGET = re.compile(r"sm_([0-9]+)([0-9])[af]?")
_CUDA_CODE = re.compile(r"(sm|compute)_([0-9]+)([0-9])[af]?")


@dataclass(frozen=True)
class DeviceGroup:
    """GPUs of one target that a run sees, in torch's order."""

    target: str
    devices: tuple[Device, ...]


@dataclass(frozen=True)
class TargetChoice:
    """What a user asked for: exact targets, and beginnings of targets. Without either, every target."""

    text: str = ""
    targets: frozenset[str] = frozenset()
    beginnings: tuple[str, ...] = ()

    def fits(self, target: str) -> bool:
        """Whether a target (without features) is wanted."""
        if not self.targets and not self.beginnings:
            return True
        return target in self.targets or target.startswith(self.beginnings)


def parse_wanted(text: str, families: Mapping[str, tuple[str, ...]]) -> TargetChoice:
    """Families of the table, targets, or beginnings such as `gfx94X`, separated by commas or spaces.

    A name that is not in the table loses what follows its first `-`: `gfx950-dcgpu` is gfx950. Raises
    `UsageError` for anything else.
    """
    targets: set[str] = set()
    beginnings: list[str] = []
    for word in filter(None, re.split(r"[\s,;]+", text)):
        head = word.partition("-")[0]
        if word in families:
            targets.update(families[word])
        elif is_target(word) or is_target(head):
            targets.add(parse_target(word if is_target(word) else head).base)
        elif match := _BEGINNING.fullmatch(head):
            beginnings.append(match[1].lower())
        elif _CUDA_TARGET.fullmatch(word):
            targets.add(word)
        else:
            near = get_close_matches(word, families, n=3)
            raise UsageError(
                f"{word!r} is no GPU family or target",
                next_step=f"perhaps {' or '.join(near)}"
                if near
                else "write a target (gfx942), the beginning of targets (gfx94X), or a family: "
                + " ".join(families),
            )
    return TargetChoice(text.strip(), frozenset(targets), tuple(beginnings))


def built_for(
    target: str, architectures: Sequence[str], generic: Mapping[str, Sequence[str]] | None = None
) -> bool:
    """Whether code for these architectures runs on a target (without features).

    On ROCm that is the target itself, one of the `generic` ones that cover it, or SPIR-V; on CUDA code for
    the same generation, or for a virtual architecture, that is not newer.
    """
    device = _CUDA_TARGET.fullmatch(target)
    for text in architectures:
        base = text.partition(":")[0]
        if base in (target, SPIRV) or target in (generic or {}).get(base, ()):
            return True
        code = _CUDA_CODE.fullmatch(text)
        if device is not None and code is not None:
            has, needs = (int(device[1]), int(device[2])), (int(code[2]), int(code[3]))
            if needs <= has and (code[1] == "compute" or needs[0] == has[0]):
                return True
    return False


def select(
    facts: TorchFacts,
    family: str,
    families: Mapping[str, tuple[str, ...]],
    *,
    query: Query = "unique",
    policy: Policy = "single",
    generic: Mapping[str, Sequence[str]] | None = None,
) -> tuple[DeviceGroup, ...]:
    """Groups of GPUs, one for each run, in the order in which torch lists their first.

    `generic` says which targets the code for generic ones runs on (table `families`).
    Raises `UsageError` for an unknown family, `NoGpu` listing what is there when nothing fits.
    """
    wanted = parse_wanted(family, families)
    fitting: dict[str, list[Device]] = {}
    for device in facts.devices:
        if wanted.fits(device.target) and built_for(device.target, facts.architectures, generic):
            fitting.setdefault(device.target, []).append(device)
    if not fitting:
        raise _none(facts, wanted, generic)
    groups = []
    for target, devices in fitting.items():
        chosen = devices[:1] if query == "unique" else devices
        if policy == "all":
            groups.append(DeviceGroup(target, tuple(chosen)))
        else:
            groups += [DeviceGroup(target, (device,)) for device in chosen]
    return tuple(groups)


def device_env(group: DeviceGroup, facts: TorchFacts) -> dict[str, str]:
    """The variable that shows a run the GPUs of its group, and no others."""
    return {facts.variable: ",".join(device.entry for device in group.devices)}


def _none(facts: TorchFacts, wanted: TargetChoice, generic: Mapping[str, Sequence[str]] | None) -> NoGpu:
    kind = f"ROCm {facts.hip}" if facts.hip else f"CUDA {facts.cuda}" if facts.cuda else "CPU only"
    there = ", ".join(f"{one.entry}: {one.target} ({one.name})" for one in facts.devices) or "none"
    lines = [
        f"no GPU to test on{f' for {wanted.text}' if wanted.text else ''}",
        f"  torch: {facts.version}, {kind}, built for {' '.join(facts.architectures) or 'no GPU'}",
        f"  GPUs that it sees: {there}",
    ]
    if facts.problem:
        lines.append(f"  torch said: {facts.problem.splitlines()[0]}")
    return NoGpu("\n".join(lines), next_step=_next_step(facts, generic))


def _next_step(facts: TorchFacts, generic: Mapping[str, Sequence[str]] | None) -> str:
    if not facts.hip and not facts.cuda:
        step = "install a torch for ROCm there, name another with --python"
    elif not facts.devices:
        step = "see `rocwright doctor` and this shell's visibility variables"
    elif not any(built_for(one.target, facts.architectures, generic) for one in facts.devices):
        step = "install a torch that is built for one of these GPUs"
    else:
        step = "name a family that one of these GPUs belongs to, run this where such a GPU is"
    return f"{step}, or test the CPU alone: --cpu"
