"""One planned build by itself, in an environment that is there."""

from __future__ import annotations

from pathlib import Path

from rocwright.builder.decide.plan import BuildPlan, BuiltWheel
from rocwright.builder.rocm.rocm import Rocm
from rocwright.builder.run.project import Build
from rocwright.builder.run.tree import held_tree
from rocwright.system.venv import Environment


def run_build(
    plan: BuildPlan, environment: Environment, output: Path, *, log: Path, rocm: Rocm | None = None
) -> BuiltWheel:
    """The wheel of a plan, as a run of a family makes it."""

    def note(_: str) -> None:
        """Tell nobody."""

    with held_tree(Path(plan.tree or plan.directory), note) as tree:
        made = output.parent / "made"
        build = Build(plan, environment, tree, rocm=rocm, log=log, dist=made, threads=2, note=note)
        return build.run(output, tree.content().untracked)[0]
