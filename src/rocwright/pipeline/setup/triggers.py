"""Which change starts what: the table `data/triggers.toml`, and what it says of a change's files. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from rocwright.model.patterns import fits

Level = Literal["nothing", "tests", "pytorch", "rocm", "everything"]
# From the least to the most.
LEVELS: tuple[Level, ...] = ("nothing", "tests", "pytorch", "rocm", "everything")


class PathRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files whose change starts the same; the patterns are those of every table."""

    name: str
    starts: Level
    paths: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.paths:
            raise ValueError(f"the rule {self.name!r} has no paths: no file would be its")


class Triggers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table: rules in order, and the branches that more families are tried on."""

    branches: tuple[str, ...]
    rule: tuple[PathRule, ...]

    def __post_init__(self) -> None:
        names = [rule.name for rule in self.rule]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two rules are called {name!r}")

    def rule_of(self, path: str) -> PathRule | None:
        """The first rule that fits a file; None where none does, and the file counts as everything."""
        return next((rule for rule in self.rule if fits(path, rule.paths)), None)

    def is_main(self, branch: str) -> bool:
        """Whether pushes to a branch try the families of the tier postsubmit."""
        return fits(branch, self.branches)


class Started(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a change starts, and the files that say so: one of each rule of that level."""

    level: Level
    because: tuple[str, ...] = ()


def started(changed: Iterable[str] | None, triggers: Triggers) -> Started:
    """What a change of these files starts: all where nobody knows them, nothing where there are none."""
    if changed is None:
        return Started("everything", ("nobody knows which files changed",))
    found: dict[Level, dict[str, str]] = {}
    for path in sorted(set(changed)):
        rule = triggers.rule_of(path)
        level: Level = "everything" if rule is None else rule.starts
        name = "no rule of triggers.toml" if rule is None else rule.name
        found.setdefault(level, {}).setdefault(name, path)
    if not found:
        return Started("nothing", ("no file changed",))
    most = max(found, key=LEVELS.index)
    return Started(most, tuple(f"{path} ({name})" for name, path in found[most].items()))
