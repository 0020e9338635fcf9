"""What a Slurm cluster has, and what jobs then ask of it: defaults fit, what somebody wrote must be there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from rocwright.errors import CommandFailed, MissingTool, UsageError
from rocwright.model.workflows import Ask
from rocwright.system import process

_FIELDS = "%R|%P|%c|%m|%G|%l"
_TIME = re.compile(r"(?:(\d+)-)?(\d+):(\d+)(?::(\d+))?")


class SlurmMachine(msgspec.Struct, frozen=True):
    """A machine: `gres` as `gpu:mi300x:8,gpu:1`."""

    cpus: int
    memory_gb: int
    gres: str = ""

    def has(self, wanted: str) -> bool:
        """Whether it has what a `--gres` asks for: `gpu`, `gpu:2`, `gpu:mi300x:2`."""
        if not wanted:
            return True
        name, type_, count = _gres(wanted)
        there = [_gres(one) for one in re.sub(r"\([^)]*\)", "", self.gres).split(",")]
        return count <= sum(number for what, kind, number in there if what == name and type_ in ("", kind))


class Partition(msgspec.Struct, frozen=True):
    """`minutes` is the limit of its jobs, None without one."""

    name: str
    default: bool
    minutes: int | None
    nodes: tuple[SlurmMachine, ...]


def ask_cluster() -> tuple[Partition, ...] | str:
    """The partitions, by sinfo(1); or why they are not known here."""
    try:
        text = process.run(["sinfo", "--noheader", "--Node", f"--format={_FIELDS}"]).stdout
    except MissingTool:
        return "no sinfo is here"
    except CommandFailed as failed:
        return f"sinfo failed ({failed.tail.splitlines()[-1] if failed.tail else failed.what})"
    return read_sinfo(text)


def read_sinfo(text: str) -> tuple[Partition, ...]:
    """The partitions of what sinfo prints for `_FIELDS`, a line for each machine of each."""
    found: dict[str, Partition] = {}
    for line in text.splitlines():
        if line.count("|") != _FIELDS.count("|"):
            continue  # a word of the site's own
        name, starred, cpus, memory, gres, limit = line.split("|")
        gres = "" if gres == "(null)" else gres
        node = SlurmMachine(_number(cpus), _number(memory) // 1024, gres)
        known = found.get(name) or Partition(name, starred.endswith("*"), _minutes(limit), ())
        found[name] = Partition(name, known.default, known.minutes, (*known.nodes, node))
    return tuple(found.values())


def fit_all(asks: Mapping[str, Ask], partitions: Sequence[Partition]) -> tuple[dict[str, Ask], list[str]]:
    """What each job asks for on this cluster, and what was made less.

    Raises `UsageError` with every job that asks for what is not there.
    """
    fitted = {id_: _fit(ask, partitions) for id_, ask in asks.items()}
    lacking = [f"{id_}: {found}" for id_, found in fitted.items() if isinstance(found, str)]
    if lacking:
        raise UsageError(
            f"{len(lacking)} jobs ask for what this cluster does not have, so nothing was written:\n"
            + "\n".join(f"  {line}" for line in lacking),
            next_step="in a rocwright.toml, a [[slurm.request]] with these ids: less of it (or fit = true), "
            "or another partition",
        )
    there = {id_: found for id_, found in fitted.items() if not isinstance(found, str)}
    told = [f"{id_}: {text}" for id_, ask in there.items() if (text := _less(asks[id_], ask))]
    return there, told


# -- one job -------------------------------------------------------------------------------------------------


def _fit(ask: Ask, partitions: Sequence[Partition]) -> Ask | str:
    """What is asked for, or why it cannot be had."""
    if any(option.startswith("--partition=") for option in ask.options):
        # Named where nothing is made of it.
        return ask
    names = [name for name in ask.partition.split(",") if name]
    chosen = [one for one in partitions if one.name in names or (not names and one.default)]
    if not chosen:
        there = " ".join(one.name for one in partitions) or "none"
        wanted = (
            f'partition = "{ask.partition}"' if names else "no partition is named, and none is the default"
        )
        return f"{wanted} (there are: {there})"
    # Of several, Slurm takes one that has what is asked for: the most that one has.
    granted = [found for partition in chosen if (found := _in_partition(ask, partition)) is not None]
    if granted:
        return max(granted, key=lambda one: (one.cpus, one.memory_gb, one.minutes))
    return "; ".join(", ".join(_lacks(ask, partition)) for partition in chosen)


def _in_partition(ask: Ask, partition: Partition) -> Ask | None:
    nodes = [node for node in partition.nodes if node.has(ask.gpus) and _holds(ask, node)]
    limit = partition.minutes
    if not nodes or ("minutes" in ask.fixed and limit is not None and ask.minutes > limit):
        return None
    best = max(nodes, key=lambda node: (min(ask.cpus, node.cpus), min(ask.memory_gb, node.memory_gb)))
    cpus, minutes = min(ask.cpus, best.cpus), ask.minutes
    if "minutes" not in ask.fixed:
        # Fewer compilers take longer; the limit is for what hangs.
        minutes = minutes * ask.cpus // cpus if cpus else minutes
        minutes = minutes if limit is None else min(minutes, limit)
    return msgspec.structs.replace(
        ask, cpus=cpus, memory_gb=min(ask.memory_gb, best.memory_gb), minutes=minutes
    )


def _holds(ask: Ask, node: SlurmMachine) -> bool:
    return all(
        getattr(ask, name) <= getattr(node, name) for name in ("cpus", "memory_gb") if name in ask.fixed
    )


def _lacks(ask: Ask, partition: Partition) -> list[str]:
    """What of it no machine of the partition has."""
    place, nodes = f"partition {partition.name}", partition.nodes
    found = []
    if partition.minutes is not None and "minutes" in ask.fixed and ask.minutes > partition.minutes:
        found.append(f"minutes = {ask.minutes} ({place} has a limit of {partition.minutes})")
    if not any(node.has(ask.gpus) for node in nodes):
        there = " ".join(sorted({node.gres for node in nodes if node.gres})) or "none"
        found.append(f'gpus = "{ask.gpus}" ({place} has {there})')
    for name in ("cpus", "memory_gb"):
        most = max((getattr(node, name) for node in nodes), default=0)
        if name in ask.fixed and getattr(ask, name) > most:
            found.append(f"{name} = {getattr(ask, name)} ({place} has machines with up to {most})")
    return found or [f"all of it on one machine ({place} has none with it)"]


def _less(asked: Ask, granted: Ask) -> str:
    names = ("cpus", "memory_gb", "minutes")
    pairs = [(name, getattr(granted, name), getattr(asked, name)) for name in names]
    return ", ".join(f"{name} = {now} instead of {was}" for name, now, was in pairs if now < was)


# -- the words of sinfo --------------------------------------------------------------------------------------


def _number(text: str) -> int:
    # A `+` where machines of a line differ.
    return int(text.rstrip("+"))


def _gres(text: str) -> tuple[str, str, int]:
    """Name, type and count of `gpu`, `gpu:2`, `gpu:mi300x`, `gpu:mi300x:2`."""
    name, *rest = text.strip().split(":")
    count = int(rest.pop()) if rest and rest[-1].isdecimal() else 1
    return name, rest[0] if rest else "", count


def _minutes(text: str) -> int | None:
    """`1-00:00:00`, `2:00:00`, `30:00` (minutes and seconds); None for `infinite` and what is not known."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    days, first, second = (int(part) if part else 0 for part in match.groups()[:3])
    if match[4] is None and match[1] is None:
        return first
    return days * 1440 + first * 60 + second
