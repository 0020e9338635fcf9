"""What started a run, read once into a value: the event of GitHub Actions, or the same told by options.

Where the event is a change: which files it touches, by git's answer, and what the table `data/triggers.toml`
starts for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from rocwright.errors import CommandFailed, InvalidInput, UsageError
from rocwright.model.patterns import fits
from rocwright.pipeline.define.inputs import SCHEDULE
from rocwright.system.git import Git, is_repository

Trigger = Literal["pull_request", "push", "schedule", "workflow_dispatch"]
TRIGGERS: tuple[Trigger, ...] = ("pull_request", "push", "schedule", "workflow_dispatch")
# Events that carry the same payload, or start a run as another does.
_SAME: Mapping[str, Trigger] = {
    "pull_request_target": "pull_request",
    "merge_group": "push",
    "workflow_call": "workflow_dispatch",
    "repository_dispatch": "workflow_dispatch",
}
_NO_COMMIT = "0" * 40
Level = Literal["nothing", "tests", "pytorch", "rocm", "everything"]
# From the least to the most.
LEVELS: tuple[Level, ...] = ("nothing", "tests", "pytorch", "rocm", "everything")


class Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What started a run.

    `branch` is what was pushed to, or that a pull request asks to be merged into. `inputs` are those
    of a dispatch, empty inputs left out. `changed` are paths of the repository, None where nobody knows them:
    then everything counts as changed. `base` is the commit that the changes are counted from. `idle` says why
    the event is to start nothing, whatever it is.
    """

    trigger: Trigger
    branch: str = ""
    labels: tuple[str, ...] = ()
    inputs: dict[str, str] = {}
    changed: tuple[str, ...] | None = None
    base: str = ""
    fork: bool = False
    idle: str = ""


def read_event(environment: Mapping[str, str]) -> Event:
    """The event that `GITHUB_EVENT_NAME` and `GITHUB_EVENT_PATH` tell of; `changed` is not known yet.

    Raises `InvalidInput` for an event that starts no run, or a payload that cannot be read.
    """
    name = environment.get("GITHUB_EVENT_NAME", "")
    trigger = _trigger(name)
    payload = _payload(environment)
    pull = _part(payload, "pull_request")
    branch = environment.get("GITHUB_REF_NAME", "")
    if trigger == "pull_request":
        branch = environment.get("GITHUB_BASE_REF", "") or _text(_part(pull, "base"), "ref")
    labels = pull.get("labels") or []
    if not isinstance(labels, list):
        raise _unreadable(environment, "pull_request.labels is not a list")
    return Event(
        trigger=trigger,
        branch=branch,
        labels=tuple(_text(label, "name") for label in labels if isinstance(label, dict)),
        inputs=_inputs(_part(payload, "inputs")),
        base=_base(payload, pull),
        fork=_is_fork(name, pull),
        idle=_idle(trigger, payload, environment),
    )


def told_event(
    trigger: Trigger,
    *,
    branch: str = "",
    labels: Sequence[str] = (),
    inputs: Sequence[str] = (),
    changed: Sequence[str] | None = None,
) -> Event:
    """An event that options tell of; `inputs` are `NAME=VALUE`, `UsageError` is raised for another."""
    found: dict[str, Any] = {}
    for text in inputs:
        name, equals, value = text.partition("=")
        if not name.strip() or not equals:
            raise UsageError(f"--input is {text!r}", next_step="write it like build_pytorch=false")
        if name.strip() in found:
            raise UsageError(f"--input gives {name.strip()} twice", next_step="give each input once")
        found[name.strip()] = value
    if found and trigger != "workflow_dispatch":
        raise UsageError(f"a {trigger} has no inputs", next_step="add --event workflow_dispatch")
    return Event(
        trigger=trigger,
        branch=branch,
        labels=tuple(labels),
        inputs=_inputs(found),
        changed=None if changed is None else tuple(changed),
    )


def from_fork(environment: Mapping[str, str]) -> bool:
    """Whether the run is that of a pull request from another repository; False where no event is named.

    A workflow that has found out by itself says so in IS_PR_FROM_FORK; what the event says is not overruled.
    Raises `InvalidInput` for a payload that cannot be read.
    """
    if environment.get("IS_PR_FROM_FORK", "").strip().lower() in ("true", "1"):
        return True
    name = environment.get("GITHUB_EVENT_NAME", "")
    if _SAME.get(name, name) != "pull_request":
        return False
    return _is_fork(name, _part(_payload(environment), "pull_request"))


def _is_fork(name: str, pull: Mapping[str, Any]) -> bool:
    """A repository that is gone, or is not told, counts as another."""
    if _SAME.get(name, name) != "pull_request":
        return False
    sides = [_text(_part(_part(pull, side), "repo"), "full_name") for side in ("head", "base")]
    return not sides[0] or sides[0] != sides[1]


def _idle(trigger: Trigger, payload: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """Schedules are the repository's own: its forks have the file, too, and nobody there asked for it."""
    if trigger != "schedule":
        return ""
    said = environment.get(SCHEDULE, "").strip().lower()
    if said not in ("", "on", "off"):
        raise InvalidInput(
            f"the variable {SCHEDULE} is {said!r}", next_step="set it to on or off, or take it away"
        )
    if said == "off":
        return f"the variable {SCHEDULE} is off: the schedule starts nothing"
    if said != "on" and _part(payload, "repository").get("fork") is True:
        return (
            "this repository is a fork: its schedule starts nothing. To have it, set the variable"
            f" {SCHEDULE} to on"
        )
    return ""


def _trigger(name: str) -> Trigger:
    for known in TRIGGERS:
        if _SAME.get(name, name) == known:
            return known
    raise InvalidInput(
        f"{name!r} is not an event that starts a run" if name else "nothing says which event started the run",
        next_step=f"give --event: {' '.join(TRIGGERS)}",
    )


def _payload(environment: Mapping[str, str]) -> dict[str, Any]:
    path = environment.get("GITHUB_EVENT_PATH")
    if not path:
        return {}
    try:
        read = msgspec.json.decode(Path(path).read_bytes())
    except OSError as error:
        raise _unreadable(environment, error.strerror or "it is not there") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _unreadable(environment, str(error)) from error
    if not isinstance(read, dict):
        raise _unreadable(environment, "it is not a JSON object")
    return read


def _unreadable(environment: Mapping[str, str], why: str) -> InvalidInput:
    path = environment.get("GITHUB_EVENT_PATH", "")
    return InvalidInput(
        f"the event {path} cannot be read: {why}",
        where=path or None,
        next_step="set GITHUB_EVENT_PATH to the payload of the event",
    )


def _inputs(given: Mapping[str, Any]) -> dict[str, str]:
    """Inputs as text, as a workflow's expressions have them; empty inputs were not given."""
    found = {}
    for name, value in given.items():
        text = str(value).lower() if isinstance(value, bool) else "" if value is None else str(value).strip()
        if text:
            found[name] = text
    return found


def _base(payload: Mapping[str, Any], pull: Mapping[str, Any]) -> str:
    """The commit before: of a pull request its base, of a push what the branch was; of a new branch none."""
    before = _text(_part(pull, "base"), "sha") or _text(payload, "before")
    return "" if before == _NO_COMMIT else before


def _part(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = values.get(name)
    return found if isinstance(found, dict) else {}


def _text(values: Mapping[str, Any], name: str) -> str:
    found = values.get(name)
    return found if isinstance(found, str) else ""


# -- which files a change touches


def changed_files(tree: Path, base: str, *, merged: bool) -> tuple[str, ...] | None:
    """Paths that differ between a commit and HEAD of the work tree, both names of a renamed file.

    With `merged`, HEAD may be a merge of a pull request: what its base has beside is not counted. None where
    the commit is not here, as in a checkout of little history.
    """
    git_dir = tree / ".git"
    if not is_repository(git_dir):
        return None
    git = Git(git_dir, tree)
    commit = git.resolve(base) if base else None
    if commit is None and merged and git.resolve("HEAD^2") is not None:
        # GitHub checks out the merge: its first parent is the base as it was then.
        commit = git.resolve("HEAD^1")
    if commit is None or git.resolve("HEAD") is None:
        return None
    words = ["diff", "--name-only", "--no-renames", "-z"]
    if merged:
        try:
            return tuple(git.records(*words, f"{commit}...HEAD"))
        except CommandFailed:
            # A checkout without the history between them: their difference says at least as much.
            pass
    return tuple(git.records(*words, commit, "HEAD"))


def changed_since(tree: Path, name: str) -> tuple[str, ...]:
    """As `changed_files`; raises `InvalidInput` for a name that git does not know."""
    found = changed_files(tree, name, merged=True)
    if found is None:
        raise InvalidInput(
            f"git knows no commit {name!r} here", where=tree, next_step="name a branch, a tag or a commit"
        )
    return found


# -- which change starts what. Pure


class PathRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files whose change starts the same; the patterns are those of every table."""

    name: str
    starts: Level
    paths: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.paths:
            raise ValueError(f"the rule {self.name!r} has no paths, so no file matches it")


class Triggers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table: rules in order, and the branches that more families are tried on."""

    branches: tuple[str, ...]
    rule: tuple[PathRule, ...]

    def __post_init__(self) -> None:
        names = [rule.name for rule in self.rule]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two rules are called {name!r}")

    def rule_of(self, path: str) -> PathRule | None:
        """The first rule that fits a file; None where none does, and the file counts as everything."""
        return next((rule for rule in self.rule if fits(path, rule.paths)), None)

    def is_main(self, branch: str) -> bool:
        """Whether pushes to a branch try the families of the tier postsubmit."""
        return fits(branch, self.branches)


class Started(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a change starts, and the files that say so: one of each rule of that level."""

    level: Level
    because: tuple[str, ...] = ()


def started(changed: Iterable[str] | None, triggers: Triggers) -> Started:
    """What a change of these files starts: all where nobody knows them, nothing where there are none."""
    if changed is None:
        return Started("everything", ("it is not known which files changed",))
    found: dict[Level, dict[str, str]] = {}
    for path in sorted(set(changed)):
        rule = triggers.rule_of(path)
        level: Level = "everything" if rule is None else rule.starts
        name = "no rule of triggers.toml" if rule is None else rule.name
        found.setdefault(level, {}).setdefault(name, path)
    if not found:
        return Started("nothing", ("no file changed",))
    most = max(found, key=LEVELS.index)
    return Started(most, tuple(f"{path} ({name})" for name, path in found[most].items()))
