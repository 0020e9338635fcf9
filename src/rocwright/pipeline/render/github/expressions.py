"""Conditions of jobs, in GitHub's expressions.

Its `success()` also asks for jobs further back, so a skipped test would skip what a gate lets pass; each
condition here names what it waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def expression(text: str) -> str:
    """As a workflow writes it."""
    return "${{ " + text + " }}"


def has(job: str) -> str:
    """Whether the run has the job at this place: its id, or its rows."""
    return f"fromJSON(inputs.jobs).{job}"


def every(conditions: Iterable[str]) -> str:
    """All of them."""
    return expression(" && ".join(conditions))


def done(shown: Mapping[str, str]) -> list[str]:
    """That each of these jobs succeeded, of those that the run has; by name, as the workflow calls it."""
    return [f"(needs.{as_}.result == 'success' || !{has(job)})" for job, as_ in shown.items()]


def told(step: str, name: str) -> str:
    """An output of a step of the same job."""
    return expression(f"steps.{step}.outputs.{name}")


def first(job_outputs: Iterable[str]) -> str:
    """The first of these that says something."""
    return expression(" || ".join(job_outputs))
