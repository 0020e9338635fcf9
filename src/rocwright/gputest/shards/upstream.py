"""Durations as PyTorch's own run_test.py reads them, so that it balances its shards by this GPU's times.

It looks for `.additional_ci_files/test-times.json` and `test-class-times.json` in the checkout, by the names
of a build environment and a configuration (https://github.com/pytorch/pytorch/issues/176445: without them
the times of another GPU are taken).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from rocwright.errors import UsageError
from rocwright.gputest.full import build_environment
from rocwright.gputest.shards.durations import Durations, Timed
from rocwright.gputest.shards.pack import class_of
from rocwright.model.suites import SuiteTable
from rocwright.system.files import write_text

FOLDER = ".additional_ci_files"
FILES_NAME, CLASSES_NAME = "test-times.json", "test-class-times.json"
_ANY = "default"

FileTimes = dict[str, dict[str, dict[str, float]]]
ClassTimes = dict[str, dict[str, dict[str, dict[str, float]]]]


def upstream_times(
    durations: Durations,
    target: str,
    torch: str,
    table: SuiteTable,
    families: Mapping[str, tuple[str, ...]],
) -> tuple[FileTimes, ClassTimes]:
    """Seconds by build environment, configuration and module, and of its classes.

    Raises `UsageError` where the durations have none of this target and torch.
    """
    timed = [one for one in durations.timed if one.place.target == target and one.place.torch == torch]
    if not timed:
        places = dict.fromkeys(f"{one.place.target} torch {one.place.torch}" for one in durations.timed)
        held = ", ".join(places)
        raise UsageError(
            f"there are no durations for {target} with torch {torch}",
            next_step=f"there are: {held}" if held else "give reports of runs",
        )
    environment = build_environment(target, table, families)
    files: FileTimes = {_ANY: {_ANY: {}}, environment: {}}
    classes: ClassTimes = {_ANY: {_ANY: {}}, environment: {}}
    for one in timed:
        by_file, by_class = _sums(one)
        files[environment][one.place.config] = by_file
        classes[environment][one.place.config] = by_class
    return files, classes


def _sums(timed: Timed) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    by_file: dict[str, float] = {}
    by_class: dict[str, dict[str, float]] = {}
    for test, seconds in timed.seconds().items():
        file = test.partition("::")[0]
        module = file.removesuffix(".py")
        name = class_of(test).removeprefix(file).removeprefix("::")
        by_file[module] = round(by_file.get(module, 0.0) + seconds, 3)
        sums = by_class.setdefault(module, {})
        sums[name] = round(sums.get(name, 0.0) + seconds, 3)
    return by_file, by_class


def write_upstream(times: tuple[FileTimes, ClassTimes], checkout: Path) -> tuple[Path, ...]:
    """Write both files into a checkout; raises `UsageError` for a directory without test/run_test.py."""
    if not (checkout / "test" / "run_test.py").is_file():
        raise UsageError(
            f"{checkout} has no test/run_test.py, so it is not a PyTorch checkout",
            where=checkout,
            next_step="name the root of a checkout",
        )
    written = []
    for name, content in zip((FILES_NAME, CLASSES_NAME), times, strict=True):
        path = checkout / FOLDER / name
        encoded = msgspec.json.encode(content, order="sorted")
        write_text(path, msgspec.json.format(encoded, indent=2).decode() + "\n")
        written.append(path)
    return tuple(written)
