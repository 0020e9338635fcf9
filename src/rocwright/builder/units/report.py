"""Sums up what a build's units cost (the slowest, seconds by kind and GPU target, memory, cache hits), and
which device sources no compiler saw.

A kernel that a build leaves out is missed by nobody: libraries register their kernels as they are loaded, so
everything links and imports, and the first who calls the function on a GPU is told that there is none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.builder.decide.plan import CacheUse
from rocwright.builder.units.logs import UnitRecord, read_ninja_log
from rocwright.system.files import write_text

SLOWEST = 20
KINDS = ("host", "hip", "link")


class SlowUnit(msgspec.Struct, frozen=True):
    """One unit among the slowest; `cpu_s` and `peak_rss` (bytes) are 0 where only ninja's log knew it."""

    project: str
    kind: str
    source: str
    wall_s: float
    cpu_s: float = 0.0
    peak_rss: int = 0


class KindTotal(msgspec.Struct, frozen=True):
    """All calls of one kind: how many, seconds, and what the compiler cache answered of them."""

    calls: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    hits: int = 0
    misses: int = 0


class BuildReport(msgspec.Struct, frozen=True):
    """What a build cost, by unit.

    `kinds` has `host`, `hip` and `link`; wall seconds add up over calls at once, so they exceed the build's.
    `targets` maps GPU targets to CPU seconds of their device code; `host` in it is the host half of device
    units. `repeated` names objects that were made more than once. `from_ninja` names projects whose times are
    from ninja's log, because no launcher stood before their compilers. `uncompiled` has, by project, device
    sources of its checkout that no compiler saw.
    """

    slowest: tuple[SlowUnit, ...]
    kinds: dict[str, KindTotal]
    targets: dict[str, float]
    peak_rss: int
    largest: str
    failed: int
    repeated: tuple[str, ...] = ()
    from_ninja: tuple[str, ...] = ()
    cache: CacheUse | None = None
    uncompiled: Mapping[str, tuple[Uncompiled, ...]] = {}


def build_report(
    records: Sequence[UnitRecord],
    ninja_logs: Mapping[str, Sequence[Path]] | None = None,
    cache: CacheUse | None = None,
    uncompiled: Mapping[str, tuple[Uncompiled, ...]] | None = None,
) -> BuildReport:
    """The report of one run; `ninja_logs` (by project) serve where a project has no records."""
    units = [record for record in records if record.kind in KINDS]
    recorded = {record.project for record in units}
    second = {
        project: [step for path in paths for step in read_ninja_log(path) if step.kind in KINDS]
        for project, paths in (ninja_logs or {}).items()
        if project not in recorded
    }
    slow = [_slow(record) for record in units]
    slow += [SlowUnit(name, step.kind, step.output, step.wall_s) for name in second for step in second[name]]
    largest = max(units, key=lambda record: record.peak_rss, default=None)
    return BuildReport(
        slowest=tuple(sorted(slow, key=lambda unit: (-unit.wall_s, unit.source))[:SLOWEST]),
        kinds={kind: _total(kind, units, slow, cache) for kind in KINDS},
        targets=_targets(units),
        peak_rss=largest.peak_rss if largest else 0,
        largest=(largest.source or largest.output) if largest else "",
        failed=sum(record.exit != 0 for record in units),
        repeated=_repeated(units),
        from_ninja=tuple(sorted(name for name, steps in second.items() if steps)),
        cache=cache,
        uncompiled=uncompiled or {},
    )


def _slow(record: UnitRecord) -> SlowUnit:
    source = record.source if record.kind != "link" else record.output
    return SlowUnit(record.project, record.kind, source, record.wall_s, record.cpu_s, record.peak_rss)


def _total(
    kind: str, units: Iterable[UnitRecord], slow: Iterable[SlowUnit], cache: CacheUse | None
) -> KindTotal:
    answers = [record.cache for record in units if record.kind == kind]
    hits, misses = answers.count("hit"), answers.count("miss")
    if cache and cache.cache == "sccache":
        # It does not tell about single calls, but counts by language.
        device = (cache.hip_hits, cache.hip_misses)
        host = (cache.hits - cache.hip_hits, cache.misses - cache.hip_misses)
        hits, misses = {"hip": device, "host": host}.get(kind, (0, 0))
    same = [unit for unit in slow if unit.kind == kind]
    return KindTotal(
        calls=len(same),
        wall_s=round(sum(unit.wall_s for unit in same), 2),
        cpu_s=round(sum(unit.cpu_s for unit in same), 2),
        hits=hits,
        misses=misses,
    )


def _targets(units: Iterable[UnitRecord]) -> dict[str, float]:
    spent: dict[str, float] = {}
    for record in units:
        for target, seconds in record.devices.items():
            spent[target] = spent.get(target, 0.0) + seconds
    return {target: round(seconds, 2) for target, seconds in sorted(spent.items())}


def _repeated(units: Iterable[UnitRecord]) -> tuple[str, ...]:
    """Objects that were compiled more than once with success."""
    seen: set[str] = set()
    again: set[str] = set()
    for record in units:
        if record.exit == 0 and record.kind in ("host", "hip"):
            (again if record.object in seen else seen).add(record.object)
    return tuple(sorted(again))


def write_report(report: BuildReport, path: Path) -> None:
    """Write the report as JSON."""
    write_text(path, msgspec.json.format(msgspec.json.encode(report).decode(), indent=1) + "\n")


SUFFIX = ".hip"
_OBJECTS = (".o", ".obj")


class Uncompiled(msgspec.Struct, frozen=True):
    """Device sources of one directory of a checkout that were left out, by name, of the `of` there are."""

    directory: str
    sources: tuple[str, ...]
    of: int


def uncompiled(sources: Collection[str], objects: Iterable[str]) -> tuple[Uncompiled, ...]:
    """Which of `sources` (paths in the checkout) none of `objects` was made of, by directory.

    Build systems name an object after its source and put it below a directory that ends like the source's:
    CMake `…/native/hip/Copy.hip.o`, its FindHIP `…/native/hip/torch_hip_generated_Copy.hip.o`, setuptools
    `…/csrc/Copy.o`. A name that only one source has is enough, since paths are shortened at times.
    """
    made: dict[str, list[str]] = defaultdict(list)
    for path in objects:
        directory, _, name = path.replace("\\", "/").rpartition("/")
        if name.endswith(_OBJECTS):
            made[_stem(name)].append(directory)
    names = Counter(_name(source) for source in sources)
    left: dict[str, list[str]] = defaultdict(list)
    for source in sorted(sources):
        directory, name = source.rpartition("/")[0], _name(source)
        if not _among(directory, _places(name, made), alone=names[name] == 1):
            left[directory].append(name)
    total = Counter(source.rpartition("/")[0] for source in sources)
    return tuple(Uncompiled(place, tuple(found), total[place]) for place, found in left.items())


def _name(source: str) -> str:
    return source.rpartition("/")[2]


def _stem(name: str) -> str:
    """`Copy` of `Copy.hip.o`, `Copy.o` and `torch_hip_generated_Copy.hip.o`."""
    name = name.rpartition(".")[0].removesuffix(SUFFIX)
    return name.partition("_generated_")[2] or name


def _places(name: str, made: dict[str, list[str]]) -> list[str]:
    return made.get(name.removesuffix(SUFFIX), [])


def _among(directory: str, places: list[str], *, alone: bool) -> bool:
    return any(alone or f"/{place}".endswith(f"/{directory}") for place in places)
