"""The pages of one set under `sets/<id>/`: its own index, pins, a snippet for uv, a lock for each GPU target.

A set never changes, so neither do these: what is there stays as it is. Only where the files of an adopted set
came into the store later, they are written anew, once: they no longer link to where the files were found. And
where files were attested later: they link to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from packaging.version import Version

from rocwright.errors import InvalidInput, UsageError
from rocwright.model.sets import SetManifest, set_id
from rocwright.store.index.listed import ListedSet, listed_files
from rocwright.store.index.lock import (
    NO_TARGET,
    lock_name,
    lock_set,
    lock_targets,
    lock_third_party,
    versions,
)
from rocwright.store.index.pages import view_pages
from rocwright.store.layout import set_prefix
from rocwright.store.objects.durable import together
from rocwright.store.objects.protocol import ObjectStore, read_there
from rocwright.store.sets.records import locations_key, read_listed

CONSTRAINTS = "constraints.txt"
UV_SNIPPET = "uv.toml"


def publish_set_pages(
    store: ObjectStore,
    one: ListedSet,
    *,
    base_url: str | None = None,
    third_party: Mapping[str, str] | None = None,
    attested: bool = False,
) -> tuple[str, ...]:
    """Write what is not there yet of the pages of a recorded set, or is empty; returns their keys.

    `base_url` is where clients find the root of the store, ending with `/` (default: what the store says,
    which ROCWRIGHT_PUBLIC_URL decides): locks and snippet name it, as neither is read where it lies.
    `third_party` are whole locks by target that hold requirements from elsewhere, too (`lock_third_party`).
    When files were `attested`, what is there of the index is written anew where it differs.
    """
    digest = set_id(one.manifest)
    prefix = set_prefix(digest)
    pages = set_pages(one, base_url or _base_url(store, prefix), third_party or {})
    written = []
    with together():
        there = {stored.key: stored.size for stored in store.list(prefix)}
        brought = not one.elsewhere and locations_key(digest) in there
        for key, page in pages.items():
            anew = brought or (attested and key.endswith("index.html"))
            if not there.get(key) or (anew and read_there(store, key) != page):
                store.put_bytes(key, page, overwrite=key in there)
                written.append(key)
    if brought:
        # Last: as long as it is there, pages may still link to the places that it names.
        store.delete(locations_key(digest))
    return tuple(written)


def publish_attested(store: ObjectStore, set_digest: str) -> None:
    """Write the pages of a recorded set anew that say where the provenance of its files is."""
    seen = None
    # Two that attest files of one set write the same pages: whoever writes looks again afterwards.
    while (one := read_listed(store, set_digest)) != seen:
        seen = one
        publish_set_pages(store, one, attested=True)


def _base_url(store: ObjectStore, prefix: str) -> str:
    return store.url(prefix).removesuffix(prefix)


def set_pages(
    one: ListedSet, base_url: str, third_party: Mapping[str, str] | None = None
) -> Mapping[str, bytes]:
    """Every page of a set by its key, in the order in which to publish them.

    No lock and no pins where a project has several versions: nobody could install all of such a set.
    """
    manifest = one.manifest
    prefix = set_prefix(set_id(manifest))
    # Channels tell that a set was withdrawn.
    files = listed_files([msgspec.structs.replace(one, yanked=None)], where=prefix)
    extra = {UV_SNIPPET: uv_snippet(manifest, f"{base_url}{prefix}")}
    if all(len(found) == 1 for found in versions(manifest).values()):
        extra[CONSTRAINTS] = constraints(manifest)
        for target in lock_targets(manifest):
            lock = (third_party or {}).get(target)
            # A folder that nobody serves: who reads the lock there finds the files from there.
            public = None if base_url.startswith("file:") else base_url
            extra[lock_name(target)] = lock or lock_set(one, target, base_url=public)
    return {
        **{f"{prefix}{name}": text.encode() for name, text in extra.items()},
        **view_pages(files, prefix),
    }


def only_target(manifest: SetManifest) -> str:
    """The target to lock a set for where nobody says which; raises `UsageError` where it has several."""
    known = lock_targets(manifest)
    if len(known) > 1:
        raise UsageError(
            f"the set is for {', '.join(known)}", next_step=f"say for which: --target {known[0]}"
        )
    return known[0] if known else NO_TARGET


def lock_recorded(
    store: ObjectStore, one: ListedSet, target: str, *, index_url: str | None, work: Path
) -> str:
    """The lock of a recorded set for a target, with what the index at `index_url` has to add; see there.

    Raises `InvalidInput` for a target that is none of the set's, and where a project has several versions.
    """
    known = lock_targets(one.manifest) or (NO_TARGET,)
    if target not in known:
        raise InvalidInput(
            f"{target!r} is not a target of this set; it has {', '.join(known)}",
            next_step="give one of these",
        )
    several = [project for project, found in versions(one.manifest).items() if len(found) > 1]
    if several:
        raise InvalidInput(
            f"the set has several versions of {', '.join(several)}, and a lock takes one",
            next_step="create a set of one version of each project",
        )
    base = _base_url(store, set_prefix(set_id(one.manifest)))
    if index_url is None:
        return lock_set(one, target, base_url=base)
    return lock_third_party(store, one, target, base_url=base, index_url=index_url, work=work)


def constraints(manifest: SetManifest) -> str:
    """A constraints file for pip and uv: each project of the set at exactly its version."""
    head = f"# set {set_id(manifest)}\n"
    return head + "".join(f"{project}=={found[0]}\n" for project, found in versions(manifest).items())


def uv_snippet(manifest: SetManifest, url: str) -> str:
    """What makes uv take the projects of the set from its index at `url`, and nothing else from there.

    A source alone holds for direct dependencies; named in a constraint, too, it holds for whatever requires
    the project.
    """
    name = f"rocm-{set_id(manifest)[:12]}"
    found = versions(manifest)
    pins = "".join(f'    "{_pin(project, said)}",\n' for project, said in found.items())
    sources = "".join(f'{project} = {{ index = "{name}" }}\n' for project in found)
    return f"""\
# Paste into pyproject.toml. The index is asked for the projects below and for nothing else; no other index
# is asked for them, so that a package of the same name elsewhere is never taken.
[tool.uv]
constraint-dependencies = [
{pins}]

[[tool.uv.index]]
name = "{name}"
url = "{url}"
explicit = true

[tool.uv.sources]
{sources}"""


def _pin(project: str, said: list[str]) -> str:
    """The version of a project; of several, from the lowest: uv binds no index to a bare name."""
    if len(said) == 1:
        return f"{project}=={said[0]}"
    return f"{project}>={min(map(Version, said)).public}"
