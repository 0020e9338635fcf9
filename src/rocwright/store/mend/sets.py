"""A damaged set: its manifest, files, METADATA, statements and pages, each brought back or set aside."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from rocwright.errors import InvalidData, RocwrightError
from rocwright.model.channels import Channels
from rocwright.model.sets import (
    RECEIPT,
    FileEntry,
    SetManifest,
    canonical_json,
    new_set,
    parse_set,
    parse_statement,
    set_id,
)
from rocwright.model.variants import split_label
from rocwright.store.adopt.metadata import write_stub
from rocwright.store.damage import DAMAGED, MISSING, how, put_file_right, set_aside
from rocwright.store.layout import file_key, metadata_key, set_prefix
from rocwright.store.mend.copies import Copies
from rocwright.store.mend.guess import Clues, guessed_manifest, guessed_statement
from rocwright.store.mend.pages import came_by_pages, is_outside, links_of, mend_pages
from rocwright.store.mend.told import Mended, Say
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import ObjectStore, beneath, download, read_there
from rocwright.store.pool import describe_file, read_metadata, wanted_objects
from rocwright.store.sets.records import (
    Locations,
    located,
    locations_key,
    manifest_key,
    names_statement,
    read_locations,
    read_statements,
    received,
    save_locations,
    save_receipt,
    statement_objects,
)

_WHEEL = ".whl"
# Other names are strays.
_SIGNATURE = re.compile(r"/[0-9a-f]{16}\.json\Z")


class Bench(msgspec.Struct):
    """What mending a store needs: the store, copies elsewhere, what is known, and whom to tell.

    With `quick`, files are compared by their sizes only. `at` is the time to write (RFC 3339, UTC).
    """

    store: ObjectStore
    below: ObjectStore
    channels: Channels
    copies: Copies
    known: Clues
    say: Say
    at: str
    quick: bool = False
    families: dict[str, None] = msgspec.field(default_factory=dict)
    targets: dict[tuple[str, ...], None] = msgspec.field(default_factory=dict)
    sources: dict[str, dict[str, str]] = msgspec.field(default_factory=lambda: {"": {}})
    # Sets whose files somebody wants kept: a channel that lacks one drops the set, others may have lost it to
    # retention.
    held: set[str] = msgspec.field(default_factory=set)

    def mended(self, done: str, key: str, how: str) -> None:
        """Tell of one thing."""
        self.say(msgspec.convert({"done": done, "key": key, "how": how}, Mended))

    def aside(self, key: str, why: str) -> None:
        """Set a damaged object aside, and tell so."""
        there = self.store.exists(key)
        aside = set_aside(self.store, key)
        self.mended("set aside", key, f"{why}; moved to {aside}" if there else why)


def mend_set(bench: Bench, digest: str) -> str | None:
    """Put a set right; returns why it is not whole all the same, None where it is."""
    manifest = mend_manifest(bench, digest)
    if manifest is None:
        return "its manifest is lost"
    _mend_locations(bench, digest)
    _mend_statements(bench, manifest)
    _mend_signatures(bench, manifest)
    lost = list(_mend_files(bench, manifest))
    if lost:
        return f"lost: {', '.join(lost)}"
    _mend_receipt(bench, manifest)
    mend_pages(bench.store, digest, lambda key, why: bench.mended("written anew", key, why))
    return None


# -- the manifest


def mend_manifest(bench: Bench, digest: str, *, give_up: bool = True) -> SetManifest | None:
    """The manifest of a set, brought back where it is damaged; else all of the set is set aside."""
    store, key = bench.store, manifest_key(digest)
    data = read_there(store, key)
    found = _manifest_of(data, digest)
    if found is not None and data == canonical_json(found):
        return found
    source = "its content was right"
    if found is None:
        _bring_in(bench, digest)
        found, source = _found_manifest(bench, digest)
    if found is not None:
        # In one write: whoever is killed between two would leave the set without.
        store.put_bytes(key, canonical_json(found), overwrite=data is not None)
        bench.mended("brought back", key, source)
        return found
    if not give_up:
        return None
    why = "its manifest cannot be had"
    if data is None and not store.exists(f"{DAMAGED}{key}"):
        # So that it is told once that there was one.
        store.put_bytes(f"{DAMAGED}{key}", b"")
    for one in store.list(set_prefix(digest)):
        bench.aside(one.key, how(data) if one.key == key else why)
    return None


def _bring_in(bench: Bench, digest: str) -> None:
    """What an earlier repair set aside of the set comes back with its manifest."""
    folder = f"{DAMAGED}{set_prefix(digest)}"
    if bench.copies.data(manifest_key(digest), lambda data: hashlib.sha256(data).hexdigest() == digest):
        for one in bench.store.list(folder):
            back = one.key.removeprefix(DAMAGED)
            if not bench.store.exists(back) and one.size and back != manifest_key(digest):
                bench.store.put_bytes(back, bench.store.read(one.key))
                bench.mended("brought back", back, "from where it was set aside")
            bench.store.delete(one.key)


def _manifest_of(data: bytes | None, digest: str) -> SetManifest | None:
    if not data:
        return None
    with suppress(InvalidData):
        found = parse_set(data, where=digest)
        if set_id(found) == digest:
            return found
    return None


def _found_manifest(bench: Bench, digest: str) -> tuple[SetManifest | None, str]:
    copy = bench.copies.data(manifest_key(digest), lambda data: _manifest_of(data, digest) is not None)
    if copy is not None:
        return _manifest_of(copy, digest), "from a copy"
    for stored in bench.store.list(f"{set_prefix(digest)}_signatures/"):
        # What is signed stands in the signature.
        with suppress(ValueError, TypeError, AttributeError):
            payload = b64decode(json.loads(bench.store.read(stored.key))["payload"])
            if (found := _manifest_of(payload, digest)) is not None:
                return found, f"from {stored.key}"
    described = _described(bench, digest)
    if described is None:
        return None, ""
    locks = tuple(
        one.key.rpartition("/pylock.")[2].removesuffix(".toml")
        for one in bench.store.list(set_prefix(digest))
        if "/pylock." in one.key
    )
    found = guessed_manifest(
        digest,
        described,
        families=bench.families,
        targets=dict.fromkeys([tuple(one for one in locks if one != "none"), (), *bench.targets]),
        sources=bench.sources.values(),
    )
    return found, "from its files, as its id proves"


def _described(bench: Bench, digest: str) -> SetManifest | None:
    """The files of a set, as what is said about it and its pages have them."""
    named: dict[str, str] = {}
    for stored in statement_objects(bench.store, digest):
        data = bench.store.read(stored.key)
        if names_statement(stored.key, data):
            with suppress(InvalidData):
                said = parse_statement(data, where=stored.key)
                if said.about(digest):
                    named = {one.name: one.sha256 or "" for one in said.subject if ":" not in one.name}
    sizes: dict[str, int] = {}
    for link in links_of(bench.store, set_prefix(digest)):
        named.setdefault(link.name, link.sha256 or "")
        sizes[link.name] = link.size or 0
    try:
        files = [_entry(bench, name, sha256, sizes.get(name)) for name, sha256 in named.items()]
        return new_set(family="", targets=(), platform="", files=files, sources={})
    except RocwrightError:
        return None


def _entry(bench: Bench, name: str, sha256: str, size: int | None) -> FileEntry:
    store, work = bench.store, bench.copies.work / "described"
    # What a variant states does not stand in its METADATA.
    enough = name.endswith(_WHEEL) and split_label(name)[1] is None
    metadata = read_there(store, metadata_key(sha256, name)) if enough else None
    if metadata:
        found = describe_file(write_stub(work / sha256, name, metadata))
    else:
        path = work / sha256 / "whole" / name
        download(store, file_key(sha256, name), path, sha256)
        found = describe_file(path)
    stored = store.stat(file_key(sha256, name))
    many = size or (stored.size if stored is not None else 0)
    return msgspec.structs.replace(found, sha256=sha256, size=many)


# -- what was said about it, and who signed it


def _mend_receipt(bench: Bench, manifest: SetManifest) -> None:
    """Say again that all files are here, since when its pages tell; they were just looked at."""
    store, digest = bench.store, set_id(manifest)
    if store.exists(locations_key(digest)) or received(read_statements(store, digest, RECEIPT)) is not None:
        return
    came = came_by_pages(store, set_prefix(digest))
    if came is None and any("/receipt-" in one.key for one in store.list(f"{DAMAGED}{set_prefix(digest)}")):
        came = bench.at
    if came is not None:
        save_receipt(store, manifest, came)
        bench.mended("written anew", f"{set_prefix(digest)}_statements/", f"the receipt of its files, {came}")


def _mend_statements(bench: Bench, manifest: SetManifest) -> None:
    digest = set_id(manifest)
    for stored in statement_objects(bench.store, digest):
        data = read_there(bench.store, stored.key)
        if data is not None and names_statement(stored.key, data) and _about(data, digest):
            continue
        right = bench.copies.data(stored.key, partial(names_statement, stored.key))
        guess = right or guessed_statement(
            stored.key, stored.modified, manifest, bench.channels.suite, bench.known
        )
        if guess is None or not _about(guess, digest):
            bench.aside(stored.key, how(data))
        else:
            bench.store.put_bytes(stored.key, guess, overwrite=True)
            how_so = "from a copy" if right else "as its name proves"
            bench.mended("brought back", stored.key, how_so)


def _about(data: bytes, digest: str) -> bool:
    try:
        return parse_statement(data, where=digest).about(digest)
    except InvalidData:
        return False


def _mend_signatures(bench: Bench, manifest: SetManifest) -> None:
    for stored in bench.store.list(f"{set_prefix(set_id(manifest))}_signatures/"):
        data = read_there(bench.store, stored.key)
        if _SIGNATURE.search(stored.key) and data is not None and not _signs(data, manifest):
            copy = bench.copies.data(stored.key, lambda there: _signs(there, manifest))
            if copy is None:
                bench.aside(stored.key, how(data))
            else:
                bench.store.put_bytes(stored.key, copy, overwrite=True)
                bench.mended("brought back", stored.key, "from a copy")


def _signs(data: bytes, manifest: SetManifest) -> bool:
    """Whether this is in the form of a signature of the set; whose it is, who trusts a key looks at."""
    try:
        return b64decode(json.loads(data)["payload"]) == canonical_json(manifest)
    except (ValueError, TypeError, KeyError):
        return False


# -- its files


def _mend_locations(bench: Bench, digest: str) -> None:
    key = locations_key(digest)
    try:
        read_locations(bench.store, digest)
        return
    except RocwrightError:
        links = [one for one in links_of(bench.store, set_prefix(digest)) if is_outside(one)]
    copy = bench.copies.data(key, lambda data: bool(data))
    if copy is not None:
        with suppress(msgspec.MsgspecError):
            save_locations(bench.store, digest, msgspec.json.decode(copy, type=Locations))
            bench.mended("brought back", key, "from a copy")
            return
    if not links:
        bench.aside(key, how(read_there(bench.store, key)))
        return
    sidecars = tuple(sorted(one.name for one in links if one.metadata))
    places = Locations({one.name: one.url.partition("#")[0] for one in links}, sidecars)
    save_locations(bench.store, digest, places)
    bench.mended("brought back", key, "from the pages of the set")


def _mend_files(bench: Bench, manifest: SetManifest) -> Iterator[str]:
    """The names of files that are lost."""
    elsewhere: Mapping[str, str] = {}
    with suppress(RocwrightError):
        elsewhere = located(bench.store, set_id(manifest))
    for entry in manifest.files:
        if entry.name not in elsewhere and not _mend_file(bench, entry, set_id(manifest) in bench.held):
            yield entry.name


def _mend_file(bench: Bench, entry: FileEntry, held: bool) -> bool:
    store, key = bench.store, file_key(entry.sha256, entry.name)
    stored = store.stat(key)
    whole = stored is not None and stored.size == entry.size
    if not whole or not (bench.quick or store.digest(key) == entry.sha256):
        copy = bench.copies.file(entry)
        if copy is None:
            if stored is not None:
                bench.aside(key, how(b"" if not stored.size else b"-"))
            elif held:
                bench.mended("left", key, f"{MISSING}, and no copy was found")
            return False
        if stored is not None:
            store.delete(key)
        put_file_right(store, copy, key)
        bench.mended("brought back", key, f"from {copy}")
    return _mend_sidecar(bench, entry)


def _mend_sidecar(bench: Bench, entry: FileEntry) -> bool:
    store = bench.store
    for key, sha256 in wanted_objects(entry).items():
        data = read_there(store, key) if key.endswith(".metadata") else None
        if not key.endswith(".metadata") or (data and hashlib.sha256(data).hexdigest() == sha256):
            continue
        metadata = read_metadata(_on_disk(bench, entry))
        if hashlib.sha256(metadata).hexdigest() != sha256:
            bench.aside(key, "the wheel has other METADATA than was recorded")
            return False
        store.put_bytes(key, metadata, overwrite=True)
        bench.mended("brought back", key, "from the wheel")
    return True


def _on_disk(bench: Bench, entry: FileEntry) -> Path:
    key = file_key(entry.sha256, entry.name)
    for store in (bench.store, bench.below):
        if isinstance(plain := beneath(store), LocalStore) and (plain.root / key).is_file():
            return plain.root / key
    path = bench.copies.work / entry.sha256 / entry.name
    if not path.is_file():
        download(bench.store, key, path, entry.sha256)
    return path
