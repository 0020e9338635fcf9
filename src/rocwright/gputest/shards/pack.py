"""Cut test files into pieces, and deal them out to shards: the longest first, to the shard that has least.

Recorded durations say what each costs; where there are none the number of files counts, and a note tells so.
A piece is as large as it may be: files stay whole where the shards come out even, then classes do, and only a
class that is too long itself is cut between tests. What a file costs before its first test, every shard pays
that has a part of it. Weights are whole numbers, so that no order of adding them can change the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from statistics import median

import msgspec

from rocwright.errors import UsageError
from rocwright.gputest.shards.durations import Durations, Timed
from rocwright.gputest.shards.place import TimingPlace

# How long a file may be that stays whole, and a piece of those that do not, in shares of an ideal shard.
_CUTS = (1.0, 0.5, 0.25, 0.125)


class Sharded(msgspec.Struct, frozen=True):
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
        return None, ["durations: none given, so shards go by the number of files"]
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
        return None, [f"durations: none for {place}, so shards go by the number of files{others}"]
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
    """The names with what they cost, whether times are known of any, and what is to be told."""
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
        said = ["the durations have none of these files: shards go by their number"] if known else []
        return [FileWeight(name) for name in names], False, said
    usual = round(median(one.cost + one.collect for one in told.values()))
    new = [name for name in names if name not in told]
    said = [f"no durations for {name}: taken as {usual / 1000:g} s, like the median file" for name in new]
    return [told.get(name) or FileWeight(name, usual) for name in names], True, said


class FileWeight(msgspec.Struct, frozen=True):
    """A test file: what its tests cost by node id, or, where they are not known, what it costs as a whole.

    `collect` is what it costs besides in every shard that has a part of it.
    """

    file: str
    weight: int = 1
    tests: tuple[tuple[str, int], ...] = ()
    collect: int = 0

    @property
    def cost(self) -> int:
        """The weight of all tests, of which none is for nothing."""
        return sum(max(cost, 1) for _, cost in self.tests) or max(self.weight, 1)


class Shard(msgspec.Struct, frozen=True, dict=True):
    """What one shard runs: of `files` all that is in `only` and not in `leave`.

    Both hold node ids, classes (`f.py::Class`) and files; an `only` of None is all of the files. Of the
    shards of a file that is cut, one shard also takes the tests that nobody knew of.
    """

    number: int
    of: int
    files: tuple[str, ...]
    weight: int
    only: tuple[str, ...] | None = None
    leave: tuple[str, ...] = ()

    @cached_property
    def _wanted(self) -> frozenset[str]:
        return frozenset(self.files if self.only is None else self.only)

    @cached_property
    def _left(self) -> frozenset[str]:
        return frozenset(self.leave)

    def takes(self, node_id: str) -> bool:
        """Whether this shard runs the test."""
        above = tuple(beginnings(node_id))
        return not self._wanted.isdisjoint(above) and self._left.isdisjoint(above)


class Packed(msgspec.Struct, frozen=True):
    """The shards, and what keeps them apart: the longest piece that cannot be cut (empty: they are even)."""

    shards: tuple[Shard, ...]
    longest: str = ""
    longest_weight: int = 0

    @property
    def spread(self) -> float:
        """How much less the lightest shard has than the heaviest, as a share of the heaviest."""
        return _spread([shard.weight for shard in self.shards])


class _Piece(msgspec.Struct):
    """Tests of one file that stay together; `whole`: all of them."""

    file: str
    weight: int
    ids: list[str] = msgspec.field(default_factory=list)
    whole: bool = True
    collect: int = 0


class _Filled(msgspec.Struct):
    weight: int = 0
    pieces: list[_Piece] = msgspec.field(default_factory=list)
    files: set[str] = msgspec.field(default_factory=set)

    def with_(self, piece: _Piece) -> int:
        """The weight that it has with one piece more."""
        return self.weight + piece.weight + (0 if piece.file in self.files else piece.collect)

    def add(self, piece: _Piece) -> None:
        """Take a piece."""
        self.weight = self.with_(piece)
        self.pieces.append(piece)
        self.files.add(piece.file)


def beginnings(node_id: str) -> Iterator[str]:
    """The file of a test, its classes, itself: `f.py`, `f.py::C`, `f.py::C::t[a::b]`."""
    name, bracket, parameters = node_id.partition("[")
    parts = name.split("::")
    for count in range(1, len(parts)):
        yield "::".join(parts[:count])
    yield name + bracket + parameters


def class_of(node_id: str) -> str:
    """What a test stands in: its class, or its file."""
    return node_id.partition("[")[0].rpartition("::")[0]


def most_shards(files: Sequence[FileWeight]) -> int:
    """The largest number of shards that leaves none empty."""
    return sum(len(each.tests) or 1 for each in files)


def pack(files: Sequence[FileWeight], shards: int, *, spread: float, start: int = 0) -> Packed:
    """Deal the files out to so many shards, none of them empty, at most `spread` apart where they can be.

    `start` is what every shard costs before its first test, whatever it runs.
    The same files in the same order give the same shards. Raises `UsageError` for more shards than there are
    tests, and for less than one.
    """
    most = most_shards(files)
    if not 1 <= shards <= most:
        known = "tests" if any(each.tests for each in files) else "test files"
        raise UsageError(
            f"{shards} shards for {most} {known}: some would have nothing to run",
            next_step=f"give a number of shards from 1 to {most}" if most else "name test files",
        )
    ideal = sum(each.cost + each.collect for each in files) / shards
    best: tuple[float, list[_Filled]] | None = None
    for whole, piece in _sizes(spread):
        pieces = [part for each in files for part in _cut(each, whole * ideal, piece * ideal)]
        filled = _dealt(pieces, shards, start)
        reached = _spread([one.weight for one in filled])
        if all(one.pieces for one in filled) and (best is None or reached < best[0]):
            best = reached, filled
        if best is not None and (best[0] <= spread or piece == whole == spread):
            break
    assert best is not None
    longest, weight = max((_largest(each) for each in files), key=lambda one: one[1])
    shown = _written(best[1], tuple(each.file for each in files))
    return Packed(shown, longest, weight) if best[0] > spread else Packed(shown)


def _sizes(spread: float) -> Iterator[tuple[float, float]]:
    """How long whole files and pieces may be: as few files as possible are cut, into as few pieces.

    Every shard that has a part of a file imports and collects it. The shard that has most got its last piece
    when it had least, so it leads by that piece at most: those of the wanted spread need no further cut.
    """
    yield math.inf, math.inf
    sizes = (*_CUTS, spread)
    for number, whole in enumerate(sizes):
        for piece in sizes[number:]:
            yield whole, piece
    # Pieces may be small enough and still fewer than the shards.
    yield 0.0, 0.0


def _largest(each: FileWeight) -> tuple[str, int]:
    """What of a file cannot be cut and costs most."""
    if not each.tests:
        return each.file, each.cost
    return max((*each.tests, (each.file, each.collect)), key=lambda test: test[1])


def _spread(weights: Sequence[int]) -> float:
    return (max(weights) - min(weights)) / max(weights)


def _cut(each: FileWeight, whole: float, largest: float) -> list[_Piece]:
    """The pieces of a file: itself, or runs of whole classes, or of the tests of a class."""
    if each.cost + each.collect <= whole or len(each.tests) < 2:
        return [_Piece(each.file, each.cost, collect=each.collect)]
    runs = [_Piece(each.file, 0, [], whole=False, collect=each.collect)]
    for _, members in groupby(each.tests, key=lambda test: class_of(test[0])):
        tests = [(test, max(cost, 1)) for test, cost in members]
        total = sum(cost for _, cost in tests)
        if total <= largest:
            _add(runs, [test for test, _ in tests], total, largest)
            continue
        # What a class shares is set up once less where its first run holds nothing else.
        runs.append(_Piece(each.file, 0, [], whole=False, collect=each.collect))
        for test, cost in tests:
            _add(runs, [test], cost, largest)
    return [run for run in runs if run.ids]


def _add(runs: list[_Piece], ids: list[str], cost: int, largest: float) -> None:
    last = runs[-1]
    if last.ids and last.weight + cost > largest:
        last = _Piece(last.file, 0, [], whole=False, collect=last.collect)
        runs.append(last)
    last.ids.extend(ids)
    last.weight += cost


def _dealt(pieces: Sequence[_Piece], shards: int, start: int) -> list[_Filled]:
    filled = [_Filled(start) for _ in range(shards)]
    # Sorting keeps the order of equal pieces, and the first of equal shards is taken.
    for piece in sorted(pieces, key=lambda piece: -piece.weight - piece.collect):
        weights = [one.with_(piece) for one in filled]
        filled[weights.index(min(weights))].add(piece)
    return filled


def _written(filled: Sequence[_Filled], files: tuple[str, ...]) -> tuple[Shard, ...]:
    """The shards as they are told to a run."""
    cut: dict[str, dict[int, list[str]]] = {}
    for number, one in enumerate(filled):
        for piece in one.pieces:
            if not piece.whole:
                cut.setdefault(piece.file, {}).setdefault(number, []).extend(piece.ids)
    only: list[set[str]] = [set() for _ in filled]
    leave: list[set[str]] = [set() for _ in filled]
    for file, parts in cut.items():
        named = _by_class(parts)
        # Tests that nobody knew of go where there is least to do.
        rest = min(parts, key=lambda number: (filled[number].weight, number))
        for number, names in named.items():
            only[number].update([file] if number == rest else names)
            if number != rest:
                leave[rest].update(names)
    shards = []
    for number, one in enumerate(filled):
        mine = {piece.file for piece in one.pieces}
        whole = {piece.file for piece in one.pieces if piece.whole}
        shards.append(
            Shard(
                number + 1,
                len(filled),
                tuple(file for file in files if file in mine),
                one.weight,
                tuple(sorted(only[number] | whole)) if only[number] else None,
                tuple(sorted(leave[number])),
            )
        )
    return tuple(shards)


def _by_class(parts: Mapping[int, Sequence[str]]) -> dict[int, list[str]]:
    """Node ids by shard, with the class in place of its tests where one shard has them all."""
    holders: dict[str, set[int]] = {}
    for number, ids in parts.items():
        for node_id in ids:
            # Below the file only: the file itself stands for all of its tests.
            for name in tuple(beginnings(node_id))[1:-1]:
                holders.setdefault(name, set()).add(number)

    def named(node_id: str) -> str:
        above = tuple(beginnings(node_id))[1:-1]
        return next((name for name in above if len(holders[name]) == 1), node_id)

    return {number: list(dict.fromkeys(map(named, ids))) for number, ids in parts.items()}
