"""The step that joins parts of torch, each built on a machine of its own for some of the GPU targets."""

from __future__ import annotations

from pathlib import Path

from rocwright.builder.run.project import BuiltWheel
from rocwright.device_code.parts.merge import merge_parts
from rocwright.device_code.parts.parts import Part
from rocwright.engine.graph import Inputs, Note, Step
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.wheels import wheel_paths
from rocwright.system.console import human_bytes
from rocwright.system.files import make_directory, remove_tree, sha256_file


def merge_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`merge-torch`: one torch out of its parts, which are known by the ids of their cells."""
    output = options.workspace.root / "dist" / "merged"

    def act(inputs: Inputs, note: Note) -> BuiltWheel:
        built = {name: value for name, value in inputs.values.items() if isinstance(value, BuiltWheel)}
        remove_tree(output)
        make_directory(output)
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
