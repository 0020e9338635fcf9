"""The step that takes device code out of the family's wheels, into a wheel for each GPU target."""

from __future__ import annotations

from pathlib import Path

from rocwright.builder.run.project import BuiltWheel
from rocwright.device_code.wheel.wheel import split_wheel
from rocwright.engine.graph import Inputs, Note, Step
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.wheels import Wheels, built_wheels, wheel_paths
from rocwright.sdk.build import BuiltPackages
from rocwright.system.files import make_directory, remove_tree


def split_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`split`: every wheel of the family without device code, and wheels with that of each target."""
    output = options.workspace.root / "dist" / "split"

    def act(inputs: Inputs, note: Note) -> Wheels:
        requires = device_requirements(inputs.get("rocm-packages", BuiltPackages))
        remove_tree(output)
        make_directory(output)
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
