"""`rocwright set list | show | diff | log | lock`: which sets there are, what each holds, what moved; and how
every command of sets prints them, with decisions and what to do next.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from msgspec import UNSET

from rocwright.cli.reply import Reply, replies
from rocwright.cli.show_check import targets_text
from rocwright.cli.store.options import SHORT, OfChannel, StoreOptions, WhichSet
from rocwright.data.overlay import FILE_NAME
from rocwright.errors import IntegrityError
from rocwright.model.channels import Channel, Channels, PolicyChange
from rocwright.model.sets import SetManifest, set_id
from rocwright.store.channel_log import read_state
from rocwright.store.damage import Damage
from rocwright.store.gate import Decision, openings
from rocwright.store.index.lock import lock_name, lock_targets
from rocwright.store.index.set_pages import lock_recorded, only_target
from rocwright.store.index.verify import ServedView
from rocwright.store.layout import channel_prefix
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.sets.diff import Moved, SetDiff, diff_sets
from rocwright.store.sets.find import named_place, resolve_set
from rocwright.store.sets.promote import Promoted
from rocwright.store.sets.records import read_listed, read_set
from rocwright.store.sets.report import SetReport, history_of, list_sets, report_set
from rocwright.store.sets.verify import Verified
from rocwright.store.statements import WHY
from rocwright.store.trust.guard import refused_events
from rocwright.system import console, days
from rocwright.system.files import write_text

_DEFAULTS = StoreOptions()


@replies
def set_list(
    channel: str | None = None,
    *,
    family: str | None = None,
    options: StoreOptions = _DEFAULTS,
) -> Iterator[Reply]:
    """List the sets of the store, or those of a channel, oldest first.

    Exit code 6 when something of them is damaged; what is whole is shown.

    Parameters
    ----------
    channel
        A channel, by name or prefix (default: every recorded set, in the order of ids).
    family
        Only the sets of this GPU family.
    json
        Print them as JSON.
    """
    damaged: list[Damage] = []
    found = list_sets(options.opened(), options.channels(), channel, family, damaged.append)

    def show() -> None:
        rows = [set_line(one.set_id, one.manifest, one.listed) for one in found]
        columns = ("set", "family", "targets", "files", "size", "torch", "listed in")
        console.table("", columns, rows, right=(3, 4))

    yield Reply(found, show)
    tell_damaged(damaged, options)


@replies
def set_show(
    which: WhichSet,
    /,
    *,
    options: StoreOptions = _DEFAULTS,
) -> Iterator[Reply]:
    """Show a set: files, targets, sources, statements about it, where it is listed, what gates decide today.

    Exit code 6 when something of that is damaged; what is whole is shown.

    Parameters
    ----------
    json
        Print the result as JSON.
    """
    store, channels = options.opened(), options.channels()
    today = days.today()
    damaged: list[Damage] = []
    report = report_set(store, channels, resolve_set(store, channels, which), today, damaged.append)
    for line in policy_lines(options.policy(), options):
        console.say(line)
    yield Reply(report, lambda: show_set(report, options))
    tell_damaged(damaged, options)


@replies
def set_diff(
    before: str,
    after: str,
    /,
    *,
    options: StoreOptions = _DEFAULTS,
) -> Reply:
    """Show what changed from one set to another: versions, commits, targets, files, sizes.

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


@replies
def set_log(
    channel: OfChannel,
    /,
    *,
    options: StoreOptions = _DEFAULTS,
) -> Iterator[Reply]:
    """Show what a channel listed, yanked and dropped, when, by whom and why.

    Exit code 6 when events are damaged; what is whole is shown. In a channel that trusts keys, events that
    these did not sign are named, and count for nothing.

    Parameters
    ----------
    json
        Print the result as JSON.
    """
    store = options.opened()
    chosen, family = named_place(store, options.channels(), channel)
    damaged: list[Damage] = []
    prefix = channel_prefix(chosen.prefix, family)
    found = history_of(store, prefix, damaged.append)
    forged = refused_events(store, prefix)

    def show() -> None:
        rows = [
            (str(one.number), one.recorded, one.action, short_ids(one.sets), one.by, one.reason)
            for one in found.events
        ]
        columns = ("number", "recorded", "action", "sets", "by", "reason")
        console.table(found.prefix, columns, rows, right=(0,))
        console.out(f"current: {found.current or 'none'}")
        for one in forged:
            console.say(f"counts for nothing: {one}")
        if not found.shown:
            console.say("the pages may not show all of this yet: a change was interrupted, or is under way")

    yield Reply(found, show)
    tell_damaged(damaged, options, f"{chosen.name}:{family}")


def set_lock(
    which: WhichSet,
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


# -- how sets, decisions and what was verified look


def tell_damaged(
    damaged: Iterable[Damage],
    options: StoreOptions,
    place: str = "",
    *,
    so: str = "all that is whole was shown",
) -> None:
    """Say what is damaged and `so`, and raise `IntegrityError` if anything is; `place` is what to repair."""
    found = sorted(set(damaged))
    for one in found:
        console.say(f"damaged: {one}")
    if found:
        many = "1 object of the store is" if len(found) == 1 else f"{len(found)} objects of the store are"
        words = ("set", "repair", *([place] if place else []))
        raise IntegrityError(
            f"{many} damaged; {so}",
            where=found[0].key,
            next_step=f"{options.command(*words)} brings back what can be had (--dry-run says what)",
        )


def show_set(report: SetReport, options: StoreOptions) -> None:
    """A set: what it is, what was said about it, where it is listed, what opens which gate, its files."""
    manifest = report.manifest
    console.out(f"set        {report.set_id}")
    console.out(f"family     {manifest.family}")
    console.out(f"targets    {' '.join(manifest.targets) or '-'}", hang=11)
    console.out(f"platform   {manifest.platform}")
    for name, pin in manifest.sources.items():
        console.out(f"source     {name} {pin}")
    for line in variant_lines(manifest):
        console.out(f"variants   {line}", hang=11)
    console.out(f"checked    {report.checked}")
    for name, why in report.channels.items():
        console.out(f"listed     {name}" + (f", withdrawn: {why}" if why is not None else ""), hang=11)
    for said in report.said:
        console.out(f"said       {said}", hang=11)
    for key in report.signed_by:
        console.out(f"signature  of key {key}, not verified here")
    for name, decision in report.decisions.items():
        word = "open" if decision.promote else "closed"
        console.out(f"gate       {name}: {word} ({decision.rule}): {decision.reason}", hang=11)
        for line in opening_lines(decision, options):
            console.out(f"  next     {line}")
    console.out("")
    rows = [(console.human_bytes(entry.size), entry.sha256[:SHORT], entry.name) for entry in manifest.files]
    console.table("", ("size", "sha256", "file"), rows, right=(0,))


def variant_lines(manifest: SetManifest) -> Iterator[str]:
    """The labels of variants by project and version: `amd-torch-device 2.9.1: gfx1151 gfx942 null`."""
    found: dict[str, set[str]] = {}
    for entry in manifest.files:
        if entry.variant is not UNSET:
            found.setdefault(f"{entry.project} {entry.version}", set()).add(entry.variant.label)
    for name, labels in found.items():
        yield f"{name}: {' '.join(sorted(labels))}"


def set_line(set_id: str, manifest: SetManifest, channels: str) -> tuple[str, ...]:
    """A set as a row: id, family, targets, files, size, torch's version, channels."""
    # Once, for however many Pythons there are wheels of it.
    torch = dict.fromkeys(entry.version for entry in manifest.files if entry.project == "torch")
    size = console.human_bytes(sum(entry.size for entry in manifest.files))
    targets = targets_text(manifest.targets)
    return set_id[:SHORT], manifest.family, targets, str(len(manifest.files)), size, " ".join(torch), channels


def short_ids(sets: Iterable[str]) -> str:
    """Ids of sets as people tell them apart."""
    return " ".join(one[:SHORT] for one in sets)


def show_decision(decision: Decision, channel: str) -> None:
    """Rule by rule, and what follows."""
    rows = [("ok" if one.passed else "closed", one.rule, one.reason) for one in decision.rulings]
    console.table(f"Set {decision.set_id[:SHORT]} to {channel}", ("", "rule", "because"), rows)
    # Why it is closed is the error that the command ends with.
    console.out(f"open ({decision.rule}): {decision.reason}" if decision.promote else "closed", hang=2)


def policy_lines(policy: Sequence[PolicyChange], options: StoreOptions) -> Iterator[str]:
    """What of the policy that decides is not built in, and where that stands."""
    where = options.config or Path(FILE_NAME)
    for one in policy:
        yield f"note: {where.absolute()} changes the policy: {one}"


def opening_lines(decision: Decision, options: StoreOptions) -> Iterator[str]:
    """The commands that take away what closes a gate, and when they may be given."""
    for one in openings(decision):
        when = f"   # if {one.when}" if one.when else ""
        yield f"{options.command(*one.words)}{when}"


def closed_next(decision: Decision, options: StoreOptions) -> str:
    """What to do about a closed gate, for the error that says so."""
    lines = list(opening_lines(decision, options))
    return "\n        ".join(lines) or "nothing can open it for this set: make a new set with other files"


def staged_lines(done: Promoted | None, served: ServedView | None) -> Iterator[str]:
    """Where a set that was listed can be installed from, and what a look at its pages found."""
    if done is not None:
        yield f"listed; install from it with --index-url {done.index_url}"
    if served is not None:
        yield f"served: {served.pages} pages, {served.files} files of the set, each as its pages say"


def promoted_next(
    store: ObjectStore, channels: Channels, channel: Channel, manifest: SetManifest, options: StoreOptions
) -> Iterator[str]:
    """What to do with a set that a channel lists: on to the channel behind, lock it, take it back."""
    digest = set_id(manifest)
    for later in channels.channel:
        if later.after == channel.name:
            yield options.command("set", "promote", digest, "--to", later.name)
    targets = lock_targets(manifest)
    yield options.command("set", "lock", digest, *(("--target", targets[0]) if len(targets) > 1 else ()))
    if len(read_state(store, channel_prefix(channel.prefix, manifest.family)).open) > 1:
        yield options.command("set", "rollback", f"{channel.name}:{manifest.family}", "--reason", WHY)


def show_diff(found: SetDiff) -> None:
    """The sentence, then tables of what moved."""
    console.out(found.summary, hang=2)
    for title, moved in (("Project", found.projects), ("Source", found.sources)):
        if moved:
            console.out("")
            console.table("", (title, "Before", "After"), [_row(one) for one in moved])
    for word, names in (("added", found.added), ("removed", found.removed), ("rebuilt", found.rebuilt)):
        for name in names:
            console.out(f"{word:<8} {name}")
    sizes = console.human_bytes(found.size_before), console.human_bytes(found.size_after)
    console.out(f"size     {sizes[0]} to {sizes[1]}")


def _row(one: Moved) -> tuple[str, str, str]:
    return one.name, one.before or "-", one.after or "-"


def show_verified(found: Verified) -> None:
    """Every problem on a line, then what was looked at."""
    for problem in found.problems:
        console.out(f"wrong  {problem.key}: {problem.what}")
    for forged in found.forged:
        console.out(f"forged  {forged}")
    how = "read and digested" if found.read else "compared by size"
    console.out(f"set {found.set_id}: {found.files} files {how}, {found.statements} statements")
    if found.elsewhere:
        console.out(f"{len(found.elsewhere)} files lie outside of the store and were not read")
    if found.attested:
        how = f"of {len(found.attestations)} of them it was verified"
        if not found.attestations and not any(one.key.endswith(".provenance") for one in found.problems):
            how = "not verified: pip install 'rocwright[attest]'"
        console.out(f"{len(found.attested)} files have provenance, {how}")
    for key in found.signers:
        console.out(f"signed with {key}")
    if not found.signers:
        names = " ".join(found.signed_by)
        console.out(f"signatures of {names}, not verified: no --key" if names else "not signed")
