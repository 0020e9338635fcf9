"""The runs that durations are taken from: records and JUnit files, in directories or by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rocwright.errors import InvalidInput, UsageError
from rocwright.gputest.record import RECORD_NAME, read_record
from rocwright.gputest.report.junit import read_junit
from rocwright.gputest.shards.durations import (
    Durations,
    TimingPlace,
    joined,
    load_durations,
    merge,
    minor_of,
    place_of,
    target_name,
)
from rocwright.model.platforms import Platform
from rocwright.model.testing import CaseResult
from rocwright.system.files import walk_files


@dataclass(frozen=True)
class PlaceFacts:
    """What JUnit files do not say of the place that they are from; empty where nobody said it."""

    target: str = ""
    torch: str = ""
    config: str = "default"
    platform: Platform = "linux"

    def place(self, path: Path) -> TimingPlace:
        """The place of a report; raises `UsageError` where it is not told."""
        if not self.target or not self.torch:
            raise UsageError(
                f"{path} does not say on which GPU and with which torch its tests ran",
                where=path,
                next_step="say it: --target gfx942 --torch 2.9 (cpu for none), or give results.json",
            )
        return TimingPlace(target_name(self.target), minor_of(self.torch), self.platform, self.config)


@dataclass(frozen=True)
class Taken:
    """Durations with those of more runs; `unread` says of each file below a directory why it is not in."""

    durations: Durations
    runs: int
    unread: tuple[str, ...]


def take(held: Durations, paths: Sequence[Path], told: PlaceFacts, *, kept: int) -> Taken:
    """Add the runs that lie at or below the paths, in order; durations files are joined.

    JUnit files beside or below a results.json are those of its run. Raises `UsageError` for a path that is
    not there, `InvalidInput` for a file that is named and cannot be read, and where there is no run at all.
    """
    runs, unread = 0, []
    for path in paths:
        if not path.exists():
            raise UsageError(
                f"{path} does not exist", where=path, next_step="name reports, or a directory of them"
            )
        for file in _reports(path):
            try:
                held = _with(held, file, told, kept)
                runs += 1
            except InvalidInput as error:
                if file == path:
                    raise
                unread.append(error.what)
    if not runs:
        raise InvalidInput(
            f"no run could be read from {', '.join(map(str, paths))}"
            + "".join(f"\n  {line}" for line in unread),
            next_step="name the directory that `--reports-dir` named, with its results.json",
        )
    return Taken(held, runs, tuple(unread))


def _reports(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = list(walk_files(path))
    records = [file for file in files if file.name == RECORD_NAME]
    holders = {record.parent for record in records}
    reports = [
        file for file in files if file.suffix == ".xml" and holders.isdisjoint({file.parent, *file.parents})
    ]
    return sorted([*records, *reports])


def _with(held: Durations, file: Path, told: PlaceFacts, kept: int) -> Durations:
    if file.suffix == ".xml":
        return merge(held, told.place(file), read_junit(file), kept=kept)
    if _is_durations(file):
        return joined((held, load_durations([file])), kept=kept)
    record = read_record(file)
    ran = record.ran
    place = place_of(ran) if ran.torch else told.place(file)
    results = _single(record.results)
    return merge(held, place, results, kept=kept, collect_s=record.collect_s, start_s=record.start_s)


def _is_durations(file: Path) -> bool:
    """Whether the file is no record; what is neither is refused as a record."""
    try:
        fields = msgspec.json.decode(file.read_bytes(), type=dict[str, msgspec.Raw])
    except (OSError, msgspec.DecodeError):
        return False
    return "ran" not in fields


def _single(results: Sequence[CaseResult]) -> tuple[CaseResult, ...]:
    return tuple({result.id: result for result in results}.values())
