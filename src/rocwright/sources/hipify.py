"""Runs a checkout's own hipify script and turns its outputs into a reproducible commit.

The script runs on an export of the upstream commit, never in the checkout: whatever lies there (build
products, ignored files, an earlier hipify run) cannot reach its outputs, and an interrupted run leaves
nothing behind. The commit holds exactly what the script made, also files that `.gitignore` names, and names
the hipify commits of changed submodules. So one commit id stands for the whole tree, `git status` is clean
without hiding anything, and going to another commit removes every output.
"""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rocwright.errors import RocwrightError
from rocwright.sources import state as states
from rocwright.sources import whole
from rocwright.sources.checkout import Checkout
from rocwright.sources.mirror import Mirrors
from rocwright.sources.state import HIPIFY_TAG, Head, State, Survey
from rocwright.sources.tree import Node
from rocwright.sources.watch import NOBODY, Watch
from rocwright.sources.work import REFUSE, Work, set_aside
from rocwright.system import files, git, process
from rocwright.system.git import Git

SCRIPT = "tools/amd_build/build_amd.py"
SUBJECT = "DO NOT SUBMIT: HIPIFY"
_CACHE = "refs/rocwright/hipified/"
# The script reads $HIP_PATH/lib/.hipInfo of whatever ROCm is installed and writes other launches for it
# (112 files of PyTorch 2.6 differ). Nothing lies below the null device, so all machines agree.
_PINNED_ENV = {
    "HIP_PATH": os.devnull,
    "HIP_PLATFORM": "amd",
    "LC_ALL": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUTF8": "1",
    "TZ": "UTC",
}
_PASSED_ENV = ("PATH", "TMPDIR", "SYSTEMROOT", "TEMP")


class HipifiedTree(msgspec.Struct, frozen=True):
    """A checkout after hipify.

    `hipify_commit` is `None` where nothing was committed: on request, because nothing changed, or because
    the project has no script (then `script` is `None` too). `changed_files` are paths from the top, those
    of submodules included.
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


@dataclass(frozen=True)
class _Seen:
    node: Node
    survey: Survey
    hipified: str


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
) -> HipifiedTree:
    """Apply the checkout's own `tools/amd_build/build_amd.py` and commit what it made.

    The same upstream commit gives the same commit id everywhere: author and dates are fixed, nothing is
    signed. `THEROCK_HIPIFY_DIFFBASE` names it here and in every submodule (the upstream commit where
    nothing changed). With `head="upstream"` HEAD stays at the upstream commit, the files are hipified and
    the tag is removed; a later checkout removes exactly these outputs. A second call only verifies.

    Raises `RocwrightError` when the checkout holds work that is not ours or is at another commit, and
    `CommandFailed` when the script fails; the checkout is unchanged then.
    """
    place = Path(checkout.directory)
    with git.exclusive(place / ".git"):
        main = Node(Git(place / ".git", place, log), "", checkout.origin, checkout.commit)
        surveys = whole.survey_tree(main, jobs=jobs)
        set_aside(surveys, work, place)
        nodes = _nodes(checkout, main, surveys)
        script = SCRIPT if SCRIPT in states.tree(main.git, checkout.commit) else None
        top = checkout.commit if script is None else _hipified(main, nodes, python, log)
        targets = whole.hipified_commits(main, top, nodes)
        changed = False
        commit = head == "tip"
        # The project itself last: its commit names those of the submodules.
        for node in reversed(nodes):
            target = targets[node.path]
            assert target is not None
            changed |= _settle(_Seen(node, surveys[node.path][1], target), commit=commit)
        differing = tuple(
            f"{node.path}/{path}" if node.path else path
            for node in nodes
            for path in states.difference(node.git, node.commit, targets[node.path] or node.commit)
        )
        return HipifiedTree(
            directory=checkout.directory,
            upstream_commit=checkout.commit,
            hipify_commit=top if commit and top != checkout.commit else None,
            changed_files=differing,
            script=script,
            changed=changed,
        )


def _nodes(checkout: Checkout, main: Node, surveys: dict[str, tuple[Node, Survey]]) -> list[Node]:
    """The repositories of the checkout, parents before children; raises when one is at another commit."""
    wanted = {"": checkout.commit} | {sub.path: sub.commit for sub in checkout.submodules}
    found = {path: survey.state for path, (_, survey) in surveys.items()}
    at = {path: None if state.pending else state.upstream for path, state in found.items()}
    if wanted != at:
        raise RocwrightError(
            f"the checkout is not at {checkout.commit} with its submodules",
            where=checkout.directory,
            next_step="run checkout again, then hipify",
        )
    nodes = [main]
    nodes += [Node(surveys[path][0].git, path, "", commit) for path, commit in wanted.items() if path]
    return sorted(nodes, key=lambda node: (node.path != "", node.path.count("/"), node.path))


def _settle(seen: _Seen, *, commit: bool) -> bool:
    """Bring one repository to its hipify commit, or only its files; returns whether anything changed."""
    node, state = seen.node, seen.survey.state
    applied = seen.hipified if seen.hipified != node.commit else None
    after = State(
        upstream=node.commit, hipify=applied, head="tip" if commit or applied is None else "upstream"
    )
    head = seen.hipified if commit else node.commit
    changed = False
    if not (state == after and seen.survey.settled and seen.survey.head == head):
        at_commit = msgspec.structs.replace(after, head="tip")
        states.move(node.git, seen.hipified, at_commit)
        if not commit and applied is not None:
            # The files stay, HEAD and the index go back: `git rev-parse HEAD` is a published commit.
            states.save(node.git, after)
            node.git.run("reset", "--quiet", "--mixed", node.commit)
        changed = True
    tag = seen.hipified if commit else None
    states.tag(node.git, HIPIFY_TAG, tag, seen.survey.hipify_tag)
    return changed or tag != seen.survey.hipify_tag


def _hipified(main: Node, nodes: list[Node], python: Path | None, log: Path | None) -> str:
    """The hipify commit of the checkout: the one made earlier from the same inputs, else a new one."""
    cached = _CACHE + _fingerprint(nodes, _python_version(python))
    earlier = main.git.refs(cached).get(cached)
    made = whole.hipified_commits(main, earlier, nodes)
    if earlier is not None and all(node.git.has_commit(made[node.path] or "") for node in nodes):
        return earlier
    area = main.git.git_dir / "rocwright" / "hipify"
    files.remove_tree(area)
    area.mkdir(parents=True)
    try:
        root = area / main.git.work_tree.name
        exports = {node.path: _export(node, root, area / f"index.{n}") for n, node in enumerate(nodes)}
        _run_script(root, python, log)
        commits: dict[str, str] = {}
        for node in reversed(nodes):
            commits[node.path] = _record(node, exports[node.path], commits)
            # Keeps the commit from being collected, and finds it again.
            node.git.set_ref(cached, commits[node.path])
        return commits[""]
    finally:
        files.remove_tree(area)


def _fingerprint(nodes: list[Node], python: str) -> str:
    facts = [[node.path, node.commit] for node in nodes], sorted(_PINNED_ENV.items()), python
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()


def _python_version(python: Path | None) -> str:
    if python is None or python == Path(sys.executable):
        return f"{sys.version_info[0]}.{sys.version_info[1]}"
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return process.run([python, "-I", "-c", code]).stdout.strip()


def _export(node: Node, root: Path, index: Path) -> Git:
    """Write the upstream files of one repository below `root`, through an index of their own."""
    work_tree = root / node.path
    work_tree.mkdir(parents=True, exist_ok=True)
    exported = Git(node.git.git_dir, work_tree, node.git.log, index)
    exported.run("read-tree", "--reset", "-u", node.commit)
    return exported


def _run_script(root: Path, python: Path | None, log: Path | None) -> None:
    passed = {name: os.environ[name] for name in _PASSED_ENV if name in os.environ}
    process.run(
        [python or sys.executable, "-s", SCRIPT],
        cwd=root,
        env={**passed, **_PINNED_ENV},
        clean_env=True,
        log=log,
        next_step="the checkout is unchanged; correct the script or its inputs in the project and run again",
    )


def _record(node: Node, exported: Git, commits: dict[str, str]) -> str:
    """Commit what the script changed in one exported repository; the upstream commit when nothing."""
    links = states.gitlinks(node.git, node.commit)
    listed = exported.records("ls-files", "-z", "--modified", "--deleted", "--others")
    below = tuple(f"{path}/" for path in links)
    paths = sorted({path for path in listed if path not in links and not path.startswith(below)})
    if paths:
        assert exported.index is not None
        listing = exported.index.with_suffix(exported.index.suffix + ".paths")
        files.write_text(listing, "".join(f"{path}\0" for path in paths))
        exported.run("add", "--force", "--all", f"--pathspec-from-file={listing}", "--pathspec-file-nul")
    for path, upstream in links.items():
        target = commits.get(f"{node.path}/{path}" if node.path else path, upstream)
        if target != upstream:
            exported.run("update-index", "--cacheinfo", f"160000,{target},{path}")
    made = exported.run("write-tree").strip()
    upstream_tree, date = exported.run("show", "--no-patch", "--format=%T %ct", node.commit).split()
    if made == upstream_tree:
        return node.commit
    who = {"NAME": "rocwright", "EMAIL": "rocwright@localhost", "DATE": f"@{date} +0000"}
    env = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}
    return exported.run("commit-tree", made, "-p", node.commit, "-m", SUBJECT, env=env).strip()
