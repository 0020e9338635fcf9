"""What workflows of GitHub Actions and scripts for Slurm name, where they are rendered.

The tables `workflows` and `slurm`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from rocwright.errors import InvalidInput

_COMMIT = re.compile(r"[0-9a-f]{40}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_WORD = re.compile(r"[\w.,:;|&*()\[\]+@/=%-]+")
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
    """An image that jobs run in; `python` in it runs this tool, where none has to be set up.

    A repository's `variable` names another image, or `none`: the jobs run on the machine itself; its
    `options_variable` other options of docker.
    """

    use: Use
    platform: str
    image: str
    digest: str
    python: str = ""
    options: tuple[str, ...] = ()
    variable: str = ""
    options_variable: str = ""

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.digest):
            raise ValueError(f"{self.image} is pinned by sha256: and 64 digits, not {self.digest!r}")

    @property
    def pinned(self) -> str:
        """As a job names it."""
        return f"{self.image}@{self.digest}"


class MachineRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What jobs without a GPU run on; a repository's `variable` names another label.

    `work` is the directory of a run, where the usual one makes paths too long; `work_variable` names another.
    `prepare` are commands before all else in a job.
    """

    platform: str
    label: str
    variable: str
    work: str = ""
    work_variable: str = ""
    prepare: tuple[str, ...] = ()


class LentLabels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Labels of a platform's machines that GitHub itself lends: nobody has to register one."""

    platform: str
    labels: tuple[str, ...]


class VariableRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A variable of a repository that workflows read: what it is about, and what holds where it is not set.

    Variables that another row names are told of with that row.
    """

    name: str
    about: str
    unset: str


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Minutes that a job may take."""

    job: str
    minutes: int


class Hosted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What GitHub's own machines give a job: minutes, and gigabytes of free disk."""

    minutes: int
    disk_gb: int


class WorkflowTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table; `region` is the store's where no variable says another one.

    `keep_days` is for how long results are kept as artifacts of a run.
    """

    region: str
    keep_days: int
    hosted: Hosted
    action: tuple[Action, ...]
    container: tuple[Container, ...]
    machine: tuple[MachineRow, ...]
    limit: tuple[Limit, ...]
    lent: tuple[LentLabels, ...] = ()
    variable: tuple[VariableRow, ...] = ()

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


class SlurmLimits(msgspec.Struct, frozen=True):
    """What is asked of a cluster: 0 and empty for nothing; `memory_gb` is per machine."""

    cpus: int = 0
    memory_gb: int = 0
    minutes: int = 0
    gpus: str = ""
    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    options: tuple[str, ...] = ()


class Ask(SlurmLimits, frozen=True):
    """What a job asks for, as in `SlurmRequest`; `fixed` are the limits that may not be made less."""

    fixed: frozenset[str] = frozenset()


class SlurmRequest(SlurmLimits, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What cells whose id matches one of `ids` ask for; a later row goes over an earlier one, field by field.

    `only` is miniature or upstream: in runs of these sources only. With `fit` less is asked for where the
    partition has less; else that is an error before anything is submitted. `gpus` is the `--gres` of a cell
    that needs a GPU; other cells ask for none. `memory_gb` is per machine.
    `options` are further ones of sbatch, as they are: `--exclusive`.
    """

    ids: tuple[str, ...]
    only: Literal["", "miniature", "upstream"] = ""
    fit: bool = False

    def __post_init__(self) -> None:
        if not self.ids:
            raise ValueError('a request has no ids: write ids = ["*"] for every cell')
        for field in ("cpus", "memory_gb", "minutes"):
            if getattr(self, field) < 0:
                raise ValueError(f"{field} = {getattr(self, field)}: write 1 or more, or leave it out")
        for field in ("gpus", "partition", "account", "qos", "constraint"):
            value = getattr(self, field)
            if value and not _WORD.fullmatch(value):
                raise ValueError(f"{field} = {value!r} is not a word that sbatch accepts")
        for option in self.options:
            if not option.startswith("--") or not _WORD.fullmatch(option[2:]):
                raise ValueError(
                    f"{option!r} is not an option of sbatch: write it as --name=value, without spaces"
                )


class SlurmTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table. `each`: a script for each cell, or for each job, whose cells one machine does in turn.

    `work` is the directory of the run on a machine, as the shell expands it there. `setup` are lines of shell
    at the start of each script.
    """

    each: Literal["cell", "job"]
    work: str
    request: tuple[SlurmRequest, ...]
    setup: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.work or re.search(r'["\n`]', self.work):
            raise ValueError(f"work = {self.work!r} is not a directory: write it without quotes")

    def asked(self, ids: Iterable[str], sources: str = "upstream") -> Ask:
        """What cells together ask for that one machine does in turn: their minutes are added up."""
        each = [self._one(id_, sources) for id_ in ids]
        fields = {name: value for ask in each for name, value in msgspec.structs.asdict(ask).items() if value}
        return Ask(
            **{
                **fields,
                "cpus": max(ask.cpus for ask in each),
                "memory_gb": max(ask.memory_gb for ask in each),
                "minutes": sum(ask.minutes for ask in each),
                "fixed": frozenset().union(*(ask.fixed for ask in each)),
            }
        )

    def _one(self, id_: str, sources: str) -> Ask:
        found: dict[str, object] = {}
        fixed: set[str] = set()
        for row in self.request:
            if row.only in ("", sources) and any(fnmatchcase(id_, pattern) for pattern in row.ids):
                given = {name: value for name, value in msgspec.structs.asdict(row).items() if value}
                limits = {"cpus", "memory_gb", "minutes"} & given.keys()
                fixed = fixed - limits if row.fit else fixed | limits
                found |= given
        return msgspec.convert({**found, "fixed": fixed}, Ask)
