"""A user's machine: a clone of this repository, shells, and local origins in the place of public ones.

Commands are typed as the documents print them. What reaches the network is turned to this machine: git by its
own `insteadOf`, addresses of package indexes by the shell's `local`; the printed text is kept beside what was
run.

A scene is what a document does from top to bottom. It takes place once in a run of the tests, whoever of the
workers comes first, and leaves its transcript; cases look things up there.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 540
# What pip needs here to reach the index for build requirements.
_KEPT = ("PIP_CERT", "SSL_CERT_FILE", "PIP_INDEX_URL", "PIP_FIND_LINKS", "PIP_DEFAULT_TIMEOUT")
# The pieces of the repository that documents name.
_NAMED = ("external-builds", "build_tools", "third-party", ".github", "docs", "README.md", "RELEASES.md")


def base_python() -> Path:
    """The interpreter that the tests' own environment was made of: users have no environment yet."""
    # `sys.executable` is that of the environment; nothing public names the other one.
    return Path(sys._base_executable)


@dataclass(frozen=True)
class Done:
    """A command that came to its end: as printed, as run, and what it said; seconds of wall time."""

    printed: str
    line: str
    cwd: str
    code: int
    out: str
    err: str
    wall_s: float
    ids: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        return f"$ {self.line}\n(in {self.cwd}: exit {self.code})\n{self.out[-3000:]}\n{self.err[-6000:]}"


@dataclass
class Shell:
    """An open terminal: its directory and variables last from one command to the next."""

    world: World
    home: Path
    cwd: Path
    variables: dict[str, str] = field(default_factory=dict)
    local: dict[str, str] = field(default_factory=dict)
    done: list[Done] = field(default_factory=list)

    def __call__(
        self,
        printed: str,
        *ids: str,
        run: str | None = None,
        more: str = "",
        code: int | None = 0,
        env: Mapping[str, str] | None = None,
    ) -> Done:
        """Type a line that the rows `ids` print; `more` goes behind it, `run` is typed in its place.

        `code` is the exit code it has to end with; None for any.
        """
        line = (printed if run is None else run) + (f" {more}" if more else "")
        for public, mine in self.local.items():
            line = line.replace(public, mine)
        state = self.home / ".shell-state"
        script = f'cd "$1"; {line}\ncode=$?; {{ pwd; env -0; }} >"$2"; exit $code'
        began = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", script, "bash", str(self.cwd), str(state)],
            env={**self.variables, **(env or {})},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        wall_s = time.monotonic() - began
        ended = Done(
            printed, line, str(self.cwd), done.returncode, done.stdout, done.stderr, round(wall_s, 2), ids
        )
        if state.exists():
            self._remember(state.read_text(errors="replace"), set(env or ()))
            state.unlink()
        self.done.append(ended)
        self.world.saw(ended)
        assert "Traceback (most recent call last)" not in ended.err, ended.said
        assert code is None or ended.code == code, ended.said
        return ended

    def _remember(self, text: str, only_once: set[str]) -> None:
        place, _, variables = text.partition("\n")
        self.cwd = Path(place)
        found = dict(pair.split("=", 1) for pair in variables.split("\0") if "=" in pair)
        own = {name: value for name, value in found.items() if name not in {"_", "SHLVL", *only_once}}
        self.variables = own | {name: self.variables[name] for name in only_once & set(self.variables)}


@dataclass(frozen=True)
class Transcript:
    """What a scene left: its commands in order, its directory, and facts that it wrote down."""

    world: World
    home: Path
    done: list[Done]
    facts: dict[str, object]

    def of(self, id_: str) -> Done:
        """The last command that was typed for a row; it counts as run by who asks."""
        found = [one for one in self.done if id_ in one.ids]
        assert found, f"no command of this scene was typed for {id_}"
        for one in found:
            self.world.saw(one)
        return found[-1]

    def all_of(self, id_: str) -> list[Done]:
        """Every command that was typed for a row, in order."""
        self.of(id_)
        return [one for one in self.done if id_ in one.ids]

    def calling(self, name: str) -> list[Done]:
        """The commands whose line has this program or script, each of which counts as run by who asks."""
        found = [one for one in self.done if name in one.line]
        assert found, f"no command of this scene calls {name}"
        for one in found:
            self.world.saw(one)
        return found


@dataclass
class World:
    """All that the scenes share; `root` is the same directory for every worker of a run."""

    root: Path
    seen: list[Done] = field(default_factory=list)

    # -- evidence

    def saw(self, done: Done) -> None:
        """Count a command as evidence of the row that is looked at."""
        self.seen.append(done)

    @contextmanager
    def watched(self) -> Iterator[list[Done]]:
        """The commands that count while the block runs."""
        self.seen = []
        yield self.seen

    # -- things made once

    def once(self, name: str, make: Callable[[Path], None]) -> Path:
        """The directory `name`, made by the first who asks; a failure is the same for everybody."""
        place, ready, failed = (self.root / f"{name}{end}" for end in ("", ".ready", ".failed"))
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not ready.exists() and not failed.exists():
                place.mkdir()
                try:
                    make(place)
                except BaseException as error:
                    failed.write_text("".join(traceback.format_exception(error)))
                    raise
                ready.touch()
        assert not failed.exists(), f"{name} failed before:\n{failed.read_text()}"
        return place

    def scene(self, name: str, play: Callable[[Shell], dict[str, object] | None]) -> Transcript:
        """The transcript of a scene that is played in a home of its own; `play` may return facts."""

        def make(place: Path) -> None:
            shell = self.shell(place)
            try:
                facts = play(shell) or {}
            finally:
                text = "\n".join(one.said for one in shell.done)
                (place / "log.txt").write_text(text)
            value = {"done": [asdict(one) for one in shell.done], "facts": facts}
            (place / "transcript.json").write_text(json.dumps(value))

        # A command that this worker types on the way is no evidence of the row that happens to ask first.
        seen, self.seen = self.seen, []
        try:
            place = self.once(name, make)
        finally:
            self.seen = seen
        value = json.loads((place / "transcript.json").read_text())
        done = [Done(**{**one, "ids": tuple(one["ids"])}) for one in value["done"]]
        return Transcript(self, place, done, value["facts"])

    # -- machines

    def clone(self) -> Path:
        """This repository as it is now, uncommitted changes too."""

        def make(place: Path) -> None:
            subprocess.run(["git", "clone", "-q", str(ROOT), str(place / "rocwright")], check=True)
            words = ["git", "ls-files", "-m", "-o", "--exclude-standard", "-z"]
            changed = subprocess.run(words, cwd=ROOT, check=True, capture_output=True).stdout.decode()
            for name in filter(None, changed.split("\0")):
                source, target = ROOT / name, place / "rocwright" / name
                if source.is_file():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(source, target)

        return self.once("clone", make) / "rocwright"

    def wheel(self) -> Path:
        """rocwright as a wheel of that clone: it installs in seconds wherever the clone would."""

        def make(place: Path) -> None:
            words = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(place)]
            subprocess.run([*words, str(self.clone())], check=True, env=self._variables(place))

        (found,) = self.once("wheel", make).glob("*.whl")
        return found

    def venv(self) -> Path:
        """A plain environment with rocwright and pytest, for scenes that do not make their own."""

        def make(place: Path) -> None:
            subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True)
            pip = [str(place / "venv/bin/python"), "-m", "pip", "install", "-q"]
            wheel = f"{self.wheel()}[pipeline,store]"
            subprocess.run([*pip, wheel, "pytest"], check=True, env=self._variables(place))

        return self.once("environment", make) / "venv"

    def shell(self, home: Path) -> Shell:
        """A terminal in a home with the documented files of the clone below `rocwright`."""
        clone = home / "rocwright"
        for name in _NAMED:
            source, target = self.clone() / name, clone / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True)
            else:
                shutil.copy2(source, target)
        return Shell(self, home, clone, self._variables(home))

    def activate(self, shell: Shell) -> None:
        """As `source bin/activate` of the shared environment does."""
        venv = self.venv()
        shell.variables["VIRTUAL_ENV"] = str(venv)
        shell.variables["PATH"] = f"{venv / 'bin'}{os.pathsep}{shell.variables['PATH']}"

    def _variables(self, home: Path) -> dict[str, str]:
        """All there is of an environment: nothing of this machine's ROCm, and one cache for all of pip."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return {
            "HOME": str(home),
            "PATH": f"{self._programs()}:/usr/local/bin:/usr/bin:/bin",
            "LC_ALL": "C.UTF-8",
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
            "PIP_CACHE_DIR": str(self.root / "pip-cache"),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            **kept,
        }

    def _programs(self) -> Path:
        """Where `python` is the interpreter that the tests run on."""
        base = base_python()
        if (base.parent / "python").exists():
            return base.parent

        def make(place: Path) -> None:
            (place / "python").symlink_to(base)

        return self.once("programs", make)
