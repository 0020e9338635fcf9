"""Look at what was just listed as installers do: pages and links, asked of a server."""

from __future__ import annotations

from rocwright.model.manifest import SetManifest, set_id
from rocwright.store.index.verify import ServedView, verify_served
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.objects.serve import serving
from rocwright.store.sets.records import located


def verify_listed(store: ObjectStore, prefix: str, manifest: SetManifest) -> ServedView:
    """Ask for every page of the view at `prefix` and every file of the set, over HTTP on this machine.

    No wheel's bytes are asked for, and nothing of files that lie elsewhere. Raises `IntegrityError` naming
    what an installer would stumble over.
    """
    names = {entry.name for entry in manifest.files} - located(store, set_id(manifest)).keys()
    with serving(store) as base:
        found = verify_served(base + prefix, names=names)
        if found.faults:
            # Another publisher may have been in the middle of changing pages.
            found = verify_served(base + prefix, names=names)
    found.require_sound()
    return found
