"""Runs a project's own hipify script on an export of its sources and turns what it made into commits.

Whatever lies in the checkout (build products, ignored files, an earlier hipify run) cannot reach the
outputs, and an interrupted run leaves nothing behind. Surroundings that could change the outputs are pinned;
they are a fence against accidents, not against a hostile script: that runs with the rights of the user.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from rocwright.errors import CommandFailed, InvalidInput, RocwrightError
from rocwright.sources.tree import state as states
from rocwright.sources.tree.move import read_tree
from rocwright.sources.tree.repos import Node
from rocwright.sources.tree.survey import batches, same_file
from rocwright.sources.tree.whole import join
from rocwright.system import files, git, process
from rocwright.system.git import Git

SCRIPT = "tools/amd_build/build_amd.py"
SUBJECT = "DO NOT SUBMIT: HIPIFY"
PINNED_ENV = {
    "HIP_PLATFORM": "amd",
    "LC_ALL": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUTF8": "1",
    "TZ": "UTC",
    # Sources come from the commit alone: what asks the network by accident is told so.
    "http_proxy": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
}
_PASSED_ENV = ("PATH", "SYSTEMROOT")
# The script joins its own directory with patterns.
_GLOB = "*?["


def make_commits(
    nodes: Sequence[Node], *, hip_clang: bool, python: Path | None, rules: str, log: Path | None
) -> dict[str, str]:
    """Run the script on the upstream trees of `nodes`, parents first; its commit for each repository.

    A repository that the script left alone has its upstream commit. Raises `CommandFailed` when the script
    fails and `RocwrightError` for outputs that no commit can hold; nothing else is written then.
    """
    main = nodes[0]
    if log is None:
        log = main.git.git_dir / "rocwright" / "hipify.log"
        log.unlink(missing_ok=True)
    with _area(main) as area:
        root = area / "source"
        exports = [_export(node, root, area / f"git.{n}") for n, node in enumerate(nodes)]
        try:
            _run(root, area, hip_clang, python, log)
        except CommandFailed as error:
            error.next_step = _next_step(nodes) or error.next_step
            raise
        _refuse_repositories(root, main)
        body = f"Hipify-Rules: {rules}\nHipify-Hip-Clang: {'true' if hip_clang else 'false'}"
        commits: dict[str, str] = {}
        # Parents last: their commits name those of their submodules.
        for node, exported in reversed(list(zip(nodes, exports, strict=True))):
            commits[node.path] = _record(node, exported, commits, area, body)
        return commits


@contextmanager
def _area(main: Node) -> Iterator[Path]:
    area = main.git.git_dir / "rocwright" / "hipify"
    files.remove_tree(area)
    if any(letter in str(area) for letter in _GLOB):
        with tempfile.TemporaryDirectory(prefix="rocwright-hipify-") as elsewhere:
            yield Path(elsewhere).resolve()
        return
    try:
        yield area
    finally:
        files.remove_tree(area)


def _export(node: Node, root: Path, git_dir: Path) -> Git:
    """Write the upstream files of one repository below `root`, through a git directory of their own.

    It has the objects of the checkout's, not its configuration, attributes or filters.
    """
    own = git.scratch(git_dir, root / node.path, node.commit, log=node.git.log)
    exported = msgspec.structs.replace(own, objects=node.git.git_dir.resolve() / "objects")
    read_tree(exported, "--reset", "-u", node.commit)
    return exported


def _run(root: Path, area: Path, hip_clang: bool, python: Path | None, log: Path) -> None:
    # The script reads $HIP_PATH/lib/.hipInfo of whatever ROCm is installed and writes other launches for it
    # (112 files of PyTorch 2.6 differ), so it gets one of its own.
    hip, scratch = area / "hip", area / "tmp"
    for directory in (hip / "lib", scratch):
        directory.mkdir(parents=True)
    if hip_clang:
        files.write_text(hip / "lib" / ".hipInfo", "HIP_COMPILER=clang\nHIP_RUNTIME=rocclr\n")
    own = {
        "HIP_PATH": str(hip),
        "HOME": str(scratch),
        # git started by the script must not find the repository that the export lies in.
        "GIT_CEILING_DIRECTORIES": str(area),
        **{name: str(scratch) for name in ("TMPDIR", "TEMP", "TMP")},
    }
    passed = {name: os.environ[name] for name in _PASSED_ENV if name in os.environ}
    process.run(
        [python or sys.executable, "-s", SCRIPT],
        cwd=root,
        env={**passed, **PINNED_ENV, **own},
        clean_env=True,
        log=log,
        next_step="no file of the checkout was changed; correct the script or its inputs and run again",
    )


def _next_step(nodes: Sequence[Node]) -> str | None:
    """What to do about a failure where submodules are missing: the script may have wanted their files."""
    main, present = nodes[0], {node.path for node in nodes}
    missing = [path for path in states.gitlinks(main.git, main.commit) if path not in present]
    if not missing:
        return None
    directory = shlex.quote(str(main.git.work_tree))
    some = missing[0] + (", …" if len(missing) > 1 else "")
    return (
        f"no file of the checkout was changed; {len(missing)} of its submodules not populated ({some}):"
        f" run `git -C {directory} submodule update --init --recursive` and hipify again"
    )


def _refuse_repositories(root: Path, main: Node) -> None:
    """Raise for a repository among the outputs: git would record its commit, which nobody has."""
    for here, names, plain in os.walk(root):
        if ".git" in names or ".git" in plain:
            where = Path(here).relative_to(root).as_posix()
            raise _unusable(f"{SCRIPT} made a git repository at {where}; no commit can hold it", main)


def _unusable(what: str, node: Node) -> RocwrightError:
    advice = "the checkout is unchanged; correct the script in the project and run again"
    return RocwrightError(what, where=node.git.work_tree, next_step=advice)


def _record(node: Node, exported: Git, commits: dict[str, str], area: Path, body: str) -> str:
    """Commit what the script changed in one exported repository; the upstream commit when nothing."""
    if not exported.work_tree.is_dir():
        raise _unusable(f"{SCRIPT} removed submodule {node.path}", node)
    links = states.gitlinks(node.git, node.commit)
    paths = _touched(node, exported, links, area)
    if paths:
        listing = area / "paths"
        files.write_text(listing, "".join(f"{path}\0" for path in paths))
        exported.run("add", "--force", "--all", f"--pathspec-from-file={listing}", "--pathspec-file-nul")
    moved = {path: commits.get(join(node.path, path), upstream) for path, upstream in links.items()}
    words = [
        word
        for path, target in moved.items()
        if target != links[path]
        for word in ("--cacheinfo", f"{states.GITLINK},{target},{path}")
    ]
    if words:
        exported.run("update-index", *words)
    if not paths and not words:
        return node.commit
    made = exported.run("write-tree").strip()
    if made == exported.run("rev-parse", f"{node.commit}^{{tree}}").strip():
        return node.commit
    return commit_on(exported, made, node.commit, f"{SUBJECT}\n\n{body}\n")


def _touched(node: Node, exported: Git, links: dict[str, str], area: Path) -> list[str]:
    """What the script wrote, removed or added, also what git ignores; not what only looks so."""
    try:
        listed = exported.records("ls-files", "-z", "--modified", "--deleted", "--others")
    except InvalidInput as error:
        raise _unusable(f"{SCRIPT} wrote a file whose name is not UTF-8", node) from error
    below = tuple(f"{path}/" for path in links)
    paths = sorted({path for path in listed if path not in links and not path.startswith(below)})
    if not paths:
        return []
    # A file whose stored line ends contradict .gitattributes looks modified, sometimes: committing it
    # would make the result depend on the clock.
    originals = area / "original"
    known = {*exported.records("ls-files", "-z", "--cached")}
    for batch in batches([(path, "") for path in paths if path in known]):
        names = [path for path, _ in batch]
        exported.run("checkout-index", "--quiet", "--force", f"--prefix={originals}/", "--", *names)
    changed = [path for path in paths if not same_file(originals / path, exported.work_tree / path)]
    files.remove_tree(originals)
    return changed


def commit_on(repository: Git, tree: str, parent: str, message: str) -> str:
    """A commit whose id follows from its tree, parent and message: author and dates are fixed by these."""
    date = repository.run("show", "--no-patch", "--format=%ct", parent).strip()
    who = {"NAME": "rocwright", "EMAIL": "rocwright@localhost", "DATE": f"@{date} +0000"}
    env = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}
    return repository.run("commit-tree", tree, "-p", parent, "-m", message, env=env).strip()
