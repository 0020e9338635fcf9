"""Compare RECORD with what is really in a wheel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rocwright.check.facts import Fault
from rocwright.errors import InvalidWheel
from rocwright.wheel.record import RecordRow, parse_record

_SIGNATURES = ("RECORD.jws", "RECORD.p7s")


@dataclass(frozen=True)
class Content:
    """What a member was found to be: bytes, and hex sha256, None when it could not be read."""

    name: str
    size: int
    sha256: str | None


def record_faults(dist_info: str, record: bytes | None, members: Iterable[Content]) -> tuple[Fault, ...]:
    """Everything that the RECORD in `dist_info` is wrong about; causes do not name the member."""
    name = f"{dist_info}/RECORD"
    if record is None:
        return (Fault(name, "it is missing"),)
    try:
        rows = parse_record(record)
    except InvalidWheel as error:
        return (Fault(name, error.what),)
    return tuple(_faults(dist_info, rows, list(members)))


def _faults(dist_info: str, rows: tuple[RecordRow, ...], members: list[Content]) -> Iterator[Fault]:
    record = f"{dist_info}/RECORD"
    signatures = {f"{dist_info}/{name}" for name in _SIGNATURES}
    by_path = {row.path: row for row in rows}
    times = Counter(row.path for row in rows)
    yield from (Fault(path, "RECORD lists it more than once") for path, count in times.items() if count > 1)
    there = Counter(member.name for member in members)
    yield from (Fault(path, "RECORD lists it, and it is not there") for path in by_path if path not in there)
    for member in members:
        row = by_path.get(member.name)
        if row is None:
            if member.name not in signatures:
                yield Fault(member.name, "RECORD does not list it")
        # Of a member that is there twice no row could tell which one it is about.
        elif member.name != record and there[member.name] == 1:
            what = _wrong(member, row)
            if what is not None and member.name not in signatures:
                yield Fault(member.name, what)


def _wrong(member: Content, row: RecordRow) -> str | None:
    if row.sha256 is None:
        return "RECORD has no digest of it"
    if member.sha256 is None:
        return None
    if row.size is not None and row.size != member.size:
        return "its size is not the one in RECORD"
    return None if row.sha256 == member.sha256 else "its digest is not the one in RECORD"
