"""What must hold after every single write of a simulated history, found out from the bytes that are served.

Nothing of the code under test takes part: pages are read with a few lines of their own, the log is folded
again, sets are resolved by the installers' rules for exact pins, and what may be listed follows from the raw
statements (`history_evidence`).
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from html import unescape
from typing import Any
from urllib.parse import unquote

from real.store.history_evidence import Violation, lacking, manifest_of
from real.store.history_store import Publisher, World

PROJECTS = ("rocm-sdk-core", "rocm-sdk-libraries", "rocm", "torch", "torchvision")
WISHES = (
    ("torch",),
    ("torchvision",),
    ("rocm[libraries]",),
    ("torch", "torchvision", "rocm[libraries]"),
)
MAX_AGE = 300.0
# What no set needs any more is kept for so long all the same.
GRACE_S = 4 * 86400.0
_ANCHOR = re.compile(r'<a href="([^"#]+)#sha256=([0-9a-f]{64})"([^>]*)>([^<]+)</a>')
_PAGE = re.compile(r"((?:v2|v2-staging)/[^/]+/)(?:_json/)?([a-z0-9-]+)/index\.html")
_LOG = re.compile(r"((?:v2|v2-staging)/[^/]+/)_log/([0-9]{8})-([0-9a-f]{16})\.json")
_LEASE = re.compile(r"_leases/(.+/)[0-9a-f]+\.json")
_KEPT = re.compile(r"sets/[0-9a-f]{64}/(?:manifest\.json|_statements/.*|_signatures/.*)")


@dataclass(frozen=True)
class Link:
    """A file on a page."""

    name: str
    version: tuple[int, ...]
    key: str
    sha256: str
    yanked: bool


@lru_cache(maxsize=20_000)
def links(page: bytes) -> tuple[Link, ...]:
    """The files on an HTML page, newest first."""
    found = []
    for href, sha256, rest, text in _ANCHOR.findall(page.decode()):
        name = unescape(text)
        key = unquote(unescape(href)).lstrip("./")
        version = tuple(int(part) for part in re.findall("[0-9]+", name.split("-")[1]))
        found.append(Link(name, version, key, sha256, "data-yanked" in rest))
    return tuple(sorted(found, key=lambda link: link.version, reverse=True))


@lru_cache(maxsize=20_000)
def requires(metadata: bytes) -> tuple[tuple[str, str | None, str | None], ...]:
    """Project, exact version and extra that asks for it, of each Requires-Dist line."""
    found = []
    for line in re.findall(r"^Requires-Dist: (.*)$", metadata.decode(), re.MULTILINE):
        match = re.fullmatch(r'([a-z-]+)(?:\[[a-z]+\])?==([0-9.]+)(?:; extra == "([a-z]+)")?', line)
        if match is None:
            raise Violation(f"cannot read {line!r}")
        found.append((match[1], match[2], match[3]))
    return tuple(found)


def pick(
    wishes: Iterable[str],
    pages: Mapping[str, bytes | None],
    world: World,
    *,
    pip: bool,
) -> dict[str, Link] | None:
    """What an installer chooses from these pages (project -> page), None when nothing fits.

    A yanked file is taken by pip for an exact pin, wherever it stands, and by uv only for one that the user
    gave, and ours give none.
    """
    wanted = [(wish.partition("[")[0], None) for wish in wishes]

    def solve(todo: list[tuple[str, str | None]], chosen: dict[str, Link]) -> dict[str, Link] | None:
        if not todo:
            return chosen
        (project, pin), rest = todo[0], todo[1:]
        known = chosen.get(project)
        if known is not None:
            fits = pin is None or known.version == _version(pin)
            return solve(rest, chosen) if fits else None
        page = pages.get(project)
        for link in links(page) if page is not None else ():
            if pin is not None and link.version != _version(pin):
                continue
            if link.yanked and not (pip and pin is not None):
                continue
            key = f"{link.key}.metadata"
            if key not in world.modified:
                raise Violation(f"{key} is promised by a page and not there")
            # Every extra of rocm is asked for: torch asks for rocm[libraries].
            needs = [(name, version) for name, version, _ in requires(world.once(key))]
            done = solve(needs + rest, {**chosen, project: link})
            if done is not None:
                return done
        return None

    return solve(wanted, {})


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall("[0-9]+", text))


@lru_cache(maxsize=20_000)
def digests_on(page: bytes) -> dict[str, bool]:
    """The sha256 of each file on an HTML page, and whether it is yanked."""
    return {link.sha256: link.yanked for link in links(page)}


def gate_of(prefix: str) -> str:
    """What a channel asks for: the wheel contract, or tests, too."""
    return "tested" if prefix.startswith("v2/") else "checked"


@dataclass
class Truth:
    """What the simulation knows and the store does not: whose a file is, and what was acknowledged."""

    set_of: dict[str, str] = field(default_factory=dict)
    # Channel and family -> sets that were listed there when the evidence was in force.
    allowed: dict[str, set[str]] = field(default_factory=dict)
    # Channel and family -> sets whose listing was acknowledged.
    acknowledged: dict[str, list[str]] = field(default_factory=dict)
    # Channel and family -> sets whose withdrawal was acknowledged.
    withdrawn: dict[str, set[str]] = field(default_factory=dict)
    # Name -> set of each pin that was acknowledged; names that somebody is removing.
    pins: dict[str, str] = field(default_factory=dict)
    unpinning: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Folded:
    """A log, folded: listed sets, oldest first, and whether each is yanked; those that were dropped."""

    standing: dict[str, bool]
    dropped: frozenset[str]
    events: tuple[tuple[str, dict[str, Any]], ...]


@dataclass
class Checker:
    """Checks a world after each write; `checks` counts what was looked at."""

    world: World
    truth: Truth
    checks: Counter[str] = field(default_factory=Counter)
    # Versions of each page with the time at which each appeared, None for no page.
    versions: dict[str, list[tuple[float, bytes | None]]] = field(default_factory=dict)
    # Channels where a frozen publisher may have written after its lease ended.
    late: set[str] = field(default_factory=set)
    # Keys of what a forger dropped: they count for nothing.
    forged: set[str] = field(default_factory=set)
    # Channels whose pages somebody damaged, until they are repaired.
    damaged: set[str] = field(default_factory=set)
    # Channels that listed nothing that was acknowledged when the power was cut: pages may miss each other.
    unborn: set[str] = field(default_factory=set)
    samples: int = 2
    random: random.Random = field(default_factory=lambda: random.Random(7))
    # When each publisher took each lease.
    leases: dict[tuple[int, str], float] = field(default_factory=dict)
    _folded: dict[str, tuple[int, Folded]] = field(default_factory=dict)
    _needed: tuple[Any, dict[str, str]] = ((), {})

    def wrote(self, publisher: Publisher, key: str) -> None:
        """What must hold after a write to `key`."""
        try:
            self._wrote(publisher, key)
        except Violation as violation:
            raise Violation(f"{violation}\n  after a write of {publisher.name} to {key}") from violation

    def _wrote(self, publisher: Publisher, key: str) -> None:
        gone = key not in self.world.modified
        self.world.remembered.pop(key, None)
        if (match := _PAGE.fullmatch(key)) is not None:
            if publisher.fate.frozen_s and publisher.operations >= (publisher.fate.freezes_at or 0):
                self.late.add(match[1])
            backing = self.world.backing
            page = None if gone else backing.read(key)
            self.versions.setdefault(key, [(float("-inf"), None)]).append((self.world.now, page))
            if match[1] not in self.damaged | self.unborn:
                self.channel(match[1])
        elif (match := _LEASE.fullmatch(key)) is not None:
            self.leases.setdefault((id(publisher), key), self.world.now)
        elif (match := _LOG.fullmatch(key)) is not None:
            if self.damaged:
                return
            if gone:
                raise Violation(f"{key} was in the log and is not any more")
            self.log(publisher, match[1], key)
        elif self.damaged:
            # A repair takes away what it writes anew.
            return
        elif gone and key.startswith("files/"):
            self.nothing_dangles(key)
            self.nothing_is_missed(key)
        elif gone and _KEPT.fullmatch(key):
            raise Violation(f"{key} is kept for ever, and is deleted")
        elif gone and key.startswith("pins/"):
            self.pin_went(key)

    def page(self, prefix: str, project: str) -> bytes | None:
        """The page of a project as it is served now."""
        key = f"{prefix}{project}/index.html"
        return self.world.backing.read(key) if key in self.world.modified else None

    # --- what clients get

    def channel(self, prefix: str) -> None:
        """The pages of a channel as they are now, and mixed with those of up to one max-age ago."""
        now = {project: self.page(prefix, project) for project in PROJECTS}
        for project, page in now.items():
            for link in links(page) if page is not None else ():
                self.checks["links"] += 1
                if link.key not in self.world.modified:
                    raise Violation(f"{prefix}{project}/ links to {link.key}, which is not there")
        for wish in WISHES:
            # What was never there may still be on its way.
            if all(now[one.partition("[")[0]] is not None for one in wish):
                self.resolves(prefix, wish, now, "what is served now")
        self.acknowledged_is_served(prefix, now)
        windows = {project: self._window(prefix, project) for project in PROJECTS}
        if all(None not in window for window in windows.values()):
            for _ in range(self.samples if any(len(window) > 1 for window in windows.values()) else 0):
                mixed = {project: self.random.choice(window) for project, window in windows.items()}
                for wish in WISHES:
                    self.resolves(prefix, wish, mixed, "pages of different age")

    def _window(self, prefix: str, project: str) -> list[bytes | None]:
        """The versions of a page that a client may still have."""
        versions = self.versions.get(f"{prefix}{project}/index.html", [(float("-inf"), None)])
        ends = [at for at, _ in versions[1:]] + [float("inf")]
        return [page for (_, page), end in zip(versions, ends, strict=True) if end > self.world.now - MAX_AGE]

    def resolves(
        self, prefix: str, wish: tuple[str, ...], pages: Mapping[str, bytes | None], what: str
    ) -> str:
        """A whole set that may be there comes of it, for pip and for uv; returns its id."""
        for pip in (True, False):
            self.checks["resolutions"] += 1
            chosen = pick(wish, pages, self.world, pip=pip)
            who = "pip" if pip else "uv"
            if chosen is None:
                raise Violation(f"{who} finds no {' '.join(wish)} in {prefix}: {what}")
            sets = {self.truth.set_of.get(link.sha256, link.name) for link in chosen.values()}
            if len(sets) > 1:
                names = ", ".join(link.name for link in chosen.values())
                raise Violation(f"{who} mixes sets in {prefix}: {names}: {what}")
            [found] = sets
            if found not in self.truth.allowed.get(prefix, set()):
                raise Violation(f"{who} is given set {found[:12]} in {prefix}, which must not be there")
        return found

    def acknowledged_is_served(self, prefix: str, pages: Mapping[str, bytes | None]) -> None:
        """Each acknowledged set is on every page unless the log dropped it; what was withdrawn is yanked."""
        standing = self.standing(prefix)
        if prefix in self.late:
            return
        wanted = set(self.truth.acknowledged.get(prefix, ())) & standing.keys()
        withdrawn = {one for one in self.truth.withdrawn.get(prefix, ()) if standing.get(one)}
        for project, page in pages.items():
            found = digests_on(page) if page is not None else {}
            sets = {self.truth.set_of[sha256] for sha256 in found}
            self.checks["acknowledged"] += len(wanted)
            for one in sorted(wanted - sets):
                raise Violation(f"set {one[:12]} was acknowledged and is not on the page of {project}")
            for sha256, yanked in found.items():
                if not yanked and self.truth.set_of[sha256] in withdrawn:
                    one = self.truth.set_of[sha256]
                    raise Violation(f"set {one[:12]} was withdrawn and is offered on the page of {project}")

    # --- the log, and what may be in it

    def log(self, publisher: Publisher, prefix: str, key: str) -> None:
        """No acknowledged set is lost from the log; none comes into it without evidence in force that day."""
        self.checks["logs"] += 1
        folded = self.folded(prefix)
        for one in self.truth.acknowledged.get(prefix, ()):
            if one not in folded.standing and one not in folded.dropped:
                raise Violation(f"set {one[:12]} was acknowledged and is not in the log of {prefix}")
        event = dict(folded.events)[key]
        if event["action"] == "drop":
            # Listed again, it is on the pages when that is acknowledged.
            known = self.truth.acknowledged.get(prefix, [])
            known[:] = [one for one in known if one not in event["sets"]]
        if event["action"] != "list":
            return
        # Until whoever withdraws it again is done.
        self.truth.withdrawn.get(prefix, set()).difference_update(event["sets"])
        before = fold([(one, item) for one, item in folded.events if one != key]).standing
        for one in event["sets"]:
            # A rollback lists what was withdrawn again; whoever does so gives a reason.
            if not (one in before and event["reason"]):
                self.admitted(publisher, prefix, one, event["at"][:10])

    def admitted(self, publisher: Publisher, prefix: str, one: str, day: str) -> None:
        """At some moment since this publisher has the channel, nothing was lacking."""
        self.checks["admissions"] += 1
        scope = f"_leases/{prefix}"
        mine = ((key, at) for (who, key), at in self.leases.items() if who == id(publisher))
        since = max((at for key, at in mine if key.startswith(scope)), default=self.world.now)
        folder = self.world.inside(f"sets/{one}/_statements")
        moments = {since, *(self.world.modified[key] for key in folder)}
        why = [self.lacks(prefix, one, day, moment) for moment in sorted(moments) if moment >= since]
        if all(why):
            raise Violation(
                f"set {one[:12]} is listed in {prefix} on {day}, where it must not be there: {why[-1]}"
            )
        self.truth.allowed.setdefault(prefix, set()).add(one)

    def lacks(self, prefix: str, one: str, day: str, moment: float | None = None) -> str:
        """What a channel asks for and a set did not have at a moment (now), on that day; empty: nothing."""
        at = self.world.now if moment is None else moment
        key = f"sets/{one}/manifest.json"
        if key not in self.world.modified:
            return "it is not recorded"
        folder = set(self.world.inside(f"sets/{one}/_statements")) - self.forged
        said = [self.world.once(item) for item in folder if self.world.modified[item] <= at]
        manifest = manifest_of(self.world.once(key), one)
        why = lacking(one, manifest, said, day, gate_of(prefix))
        if gate_of(prefix) == "tested":
            before = prefix.replace("v2/", "v2-staging/", 1)
            events = [item for item in self.folded(before).events if self.world.modified[item[0]] <= at]
            if fold(events).standing.get(one, True):
                why = f"{why}; it does not stand in {before}"
        return why

    def standing(self, prefix: str) -> dict[str, bool]:
        """Listed sets, oldest first, and whether each is yanked: the log folded once more."""
        return self.folded(prefix).standing

    def folded(self, prefix: str, *, lost: bool = False) -> Folded:
        """The log of a channel as it is now; raises `Violation` where an event changed, or is gone.

        `lost` says that what nobody had acknowledged may be gone; then a log that somebody damaged is read
        as far as it is mended.
        """
        version = self.world.changes[f"{prefix}_log"]
        known = self._folded.get(prefix)
        if known is not None and known[0] == version:
            return known[1]
        events = []
        for key in self.world.inside(f"{prefix}_log"):
            if (match := _LOG.fullmatch(key)) is None or key in self.forged:
                continue
            data = self.world.once(key)
            if not hashlib.sha256(data).hexdigest().startswith(match[3]):
                if lost and prefix in self.damaged:
                    continue
                raise Violation(f"{key} was changed")
            events.append((key, json.loads(data)))
        folded = fold(events)
        gone = {key for key, _ in known[1].events} - {key for key, _ in events} if known else set()
        if gone and not lost:
            raise Violation(f"{min(gone)} was in the log and is not any more")
        self._folded[prefix] = (version, folded)
        return folded

    # --- what may go

    def nothing_dangles(self, key: str) -> None:
        """No page that a client may have links to a file that is gone."""
        for page in list(self.versions):
            match = _PAGE.fullmatch(page)
            if match is None or "/_json/" in page:
                continue
            for version in self._window(match[1], match[2]):
                self.checks["deletions"] += 1
                if version is not None and any(link.key == key for link in links(version)):
                    raise Violation(f"{page} links to {key}, which is deleted")

    def nothing_is_missed(self, key: str) -> None:
        """No set that a channel lists or a pin holds has the file, and it is older than the days of grace."""
        holder = self.needed().get(key)
        if holder is not None:
            raise Violation(f"{key} is deleted, and {holder} needs it")
        age = self.world.now - self.world.born.get(key, float("-inf"))
        if age < GRACE_S - 2:
            raise Violation(f"{key} is deleted {age / 3600:.1f} hours after it came in")

    def needed(self) -> dict[str, str]:
        """Each file that a listed or pinned set has, and who holds that set."""
        logs = [folder for folder in self.world.folders if folder.endswith("/_log")]
        version = (*(self.world.changes[folder] for folder in logs), *sorted(self.truth.pins.items()))
        if self._needed[0] != version:
            held = {one: f"the pin {name}" for name, one in self.truth.pins.items()}
            for folder in logs:
                prefix = folder.removesuffix("_log")
                held |= dict.fromkeys(self.standing(prefix), prefix)
            files = {name: holder for one, holder in held.items() for name in self.objects_of(one)}
            self._needed = (version, files)
        return self._needed[1]

    def objects_of(self, one: str) -> dict[str, str]:
        """Keys of the files of a recorded set, and of what lies beside them, each with its sha256."""
        found = {}
        for entry in manifest_of(self.world.once(f"sets/{one}/manifest.json"), one)["files"]:
            key = f"files/{entry['sha256']}/{entry['name']}"
            found[key] = entry["sha256"]
            found[f"{key}.metadata"] = entry["metadata_sha256"]
        return found

    def pin_went(self, key: str) -> None:
        """A pin goes when somebody removes it, and only then."""
        name = key.removeprefix("pins/").removesuffix(".json")
        if name in self.truth.pins and name not in self.truth.unpinning:
            raise Violation(f"the pin {name} is gone, and nobody removed it")


def fold(events: Iterable[tuple[str, dict[str, Any]]]) -> Folded:
    """What a log comes to."""
    listed = tuple(events)
    found: dict[str, bool] = {}
    dropped: set[str] = set()
    for _, event in listed:
        for one in event["sets"]:
            if event["action"] == "list":
                found[one] = False
                dropped.discard(one)
            elif event["action"] == "yank" and one in found:
                found[one] = True
            elif event["action"] == "drop":
                found.pop(one, None)
                dropped.add(one)
    return Folded(found, frozenset(dropped), listed)
