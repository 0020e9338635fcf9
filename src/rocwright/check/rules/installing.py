"""Rules about installations that were tried: every file installs, with one candidate for each project."""

from __future__ import annotations

from collections.abc import Iterator

from rocwright.check.context import Context
from rocwright.check.rules.base import Problem, SetRule

# These are about no single file.
SET = "set"


def _installs(context: Context) -> Iterator[tuple[str, Problem]]:
    for done in context.installations:
        for problem in done.problems:
            yield (
                SET,
                Problem(
                    f"{done.installer} for {done.where}: {problem}",
                    done.next_step or "resolve what the installer says, then check again",
                ),
            )


def _candidates(context: Context) -> Iterator[tuple[str, Problem]]:
    for done in context.installations:
        for project, files in sorted(done.asked.items()):
            if len(files) > 1:
                yield (
                    SET,
                    Problem(
                        f"{done.installer} for {done.where} tried {len(files)} files of {project}: "
                        f"{', '.join(sorted(files))}",
                        "leave one file of each project for a Python; each more costs users a download",
                    ),
                )


def _unproved(context: Context) -> Iterator[tuple[str, Problem]]:
    for done in context.installations:
        if done.not_tried is not None:
            yield (
                SET,
                Problem(
                    f"not proved with {done.installer} for {done.where}: {done.not_tried}",
                    done.next_step or "check again where it can be tried",
                ),
            )


RULES = (
    SetRule("set-install", "pip and uv resolve and install the set.", _installs, proof=True),
    SetRule(
        "set-candidates",
        "Installers look at one file of each project.",
        _candidates,
        proof=True,
    ),
    SetRule(
        "set-unproved",
        "The installation was tried with both installers, on every Python and platform.",
        _unproved,
        severity="warning",
        proof=True,
    ),
)
