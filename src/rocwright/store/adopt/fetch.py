"""METADATA and entries of offered files with as few bytes as possible; each is fetched once.

What an index says beside a file (PEP 658) is taken when its digest is right; else the end of the
wheel is read. An sdist is small and has no other way. Nothing else is downloaded unless that is allowed.
What came whole all the same is kept, and what the store has is taken from there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit
from urllib.request import url2pathname

import msgspec

from rocwright.errors import IntegrityError, InvalidInput, InvalidWheel, RocwrightError, Unreachable
from rocwright.model.sets import FileEntry
from rocwright.model.variants import WHEEL_FILE, InvalidVariant, Variants, same_properties
from rocwright.store.adopt.metadata import ranged_metadata, write_stub
from rocwright.store.adopt.offered import Offered
from rocwright.store.adopt.pages import at_once
from rocwright.store.layout import file_key
from rocwright.store.objects.protocol import ObjectStore, download
from rocwright.store.pool import describe_file, read_metadata
from rocwright.system.files import atomic_write, sha256_file
from rocwright.system.http import Refused, Web
from rocwright.system.http_send import shown
from rocwright.system.progress import each

_R = TypeVar("_R")

_MOST_METADATA = 4 << 20
_MOST_SDIST = 256 << 20
_MOST_LOST = 8


class Told(msgspec.Struct, frozen=True):
    """METADATA of an offered file, the file's size where that became known, and whether it lies beside it."""

    metadata: bytes
    size: int | None = None
    beside: bool = False


class Fetcher(msgspec.Struct):
    """Fetches METADATA, and whole files where nothing else helps, into `scratch`.

    `whole` lets it download wheels whose index gives no sha256, or whose server sends no parts. `cache` keeps
    METADATA by its digest from run to run, `pool` is a store that may have files already. `bringing` fetches
    files whole for their METADATA, because all of them are wanted. `downloaded` are the files that are here
    by name, `gone` why others cannot be had: such a file is as good as not offered.
    """

    web: Web | None
    scratch: Path
    cache: Path | None = None
    whole: bool = True
    pool: ObjectStore | None = None
    bringing: bool = False
    notes: list[str] = msgspec.field(default_factory=list)
    downloaded: dict[str, Path] = msgspec.field(default_factory=dict)
    gone: dict[str, str] = msgspec.field(default_factory=dict)
    _told: dict[str, Told | RocwrightError] = msgspec.field(default_factory=dict)
    _lost: int = 0
    _lock: Lock = msgspec.field(default_factory=Lock)

    def told(self, files: Iterable[Offered]) -> Mapping[str, Told | RocwrightError]:
        """METADATA by file name, or why it cannot be read; several at a time."""
        wanted = [one for one in {one.name: one for one in files}.values() if one.name not in self._told]
        for one, told in zip(wanted, at_once(self._try, each("asking about", wanted)), strict=True):
            self._told[one.name] = told
        return self._told

    def entries(self, files: Iterable[Offered]) -> tuple[FileEntry, ...]:
        """The entry of each file, sorted by name; with sizes and digests as the index gives them, or found.

        A file that cannot be had is left out, and in `gone`. Raises `InvalidInput` naming the files whose
        digest only a download would tell, where none is allowed.
        """
        wanted = sorted(files, key=lambda one: one.name)
        blind = [one.name for one in wanted if one.link.sha256 is None and self.web is not None]
        if blind and not self.whole:
            raise InvalidInput(
                f"the index gives no sha256 for {len(blind)} files: {', '.join(blind)}",
                next_step="leave out --no-download to download them, or ask for an index with digests",
            )
        if blind:
            self.notes.append(f"no sha256 on the index, so these are downloaded whole: {', '.join(blind)}")
        self.told(one for one in wanted if one.name not in blind)
        return tuple(one for one in at_once(self._had(self._entry), wanted) if one is not None)

    def paths(self, files: Iterable[Offered], note: Callable[[str], None]) -> dict[str, Path]:
        """The files themselves by name, downloaded as far as they are not here; others are in `gone`."""
        wanted = list(files)

        def fetch(one: Offered) -> Path:
            if self.web is not None and one.name not in self.downloaded:
                note(f"fetching {one.name}")
            return self.path(one)

        found = zip(wanted, at_once(self._had(fetch), each("fetching", wanted)), strict=True)
        return {one.name: path for one, path in found if path is not None}

    def path(self, one: Offered) -> Path:
        """The file itself: where it is, or downloaded now, its digest compared."""
        if self.web is None:
            return Path(url2pathname(urlsplit(one.link.url).path))
        with self._lock:
            known = self.downloaded.get(one.name)
        if known is None:
            known = self._place(one)
            if not self._from_pool(one, known):
                self.web.save(one.link.url, known, sha256=one.link.sha256)
            self._here(one, known)
        return known

    def _from_pool(self, one: Offered, path: Path) -> bool:
        """Whether the store has given the file; one that is damaged there, or just goes, is still offered."""
        sha256 = one.link.sha256
        if self.pool is None or sha256 is None:
            return False
        key = file_key(sha256, one.name)
        try:
            if not self.pool.exists(key):
                return False
            download(self.pool, key, path, sha256)
        except RocwrightError as error:
            self.notes.append(f"the store's own {one.name} is not to be had, so it is fetched: {error.what}")
            return False
        return True

    def _place(self, one: Offered) -> Path:
        return self.scratch / "files" / one.name

    def _here(self, one: Offered, path: Path) -> None:
        with self._lock:
            self.downloaded[one.name] = path

    def _had(self, fetch: Callable[[Offered], _R]) -> Callable[[Offered], _R | None]:
        """The same, with None for a file that cannot be had."""

        def act(one: Offered) -> _R | None:
            try:
                return fetch(one)
            except RocwrightError as error:
                if not lost(error):
                    raise
                with self._lock:
                    self.gone[one.name] = error.what
                return None

        return act

    def _entry(self, one: Offered) -> FileEntry:
        entry = self._described(one)
        if one.stated is not None and isinstance(entry.variant, Variants):
            own = entry.variant.variants[one.label]
            if not same_properties(own, one.stated):
                raise InvalidVariant(
                    f"the index states other properties of {one.name} than the wheel itself",
                    where=one.name,
                    next_step="tell whoever runs the index: what it gives a machine is not for it",
                )
        return entry

    def _described(self, one: Offered) -> FileEntry:
        if self.web is None or one.name in self.downloaded or one.link.sha256 is None:
            return describe_file(self.path(one))
        told = self._told[one.name]
        if isinstance(told, RocwrightError):
            raise told
        # What a variant states of itself does not stand in METADATA, and an index may state it otherwise.
        variant = self._inside(self.web, one, WHEEL_FILE).metadata if one.label else None
        if one.name in self.downloaded:
            return describe_file(self.path(one))
        # The same checks of name and requirements as for a file that is here.
        entry = describe_file(write_stub(self.scratch / "stubs", one.name, told.metadata, variant))
        size = one.link.size if one.link.size is not None else told.size
        if size is None:
            size = self.web.size(one.link.url)
        return msgspec.structs.replace(entry, sha256=one.link.sha256, size=size)

    def _try(self, one: Offered) -> Told | RocwrightError:
        try:
            return self._tell(one)
        except RocwrightError as error:
            if self.web is not None and lost(error):
                with self._lock:
                    self.gone[one.name] = error.what
            if type(error) is Unreachable:
                with self._lock:
                    self._lost += 1
                # One file may be out of reach, so many are a server that went away.
                if self._lost > _MOST_LOST:
                    raise
            return error

    def _tell(self, one: Offered) -> Told:
        if self.web is None:
            path = self.path(one)
            return Told(read_metadata(path), path.stat().st_size)
        if not one.is_wheel:
            if (one.link.size or 0) > _MOST_SDIST:
                raise InvalidInput(f"{one.name} has {one.link.size:,} bytes, too many for an sdist")
            path = self.path(one)
            return Told(read_metadata(path), path.stat().st_size)
        beside = self._beside(self.web, one)
        if beside is None and (self.bringing or one.name in self.downloaded):
            path = self.path(one)
            return Told(read_metadata(path), path.stat().st_size)
        return beside or self._inside(self.web, one)

    def _beside(self, web: Web, one: Offered) -> Told | None:
        """The file beside the wheel; None where there is none in spite of a promise."""
        promised = one.link.metadata
        if not promised:
            return None
        digest = promised if isinstance(promised, str) else None
        if digest is not None and (kept := self._kept(digest)) is not None:
            return Told(kept, beside=True)
        url = beside(one.link.url)
        try:
            data = web.get(url, limit=_MOST_METADATA).body
        except Refused as error:
            if error.status not in (403, 404, 410):
                raise
            self.notes.append(f"the index promises METADATA beside {one.name}, and there is none")
            return None
        if digest is not None:
            if hashlib.sha256(data).hexdigest() != digest:
                raise IntegrityError(
                    f"METADATA beside {one.name} is not what the index says: its sha256 differs",
                    where=shown(url),
                    next_step="run again; if that does not help, tell whoever runs the index",
                )
            self._keep(digest, data)
        return Told(data, beside=True)

    def _inside(self, web: Web, one: Offered, member: str = "METADATA") -> Told:
        # Whose METADATA this is, nobody vouches for but this address: so it is kept under both.
        key = (one.link.url, str(one.link.sha256), *([member] if member == WHEEL_FILE else []))
        name = hashlib.sha256("\n".join(key).encode()).hexdigest()
        if one.link.sha256 is not None and (kept := self._kept(name, any_content=True)) is not None:
            return Told(kept)
        try:
            into = self._place(one) if self.whole else None
            data, size, whole = ranged_metadata(
                web, one.link.url, one.name, one.link.size, into, member=member
            )
        except Refused as error:
            error.what = f"{one.name} is on the index, and cannot be read: {error.what}"
            error.next_step = "tell whoever runs the index; leave this build out until it is uploaded again"
            raise
        if whole:
            self.notes.append(
                f"its server ignores ranges, so all {size:,} bytes of {one.name} were downloaded"
            )
        if one.link.size not in (None, size):
            raise InvalidWheel(
                f"{one.name} has {size:,} bytes, the index says {one.link.size:,}: it is not whole",
                where=shown(one.link.url),
                next_step="tell whoever runs the index; leave this build out until it is uploaded again",
            )
        if into is not None and into.is_file():
            _require_digest(one, into)
            self._here(one, into)
        self._keep(name, data)
        return Told(data, size)

    def _kept(self, name: str, *, any_content: bool = False) -> bytes | None:
        path = None if self.cache is None else self.cache / name
        if path is None or not path.is_file():
            return None
        return path.read_bytes() if any_content or sha256_file(path) == name else None

    def _keep(self, name: str, data: bytes) -> None:
        if self.cache is None:
            return
        self.cache.mkdir(parents=True, exist_ok=True)
        with atomic_write(self.cache / name) as stream:
            stream.write(data)


def lost(error: RocwrightError) -> bool:
    """Whether an error says of a file that nobody can have it as it is offered; else it may pass."""
    if isinstance(error, Refused):
        return error.status in (403, 404, 410, 451)
    return isinstance(error, (IntegrityError, InvalidInput))


def _require_digest(one: Offered, path: Path) -> None:
    if one.link.sha256 not in (None, found := sha256_file(path)):
        raise IntegrityError(
            f"{one.name} has sha256 {found}, its index says {one.link.sha256}", where=shown(one.link.url)
        )


def beside(url: str) -> str:
    """The address of the METADATA of a wheel at an address (PEP 658)."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, f"{parts.path}.metadata", parts.query, ""))
