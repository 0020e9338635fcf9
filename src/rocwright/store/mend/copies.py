"""Copies of lost objects in other stores and in folders of wheels; digests say which are right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from rocwright.errors import RocwrightError
from rocwright.model.sets import FileEntry
from rocwright.store.layout import file_key
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import ObjectStore, download, read_there
from rocwright.system.files import sha256_file


class Copies:
    """Places that may have a copy; what is fetched from one that is no folder lies in `work` meanwhile."""

    def __init__(self, places: Sequence[ObjectStore], work: Path) -> None:
        self.places, self.work = tuple(places), work

    @cached_property
    def _by_name(self) -> Mapping[str, list[Path]]:
        found: dict[str, list[Path]] = {}
        for place in self.places:
            if isinstance(place, LocalStore):
                for path in sorted(place.root.rglob("*")):
                    if path.suffix in (".whl", ".gz") and path.is_file():
                        found.setdefault(path.name, []).append(path)
        return found

    def file(self, entry: FileEntry) -> Path | None:
        """A file with the digest of the entry, whatever folder it lies in; None where nobody has it."""
        for path in self._by_name.get(entry.name, []):
            if path.stat().st_size == entry.size and sha256_file(path) == entry.sha256:
                return path
        for place in self.places:
            if not isinstance(place, LocalStore):
                path = self.work / entry.sha256 / entry.name
                try:
                    download(place, file_key(entry.sha256, entry.name), path, entry.sha256)
                except RocwrightError:
                    continue
                return path
        return None

    def keys(self, prefix: str) -> tuple[str, ...]:
        """What stands below a prefix in some place, sorted."""
        return tuple(sorted({one.key for place in self.places for one in place.list(prefix)}))

    def data(self, key: str, right: Callable[[bytes], bool]) -> bytes | None:
        """What stands under the key in the first place where it is `right`."""
        for place in self.places:
            there = read_there(place, key)
            if there is not None and right(there):
                return there
        return None
