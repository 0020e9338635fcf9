"""The fat library, tree or wheel that was split: finds the original of each file."""

from __future__ import annotations

import posixpath
from pathlib import Path

from rocwright.binary.view import Mapped
from rocwright.check.kpack_report import Log
from rocwright.check.kpack_sources import Source, directory_trees, from_file


class Original:
    """Originals by where they are installed."""

    def __init__(self, path: Path, log: Log) -> None:
        self.single = not path.is_dir()
        if self.single:
            self.sources = [from_file(path, path.name, path.name)]
        else:
            self.sources = [source for tree in directory_trees([path], log) for source in tree.sources]
        self.by_path = {source.path: source for source in self.sources}

    def of(self, source: Source) -> Mapped | None:
        """The original of a split file: the only one, that at the same place, or the only one of its name."""
        found = self.sources[0] if self.single else self.by_path.get(source.path)
        if found is None:
            name = posixpath.basename(source.path)
            named = [item for item in self.sources if posixpath.basename(item.path) == name and not item.link]
            found = named[0] if len(named) == 1 else None
        return None if found is None or found.link is not None else found.open()
