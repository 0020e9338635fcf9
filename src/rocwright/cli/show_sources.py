"""Locks, plans and checkouts as people read them; each with its JSON twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rocwright.cli.reply import Reply
from rocwright.sources.changes import Change, Log
from rocwright.sources.hipify import HipifiedTree
from rocwright.sources.lock import LockedSource, SourceLock
from rocwright.sources.plan import CheckoutPlan
from rocwright.sources.prepare import Prepared
from rocwright.system import console
from rocwright.system.git import shown


def short(commit: str) -> str:
    """A commit id as people write it."""
    return commit[:12]


def short_ref(ref: str) -> str:
    """`refs/heads/release/2.9` as `release/2.9`; a commit id is shortened."""
    for prefix in ("refs/heads/", "refs/tags/"):
        if ref.startswith(prefix):
            return ref.removeprefix(prefix)
    return ref if ref.startswith("refs/") else short(ref)


# What a person gave, where a lock has a word of its own for it.
_GIVEN = {"flag": "--repo-hashtag", "line": "--pytorch-version"}


def _reason(source: LockedSource) -> str:
    """Who said so: an option, a pin with its place, or the project's default."""
    if source.pin is None:
        return _GIVEN.get(source.why, source.why)
    place, at, commit = source.pin.partition(" @ ")
    return f"{source.why} {place}{at}{commit[:12]}{commit[40:]}" if at else f"{source.why} {place}"


def lock_rows(lock: SourceLock) -> list[tuple[str, ...]]:
    """Project, repository, ref, commit and reason, one row each."""
    return [
        (each.project, shown(each.origin), short_ref(each.ref), short(each.commit), _reason(each))
        for each in lock.sources
    ]


def say_lock(lock: SourceLock) -> None:
    """What is meant, on stderr, before the work begins."""
    rows = lock_rows(lock)
    widths = [max(len(row[column]) for row in rows) for column in range(5)] if rows else []
    for row in rows:
        console.say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def show_lock(lock: SourceLock, path: Path) -> None:
    """A lock, a few short lines for each project: commits stay whole where a terminal is narrow."""
    console.out(f"{path}: sources for {lock.platform}")
    for each in lock.sources:
        console.out(f"{each.project}: {shown(each.origin)}")
        named = "" if each.ref == each.commit else f" {short_ref(each.ref)}"
        console.out(f"  upstream  {each.commit}{named}")
        console.out(f"  why       {_reason(each)}")
        console.out(f"  hipify    {_became(each)}")


def _became(source: LockedSource) -> str:
    """Whether a project is hipified, and what a checkout became."""
    wanted = "yes" if source.hipify else "no"
    outcome = source.outcome
    if outcome is None:
        return f"{wanted}; not checked out yet"
    made = f"{wanted}, {outcome.hipify_commit}" if outcome.hipify_commit else wanted
    tip = outcome.hipify_commit or source.commit
    return made if outcome.tip == tip else f"{made}; with patches {outcome.tip}"


def plans_reply(lock: SourceLock, plans: Sequence[CheckoutPlan], *, patches: Path | None) -> Reply:
    """What a run would do, and what stands in its way."""
    found = {
        plan.project: {
            "directory": str(plan.directory),
            "action": plan.action,
            "steps": plan.steps(),
            "obstacles": plan.obstacles,
        }
        for plan in plans
    }

    def show() -> None:
        for source, plan in zip(lock.sources, plans, strict=True):
            named = "" if source.ref == source.commit else f"{short_ref(source.ref)} is "
            console.out(f"{source.project}: {named}{source.commit} ({_reason(source)})")
            steps = [*plan.steps()]
            if source.hipify:
                steps.append("hipify it with its own script, unless that is done or it has none")
            if patches is not None:
                steps.append(f"apply the patches for it in {patches}")
            for step in steps:
                console.out(f"  {step}")
            for obstacle in plan.obstacles:
                console.out(f"  in the way: {obstacle}")

    return Reply({"lock": lock, "plans": found}, show)


def prepared_reply(lock: SourceLock, prepared: Mapping[str, Prepared], path: Path) -> Reply:
    """Where each project lies now, at which commit, and what hipify and patches made of it."""

    def show() -> None:
        for source in lock.sources:
            done = prepared[source.project]
            count = len(done.checkout.submodules)
            submodules = f", {count} submodule{'' if count == 1 else 's'}" if count else ""
            console.out(f"{source.project}: {done.checkout.directory}")
            named = "" if source.ref == source.commit else f" {short_ref(source.ref)}"
            console.out(f"  upstream  {done.checkout.commit}{named}{submodules}")
            if done.hipified is not None:
                console.out(f"  hipify    {hipified_line(done.hipified)}")
            for each in done.kept:
                console.out(f"  work      {each.said()}")
            if done.patched is not None:
                many = len(done.patched.patches)
                console.out(f"  patches   {done.patched.commit}, {many} patch{'' if many == 1 else 'es'}")
        if len(lock.sources) == 1:
            console.out(f"  look      git -C {lock_hint(prepared[lock.sources[0].project])} log --oneline")
        console.out(f"lock: {path}")

    return Reply({"lock_file": str(path), "lock": lock, "projects": prepared}, show)


def lock_hint(done: Prepared) -> str:
    """A directory as a shell takes it."""
    directory = done.checkout.directory
    return f"'{directory}'" if " " in directory else directory


def hipified_reply(tree: HipifiedTree) -> Reply:
    """A checkout that was hipified where it lies."""

    def show() -> None:
        console.out(f"{tree.directory}: {tree.upstream_commit}")
        for each in tree.kept:
            console.out(f"  work      {each.said()}")
        console.out(f"  hipify    {hipified_line(tree)}")

    return Reply(tree, show)


def hipified_line(tree: HipifiedTree) -> str:
    """What hipify made, in a line."""
    if tree.script is None:
        return "no hipify script in this project"
    if tree.hipify_commit is None:
        return "its script changes nothing"
    origin = "made earlier" if tree.cached else "made now"
    return f"{tree.hipify_commit}, {len(tree.changed_files)} files changed, {origin}"


def show_changes(changes: Sequence[Change], logs: Mapping[str, Log | None]) -> None:
    """The differences between two locks, the newest commits below each."""
    if not changes:
        console.out("the same commits")
    for change in changes:
        console.out(_change_line(change))
        for line in _moves(change):
            console.out(f"  {line}")
        log = logs.get(change.project)
        if log is None:
            continue
        went = "" if log.descends else f", {log.left} of the old one are not in the new one"
        console.out(f"  {log.count} commit{'' if log.count == 1 else 's'}{went}")
        for subject in log.subjects:
            console.out(f"    {subject}")
        if log.count > len(log.subjects):
            console.out(f"    … and {log.count - len(log.subjects)} more")
        if log.link is not None:
            console.out(f"  {log.link}")


def _change_line(change: Change) -> str:
    if change.kind == "added":
        return f"{change.project}: added at {short(change.new_commit or '')}"
    if change.kind == "removed":
        return f"{change.project}: removed, was at {short(change.old_commit or '')}"
    # What became of another commit is another outcome; that needs no saying.
    others = [name for name in change.fields if name not in ("commit", "outcome", "origin", "ref")]
    also = f"; other {', '.join(others)}" if others else ""
    if "outcome" in change.fields and change.old_commit == change.new_commit:
        known = (
            change.old is not None and change.old.outcome and change.new is not None and change.new.outcome
        )
        also += "; became another commit" if known else "; only one of the locks was checked out"
    if change.old_commit == change.new_commit:
        return f"{change.project}: stays at {short(change.new_commit or '')}{also}"
    return f"{change.project}: {short(change.old_commit or '')} -> {short(change.new_commit or '')}{also}"


def _moves(change: Change) -> list[str]:
    """Another repository and another branch, from what to what."""
    old, new = change.old, change.new
    if old is None or new is None:
        return []
    moves = [f"{shown(old.origin)} -> {shown(new.origin)}"] if old.origin != new.origin else []
    if old.ref != new.ref and (old.ref, new.ref) != (old.commit, new.commit):
        moves.append(f"{short_ref(old.ref)} -> {short_ref(new.ref)}")
    return moves


def saved_reply(paths: Sequence[Path]) -> Reply:
    """The patch files that were written."""

    def show() -> None:
        for path in paths:
            console.out(str(path))
        if not paths:
            console.say("nothing to save: you made no commits above what was checked out")

    return Reply({"patches": [str(path) for path in paths]}, show)
