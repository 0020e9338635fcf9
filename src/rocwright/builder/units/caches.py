"""What a compiler cache did for a build: counts before and after, and advice when it stands in the way.

Counters belong to the user's cache, so they are read twice and subtracted, not zeroed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rocwright.errors import RocwrightError
from rocwright.system import process

# ccache answers a compiler that it cannot run, as aotriton's own, with the system's words for EINVAL.
_INVALID = re.compile(r"invalid argument", re.IGNORECASE)
_CACHE_HITS = ("direct_cache_hit", "preprocessed_cache_hit")
# ccache's own names of calls that it lets pass; questions to a compiler are not among them.
_UNCACHED = (
    "bad_compiler_arguments",
    "compile_failed",
    "could_not_use_modules",
    "could_not_use_precompiled_header",
    "internal_error",
    "multiple_source_files",
    "unsupported_code_directive",
    "unsupported_compiler_option",
    "unsupported_environment_variable",
    "unsupported_source_language",
)


class CacheUse(msgspec.Struct, frozen=True):
    """Calls that a cache answered or passed on during a build; `uncached` ones it does not keep.

    Those for device code are counted apart as well, where the cache itself tells (sccache). `note` says why
    figures are missing or low, where that is known.
    """

    cache: str
    hits: int = 0
    misses: int = 0
    uncached: int = 0
    hip_hits: int = 0
    hip_misses: int = 0
    note: str = ""


class _Counts(msgspec.Struct, frozen=True):
    """As in `CacheUse`, since whenever the cache began to count."""

    hits: int
    misses: int
    uncached: int
    hip_hits: int = 0
    hip_misses: int = 0


class _PerLanguage(msgspec.Struct, frozen=True):
    counts: dict[str, int] = {}


class _SccacheCounters(msgspec.Struct, frozen=True):
    """What is needed of `stats` in sccache's JSON; counts are by language."""

    requests_not_cacheable: int = 0
    cache_hits: _PerLanguage = _PerLanguage()
    cache_misses: _PerLanguage = _PerLanguage()


class _SccacheStatistics(msgspec.Struct, frozen=True):
    stats: _SccacheCounters


def cache_settings(env: Mapping[str, str]) -> dict[str, str]:
    """The variables among `env` that are for the caches themselves, such as where results are kept."""
    return {name: value for name, value in env.items() if name.startswith(("CCACHE_", "SCCACHE_"))}


class CacheCounter:
    """Counts around a build: `before`, then `after` also when the build failed. Never raises.

    sccache's server is started by `before`, unless one runs, with the build's settings; `after` ends it then.
    """

    def __init__(self, cache: str, *, log: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        self.cache = cache
        self._log = log
        self._env = dict(env or {})
        self._counts: _Counts | None = None
        self._started = False
        self._running = False

    def before(self) -> None:
        """Remember the counts."""
        if self.cache == "sccache":
            self._started = self._say("--start-server") is not None
            self._running = not self._started
        self._counts = self._read()

    def after(self) -> CacheUse | None:
        """What was counted since; None without a cache."""
        if not self.cache:
            return None
        now = self._read()
        if self._started:
            self._say("--stop-server")
        if now is None or self._counts is None:
            return CacheUse(self.cache, note=f"{self.cache} did not give its counts")
        use = _difference(self.cache, self._counts, now)
        if self._running and not use.note:
            note = "sccache's server ran already, so it kept the settings that it was started with"
            return msgspec.structs.replace(use, note=note)
        return use

    def _say(self, *words: str) -> str | None:
        try:
            return process.run([self.cache, *words], env=self._env, log=self._log).stdout
        except RocwrightError:
            return None

    def _read(self) -> _Counts | None:
        if self.cache == "ccache":
            text = self._say("--print-stats")
            return None if text is None else parse_ccache(text)
        if self.cache == "sccache":
            text = self._say("--show-stats", "--stats-format=json")
            return None if text is None else parse_sccache(text)
        return None


def parse_ccache(text: str) -> _Counts:
    """Counts of `ccache --print-stats`: a name, a tab and a number a line."""
    rows = (line.split("\t") for line in text.splitlines())
    values = {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
    hits = sum(values.get(name, 0) for name in _CACHE_HITS)
    misses = values.get("cache_miss", 0)
    return _Counts(hits, misses, sum(values.get(name, 0) for name in _UNCACHED))


def parse_sccache(text: str) -> _Counts | None:
    """Counts of `sccache --show-stats --stats-format=json`, of all languages and of HIP."""
    try:
        stats = msgspec.json.decode(text, type=_SccacheStatistics).stats
    except msgspec.DecodeError:
        return None
    hits, misses = stats.cache_hits.counts, stats.cache_misses.counts
    device = [counts.get("HIP", 0) for counts in (hits, misses)]
    return _Counts(sum(hits.values()), sum(misses.values()), stats.requests_not_cacheable, *device)


def _difference(cache: str, before: _Counts, now: _Counts) -> CacheUse:
    values = [end - start for start, end in zip(*map(msgspec.structs.astuple, (before, now)), strict=True)]
    if min(values) < 0:
        note = f"{cache}'s counts began anew during the build; these are from then on"
        return CacheUse(cache=cache, note=note, **msgspec.structs.asdict(now))
    return CacheUse(cache, *values)


def advice(log_text: str, cache: str) -> str | None:
    """What to try when a build with a cache failed as aotriton's does with ccache; None otherwise."""
    if not cache or not _INVALID.search(log_text):
        return None
    return (
        f'the log says "invalid argument" and {cache} was in use: '
        f"aotriton's build is known for that; try again without --use-{cache}"
    )
