"""The compiler cache of a run: started before the first compiler, left out if it cannot be used, counted."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.builder.decide.family import FamilyPlan
from rocwright.builder.decide.plan import BuildPlan, CacheUse
from rocwright.builder.rocm.rocm import Rocm
from rocwright.builder.run.isolation import compiler_environment, outcome_environment, rocm_identity
from rocwright.builder.run.project import Note
from rocwright.builder.units.caches import CacheCounter, cache_settings
from rocwright.builder.units.launch import HIP, HOST, KEYS, write_launchers

# What compiles for the host; the assembler belongs to no compiler.
_PROGRAMS = {"CC": "cc", "CXX": "c++", "AS": "as"}


class Caching:
    """A cache around the builds of a plan; `plan` is the one to carry out, without the cache if need be."""

    def __init__(self, plan: FamilyPlan, cache: str, work_dir: Path, note: Note) -> None:
        settings = {name: value for each in plan.builds for name, value in cache_settings(each.env).items()}
        self._counter = CacheCounter(cache, log=work_dir / "log" / "cache.log", env=settings)
        self._note = note
        self.plan, self.cache, self.why = plan, cache, ""

    def begin(self, work_dir: Path, *, cache_hip: bool) -> None:
        """Start it, and write the launchers that use it."""
        self.why = self._counter.before()
        if self.why:
            self._note(f"warning: compilers run without {self.cache}, which cannot be used: {self.why}")
            self.plan, self.cache = without_cache(self.plan, self.cache), ""
        keys = keys_of(self.plan, os.environ) if self.cache else ("", "")
        write_launchers(work_dir, cache=self.cache, cache_hip=cache_hip, caller=os.environ, keys=keys)
        if self.cache:
            self.plan = _keyed(self.plan, self.cache, keys)

    def end(self) -> CacheUse | None:
        """What it did; None without a cache."""
        if self.why:
            return CacheUse(self._counter.cache, note=f"could not be used: {self.why}")
        return self._counter.after()


def without_cache(plan: FamilyPlan, cache: str) -> FamilyPlan:
    """The plan with no launcher that is the cache itself; those of the recorder run none."""
    return _changed(
        plan,
        lambda env: {
            name: value for name, value in env.items() if name not in (*HOST, *HIP) or value != cache
        },
    )


def _keyed(plan: FamilyPlan, cache: str, keys: tuple[str, str]) -> FamilyPlan:
    """Where no launcher of ours stands before the compilers, one key is for all of them."""

    def with_key(env: Mapping[str, str]) -> dict[str, str]:
        direct = any(env.get(name) == cache for name in HOST)
        return {**env, KEYS[cache]: "-".join(keys)} if direct else dict(env)

    return _changed(plan, with_key)


def _changed(plan: FamilyPlan, change: Callable[[Mapping[str, str]], dict[str, str]]) -> FamilyPlan:
    builds = tuple(msgspec.structs.replace(each, env=change(each.env)) for each in plan.builds)
    return msgspec.structs.replace(plan, builds=builds)


# -- what tells results apart that a cache would take for the same


def keys_of(plan: FamilyPlan, caller: Mapping[str, str]) -> tuple[str, str]:
    """What a host compiler's result depends on that no cache looks at, and what a device compiler's does.

    That is what compilers read from the environment, and the programs and libraries that they run or load
    behind the one that is called: a cache looks at that one alone.
    """
    told = [compiler_environment(outcome_environment(caller, each.env)) for each in plan.builds]
    environment = msgspec.json.encode(told, order="sorted")
    device = environment + device_compiler(plan.rocm).encode()
    programs = _programs(plan.builds, caller)
    # ROCm's own clang may be the host's compiler as well.
    of_rocm = any(path.is_relative_to(Path(plan.rocm.root).resolve()) for path in programs)
    host = (device if of_rocm else environment) + b"".join(map(_content, programs))
    return hashlib.sha256(host).hexdigest()[:32], hashlib.sha256(device).hexdigest()[:32]


def device_compiler(rocm: Rocm) -> str:
    """Differs when another compiler lies in this ROCm; the same wherever its packages are installed."""
    records = sorted(Path(rocm.site).glob("rocm_sdk_core*.dist-info/RECORD")) if rocm.site else []
    if not records:
        return rocm_identity(rocm)
    digest = hashlib.sha256()
    for row in (row for record in records for row in record.read_text(encoding="utf-8").splitlines()):
        # Not what an installer writes, which names the place.
        if not row.startswith("..") and ".dist-info/" not in row and ",sha256=" in row:
            digest.update(row.encode() + b"\n")
    return digest.hexdigest()


def _programs(builds: Sequence[BuildPlan], caller: Mapping[str, str]) -> list[Path]:
    found: dict[Path, None] = {}
    for each in builds:
        path = each.env.get("PATH") or caller.get("PATH", os.defpath)
        for variable, name in _PROGRAMS.items():
            words = (each.env.get(variable) or caller.get(variable) or name).split() or [name]
            found |= dict.fromkeys(
                Path(there).resolve() for word in words if (there := shutil.which(word, path=path))
            )
    return list(found)


def _content(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return b""
