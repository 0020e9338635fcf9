"""Steps from checkouts to wheels of the PyTorch family."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
from packaging.utils import canonicalize_name

from rocwright.builder.before import tools
from rocwright.builder.decide.plan import BuildRequest, BuiltWheel
from rocwright.builder.decide.recipe import RecipeTable, load_recipes
from rocwright.builder.family import build_family
from rocwright.builder.order import Order
from rocwright.builder.rocm.install import install_rocm
from rocwright.builder.rocm.place import RocmPlace
from rocwright.builder.rocm.rocm import Rocm
from rocwright.builder.run.isolation import outcome_environment
from rocwright.engine.graph import Inputs, Note, Step
from rocwright.model.project import TORCH
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.compilers import compiler_cache
from rocwright.pipeline.steps.publish import UploadedRun
from rocwright.pipeline.steps.sources import SourceTree, own_facts
from rocwright.pipeline.steps.wheels import built_wheels, wheel_paths
from rocwright.sdk.build import BuiltPackages
from rocwright.sdk.intake.fetch import fetch_packages, unpack_packages
from rocwright.sources.changes import verify_checkouts
from rocwright.sources.lock import SCHEMA, SourceLock
from rocwright.store.objects.serve import serving
from rocwright.system import venv
from rocwright.system.console import human_bytes
from rocwright.system.files import require_space


class PythonHeaders(msgspec.Struct, frozen=True):
    """Where `Python.h` is: directories to add for compilers; none when the interpreter has its own."""

    include: tuple[str, ...]
    source: str


def python_headers_step(options: RunOptions) -> Step:
    """`python-headers`: of this machine's Python, or of the distribution's package."""
    workspace = options.workspace
    unpacked = workspace.root / "python-headers"

    def act(_: Inputs, note: Note) -> PythonHeaders:
        python = options.interpreter
        package = tools.distribution_package(python)
        if tools.has_headers(python) or package is None:
            tools.require_headers(python)
            return PythonHeaders((), "of this interpreter")
        # A machine with only the interpreter: the headers come from the distribution too, as ROCm does.
        directory = options.cache / "packages" / package
        log = workspace.log("python-headers")
        packages = fetch_packages([package], directory, log=log, refresh=options.refresh, note=note)
        unpack_packages(packages, directory / "debs", unpacked, log=log)
        return PythonHeaders(tools.include_directories(unpacked, python), packages[0].file)

    return Step(
        id="python-headers",
        result=PythonHeaders,
        act=act,
        rooms=("sdk/intake/fetch.py", "builder/before/tools.py"),
        facts=lambda: {"python": options.interpreter.full, "refresh": options.refresh},
        outputs=lambda value: tuple(Path(directory) for directory in value.include),
        summary=lambda value: f"Python's headers {value.source}",
    )


def build_env_step(options: RunOptions) -> Step:
    """`build-env`: an environment with ROCm's packages, from the store only."""
    workspace = options.workspace
    root = workspace.environment("build")
    log = workspace.log("build-env")

    def act(inputs: Inputs, note: Note) -> Rocm:
        packages = inputs.get("rocm-packages", BuiltPackages)
        uploaded = inputs.get("upload-rocm", UploadedRun)
        need = sum(file.installed for file in packages.files) + 200_000_000
        require_space(workspace.root, need, purpose="the build environment")
        environment = venv.create(root, python=Path(options.interpreter.path), log=log)
        note(f"installing rocm[libraries,devel]=={packages.version}")
        # Not from the page's own address: pip has no credentials for a store that is not public.
        with serving(options.store) as url:
            places = venv.Closed(find_links=(f"{url}{uploaded.prefix}index.html",))
            return install_rocm(environment, places, spec=f"=={packages.version}", log=log)

    return Step(
        id="build-env",
        result=Rocm,
        act=act,
        needs=("rocm-packages", "upload-rocm"),
        rooms=("builder/rocm", "system/venv.py"),
        facts=lambda: {"python": options.interpreter.full},
        # Later steps install into it; what this step made are the interpreter and ROCm.
        outputs=lambda value: (root / "pyvenv.cfg", Path(value.root) / "bin"),
        summary=lambda value: f"rocm[libraries,devel]=={value.version} installed",
    )


def build_step(options: RunOptions, project: str, needs: tuple[str, ...]) -> Step:
    """`build-…`: one project's wheel, against those that were built before it."""
    part = options.part if project == TORCH else ()

    def act(inputs: Inputs, note: Note) -> BuiltWheel:
        tree = inputs.get(f"checkout-{project}", SourceTree)
        # A cached checkout may have been worked in since.
        verify_checkouts(
            SourceLock(SCHEMA, options.platform, (tree.locked,)), {project: Path(tree.directory)}
        )

        def order(plain: Order) -> tuple[Order, RecipeTable]:
            wanted = msgspec.structs.replace(
                plain.wanted, sources={project: tree.directory}, build={project: True}, part=part
            )
            own = msgspec.structs.replace(
                plain,
                wanted=wanted,
                built=tuple(built_wheels(inputs).values()),
                commits={project: (tree.locked.commit, tree.committed)},
                # The set is installed and imported as a whole by later steps, also on other machines.
                proof=False,
            )
            return own, load_recipes(options.overlay)

        return build_wheel(options, project, order, inputs, note)

    return Step(
        id=f"build-{project}",
        result=BuiltWheel,
        act=act,
        needs=(*needs, f"checkout-{project}", "python-headers", "build-env"),
        rooms=("builder", "device_code", "data/recipes.toml"),
        facts=lambda: build_facts(options, "recipes") | {"part": part},
        outputs=wheel_paths,
        summary=build_summary,
    )


def build_wheel(
    options: RunOptions,
    project: str,
    ordered: Callable[[Order], tuple[Order, RecipeTable]],
    inputs: Inputs,
    note: Note,
) -> BuiltWheel:
    """Build one project at this place of the run; `ordered` says what, in an order that has all else."""
    workspace = options.workspace
    remove_older(workspace.torch_wheels, project)
    with compiler_cache(options, note) as cache:
        plain = Order(
            place=RocmPlace("environment", str(workspace.environment("build"))),
            wanted=BuildRequest(
                sources={},
                platform=options.platform,
                targets=(),
                release_type="release",
                jobs=options.jobs,
                cache=cache.kind,
                cache_settings=cache.settings,
                exact_cache=True,
            ),
            output_dir=str(workspace.torch_wheels),
            work_dir=str(workspace.root),
            targets=";".join(options.targets),
            pythons=(options.interpreter.path,),
            # Whether it has to be built this step's own record says, which knows the code that builds, too.
            resume=False,
            include=inputs.get("python-headers", PythonHeaders).include,
        )
        order, table = ordered(plain)
        result = build_family(order, table, note=note, rocm=inputs.get("build-env", Rocm))
    use = result.report.cache if result.report else None
    return msgspec.structs.replace(result.wheels[-1], cache=use)


def build_facts(options: RunOptions, *tables: str) -> dict[str, object]:
    """What decides a build besides its inputs and code; `tables` are those that a rocwright.toml adds to."""
    return {
        "targets": options.targets,
        "python": options.interpreter.name,
        "environment": outcome_environment(os.environ, {}),
    } | own_facts(options, *tables)


def build_summary(wheel: BuiltWheel) -> str:
    """What a build came to, in a line."""
    made = f"{Path(wheel.path).name}, {human_bytes(wheel.size)}, {wheel.cpu_s:.1f} CPU s"
    return f"{made}; {wheel.cache.line}" if wheel.cache else made


def remove_older(directory: Path, project: str) -> None:
    """A wheel of an earlier run must not be taken for this run's."""
    for wheel in directory.glob("*.whl"):
        if canonicalize_name(wheel.name.partition("-")[0]) == project:
            wheel.unlink()
