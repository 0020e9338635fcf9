"""What a run is asked to do, as one frozen value, and where it keeps things."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from rocwright.data import load_table
from rocwright.data.overlay import Overlay
from rocwright.model.channels import Channels
from rocwright.model.plan import Publication, Rocm, Sources
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.trust.guard import guarded
from rocwright.store.trust.keys import SigningKey
from rocwright.system.days import today
from rocwright.system.interpreters import Interpreter, find_interpreter

_T = TypeVar("_T")


class Workspace(msgspec.Struct, frozen=True):
    """The directories of a run below one root; everything in them can be made again."""

    root: Path

    @property
    def state(self) -> Path:
        """Records of finished steps."""
        return self.root / "state"

    @property
    def prefix(self) -> Path:
        """The ROCm installation laid out from the distribution's packages."""
        return self.root / "rocm"

    @property
    def rocm_wheels(self) -> Path:
        """ROCm as Python packages."""
        return self.root / "dist" / "rocm"

    @property
    def torch_wheels(self) -> Path:
        """Wheels of the PyTorch family."""
        return self.root / "dist" / "pytorch"

    @property
    def origins(self) -> Path:
        """Git repositories standing in for the public ones."""
        return self.root / "origins"

    @property
    def sources(self) -> Path:
        """Checked-out and hipified trees."""
        return self.root / "src"

    @property
    def store(self) -> Path:
        """The local folder that stands for the object store."""
        return self.root / "store"

    def environment(self, name: str) -> Path:
        """A virtual environment of the run."""
        return self.root / "env" / name

    def log(self, step: str) -> Path:
        """The log of a step's commands."""
        return self.root / "log" / f"{step}.log"


_DISTRIBUTION = Rocm()
_ALL = Publication(upload=True, channels=True)


class RunOptions(msgspec.Struct, frozen=True):
    """Options of the steps at one place of a run.

    `targets` are the GPU targets that the family is compiled for, `torch_ref` the branch of torch, `python`
    names the interpreter (empty: the running Python), `projects` those that are built (empty: all),
    `extensions` those of the run that stand on torch, `extension` the one of this step, `group`
    the place of the packages in the run's folder (empty: ROCm's family), `families` are those that it is for,
    `gpu_family` the family that is tested, `tests` the level that is asked for with tests by name, `shard`
    the part of it (empty: all of it), cut by the times of the runs `durations`, `part` the targets whose
    device code is built here (empty: all). `rocm_prefix` replaces the distribution's ROCm,
    `run_id` begins the run's name in the store, `profile` is the run's.

    `objects` is the store, by default a folder of the workspace. In a store that is the run's `own`, what an
    earlier run left under the same names is replaced; any other refuses that.
    """

    workspace: Workspace
    cache: Path
    targets: tuple[str, ...]
    torch_ref: str
    rocm_prefix: Path | None = None
    rocm_version: str | None = None
    family: str | None = None
    run_id: str = "demo"
    platform: str = "linux"
    jobs: int = 2
    refresh: bool = False
    python: str = ""
    projects: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    extension: str = ""
    group: str = ""
    gpu_family: str = ""
    tests: str = ""
    shard: str = ""
    durations: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    part: tuple[str, ...] = ()
    sources: Sources = "miniature"
    rocm: Rocm = _DISTRIBUTION
    publication: Publication = _ALL
    channel: str = ""
    profile: str = "demo"
    objects: ObjectStore | None = None
    own: bool = False
    overlay: Overlay | None = None
    signers: tuple[SigningKey, ...] = ()

    def table(self, name: str, type_: type[_T]) -> _T:
        """A table of facts, with what a rocwright.toml adds to it; raises `InvalidData` as `load_table`."""
        return load_table(name, type_, self.overlay)

    def overlaid(self, *names: str) -> dict[str, object]:
        """What a rocwright.toml adds to these tables: facts that a step depends on; nothing without it."""
        tables = {} if self.overlay is None else self.overlay.tables
        return {name: tables[name] for name in names if name in tables}

    @property
    def store(self) -> ObjectStore:
        """The store of the run, as its channels' trusted keys let it be seen."""
        store = self.objects or LocalStore(self.workspace.store)
        return guarded(store, self.table("channels", Channels), today(), self.signers)

    @property
    def interpreter(self) -> Interpreter:
        """The Python that wheels are built for; raises `MissingTool` naming how to get it."""
        return _interpreter(self.python)


@cache
def _interpreter(name: str) -> Interpreter:
    return find_interpreter(name)


def default_cache() -> Path:
    """`$XDG_CACHE_HOME/rocwright`, by default `~/.cache/rocwright`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rocwright"
