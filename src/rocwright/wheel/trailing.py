"""The sha256 of a file that is still being written, taken behind the writer."""

from __future__ import annotations

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO

from rocwright.system.files import CHUNK

_STEP = 4 << 20


class TrailingDigest:
    """Hashes what is final of a growing file on a thread of its own, so that nobody waits for a second read.

    Needs the writer's stream because what lies in its memory cannot be read yet.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._path = Path(stream.name)
        self._digest = hashlib.sha256()
        self._piece = memoryview(bytearray(CHUNK))
        self._asked = 0
        self._done = 0
        self._last: Future[None] | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="rocwright-digest")

    def __enter__(self) -> TrailingDigest:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def settled(self, end: int) -> None:
        """Bytes before `end` will not change any more."""
        if end - self._asked >= _STEP:
            self._ask(end)

    def finish(self) -> str:
        """Hex sha256 of the whole file."""
        self._ask(self._stream.tell())
        if self._last is not None:
            self._last.result()
        return self._digest.hexdigest()

    def _ask(self, end: int) -> None:
        self._stream.flush()
        self._asked = end
        self._last = self._pool.submit(self._read_up_to, end)

    def _read_up_to(self, end: int) -> None:
        piece = self._piece
        with self._path.open("rb", buffering=0) as file:
            file.seek(self._done)
            while self._done < end:
                count = file.readinto(piece[: end - self._done])
                if not count:
                    raise OSError(f"{self._path.name} ends before {end}")
                self._digest.update(piece[:count])
                self._done += count
