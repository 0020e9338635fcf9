"""What a channel says of a project as a whole: its status (PEP 792), and where else it is (PEP 708).

It lies beside the log of the channel, so that whoever writes its pages says the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from rocwright.errors import InvalidData, InvalidInput
from rocwright.model.sets import canonical_json
from rocwright.store.layout import PROJECTS
from rocwright.store.objects.protocol import ObjectStore, read_there

PROJECTS_SCHEMA = "rocwright.projects/1"
Status = Literal["active", "archived", "quarantined", "deprecated"]
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class ProjectFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Said of one project; `tracks` and `alternates` are addresses of its pages on other indexes.

    `tracks` are those that this index follows with this project, `alternates` those where its owners say that
    it is, too. Raises `InvalidData` for an address that is none.
    """

    status: Status = "active"
    reason: str = ""
    tracks: tuple[str, ...] = ()
    alternates: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for url in (*self.tracks, *self.alternates):
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.netloc or not url.endswith("/"):
                raise InvalidData(
                    f"{url!r} is not the address of a project's page",
                    next_step="write it whole, with https:// and a slash at its end: https://host/simple/NAME/",
                )

    @property
    def offered(self) -> bool:
        """Whether the files of the project are on its page: of one in quarantine none are."""
        return self.status != "quarantined"


NOTHING = ProjectFacts()


class _Projects(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """As it is written down, by the name of a project."""

    projects: dict[str, ProjectFacts]
    schema: str = PROJECTS_SCHEMA


def read_facts(store: ObjectStore, prefix: str) -> dict[str, ProjectFacts]:
    """What the channel at `prefix` says of its projects, by name; raises `InvalidData` for anything else."""
    key = f"{prefix}{PROJECTS}"
    data = read_there(store, key)
    if data is None:
        return {}
    try:
        return msgspec.json.decode(data, type=_Projects).projects
    except (msgspec.MsgspecError, InvalidData) as error:
        raise InvalidData(
            f"{key} does not say what projects are: {error}",
            where=key,
            next_step="find out who changed it; without it no project has a status",
        ) from error


def save_facts(store: ObjectStore, prefix: str, project: str, facts: ProjectFacts) -> bool:
    """Say this of a project of the channel at `prefix`, and no longer what was said; False where it was.

    To be called while nobody else changes the channel. Raises `InvalidInput` for a name that is none.
    """
    if _NAME.fullmatch(project) is None:
        raise InvalidInput(
            f"{project!r} is not the normalised name of a project", next_step="write it as on the index"
        )
    known = read_facts(store, prefix)
    if known.get(project, NOTHING) == facts:
        return False
    told = {name: one for name, one in {**known, project: facts}.items() if one != NOTHING}
    store.put_bytes(f"{prefix}{PROJECTS}", canonical_json(_Projects(told)), overwrite=True)
    return True


def statuses() -> tuple[str, ...]:
    """Every status that there is."""
    return get_args(Status)


# -- as pages say it


def html_facts(facts: ProjectFacts) -> str:
    """Lines for the head of a project's page in HTML."""
    said = [("pypi:tracks", url) for url in facts.tracks]
    said += [("pypi:alternate-locations", url) for url in facts.alternates]
    if facts.status != "active":
        said.append(("pypi:project-status", facts.status))
        said += [("pypi:project-status-reason", facts.reason)] if facts.reason else []
    return "".join(f'<meta name="{name}" content="{escape(value)}">\n' for name, value in said)


def json_facts(facts: ProjectFacts) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Members of `meta`, and of the page itself, in JSON."""
    status = {"status": facts.status, **({"reason": facts.reason} if facts.reason else {})}
    own: dict[str, Any] = {"alternate-locations": facts.alternates} if facts.alternates else {}
    if facts.status != "active":
        own["project-status"] = status
    return ({"tracks": facts.tracks} if facts.tracks else {}), own


def version_of(facts: ProjectFacts, *, provenance: bool) -> str:
    """The lowest version of the API of simple repositories that has all that a page says.

    So the pages of projects of which nothing more is said do not change.
    """
    if facts.status != "active":
        return "1.4"
    if provenance:
        return "1.3"
    return "1.2" if facts.tracks or facts.alternates else "1.1"
