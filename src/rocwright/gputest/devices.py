"""The GPUs to test on: those that torch sees, that it was built for, and that are wanted.

Torch is asked in a process of its own, with a time limit.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import msgspec
from packaging.version import InvalidVersion, Version

from rocwright.data import load_table
from rocwright.errors import CommandFailed, InvalidInput, MissingTool, NoGpu, UsageError
from rocwright.gputest.emulated.preload import require_no_preload
from rocwright.gputest.environment import Visible, inside_directory, read_visible
from rocwright.model.gpu import SPIRV, is_target, parse_target
from rocwright.model.suites import SuiteTable
from rocwright.model.testing import Device, TorchFacts
from rocwright.system import process

# The oldest that the plugins and workers of `inside` are written for.
PYTEST = Version("7.1")
# `unique`: the first GPU of each target; `all`: every GPU.
Query = Literal["unique", "all"]
# `single`: a run sees one GPU; `all`: a run sees all chosen GPUs of its target.
Policy = Literal["single", "all"]

_ROCM = re.compile(r"rocm(?P<version>[0-9]+(?:\.[0-9a-z]+)*)")
_BEGINNING = re.compile(r"(gfx[0-9a-f]*)x", re.IGNORECASE)
_CUDA_TARGET = re.compile(r"sm_([0-9]+)([0-9])[af]?")
_CUDA_CODE = re.compile(r"(sm|compute)_([0-9]+)([0-9])[af]?")


class _Seen(msgspec.Struct, frozen=True):
    index: int
    target: str
    name: str = ""
    uuid: str = ""
    memory: int = 0


class _Answer(msgspec.Struct, frozen=True):
    """What the script wrote; a step that it did not come to is None."""

    python: str
    pytest: str = ""
    absent: bool = False
    import_error: str | None = None
    version: str | None = None
    git_version: str = ""
    hip: str = ""
    cuda: str = ""
    architectures: tuple[str, ...] = ()
    devices: tuple[_Seen, ...] | None = None
    problem: str | None = None


def probe(
    python: Path,
    *,
    env: Mapping[str, str] | None = None,
    drop_env: Sequence[str] = (),
    before: Sequence[str] = (),
    log: Path | None = None,
    limit_s: float | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> TorchFacts:
    """What the torch of `python` says of itself and of the GPUs.

    `env` and `drop_env` change the environment that is asked in; visibility variables in it are respected.
    `before` are words in front of the interpreter: a program that runs it. `limit_s` is that of the table
    `tests` unless given. `note` is told what torch prints on standard error and what is odd about the
    variables. That no GPU is seen is no error: `problem` says why.

    Raises `MissingTool` (no such interpreter, no torch, no pytest of 7.1 or later), `InvalidInput` (torch
    is there but cannot be imported), and `UsageError` where this very process runs under an emulator.
    """
    require_no_preload(os.environ)
    limit = limit_s if limit_s is not None else load_table("tests", SuiteTable).limits.probe_s
    ended = ""
    with tempfile.TemporaryDirectory(prefix="rocwright-probe-") as folder:
        path = Path(folder) / "answer.json"
        try:
            process.run(
                [*before, python.absolute(), inside_directory() / "rocwright_probe.py", path],
                cwd=Path(folder),  # not the caller's, which may hold a torch of its own
                env=env,
                drop_env=drop_env,
                log=log,
                limit_s=limit,
                watch=lambda line: note(line) if line else None,
            )
        except CommandFailed as error:
            ended = f"{error.what.partition(':')[0].removeprefix('command ')}"
            if error.tail:
                ended += f": {error.tail.splitlines()[-1]}"
        try:
            answer = msgspec.json.decode(path.read_bytes(), type=_Answer)
        except (OSError, msgspec.DecodeError) as error:
            raise MissingTool(
                f"{python} does not answer as a Python interpreter{f' ({ended})' if ended else ''}",
                where=log,
                next_step="give the python3 program of the environment that torch is installed in: --python",
            ) from error
    _require(answer, python, ended, log)
    return _facts(answer, _inherited(env, drop_env), ended, note)


def _require(answer: _Answer, python: Path, ended: str, log: Path | None) -> None:
    if answer.absent:
        raise MissingTool(
            f"{python} has no torch",
            next_step="give the environment that it is installed in (--python), or install it there "
            "(`rocwright test setup-venv`)",
        )
    if answer.version is None:
        why = answer.import_error or f"the process {ended or 'ended early'}"
        raise InvalidInput(
            f"torch cannot be imported by {python}: {why}",
            where=log,
            next_step=f"see the whole traceback: {python} -c 'import torch'",
        )
    if not _recent(answer.pytest):
        has = f"pytest {answer.pytest}" if answer.pytest else "no pytest"
        raise MissingTool(
            f"{python} has {has}; the tests need {PYTEST} or later",
            next_step=f"{python} -m pip install 'pytest>={PYTEST}'",
        )


def _recent(pytest: str) -> bool:
    try:
        return Version(pytest) >= PYTEST
    except InvalidVersion:
        return False


def _inherited(env: Mapping[str, str] | None, drop_env: Sequence[str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in drop_env}
    return {**kept, **(env or {})}


def _facts(
    answer: _Answer, environ: Mapping[str, str], ended: str, note: Callable[[str], None]
) -> TorchFacts:
    visible = read_visible(environ, hip=bool(answer.hip))
    problem = answer.problem or ""
    if answer.devices is None:
        problem = f"asked for its GPUs, torch {ended or 'ended early'}"
    if visible.entries == ():
        problem = visible.notes[-1]
    elif answer.hip or answer.cuda:
        # Of no use to who has a torch without GPUs.
        for text in visible.notes:
            note(text)
    return TorchFacts(
        version=answer.version or "",
        git_version=answer.git_version,
        hip=answer.hip,
        cuda=answer.cuda,
        python=answer.python,
        architectures=answer.architectures,
        devices=named(answer.devices or (), visible),
        variable=visible.variable,
        problem=problem,
    )


def named(seen: Sequence[_Seen], visible: Visible) -> tuple[Device, ...]:
    """The GPUs with the words that the visibility variable has for them.

    Entries behind an entry that names no GPU are not visible, so they never shift the others. A GPU that no
    entry stands for is none of this run's.
    """
    entries = visible.entries
    return tuple(
        Device(
            index=one.index,
            entry=str(one.index) if entries is None else entries[one.index],
            target=one.target,
            name=one.name,
            uuid=one.uuid,
            memory=one.memory,
        )
        for one in seen
        if entries is None or one.index < len(entries)
    )


def kind_of(facts: TorchFacts) -> str:
    """What a torch is made for: `ROCm 7.10.0`, `CUDA 12.8` or `CPU only`."""
    return f"ROCm {facts.hip}" if facts.hip else f"CUDA {facts.cuda}" if facts.cuda else "CPU only"


def rocm_of(version: str) -> str:
    """The ROCm that a wheel names in its version: 7.10.0 for `2.10.0+rocm7.10.0`; empty if it names none."""
    match = _ROCM.search(version.partition("+")[2])
    return match["version"] if match else ""


class DeviceGroup(msgspec.Struct, frozen=True):
    """GPUs of one target that a run sees, in torch's order."""

    target: str
    devices: tuple[Device, ...]


class TargetChoice(msgspec.Struct, frozen=True):
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
                f"{word!r} is not a GPU family or target",
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

    On ROCm that is the target itself, one of the `generic` targets that cover it, or SPIR-V; on CUDA code for
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

    `generic` says which targets the code for generic targets runs on (table `families`).
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
    there = ", ".join(f"{one.entry}: {one.target} ({one.name})" for one in facts.devices) or "none"
    lines = [
        f"no GPU to test on{f' for {wanted.text}' if wanted.text else ''}",
        f"  torch: {facts.version}, {kind_of(facts)}, built for {' '.join(facts.architectures) or 'no GPU'}",
        f"  GPUs that it sees: {there}",
    ]
    if facts.problem:
        lines.append(f"torch reports: {facts.problem.splitlines()[0]}")
    return NoGpu("\n".join(lines), next_step=_next_step(facts, generic))


def _next_step(facts: TorchFacts, generic: Mapping[str, Sequence[str]] | None) -> str:
    if not facts.hip and not facts.cuda:
        step = "install a torch for ROCm there, name another with --python"
    elif not facts.devices:
        step = "see `rocwright doctor` and this shell's visibility variables"
    elif not any(built_for(one.target, facts.architectures, generic) for one in facts.devices):
        step = "install a torch that is built for one of these GPUs"
    else:
        step = "name a family that one of these GPUs belongs to, or run this where there is such a GPU"
    return f"{step}, or test the CPU alone: --cpu"
