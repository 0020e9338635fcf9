"""A pytest plugin that applies skip entries by exact node ids: `-p rocwright_skips`.

Needs nothing but pytest (7.1 or newer) and the module beside it. `ROCWRIGHT_SKIPS` names the JSON file with
the entries that hold; without the variable nothing is changed. The files of node ids are relative to
`ROCWRIGHT_TESTS_ROOT`, else to the `root` that the JSON names, else to where pytest was started.
With `ROCWRIGHT_SKIPS_ONLY=1` the tests of the entries, and no others, run as if there were no entries.

A test of an entry carries the properties `rocwright_entry` (its id) and `rocwright_kind`, which stand in its
report. `skip` and `hang` are skipped before any fixture is set up, `xfail` is strict, `flaky` is only marked:
running again is up to whoever runs the tests.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from rocwright_patterns import Matcher

VARIABLE = "ROCWRIGHT_SKIPS"
ROOT = "ROCWRIGHT_TESTS_ROOT"
ONLY = "ROCWRIGHT_SKIPS_ONLY"
# Of several entries for one test the first in this order counts.
_STRONGEST = ("hang", "skip", "xfail", "flaky")


def pytest_configure(config: pytest.Config) -> None:
    """Read the entries once; a file that cannot be read stops the run, instead of running without them."""
    path = os.environ.get(VARIABLE)
    if path:
        config.pluginmanager.register(
            _Entries(_read(path), config.invocation_params.dir), "rocwright-entries"
        )


def _read(path: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        entries = document["entries"]
        for entry in entries:
            if entry["kind"] not in _STRONGEST or not isinstance(entry["tests"], list):
                raise ValueError(f"entry {entry['id']}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise pytest.UsageError(f"{VARIABLE} names no file of skip entries: {path}: {error}") from error
    return document


class _Entries:
    """The entries of this run, and how often each kind was met."""

    def __init__(self, document: dict[str, Any], directory: Path) -> None:
        self.root = os.path.realpath(os.environ.get(ROOT) or document.get("root") or directory)
        self.only = os.environ.get(ONLY) == "1"
        tests = [(entry, text) for entry in document["entries"] for text in entry["tests"]]
        self.entries = [entry for entry, _ in tests]
        self.matcher = Matcher([text for _, text in tests])
        self.met: dict[str, int] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        files: dict[object, str] = {}
        others: list[pytest.Item] = []
        for item in items:
            path = item.path
            if path not in files:
                files[path] = relative(path, self.root)
            _, _, rest = item.nodeid.partition("::")
            hits = [self.entries[number] for number in self.matcher.found(f"{files[path]}::{rest}")]
            if self.only:
                others += [] if hits else [item]
            elif hits:
                self.mark(item, min(hits, key=lambda entry: _STRONGEST.index(entry["kind"])))
        if others:
            config.hook.pytest_deselected(items=others)
            left = set(others)
            items[:] = [item for item in items if item not in left]

    def mark(self, item: pytest.Item, entry: dict[str, Any]) -> None:
        """Apply one entry to one test."""
        kind = entry["kind"]
        reason = ": ".join(filter(None, (entry["id"], entry["reason"], entry.get("issue"))))
        if kind in ("skip", "hang"):
            item.add_marker(pytest.mark.skip(reason=reason), append=False)
        elif kind == "xfail":
            # Before the test's own marks: of several the first that fits counts, and the test's may be lax.
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True), append=False)
        item.user_properties.extend((("rocwright_entry", entry["id"]), ("rocwright_kind", kind)))
        self.met[kind] = self.met.get(kind, 0) + 1

    def pytest_report_collectionfinish(self) -> str:
        if self.only:
            return "skip entries: running only the tests they name, as if there were no entries"
        said = ", ".join(f"{self.met[kind]} {kind}" for kind in _STRONGEST if kind in self.met)
        return f"skip entries: {said or 'none of these tests'}"


def relative(path: Path, root: str) -> str:
    """The file as entries name it; a file outside the directory of the tests has no such name."""
    real = os.path.realpath(path)
    try:
        return os.path.relpath(real, root).replace(os.sep, "/")
    except ValueError:
        # On another drive than the tests.
        return real
