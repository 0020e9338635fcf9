"""Steps from checkouts to wheels of the PyTorch family."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock

import msgspec

from rocwright.build.before import headers
from rocwright.build.decide.project import plan_build
from rocwright.build.decide.recipe import RecipeTable, recipes
from rocwright.build.rocm.described import Rocm
from rocwright.build.rocm.install import install_rocm
from rocwright.build.run.isolation import outcome_environment
from rocwright.build.run.project import BuiltWheel, run_build
from rocwright.build.units.launch import part_launchers
from rocwright.engine.graph import Inputs, Note, Step
from rocwright.model.project import TORCH
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.sources import SourceTree
from rocwright.pipeline.steps.upload import UploadedRun
from rocwright.pipeline.steps.wheels import built_wheels, wheel_paths
from rocwright.sdk.build import BuiltPackages
from rocwright.sdk.intake.fetch import fetch_packages, unpack_packages
from rocwright.sources.changes import verify_checkouts
from rocwright.sources.lock import SCHEMA, SourceLock
from rocwright.store.objects.serve import serving
from rocwright.system import venv
from rocwright.system.console import human_bytes
from rocwright.system.files import require_space, write_text


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
        package = headers.distribution_package(python)
        if headers.has_headers(python) or package is None:
            headers.require_headers(python)
            return PythonHeaders((), "of this interpreter")
        # A machine with only the interpreter: the headers come from the distribution too, as ROCm does.
        directory = options.cache / "packages" / package
        log = workspace.log("python-headers")
        packages = fetch_packages([package], directory, log=log, refresh=options.refresh, note=note)
        unpack_packages(packages, directory / "debs", unpacked, log=log)
        return PythonHeaders(headers.include_directories(unpacked, python), packages[0].file)

    return Step(
        id="python-headers",
        result=PythonHeaders,
        act=act,
        rooms=("sdk/intake/fetch.py", "build/before/headers.py"),
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
        rooms=("build/rocm", "system/venv.py"),
        facts=lambda: {"python": options.interpreter.full},
        # Later steps install into it; what this step made are the interpreter and ROCm.
        outputs=lambda value: (root / "pyvenv.cfg", Path(value.root) / "bin"),
        summary=lambda value: f"rocm[libraries,devel]=={value.version} installed",
    )


def build_step(options: RunOptions, project: str, needs: tuple[str, ...]) -> Step:
    """`build-…`: one project's wheel, installed for those that are built against it."""
    workspace = options.workspace
    table: RecipeTable = recipes()
    environment = venv.Environment(workspace.environment("build"))
    part = options.part if project == TORCH else ()

    def act(inputs: Inputs, note: Note) -> BuiltWheel:
        tree = inputs.get(f"checkout-{project}", SourceTree)
        # A cached checkout may have been worked in since.
        verify_checkouts(
            SourceLock(SCHEMA, options.platform, (tree.locked,)), {project: Path(tree.directory)}
        )
        log = workspace.log(f"build-{project}")
        before = built_wheels(inputs)
        for wheel in before.values():
            _be_installed(environment, wheel, log)
        plan = plan_build(
            project,
            Path(tree.directory),
            table=table,
            rocm=inputs.get("build-env", Rocm),
            targets=options.targets,
            built={name: wheel.version for name, wheel in before.items()},
            caller=os.environ,
            jobs=options.jobs,
            commit=tree.locked.commit,
            source_date=tree.committed,
            include=inputs.get("python-headers", PythonHeaders).include,
            part=part,
            launchers=part_launchers(workspace.root / "units", caller=os.environ) if part else {},
        )
        _remove_older(workspace.torch_wheels, project)
        note(f"building the wheel of {project}")
        done = run_build(plan, environment, workspace.torch_wheels, log=log)
        if plan.install:
            write_text(_marker(environment, project), done.sha256)
        return done

    return Step(
        id=f"build-{project}",
        result=BuiltWheel,
        act=act,
        needs=(*needs, f"checkout-{project}", "python-headers", "build-env"),
        rooms=("build", "device_code", "data/recipes.toml"),
        facts=lambda: {
            "targets": options.targets,
            "part": part,
            "python": options.interpreter.name,
            "environment": outcome_environment(os.environ, {}),
        },
        outputs=wheel_paths,
        summary=lambda value: f"{Path(value.path).name}, {human_bytes(value.size)}, {value.cpu_s:.1f} CPU s",
    )


# Two builds of one run may find at the same time that the torch of another machine is not installed here.
_INSTALLING = Lock()


def _marker(environment: venv.Environment, project: str) -> Path:
    """Says which wheel of a project is installed; gone with the environment."""
    return environment.root / f"rocwright-{project}.sha256"


def _be_installed(environment: venv.Environment, wheel: BuiltWheel, log: Path) -> None:
    """Install a wheel that was built on another machine, or before this environment was made anew."""
    marker = _marker(environment, wheel.project)
    with _INSTALLING:
        if marker.exists() and marker.read_text(encoding="utf-8") == wheel.sha256:
            return
        options = ["--no-deps", "--force-reinstall", "--no-index"]
        words = list(map(str, wheel_paths(wheel)))
        venv.pip_install(environment, words, closed=None, options=options, log=log)
        write_text(marker, wheel.sha256)


def _remove_older(directory: Path, project: str) -> None:
    """A wheel of an earlier run must not be taken for this run's."""
    for wheel in directory.glob(f"{project}-*.whl"):
        wheel.unlink()
