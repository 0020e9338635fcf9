"""What publishing a set puts right by itself, because it says the same again: its receipt, its event."""

from __future__ import annotations

from rocwright.model.sets import SetManifest, set_id
from rocwright.store.channel_log import read_log
from rocwright.store.damage import put_right, set_aside
from rocwright.store.mend.guess import Clues, guessed_event, guessed_statement
from rocwright.store.objects.protocol import ObjectStore, read_there
from rocwright.store.sets.records import names_statement, set_folders, statement_objects


def heal_receipt(store: ObjectStore, manifest: SetManifest) -> None:
    """Put a damaged receipt of a set back as it was; one that cannot be had is set aside."""
    for stored in statement_objects(store, set_id(manifest), "receipt"):
        data = read_there(store, stored.key)
        if data is not None and not names_statement(stored.key, data):
            found = guessed_statement(stored.key, stored.modified, manifest, (), Clues())
            if found is not None:
                put_right(store, stored.key, found)
            else:
                set_aside(store, stored.key)


def heal_events(store: ObjectStore, prefix: str, set_digest: str) -> None:
    """Put damaged events of a channel back as they were: of this set, and of others that say no reason."""
    damaged = {one.key for one in read_log(store, prefix).unsure}
    if not damaged:
        return
    known = Clues(sets=dict.fromkeys([(set_digest,), *((one,) for one in set_folders(store))]))
    for stored in store.list(prefix):
        if stored.key in damaged:
            found = guessed_event(stored.key, stored.modified, known)
            if found is not None:
                put_right(store, stored.key, found)
