"""Shards of a list of test files: by recorded durations, or by number where there are none, and said so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rocwright.gputest.shards.durations import Durations, Timed, TimingPlace
from rocwright.gputest.shards.pack import FileWeight, Shard, beginnings, most_shards, pack


@dataclass(frozen=True)
class Sharded:
    """The shards of a run, and what they were made by; `timed`: their weights are milliseconds."""

    shards: tuple[Shard, ...]
    timed: bool
    said: tuple[str, ...]
    spread: float

    def seconds(self, shard: Shard) -> float | None:
        """What the shard is expected to take; None where no times are known."""
        return shard.weight / 1000 if self.timed else None


def shards_of(
    files: Sequence[str],
    shards: int,
    *,
    place: TimingPlace,
    spread: float,
    durations: Durations | None = None,
    fewer: bool = False,
) -> Sharded:
    """Deal test files (or node ids) out to so many shards, at most `spread` apart where they can be.

    Runs that are given the same files and durations agree on the shards without a word between them.
    `fewer` makes as many shards as there is work for, rather than raise `UsageError`.
    """
    names = _outermost(files)
    timed, said = _lookup(durations, place)
    weighed, known, more = _weighed(
        names,
        timed.seconds() if timed is not None else {},
        timed.collect_s() if timed is not None else {},
    )
    said += more
    most = most_shards(weighed)
    if fewer and 0 < most < shards:
        said.append(f"{shards} shards asked for, {most} made: there is nothing for more to run")
        shards = most
    start = round(timed.start_s() * 1000) if timed is not None and known else 0
    packed = pack(weighed, shards, spread=spread, start=start)
    if packed.longest:
        collecting = any(one.file == packed.longest and one.tests for one in weighed)
        what = f"{packed.longest} {'is collected in' if collecting else 'alone takes'}"
        what += f" {packed.longest_weight / 1000:g} s"
        why = what if known else "files of which no test is known stay whole"
        said.append(f"the shards are {packed.spread:.0%} apart: {why}")
    return Sharded(packed.shards, known, tuple(said), packed.spread)


def _outermost(files: Sequence[str]) -> tuple[str, ...]:
    """Each name once, without those that stand for a part of another."""
    names = dict.fromkeys(files)
    return tuple(name for name in names if not any(above in names for above in [*beginnings(name)][:-1]))


def _lookup(durations: Durations | None, place: TimingPlace) -> tuple[Timed | None, list[str]]:
    """The times that come nearest, of the same GPU and configuration or none at all."""
    if durations is None:
        return None, ["durations: none given, by the number of files"]
    exact = durations.at(place)
    if exact is not None:
        return exact, [f"durations: {place}"]
    near = [
        one
        for one in durations.timed
        if one.place.target == place.target and one.place.config == place.config
    ]
    if not near:
        held = sorted({one.place.target for one in durations.timed})
        others = f" (the file has {', '.join(held)})" if held else ""
        return None, [f"durations: none for {place}, by the number of files{others}"]
    wanted = _numbers(place.torch)

    def distance(one: Timed) -> tuple[bool, int, int, tuple[int, int]]:
        major, minor = _numbers(one.place.torch)
        far = (abs(major - wanted[0]), abs(minor - wanted[1]))
        return one.place.platform != place.platform, *far, (-major, -minor)

    best = min(near, key=distance)
    return best, [f"durations: {best.place} (none for {place})"]


def _numbers(torch: str) -> tuple[int, int]:
    major, _, minor = torch.partition(".")
    return int(major), int(minor)


def _weighed(
    names: Sequence[str], known: Mapping[str, float], collect_s: Mapping[str, float]
) -> tuple[list[FileWeight], bool, list[str]]:
    """The names with what they cost, whether times are known of any, and what is to be said."""
    by_name: dict[str, list[tuple[str, int]]] = {name: [] for name in names}
    for test, seconds in known.items():
        name = next((above for above in beginnings(test) if above in by_name), None)
        if name is not None:
            by_name[name].append((test, round(seconds * 1000)))
    told = {
        name: FileWeight(
            name, tests=tuple(tests), collect=round(collect_s.get(name.partition("::")[0], 0) * 1000)
        )
        for name, tests in by_name.items()
        if tests
    }
    if not told:
        said = ["the durations know none of these files: by the number of files"] if known else []
        return [FileWeight(name) for name in names], False, said
    usual = round(median(one.cost + one.collect for one in told.values()))
    new = [name for name in names if name not in told]
    said = [f"no durations for {name}: taken for {usual / 1000:g} s, as the median file" for name in new]
    return [told.get(name) or FileWeight(name, usual) for name in names], True, said
