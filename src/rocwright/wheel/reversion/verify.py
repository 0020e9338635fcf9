"""Read a wheel that was written, all of it: does RECORD hold, and what still mentions an old version?"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rocwright.errors import IntegrityError
from rocwright.wheel.read import Wheel, WheelMember, open_wheel
from rocwright.wheel.record import RecordRow
from rocwright.wheel.reversion.texts import mentions
from rocwright.wheel.stream import WheelStream, opened

_OVERLAP = 256  # longer than any version


def verify_wheel(path: Path, old: str, *, threads: int = 2) -> tuple[str, ...]:
    """Members, sorted, that mention the version `old`; all of them are inflated and compared with RECORD.

    Raises `IntegrityError` naming the first member that RECORD does not tell of as it is, `InvalidWheel` for
    one that is damaged.
    """
    wheel = open_wheel(path)
    rows = {row.path: row for row in wheel.record}
    with opened(wheel) as stream, ThreadPoolExecutor(threads, thread_name_prefix="rocwright-verify") as pool:
        jobs = [pool.submit(_look, stream, member, rows, old) for member in wheel.members]
        try:
            found = [job.result() for job in jobs]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return tuple(sorted(name for name in found if name is not None))


def _look(stream: WheelStream, member: WheelMember, rows: Mapping[str, RecordRow], old: str) -> str | None:
    digest, tail, mentioned = hashlib.sha256(), b"", False
    for piece in stream.inflated(member):
        digest.update(piece)
        if not mentioned:
            mentioned = mentions(tail + piece, old)
            tail = piece[-_OVERLAP:]
    _compare(stream.wheel, member, rows.get(member.name), digest.hexdigest())
    return member.name if mentioned else None


def _compare(wheel: Wheel, member: WheelMember, row: RecordRow | None, sha256: str) -> None:
    own = member.name == f"{wheel.dist_info}/RECORD"
    if row is None or (row.sha256 != sha256 and not own):
        raise IntegrityError(
            f"{member.name} in {wheel.path.name} is not what RECORD tells of",
            where=wheel.path,
            next_step="the wheel was so before, or the disk is damaged: check the wheel that was given",
        )
