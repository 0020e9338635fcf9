"""Brings a checkout to the outcome of its own hipify script: a commit that any machine makes the same.

The commit holds exactly what the script made, also files that `.gitignore` names, and names the hipify
commits of changed submodules. So one commit id stands for the whole tree, `git status` is clean without
hiding anything, and going to another commit removes every output. What was made once from the same tree by
the same rules is found again, here or in the mirror that checkouts share.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rocwright.errors import RocwrightError
from rocwright.sources import script
from rocwright.sources.aside import REFUSE, KeptWork, Work, set_aside
from rocwright.sources.checkout import Checkout
from rocwright.sources.mirror import Mirrors
from rocwright.sources.populate import show_submodules
from rocwright.sources.script import SCRIPT
from rocwright.sources.tree import repos, whole
from rocwright.sources.tree import state as states
from rocwright.sources.tree.move import look_ahead, move
from rocwright.sources.tree.repos import Node
from rocwright.sources.tree.state import HIPIFY_TAG, UPSTREAM_TAG, Head, State, Survey
from rocwright.sources.tree.whole import Surveys
from rocwright.sources.watch import NOBODY, Watch
from rocwright.system import git, process
from rocwright.system.git import Git

_CACHE = "refs/rocwright/hipified/"
_RULES = ("tools/amd_build", "torch/utils/hipify")


class HipifiedTree(msgspec.Struct, frozen=True):
    """A checkout after hipify.

    `hipify_commit` is `None` where there is none: because nothing changed, or because the project has no
    script (then `script`, `rules` and `python` are `None`, too). `changed_files` are paths from the top,
    those of submodules included. `rules` is the digest of the script and its modules, `hip_clang` the flag
    it was told, `python` the version that ran it; `cached` says that an earlier result was found, `kept`
    what became of work that was in the way.
    """

    directory: str
    upstream_commit: str
    hipify_commit: str | None
    changed_files: tuple[str, ...]
    script: str | None
    changed: bool
    rules: str | None = None
    hip_clang: bool = False
    python: str | None = None
    cached: bool = False
    kept: tuple[KeptWork, ...] = ()


class _Inputs(msgspec.Struct, frozen=True):
    """All that the outcome depends on."""

    rules: str
    hip_clang: bool
    python: str
    ref: str


def hipify(
    checkout: Checkout,
    *,
    head: Head = "tip",
    hip_clang: bool = False,
    python: Path | None = None,
    jobs: int = 10,
    mirrors: Mirrors | None = None,
    watch: Watch = NOBODY,
    work: Work = REFUSE,
    log: Path | None = None,
    surveys: Surveys | None = None,
) -> HipifiedTree:
    """Apply the checkout's own `tools/amd_build/build_amd.py` and commit what it made.

    The same upstream commit gives the same commit id everywhere: author and dates are fixed, nothing is
    signed. `THEROCK_HIPIFY_DIFFBASE` names it here and in every submodule (the upstream commit where
    nothing changed). With `head="upstream"` files and index are hipified all the same, and HEAD stays at
    the upstream commit. A second call only verifies; patches on top stay. `surveys` is what whoever brought
    the checkout here has just seen; without it every repository is looked at.

    Raises `UnsavedWork` when the checkout holds work that is not ours and `work` does not say what becomes
    of it, `RocwrightError` when it is at another commit, and `CommandFailed` when the script fails; the
    checkout is unchanged then.
    """
    place = Path(checkout.directory)
    with git.exclusive(place / ".git"):
        main = Node(Git(place / ".git", place, log), "", checkout.origin, checkout.commit)
        surveys = surveys or whole.survey_tree(main, jobs=jobs)
        kept = set_aside(surveys, work, place, watch=watch)
        if kept:
            surveys = whole.survey_tree(main, jobs=jobs)
        nodes = _nodes(checkout, main, surveys)
        inputs = _inputs(checkout, main, nodes, hip_clang, python)
        top, cached = checkout.commit, False
        if inputs is not None:
            watch.note(checkout.project, "hipify")
            top, cached = _outcome(checkout, nodes, surveys, inputs, python, mirrors, log)
        targets = whole.tips(nodes, top)
        afters = {node.path: _after(node, surveys[node.path][1], targets, head) for node in nodes}
        surveys, more = _cleared(nodes, surveys, afters, work, place, watch, jobs)
        changed = False
        # The project itself last: its commit names those of the submodules.
        for node in reversed(nodes):
            changed |= _settle(node, surveys[node.path][1], afters[node.path])
        return HipifiedTree(
            directory=checkout.directory,
            upstream_commit=checkout.commit,
            hipify_commit=top if top != checkout.commit else None,
            changed_files=tuple(
                whole.join(node.path, path)
                for node in nodes
                for path in states.difference(node.git, node.commit, targets[node.path] or node.commit)
            ),
            script=SCRIPT if inputs is not None else None,
            changed=changed,
            rules=inputs.rules if inputs is not None else None,
            hip_clang=hip_clang,
            python=inputs.python if inputs is not None else None,
            cached=cached,
            kept=kept + more,
        )


def _nodes(checkout: Checkout, main: Node, surveys: Surveys) -> list[Node]:
    """The repositories of the checkout, parents before children; raises when one is at another commit."""
    wanted = {"": checkout.commit} | {sub.path: sub.commit for sub in checkout.submodules}
    found = {path: survey.state for path, (_, survey) in surveys.items()}
    at = {path: None if state.pending else state.upstream for path, state in found.items()}
    pending = {path for path, state in found.items() if state.pending}
    if wanted.keys() != at.keys() or any(at[path] != wanted[path] for path in wanted if path not in pending):
        raise RocwrightError(
            f"the checkout is not at {checkout.commit} with its submodules",
            where=checkout.directory,
            next_step="run checkout again, then hipify",
        )
    origins = {sub.path: sub.origin for sub in checkout.submodules}
    nodes = [main]
    nodes += [Node(surveys[p][0].git, p, origins[p], commit) for p, commit in wanted.items() if p]
    return sorted(nodes, key=lambda node: (node.path != "", node.path.count("/"), node.path))


# --- deciding ---


def _inputs(
    checkout: Checkout, main: Node, nodes: Sequence[Node], hip_clang: bool, python: Path | None
) -> _Inputs | None:
    """What the outcome depends on; `None` for a project without a script."""
    listed = main.git.records("ls-tree", "-t", "-z", checkout.commit, SCRIPT, *_RULES)
    objects = {path: facts.split(" ")[2] for facts, path in (line.split("\t", 1) for line in listed)}
    if SCRIPT not in objects:
        return None
    rules = hashlib.sha256("".join(f"{objects[p]} {p}\n" for p in _RULES if p in objects).encode())
    version = _python_version(python)
    facts = {
        "tree": checkout.tree,
        "submodules": sorted((node.path, node.commit) for node in nodes if node.path),
        "rules": rules.hexdigest(),
        "hip_clang": hip_clang,
        "python": version,
        "env": sorted(script.PINNED_ENV.items()),
    }
    key = hashlib.sha256(msgspec.json.encode(facts)).hexdigest()
    return _Inputs(rules.hexdigest(), hip_clang, version, _CACHE + key)


def _python_version(python: Path | None) -> str:
    if python is None or python == Path(sys.executable):
        return f"{sys.version_info[0]}.{sys.version_info[1]}"
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return process.run([python, "-I", "-c", code]).stdout.strip()


def _outcome(
    checkout: Checkout,
    nodes: Sequence[Node],
    surveys: Surveys,
    inputs: _Inputs,
    python: Path | None,
    mirrors: Mirrors | None,
    log: Path | None,
) -> tuple[str, bool]:
    """The hipify commit of the project, and whether an earlier run made it."""
    main = nodes[0]
    held = {path: seen.refs.get(inputs.ref) for path, (_, seen) in surveys.items()}
    earlier = held[""]
    if earlier is None and mirrors is not None:
        earlier = _from_mirrors(nodes, inputs, mirrors)
        held = {node.path: node.git.refs(inputs.ref).get(inputs.ref) for node in nodes} if earlier else {}
    if earlier is not None:
        found = whole.tips(nodes, earlier)
        if all(found[node.path] in (node.commit, held[node.path]) for node in nodes[1:]):
            return _on(main, earlier, checkout.commit), True
    commits = script.make_commits(
        nodes, hip_clang=inputs.hip_clang, python=python, rules=inputs.rules, log=log
    )
    # The project last: its ref stands for all of them. It keeps a commit from being collected.
    for node in reversed(nodes):
        if node is main or commits[node.path] != node.commit:
            node.git.set_ref(inputs.ref, commits[node.path])
            if mirrors is not None:
                mirrors.keep(node.url, commits[node.path], inputs.ref, node.git)
    return commits[""], False


def _on(main: Node, earlier: str, commit: str) -> str:
    """An earlier outcome on this commit: another commit may have the same tree."""
    if earlier == commit:
        return earlier
    facts, message = main.git.run("show", "--no-patch", "--format=%T %P%n%B", earlier).split("\n", 1)
    words = facts.split(" ")
    if words[1:] == [commit]:
        return earlier
    upstream = main.git.run("rev-parse", f"{commit}^{{tree}}").strip()
    return commit if words[0] == upstream else script.commit_on(main.git, words[0], commit, message.strip())


def _from_mirrors(nodes: Sequence[Node], inputs: _Inputs, mirrors: Mirrors) -> str | None:
    """The outcome that another checkout made, brought here with what it names in submodules."""
    top = mirrors.find(nodes[0].url, inputs.ref, nodes[0].git)
    if top is None:
        return None
    found: dict[str, str | None] = {node.path: node.commit for node in nodes}
    found[""] = top
    for node in nodes:
        target = found[node.path]
        if target is None or target == node.commit:
            continue
        if node.path and mirrors.find(node.url, inputs.ref, node.git) != target:
            return None
        for path, (_, after) in states.moved_links(node.git, node.commit, target).items():
            found[whole.join(node.path, path)] = after
    return top


def _after(node: Node, seen: Survey, targets: dict[str, str | None], head: Head) -> State:
    target, state = targets[node.path], seen.state
    applied = target if target != node.commit else None
    # Patches stay while what lies below them does: a run that changes nothing rewrites no file.
    same = (state.upstream, state.hipify, state.pending) == (node.commit, applied, None)
    after = State(upstream=node.commit, hipify=applied, patched=state.patched if same else None, head=head)
    return after if after.tip != node.commit else msgspec.structs.replace(after, head="tip")


# --- moving ---


def _cleared(
    nodes: Sequence[Node],
    surveys: Surveys,
    afters: dict[str, State],
    work: Work,
    place: Path,
    watch: Watch,
    jobs: int,
) -> tuple[Surveys, tuple[KeptWork, ...]]:
    """See that the outputs overwrite nothing untracked, ignored files included."""
    ahead = repos.parallel(
        lambda node: look_ahead(node.git, surveys[node.path][1], afters[node.path].tip or ""), nodes, jobs
    )
    surveys = surveys | {node.path: (node, seen) for node, seen in zip(nodes, ahead, strict=True)}
    if any(seen.foreign for seen in ahead):
        kept = set_aside(surveys, work, place, watch=watch)
        return whole.survey_tree(nodes[0], jobs=jobs), kept
    return surveys, ()


def _settle(node: Node, seen: Survey, after: State) -> bool:
    """Bring one repository to its hipify commit, or only its files; returns whether anything changed."""
    wanted = after.hipify or node.commit
    if seen.hipify_tag != wanted:
        # Not the tag of another commit at any moment.
        states.tag(node.git, HIPIFY_TAG, None, seen.hipify_tag)
    changed = move(node.git, seen, after)
    states.tag(node.git, UPSTREAM_TAG, node.commit, seen.upstream_tag)
    states.tag(node.git, HIPIFY_TAG, wanted, seen.hipify_tag)
    if changed and seen.links:
        quieten(node, after)
    return changed or seen.hipify_tag != wanted


def quieten(node: Node, after: State) -> None:
    """Where HEAD stays upstream, let git not report submodules for being hipified like everything else."""
    names: frozenset[str] = frozenset()
    if after.head == "upstream" and after.tip is not None:
        moved = states.moved_links(node.git, node.commit, after.tip)
        listed = repos.submodules(node.git, node.commit, node.url) if moved else ()
        names = frozenset(sub.name for sub in listed if sub.path in moved)
    show_submodules(node.git, names)
