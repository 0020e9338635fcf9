"""Read all sources that a machine can read, and compare them with the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from importlib import resources

import msgspec

from rocwright.data import load_table
from rocwright.data.overlay import Overlay, merged
from rocwright.data.sources import FactSource, load_sources
from rocwright.data.toml import plain
from rocwright.errors import InvalidInput, RocwrightError, Unreachable, UsageError
from rocwright.model.gpu import is_target
from rocwright.model.indexes import IndexTable
from rocwright.refresh.compare import READERS, FactChange, FactTables, new_targets, noted, older, row
from rocwright.refresh.places import SourcePlace
from rocwright.refresh.write import marked
from rocwright.system.http import Web

# What an index offers: its projects, and the newest version of some.
Listing = tuple[frozenset[str], Mapping[str, str]]
INDEX = "index"
_DEVICE = "rocm-sdk-device-"
# What sources are compared with.
_TABLES = (
    "families", "gpus", "profiles", "projects", "landing", "compat", "compat_libraries", "device_files",
    "sources",
)  # fmt: skip


class Refreshed(msgspec.Struct, frozen=True):
    """What the sources say now: `changes` to the tables, `read` which sources.

    `failed` could not be read, and why; `wrong` are not what they should be, and nothing of them is taken.
    `written` is the file with the changes.
    """

    changes: tuple[FactChange, ...]
    read: tuple[str, ...]
    failed: dict[str, str] = {}
    wrong: dict[str, str] = {}
    written: str = ""


def refresh(
    web: Web,
    today: date,
    given: Mapping[str, str],
    overlay: Overlay | None = None,
    *,
    list_index: Callable[[str], Listing] | None = None,
) -> Refreshed:
    """Differences between the sources and the tables with an overlay.

    `given` says where to read instead of a source's address, by its id, or by what several ids begin with
    (`therock`); then only these are read. Raises `Unreachable` where nothing can be read.
    """
    texts = _texts()
    base = {name: plain(text, where=f"data/{name}.toml") for name, text in texts.items()}
    own = {} if overlay is None else overlay.tables
    values = {name: merged(table, own[name]).values if name in own else table for name, table in base.items()}
    tables = FactTables(values)
    changes: list[FactChange] = []
    failed: dict[str, str] = {}
    wrong: dict[str, str] = {}
    read: list[str] = []
    indexes = load_table("indexes", IndexTable, overlay)
    for source, place in _wanted(given, load_sources(overlay).sources, indexes, web):
        try:
            found = list(_read(source, place, tables, today, list_index))
        except InvalidInput as error:
            wrong[source.id] = error.what
        except RocwrightError as error:
            failed[source.id] = error.what
        else:
            read.append(source.id)
            for change in _judged(found, overlay):
                changes.append(change)
                if change.kind in ("added", "changed"):
                    tables = tables.with_(change)
    if not read and not wrong:
        raise Unreachable(
            "no source could be read:\n" + "\n".join(f"  {one}: {why}" for one, why in failed.items()),
            next_step="give what you have of them: --from therock=CLONE --from amdgpu-ids=FILE …",
        )
    return Refreshed(tuple(changes), tuple(read), failed, wrong)


def _texts() -> dict[str, str]:
    folder = resources.files("rocwright.data")
    return {name: folder.joinpath(f"{name}.toml").read_text(encoding="utf-8") for name in _TABLES}


def _wanted(
    given: Mapping[str, str], sources: Iterable[FactSource], indexes: IndexTable, web: Web
) -> Iterator[tuple[FactSource, SourcePlace]]:
    readable = [one for one in sources if one.reader in READERS]
    # ROCm alone says which GPUs there are packages for.
    readable += [
        FactSource(f"{INDEX}-{one.name}", one.core or one.url, "today", date.min, reader=INDEX)
        for one in indexes.index
        if one.rocm and not one.ended
    ]
    if not given:
        yield from ((one, SourcePlace("", one.url, web)) for one in readable)
        return
    for name, place in given.items():
        meant = [one for one in readable if one.id == name]
        meant = meant or [one for one in readable if one.id.startswith(f"{name}-")]
        if name == INDEX:
            meant = [FactSource(INDEX, place, "today", date.min, reader=INDEX)]
        if not meant:
            raise UsageError(
                f"--from {name}: no source is called so",
                next_step=f"known: {' '.join(sorted((*(one.id for one in readable), INDEX)))}",
            )
        yield from ((one, SourcePlace(place, one.url, web)) for one in meant)


def _read(
    source: FactSource,
    place: SourcePlace,
    tables: FactTables,
    today: date,
    list_index: Callable[[str], Listing] | None,
) -> Iterator[FactChange]:
    """The differences of one source, with where they stand; and that it was read."""
    if source.reader == INDEX:
        url = place.given or place.url
        listing = (frozenset[str](), dict[str, str]()) if list_index is None else list_index(url)
        for change in _offered(tables, listing):
            yield msgspec.structs.replace(change, source=source.id, url=url, as_of=str(today))
        return
    page, found = READERS[source.reader](place, tables)
    old = older(page.as_of, source.as_of)
    for change in found:
        # What an older list does not have, or has otherwise, came later.
        if not old or change.kind in ("added", "noted"):
            yield msgspec.structs.replace(change, source=source.id, url=page.url, as_of=page.as_of)
    if old:
        yield FactChange(
            "noted", f"sources.source.{source.id}", source=source.id, url=page.url, as_of=page.as_of,
            says=f"it is of {page.as_of}, the tables are of {source.as_of}; only what they lack is told",
        )  # fmt: skip
        return
    now = msgspec.structs.replace(source, as_of=page.as_of, read=today)
    if now != source:
        done = row("sources", "source", source.id, _as_row(source), _as_row(now))
        yield msgspec.structs.replace(done, source=source.id, url=page.url, as_of=page.as_of)


def _as_row(source: FactSource) -> dict[str, object]:
    """As the table has it: without what is left out there."""
    values = msgspec.to_builtins(source, builtin_types=(date,))
    return {key: list(value) if key == "of" else value for key, value in values.items() if value}


def _offered(tables: FactTables, listing: Listing) -> Iterator[FactChange]:
    """What an index has beside the tables."""
    projects, newest = listing
    found = {name.removeprefix(_DEVICE) for name in projects if name.startswith(_DEVICE)}
    targets = {one for one in found if is_target(one) and ":" not in one}
    yield from new_targets(tables, targets)
    for strange in sorted(found - targets):
        yield noted("families.families", f"{_DEVICE}{strange} is the package of no GPU target")
    for project, version in newest.items():
        yield noted(f"{INDEX}.{project}", f"the newest {project} is {version}")


def _judged(found: Iterable[FactChange], overlay: Overlay | None) -> Iterator[FactChange]:
    """What somebody wrote by hand is left: the difference is told as a conflict."""
    for change in found:
        by_hand = overlay is not None and change.kind == "changed" and not marked(overlay, change)
        yield msgspec.structs.replace(change, kind="conflict") if by_hand else change
