"""What GitHub says of a repository, by its REST API; what it does not say, and why. Nothing is changed.

Shapes by GitHub's REST documentation: actions/variables, actions/permissions, actions/workflows,
actions/self-hosted-runners, actions/hosted-runners, repos.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from rocwright.errors import RocwrightError
from rocwright.pipeline.doctor.conditions import Unasked
from rocwright.store.runs.latest import api_address
from rocwright.system.http import Refused, Web

_T = TypeVar("_T")
_LARGEST = 8 << 20
# So many pages are more than an organisation may have.
_MOST_PAGES = 200
GITHUB = "github.com"
TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
NO_TOKEN = Unasked(
    "GitHub was not asked: neither GITHUB_TOKEN nor GH_TOKEN is set", 'export GH_TOKEN="$(gh auth token)"'
)


class _Owner(msgspec.Struct, frozen=True):
    type: str = ""


class AboutRepository(msgspec.Struct, frozen=True):
    """The repository itself."""

    full_name: str
    default_branch: str
    owner: _Owner
    fork: bool = False
    private: bool = False


class _Named(msgspec.Struct, frozen=True):
    name: str


class _Value(msgspec.Struct, frozen=True):
    name: str
    value: str


class WorkflowState(msgspec.Struct, frozen=True):
    """A workflow that GitHub knows: `active`, `disabled_fork`, `disabled_manually`, `disabled_inactivity`."""

    path: str
    state: str


class Registered(msgspec.Struct, frozen=True):
    """A runner; `labels` are what jobs ask for it by. One that GitHub lends has its name for a label."""

    name: str
    status: str
    labels: tuple[_Named, ...] = ()


class _Values(msgspec.Struct, frozen=True):
    total_count: int
    variables: tuple[_Value, ...]


class _Workflows(msgspec.Struct, frozen=True):
    total_count: int
    workflows: tuple[WorkflowState, ...]


class _Runners(msgspec.Struct, frozen=True):
    total_count: int
    runners: tuple[Registered, ...]


class Permissions(msgspec.Struct, frozen=True):
    """Whether Actions are on, and which may be used: all, local_only, selected."""

    enabled: bool
    allowed_actions: str = "all"


class Selected(msgspec.Struct, frozen=True):
    """Which actions may be used where they are selected."""

    github_owned_allowed: bool = False
    verified_allowed: bool = False
    patterns_allowed: tuple[str, ...] = ()


class GitHubFacts(msgspec.Struct, frozen=True):
    """What was asked; of each the answer, or why there is none.

    `variables` are the repository's and those that its organisation shares with it. `machines` are registered
    for it or its organisation, `hidden` why those of the organisation are not among them.
    """

    about: AboutRepository | Unasked
    variables: Mapping[str, str] | Unasked
    permissions: Permissions | Unasked
    selected: Selected | Unasked
    workflows: tuple[WorkflowState, ...] | Unasked
    machines: tuple[Registered, ...] | Unasked
    hidden: Unasked | None = None


def unasked(why: Unasked) -> GitHubFacts:
    """That nothing is known, for one reason: told once."""
    rest = Unasked("GitHub does not tell it: see `github`", "")
    return GitHubFacts(why, rest, rest, rest, rest, rest)


def ask_github(repository: str, host: str, environment: Mapping[str, str]) -> GitHubFacts:
    """Ask everything; `GITHUB_API_URL` names another server than GitHub's.

    A token is handed to no host that only a remote of a checkout names.
    """
    token = next((environment[name] for name in TOKENS if environment.get(name)), "")
    if not token:
        return unasked(NO_TOKEN)
    if host != GITHUB and not environment.get("GITHUB_API_URL"):
        why = f"{host} was not asked: GITHUB_API_URL does not say that it is to get the token"
        return unasked(Unasked(why, f"export GITHUB_API_URL=https://{host}/api/v3"))
    address = api_address({**environment, "GITHUB_TOKEN": token})
    with Web(timeout_s=20, deadline_s=60, pauses=(0.5,)) as web:
        return _Asking(web, address, repository).everything()


class _Asking(msgspec.Struct, frozen=True):
    web: Web
    address: str
    repository: str

    def everything(self) -> GitHubFacts:
        about = self.one("", AboutRepository, "Metadata: read")
        if isinstance(about, Unasked):
            return unasked(about)
        permissions = self.one("/actions/permissions", Permissions, "Administration: read")
        selected: Selected | Unasked = Selected()
        if not isinstance(permissions, Unasked) and permissions.allowed_actions == "selected":
            selected = self.one("/actions/permissions/selected-actions", Selected, "Administration: read")
        workflows = self.all("/actions/workflows", _Workflows, "Actions: read")
        machines = self.all("/actions/runners", _Runners, "Administration: read")
        hidden: Unasked | None = None
        if about.owner.type == "Organization" and not isinstance(machines, Unasked):
            machines, hidden = self._of_organisation(machines)
        return GitHubFacts(about, self._variables(about), permissions, selected, workflows, machines, hidden)

    def _variables(self, about: AboutRepository) -> Mapping[str, str] | Unasked:
        own = self.all("/actions/variables", _Values, "Variables: read", most=30)
        if isinstance(own, Unasked):
            return own
        shared: tuple[_Value, ...] = ()
        if about.owner.type == "Organization":
            said = self.all("/actions/organization-variables", _Values, "Variables: read", most=30)
            if isinstance(said, Unasked) and said.wrong:
                return said
            shared = () if isinstance(said, Unasked) else said
        return {one.name.upper(): one.value for one in (*shared, *own)}

    def _of_organisation(self, own: tuple[Registered, ...]) -> tuple[tuple[Registered, ...], Unasked | None]:
        """Also the runners of the organisation, and the larger machines that it borrows from GitHub."""
        owner = quote(self.repository.partition("/")[0])
        found, hidden = list(own), None
        for path in ("runners", "hosted-runners"):
            said = self.all(
                f"/orgs/{owner}/actions/{path}",
                _Runners,
                "Self-hosted runners: read, of the organisation",
                whole=True,
            )
            if isinstance(said, Unasked):
                # No GitHub Enterprise Server lends machines.
                hidden = hidden or (said if path == "runners" or said.wrong else None)
            elif path == "runners":
                found += said
            else:
                found += (Registered(one.name, "online", (_Named(one.name),)) for one in said)
        return tuple(found), hidden

    def one(self, path: str, kind: type[_T], right: str, *, whole: bool = False) -> _T | Unasked:
        """The answer of one address below the repository, or with `whole` below the server."""
        below = "" if whole else f"/repos/{quote(self.repository)}"
        try:
            url = self.web.enter(f"{self.address}{below}{path}")
            answer = self.web.get(url, limit=_LARGEST, accept="application/vnd.github+json")
        except Refused as error:
            return refusal(error, right, self.repository, repository=not path)
        except RocwrightError as error:
            return Unasked(f"GitHub: {error.what}", error.next_step or "run again later", wrong=True)
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return Unasked(
                f"what answers at {answer.url.partition('?')[0]} is not GitHub's API: {error}",
                "set GITHUB_API_URL to https://api.github.com, or https://HOST/api/v3; is there a proxy?",
                wrong=True,
            )

    def all(
        self, path: str, kind: type[msgspec.Struct], right: str, *, most: int = 100, whole: bool = False
    ) -> tuple[Any, ...] | Unasked:
        """Every page of a list; `kind` is a page: how many there are of all, and some of them."""
        found: list[Any] = []
        total = 0
        for number in range(1, _MOST_PAGES + 1):
            said = self.one(f"{path}?per_page={most}&page={number}", kind, right, whole=whole)
            if isinstance(said, Unasked):
                return said
            total, entries = msgspec.structs.astuple(said)
            found += entries
            if len(found) >= total:
                return tuple(found)
            if not entries:
                break
        what = path.rpartition("/")[2]
        return Unasked(
            f"GitHub counts {total} {what} and shows {len(found)}",
            "run again: they may be changing",
            wrong=True,
        )


def refusal(error: Refused, right: str, name: str, *, repository: bool) -> Unasked:
    """What a refusal of GitHub means: a bad token, a limit, a right that is lacking, or no repository."""
    until = error.headers.get("x-ratelimit-reset", "")
    if error.status in (403, 429) and error.headers.get("x-ratelimit-remaining") == "0":
        when = f" until {_clock(until)}" if until.isdecimal() else ""
        return Unasked(
            f"GitHub answers no more requests of this token{when}: its limit is reached",
            f"run again{when.replace(' until', ' after')}, or with another token",
            wrong=True,
        )
    if error.status in (403, 429) and (wait := error.headers.get("retry-after", "")).isdecimal():
        return Unasked(
            f"GitHub asks to wait for {wait} s before the next request", f"run again in {wait} s", wrong=True
        )
    if error.status == 401:
        return Unasked(
            "GitHub does not accept the token of GITHUB_TOKEN or GH_TOKEN",
            'export GH_TOKEN="$(gh auth token)", and unset GITHUB_TOKEN',
            wrong=True,
        )
    if repository and error.status == 404:
        return Unasked(
            f"GitHub has no repository {name}, or hides it from this token",
            "name it with --repository OWNER/NAME, or take a token of somebody who may read it",
            wrong=True,
        )
    if error.status in (403, 404):
        return Unasked(f"this token may not read it ({error.status})", f"give the token the right {right}")
    return Unasked(f"GitHub: {error.what}", "run again later", wrong=True)


def _clock(seconds: str) -> str:
    return f"{datetime.fromtimestamp(int(seconds), timezone.utc):%H:%M:%S} UTC"
