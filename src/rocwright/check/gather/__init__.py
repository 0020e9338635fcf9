"""Gather what the rules need from wheels and sdists, each byte once, without unpacking anything to a disk.

Gathering never stops at the first fault: a damaged part becomes a fact of its own, so that one run reports
everything. The members of all files are read by several threads, the large ones first; memory does not grow
with the size of a library, of which only headers and a few places to inflate from again are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from rocwright.check.facts import Facts
from rocwright.check.gather.look import Look
from rocwright.check.gather.members import Batch, Seen, batches
from rocwright.check.gather.python import PythonReader, is_module
from rocwright.check.gather.sdist import gather_sdist
from rocwright.check.gather.wheel import Gathered, begin, finish, read
from rocwright.system.parallel import in_order
from rocwright.system.progress import counted

# Room for what every thread holds, twice, so that one slow member does not keep the others waiting.
_WINDOW = 64 << 20
_SDIST, _OUTCOME = 8 << 20, 64 << 10


def gather(path: Path, *, threads: int = 2) -> Facts:
    """Facts of one wheel or sdist; never raises for a bad file."""
    return gather_all([path], threads=threads)[0]


def gather_all(paths: Sequence[Path], *, threads: int = 2) -> list[Facts]:
    """Facts of several files, in their order; never raises for a bad file."""
    wheels = {path: begin(path) for path in paths if path.name.endswith(".whl")}
    done: dict[Path, Facts] = {}
    gathered = {path: Gathered() for path in wheels}
    jobs: list[_Job] = [(path, None) for path in dict.fromkeys(paths) if path not in wheels]
    jobs += [(path, batch) for path, wheel in wheels.items() for batch in batches(wheel.members)]
    jobs.sort(key=lambda job: -(job[1].size if job[1] else _SDIST))
    sources = {
        path: wheel.members
        for path, wheel in wheels.items()
        if any(is_module(one.name) for one in wheel.members)
    }
    look = Look()

    def work(job: _Job) -> tuple[Path, Facts | list[Seen] | str]:
        path, batch = job
        if batch is None:
            return path, gather_sdist(path)
        return path, read(wheels[path], batch, look, count.add, several=threads > 1)

    items = ((job, job[1].weight if job[1] else _SDIST) for job in jobs)
    window = threads * _WINDOW
    with (
        PythonReader(sources, threads=threads) as python,
        counted("checking", sum(batch.size for _, batch in jobs if batch)) as count,
        closing(in_order(work, items, threads=threads, window=window, weigh=lambda _: _OUTCOME)) as outcomes,
    ):
        for path, outcome in outcomes:
            if isinstance(outcome, Facts):
                done[path] = outcome
            else:
                gathered[path].add(outcome)
        modules = python.done()
    for path, wheel in wheels.items():
        facts = finish(wheel, gathered.pop(path))
        told = modules.get(path, ())
        # Whether marks of a merge are a module's text or its fault, only an interpreter can tell.
        known = {one.member for one in told}
        marked = [name for name in facts.unmerged if is_module(name) and name not in known]
        if marked:
            with PythonReader({path: wheel.members}, only=marked) as late:
                told += late.done().get(path, ())
        left = python.left.get(path)
        done[path] = msgspec.structs.replace(facts, python=told, judged_by=python.minor, unjudged=left)
    return [done[path] for path in paths]


_Job = tuple[Path, Batch | None]
