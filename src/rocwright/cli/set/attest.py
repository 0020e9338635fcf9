"""`rocwright set attest | project`: what others attest of a set's files, what a channel says of a project."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.options import Text
from rocwright.cli.reply import Reply, replies
from rocwright.cli.store.options import OfChannel, StoreOptions, WhichSet
from rocwright.store.index.projects import ProjectFacts, Status
from rocwright.store.index.set_pages import publish_attested
from rocwright.store.layout import channel_prefix
from rocwright.store.publish import describe
from rocwright.store.sets.attest import attest_set
from rocwright.store.sets.find import named_place, resolve_set
from rocwright.store.sets.records import read_set
from rocwright.store.sets.stage import rfc3339
from rocwright.system import console

_DEFAULTS = StoreOptions()
_SEVERAL = Parameter(negative=(), show_default=False)


@replies
def set_attest(
    which: WhichSet,
    attestations: Annotated[tuple[Path, ...], Parameter(negative=())],
    /,
    *,
    offline: bool = False,
    by: Text = "",
    options: StoreOptions = _DEFAULTS,
) -> Reply:
    """Take in attestations of a set's files (PEP 740), which say what workflow they come from.

    Each is verified first, against the publishers under `[[channels.publisher]]` in rocwright.toml; where one
    does not hold, nothing is written. The pages of the set point at them from then on, those of a channel
    when they are written next (`set repair`).

    Parameters
    ----------
    attestations
        Files that `pypi-attestations sign` or a workflow wrote (`NAME.publish.attestation`, bundles of
        Sigstore), or folders with them.
    offline
        Verify by the root of trust that is on this machine, and ask nobody for a newer one.
    by
        Who says so.
    json
        Print the result as JSON.
    """
    store, channels = options.opened(), options.channels()
    digest = resolve_set(store, channels, which)
    manifest = read_set(store, digest)
    done = attest_set(
        store,
        manifest,
        attestations,
        channels.publisher,
        at=rfc3339(datetime.now(timezone.utc)),
        by=by,
        offline=offline,
    )
    publish_attested(store, digest)

    def show() -> None:
        for key in done.provenance.values():
            console.out(key)
        if not done.provenance:
            console.say("all of them are there already")
        else:
            repair = options.command("set", "repair", f"CHANNEL:{manifest.family}")
            console.say(f"next, for each channel that lists the set: {repair}")

    return Reply({"set": digest, "provenance": dict(done.provenance), "statement": done.statement}, show)


@replies
def set_project(
    channel: OfChannel,
    project: str,
    /,
    *,
    status: Status = "active",
    reason: Text = "",
    tracks: Annotated[tuple[str, ...], _SEVERAL] = (),
    alternate: Annotated[tuple[str, ...], _SEVERAL] = (),
    by: Text = "",
    options: StoreOptions = _DEFAULTS,
) -> Reply:
    """Say what a project is in a channel: its status (PEP 792), and where else it is (PEP 708).

    What was said of it before is replaced; without options nothing more is said. Of a project in quarantine
    no file is on the channel's pages. No installer is known to go by any of the rest.

    Parameters
    ----------
    project
        The project, by its normalised name.
    status
        Its status.
    reason
        Why, for people.
    tracks
        The address of the project's page on an index that this one follows; may be repeated.
    alternate
        The address of a page where the project is, too, as its owners say; may be repeated.
    by
        Who says so.
    json
        Print the result as JSON.
    """
    store = options.opened()
    chosen, family = named_place(store, options.channels(), channel)
    prefix = channel_prefix(chosen.prefix, family)
    facts = ProjectFacts(status, reason, tracks, alternate)
    describe(store, prefix, project, facts, by=by)
    return Reply(
        {"prefix": prefix, "project": project, "status": status},
        lambda: console.out(f"{prefix}{project}/ is {status}"),
    )
