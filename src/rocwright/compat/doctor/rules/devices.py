"""Rules about device code: is there some for each GPU, in ROCm's libraries and in each framework, and is it
that of the very build that launches it?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from packaging.utils import canonicalize_name

from rocwright.compat.doctor import mend
from rocwright.compat.doctor.facts import Case, Distribution, Environment, SplitPart
from rocwright.compat.doctor.observations import Observation
from rocwright.compat.doctor.rules.machine import overridden
from rocwright.compat.doctor.rules.packages import applying
from rocwright.model.gpu import in_order

_EXTRA = "device-"
_EVERY = "device-all"


def device_code(case: Case) -> Iterator[Observation]:
    """An observation for each GPU target and each part that has no code for it, or one that all is there."""
    environment = case.environment
    assert environment is not None
    instead = overridden(case.machine.variables.get("HSA_OVERRIDE_GFX_VERSION", ""))
    targets = list(dict.fromkeys(instead or one.target for one in case.machine.gpus))
    judged: list[str] = []
    bad = 0
    for found in (
        *_split(case, environment, targets, judged),
        *_families(case, environment, targets, judged),
        *_torch(case, environment, targets, judged),
    ):
        bad += 1
        yield found
    if judged and targets and not bad:
        detail = f"{', '.join(sorted(set(judged)))}: device code for {', '.join(targets)}"
        yield Observation("device-code", "ok", detail, section="environment")


# --- packages whose device code is split off: rocm-sdk-device-*, amd-torch-device-*


def offers(one: Distribution, environment: Environment) -> dict[str, set[str]]:
    """What `device-WORD` extras a distribution has: WORD to the distributions that bring the code."""
    found: dict[str, set[str]] = {}
    for extra in one.extras:
        if not extra.startswith(_EXTRA) or extra == _EVERY:
            continue
        for text in one.requires:
            wanted = applying(text, environment, extra)
            name = canonicalize_name(wanted.name) if wanted else ""
            if wanted and _EXTRA in name and applying(text, environment) is None:
                found.setdefault(extra[len(_EXTRA) :], set()).add(name)
    return found


def _split(
    case: Case, environment: Environment, targets: Sequence[str], judged: list[str]
) -> Iterator[Observation]:
    installed = {one.name for one in environment.distributions}
    for one in environment.family:
        found = offers(one, environment)
        # Without its libraries ROCm has nothing that runs on a GPU.
        if not found or (one.name == "rocm" and "rocm-sdk-libraries" not in installed):
            continue
        judged.append(one.name)
        words = {word: _served(word, environment, case.known) for word in found}
        there = {word for word, names in found.items() if names <= installed}
        for target in targets:
            if not any(target in words[word] for word in there):
                yield _absent(case, one, target, words, there)


def _served(word: str, environment: Environment, known: Sequence[str]) -> frozenset[str]:
    """The targets that a word of an extra stands for.

    A package of ROCm says it itself. A group (of files that several targets share) serves none alone.
    """
    for marker in environment.devices:
        if _plain(marker.word) == _plain(word):
            return frozenset(target.partition(":")[0] for target in marker.serves)
    return frozenset(target for target in known if _plain(target) == _plain(word))


def _plain(word: str) -> str:
    return re.sub(r"[-_.]+", "-", word).lower()


def _absent(
    case: Case, one: Distribution, target: str, words: Mapping[str, frozenset[str]], there: set[str]
) -> Observation:
    which = f"GPU {_numbers(case, target)} ({target})"
    has = f"only the package for {', '.join(sorted(there))} is installed" if there else "none is installed"
    word = next((word for word, served in sorted(words.items()) if target in served), None)
    if word is not None:
        detail = f"{one.name} {one.version} has no device code for {which}; {has}"
        step = mend.install(case, f"{one.name}[{_EXTRA}{word}]=={one.version}")
        return Observation("device-code", "missing", detail, step, f"{one.name} {target}", "environment")
    offered = frozenset().union(*words.values())
    return _not_offered(case, f"{one.name} {one.version}", target, offered)


def _not_offered(case: Case, what: str, target: str, offered: frozenset[str]) -> Observation:
    """Nothing that can be installed serves the GPU: name the nearest targets."""
    near_ = near(target, offered)
    others = f"the nearest it has: {', '.join(near_)}" if near_ else f"it has: {', '.join(in_order(offered))}"
    detail = f"{what} has no device code for GPU {_numbers(case, target)} ({target}) at all; {others}"
    step = f"take a release that has it, or build one: rocwright build --pytorch-rocm-arch {target}"
    return Observation(
        "device-code", "missing", detail, step, f"{what.partition(' ')[0]} {target}", "environment"
    )


def near(target: str, known: frozenset[str]) -> list[str]:
    """The targets that share the longest beginning with `target`, at least its generation."""
    common = {other: _common(target, other) for other in known}
    longest = max(common.values(), default=0)
    # The last two characters of a target are its minor version and step.
    return sorted(other for other in known if common[other] == longest >= len(target) - 2)


def _common(one: str, two: str) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two))
    )


def _numbers(case: Case, target: str) -> str:
    """The numbers of the GPUs of a target; where a variable makes all of them that target, all numbers."""
    own = [str(one.index) for one in case.machine.gpus if one.target == target]
    return " ".join(own or [str(one.index) for one in case.machine.gpus])


# --- packages with device code inside, for a family of GPUs


def _families(
    case: Case, environment: Environment, targets: Sequence[str], judged: list[str]
) -> Iterator[Observation]:
    served = {name: {one.partition(":")[0] for one in code} for name, code in environment.targets.items()}
    if not served:
        return
    judged.extend(served)
    every = frozenset().union(*served.values())
    for target in targets:
        if target in every:
            continue
        family = next(
            (name for name, members in case.families.items() if target in members and len(members) > 1),
            next((name for name, members in case.families.items() if target in members), ""),
        )
        names = ", ".join(sorted(served))
        which = f"GPU {_numbers(case, target)} ({target})"
        detail = f"{names} has device code for {', '.join(in_order(every))}, not for {which}"
        one = environment.named("rocm")
        pin = f"=={one.version}" if one else ""
        step = mend.install(case, f"rocm[libraries]{pin}", again=True)
        if family:
            step = f"ROCM_SDK_TARGET_FAMILY={family} {step} --no-cache-dir"
        yield Observation("device-code", "missing", detail, step, f"{names} {target}", "environment")


# --- torch with its device code inside: it says itself, once it is imported


def _torch(
    case: Case, environment: Environment, targets: Sequence[str], judged: list[str]
) -> Iterator[Observation]:
    built = case.imported.architectures if case.imported else ()
    text = environment.torch
    # Generic code runs on chips whose names it does not have.
    if (
        not built
        or text is None
        or not text.hip
        or any("generic" in word or "spirv" in word for word in built)
    ):
        return
    bases = frozenset(word.partition(":")[0] for word in built)
    judged.append("torch")
    for target in targets:
        if target not in bases:
            yield _not_offered(case, f"torch {text.version}", target, bases)


# --- what hosts and device packages say of the split that they are of


def device_build(case: Case) -> Iterator[Observation]:
    """Packages with device code of another build than their host, or without archives of their split.

    Versions do not tell builds apart; AMD's runtime takes whatever archive lies at a library's place.
    """
    environment = case.environment
    assert environment is not None
    said = [(one, split) for one in environment.family for split in one.splits]
    hosts = [(one, split) for one, split in said if not split.part]
    bad = 0
    matched: dict[str, None] = {}
    for one, split in ((one, split) for one, split in said if split.part):
        for host, own in hosts:
            if (own.folder, own.group) != (split.folder, split.group):
                continue
            matched |= {host.name: None, one.name: None}
            if own.build != split.build:
                bad += 1
                yield _stranger(case, one, split, host, own)
        lacking = [name for name in _lacking(split) if name not in _recorded(one)]
        if lacking:
            bad += 1
            yield _gone(case, one, split, lacking)
        if split.unlike:
            bad += 1
            yield _unlike(case, one, split)
    for found in _never_there(case, environment, hosts):
        bad += 1
        yield found
    if matched and not bad:
        detail = f"{', '.join(sorted(matched))}: device code is of its host's build"
        yield Observation("device-build", "ok", detail, section="environment")


def _stranger(
    case: Case, one: Distribution, split: SplitPart, host: Distribution, own: SplitPart
) -> Observation:
    detail = (
        f"{one.name} {one.version} has device code of build {split.build[:12]}, {host.name} {host.version} "
        f"is of build {own.build[:12]}: kernels of another build would run, with wrong numbers and no error"
    )
    step = mend.reinstall(case, host, one)
    return Observation("device-build", "wrong", detail, step, f"{host.name} {one.name}", "environment")


def _unlike(case: Case, one: Distribution, split: SplitPart) -> Observation:
    names = ", ".join(_archive(split, target) for target in split.unlike)
    detail = (
        f"{one.name} {one.version} came with another {names} than it was split with: code of another build, "
        "or damaged"
    )
    return Observation("device-build", "wrong", detail, mend.reinstall(case, one), one.name, "environment")


def _archive(split: SplitPart, target: str) -> str:
    return f"{split.group}_{target}.kpack"


def _lacking(split: SplitPart) -> list[str]:
    return [_archive(split, target) for target in split.targets if target not in split.held]


def _recorded(one: Distribution) -> set[str]:
    """Files that are missing by RECORD, as the rule about files tells."""
    return {problem.path.rpartition("/")[2] for problem in one.problems if problem.kind == "missing"}


def _gone(case: Case, one: Distribution, split: SplitPart, names: Sequence[str]) -> Observation:
    detail = f"{one.name} {one.version} was split with {', '.join(names)}, not there in {split.folder}"
    step = mend.reinstall(case, one)
    return Observation("device-build", "missing", detail, step, one.name, "environment")


def _never_there(
    case: Case, environment: Environment, hosts: Sequence[tuple[Distribution, SplitPart]]
) -> Iterator[Observation]:
    """Targets of GPUs here that a host was split into, without an archive, where no extra brings them."""
    held = {
        (split.group, split.build, target)
        for one in environment.family
        for split in one.splits
        for target in split.held
    }
    offered = [word for one in environment.family for word in offers(one, environment)]
    served = frozenset().union(*(_served(word, environment, case.known) for word in offered))
    told = set()
    for host, own in hosts:
        for gpu in dict.fromkeys(one.target for one in case.machine.gpus):
            its = [target for target in own.targets if target.partition(":")[0] == gpu]
            there = any((own.group, own.build, target) in held for target in its)
            if not its or there or gpu in served or (host.name, gpu) in told:
                continue
            told.add((host.name, gpu))
            detail = (
                f"{host.name} {host.version} was split into code for GPU {_numbers(case, gpu)} ({gpu}), "
                "and no archive for it is installed"
            )
            step = mend.reinstall(case, host)
            yield Observation("device-build", "missing", detail, step, f"{host.name} {gpu}", "environment")
