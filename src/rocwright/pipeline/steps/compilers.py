"""The compiler cache of a step that builds: sccache where the run's store is a bucket, ccache on one machine.

It is taken without being asked for where the program is there, and never decides what is built: a cache that
cannot be reached, or refuses, is a warning. What the two can keep of device code is in the how-to guide.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from rocwright.builder.decide.plan import CACHES
from rocwright.builder.units.caches import find_cache
from rocwright.engine.graph import Note
from rocwright.errors import UsageError
from rocwright.pipeline.define.inputs import COMPILER_CACHE
from rocwright.pipeline.options import RunOptions
from rocwright.store.layout import CACHE

_CHOICES = ("auto", "none", *CACHES)
# With these somebody has said already where sccache, or ccache, keeps what it has.
_PLACES = re.compile(
    r"SCCACHE_(BUCKET|DIR|CONF|REDIS.*|MEMCACHED.*|GCS_.*|AZURE_.*|GHA_.*|WEBDAV_.*|OSS_.*|COS_.*|MULTILEVEL_CHAIN"
    r"|SERVER_PORT|SERVER_UDS)|CCACHE_(DIR|CONFIGPATH|REMOTE_STORAGE)"
)

# Longer than one unit of device code takes; what a killed build leaves behind ends after that.
_IDLE_S = "7200"


class CompilerCache(msgspec.Struct, frozen=True):
    """Which cache (empty: none), and the variables that say where it keeps what it has."""

    kind: str = ""
    settings: dict[str, str] = {}


@contextmanager
def compiler_cache(
    options: RunOptions, note: Note, environment: Mapping[str, str] = os.environ
) -> Iterator[CompilerCache]:
    """The cache of a build in this store; sccache's server has a socket of its own while it lasts.

    Raises `UsageError` for a variable that says nothing known.
    """
    bucket = getattr(options.store, "bucket", None)
    kind = choose_kind(_said(environment), shared=bucket is not None, there=_there())
    if not kind or any(_PLACES.fullmatch(name) for name in environment if name.startswith(kind.upper())):
        yield CompilerCache(kind)
        return
    if bucket is not None and kind == "sccache":
        prefix = "/".join(filter(None, (bucket.prefix, CACHE + options.profile)))
        writes = options.publication.upload
        settings = bucket_settings(bucket.name, prefix, bucket.settings, writes=writes)
    else:
        folder = options.cache / "compilers" / kind
        if not _usable(folder):
            note(f"warning: compilers run without {kind}, which cannot write to {folder}")
            yield CompilerCache()
            return
        settings = {f"{kind.upper()}_DIR": str(folder)}
    with _socket(kind) as own:
        yield CompilerCache(kind, settings | own)


def _said(environment: Mapping[str, str]) -> str:
    said = environment.get(COMPILER_CACHE, "").strip() or "auto"
    if said not in _CHOICES:
        raise UsageError(f"{COMPILER_CACHE} is {said!r}", next_step=f"set it to one of: {' '.join(_CHOICES)}")
    return said


def _there() -> tuple[str, ...]:
    return tuple(name for name in CACHES if shutil.which(find_cache(name)))


def choose_kind(said: str, *, shared: bool, there: tuple[str, ...]) -> str:
    """Of those that are there: sccache for a `shared` store, else ccache before sccache; empty for none.

    ccache has no bucket. What is named is taken, also where it is not there: the build then says so.
    """
    if said != "auto":
        return "" if said == "none" else said
    order = ("sccache",) if shared else CACHES
    return next((name for name in order if name in there), "")


def bucket_settings(name: str, prefix: str, settings: Mapping[str, Any], *, writes: bool) -> dict[str, str]:
    """sccache's variables for a bucket as the store has it; credentials are those of the environment."""
    endpoint = str(settings.get("endpoint", ""))
    found = {
        "SCCACHE_BUCKET": name,
        "SCCACHE_REGION": str(settings["region"]),
        "SCCACHE_S3_KEY_PREFIX": prefix,
        "SCCACHE_S3_RW_MODE": "READ_WRITE" if writes else "READ_ONLY",
    }
    if endpoint:
        secure = str(not endpoint.startswith("http://")).lower()
        found |= {"SCCACHE_ENDPOINT": endpoint, "SCCACHE_S3_USE_SSL": secure}
    if settings.get("skip_signature"):
        found["SCCACHE_S3_NO_CREDENTIALS"] = "true"
    return found


def _usable(folder: Path) -> bool:
    """Whether it can be written to: ccache ends every compiler call of a build where it cannot."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@contextmanager
def _socket(kind: str) -> Iterator[dict[str, str]]:
    """A server that is this build's alone has these settings and counts, whoever else builds here.

    In a directory that nobody else can enter, with a name that is short enough for a socket.
    """
    if kind != "sccache" or sys.platform == "win32":
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="rocwright-") as folder:
        yield {"SCCACHE_SERVER_UDS": str(Path(folder, "sccache")), "SCCACHE_IDLE_TIMEOUT": _IDLE_S}
