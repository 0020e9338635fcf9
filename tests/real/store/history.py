"""Sixty days of nightly releases in a few minutes: `python -m real.store.history` in `tests`, `make history`.

Every day each family is built (some builds fail), checked, staged, tested (some tests fail, some only at the
first attempt, some have no runner) and promoted, while others re-build, promote, roll back, repair, pin and
delete what is old, at the same time, one operation of one of them after another. Publishers are killed before
any operation or just after it, frozen beyond the end of their lease, and started again. After every write
`history_checks` looks at what clients are served; after every episode the pages are compared with what the
log asks for; and at random moments a copy of everything is rolled back to an earlier set.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from real.store.history_builds import FAMILIES, Build, build, error_found, history_channels
from real.store.history_checks import MAX_AGE, PROJECTS, WISHES, Checker, Truth, Violation
from real.store.history_evidence import lacking
from real.store.history_forger import forge, key_of, sign, signing, trusting
from real.store.history_harm import (
    MENDS,
    Job,
    harm_objects,
    harm_pages,
    mended,
    repair_objects,
    repair_pages,
)
from real.store.history_rest import at_rest, pins_are_kept, power_was_cut
from real.store.history_store import Fate, Killed, Lag, Memory, World, copied
from rocwright.errors import ChannelBusy, ContractBroken, GateClosed, InvalidInput
from rocwright.model.channels import Channels
from rocwright.model.findings import Waiver
from rocwright.model.sets import canonical_json, waiver_statement
from rocwright.store.channel_log import read_state
from rocwright.store.index.listed import listed_files
from rocwright.store.index.pages import view_pages
from rocwright.store.layout import channel_prefix
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.pins import Pin, pin, read_pins, unpin
from rocwright.store.publish import repair, view_sets
from rocwright.store.retention import collect
from rocwright.store.sets.promote import promote_set
from rocwright.store.sets.records import save_statement
from rocwright.store.sets.stage import rfc3339, stage_set
from rocwright.store.statements import SuiteResult, result_statement
from rocwright.store.withdraw import rollback

# A rule that a later check knows and the first did not.
SECOND_RULE = "history-later-rule"
# What publishers answer when they were not let.
NOT_DONE = ("blocked", "refused", "nothing to roll back to", "not recorded")


class Closed(NamedTuple):
    """Why a gate is closed (empty: it is not), and how often the logs that say so changed."""

    why: str
    logs: tuple[int, ...]


@dataclass
class History:
    """A history under way; `checker` looks at each write, `counts` says what happened."""

    world: World
    folder: Path
    channels: Channels
    random: random.Random
    kills: bool = True
    lagging: bool = True
    # Of every honest publisher, where the channels trust keys: then somebody forges.
    keys: tuple[Any, ...] = ()
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
        if self.keys:
            self.channels = trusting(self.channels, self.keys)
        self.world.wrote = self._wrote
        self.world.cut = partial(power_was_cut, self.checker)

    def _wrote(self, publisher: Any, key: str) -> None:
        self.checker.wrote(publisher, key)
        drawn = self.random.random() * 1000 < self.rollback_rate
        if (
            drawn
            and isinstance(self.world.backing, Memory)
            and not self.checker.damaged | self.checker.unborn
        ):
            self.roll_a_copy_back()

    # --- what publishers do

    def prefix(self, channel: str, family: str) -> str:
        return channel_prefix(self.channels.named(channel).prefix, family)

    def clock(self, skew: float) -> Any:
        """The wall clock of a publisher, which may be wrong by hours."""
        return self.world.at() + timedelta(seconds=skew)

    def build(self, family: str) -> Build:
        """A set of today; what its checks and tests will say is known to the simulation only."""
        self.number += 1
        today = self.world.at().date()
        built = build(self.folder, family, self.number, today, self.random, self.counts)
        for entry in built.manifest.files:
            self.truth.set_of[entry.sha256] = built.id
        self.builds.setdefault(family, []).append(built)
        self.counts["sets built"] += 1
        return built

    def acknowledge(self, channel: str, built: Build) -> None:
        known = self.truth.acknowledged.setdefault(self.prefix(channel, built.manifest.family), [])
        if built.id not in known:
            known.append(built.id)

    def nightly(self, built: Build, skew: float, store: ObjectStore) -> str:
        """Stage, test, decide, promote: what `set create --stage` and `set promote` do."""
        now, manifest = self.clock(skew), built.manifest
        day = now.date().isoformat()
        before = self.lacks_to_stage(built, day)
        sign(store, built, self.keys)
        try:
            stage_set(store, self.channels.named("staging"), manifest, built.paths, built.checked, now)
        except ContractBroken as error:
            if not before and not self.lacks_to_stage(built, day):
                raise Violation(f"set {built.id[:12]} lacks nothing, and is refused: {error.what}") from None
            return "refused"
        self.acknowledge("staging", built)
        for statement in built.results:
            save_statement(store, built.id, statement)
        return self.promote(built, skew, store)

    def lacks_to_stage(self, built: Build, day: str) -> str:
        """What the statements that a build brings, with those that are there already, lack."""
        manifest = msgspec.to_builtins(built.manifest)
        folder = set(self.world.inside(f"sets/{built.id}/_statements")) - self.checker.forged
        there = map(self.world.once, folder)
        return lacking(built.id, manifest, [*map(canonical_json, built.checked), *there], day, "checked")

    def promote(self, built: Build, skew: float, store: ObjectStore) -> str:
        """Promote if the gate opens; it has to when before and after nothing was lacking."""
        prefix, now = self.prefix("release", built.manifest.family), self.clock(skew)
        before = self.closed(prefix, built.id, now.date().isoformat())
        try:
            promote_set(store, self.channels, self.channels.named("release"), built.id, now, by="history")
        except GateClosed as error:
            after = self.closed(prefix, built.id, now.date().isoformat())
            # What a listing does not show is not there for the gate: it may refuse, never let pass.
            if before == after and before.why == "" and not self.world.lag.seconds:
                raise Violation(f"set {built.id[:12]} lacks nothing, and is blocked: {error.what}") from None
            return "blocked"
        self.acknowledge("release", built)
        return "promoted"

    def closed(self, prefix: str, one: str, day: str) -> Closed:
        """Why the gate of a channel is closed for a set, by the checker's own rules, and as of which logs."""
        logs = [f"{prefix}_log", f"{prefix.replace('v2/', 'v2-staging/', 1)}_log"]
        why = self.checker.lacks(prefix, one, day)
        if self.checker.standing(prefix).get(one):
            why = f"{why}; it was withdrawn"
        return Closed(why, tuple(self.world.changes[log] for log in logs))

    def withdraw(self, prefix: str, to: str | None, skew: float, store: ObjectStore) -> str:
        """Roll a channel back."""
        at = rfc3339(self.clock(skew))
        try:
            rollback(
                store, prefix, to=to, reason=f"bad on day {self.day}", at=at, by="operator", max_age=MAX_AGE
            )
        except InvalidInput:
            return "nothing to roll back to"
        yanked = {one for one, is_yanked in self.checker.standing(prefix).items() if is_yanked}
        self.truth.withdrawn.setdefault(prefix, set()).update(yanked)
        return "rolled back"

    def collect(self, skew: float, store: ObjectStore) -> str:
        """Retention."""
        done = collect(store, self.channels, at=rfc3339(self.clock(skew)), by="retention")
        self.counts["objects deleted"] += done.objects
        return "collected"

    def pin(self, name: str, one: str, store: ObjectStore) -> str:
        """Pin a set, or remove the pin."""
        if name in read_pins(store):
            self.truth.unpinning.add(name)
            with suppress(InvalidInput):
                # Another one was quicker.
                unpin(store, name)
            return "unpinned"
        try:
            pin(store, name, Pin(one, at="2026-01-01T00:00:00Z"))
        except InvalidInput:
            # Another one was quicker, with another set: a pin is never moved silently.
            return "name taken"
        self.truth.pins[name] = one
        return "pinned"

    def second_check(self, built: Build, waive: bool, store: ObjectStore) -> str:
        """Somebody checks a recorded set again and finds an error; somebody else may answer for it."""
        if not store.exists(f"sets/{built.id}/manifest.json"):
            return "not recorded"
        name = built.manifest.files[0].name
        save_statement(store, built.id, error_found(built.manifest, SECOND_RULE, name))
        if waive:
            last = self.world.at().date() + timedelta(days=2)
            waiver = Waiver(SECOND_RULE, "known, and accepted", last, name)
            save_statement(store, built.id, waiver_statement(built.manifest, waiver))
        return "found an error, waived" if waive else "found an error"

    def late_result(self, built: Build, result: str, store: ObjectStore) -> str:
        """A suite is run once more, after all."""
        if not store.exists(f"sets/{built.id}/manifest.json"):
            return "not recorded"
        said = SuiteResult("smoke-host", built.manifest.family, result, runner=True, attempt=3)
        save_statement(store, built.id, result_statement(built.manifest, said))
        return result

    # --- days

    def live(self, days: int) -> None:
        """So many days; raises `Violation`."""
        for _ in range(days):
            self.day += 1
            self.world.now = max(self.world.now + 3600, self.day * 86400.0)
            for family in FAMILIES:
                self.episode(family)
            if self.day % 5 == 0:
                # Retention comes among the rivals, too, but chance may leave it out for a week.
                self.to_the_end([("retention", partial(self.collect, 0.0))])

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
        self.rest(family)
        if self.keys and self.random.random() < 0.3:
            self.forge(family)
        if self.random.random() < 0.08:
            self.harm(family)

    def rest(self, family: str) -> None:
        """Nobody is at work in the channels of a family."""
        for channel in ("staging", "release"):
            self.at_rest(self.prefix(channel, family))
        pins_are_kept(self.checker)

    def forge(self, family: str) -> None:
        """Somebody without a key writes into the store; who repairs the channel then must not be taken in."""
        prefix = self.prefix(self.random.choice(["staging", "release", "release"]), family)
        what = forge(self.checker, prefix, self.builds.get(family, []), self.random)
        self.counts[f"forged: {what}"] += 1
        if self.checker.standing(prefix) and self.random.random() < 0.5:
            self.to_the_end([("repair of pages", repair_pages(prefix))])
            self.rest(family)

    def harm(self, family: str) -> None:
        """Somebody damages what is there, and somebody else repairs it; nothing else happens meanwhile."""
        prefix = self.prefix(self.random.choice(["staging", "release"]), family)
        if not self.checker.standing(prefix) or not isinstance(self.world.backing, Memory):
            return
        copy = Memory(self.world.backing.objects)
        prefixes = [self.prefix(channel, family) for channel in ("staging", "release")]
        listed = [dict(self.checker.standing(one)) for one in prefixes]
        if MENDS and self.random.random() < 0.5:
            harmed = harm_objects(self.checker, prefix, self.random)
            at = rfc3339(self.world.at())
            self.to_the_end([("repair of objects", repair_objects(self.channels, copy, at))])
        else:
            harmed = harm_pages(self.checker, prefix, self.random)
            self.to_the_end([("repair of pages", repair_pages(prefix))])
        self.checker.damaged.clear()
        # Nobody is served what was damaged: the time that clients keep a page begins anew.
        self.world.now += 2 * MAX_AGE
        mended(self.checker, harmed, copy.objects)
        if listed != [self.checker.folded(one, lost=True).standing for one in prefixes]:
            raise Violation(f"the log of {prefix} was damaged, and comes to something else now")
        self.rest(family)

    def other(self, family: str) -> tuple[str, Callable[[ObjectStore], Any]]:
        """Somebody else who is at work at the same time."""
        skew, prefix = self.random.uniform(-43200, 43200), self.prefix("release", family)
        standing = list(self.checker.standing(prefix))
        chance = self.random.random()
        past = self.builds.get(family)
        if chance < 0.30:
            return "another build", partial(self.nightly, self.build(family), skew)
        if chance < 0.40 and standing:
            return "rollback", partial(self.withdraw, prefix, None, skew)
        if chance < 0.50 and standing:
            return "rollback to", partial(self.withdraw, prefix, self.random.choice(standing), skew)
        if chance < 0.60 and past:
            return "promotion again", partial(self.promote_old, self.random.choice(past[-8:]), skew)
        if chance < 0.63 and past:
            return "second check", partial(
                self.second_check, self.random.choice(past[-6:]), self.random.random() < 0.5
            )
        if chance < 0.66 and past:
            result = self.random.choice(["passed", "failed"])
            return "late result", partial(self.late_result, self.random.choice(past[-6:]), result)
        if chance < 0.72 and standing:
            return "pin", partial(
                self.pin, f"{family}-{self.random.randrange(2)}", self.random.choice(standing)
            )
        if chance < 0.78 and standing:
            return "repair", partial(repair, prefix=prefix)
        return "retention", partial(self.collect, skew)

    def promote_old(self, built: Build, skew: float, store: ObjectStore) -> str:
        """A set of the past: perhaps it never came in, or a rival has not recorded it yet."""
        if not store.exists(f"sets/{built.id}/manifest.json"):
            return "not recorded"
        return self.promote(built, skew, store)

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

    def opened(self, name: str, job: Job) -> Job:
        """A job on the store as commands open it; who repairs states nothing."""
        stating = not name.startswith("repair")
        return signing(job, self.channels, self.keys, self.world.at().date(), stating=stating)

    def weather(self, *, calm: bool) -> None:
        """What befalls all of them at once: the power fails, or listings lag behind for a while."""
        world = self.world
        world.power_until, world.lag = None, Lag(0.0, 0.0, 0.0)
        if calm or not self.kills:
            return
        if hasattr(world.backing, "lose") and self.random.random() < 0.3:
            world.power_until = world.counts.operations + int(self.random.expovariate(1 / 300)) + 1
        if self.lagging and self.random.random() < 0.1:
            begin = world.now + self.random.uniform(0, 20)
            world.lag = Lag(begin, begin + self.random.uniform(5, 120), self.random.uniform(1, 60))

    def to_the_end(self, jobs: list[tuple[str, Callable[[ObjectStore], Any]]]) -> None:
        """Run jobs side by side; what was killed is started again, until everything is done."""
        for attempt in range(20):
            if not jobs:
                return
            fates = [self.fate() if attempt < 4 else Fate() for _ in jobs]
            self.weather(calm=attempt >= 4)
            runs = [
                (name, fate, self.opened(name, job)) for (name, job), fate in zip(jobs, fates, strict=True)
            ]
            left = []
            for job, publisher in zip(jobs, self.world.run(runs), strict=True):
                if isinstance(publisher.problem, (Killed, ChannelBusy)):
                    self.counts["started again"] += 1
                    self.counts["busy"] += isinstance(publisher.problem, ChannelBusy)
                    left.append(job)
                elif publisher.problem is not None:
                    raise publisher.problem
                elif self.world.lag.seconds and publisher.result in NOT_DONE:
                    # It may not have seen what it began itself before it was killed.
                    self.counts["refused while listings lagged"] += 1
                    left.append(job)
                else:
                    said = f": {publisher.result}" if isinstance(publisher.result, str) else ""
                    self.counts[f"{publisher.name}{said}"] += 1
            jobs = left
        raise Violation(f"not done after 20 attempts: {', '.join(name for name, _ in jobs)}")

    # --- at rest

    def at_rest(self, prefix: str) -> None:
        """Nobody is at work: the pages are those that the log asks for, all of them."""
        self.checker.late.discard(prefix)
        self.checker.unborn.discard(prefix)
        at_rest(self.checker, prefix)
        if not self.checker.standing(prefix):
            return
        self.checker.channel(prefix)
        # A second witness, which shares all with what it looks at but the history: byte by byte.
        store = self.opened("repair", lambda store: store)(self.world.backing)
        state = read_state(store, prefix)
        if {one: one in state.yanked for one in state.sets} != self.checker.standing(prefix):
            raise Violation(f"the log of {prefix} is read in two ways")
        wanted = dict(view_pages(listed_files(view_sets(store, state), where=prefix), prefix))
        wrong = sorted(key for key, page in wanted.items() if store.read(key) != page)
        if wrong:
            raise Violation(f"pages of {prefix} are not those of its log: {', '.join(wrong)}")
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
        truth = replace(self.truth, withdrawn={key: set(of) for key, of in self.truth.withdrawn.items()})
        checker = Checker(world, truth, samples=1)
        checker.late.add(prefix)
        checker.forged = self.checker.forged
        checker.versions = {key: list(versions) for key, versions in self.checker.versions.items()}
        for channel in ("staging", "release"):
            checker.folded(self.prefix(channel, family))
        world.wrote = checker.wrote
        job = partial(
            rollback, prefix=prefix, to=to, reason="probe", at="2026-01-01T00:00:00Z", max_age=MAX_AGE
        )
        [publisher] = world.run([("rollback of a copy", Fate(), self.opened("rollback", job))])
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
            "power cuts": done.power_cuts,
            "objects lost in them": done.lost,
            "listings that lagged": done.lagging,
            "events": dict(sorted(self.counts.items())),
            "checks": dict(sorted(self.checker.checks.items())),
        }


def begin(backing: ObjectStore, folder: Path, seed: int, **options: Any) -> History:
    """A history on an empty store; where sets can be signed, the channels of every other seed trust a key."""
    chance = random.Random(seed)
    keys = key_of(seed) if chance.random() < 0.5 else ()
    return History(World(backing, seed), folder, history_channels(), chance, **{"keys": keys, **options})


if __name__ == "__main__":
    from real.store.history_report import main

    sys.exit(main())
