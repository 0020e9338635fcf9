"""The step from the sources of a project that stands on torch to its wheel, against the run's torch."""

from __future__ import annotations

from pathlib import Path

from rocwright.builder.decide.extension import load_extensions
from rocwright.builder.decide.plan import BuiltWheel
from rocwright.builder.decide.recipe import RecipeTable, load_recipes
from rocwright.builder.order import Order
from rocwright.check.run import CheckRequest
from rocwright.engine.graph import Inputs, Note, Step
from rocwright.pipeline.check_set import check_set
from rocwright.pipeline.define.kinds import BUILD_EXTENSION, LOCK_EXTENSION
from rocwright.pipeline.extensions.given import given_of
from rocwright.pipeline.extensions.wish import stand_on
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.extension_sources import LockedExtension, unpacked, wanted_of
from rocwright.pipeline.steps.torch import build_facts, build_summary, build_wheel
from rocwright.pipeline.steps.wheels import built_wheels, wheel_paths


def build_extension_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`build-extension-…`: its wheel for the run's torch, imported beside it, and checked.

    What is wrong with it is to be found here: a run may do without this step, and not without the check of
    its set.
    """
    project = wanted_of(options).project

    def act(inputs: Inputs, note: Note) -> BuiltWheel:
        rows = load_extensions(options.overlay)
        locked = inputs.get(LOCK_EXTENSION + project, LockedExtension)
        tree = unpacked(locked, rows.get(project), options.workspace.sources, note)
        given = tuple(built_wheels(inputs).values())

        def order(plain: Order) -> tuple[Order, RecipeTable]:
            recipes = load_recipes(options.overlay)
            return stand_on(plain, recipes, rows, [tree], given_of(given), targets=len(options.targets))

        wheel = build_wheel(options, project, order, inputs, note)
        asked = CheckRequest(
            (Path(wheel.path),),
            beside=tuple(Path(one.path) for one in given),
            targets=tuple(options.targets),
            jobs=options.jobs,
        )
        check_set(asked, note=note).raise_for_errors()
        return wheel

    return Step(
        id=BUILD_EXTENSION + project,
        result=BuiltWheel,
        act=act,
        needs=(*needs, "python-headers", "build-env"),
        # Not those of the check: of a wheel that took hours, the check of the set judges again.
        rooms=("builder", "device_code", "sources", "pipeline/extensions", "data/recipes.toml"),
        facts=lambda: (
            build_facts(options, "recipes") | {"row": load_extensions(options.overlay).get(project)}
        ),
        outputs=wheel_paths,
        summary=build_summary,
    )
