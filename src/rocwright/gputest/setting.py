"""What tests run with: an interpreter that has torch, the checkout that it was built from, and GPUs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import msgspec

from rocwright.gputest.devices.probe import probe
from rocwright.gputest.devices.select import DeviceGroup, Policy, Query, device_env, parse_wanted, select
from rocwright.gputest.devices.visible import unwanted
from rocwright.gputest.environment import ChildEnvironment
from rocwright.gputest.skips.entries import generic_targets
from rocwright.gputest.skips.hold import Place, place_of, state_of
from rocwright.gputest.upstream.checkout import Checkout, read_checkout, require_match
from rocwright.model.platforms import Platform
from rocwright.model.skips import Here, SkipEntry
from rocwright.model.suites import SuiteTable
from rocwright.model.testing import TorchFacts
from rocwright.model.version import InvalidVersion, parse_version

# The version that stands for the entries of every version.
ALL = "all"
_ROCM = re.compile(r"rocm(?P<version>[0-9]+(?:\.[0-9a-z]+)*)")


@dataclass(frozen=True)
class TestRequest:
    """What a user asks for: see the options of the same names.

    `locked` are the commits that a lock gives for torch. `cpu` is a run on no GPU at all.
    """

    pytorch_dir: Path
    python: Path
    family: str = ""
    pytorch_version: str = ""
    locked: tuple[str, ...] = ()
    allow_mismatch: bool = False
    cpu: bool = False
    query: Query = "unique"
    policy: Policy = "single"


@dataclass(frozen=True)
class Setting:
    """Where tests run.

    `by_target` are the groups of GPUs that one run of the tests may use, a run for each target; on a CPU the
    empty target has none.
    """

    python: Path
    facts: TorchFacts
    checkout: Checkout
    by_target: Mapping[str, tuple[DeviceGroup, ...]]
    platform: Platform
    pytorch_version: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def cpu(self) -> bool:
        """Whether no GPU is used."""
        return "" in self.by_target

    @property
    def rocm(self) -> str:
        """The ROCm that torch's wheel names in its version (`2.10.0+rocm7.10.0`); empty without one."""
        match = _ROCM.search(self.facts.version.partition("+")[2])
        return match["version"] if match else ""

    def here(self, target: str) -> Here:
        """The place that skip entries are judged for."""
        return Here(target, self.platform, self.facts.version, self.facts.python, self.rocm)

    def entries_for(
        self,
        entries: Sequence[SkipEntry],
        target: str,
        families: Mapping[str, tuple[str, ...]],
        today: date,
    ) -> tuple[tuple[SkipEntry, ...], tuple[str, ...]]:
        """Those that hold for a target, and a sentence about each that held until its day passed.

        They are chosen for this torch, for the version that was named, or for `all`.
        """
        place = place_of(self.here(target))
        named = {"": place.torch, ALL: None}.get(self.pytorch_version, self.pytorch_version)
        place = Place(place.targets, place.platform, named, place.python, place.rocm)
        states = [(entry, state_of(entry, place, families, today)) for entry in entries]
        said = tuple(
            f"the skip entry {entry.id} expired on {entry.expires}; its tests run again"
            for entry, state in states
            if state == "expired"
        )
        return tuple(entry for entry, state in states if state == "holds"), said

    def workers(self, target: str, each: int) -> tuple[dict[str, str], ...]:
        """Variables of each worker process of a target: so many for each group of GPUs."""
        groups = self.by_target[target]
        if not groups:
            return tuple({self.facts.variable: ""} for _ in range(each))
        return tuple(device_env(group, self.facts) for group in groups for _ in range(each))

    def removed(self, environment: ChildEnvironment, inherited: Mapping[str, str]) -> tuple[str, ...]:
        """Variables that no test process may inherit: other names for the visible GPUs among them."""
        return tuple(sorted({*environment.removed, *unwanted(inherited, self.facts.variable)}))


def gather(
    wanted: TestRequest,
    table: SuiteTable,
    families: Mapping[str, tuple[str, ...]],
    *,
    platform: Platform,
    log: Path | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Setting:
    """Look at the checkout, ask torch, compare the two and choose the GPUs; nothing is tested yet.

    Raises `UsageError` (checkout, version, family), `MissingTool` and `InvalidInput` (interpreter and
    torch), `NoGpu`.
    """
    checkout = read_checkout(wanted.pytorch_dir)
    parse_wanted(wanted.family, families)
    _require_version(wanted.pytorch_version)
    facts = probe(wanted.python, drop_env=table.environment.removed, log=log, note=note)
    said = require_match(checkout, facts, locked=wanted.locked, allow=wanted.allow_mismatch)
    if wanted.cpu:
        return Setting(wanted.python, facts, checkout, {"": ()}, platform, wanted.pytorch_version, (said,))
    by_target: dict[str, tuple[DeviceGroup, ...]] = {}
    for group in _select(wanted, facts, families):
        by_target[group.target] = (*by_target.get(group.target, ()), group)
    return Setting(wanted.python, facts, checkout, by_target, platform, wanted.pytorch_version, (said,))


def _select(
    wanted: TestRequest, facts: TorchFacts, families: Mapping[str, tuple[str, ...]]
) -> tuple[DeviceGroup, ...]:
    return select(
        facts, wanted.family, families, query=wanted.query, policy=wanted.policy, generic=generic_targets()
    )


def _require_version(text: str) -> None:
    if text in ("", ALL):
        return
    try:
        parse_version(text)
    except InvalidVersion as error:
        raise InvalidVersion(
            f"{text!r} is no version of PyTorch", next_step=f"write 2.9, or {ALL} for every version"
        ) from error


def shown_facts(facts: TorchFacts) -> str:
    """Torch and its ROCm in a few words."""
    kind = f"ROCm {facts.hip}" if facts.hip else f"CUDA {facts.cuda}" if facts.cuda else "CPU only"
    return f"torch {facts.version} ({kind}), Python {facts.python}"


def as_json(setting: Setting) -> dict[str, object]:
    """The setting as plain values, for a plan that is printed."""
    return {
        "python": str(setting.python),
        "torch": msgspec.to_builtins(setting.facts),
        "checkout": str(setting.checkout.directory),
        "commits": list(setting.checkout.commits),
    }
