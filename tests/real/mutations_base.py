"""What a mutation is: one way to break a good set of wheels, and the one rule that must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from real.wheel_edit import WheelEdit, open_wheel

# The good sets: ROCm with device code in its libraries and the miniature family; the same as host and device
# packages; a ROCm of a few libraries for Windows; one for Linux, which is installed with pip and uv.
LEGACY, KPACK, WINDOWS, SMALL = "legacy", "kpack", "windows", "small"


@dataclass
class Workbench:
    """The files of a good set, by project, some of which are being replaced by broken ones in `scratch`.

    `request` are the arguments of the check. `places` are further paths that are given to it, `material` are
    good wheels that are not in the set. `installations` are what installers are said to have done.
    """

    paths: dict[str, Path]
    scratch: Path
    request: dict[str, Any]
    material: dict[str, Path] = field(default_factory=dict)
    places: list[Path] = field(default_factory=list)
    installations: tuple[Any, ...] = ()

    @contextmanager
    def edit(self, project: str) -> Iterator[WheelEdit]:
        """A wheel of the set, to be changed; it is saved behind the block."""
        wheel = open_wheel(self.paths[project])
        yield wheel
        self.paths[project] = wheel.save(self.scratch / project)

    def overwrite(self, project: str, change: Callable[[bytes], bytes]) -> None:
        """Change the bytes of the file as a whole."""
        path = self.scratch / project / self.paths[project].name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(change(self.paths[project].read_bytes()))
        self.paths[project] = path

    def drop(self, project: str) -> None:
        del self.paths[project]

    def retitled(self, project: str, new: str, *, version: str | None = None) -> WheelEdit:
        """A copy of a wheel under another name or version, not in the set yet."""
        wheel = open_wheel(self.paths[project])
        old_name, old_version = wheel.info.removesuffix(".dist-info").split("-")
        name, now = new.replace("-", "_"), version or old_version
        before, wheel.info = wheel.info, f"{name}-{now}.dist-info"
        wheel.rename_below(before, wheel.info)
        wheel.substitute("{info}/METADATA", f"Name: {project}\n", f"Name: {new}\n")
        if version:
            wheel.substitute("{info}/METADATA", f"Version: {old_version}\n", f"Version: {now}\n", 1)
        wheel.name = wheel.name.replace(f"{old_name}-{old_version}-", f"{name}-{now}-", 1)
        return wheel

    def add(self, key: str, wheel: WheelEdit) -> None:
        """Put a further wheel into the set."""
        assert key not in self.paths
        self.paths[key] = wheel.save(self.scratch / key)


@dataclass(frozen=True)
class Mutation:
    """One break: what it does, the rule that must find it, the good set it starts from."""

    id: str
    rule: str
    of: str
    breaks: str
    apply: Callable[[Workbench], None]
    severity: str = "error"


MUTATIONS: list[Mutation] = []


def breaks_set(
    rule: str, of: str, sentence: str, *, severity: str = "error"
) -> Callable[[Callable[[Workbench], None]], Callable[[Workbench], None]]:
    """Enter a function that breaks a set."""

    def enter(apply: Callable[[Workbench], None]) -> Callable[[Workbench], None]:
        name = apply.__name__.replace("_", "-")
        assert name not in {mutation.id for mutation in MUTATIONS}, f"{name} is there twice"
        MUTATIONS.append(Mutation(name, rule, of, sentence, apply, severity))
        return apply

    return enter


def breaks(
    rule: str, of: str, project: str, sentence: str, *, severity: str = "error"
) -> Callable[[Callable[[WheelEdit], None]], Callable[[WheelEdit], None]]:
    """Enter a function that breaks one wheel of a set."""

    def enter(change: Callable[[WheelEdit], None]) -> Callable[[WheelEdit], None]:
        def apply(bench: Workbench) -> None:
            with bench.edit(project) as wheel:
                change(wheel)

        apply.__name__ = change.__name__
        breaks_set(rule, of, sentence, severity=severity)(apply)
        return change

    return enter
