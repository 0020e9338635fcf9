"""What larger stores cost: more files in an index, more sets in a channel, more objects to clean up.

Inputs are made anew for each run, and their making does not count. Files are entries of manifests, and empty
objects where they have to be there; nothing is synced to the disk, which is measured by store_durable.py.
A store in memory is asked as a bucket is, by the same client, without a server that answers.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import obstore
from measured import Side, fresh
from results import Report, Row, ended, grown
from store_index import AT, PREFIX, entry, timed

from rocwright.data import load_table
from rocwright.model.channels import Channels
from rocwright.model.sets import FileEntry, SetManifest, new_set
from rocwright.store import publish
from rocwright.store.channel_log import Event, append
from rocwright.store.objects.address import open_store
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.objects.remote import RemoteStore
from rocwright.store.pool import wanted_objects
from rocwright.store.retention import collect
from rocwright.store.sets.records import save_receipt, save_set

PROJECTS, FILES_A_SET = 500, 400
FILES = (20_000, 200_000, 2_000_000)
SETS = (100, 1_000, 10_000)
OBJECTS = (10_000, 100_000, 1_000_000)


def manifest(number: int, files: int) -> SetManifest:
    """So many wheels, each of another project."""
    wheels = [entry(project % PROJECTS, 0, number) for project in range(number * files, (number + 1) * files)]
    return _set(wheels)


def _set(files: list[FileEntry]) -> SetManifest:
    return new_set(family="family", targets=["gfx90a"], platform="linux", files=files, sources={})


def make_index(store: ObjectStore, files: int, *, of_set: int = FILES_A_SET) -> None:
    """A channel that lists all of its sets; no pages."""
    last = files // of_set
    ids = []
    for number in range(last):
        one = manifest(number, of_set)
        ids.append(save_set(store, one).split("/")[1])
        save_receipt(store, one, AT)
    append(store, PREFIX, Event("list", tuple(ids), at=AT), after=0)


def make_channel(store: ObjectStore, sets: int) -> None:
    """A channel of sets of five files, each listed on its own."""
    for number in range(sets):
        one = manifest(number, 5)
        digest = save_set(store, one).split("/")[1]
        save_receipt(store, one, AT)
        append(store, PREFIX, Event("list", (digest,), at=AT), after=number)


def make_objects(store: ObjectStore, objects: int) -> None:
    """Half of the objects are those of listed sets, half are nobody's."""
    files = objects // 4
    make_index(store, files, of_set=min(FILES_A_SET, files))
    for number in range(files // FILES_A_SET):
        for one in manifest(number, FILES_A_SET).files:
            for key in wanted_objects(one):
                touch(store, key)
    for number in range(objects // 2):
        touch(store, f"files/{hashlib.sha256(b'%d' % number).hexdigest()}/lost.whl")


def touch(store: ObjectStore, key: str) -> None:
    """An empty object, as cheaply as can be."""
    if isinstance(store, RemoteStore):
        obstore.put(store.backend, key, b"")
        return
    assert isinstance(store, LocalStore)
    path = store.root / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def pages(store: ObjectStore) -> None:
    """Everything: sets read, all pages rendered and written."""
    publish.write_view(store, PREFIX)


def one_more(store: ObjectStore) -> None:
    """One more set of one file on a channel whose pages are right."""
    publish.list_set(store, PREFIX, _another(store), at=AT)


def _another(store: ObjectStore) -> SetManifest:
    new = entry(7, 9, 99_999)
    one = _set([new])
    save_set(store, one)
    for key in wanted_objects(new):
        store.put_bytes(key, b"as a file")
    save_receipt(store, one, AT)
    return one


def clean_up(store: ObjectStore) -> None:
    """All that nobody needs goes."""
    table = load_table("channels", Channels)
    retention = msgspec.structs.replace(table.retention, grace_days=0)
    collect(store, msgspec.structs.replace(table, retention=retention), at=AT)


def with_pages(make: Callable[[ObjectStore, int], None]) -> Callable[[ObjectStore, int], None]:
    """As `make`, and the pages, too."""

    def both(store: ObjectStore, size: int) -> None:
        make(store, size)
        publish.write_view(store, PREFIX)

    return both


# By row: what is measured, what sizes count, the sizes, what makes the store, and what is done there.
ROWS: dict[str, tuple[str, str, tuple[int, ...], Callable[..., None], Callable[..., None]]] = {
    "index": ("all pages of an index in 500 projects", "files", FILES, make_index, pages),
    "index-one": ("one project changed of such an index", "files", FILES, with_pages(make_index), one_more),
    "channel": ("one more set in a channel", "sets", SETS, with_pages(make_channel), one_more),
    "gc": ("half of a store's objects collected", "objects", OBJECTS, make_objects, clean_up),
    "gc-memory": ("the same of a store in memory", "objects", OBJECTS, make_objects, clean_up),
}
# Gone with the process that made them.
IN_MEMORY = {"gc-memory"}


def measured(name: str, scratch: Path) -> Row:
    """A row: for each size a store is made by a process, and used by another where it outlives the first."""
    what, unit, sizes, _, _ = ROWS[name]
    root = scratch / name

    def side(size: int) -> Side:
        words = [sys.executable, __file__, "--row", name, "--size", str(size), root]

        def prepare() -> None:
            fresh(root)
            if name not in IN_MEMORY:
                Side([*words, "--make"]).once()

        return Side(words, prepare, inner=True)

    row = grown(name, what, unit, {size: side(size) for size in sizes}, exponent=1.1)
    fresh(root)
    return row


def main() -> int:
    """Measure and print, or make or use one store in this process."""
    report = Report("scale", __doc__, runs=1)
    report.parser.add_argument("store", type=Path, nargs="?", help="the store of --size")
    report.parser.add_argument("--row", choices=ROWS, action="append", help="measure these rows only")
    report.parser.add_argument("--size", type=int, help="one size only, in this process")
    report.parser.add_argument("--make", action="store_true", help="make the store of that size, no more")
    report.parser.add_argument("--work-dir", type=Path)
    options = report.parse()
    if options.size is not None:
        (name,) = options.row
        *_, make, use = ROWS[name]
        store: ObjectStore
        if name in IN_MEMORY:
            make(store := open_store("memory://scale"), options.size)
        else:
            store = LocalStore(options.store, sync=False)
        with timed() as took:
            make(store, options.size) if options.make else use(store)
        print(json.dumps(took))
        return 0
    with tempfile.TemporaryDirectory(dir=options.work_dir) as scratch:
        for name in options.row or ROWS:
            report.add(measured(name, Path(scratch)))
    return report.finish()


if __name__ == "__main__":
    ended(main)
