"""A store whose machine stops between two writes; a stand-in, in process."""

from __future__ import annotations

from pathlib import Path

from rocwright.store.objects.local import LocalStore


class PowerCut(Exception):
    """The machine stops between two writes."""


class FailingStore(LocalStore):
    """A local store that stops before its n-th write."""

    def __init__(self, root: Path, writes: int) -> None:
        super().__init__(root)
        self.left = writes

    def _spend(self) -> None:
        if self.left == 0:
            raise PowerCut
        self.left -= 1

    def put_file(self, source: Path, key: str) -> None:
        self._spend()
        super().put_file(source, key)

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        self._spend()
        super().put_bytes(key, data, overwrite=overwrite)
