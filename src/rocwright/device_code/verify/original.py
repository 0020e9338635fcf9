"""What was split: finds the original of each file, and compares whole trees with it."""

from __future__ import annotations

import posixpath
from contextlib import ExitStack
from pathlib import Path

from rocwright.binary.view import Mapped
from rocwright.device_code.source import Source, on_disk
from rocwright.device_code.verify.compare import same_bytes
from rocwright.device_code.verify.report import FindingLog
from rocwright.device_code.verify.sources import Tree, directory_trees
from rocwright.device_code.verify.wheels import ENDING, wheel_sources
from rocwright.errors import InvalidInput
from rocwright.wheel.read import open_wheel


class Original:
    """A fat library, tree or wheel; raises `InvalidInput` when it cannot be read."""

    def __init__(self, path: Path, stack: ExitStack, log: FindingLog) -> None:
        self.path = path
        self.single = not path.is_dir() and not path.name.endswith(ENDING)
        if self.single:
            self.sources = [on_disk(path, path.name, path.name)]
        elif path.is_dir():
            self.sources = [source for tree in directory_trees([path], log) for source in tree.sources]
        else:
            self.sources = list(wheel_sources(open_wheel(path), stack))
        self.by_path = {source.installed: source for source in self.sources}

    def source_of(self, source: Source) -> Source | None:
        """The original of a file: the only one, that at the same place, or the only one of its name."""
        if self.single:
            return self.sources[0]
        found = self.by_path.get(source.installed)
        if found is None and source.installed.startswith("/"):
            name = posixpath.basename(source.installed)
            named = [
                item for item in self.sources if posixpath.basename(item.installed) == name and not item.link
            ]
            found = named[0] if len(named) == 1 else None
        return found

    def of(self, source: Source) -> Mapped | None:
        """The original of a split file, opened; None without one. Raises `InvalidInput`."""
        found = self.source_of(source)
        return None if found is None or found.link is not None else found.open()


def compare_trees(original: Original, tree: Tree, split: set[str], log: FindingLog) -> None:
    """Report files that were lost, invented or changed; `split` are paths of split libraries."""
    there = {source.installed: source for source in tree.sources}
    for path, before in original.by_path.items():
        after = there.get(path)
        if after is None:
            log.add("kpack-lost", before.name, "it is in no part")
            continue
        _compare(before, after, path in split, log)
    for path, after in there.items():
        if path not in original.by_path and not after.is_archive:
            log.add("kpack-invented", after.name, "the original has no such file")


def _compare(before: Source, after: Source, split: bool, log: FindingLog) -> None:
    if before.link != after.link:
        log.add("kpack-differs", after.name, f"the original leads to {before.link}, this to {after.link}")
        return
    if before.link is not None:
        return
    if before.mode is not None and after.mode is not None and before.mode != after.mode:
        log.add("kpack-mode", after.name, f"its mode is {after.mode:o}, the original's {before.mode:o}")
    if split:
        return
    try:
        same = _same(before, after)
    except InvalidInput as error:
        log.add("kpack-readable", after.name, error.what)
        return
    if not same:
        log.add("kpack-differs", after.name, "it is not the original's file")


def _same(before: Source, after: Source) -> bool:
    if before.size != after.size:
        return False
    if before.crc is not None and after.crc is not None:
        return before.crc == after.crc
    return same_bytes(before.open(), after.open())
