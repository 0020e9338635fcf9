"""What a run is asked to do, as one frozen value, and where it keeps things."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Workspace:
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


@dataclass(frozen=True)
class RunOptions:
    """Options of a run.

    `targets` are the GPU targets that the family is compiled for, `torch_ref` the branch of torch,
    `rocm_prefix` replaces the distribution's ROCm, `run_id` begins the run's name in the store.
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


def default_cache() -> Path:
    """`$XDG_CACHE_HOME/rocwright`, by default `~/.cache/rocwright`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rocwright"
