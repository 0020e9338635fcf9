"""What must hold after every single write of a simulated history, found out from the bytes that are served.

Nothing of the code under test takes part: pages are read with a few lines of their own, the log is folded
again, and sets are resolved by the installers' rules for exact pins.
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
from urllib.parse import unquote

from real.store.history_store import Publisher, World

PROJECTS = ("rocm-sdk-core", "rocm-sdk-libraries", "rocm", "torch", "torchvision")
WISHES = (
    ("torch",),
    ("torchvision",),
    ("rocm[libraries]",),
    ("torch", "torchvision", "rocm[libraries]"),
)
MAX_AGE = 300.0
_ANCHOR = re.compile(r'<a href="([^"#]+)#sha256=([0-9a-f]{64})"([^>]*)>([^<]+)</a>')
_PAGE = re.compile(r"((?:v2|v2-staging)/[^/]+/)(?:_json/)?([a-z0-9-]+)/index\.html")
_LOG = re.compile(r"((?:v2|v2-staging)/[^/]+/)_log/([0-9]{8}-[0-9a-f]{16})\.json")


class Violation(AssertionError):
    """A promise of the store is broken; says which, where, and after whose write."""


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


@dataclass
class Truth:
    """What the simulation knows and the store does not: whose a file is, and what may be where."""

    set_of: dict[str, str] = field(default_factory=dict)
    # Channel and family -> sets that may be listed there.
    allowed: dict[str, set[str]] = field(default_factory=dict)
    # Channel and family -> sets whose listing was acknowledged.
    acknowledged: dict[str, list[str]] = field(default_factory=dict)


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
    samples: int = 2
    random: random.Random = field(default_factory=lambda: random.Random(7))

    def wrote(self, publisher: Publisher, key: str) -> None:
        """What must hold after a write to `key`."""
        try:
            self._wrote(publisher, key)
        except Violation as violation:
            raise Violation(f"{violation}\n  after a write of {publisher.name} to {key}") from violation

    def _wrote(self, publisher: Publisher, key: str) -> None:
        if (match := _PAGE.fullmatch(key)) is not None:
            if publisher.fate.frozen_s and publisher.operations >= (publisher.fate.freezes_at or 0):
                self.late.add(match[1])
            backing = self.world.backing
            page = backing.read(key) if key in self.world.modified else None
            self.versions.setdefault(key, [(float("-inf"), None)]).append((self.world.now, page))
            self.channel(match[1])
        elif (match := _LOG.fullmatch(key)) is not None:
            self.log(match[1])
        elif key.startswith("files/") and key not in self.world.modified:
            self.nothing_dangles(key)

    def page(self, prefix: str, project: str) -> bytes | None:
        """The page of a project as it is served now."""
        key = f"{prefix}{project}/index.html"
        return self.world.backing.read(key) if key in self.world.modified else None

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
        self.acknowledged_is_listed(prefix, now)
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

    def log(self, prefix: str) -> None:
        """No acknowledged set is lost from the log."""
        self.checks["logs"] += 1
        self.standing(prefix)

    def standing(self, prefix: str) -> dict[str, bool]:
        """Listed sets, oldest first, and whether each is yanked: the log folded once more."""
        found: dict[str, bool] = {}
        dropped: set[str] = set()
        keys = (key for key in self.world.modified if key.startswith(f"{prefix}_log/"))
        for key in sorted(filter(_LOG.fullmatch, keys)):
            data = self.world.once(key)
            if hashlib.sha256(data).hexdigest()[:16] not in key:
                raise Violation(f"{key} was changed")
            event = json.loads(data)
            for one in event["sets"]:
                if event["action"] == "list":
                    found[one] = False
                elif event["action"] == "yank" and one in found:
                    found[one] = True
                elif event["action"] == "drop":
                    found.pop(one, None)
                    dropped.add(one)
        for one in self.truth.acknowledged.get(prefix, ()):
            if one not in found and one not in dropped:
                raise Violation(f"set {one[:12]} was acknowledged and is not in the log of {prefix}")
        return found

    def acknowledged_is_listed(self, prefix: str, pages: Mapping[str, bytes | None]) -> None:
        """Every acknowledged set stands on every page, unless the log dropped it."""
        standing = self.standing(prefix)
        if prefix in self.late:
            return
        for project, page in pages.items():
            sets = {self.truth.set_of[link.sha256] for link in links(page)} if page is not None else set()
            for one in self.truth.acknowledged.get(prefix, ()):
                self.checks["acknowledged"] += 1
                if one in standing and one not in sets:
                    raise Violation(f"set {one[:12]} was acknowledged and is not on the page of {project}")

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
