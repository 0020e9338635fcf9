"""`rocwright set create --from-index` (`--from-page`, `--from-folder`): adopt a set that others built."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.check.loading import load_contract
from rocwright.check.report import Report
from rocwright.cli.options import Amount, Count, tell_replaced
from rocwright.cli.reply import Reply
from rocwright.cli.set.look import closed_next, promoted_next, staged_lines
from rocwright.cli.show_check import overlay_lines, override_lines, proved_lines, runs, targets_text, told
from rocwright.cli.store.options import StoreOptions
from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.device_code.tree.names import packages_of
from rocwright.errors import UsageError
from rocwright.model.project import ProjectTable
from rocwright.pipeline.adopt_set import Adopted, How, adopt
from rocwright.pipeline.find_sets import Finder, Judged
from rocwright.pipeline.options import default_cache
from rocwright.store.adopt.fetch import Fetcher
from rocwright.store.adopt.offered import SetChoice
from rocwright.store.adopt.pages import Reading, read_flat, read_folder, read_index
from rocwright.store.index.verify import verify_listed
from rocwright.store.sets.promote import promote_set, require_open
from rocwright.store.sets.report import consider
from rocwright.system import console
from rocwright.system.console import human_bytes
from rocwright.system.http import Web
from rocwright.system.http_send import shown


@Parameter(name="*")
@dataclass(frozen=True)
class AdoptOptions:
    """Adopt a set that somebody else built."""

    from_index: str | None = None
    """Address of an index, as --index-url takes it: find the newest whole set there and record it."""

    from_page: str | None = None
    """The same with a flat page, as --find-links takes it."""

    from_folder: Path | None = None
    """The same with a folder of wheels, of one build or several; the files go into the store."""

    project: str | None = None
    """The project that a set grows from (default: torch, or rocm where there is none)."""

    version: str | None = None
    """Its version, with or without the part after a plus sign."""

    date: str | None = None
    """The date of the build: 20260430."""

    rocm_version: str | None = None
    """ROCm's version of the build: 7.12.0a20260430."""

    python: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = ()
    """Only files for this Python (3.12); may be repeated."""

    list_sets: Annotated[bool, Parameter(negative=())] = False
    """List the newest sets, whole and mixed, and record nothing."""

    limit: Count = 10
    """How many sets to list."""

    download: bool | None = None
    """Fetch all files, check them, and put them into the store (default: where they must be fetched anyway,
    as for --stage). With --no-download no wheel is fetched whole."""

    resolve: bool = True
    """Try whether pip and uv resolve the set, with wheels that hold its metadata only."""

    timeout: Amount = 30.0
    """Seconds to wait for a server."""

    @property
    def wanted(self) -> bool:
        """Whether a set is to be adopted."""
        return any(one is not None for one in (self.from_index, self.from_page, self.from_folder))


def adopt_set(
    options: StoreOptions,
    asked: AdoptOptions,
    *,
    family: str | None = None,
    targets: tuple[str, ...] = (),
    platform: str | None = None,
    stage: bool = False,
    dry_run: bool = False,
    install: bool = True,
) -> Iterator[Reply]:
    """Find a set where the options say, and record it in the store; or list the sets that are there.

    With `install`, what is fetched whole is installed, too. With `stage` its files are fetched, and the first
    channel lists it if its gate is open. Otherwise the set is recorded all the same; raises `GateClosed`
    naming what opens it.
    """
    places = (asked.from_index, asked.from_page, asked.from_folder)
    if sum(one is not None for one in places) != 1:
        raise UsageError(
            "--from-index, --from-page and --from-folder are given together", next_step="give one of them"
        )
    if stage and (dry_run or asked.download is False):
        raise UsageError(
            "--stage lists the set: it goes neither with --dry-run nor with --no-download",
            next_step="leave one of them out",
        )
    store, channels = options.opened(new=True), options.channels()
    now = datetime.now(timezone.utc)
    with tempfile.TemporaryDirectory(prefix="rocwright-adopt-") as scratch, _reading(asked) as reading:
        finder = _finder(options, asked, reading, Path(scratch), packages_of(targets), platform)
        if asked.list_sets:
            yield from _list(finder, options, asked)
            return
        download = True if stage else asked.download
        how = How(asked.resolve, download, _place(asked), dry_run, family, options.families(), install)
        done = adopt(store, finder, how, now, note=console.say)
    if not done.recorded:
        yield from adopted_replies(done, [f"next: {options.command('set', 'create', *done.asked)}"])
        return
    first = channels.named(channels.channel[0].name)
    decision = consider(store, channels, first, done.set_id, now.date()).decision
    if stage and decision.promote:
        staged = promote_set(store, channels, first, done.set_id, now, policy=options.policy())
        lines = list(staged_lines(staged, verify_listed(store, staged.prefix, done.manifest)))
        lines += [f"next: {line}" for line in promoted_next(store, channels, first, done.manifest, options)]
    elif decision.promote:
        lines = [f"next: {options.command('set', 'promote', done.set_id, '--to', first.name)}"]
    else:
        lines = [] if stage else [f"next: {closed_next(decision, options)}"]
    yield from adopted_replies(done, lines)
    if stage:
        require_open(decision, done.set_id, closed_next(decision, options))


def _finder(
    options: StoreOptions,
    asked: AdoptOptions,
    reading: Reading,
    scratch: Path,
    targets: tuple[str, ...],
    platform: str | None,
) -> Finder:
    """What looks for the set that is asked for."""
    wanted = SetChoice(
        asked.project,
        asked.version,
        asked.date,
        asked.rocm_version,
        asked.python,
        platform or "linux",
        targets,
    )
    cache = None if reading.web is None else default_cache() / "metadata"
    whole = asked.download is not False
    fetcher = Fetcher(reading.web, scratch, cache, whole=whole, pool=options.opened(new=True))
    overlay = read_overlay(options.config)
    table = load_table("projects", ProjectTable, overlay)
    for line in overlay_lines(overlay):
        console.say(line)
    return Finder(reading, fetcher, wanted, load_contract(overlay), note=console.say, projects=table)


def _list(finder: Finder, options: StoreOptions, asked: AdoptOptions) -> Iterator[Reply]:
    """The sets that are there, and the command that records the newest whole one."""
    found = finder.sets(asked.limit)
    yield sets_reply(found)
    whole = next((one for one in found if one.whole), None)
    if whole is not None:
        project, version = whole.found.root
        words = ("--project", project, "--version", version)
        console.say(f"next: {options.command('set', 'create', *_place(asked), *words)}")


def _place(asked: AdoptOptions) -> tuple[str, ...]:
    """The option that names the place, as it may be shown and recorded."""
    if asked.from_folder is not None:
        return ("--from-folder", str(asked.from_folder))
    name, url = ("--from-index", asked.from_index) if asked.from_index else ("--from-page", asked.from_page)
    return (name, shown(url or ""))


@contextmanager
def _reading(asked: AdoptOptions) -> Iterator[Reading]:
    if asked.from_folder is not None:
        yield read_folder(asked.from_folder)
        return
    tell_replaced(asked.from_index)
    with Web(timeout_s=asked.timeout, deadline_s=6 * asked.timeout) as web:
        yield read_index(web, asked.from_index) if asked.from_index else read_flat(web, asked.from_page or "")


def sets_reply(found: Sequence[Judged]) -> Reply:
    """Print the sets of an index: what each grows from, whether it is whole, and what does not fit."""
    rows = [
        {
            "project": one.found.root[0],
            "version": one.found.root[1],
            "build": one.found.label,
            "whole": one.whole,
            "versions": one.found.versions,
            "files": [file.name for file in one.files],
            "problems": one.problems,
        }
        for one in found
    ]

    def show() -> None:
        table = [(one.name, "whole" if one.whole else "mixed", str(len(one.files))) for one in found]
        console.table("", ("Set", "State", "Files"), table, right=(2,))
        for one in found:
            for problem in one.problems:
                console.out(f"{one.name}: {problem}")

    return Reply({"sets": rows}, show)


def adopted_replies(done: Adopted, after: Sequence[str]) -> Iterator[Reply]:
    """An adopted set: its id, what it is made of, how much was read for it; the lines `after` are said."""
    for note in done.notes:
        console.say(f"note: {note}")
    for name, why in done.missing.items():
        console.say(f"warning: the set is without {name}: {why}")
    value = {
        "set": done.set_id,
        "family": done.manifest.family,
        "targets": done.manifest.targets,
        "files": [entry.name for entry in done.manifest.files],
        "recorded": done.recorded,
        "index_url": done.index_url,
        "basis": "metadata" if done.checked is None else "files",
        "metadata": done.report.predicate(),
        "checked": None if done.checked is None else done.checked.predicate(),
        "requests": done.requests,
        "received": done.received,
        "downloaded": done.downloaded,
        "missing": done.missing,
        "notes": done.notes,
    }
    yield Reply(value, lambda: _show_adopted(done))
    for line in after:
        console.say(line)


def _show_adopted(done: Adopted) -> None:
    for run in runs((done.checked or done.report).findings):
        story = told(run)
        for line in (*story.causes, *(f"  {item}" for item in story.items)):
            console.say(f"{run[0].severity} [{run[0].rule}] {line}")
    console.say(_verdict("metadata", done.report))
    for line in override_lines(done.checked or done.report):
        console.say(line)
    if done.checked is not None:
        console.say(f"{_verdict('files', done.checked)} (as wheels that others built)")
        for line in proved_lines(done.checked):
            console.say(line)
    else:
        console.say("its files were not checked; no channel accepts the set before they are")
    if done.downloaded:
        console.say(f"downloaded whole: {', '.join(done.downloaded)}")
    console.say(f"{done.requests} requests, {human_bytes(done.received)}")
    if done.index_url is not None:
        console.say(f"index of this set: {done.index_url}")
    for entry in done.manifest.files:
        console.say(f"  {entry.name}  {human_bytes(entry.size)}")
    console.say(
        f"for {done.manifest.family}: {targets_text(done.manifest.targets) or 'no GPU target is named'}"
    )
    console.out(done.set_id)


def _verdict(what: str, report: Report) -> str:
    return f"{what}: {report.errors} errors, {report.warnings} warnings"
