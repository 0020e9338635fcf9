"""Steps from checkouts to wheels of the PyTorch family."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rocwright.build.before import headers
from rocwright.build.decide.project import plan_build
from rocwright.build.decide.recipe import RecipeTable, recipes
from rocwright.build.rocm.described import Rocm
from rocwright.build.rocm.install import install_rocm
from rocwright.build.run.project import BuiltWheel, run_build
from rocwright.pipeline.graph import Inputs, Note, Step
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.release import UploadedRun
from rocwright.pipeline.steps.sources import SourceTree
from rocwright.sdk.build import BuiltPackages
from rocwright.sdk.intake.fetch import fetch_packages, unpack_packages
from rocwright.sources.changes import verify_checkouts
from rocwright.sources.lock import SCHEMA, SourceLock
from rocwright.system import venv
from rocwright.system.console import human_bytes
from rocwright.system.files import require_space


class PythonHeaders(msgspec.Struct, frozen=True):
    """Where `Python.h` is: directories to add for compilers; none when the interpreter has its own."""

    include: tuple[str, ...]
    source: str


def _python_headers(options: RunOptions) -> Step:
    workspace = options.workspace
    unpacked = workspace.root / "python-headers"

    def act(_: Inputs, note: Note) -> PythonHeaders:
        package = headers.distribution_package()
        if headers.has_headers() or package is None:
            headers.require_headers()
            return PythonHeaders((), "of this interpreter")
        # A machine with only the interpreter: the headers come from the distribution too, as ROCm does.
        directory = options.cache / "packages" / package
        log = workspace.log("python-headers")
        packages = fetch_packages([package], directory, log=log, refresh=options.refresh, note=note)
        unpack_packages(packages, directory / "debs", unpacked, log=log)
        return PythonHeaders(headers.include_directories(unpacked), packages[0].file)

    return Step(
        id="python-headers",
        result=PythonHeaders,
        act=act,
        rooms=("sdk/intake/fetch.py", "build/before/headers.py"),
        facts=lambda: {"python": sys.version, "here": headers.has_headers(), "refresh": options.refresh},
        outputs=lambda value: tuple(Path(directory) for directory in value.include),
        summary=lambda value: f"Python's headers {value.source}",
    )


def build_steps(options: RunOptions) -> list[Step]:
    """`python-headers`, `build-env`, then one `build-…` per project in the order of the recipes."""
    table = recipes()
    return [
        _python_headers(options),
        _build_env(options),
        *(_build(options, table, recipe.project) for recipe in table.recipe),
    ]


def _build_env(options: RunOptions) -> Step:
    workspace = options.workspace
    root = workspace.environment("build")
    log = workspace.log("build-env")

    def act(inputs: Inputs, note: Note) -> Rocm:
        packages = inputs.get("rocm-packages", BuiltPackages)
        uploaded = inputs.get("upload-rocm", UploadedRun)
        need = sum(file.installed for file in packages.files) + 200_000_000
        require_space(workspace.root, need, purpose="the build environment")
        places = venv.Closed(find_links=(uploaded.find_links,))
        environment = venv.create(root, log=log)
        note(f"installing rocm[libraries,devel]=={packages.version}")
        return install_rocm(environment, places, spec=f"=={packages.version}", log=log)

    return Step(
        id="build-env",
        result=Rocm,
        act=act,
        needs=("rocm-packages", "upload-rocm"),
        rooms=("build/rocm", "system/venv.py"),
        facts=lambda: {"python": sys.version},
        # Later steps install into it; what this step made are the interpreter and ROCm.
        outputs=lambda value: (root / "pyvenv.cfg", Path(value.root) / "bin"),
        summary=lambda value: f"rocm[libraries,devel]=={value.version} installed",
    )


def _build(options: RunOptions, table: RecipeTable, project: str) -> Step:
    workspace = options.workspace
    recipe = table.get(project)
    environment = venv.Environment(workspace.environment("build"))

    def act(inputs: Inputs, note: Note) -> BuiltWheel:
        tree = inputs.get(f"checkout-{project}", SourceTree)
        # A cached checkout may have been worked in since.
        verify_checkouts(
            SourceLock(SCHEMA, options.platform, (tree.locked,)), {project: Path(tree.directory)}
        )
        built = {name: inputs.get(f"build-{name}", BuiltWheel).version for name in recipe.after}
        plan = plan_build(
            project,
            Path(tree.directory),
            table=table,
            rocm=inputs.get("build-env", Rocm),
            targets=options.targets,
            built=built,
            caller=os.environ,
            jobs=options.jobs,
            commit=tree.locked.commit,
            source_date=tree.committed,
            include=inputs.get("python-headers", PythonHeaders).include,
        )
        log = workspace.log(f"build-{project}")
        _remove_older(workspace.torch_wheels, project)
        return run_build(plan, environment, workspace.torch_wheels, log=log)

    def outputs(value: BuiltWheel) -> tuple[Path, ...]:
        # A project that later builds need must also still be installed.
        installed = [_site(environment) / project / "__init__.py"] if recipe.install else []
        return (Path(value.path), *installed)

    return Step(
        id=f"build-{project}",
        result=BuiltWheel,
        act=act,
        needs=(
            f"checkout-{project}",
            "python-headers",
            "build-env",
            *(f"build-{name}" for name in recipe.after),
        ),
        rooms=("build", "data/recipes.toml"),
        facts=lambda: {"targets": options.targets, "compiler flags": _caller_flags(os.environ)},
        outputs=outputs,
        summary=lambda value: f"{Path(value.path).name}, {human_bytes(value.size)}, {value.cpu_s:.1f} CPU s",
    )


def _caller_flags(caller: Mapping[str, str]) -> dict[str, str]:
    return {
        name: caller[name]
        for name in ("CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CXX", "USE_KINETO")
        if name in caller
    }


def _site(environment: venv.Environment) -> Path:
    return next(environment.root.glob("lib/python3*/site-packages"), environment.root)


def _remove_older(directory: Path, project: str) -> None:
    """A wheel of an earlier run must not be taken for this run's."""
    for wheel in directory.glob(f"{project}-*.whl"):
        wheel.unlink()
