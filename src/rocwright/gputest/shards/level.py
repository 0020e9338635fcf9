"""The shards that a level of tests comes to in a run, on the host and on GPUs, by recorded times.

Pure. A shard is named by a word of an id: `2of3` of a level's files, `inductor-1of2` of a configuration; the
empty one is the whole.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rocwright.errors import InvalidInput
from rocwright.gputest.shards.place import TimingPlace, target_name
from rocwright.model.platforms import Platform
from rocwright.model.suites import LevelRow, SuiteTable

# How it is told that of a suite there is nothing to run, which is neither a pass nor a failure.
NONE_TO_RUN = "none to run"
# Of a run that builds the miniature family.
NONE_OF_MINIATURE = f"{NONE_TO_RUN}: the miniature family has no test files of PyTorch's own"
_SHARD = re.compile(r"(?:(?P<config>[A-Za-z0-9][\w.-]*)-)?(?P<number>[1-9][0-9]*)of(?P<of>[1-9][0-9]*)")


class ShardName(msgspec.Struct, frozen=True):
    """Which part of a level: of how many, of its own files or of a configuration of run_test.py."""

    config: str = ""
    number: int = 1
    of: int = 1

    def __str__(self) -> str:
        if not self.config and self.of == 1:
            return ""
        return f"{self.config}{'-' if self.config else ''}{self.number}of{self.of}"


def parse_shard(text: str) -> ShardName:
    """The shard of a word; raises `InvalidInput` for another word."""
    if not text:
        return ShardName()
    match = _SHARD.fullmatch(text)
    if match is None or int(match["number"]) > int(match["of"]):
        raise InvalidInput(
            f"{text!r} is not a shard", next_step="write it as plans do: 1of3, or default-1of6"
        )
    return ShardName(match["config"] or "", int(match["number"]), int(match["of"]))


class Recorded(msgspec.Struct, frozen=True):
    """What earlier runs took: seconds by file, for each suite at each place.

    `runs` are those that it is taken from, `said` what is odd about them.
    """

    runs: tuple[str, ...] = ()
    seconds: Mapping[tuple[str, TimingPlace], Mapping[str, float]] = msgspec.field(default_factory=dict)
    said: tuple[str, ...] = ()

    def of(
        self,
        suite: str,
        target: str,
        platform: Platform,
        config: str = "default",
        files: Sequence[str] | None = None,
    ) -> float | None:
        """Seconds of a suite, of these files alone where they are given; None where nothing is known.

        Of several lines of torch the newest counts.
        """
        places = [
            place
            for name, place in self.seconds
            if name == suite
            and (place.target, place.platform, place.config) == (target_name(target), platform, config)
        ]
        if not places:
            return None
        newest = max(places, key=lambda place: tuple(map(int, place.torch.split("."))))
        times = self.seconds[suite, newest]
        wanted = times if files is None else {file.partition("::")[0] for file in files}
        known = [seconds for file, seconds in times.items() if file in wanted]
        return sum(known) if known else None


NOTHING = Recorded()


def on_host(level: LevelRow, table: SuiteTable, recorded: Recorded, platform: Platform) -> tuple[str, ...]:
    """The shards of the host's files."""
    return _shards("", _count(recorded.of("units", "", platform, files=level.host), 1, table))


def on_gpu(
    level: LevelRow, table: SuiteTable, recorded: Recorded, platform: Platform, targets: Iterable[str]
) -> tuple[str, ...]:
    """The shards of a family's GPUs; the smoke tests run in the first.

    A machine has one of the `targets`: the slowest of those that are known counts.
    """
    targets = tuple(targets)

    def longest(suite: str, config: str, files: Sequence[str] | None) -> float | None:
        found = (recorded.of(suite, target, platform, config, files) for target in targets)
        return max((seconds for seconds in found if seconds is not None), default=None)

    own = _shards("", _count(longest("units", "default", level.files), 1, table))
    return own + tuple(
        shard
        for config in level.configs
        for shard in _shards(
            config, _count(longest("full", config, None), table.config_row(config).shards, table)
        )
    )


def _count(seconds: float | None, usual: int, table: SuiteTable) -> int:
    if seconds is None:
        return usual
    return max(1, min(table.shards.most, math.ceil(seconds / (table.shards.minutes * 60))))


def _shards(config: str, count: int) -> tuple[str, ...]:
    return tuple(str(ShardName(config, number, count)) for number in range(1, count + 1))
