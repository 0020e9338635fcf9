"""What rendered workflows name, as the table `data/workflows.toml` has it. Values only."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from rocwright.errors import InvalidInput

_COMMIT = re.compile(r"[0-9a-f]{40}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
Use = Literal["build", "test", "own"]


class Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An action, pinned: `version` is what `commit` was tagged as."""

    name: str
    version: str
    commit: str

    def __post_init__(self) -> None:
        if not _COMMIT.fullmatch(self.commit):
            raise ValueError(f"{self.name} is pinned by 40 hexadecimal digits, not {self.commit!r}")

    @property
    def pinned(self) -> str:
        """As a step names it."""
        return f"{self.name}@{self.commit}"


class Container(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An image that jobs run in; `python` in it runs this tool, where none has to be set up."""

    use: Use
    platform: str
    image: str
    digest: str
    python: str = ""
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.digest):
            raise ValueError(f"{self.image} is pinned by sha256: and 64 digits, not {self.digest!r}")

    @property
    def pinned(self) -> str:
        """As a job names it."""
        return f"{self.image}@{self.digest}"


class MachineRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What jobs without a GPU run on; a repository's `variable` names another label."""

    platform: str
    label: str
    variable: str


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Minutes that a job may take."""

    job: str
    minutes: int


class WorkflowTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table; `region` is the store's where no variable says another one."""

    region: str
    action: tuple[Action, ...]
    container: tuple[Container, ...]
    machine: tuple[MachineRow, ...]
    limit: tuple[Limit, ...]

    def action_of(self, name: str) -> Action:
        """The action of a name."""
        found = next((one for one in self.action if one.name == name), None)
        if found is None:
            raise InvalidInput(f"data/workflows.toml has no action {name}: it pins every action by commit")
        return found

    def container_of(self, use: Use, platform: str) -> Container | None:
        """The container of jobs of that use; None where they run on the machine itself."""
        return next((one for one in self.container if (one.use, one.platform) == (use, platform)), None)

    def machine_of(self, platform: str) -> MachineRow:
        """What runs the jobs of a platform."""
        return next(one for one in self.machine if one.platform == platform)

    def minutes(self, job: str) -> int:
        """The limit of a job."""
        rows = {row.job: row.minutes for row in self.limit}
        return rows.get(job, rows["default"])
