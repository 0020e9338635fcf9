"""Values of a test run: where it ran, what each test showed, which runs were expected, what failures tell.

What of a failure's words tells its cause, and which causes are the machine's, is the table `signatures`.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from rocwright.model.emulated import Emulated

# `crashed`: its process ended in the test (a signal, `os._exit`); `hung`: it did not end in its time;
# `memory`: its process grew past its limit; `flaky`: failed, and passed when it was run again. `xpassed` is a
# failure: an entry says that the test fails, and it does not.
Verdict = Literal[
    "passed", "failed", "error", "crashed", "hung", "memory", "xpassed", "flaky", "xfailed", "skipped"
]
# What ran the code for a GPU: a GPU, an emulator that plays one, or nothing (a run on the host alone).
DeviceKind = Literal["gpu", "emulated", "none"]
BAD: frozenset[Verdict] = frozenset(("failed", "error", "crashed", "hung", "memory", "xpassed"))
# Of several attempts or parts of one test the first in this order counts.
WORST_FIRST: tuple[Verdict, ...] = (
    "crashed",
    "hung",
    "memory",
    "error",
    "failed",
    "xpassed",
    "flaky",
    "passed",
    "xfailed",
    "skipped",
)


class CaseResult(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What one test showed.

    `id` is pytest's node id with the test file relative to the directory of the tests
    (`test_nn.py::TestNN::test_share_memory`); a file that could not be collected stands for its tests under
    its own name. `message` is one line, `detail` the traceback and the end of what was printed. `seconds` is
    the wall time of all attempts. `entry` is the id of the skip entry that applied.
    """

    id: str
    verdict: Verdict
    seconds: float = 0.0
    message: str = ""
    detail: str = ""
    attempts: int = 1
    entry: str = ""

    @property
    def file(self) -> str:
        """The test file, relative to the directory of the tests."""
        return self.id.partition("::")[0]

    @property
    def bad(self) -> bool:
        """Whether the test speaks against the wheels."""
        return self.verdict in BAD


class Ran(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where and with what a run ran; `target` is the GPU's (empty: no GPU), versions are those of the
    wheels.

    `device` says what a target was of. Records that do not say it are older than emulated GPUs: a GPU's.
    """

    suite: str
    config: str = "default"
    target: str = ""
    torch: str = ""
    rocm: str = ""
    python: str = ""
    platform: str = "linux"
    shard: int = 1
    shards: int = 1
    attempt: int = 1
    device: DeviceKind = "gpu"

    @property
    def kind(self) -> DeviceKind:
        """What ran the code for a GPU; without a target nothing did, whatever `device` says."""
        return self.device if self.target else "none"

    @property
    def emulated(self) -> bool:
        """Whether an emulator played the GPU."""
        return self.kind == "emulated"

    @property
    def where(self) -> str:
        """The target for people: `gfx942`, `gfx942 (emulated)`; empty for none."""
        return on_device(self.target, emulated=self.emulated)

    @property
    def key(self) -> str:
        """A readable name of the run in a matrix: `units-default-gfx942-1of4`, and of one on an emulated GPU
        `smoke-gpu-default-gfx942-emulated-1of1`."""
        target = f"{self.target or 'cpu'}{'-emulated' if self.emulated else ''}"
        return f"{self.suite}-{self.config}-{target}-{self.shard}of{self.shards}"


def on_device(target: str, *, emulated: bool) -> str:
    """A target for people, with the word where an emulator plays the GPU."""
    return f"{target} (emulated)" if emulated else target


# Suites and configurations may hold dashes: those of this project are known, of others only the usual
# configuration.
_KEY = re.compile(
    r"(?P<suite>units|full|smoke-host|smoke-gpu|.+(?=-default-))-(?P<config>.+)"
    r"-(?P<target>cpu|gfx[0-9a-f]+|sm_[0-9]+[a-z]?)(?P<emulated>-emulated)?-(?P<shard>[0-9]+)of(?P<shards>[0-9]+)"
)


def run_of_key(text: str) -> Ran | None:
    """What `Ran.key` says of a run; None for text that is no such name."""
    match = _KEY.fullmatch(text)
    if match is None:
        return None
    target = "" if match["target"] == "cpu" else match["target"]
    return Ran(
        match["suite"],
        match["config"],
        target,
        shard=int(match["shard"]),
        shards=int(match["shards"]),
        device="emulated" if match["emulated"] else "gpu",
    )


class RunRecord(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One run, as its `results.json` holds it. `complete` is false where the run was stopped before its
    end. `emulation` is what played the GPU of a run on an emulated one, and of no other. `start_s` are the
    seconds from the start of a worker to its first file collected, which imports torch; `collect_s` those
    that each file took that a worker collected behind another one."""

    ran: Ran
    results: tuple[CaseResult, ...]
    seconds: float = 0.0
    complete: bool = True
    worker_starts: int = 0
    # Tests that the run's own selection (`-k`, `-m`, other shards) left out.
    deselected: int = 0
    notes: tuple[str, ...] = ()
    start_s: float = 0.0
    collect_s: dict[str, float] = {}
    emulation: Emulated | None = None

    def __post_init__(self) -> None:
        # A record that loses one of the two is not to become one of a GPU.
        if (self.emulation is not None) != self.ran.emulated:
            raise ValueError("a run on an emulated GPU, and no other, names its emulator")

    @property
    def bad(self) -> tuple[CaseResult, ...]:
        """The results that speak against the wheels."""
        return tuple(one for one in self.results if one.bad)


class Device(msgspec.Struct, frozen=True, omit_defaults=True):
    """A GPU as torch sees it.

    `index` counts what is visible; `entry` is how the visibility variable names it (the system's index, or a
    UUID). `target` is `gfx942`, without features; on a CUDA device `sm_90`. `memory` in bytes.
    """

    index: int
    entry: str
    target: str
    name: str = ""
    uuid: str = ""
    memory: int = 0


class TorchFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an environment's torch says of itself and of the GPUs, asked in a process of its own.

    `architectures` are the targets that it was built for; `variable` names the visible devices to it.
    `git_version` is the commit that it was built from. `problem` is what torch said instead of a list of
    GPUs.
    """

    version: str
    git_version: str = ""
    hip: str = ""
    cuda: str = ""
    python: str = ""
    architectures: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ()
    variable: Literal["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"] = "HIP_VISIBLE_DEVICES"
    problem: str = ""


class InfraRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cause that is the machine's, not the wheels': its name, and regular expressions, one of which its
    message contains. Case does not matter."""

    kind: str
    patterns: tuple[str, ...]

    def __post_init__(self) -> None:
        for pattern in self.patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                # As a ValueError it becomes a message that names the row.
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error


class SignatureTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table.

    `variants` are the ends of test names that stand for a device or data type: the same test on another one
    fails for the same cause. `vague` are regular expressions for messages that say nothing of the cause by
    themselves: the test's name becomes part of their signature.
    """

    variants: tuple[str, ...]
    vague: tuple[str, ...]
    infra: tuple[InfraRow, ...]

    def __post_init__(self) -> None:
        for pattern in self.vague:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error


def infra_kind(text: str, table: SignatureTable) -> str:
    """The kind of the first row that the text fits; empty where the cause is none of the machine's."""
    for row in table.infra:
        if any(re.search(pattern, text, re.IGNORECASE) for pattern in row.patterns):
            return row.kind
    return ""
