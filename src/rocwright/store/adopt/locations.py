"""Where the files of an adopted set are: `sets/<id>/locations.json`, on which its id does not depend."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

import msgspec

from rocwright.errors import InvalidData
from rocwright.model.manifest import canonical_json
from rocwright.store.layout import set_prefix
from rocwright.store.objects.protocol import ObjectStore, read_there

LOCATIONS_SCHEMA = "rocwright.locations/1"
_SECRET = re.compile(r"sig|token|secret|key|credential|password|auth|policy", re.IGNORECASE)


class Locations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The address of each file by name, without logins; `sidecars` are those with METADATA beside them."""

    files: Mapping[str, str] = {}
    sidecars: tuple[str, ...] = ()
    schema: str = LOCATIONS_SCHEMA


def save_locations(store: ObjectStore, set_digest: str, locations: Locations) -> str:
    """Write where the files are; what was known before is replaced. Returns the key."""
    key = locations_key(set_digest)
    store.put_bytes(key, canonical_json(locations), overwrite=True)
    return key


def read_locations(store: ObjectStore, set_digest: str) -> Locations:
    """Where the files of a set are, as far as they are not in the store."""
    key = locations_key(set_digest)
    # They go when the files come in.
    data = read_there(store, key)
    if data is None:
        return Locations()
    try:
        return msgspec.json.decode(data, type=Locations)
    except msgspec.MsgspecError as error:
        raise InvalidData(f"{key} does not say where files are: {error}", where=key) from error


def recordable(url: str) -> str:
    """An address without what only its user may know: login, signature, token."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    kept = [word for word in parts.query.split("&") if not _SECRET.search(word.partition("=")[0])]
    # A part of a signature says nothing without the rest of it.
    query = parts.query if len(kept) == len(parts.query.split("&")) else ""
    return urlunsplit((parts.scheme, host, parts.path, query, ""))


def locations_key(set_digest: str) -> str:
    """Where that is said of a set."""
    return f"{set_prefix(set_digest)}locations.json"
