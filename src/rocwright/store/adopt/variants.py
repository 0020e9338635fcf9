"""What an index, or a folder, states of the variants that it offers."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from rocwright.errors import IntegrityError, InvalidInput
from rocwright.model.variants import index_name, parse_variants
from rocwright.store.adopt.offered import Link, Offered, OfferedFiles
from rocwright.system.http import Refused, Web
from rocwright.system.http_send import shown

# Far above what all variants of a version take.
_MOST_STATED = 16 << 20


def with_statements(gathered: OfferedFiles, place: Web | Path) -> dict[str, tuple[Offered, ...]]:
    """The files by project; of variants with what the index, or the folder, states of them.

    What cannot be read is noted, and counts as not stated.
    """
    variants = [one for one in gathered.files.values() if one.label]
    for name in sorted({index_name(one.name) for one in variants} & gathered.stating.keys()):
        try:
            said = parse_variants(_statement(gathered.stating[name], place), where=name).variants
        except (InvalidInput, IntegrityError, Refused) as error:
            if isinstance(error, Refused) and error.status not in (403, 404, 410):
                raise
            gathered.notes.append(f"what {name} states of variants is passed over: {error.what}")
            continue
        for one in (one for one in variants if index_name(one.name) == name):
            gathered.files[one.name] = msgspec.structs.replace(one, stated=said.get(one.label))
            if one.label not in said:
                gathered.notes.append(f"{name} does not state {one.label}, so nobody is given {one.name}")
    return gathered.by_project()


def _statement(link: Link, place: Web | Path) -> bytes:
    if isinstance(place, Path):
        try:
            return (place / link.name).read_bytes()
        except OSError as error:
            raise InvalidInput(f"it cannot be read: {error.strerror}", where=place / link.name) from error
    data = place.get(link.url, limit=_MOST_STATED).body
    if link.sha256 not in (None, hashlib.sha256(data).hexdigest()):
        raise IntegrityError("its sha256 is not the one that the index names", where=shown(link.url))
    return data
