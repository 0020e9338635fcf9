"""What the plugin is given: the entries that hold, as a JSON file, and the variables that lead to it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from rocwright.model.skips import SkipEntry
from rocwright.system.files import atomic_write

PLUGIN = "rocwright_skips"
VARIABLE = "ROCWRIGHT_SKIPS"


def inside_directory() -> Path:
    """The directory of the modules that run beside torch; it goes first on the tests' PYTHONPATH."""
    return Path(__file__).resolve().parent.parent / "inside"


def write_entries(entries: Iterable[SkipEntry], path: Path, root: Path | None = None) -> None:
    """Write the entries that hold for `rocwright_skips`, which reads the file that `ROCWRIGHT_SKIPS` names.

    `root` is the directory of the tests, which files in node ids are relative to; without it that is where
    pytest is started.
    """
    chosen = [
        {
            "id": entry.id,
            "kind": entry.kind,
            "tests": list(entry.tests),
            "reason": entry.reason,
            "issue": entry.issue,
        }
        for entry in entries
    ]
    document = {"root": str(root.resolve()) if root else "", "entries": chosen}
    with atomic_write(path) as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
