"""A store in a folder that tells what was asked of it, and whose machine stops when told; a stand-in."""

from __future__ import annotations

from pathlib import Path

from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import Stored


class PowerCut(Exception):
    """The machine stops between two changes."""


class WatchedStore(LocalStore):
    """A local store that writes down what is read and what changes, and stops after so many changes."""

    def __init__(self, root: Path, *, after: int | None = None) -> None:
        super().__init__(root)
        self.after = after
        self.asked: list[tuple[str, str]] = []
        self.changed: list[str] = []

    def _change(self, key: str) -> None:
        if self.after is not None and len(self.changed) >= self.after:
            raise PowerCut
        self.changed.append(key)

    def put_file(self, source: Path, key: str) -> None:
        self._change(key)
        super().put_file(source, key)

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        self._change(key)
        super().put_bytes(key, data, overwrite=overwrite)

    def delete(self, key: str) -> None:
        # A lease of who stopped would run out some time; these tests do not wait for it.
        if not key.startswith("_leases/"):
            self._change(f"-{key}")
        super().delete(key)

    def read(self, key: str) -> bytes:
        self.asked.append(("read", key))
        return super().read(key)

    def list(self, prefix: str) -> tuple[Stored, ...]:
        self.asked.append(("list", prefix))
        return super().list(prefix)
