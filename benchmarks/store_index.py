"""What the index of 20,000 files in 60 projects costs: first, again, and when one project changed.

Each side runs in a process of its own, in turn; CPU seconds are without the start of Python and its imports.
Cold is everything: the
sets read from the store and their digests verified, every page rendered, compared and written. One project
changed is all that `list_set` does on a channel of fifty sets for one more, of one file: the lease, the log,
every page compared, what changed rendered, written and read back. Its goal is for the index, that is for all
of this but reading the sets (manifests and receipts, their digests verified), which is told beside it, as is
the sum. The floor reads the sets as plain JSON and writes as many bytes as the pages have.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measured import Side, fresh, turns
from results import Figure, Report, Row, compared, ended, seconds

from rocwright.model.sets import FileEntry, SetManifest, new_set
from rocwright.store import publish
from rocwright.store.channel_log import Event, append, read_log
from rocwright.store.index.listed import ListedSet, listed_files
from rocwright.store.index.pages import view_pages, write_pages
from rocwright.store.layout import LOG
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import ObjectStore, Stored
from rocwright.store.pool import wanted_objects
from rocwright.store.sets.records import read_listed, recorded_sets, save_receipt, save_set

MOST_COLD_S = 0.5
MOST_CHANGED_S = 0.1
NIGHTS, PROJECTS, FILES = 50, 60, 20_000
PREFIX = "v2/family/"
AT = "2026-11-22T08:00:00Z"


class CountedStore(LocalStore):
    """A local store that counts what it is asked; over a network each is a request."""

    def __init__(self, root: Path) -> None:
        # What the disk costs is measured on its own: store_durable.py.
        super().__init__(root, sync=False)
        self.asked: Counter[str] = Counter()

    def read(self, key: str) -> bytes:
        """Counted."""
        self.asked["read"] += 1
        return super().read(key)

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        """Counted."""
        self.asked["put"] += 1
        super().put_bytes(key, data, overwrite=overwrite)

    def list(self, prefix: str) -> tuple[Stored, ...]:
        """Counted."""
        self.asked["list"] += 1
        return super().list(prefix)


def entry(project: int, python: int, night: int) -> FileEntry:
    """A wheel of a project for one Python in one night."""
    version = f"2.{project % 5}.{night}+rocm7.{13 + night // 10}.0a202604{10 + night % 20}"
    name = f"rocm_project_{project}-{version}-cp{310 + python}-cp{310 + python}-linux_x86_64.whl"
    digest = hashlib.sha256(name.encode()).hexdigest()
    needs = (f"rocm-project-{project // 2}",) if project else ()
    return FileEntry(name, digest, 123_456_789, f"rocm-project-{project}", version, ">=3.10", digest, needs)


def a_set(night: int) -> SetManifest:
    """All projects of one night: 400 files."""
    each = FILES // NIGHTS // PROJECTS
    more = FILES // NIGHTS - each * PROJECTS
    files = [
        entry(project, python, night)
        for project in range(PROJECTS)
        for python in range(each + (project < more))
    ]
    return _set(files)


def _set(files: list[FileEntry]) -> SetManifest:
    return new_set(family="family", targets=["gfx90a"], platform="linux", files=files, sources={})


def make(root: Path) -> None:
    """A store with the sets of fifty nights, and none of the pages."""
    store = LocalStore(root, sync=False)
    for night in range(NIGHTS):
        manifest = a_set(night)
        save_set(store, manifest)
        save_receipt(store, manifest, AT)


def cold(root: Path) -> dict[str, object]:
    """From nothing to all pages."""
    return _whole(root, pages=2 * PROJECTS + 3)


def again(root: Path) -> dict[str, object]:
    """The same once more, when every page is right: what a repair costs that has nothing to do."""
    return _whole(root, pages=0)


def _whole(root: Path, *, pages: int) -> dict[str, object]:
    """Read all sets, render the view, and write what differs: so many pages."""
    store = CountedStore(root)
    ids = recorded_sets(store)
    store.asked.clear()
    with timed() as took:
        sets = [read_listed(store, one) for one in ids]
        written = write_pages(store, PREFIX, view_pages(listed_files(sets), PREFIX))
    assert len(written) == pages
    return {**took, "requests": sum(store.asked.values())}


@contextmanager
def timed() -> Iterator[dict[str, float]]:
    """The seconds of this process while it is open; they are there afterwards."""
    took: dict[str, float] = {}
    began, cpu = time.monotonic(), time.process_time()
    yield took
    took |= {"wall_s": time.monotonic() - began, "cpu_s": time.process_time() - cpu}


def changed(root: Path) -> dict[str, object]:
    """One set more, of one project, on a channel whose pages are all right."""
    store = CountedStore(root)
    append(store, PREFIX, Event("list", recorded_sets(store), at=AT), after=0)
    publish.write_view(store, PREFIX)
    assert read_log(store, PREFIX).finished
    before = {key: store.digest(key) for key in _pages(store)}
    new = entry(7, 9, 49)
    manifest = _set([new])
    save_set(store, manifest)
    for key in wanted_objects(new):
        store.put_bytes(key, b"as a file")
    save_receipt(store, manifest, AT)
    store.asked.clear()
    with _timed_reading() as reading, timed() as took:
        publish.list_set(store, PREFIX, manifest, at=AT)
    asked = sum(store.asked.values())
    assert {key for key in _pages(store) if store.digest(key) != before[key]} == {
        f"{PREFIX}{name}/index.html" for name in ("rocm-project-7", "_json/rocm-project-7", "_flat")
    }
    sets = sum(reading)
    return {**took, "cpu_s": took["cpu_s"] - sets, "sets_cpu_s": sets, "requests": asked}


@contextmanager
def _timed_reading() -> Iterator[list[float]]:
    """The CPU seconds of each set that the publisher reads."""
    took: list[float] = []
    read = publish.read_listed

    def timed_read(store: ObjectStore, one: str, **known: Any) -> ListedSet:
        began = time.process_time()
        found = read(store, one, **known)
        took.append(time.process_time() - began)
        return found

    publish.read_listed = timed_read
    try:
        yield took
    finally:
        publish.read_listed = read


def _pages(store: LocalStore) -> list[str]:
    return [one.key for one in store.list(PREFIX) if not one.key.startswith(f"{PREFIX}{LOG}")]


def floor(root: Path) -> dict[str, object]:
    """The bytes in and the bytes out."""
    store = LocalStore(root, sync=False)
    keys = [f"sets/{one}/manifest.json" for one in recorded_sets(store)]
    pages = {key: store.read(key) for key in _pages(store)}
    with timed() as took:
        for key in keys:
            json.loads(store.read(key))
        for key, data in pages.items():
            store.put_bytes(key.replace(PREFIX, "v2/floor/"), data, overwrite=True)
    return {**took, "page_bytes": sum(map(len, pages.values()))}


SIDES = {"cold": cold, "again": again, "changed": changed, "floor": floor}


def measure(runs: int, work: Path | None = None) -> list[Row]:
    """Every side in turn, each time on a store of which the pages are right for it."""
    with tempfile.TemporaryDirectory(dir=work) as scratch:
        root = Path(scratch) / "store"

        def anew() -> None:
            make(fresh(root))

        sides = {
            side: Side(
                [sys.executable, __file__, "--side", side, root], anew if side == "cold" else None, True
            )
            for side in SIDES
        }
        measured = turns(sides, runs)
    load, against = measured.load, "reading the sets as JSON and writing as many bytes"

    def one(side: str, what: str, *more: Figure) -> Row:
        figures = [*more, Figure("requests", "", measured.told(side, "requests"))]
        return compared(side, what, measured, against=against, sides=(side, "floor"), more=figures)

    of = f"an index of {FILES:,} files in {PROJECTS} projects"
    sets = seconds("CPU of reading the sets besides", measured.told("changed", "sets_cpu_s"), load)
    return [
        one("cold", f"all of {of}", seconds("CPU", measured.cpu("cold"), load, MOST_COLD_S)),
        one("again", f"{of} again, with every page right", seconds("CPU", measured.cpu("again"), load)),
        one(
            "changed",
            f"one project changed of {of}",
            seconds("CPU", measured.cpu("changed"), load, MOST_CHANGED_S),
            sets,
        ),
    ]


def main() -> int:
    """Measure and print, or run one side in this process."""
    report = Report("store", __doc__)
    report.parser.add_argument("store", type=Path, nargs="?", help="the store of --side")
    report.parser.add_argument("--side", choices=SIDES, help="run one side only, in this process")
    report.parser.add_argument("--work-dir", type=Path)
    options = report.parse()
    if options.side:
        print(json.dumps(SIDES[options.side](options.store)))
        return 0
    report.add(*measure(options.runs, options.work_dir))
    return report.finish()


if __name__ == "__main__":
    ended(main)
