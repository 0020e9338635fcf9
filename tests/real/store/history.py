"""Sixty days of nightly releases in a few minutes: `python -m real.store.history` in `tests`, `make history`.

Every day each family is built (some builds fail), checked, staged, tested (some tests fail, some only at the
first attempt, some have no runner) and promoted, while others re-build, promote, roll back, repair, pin and
delete what is old, at the same time, one operation of one of them after another. Publishers are killed before
any operation or just after it, frozen beyond the end of their lease, and started again. After every write
`history_checks` looks at what clients are served; after every episode the pages are compared with what the
log asks for; and at random moments a copy of everything is rolled back to an earlier set.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from real.store.history_checks import MAX_AGE, PROJECTS, WISHES, Checker, Truth, Violation
from real.store.history_store import START, Fate, Killed, Memory, World, copied
from rocwright.data import load_table
from rocwright.errors import ChannelBusy, GateClosed, InvalidInput
from rocwright.model.channels import Channels
from rocwright.model.sets import BUILD, FINDINGS, SetManifest, Statement, about_set, new_set, set_id
from rocwright.store.channel_log import read_state
from rocwright.store.gate import policy_for
from rocwright.store.index.listed import listed_files
from rocwright.store.index.pages import view_pages
from rocwright.store.layout import channel_prefix
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.pins import Pin, pin, read_pins, unpin
from rocwright.store.pool import describe_files
from rocwright.store.publish import repair, rollback, view_sets
from rocwright.store.retention import collect
from rocwright.store.sets.promote import promote_set
from rocwright.store.sets.records import save_statement
from rocwright.store.sets.report import consider
from rocwright.store.sets.stage import rfc3339, stage_set
from rocwright.store.statements import SuiteResult, result_statement
from wheels import ANY, write_wheel

FAMILIES = {
    "gfx94X-dcgpu": ("gfx942",),
    "gfx110X-all": ("gfx1100", "gfx1101"),
    "multi-arch": ("gfx1100", "gfx942"),
}


def history_channels() -> Channels:
    """The table of channels, with numbers so small that retention has work to do within sixty days."""
    table = load_table("channels", Channels)
    few = tuple(
        msgspec.structs.replace(one, listed={"staging": 5, "release": 4}[one.name]) for one in table.channel
    )
    retention = msgspec.structs.replace(table.retention, grace_days=4)
    return msgspec.structs.replace(table, channel=few, retention=retention, max_age=int(MAX_AGE))


def write_wheels(folder: Path, family: str, number: int) -> list[Path]:
    """Five small wheels that pin each other exactly; labelled by their place, not real packages."""
    exact = f"1.{number}"
    needs = {
        "rocm-sdk-core": [],
        "rocm-sdk-libraries": [f"rocm-sdk-core=={exact}"],
        "rocm": [f"rocm-sdk-core=={exact}", f'rocm-sdk-libraries=={exact}; extra == "libraries"'],
        "torch": [f"rocm[libraries]=={exact}"],
        "torchvision": [f"torch=={exact}"],
    }
    extras = {"rocm": ["libraries"]}
    return [
        write_wheel(
            folder / family / str(number),
            name,
            exact,
            {f"{name.replace('-', '_')}/__init__.py": f"# {family} {number}\n"},
            requires=needs[name],
            extras=extras.get(name, ()),
            tag=ANY,
        )
        for name in PROJECTS
    ]


@dataclass
class Build:
    """A set that was built, and what its tests will say."""

    manifest: SetManifest
    paths: list[Path]
    results: list[Statement]
    passes: bool

    @property
    def id(self) -> str:
        return set_id(self.manifest)


@dataclass
class History:
    """A history under way; `checker` looks at each write, `counts` says what happened."""

    world: World
    folder: Path
    channels: Channels
    random: random.Random
    kills: bool = True
    # How often somebody else is at work in the same family at the same time.
    crowd: float = 0.6
    # At how many writes in a thousand a copy of everything is rolled back.
    rollback_rate: float = 4.0
    truth: Truth = field(default_factory=Truth)
    counts: Counter[str] = field(default_factory=Counter)
    builds: dict[str, list[Build]] = field(default_factory=dict)
    day: int = 0
    number: int = 0

    def __post_init__(self) -> None:
        self.checker = Checker(self.world, self.truth)
        self.world.wrote = self._wrote

    def _wrote(self, publisher: Any, key: str) -> None:
        self.checker.wrote(publisher, key)
        if self.random.random() * 1000 < self.rollback_rate and isinstance(self.world.backing, Memory):
            self.roll_a_copy_back()

    # --- what publishers do

    def prefix(self, channel: str, family: str) -> str:
        return channel_prefix(self.channels.named(channel).prefix, family)

    def clock(self, skew: float) -> Any:
        """The wall clock of a publisher, which may be wrong by hours."""
        return self.world.at() + timedelta(seconds=skew)

    def build(self, family: str) -> Build:
        """A set of today; what its tests will say is known to the simulation only."""
        self.number += 1
        paths = write_wheels(self.folder, family, self.number)
        manifest = new_set(
            family=family,
            targets=FAMILIES[family],
            platform="linux",
            files=describe_files(paths),
            sources={"torch": f"{self.number:040x}"},
        )
        required = policy_for(manifest, self.channels, self.channels.named("release"), START.date()).required
        results, passes = [], True
        for one in required:
            fate = self.random.random()
            say = partial(SuiteResult, one.suite, one.family, target=one.target, runner=True)
            if fate < 0.82:
                results += [say(result="passed")]
            elif fate < 0.92:
                self.counts["flaky suites"] += 1
                results += [say(result="failed"), say(result="passed", attempt=2)]
            elif fate < 0.97:
                results += [say(result="failed"), say(result="failed", attempt=2)]
                passes = False
            else:
                results += [msgspec.structs.replace(say(result="skipped"), runner=False)]
                passes = False
        said = [result_statement(manifest, result) for result in results]
        built = Build(manifest, paths, said, passes)
        for entry in manifest.files:
            self.truth.set_of[entry.sha256] = built.id
        self.truth.allowed.setdefault(self.prefix("staging", family), set()).add(built.id)
        if passes:
            self.truth.allowed.setdefault(self.prefix("release", family), set()).add(built.id)
        self.builds.setdefault(family, []).append(built)
        self.counts["sets built"] += 1
        self.counts["sets that pass their tests"] += passes
        return built

    def acknowledge(self, channel: str, built: Build) -> None:
        known = self.truth.acknowledged.setdefault(self.prefix(channel, built.manifest.family), [])
        if built.id not in known:
            known.append(built.id)

    def nightly(self, built: Build, skew: float, store: ObjectStore) -> str:
        """Stage, test, decide, promote: what `set create --stage` and `set promote` do."""
        manifest, names = built.manifest, [entry.name for entry in built.manifest.files]
        checked = [
            about_set(manifest, FINDINGS, {"passed": True, "files": names}),
            about_set(manifest, BUILD, {"result": "success"}),
        ]
        now = self.clock(skew)
        stage_set(store, self.channels.named("staging"), manifest, built.paths, checked, now)
        self.acknowledge("staging", built)
        for statement in built.results:
            save_statement(store, built.id, statement)
        return self.promote(built, skew, store)

    def promote(self, built: Build, skew: float, store: ObjectStore) -> str:
        """Ask the gate with what the store knows, and promote if it opens."""
        release, now = self.channels.named("release"), self.clock(skew)
        found = consider(store, self.channels, release, built.id, now.date())
        try:
            promote_set(store, self.channels, release, built.id, now, by="history")
        except GateClosed:
            if built.passes and found.decision.rule not in ("unstaged", "withdrawn"):
                raise Violation(f"a set that passes is blocked: {found.decision.reason}") from None
            return "blocked"
        self.acknowledge("release", built)
        return "promoted"

    def withdraw(self, prefix: str, to: str | None, skew: float, store: ObjectStore) -> str:
        """Roll a channel back."""
        at = rfc3339(self.clock(skew))
        try:
            rollback(
                store, prefix, to=to, reason=f"bad on day {self.day}", at=at, by="operator", max_age=MAX_AGE
            )
        except InvalidInput:
            return "nothing to roll back to"
        return "rolled back"

    def collect(self, skew: float, store: ObjectStore) -> str:
        """Retention."""
        done = collect(store, self.channels, at=rfc3339(self.clock(skew)), by="retention")
        self.counts["objects deleted"] += done.objects
        return "collected"

    def pin(self, name: str, one: str, store: ObjectStore) -> str:
        """Pin a set, or remove the pin."""
        if name in read_pins(store):
            unpin(store, name)
            return "unpinned"
        try:
            pin(store, name, Pin(one, at="2026-01-01T00:00:00Z"))
        except InvalidInput:
            # Another one was quicker, with another set: a pin is never moved silently.
            if name not in read_pins(store):
                raise
            return "name taken"
        return "pinned"

    # --- days

    def live(self, days: int) -> None:
        """So many days; raises `Violation`."""
        for _ in range(days):
            self.day += 1
            self.world.now = max(self.world.now + 3600, self.day * 86400.0)
            for family in FAMILIES:
                self.episode(family)

    def episode(self, family: str) -> None:
        """What happens to a family in one night."""
        skew = self.random.uniform(-43200, 43200)
        # Step by step in turns, or one far ahead of the other: each finds other mistakes.
        self.world.switch = self.random.choice([0.01, 0.03, 0.1, 0.4])
        jobs: list[tuple[str, Callable[[ObjectStore], Any]]] = []
        if self.random.random() < 0.15:
            self.counts["builds failed"] += 1
        else:
            jobs.append(("nightly", partial(self.nightly, self.build(family), skew)))
        rivals = sum(self.random.random() < self.crowd for _ in range(2))
        jobs += [self.other(family) for _ in range(rivals)]
        self.to_the_end(jobs)
        for channel in ("staging", "release"):
            self.at_rest(self.prefix(channel, family))

    def other(self, family: str) -> tuple[str, Callable[[ObjectStore], Any]]:
        """Somebody else who is at work at the same time."""
        skew, prefix = self.random.uniform(-43200, 43200), self.prefix("release", family)
        standing = list(self.checker.standing(prefix))
        chance = self.random.random()
        if chance < 0.35:
            return "another build", partial(self.nightly, self.build(family), skew)
        if chance < 0.45 and standing:
            return "rollback", partial(self.withdraw, prefix, None, skew)
        if chance < 0.55 and standing:
            return "rollback to", partial(self.withdraw, prefix, self.random.choice(standing), skew)
        if chance < 0.65 and self.builds.get(family):
            return "promotion again", partial(self.promote_old, self.random.choice(self.builds[family]), skew)
        if chance < 0.72 and standing:
            return "pin", partial(
                self.pin, f"{family}-{self.random.randrange(2)}", self.random.choice(standing)
            )
        if chance < 0.78 and standing:
            return "repair", partial(repair, prefix=prefix)
        return "retention", partial(self.collect, skew)

    def promote_old(self, built: Build, skew: float, store: ObjectStore) -> str:
        """A set of the past: it may have been deleted since."""
        try:
            return self.promote(built, skew, store)
        except InvalidInput:
            return "blocked"

    def fate(self) -> Fate:
        """Half of all publishers are killed, some are frozen for longer than a lease lasts."""
        fate = Fate()
        if self.kills and self.random.random() < 0.5:
            fate.dies_at = int(self.random.expovariate(1 / 120)) + 1
            fate.answer_lost = self.random.random() < 0.5
        if self.kills and self.random.random() < 0.1:
            fate.freezes_at = int(self.random.expovariate(1 / 150)) + 1
            fate.frozen_s = self.random.uniform(60, 2000)
        return fate

    def to_the_end(self, jobs: list[tuple[str, Callable[[ObjectStore], Any]]]) -> None:
        """Run jobs side by side; what was killed is started again, until everything is done."""
        for attempt in range(20):
            if not jobs:
                return
            fates = [self.fate() if attempt < 4 else Fate() for _ in jobs]
            runs = [(name, fate, job) for (name, job), fate in zip(jobs, fates, strict=True)]
            left = []
            for job, publisher in zip(jobs, self.world.run(runs), strict=True):
                if isinstance(publisher.problem, (Killed, ChannelBusy)):
                    self.counts["started again"] += 1
                    self.counts["busy"] += isinstance(publisher.problem, ChannelBusy)
                    left.append(job)
                elif publisher.problem is not None:
                    raise publisher.problem
                else:
                    self.counts[
                        f"{publisher.name}: {publisher.result}"
                        if isinstance(publisher.result, str)
                        else publisher.name
                    ] += 1
            jobs = left
        raise Violation(f"not done after 20 attempts: {', '.join(name for name, _ in jobs)}")

    # --- at rest

    def at_rest(self, prefix: str) -> None:
        """Nobody is at work: the pages are those that the log asks for, all of them."""
        store = self.world.backing
        state = read_state(store, prefix)
        if not state.sets:
            return
        if {one: one in state.yanked for one in state.sets} != self.checker.standing(prefix):
            raise Violation(f"the log of {prefix} is read in two ways")
        wanted = dict(view_pages(listed_files(view_sets(store, state), where=prefix), prefix))
        keys = [key for key in self.world.modified if key.startswith(prefix) and "/_log/" not in key]
        served = {key: store.read(key) for key in keys}
        if served != wanted:
            wrong = sorted(key for key in {*served, *wanted} if served.get(key) != wanted.get(key))
            raise Violation(f"pages of {prefix} are not those of its log: {', '.join(wrong)}")
        self.checker.late.discard(prefix)
        self.checker.channel(prefix)
        self.counts["pages compared with the log"] += len(wanted)

    def roll_a_copy_back(self) -> None:
        """If everybody died now: an hour later a channel is rolled back to any of its sets."""
        family = self.random.choice(list(FAMILIES))
        prefix = self.prefix(self.random.choice(["staging", "release"]), family)
        standing = list(self.checker.standing(prefix))
        if len(standing) < 2:
            return
        to = self.random.choice(standing)
        world = copied(self.world, self.random.randrange(1 << 30))
        checker = Checker(world, self.truth, samples=1)
        checker.late.add(prefix)
        checker.versions = {key: list(versions) for key, versions in self.checker.versions.items()}
        world.wrote = checker.wrote
        job = partial(
            rollback, prefix=prefix, to=to, reason="probe", at="2026-01-01T00:00:00Z", max_age=MAX_AGE
        )
        [publisher] = world.run([("rollback of a copy", Fate(), job)])
        if publisher.problem is not None:
            raise Violation(f"no rollback of {prefix} to {to[:12]}: {publisher.problem!r}")
        pages = {project: checker.page(prefix, project) for project in PROJECTS}
        for wish in WISHES:
            if checker.resolves(prefix, wish, pages, "after a rollback") != to:
                raise Violation(f"{prefix} was rolled back to {to[:12]} and serves another set")
        self.checker.checks.update(checker.checks)
        self.counts["rollbacks of copies"] += 1

    def report(self) -> dict[str, Any]:
        """What happened, and what was looked at."""
        done = self.world.counts
        return {
            "days": self.day,
            "families": len(FAMILIES),
            "operations": done.operations,
            "writes": done.writes,
            "kills": done.kills,
            "lost answers among them": done.lost_answers,
            "frozen": done.freezes,
            "waits for another publisher": done.waits,
            "events": dict(sorted(self.counts.items())),
            "checks": dict(sorted(self.checker.checks.items())),
            "violations": 0,
        }


def begin(backing: ObjectStore, folder: Path, seed: int, **options: Any) -> History:
    """A history on an empty store."""
    return History(World(backing, seed), folder, history_channels(), random.Random(seed), **options)


def main() -> int:
    """Print the report as JSON; exit code 1 for a violation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rocwright-history-") as folder:
        history = begin(Memory(), Path(folder), given.seed)
        try:
            history.live(given.days)
        except Violation as violation:
            print(f"day {history.day}, seed {given.seed}: {violation}", file=sys.stderr)
            return 1
    report = {"seed": given.seed, **history.report(), "seconds": round(time.monotonic() - began, 1)}
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
