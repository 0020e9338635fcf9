"""Steps between the builds of the family's wheels and their check: parts of torch merged, device code split.

And what steps tell each other of wheels: which a step was given, and what became of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from rocwright.builder.decide.plan import BuiltWheel
from rocwright.device_code.merge_parts import merge_parts
from rocwright.device_code.parts import Part
from rocwright.device_code.wheel.wheel import split_wheel
from rocwright.engine.graph import Inputs, Note, Step
from rocwright.pipeline.options import RunOptions
from rocwright.sdk.build import BuiltPackages
from rocwright.system.console import human_bytes
from rocwright.system.files import remove_tree, sha256_file


class Wheels(msgspec.Struct, frozen=True):
    """Wheels of the family as a step left them, all that take the place of those it was given."""

    paths: tuple[str, ...]


def family_wheels(inputs: Inputs) -> list[Path]:
    """The wheels among what a step was given, split ones included; after a split only these."""
    found: list[Path] = []
    for value in inputs.values.values():
        if isinstance(value, Wheels):
            found += map(Path, value.paths)
        elif isinstance(value, BuiltWheel):
            found += map(Path, (value.path, *value.device))
    return found


def built_wheels(inputs: Inputs) -> dict[str, BuiltWheel]:
    """The builds among what a step was given, by project."""
    values = inputs.values.values()
    return {value.project: value for value in values if isinstance(value, BuiltWheel)}


def files_of_set(inputs: Inputs) -> list[Path]:
    """Every file of the run's set, ROCm's packages before the family's wheels."""
    return [*inputs.get("rocm-packages", BuiltPackages).paths, *family_wheels(inputs)]


def wheel_paths(value: BuiltWheel | Wheels) -> tuple[Path, ...]:
    """Where the wheels of a result lie."""
    paths: Iterable[str] = value.paths if isinstance(value, Wheels) else (value.path, *value.device)
    return tuple(map(Path, paths))


def merge_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`merge-torch`: one torch out of its parts, which are known by the ids of their cells."""
    output = options.workspace.root / "dist" / "merged"

    def act(inputs: Inputs, note: Note) -> BuiltWheel:
        built = {name: value for name, value in inputs.values.items() if isinstance(value, BuiltWheel)}
        remove_tree(output)
        # In the order of the plan, whichever machine was done first: the first part's host code is taken.
        parts = [Part(Path(built[name].path), part_targets(name)) for name in needs if name in built]
        done = merge_parts(parts, output, targets=options.targets, threads=options.jobs, note=note)
        first = next(iter(built.values()))
        return BuiltWheel(
            project=first.project,
            version=first.version,
            path=done.path,
            sha256=sha256_file(Path(done.path)),
            size=done.size,
            wall_s=max(one.wall_s for one in built.values()),
            cpu_s=round(sum(one.cpu_s for one in built.values()), 2),
            peak_rss=max(one.peak_rss for one in built.values()),
            python=first.python,
        )

    return Step(
        id="merge-torch",
        result=BuiltWheel,
        act=act,
        needs=needs,
        rooms=("device_code", "binary", "wheel"),
        facts=lambda: {"targets": options.targets},
        outputs=wheel_paths,
        summary=lambda value: f"{Path(value.path).name}, {human_bytes(value.size)}",
    )


def part_targets(cell: str) -> tuple[str, ...]:
    """The targets of a part, by the id of its cell: the last word, `gfx906+gfx90a`."""
    return tuple(cell.rpartition("/")[2].split("+"))


def split_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`split`: every wheel of the family without device code, and wheels with that of each target."""
    output = options.workspace.root / "dist" / "split"

    def act(inputs: Inputs, note: Note) -> Wheels:
        requires = device_requirements(inputs.get("rocm-packages", BuiltPackages))
        remove_tree(output)
        paths: list[str] = []
        for wheel in built_wheels(inputs).values():
            paths += _split(wheel, output, requires, options.jobs, note)
        return Wheels(tuple(sorted(paths)))

    return Step(
        id="split",
        result=Wheels,
        act=act,
        needs=needs,
        rooms=("device_code", "binary", "wheel"),
        outputs=wheel_paths,
        summary=lambda value: f"{len(value.paths)} wheels",
    )


def _split(wheel: BuiltWheel, output: Path, requires: tuple[str, ...], threads: int, note: Note) -> list[str]:
    done = split_wheel(Path(wheel.path), output, device_requires=requires, threads=threads, note=note)
    for left in done.kept:
        note(f"{Path(wheel.path).name}: {left.member} keeps its device code: {left.reason}")
    return [done.host, *(one.path for one in done.device)]


def device_requirements(packages: BuiltPackages) -> tuple[str, ...]:
    """ROCm's own device code for the same target, where ROCm is packaged in that way."""
    return (f"rocm-sdk-device-@GFXARCH@=={packages.version}",) if packages.mode == "kpack" else ()
