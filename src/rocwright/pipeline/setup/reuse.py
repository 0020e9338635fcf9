"""The run whose ROCm packages can be taken: the latest that succeeded and has all that is wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rocwright.errors import InvalidInput, Unreachable
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.runs.run import Run, records_of, runs_in

# Of so many of the newest runs one should have what is wanted.
_MOST_RUNS = 50


def latest_packages(
    store: ObjectStore, groups: Mapping[str, Sequence[str]], *, own: str, external_repo: str = ""
) -> str:
    """The newest run with ROCm's packages for these groups by platform, all successes; "" for none.

    `own` is the run that asks: its packages are not there yet. Only records are read.
    """
    platforms = list(groups)
    if not platforms:
        return ""
    for run in runs_in(store, platforms[0], external_repo)[:_MOST_RUNS]:
        if run.run_id != own and all(
            _has(store, Run(run.run_id, platform, external_repo), groups[platform]) for platform in platforms
        ):
            return run.run_id
    return ""


def latest_told(
    store: ObjectStore, groups: Mapping[str, Sequence[str]], *, own: str, note: Callable[[str], None]
) -> str:
    """`latest_packages`; "" with a note where the store cannot be read, as by a fork's pull request."""
    try:
        return latest_packages(store, groups, own=own)
    except (InvalidInput, Unreachable) as error:
        note(f"warning: no earlier run can be looked for: {error.what}")
        return ""


def _has(store: ObjectStore, run: Run, groups: Sequence[str]) -> bool:
    results = {record.group: record.result for record in records_of(store, run, "python")}
    return all(results.get(group) == "success" for group in groups)
