"""Puts patches on top of a checkout, hipified or not, and takes them away again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.errors import InvalidPatch, RocwrightError
from rocwright.sources.aside import REFUSE, KeptWork, Work, set_aside
from rocwright.sources.checkout import Checkout
from rocwright.sources.hipify import quieten
from rocwright.sources.patch_files import Patch, replay
from rocwright.sources.tree import state as states
from rocwright.sources.tree import whole
from rocwright.sources.tree.move import look_ahead, move
from rocwright.sources.tree.repos import Node
from rocwright.sources.tree.state import Head, State, Survey
from rocwright.sources.watch import NOBODY, Watch
from rocwright.system import git
from rocwright.system.git import Git

SUBJECT = "DO NOT SUBMIT: PATCHED SUBMODULES"
_CACHE = "refs/rocwright/patched/"


class PatchedTree(msgspec.Struct, frozen=True):
    """A checkout with patches.

    `base_commit` is the hipify commit, or the upstream commit where there is none, `commit` the last commit
    on top of it (the same when there are no patches). `changed` is false when all was in place, `kept` what
    became of work that was in the way.
    """

    directory: str
    base_commit: str
    commit: str
    patches: tuple[Patch, ...]
    changed: bool
    kept: tuple[KeptWork, ...] = ()


def apply_patches(
    checkout: Checkout,
    patches: Sequence[Patch],
    *,
    head: Head = "tip",
    jobs: int = 10,
    work: Work = REFUSE,
    watch: Watch = NOBODY,
    log: Path | None = None,
) -> PatchedTree:
    """Apply patches in order on top of hipify (or upstream), instead of those applied before.

    Submodules first; a commit of ours then moves their entries, the project's own patches follow. The same
    patches on the same tree give the same commit ids everywhere. `head` as for `hipify`. Without patches
    the tree goes back to what it was before.

    Raises `InvalidPatch` for one that does not fit and `UnsavedWork` when the checkout holds work that is
    not ours and `work` does not say what becomes of it; the checkout is as it was then, because all commits
    are made before any file moves.
    """
    place = Path(checkout.directory)
    with git.exclusive(place / ".git"):
        main = Node(Git(place / ".git", place, log), "", checkout.origin, checkout.commit)
        surveys = whole.survey_tree(main, jobs=jobs)
        kept = set_aside(surveys, work, place, watch=watch)
        if kept:
            surveys = whole.survey_tree(main, jobs=jobs)
        _refuse_elsewhere(checkout, surveys)
        _refuse_homeless(patches, surveys)
        if patches:
            watch.note(checkout.project, f"{len(patches)} patches")
        tips = _tips(surveys, patches)
        surveys = _look_ahead(surveys, tips)
        more = set_aside(surveys, work, place, watch=watch)
        if more:
            surveys = whole.survey_tree(main, jobs=jobs)
        origins = {"": checkout.origin} | {sub.path: sub.origin for sub in checkout.submodules}
        commits = {"": checkout.commit} | {sub.path: sub.commit for sub in checkout.submodules}
        changed = False
        # The project itself last: its commit names those of the submodules.
        for path in sorted(surveys, key=_depth, reverse=True):
            node, seen = surveys[path]
            changed |= _settle(
                msgspec.structs.replace(node, url=origins[path], commit=commits[path]), seen, tips[path], head
            )
        return PatchedTree(
            directory=checkout.directory,
            base_commit=_base(surveys[""][1].state),
            commit=tips[""],
            patches=tuple(patches),
            changed=changed,
            kept=kept + more,
        )


def has_patches(directory: Path) -> bool:
    """Whether patches lie on top of a checkout, in the project or (then too) in a submodule."""
    place = directory.expanduser().resolve()
    return states.load(Git(place / ".git", place)).patched is not None


def _depth(path: str) -> tuple[bool, int, str]:
    return (path != "", path.count("/"), path)


def _base(state: State) -> str:
    base = state.hipify or state.upstream
    assert base is not None
    return base


def _refuse_elsewhere(checkout: Checkout, surveys: Mapping[str, tuple[Node, Survey]]) -> None:
    wanted = {"": checkout.commit} | {sub.path: sub.commit for sub in checkout.submodules}
    found = {path: None if s.state.pending else s.state.upstream for path, (_, s) in surveys.items()}
    if wanted != found:
        raise RocwrightError(
            f"the checkout is not at {checkout.commit} with its submodules",
            where=checkout.directory,
            next_step="run checkout again",
        )


def _refuse_homeless(patches: Sequence[Patch], surveys: Mapping[str, tuple[Node, Survey]]) -> None:
    for patch in patches:
        if patch.repository not in surveys:
            raise InvalidPatch(
                f"{Path(patch.path).name} is for {patch.repository}, but the checkout has no such submodule",
                where=patch.path,
                next_step=f"it has: {', '.join(path for path in surveys if path) or 'none'}",
            )


# --- deciding ---


def _tips(surveys: Mapping[str, tuple[Node, Survey]], patches: Sequence[Patch]) -> dict[str, str]:
    """What each repository is to be at; writes objects alone."""
    tips: dict[str, str] = {}
    for path in sorted(surveys, key=_depth, reverse=True):
        node, seen = surveys[path]
        base = _base(seen.state)
        own = [patch for patch in patches if patch.repository == path]
        links = states.gitlinks(node.git, base)
        moved = {
            inner: tips[below]
            for inner in links
            if (below := f"{path}/{inner}" if path else inner) in tips
            and tips[below] != _base(surveys[below][1].state)
        }
        tips[path] = _patched(node.git, base, moved, own) if own or moved else base
    return tips


def _patched(repository: Git, base: str, moved: Mapping[str, str], own: Sequence[Patch]) -> str:
    """The last commit on `base`, made before or now."""
    facts = [base, sorted(moved.items()), [patch.sha256 for patch in own]]
    ref = _CACHE + hashlib.sha256(msgspec.json.encode(facts)).hexdigest()
    earlier = repository.refs(ref).get(ref)
    if earlier is not None:
        return earlier
    top = _move_submodules(repository, base, moved) if moved else base
    top = replay(repository, top, [Path(patch.path) for patch in own]) if own else top
    # Keeps the commits from being collected, and finds them again.
    repository.set_ref(ref, top)
    return top


def _move_submodules(repository: Git, base: str, moved: Mapping[str, str]) -> str:
    index = repository.git_dir / "rocwright" / "patched.index"
    scratch = Git(repository.git_dir, repository.work_tree, repository.log, index)
    try:
        scratch.run("read-tree", base)
        for path, commit in sorted(moved.items()):
            scratch.run("update-index", "--cacheinfo", f"160000,{commit},{path}")
        made = scratch.run("write-tree").strip()
    finally:
        index.unlink(missing_ok=True)
    date = scratch.run("show", "--no-patch", "--format=%ct", base).strip()
    who = {"NAME": "rocwright", "EMAIL": "rocwright@localhost", "DATE": f"@{date} +0000"}
    env = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}
    return scratch.run("commit-tree", made, "-p", base, "-m", SUBJECT, env=env).strip()


# --- acting ---


def _look_ahead(
    surveys: Mapping[str, tuple[Node, Survey]], tips: Mapping[str, str]
) -> dict[str, tuple[Node, Survey]]:
    """The surveys, counting untracked files, ignored ones included, where the patches put theirs."""
    return {path: (node, look_ahead(node.git, seen, tips[path])) for path, (node, seen) in surveys.items()}


def _settle(node: Node, seen: Survey, tip: str, head: Head) -> bool:
    """Bring one repository to its tip; returns whether anything changed."""
    state = seen.state
    base = _base(state)
    after = msgspec.structs.replace(
        state,
        patched=tip if tip != base else None,
        head=head if tip != state.upstream else "tip",
    )
    changed = move(node.git, seen, after)
    if changed and seen.links:
        quieten(node, after)
    return changed
