"""Options and inputs of a workflow as text, turned into the values that a plan is made from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import get_args

from rocwright.errors import InvalidInput, UsageError
from rocwright.model.plan import Rocm
from rocwright.model.profile import Sources
from rocwright.system.files import PARTIAL

# Of a workflow: what is built where no option says so.
SOURCES = "ROCWRIGHT_SOURCES"
_RUN_ID = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
# Objects of all runs lie beside the runs.
_TAKEN = ("objects",)


def words(given: Iterable[str]) -> tuple[str, ...]:
    """Names separated by spaces, commas or semicolons, in the order given."""
    return tuple(word for text in given for word in re.split(r"[\s,;]+", text) if word)


def families_to_test(text: str) -> tuple[str, ...] | None:
    """Families to test: None for `auto` (all that are built), empty for `none`, else those named."""
    if text.strip() in ("", "auto"):
        return None
    return () if text.strip() == "none" else words([text])


def sources_of(environment: Mapping[str, str]) -> Sources | None:
    """What `ROCWRIGHT_SOURCES` says, None where it is empty; raises `UsageError` for anything else."""
    said = environment.get(SOURCES, "")
    found = next((one for one in get_args(Sources) if one == said), None)
    if said and found is None:
        raise UsageError(
            f"{SOURCES} is {said!r}", next_step=f"set it to one of: {' '.join(get_args(Sources))}"
        )
    return found


def choose_rocm(
    *,
    prefix: str | None = None,
    version: str = "",
    run_id: str = "",
    reuse: str | None = None,
    repository: str = "",
) -> Rocm:
    """Where ROCm comes from; raises `UsageError` naming the two options that contradict each other."""
    if prefix is not None and run_id:
        raise _both("--rocm-prefix", "--artifact-run-id", "ROCm comes from one place")
    for name, value in (("--reuse", reuse), ("--repository", repository)):
        if value and not run_id:
            raise _alone(name, "--artifact-run-id", "the earlier run")
    if version and prefix is None:
        raise _alone("--rocm-version", "--rocm-prefix", "the installation")
    if prefix is not None:
        return Rocm("prefix", str(Path(prefix).resolve()), version=version)
    if run_id:
        return Rocm("artifacts" if reuse == "artifacts" else "packages", run_id, repository)
    return Rocm()


def _both(one: str, other: str, why: str) -> UsageError:
    return UsageError(f"{one} and {other} contradict each other: {why}", next_step="leave one of them out")


def _alone(option: str, other: str, what: str) -> UsageError:
    return UsageError(f"{option} says something of {what} that {other} names", next_step=f"add {other}")


def require_run_id(run_id: str) -> str:
    """The name itself, when a run can have it; raises `InvalidInput` else."""
    if _RUN_ID.fullmatch(run_id) is None or run_id in _TAKEN or run_id.endswith(PARTIAL):
        raise InvalidInput(
            f"{run_id!r} is no run id",
            next_step="give --run-id letters and digits, with dots, dashes and underscores behind the first "
            "one, at most 128",
        )
    return run_id
