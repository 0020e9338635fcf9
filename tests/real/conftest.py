"""A clean clone of this repository, used by an unprivileged user, shared by all real tests of a session.

As root (in CI) the commands run as another user who owns nothing but the clone and its home; otherwise
as the user who runs the tests. ROCm packages come from the distribution once; ROCWRIGHT_TEST_CACHE may
name a directory that keeps them between runs.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from real import corpus, sdk_index, sdk_sets
from real.gputest import userland
from real.gputest.userland import Desk

REPOSITORY = Path(__file__).resolve().parents[2]
NOBODY = 65534

# ROCm's packages and the demo take minutes and gigabytes to make: the fixtures that do, and those upon them.
SHARED = frozenset({"demo", "builder", "earlier", "real_sets", "real_environment"})


# The first seed of the generated faults: another each day, and one that workers of a run have in common.
os.environ.setdefault("ROCWRIGHT_TEST_FAULTS", f"{date.today():%Y%m%d}00")


def pytest_terminal_summary(terminalreporter):
    reports = (each for some in terminalreporter.stats.values() for each in some)
    if any("test_fault_generator" in getattr(each, "nodeid", "") for each in reports):
        terminalreporter.line(
            f"generated faults: ROCWRIGHT_TEST_FAULTS={os.environ['ROCWRIGHT_TEST_FAULTS']}"
        )


def pytest_collection_modifyitems(items):
    ours = [item for item in items if Path(__file__).parent in Path(item.fspath).parents]
    for item in ours:
        item.add_marker(pytest.mark.real)
    if len(ours) == len(items):
        items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """What takes longest begins first: at the end no worker waits for minutes on another's last file."""
    if _group(item.nodeid.partition("::")[0]) == "shared":
        return 0
    return 1 if item.get_closest_marker("long") else 2


class ByWhatIsShared(LoadScopeScheduling):
    """A file's tests run on one worker, and so do all files with a fixture of `SHARED`: it is made once.

    Those with packages of the corpus, too: each package is unpacked once for all of them.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _group(nodeid.partition("::")[0])


@cache
def _group(file: str) -> str:
    nodes = ast.walk(ast.parse((REPOSITORY / file).read_text()))
    used = {node.arg for node in nodes if isinstance(node, ast.arg)}
    if used & SHARED:
        return "shared"
    return "corpus" if "unpacked" in used else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return ByWhatIsShared(config, log)


@dataclass
class Newcomer:
    """Somebody with a clean clone at `clone` and an empty home."""

    home: Path
    clone: Path
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, *argv: str | Path) -> list[str]:
        words = [str(word) for word in argv]
        if os.geteuid() == 0:
            words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *words]
        return words

    def env(self, **more: str) -> dict[str, str]:
        return {**self.environment, **more}

    def run(
        self, *argv: str | Path, ok: bool = True, cwd: Path | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*argv), cwd=cwd or self.clone, env=self.env(**more), text=True, capture_output=True
        )
        if ok and done.returncode != 0:
            pytest.fail(f"{argv} ended with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
        return done

    def rocwright(self, *argv: str | Path, ok: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.clone / ".venv/bin/rocwright", *argv, ok=ok, **more)

    def own(self, path: Path) -> None:
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(path)], check=True)


def _python() -> str:
    """An interpreter that another user may run: the system's, when ours lies in a private home."""
    return "/usr/bin/python3" if os.geteuid() == 0 and Path("/usr/bin/python3").exists() else sys.executable


@pytest.fixture(scope="session")
def newcomer() -> Iterator[Newcomer]:
    # Not pytest's own temporary directory: that one is closed to other users, again at every session.
    root = Path(tempfile.mkdtemp(prefix="rocwright-real-"))
    root.chmod(0o755)
    try:
        yield _move_in(root)
    finally:
        # Gigabytes in a hundred thousand files, at the very end: nobody waits until they are gone.
        subprocess.run(["sh", "-c", 'rm -rf "$1" >/dev/null 2>&1 &', "-", str(root)], check=True)


def _move_in(root: Path) -> Newcomer:
    home, clone = root / "home", root / "rocwright"
    home.mkdir()
    subprocess.run(["git", "clone", "-q", str(REPOSITORY), str(clone)], check=True)
    # What is not committed yet is tested too, so that a red test shows before the commit.
    changed = subprocess.run(
        ["git", "ls-files", "-m", "-o", "--exclude-standard", "-z"],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
    ).stdout.decode()
    for name in filter(None, changed.split("\0")):
        source, target = REPOSITORY / name, clone / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    kept = {
        name: os.environ[name]
        for name in ("PIP_CERT", "SSL_CERT_FILE", "PIP_INDEX_URL", "PIP_FIND_LINKS")
        if name in os.environ
    }
    environment = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", **kept}
    # Errors are told whole then, as for all tests.
    environment["CI"] = "true"
    someone = Newcomer(home, clone, environment)
    someone.own(root)
    someone.run("make", "install", f"PYTHON={_python()}")
    return someone


@pytest.fixture(scope="session")
def cache(newcomer: Newcomer, tmp_path_factory) -> Path:
    """Where the distribution's ROCm packages are kept."""
    named = os.environ.get("ROCWRIGHT_TEST_CACHE")
    path = Path(named) if named else newcomer.home / ".cache" / "rocwright"
    path.mkdir(parents=True, exist_ok=True)
    newcomer.own(path if named else newcomer.home)
    return path


@dataclass
class Demo:
    """A finished demo: its workspace and the JSON it printed."""

    work: Path
    report: dict

    def value(self, step: str) -> dict:
        return next(row["value"] for row in self.report["steps"] if row["id"] == step)

    def states(self) -> dict[str, str]:
        return {row["id"]: row["state"] for row in self.report["steps"]}


@pytest.fixture(scope="session")
def demo(newcomer: Newcomer, cache: Path) -> Demo:
    """`make demo` on the clean clone, as the newcomer."""
    done = newcomer.run("make", "demo", f"ARGS=--json --cache-dir {cache}")
    return Demo(newcomer.clone / "demo", json.loads(done.stdout))


@pytest.fixture(params=corpus.of_this_run(), ids=lambda item: f"{item.name}-{item.version}", scope="session")
def unpacked(request, tmp_path_factory):
    """One package of the corpus and its tree, which is removed before the next: some take gigabytes."""
    package = corpus.obtain(request.param)
    root = tmp_path_factory.mktemp("corpus")
    yield request.param, package, corpus.unpack(package, root / "tree")
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def small_sets(newcomer: Newcomer) -> sdk_sets.SmallSets:
    """Packages of a small ROCm, in two versions and both modes."""
    root = newcomer.home / "small-rocm"
    root.mkdir()
    return sdk_sets.make_small_sets(newcomer, root)


@pytest.fixture(scope="session")
def small_index(small_sets: sdk_sets.SmallSets) -> Iterator[sdk_index.Index]:
    """Serves both versions of the small ROCm's packages (kpack mode)."""
    with sdk_index.serving(small_sets.old, small_sets.new) as index:
        yield index


@pytest.fixture(scope="session")
def real_sets(newcomer: Newcomer, cache: Path) -> sdk_sets.RealSets:
    """The distribution's ROCm as packages of both modes."""
    return sdk_sets.make_real_sets(newcomer, cache)


@pytest.fixture(scope="session")
def real_environment(
    newcomer: Newcomer, real_sets: sdk_sets.RealSets
) -> Iterator[Callable[[str], sdk_sets.Environment]]:
    """Gives an environment with the distribution's ROCm of a kind: `kpack`, `legacy` or `split_compiler`."""
    made: dict[str, sdk_sets.Environment] = {}
    with ExitStack() as servers:

        def environment(kind: str) -> sdk_sets.Environment:
            if kind not in made:
                index = servers.enter_context(sdk_index.serving(getattr(real_sets, kind)))
                root, cache = newcomer.home / f"real-{kind}", newcomer.home / f"real-{kind}-cache"
                made[kind] = sdk_sets.Environment(newcomer, root, "uv", index, cache)
                devices = "" if kind == "legacy" else ",device-gfx906,device-gfx90a"
                made[kind].install(f"rocm[libraries,devel{devices}]")
                assert made[kind].failed() == {}, "and nothing was expanded yet"
            return made[kind]

        yield environment


@pytest.fixture(scope="session")
def desk(newcomer: Newcomer) -> Iterator[Desk]:
    """Debian's torch and its sources, the newcomer's own; about 30 seconds, once."""
    root = newcomer.home / "torch"
    root.mkdir()
    python = userland.make(root / "userland")
    checkout = userland.make_checkout(root / "pytorch")
    newcomer.own(root)
    yield Desk(newcomer, root, python, checkout)
    shutil.rmtree(root)
