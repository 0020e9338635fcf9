"""`rocwright set list | show | diff | log | lock`: which sets there are, what each holds, what moved."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.reply import Reply, replies
from rocwright.cli.set.show import set_line, show_diff, show_set
from rocwright.cli.store.options import StoreOptions
from rocwright.store.index.lock import lock_name
from rocwright.store.index.set_pages import lock_recorded, only_target
from rocwright.store.layout import channel_prefix
from rocwright.store.sets.diff import diff_sets
from rocwright.store.sets.find import named_place, resolve_set
from rocwright.store.sets.records import read_listed, read_set
from rocwright.store.sets.report import history_of, list_sets, report_set
from rocwright.system import console, days
from rocwright.system.files import write_text

_DEFAULTS = StoreOptions()


@replies
def set_list(
    channel: str | None = None,
    *,
    family: str | None = None,
    options: StoreOptions = _DEFAULTS,
) -> Reply:
    """List the sets of the store, or those of a channel, oldest first.

    Parameters
    ----------
    channel
        A channel, by name or prefix (default: every recorded set, in the order of ids).
    family
        Only the sets of this GPU family.
    json
        Print them as JSON.
    """
    found = list_sets(options.opened(), options.channels(), channel, family)

    def show() -> None:
        rows = [set_line(one.set_id, one.manifest, one.listed) for one in found]
        columns = ("set", "family", "targets", "files", "size", "torch", "listed in")
        console.table("", columns, rows, right=(3, 4))

    return Reply(found, show)


@replies
def set_show(
    which: str,
    /,
    *,
    options: StoreOptions = _DEFAULTS,
) -> Reply:
    """Show a set: files, targets, sources, what was said about it, where it is listed, what gates say today.

    Parameters
    ----------
    which
        Eight or more digits of its id, CHANNEL:FAMILY for the set that installers take from there, or newest:
        that of the first channel (newest:FAMILY where it has several).
    json
        Print the result as JSON.
    """
    store, channels = options.opened(), options.channels()
    today = days.today()
    report = report_set(store, channels, resolve_set(store, channels, which), today)
    return Reply(report, lambda: show_set(report, options))


@replies
def set_diff(
    before: str,
    after: str,
    /,
    *,
    options: StoreOptions = _DEFAULTS,
) -> Reply:
    """Say what moved from one set to another: versions, commits, targets, files, sizes.

    Parameters
    ----------
    before
        Eight or more digits of an id, CHANNEL:FAMILY for the set that installers take from there, or newest:
        that of the first channel (newest:FAMILY where it has several).
    after
        The same, of the other set.
    json
        Print the result as JSON.
    """
    store, channels = options.opened(), options.channels()
    old, new = (read_set(store, resolve_set(store, channels, text)) for text in (before, after))
    found = diff_sets(old, new)
    return Reply(found, lambda: show_diff(found))


_DEFAULT = StoreOptions()


@replies
def set_log(
    channel: str,
    /,
    *,
    options: StoreOptions = _DEFAULT,
) -> Reply:
    """Show what a channel listed, yanked and dropped, when, by whom and why.

    Parameters
    ----------
    channel
        CHANNEL:FAMILY, such as release:gfx94X-dcgpu; the family may be left out where there is one.
    json
        Print the result as JSON.
    """
    store = options.opened()
    chosen, family = named_place(store, options.channels(), channel)
    found = history_of(store, channel_prefix(chosen.prefix, family))

    def show() -> None:
        rows = [
            (str(one.number), one.recorded, one.action, _short(one.sets), one.by, one.reason)
            for one in found.events
        ]
        columns = ("number", "recorded", "action", "sets", "by", "reason")
        console.table(found.prefix, columns, rows, right=(0,))
        console.out(f"current: {found.current or 'none'}")
        if not found.shown:
            console.say("the pages may not show all of this yet: a change was interrupted, or is under way")

    return Reply(found, show)


def _short(sets: tuple[str, ...]) -> str:
    return " ".join(one[:12] for one in sets)


def set_lock(
    which: str,
    /,
    *,
    target: str | None = None,
    index: str | None = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    options: StoreOptions = _DEFAULTS,
) -> None:
    """Lock a set for one GPU target (PEP 751), with what it requires from another index if that is named.

    pip from 26.1 on takes it with `pip install -r`, uv with `uv pip install -r` or `uv pip sync`. Without
    --index it is the lock that lies beside the set.

    Parameters
    ----------
    which
        Eight or more digits of its id, CHANNEL:FAMILY for the set that installers take from there, or newest:
        that of the first channel (newest:FAMILY where it has several).
    target
        A GPU target of the set (default: its only one; of a set without targets all is locked).
    index
        The URL of the index that has everything else, such as https://pypi.org/simple; uv resolves it.
    output
        A directory, where the lock is written under its name, or a file (default: printed).
    options
        The store.
    """
    store = options.opened()
    digest = resolve_set(store, options.channels(), which)
    with tempfile.TemporaryDirectory(prefix="rocwright-lock-") as work:
        listed = read_listed(store, digest)
        target = target or only_target(listed.manifest)
        lock = lock_recorded(store, listed, target, index_url=index, work=Path(work))
    if output is None:
        console.out(lock.rstrip("\n"))
        return
    path = output / lock_name(target) if output.is_dir() else output
    write_text(path, lock)
    console.say(f"wrote {path}")
