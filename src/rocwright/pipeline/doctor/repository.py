"""The checkout, and what GitHub says of its repository, judged; pure, but for what `origin` is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from rocwright.errors import RocwrightError, UsageError
from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.doctor.conditions import Condition, Unasked
from rocwright.pipeline.doctor.github import GITHUB, GitHubFacts
from rocwright.system.git import Git

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
# git@HOST:OWNER/NAME.git, ssh://git@HOST/OWNER/NAME, https://HOST/OWNER/NAME.git
_REMOTE = re.compile(
    r"(?:[a-z+]+://(?:[^@/]*@)?(?P<host>[^/:]+)(?::[0-9]+)?/|(?:[^@/]*@)?(?P<short>[^/:]+):)"
    r"(?P<name>[^/]+/[^/]+?)(?:\.git)?/?"
)


def find_repository(given: str, root: Path, environment: Mapping[str, str]) -> tuple[str, str]:
    """OWNER/NAME and the host that has it: as given, as the workflow says, or by the remote `origin`.

    Raises `UsageError` for a name that is none, and where nothing names one.
    """
    server = environment.get("GITHUB_SERVER_URL", "").partition("://")[2].strip("/")
    found = given or environment.get("GITHUB_REPOSITORY", "")
    there, origin = _remote(root) or ("", "")
    found = found or origin
    host = server or (there if found == origin else "") or GITHUB
    if not found:
        raise UsageError(
            "nothing names a repository: there is no --repository, and no remote origin on a server here",
            next_step="add --repository OWNER/NAME, or run it in a checkout",
        )
    if _NAME.fullmatch(found) is None:
        raise UsageError(f"{found!r} is not the name of a repository", next_step="write it as OWNER/NAME")
    return found, host


def _remote(root: Path) -> tuple[str, str] | None:
    """Host and name of the remote `origin`; None without one, and for one that is a folder."""
    if not (root / ".git").exists():
        return None
    try:
        said = Git(root / ".git", root).run("config", "--get", "remote.origin.url", ok=(0, 1)).strip()
    except RocwrightError:
        return None
    found = _REMOTE.fullmatch(said)
    return None if found is None else (found["host"] or found["short"], found["name"])


def judge_checkout(stale: Sequence[str] | None) -> Condition:
    """Whether its workflows are as they are rendered; `stale` are those that are not, None: no checkout."""
    if stale is None:
        detail = "this directory has no .github: nothing is compared"
        return Condition("checkout", "unlooked", detail, "run it at the root of a checkout")
    if stale:
        more = f" and {len(stale) - 1} more" if len(stale) > 1 else ""
        detail = f"{stale[0]}{more} {'are' if more else 'is'} not as rendered"
        return Condition("checkout", "wrong", detail, "rocwright pipeline render, then commit and push")
    return Condition("checkout", "ok", "workflows are as they are rendered")


def judge_github(facts: GitHubFacts) -> Condition:
    """Whether GitHub answered."""
    if isinstance(facts.about, Unasked):
        return facts.about.condition("github")
    what = f"{facts.about.full_name}, {'private' if facts.about.private else 'public'}"
    what += ", a fork" if facts.about.fork else ""
    return Condition("github", "ok", f"{what}, default branch {facts.about.default_branch}")


def judge_actions(facts: GitHubFacts, table: WorkflowTable, repository: str) -> tuple[Condition, ...]:
    """Whether Actions are on, and let the workflows use the actions that they name."""
    if isinstance(facts.permissions, Unasked):
        return () if _silent(facts) else (facts.permissions.condition("actions"),)
    put = f"gh api --method PUT repos/{repository}/actions/permissions -F enabled=true -f allowed_actions="
    if not facts.permissions.enabled:
        return (Condition("actions", "missing", "GitHub Actions are off", f"{put}all"),)
    if facts.permissions.allowed_actions == "local_only":
        names = ", ".join(one.name for one in table.action)
        detail = f"only actions of the owner's own repositories may be used, and workflows use {names}"
        return (Condition("actions", "wrong", detail, f"{put}all"),)
    if isinstance(facts.selected, Unasked):
        return (facts.selected.condition("actions"),)
    if facts.permissions.allowed_actions == "selected":
        chosen = facts.selected
        refused = [
            one.name
            for one in table.action
            if not (chosen.github_owned_allowed and one.name.startswith(("actions/", "github/")))
            and not any(fnmatchcase(one.pinned, pattern) for pattern in chosen.patterns_allowed)
            # Who is a verified creator is told nowhere; AWS is one.
            and not (chosen.verified_allowed and one.name.startswith("aws-actions/"))
        ]
        if refused:
            detail = f"the settings do not allow {', '.join(refused)}"
            step = f"https://github.com/{repository}/settings/actions: allow {refused[0]}@*"
            return (Condition("actions", "wrong", detail, step),)
    return (Condition("actions", "ok", "on, with the actions that the workflows name"),)


def judge_workflows(facts: GitHubFacts, paths: Iterable[str], repository: str) -> tuple[Condition, ...]:
    """Whether GitHub knows each rendered workflow and has it on."""
    if isinstance(facts.workflows, Unasked):
        return () if _silent(facts) else (facts.workflows.condition("workflows"),)
    states = {one.path: one.state for one in facts.workflows}
    found = []
    for path in paths:
        name, state = path.rpartition("/")[2], states.get(path, "")
        if not state:
            detail = "GitHub does not know it: it is not on the default branch"
            found.append(Condition("workflows", "missing", detail, "push it to the default branch", name))
        elif state != "active":
            step = f"gh workflow enable {name} --repo {repository}"
            if state == "disabled_fork":
                step += f" (all of a new fork at once: https://github.com/{repository}/actions)"
            found.append(Condition("workflows", "missing", f"it is off: {state}", step, name))
    return tuple(found) or (Condition("workflows", "ok", f"{len(states)} are known, those rendered are on"),)


def _silent(facts: GitHubFacts) -> bool:
    """Whether nothing was asked, for the reason that `judge_github` tells."""
    return isinstance(facts.about, Unasked)
