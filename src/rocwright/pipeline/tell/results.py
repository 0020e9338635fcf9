"""What is told of the results in records: only these fields are read, whatever else a step says."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from rocwright.pipeline.records import Record

V = TypeVar("V", bound=msgspec.Struct)


class Packages(msgspec.Struct, frozen=True):
    """ROCm as Python packages; `mode` is kpack where device code lies in packages of its own."""

    version: str = ""
    mode: str = ""
    targets: tuple[str, ...] = ()


class Uploaded(msgspec.Struct, frozen=True):
    """Packages in the store: the page of this upload, and digests by file name.

    `rocm` is the prefix of the ROCm packages that they were built against.
    """

    prefix: str = ""
    find_links: str = ""
    files: dict[str, str] = {}
    rocm: str = ""


class Wheel(msgspec.Struct, frozen=True):
    """A built wheel."""

    project: str = ""
    version: str = ""


class Checks(msgspec.Struct, frozen=True):
    """What the wheel contract found."""

    files: int = 0
    rules: int = 0
    errors: int = 0
    warnings: int = 0
    findings: tuple[str, ...] = ()


class Counts(msgspec.Struct, frozen=True):
    """One run of tests."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: tuple[str, ...] = ()


class Suite(msgspec.Struct, frozen=True):
    """One suite on one target (empty: on the host); not `complete` where it gave no report."""

    suite: str = ""
    target: str = ""
    verdicts: Counts = Counts()
    complete: bool = True


class Tests(msgspec.Struct, frozen=True):
    """Tests of installed wheels: on a host by `rocm_sdk` and `smoke`, on GPUs by `suites`."""

    installed: dict[str, str] = {}
    find_links: str = ""
    rocm: str = ""
    gpus: tuple[str, ...] = ()
    rocm_sdk: Counts | None = None
    smoke: Counts | None = None
    suites: tuple[Suite, ...] = ()

    def every(self) -> tuple[Suite, ...]:
        """All suites, whichever way they are told."""
        host = (("rocm-sdk", self.rocm_sdk), ("smoke", self.smoke))
        return (*(Suite(name, "", found) for name, found in host if found), *self.suites)


class Ruled(msgspec.Struct, frozen=True):
    """What one rule of the gate says."""

    rule: str = ""
    passed: bool = False
    reason: str = ""


class Gate(msgspec.Struct, frozen=True):
    """The gate's decision."""

    promote: bool = False
    rule: str = ""
    reason: str = ""
    rulings: tuple[Ruled, ...] = ()


class Staged(msgspec.Struct, frozen=True):
    """A set in the staging channel."""

    set_id: str = ""
    index_url: str = ""
    why: str = ""


class Promoted(msgspec.Struct, frozen=True):
    """A set in the channel that it was promoted to."""

    set_id: str = ""
    index_url: str = ""
    pip_line: str = ""
    decision: Gate | None = None
    why: str = ""


class End(msgspec.Struct, frozen=True):
    """How one of the last cells ended."""

    state: str = ""
    summary: str = ""
    why: str = ""


class Ends(msgspec.Struct, frozen=True):
    """How a run ended: its last cells and those that did not end well, by id; counts over all by state."""

    good: bool = True
    cells: dict[str, End] = {}
    counts: dict[str, int] = {}


class _Judged(msgspec.Struct, frozen=True):
    decision: Gate | None = None


def read(record: Record, type_: type[V]) -> V:
    """What is told of a record's result; the defaults where it is another one's or not there."""
    try:
        return msgspec.json.decode(record.value, type=type_)
    except msgspec.DecodeError:
        return type_()


def gate_of(record: Record) -> Gate:
    """The decision in the record of a gate, whether it is the result or stands in it."""
    return read(record, _Judged).decision or read(record, Gate)
