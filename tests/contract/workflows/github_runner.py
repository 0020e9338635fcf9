"""A stand-in for GitHub's runners: does the jobs of workflows one after the other, as their `needs` have it.

It follows calls and matrices, evaluates conditions and expressions, and hands every command to a function of
the test. Actions of others are stand-ins, too: that they are pinned and what they are given is noted. No
containers, no machines: what a job would run on is noted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from contract.workflows.github_expressions import FUNCTIONS, as_text, filled, is_true

PINNED = re.compile(r"(?P<name>[\w.-]+/[\w./-]+)@[0-9a-f]{40}")
DONE, FAILED, SKIPPED = "success", "failure", "skipped"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Given to those who run commands: the command and its environment; gives the outputs, None where it failed.
Execute = Callable[[str, dict[str, str]], "dict[str, str] | None"]


def load(text: str) -> dict[str, Any]:
    read = yaml.load(text, Loader=_LOADER)
    # YAML 1.1 takes the word for true.
    return {("on" if key is True else key): value for key, value in read.items()}


class Failed(Exception):
    """Raised by those who run commands for one that fails after it has told something: its outputs."""

    def __init__(self, outputs: dict[str, str]) -> None:
        self.outputs = outputs


@dataclass(frozen=True)
class Result:
    result: str
    outputs: dict[str, Any]


@dataclass
class Runner:
    """Workflows and actions by path; `github` and `variables` are the contexts of every job."""

    files: Mapping[str, dict[str, Any]]
    execute: Execute
    github: dict[str, Any]
    variables: dict[str, str] = field(default_factory=dict)
    # (workflow, job, what it runs on) of each job that ran or was skipped; (action, its inputs).
    jobs: list[tuple[str, str, str]] = field(default_factory=list)
    actions: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    # Actions that fail.
    refused: frozenset[str] = frozenset()

    def start(self, path: str, inputs: Mapping[str, Any] | None = None) -> Result:
        """The run of a workflow that an event starts."""
        return self._workflow(path, dict(inputs or {}), 1)

    def _workflow(self, path: str, inputs: dict[str, Any], depth: int) -> Result:
        assert depth <= 4, "GitHub follows four workflows"
        whole = self.files[path]
        assert whole["permissions"] == {}
        common = {"github": self.github, "inputs": inputs, "vars": self.variables}
        env = filled(whole.get("env", {}), common)
        ended: dict[str, Result] = {}
        waiting = dict(whole["jobs"])
        while waiting:
            name = next(name for name, job in waiting.items() if set(_needs(job)) <= ended.keys())
            job = waiting.pop(name)
            needs = {one: {"result": ended[one].result, "outputs": ended[one].outputs} for one in _needs(job)}
            before = [ended[one].result for one in _ancestors(name, whole["jobs"])]
            ended[name] = self._job(path, name, job, {**common, "needs": needs}, env, before, depth)
        results = {one.result for one in ended.values()}
        outputs = whole["on"].get("workflow_call", {}).get("outputs", {}) if "on" in whole else {}
        jobs = {name: {"outputs": one.outputs} for name, one in ended.items()}
        told = {name: filled(row["value"], {**common, "jobs": jobs}) for name, row in outputs.items()}
        return Result(FAILED if FAILED in results else DONE, told)

    def _job(
        self,
        path: str,
        name: str,
        job: dict[str, Any],
        contexts: dict[str, Any],
        env: dict[str, Any],
        before: list[str],
        depth: int,
    ) -> Result:
        functions = {
            **FUNCTIONS,
            "always": lambda: True,
            "cancelled": lambda: False,
            "success": lambda: all(one == DONE for one in before),
            "failure": lambda: FAILED in before,
        }
        condition = job.get("if", "${{ success() }}")
        if not is_true(filled(condition, contexts, functions)):
            self.jobs.append((path, name, SKIPPED))
            return Result(SKIPPED, {})
        found = []
        for matrix in _matrix(job, contexts):
            here = {**contexts, "matrix": matrix}
            assert as_text(filled(job.get("name", name), here))
            found.append(
                self._called(job, here, depth) if "uses" in job else self._steps(path, name, job, here, env)
            )
        assert found, f"{path}: {name} has an empty matrix, which GitHub refuses"
        return Result(FAILED if any(one.result == FAILED for one in found) else DONE, found[-1].outputs)

    def _called(self, job: dict[str, Any], contexts: dict[str, Any], depth: int) -> Result:
        path = job["uses"].removeprefix("./")
        declared = self.files[path]["on"]["workflow_call"]["inputs"]
        given = filled(job.get("with", {}), contexts)
        assert given.keys() <= declared.keys(), (path, given.keys() - declared.keys())
        for name, row in declared.items():
            assert name in given or not row.get("required"), (path, name)
            assert isinstance(given.get(name, ""), str) or given[name] is None, (path, name, given[name])
        inputs = {name: as_text(given.get(name, row.get("default"))) for name, row in declared.items()}
        return self._workflow(path, inputs, depth + 1)

    def _steps(
        self, path: str, name: str, job: dict[str, Any], contexts: dict[str, Any], env: dict[str, Any]
    ) -> Result:
        label = as_text(filled(job["runs-on"], contexts))
        assert label, f"{path}: {name} has no machine"
        self.jobs.append((path, name, label))
        env = {**env, **filled(job.get("env", {}), contexts)}
        outputs, good = self._each(job["steps"], {**contexts, "env": env}, env)
        told = filled(job.get("outputs", {}), {**contexts, "steps": outputs})
        return Result(DONE if good else FAILED, told)

    def _each(
        self, steps: list[dict[str, Any]], contexts: dict[str, Any], env: dict[str, Any]
    ) -> tuple[dict[str, Any], bool]:
        done: dict[str, Any] = {}
        good = True
        for step in steps:
            here, left = {**contexts, "steps": done}, {}
            condition = step.get("if", True)
            # Without such a word a step is skipped after one that failed.
            if not good and "always()" not in str(condition):
                continue
            if not is_true(filled(condition, here, {**FUNCTIONS, "always": lambda: True})):
                continue
            given = filled(step.get("with", {}), here)
            if "run" in step:
                own = {**env, **filled(step.get("env", {}), here)}
                # Text of the event must not become text of a program.
                assert "${{" not in step["run"]
                try:
                    told = self.execute(step["run"], {key: as_text(value) for key, value in own.items()})
                except Failed as failed:
                    told, left = None, failed.outputs
            elif step["uses"].startswith("./"):
                told = self._composite(step["uses"], given, here, env)
            else:
                pinned = PINNED.fullmatch(step["uses"])
                assert pinned is not None, step["uses"]
                self.actions.append((pinned["name"], given))
                told = None if pinned["name"] in self.refused else {}
            if "id" in step:
                outcome = FAILED if told is None else DONE
                done[step["id"]] = {"outputs": told or left, "outcome": outcome}
            good &= told is not None or step.get("continue-on-error", False)
        return done, good

    def _composite(
        self, uses: str, given: dict[str, Any], contexts: dict[str, Any], env: dict[str, Any]
    ) -> dict[str, str] | None:
        action = self.files[uses.removeprefix("./") + "/action.yml"]
        assert given.keys() <= action["inputs"].keys()
        inputs = {
            name: as_text(given.get(name, row.get("default"))) for name, row in action["inputs"].items()
        }
        # Variables and secrets are not there; the caller's environment is.
        here = {"inputs": inputs, "github": contexts["github"], "env": contexts["env"]}
        done, good = self._each(action["runs"]["steps"], here, env)
        if not good:
            return None
        return {
            name: as_text(filled(row["value"], {**here, "steps": done}))
            for name, row in action["outputs"].items()
        }


def _needs(job: Mapping[str, Any]) -> list[str]:
    return list(job.get("needs", []))


def _ancestors(name: str, jobs: Mapping[str, Any]) -> set[str]:
    found: set[str] = set()
    waiting = _needs(jobs[name])
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += _needs(jobs[one])
    return found


def _matrix(job: Mapping[str, Any], contexts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if "strategy" not in job:
        yield {}
        return
    assert job["strategy"]["fail-fast"] is False
    ((name, rows),) = filled(job["strategy"]["matrix"], contexts).items()
    assert len(rows) <= 256, "GitHub takes 256 jobs of a matrix"
    for row in rows:
        yield {name: row}


def files_of(root: Path) -> dict[str, dict[str, Any]]:
    """The workflows and actions of a repository."""
    return {
        path.relative_to(root).as_posix(): load(path.read_text(encoding="utf-8"))
        for path in sorted((root / ".github").rglob("*.yml"))
    }


def event_json(github: Mapping[str, Any]) -> str:
    """What GITHUB_EVENT_PATH holds."""
    return json.dumps(github.get("event", {}))
