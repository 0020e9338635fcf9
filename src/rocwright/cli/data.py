"""`rocwright data`: the tables of facts that rocwright decides by, where a fact is from, what changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated
from urllib.parse import urljoin

import msgspec
from cyclopts import Parameter
from packaging.version import Version

from rocwright.cli.reply import Reply, plain, replies
from rocwright.data.explain import TableInfo, explain, list_tables
from rocwright.data.overlay import read_overlay
from rocwright.errors import InvalidInput, UsageError
from rocwright.refresh.run import Listing, Refreshed, refresh
from rocwright.refresh.write import as_diff, write_overlay, write_patch, written
from rocwright.store.adopt.offered import OfferedFiles
from rocwright.store.adopt.pages import ACCEPT, Page, parse_page
from rocwright.system import console
from rocwright.system.days import today
from rocwright.system.http import Web

# The largest page of a real index has a tenth of it.
_MOST_PAGE = 32 << 20


@replies(before="config")
def data_list(*, config: Path | None = None) -> Reply:
    """List the tables of facts: what each holds, and which a rocwright.toml may add to.

    For example: rocwright data list; rocwright data explain families

    Parameters
    ----------
    json
        Print the tables as JSON.
    config
        A rocwright.toml (default: the one here); the lines of its tables are shown.
    """
    tables = list_tables(today(), read_overlay(config))

    def show() -> None:
        rows = [
            (one.name, str(one.facts), _age(one), "yes" if one.overlaid else "no", one.where, one.about)
            for one in tables
        ]
        console.table(
            "Tables of facts", ("table", "facts", "read", "overlay", "adds here", "about"), rows, right=(1,)
        )

    return Reply(tables, show)


def _age(one: TableInfo) -> str:
    return ("" if one.read is None else str(one.read)) + (" (old)" if one.late else "")


@replies(before="config")
def data_explain(
    key: str,
    /,
    *,
    config: Path | None = None,
) -> Reply:
    """Say where a fact comes from: built in or your rocwright.toml, in which file and line, and its source.

    A key is the name of a table and the names below it, with dots; a row of a list is named by its number, or
    by what it is called. A dot inside a name is written as it is.

    For example: rocwright data explain families.family.gfx1151; rocwright data explain channels.max_age

    Parameters
    ----------
    key
        The fact.
    json
        Print the explanation as JSON.
    config
        A rocwright.toml (default: the one here).
    """
    found = explain(key, read_overlay(config))

    def show() -> None:
        console.out(f"{found.key} = {found.shown}", hang=4)
        console.out(
            f"from      {found.origin}: {found.where}" + (f", line {found.line}" if found.line else ""),
            hang=10,
        )
        for word, text in (
            *(("source", str(one)) for one in found.sources),
            ("comment", found.comment),
            ("replaces", found.replaces),
        ):
            if text:
                console.out(f"{word:<9} {text}", hang=10)

    return Reply(found, show)


@replies
def data_refresh(
    *,
    from_: Annotated[tuple[str, ...], Parameter(name="--from", negative="")] = (),
    overlay: Path | None = None,
    patch: Path | None = None,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
) -> Iterator[Reply]:
    """Read the sources of the tables again, and show or write what changed.

    Differences are shown as TOML rows, with their source. A row that a source has no more is told and stays,
    and what somebody wrote into the rocwright.toml by hand is left as it is. Nothing of the sources is run.

    For example: rocwright data refresh; rocwright data refresh --from therock=TheRock --overlay mine.toml

    Parameters
    ----------
    from_
        NAME=PLACE: read a source, or all whose names begin so, there and not at its address: a clone, a
        folder, a file, a wheel or a URL. May be repeated; then nothing else is read. index=URL reads a
        package index.
    overlay
        Write the changes into this rocwright.toml.
    patch
        Write the changes as a patch of rocwright's own tables.
    dry_run
        Show them, and write nothing.
    json
        Print the changes as JSON.
    """
    if overlay is not None and patch is not None:
        raise UsageError("--overlay and --patch exclude each other", next_step="run it once for each")
    # Without a network nobody should wait for eleven servers, several times each.
    with Web(pauses=()) as web:
        # A patch is of the built-in tables alone.
        own = None if patch is not None else read_overlay(overlay if overlay and overlay.exists() else None)
        found = refresh(web, today(), _places(from_), own, list_index=lambda url: _listing(web, url))
    place = overlay or patch
    if place is not None and not dry_run and not found.wrong and written(found.changes):
        (write_patch if patch is not None else write_overlay)(place, found.changes)
        found = msgspec.structs.replace(found, written=str(place))
    for name, why in found.failed.items():
        console.say(f"not read: {name}: {why}")
    yield Reply(found, lambda: _show_refreshed(found))
    if found.wrong:
        raise InvalidInput(
            "nothing was written; not what they should be: " + "; ".join(found.wrong.values()),
            next_step="leave them out: name the others with --from",
        )


def _places(texts: Iterable[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, _, place = text.partition("=")
        if not name or not place:
            raise UsageError(
                f"--from {text} is not NAME=PLACE", next_step="write it like --from therock=path/to/TheRock"
            )
        found[name] = place
    return found


def _show_refreshed(found: Refreshed) -> None:
    for line in as_diff(found.changes):
        console.out(plain(line), hang=6)
    if not found.changes:
        console.out("nothing changed")
    if found.written:
        console.say(f"wrote {found.written}")


def _listing(web: Web, url: str) -> Listing:
    """What an index offers: its projects, and the newest versions of ROCm and PyTorch."""
    address = web.enter(url if url.endswith("/") else f"{url}/")

    def page(at: str) -> Page:
        answer = web.get(at, limit=_MOST_PAGE, accept=ACCEPT, packed=True)
        return parse_page(answer.body, answer.content_type, answer.url, web.enter)

    top = page(address)
    if not top.projects:
        raise InvalidInput(f"{url} lists no projects", next_step="give the address that --index-url takes")
    newest = {}
    for project in ("rocm", "torch"):
        if project in top.projects:
            gathered = OfferedFiles()
            gathered.add(page(urljoin(address, f"{project}/")).files)
            versions = [Version(one.version) for one in gathered.files.values() if one.project == project]
            if versions:
                newest[project] = str(max(versions))
    return frozenset(top.projects), newest
