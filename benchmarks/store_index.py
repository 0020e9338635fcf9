"""What the index of 20,000 files in 60 projects costs: first, again, and when one project changed.

``python benchmarks/store_index.py`` prints one JSON object. Each side runs in a process of its own, several
times; figures are medians of CPU seconds without the start of Python and its imports. Cold is everything: the
sets read from the store and their digests verified, every page rendered, compared and written. One project
changed is all that `list_set` does on a channel of fifty sets for one more, of one file: the lease, the log,
every page compared, what changed rendered, written and read back. Its goal is for the index, that is for all
of this but reading the sets (manifests and receipts, their digests verified), which is told beside it, as is
the sum. The floor reads the sets as plain JSON and writes as many bytes as the pages have.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sdk_measure import Command, middle, run, shown

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
    began = time.process_time()
    sets = [read_listed(store, one) for one in ids]
    written = write_pages(store, PREFIX, view_pages(listed_files(sets), PREFIX))
    took = time.process_time() - began
    assert len(written) == pages
    return {"cpu_s": took, "requests": dict(store.asked)}


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
    with _timed_reading() as reading:
        store.asked.clear()
        began = time.process_time()
        publish.list_set(store, PREFIX, manifest, at=AT)
        took, asked = time.process_time() - began, dict(store.asked)
    assert {key for key in _pages(store) if store.digest(key) != before[key]} == {
        f"{PREFIX}{name}/index.html" for name in ("rocm-project-7", "_json/rocm-project-7", "_flat")
    }
    return {"cpu_s": took - sum(reading), "sets_cpu_s": sum(reading), "requests": asked}


@contextmanager
def _timed_reading() -> Iterator[list[float]]:
    """The CPU seconds of each set that the publisher reads."""
    took: list[float] = []
    read = publish.read_listed

    def timed(store: ObjectStore, one: str) -> ListedSet:
        began = time.process_time()
        found = read(store, one)
        took.append(time.process_time() - began)
        return found

    publish.read_listed = timed
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
    began = time.process_time()
    for key in keys:
        json.loads(store.read(key))
    for key, data in pages.items():
        store.put_bytes(key.replace(PREFIX, "v2/floor/"), data, overwrite=True)
    return {"cpu_s": time.process_time() - began, "page_bytes": sum(map(len, pages.values()))}


SIDES = {"cold": cold, "again": again, "changed": changed, "floor": floor}


def measure(runs: int, work: Path | None = None) -> dict[str, object]:
    """Every side in turn, each time on a store of which the pages are right for it."""
    found: dict[str, list[dict[str, object]]] = {side: [] for side in SIDES}
    commands: dict[str, Command] = {}
    with tempfile.TemporaryDirectory(dir=work) as scratch:
        for number in range(runs):
            root = Path(scratch) / str(number)
            make(root)
            for side in SIDES:
                commands[side] = [sys.executable, __file__, "--side", side, root]
                found[side].append(run(commands[side], sample=False).said)
    cpu = {side: middle(float(str(one["cpu_s"])) for one in said) for side, said in found.items()}
    sets = middle(float(str(one["sets_cpu_s"])) for one in found["changed"])
    return {
        "goal": f"{FILES:,} files in {PROJECTS} projects cold at most {MOST_COLD_S} s of CPU, one changed "
        f"project at most {MOST_CHANGED_S} s, no request for a file",
        "measured": {
            "cold_cpu_s": cpu["cold"],
            "one_project_changed_cpu_s": cpu["changed"],
            "sets_read_for_that_cpu_s": sets,
            "one_project_changed_with_sets_read_cpu_s": round(cpu["changed"] + sets, 4),
            "all_again_from_the_store_cpu_s": cpu["again"],
            "requests": {side: found[side][-1]["requests"] for side in ("cold", "changed", "again")},
            "page_bytes": found["floor"][-1]["page_bytes"],
        },
        "floor": {"bytes_in_and_out_cpu_s": cpu["floor"]},
        "met": cpu["cold"] <= MOST_COLD_S and cpu["changed"] <= MOST_CHANGED_S,
        "runs": runs,
        "commands": {side: shown(command) for side, command in commands.items()},
    }


def main() -> int:
    """Measure and print, or run one side in this process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("store", type=Path, nargs="?", help="the store of --side")
    parser.add_argument("--side", choices=SIDES, help="run one side only, in this process")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--work-dir", type=Path)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(SIDES[options.side](options.store)))
        return 0
    found = measure(options.runs, options.work_dir)
    print(json.dumps(found, indent=2))
    return 0 if found["met"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
