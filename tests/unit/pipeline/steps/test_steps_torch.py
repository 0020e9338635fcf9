"""The step that builds a project: done again when what reaches the build differs, and only then."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from git_repos import git
from rocwright.builder.decide.plan import BuiltWheel
from rocwright.builder.rocm.rocm import Rocm
from rocwright.builder.run.environments import build_environment
from rocwright.engine import run as local
from rocwright.engine.graph import make_graph
from rocwright.pipeline.options import RunOptions, Workspace
from rocwright.pipeline.steps.sources import SourceTree
from rocwright.pipeline.steps.torch import PythonHeaders, build_step
from rocwright.sources.lock import LockedSource
from rocwright.system import venv
from rocwright.system.files import sha256_file
from wheels import ANY, write_wheel

# Writes a wheel by hand, and beside the tree what it was given.
SETUP = """
import json, os, sys, zipfile
from pathlib import Path
Path("../seen.json").write_text(json.dumps(dict(os.environ)))
dist = Path(sys.argv[-1])
dist.mkdir(parents=True)
name = "torchaudio-" + os.environ["BUILD_VERSION"]
with zipfile.ZipFile(dist / f"{name}-py3-none-any.whl", "w") as wheel:
    version = os.environ["BUILD_VERSION"]
    lines = f"Metadata-Version: 2.1\\nName: torchaudio\\nVersion: {version}\\n"
    wheel.writestr(f"{name}.dist-info/METADATA", lines)
    lines = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    wheel.writestr(f"{name}.dist-info/WHEEL", lines)
    names = [*wheel.namelist(), f"{name}.dist-info/RECORD"]
    wheel.writestr(names[-1], "".join(f"{each},,\\n" for each in names))
"""
# What every build environment has: pip has nothing to install here.
TOOLS = ("build-1.3.0", "setuptools-80.9.0", "wheel-0.45.1")

Run = Callable[[], str]


def torch_wheel(directory: Path) -> BuiltWheel:
    """What another machine built: a wheel of torch without anything in it."""
    path = write_wheel(directory, "torch", "2.9.0", {}, tag=ANY)
    return BuiltWheel("torch", "2.9.0", str(path), sha256_file(path), path.stat().st_size, 1.0, 1.0, 1)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs `build-torchaudio` on a small project of that name; says whether it was `done` or `cached`."""
    tree = tmp_path / "torchaudio"
    tree.mkdir()
    (tree / "setup.py").write_text(SETUP)
    (tree / "version.txt").write_text("1.0\n")
    (tree / ".gitignore").write_text("/build\n/dist\n")
    git(tree, "init", "--quiet")
    git(tree, "add", ".")
    git(tree, "commit", "--quiet", "-m", "one")
    options = RunOptions(Workspace(tmp_path / "work"), tmp_path / "cache", ("gfx90a",), "release/2.9")
    prefix = tmp_path / "rocm"
    for name in ("bin/hipcc", "bin/clang++", "include/hip/hip_runtime.h", "lib/cmake/hip/hip-config.cmake"):
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).touch()
    rocm = Rocm("7.1", str(prefix), f"{prefix}/bin", f"{prefix}/lib/cmake", origin="packages")
    work = options.workspace.root
    environment = build_environment(
        work / "env" / options.interpreter.tag,
        options.interpreter,
        rocm,
        view=work / "view",
        log=tmp_path / "log",
    )
    (site,) = venv.package_directories(environment.root)
    for name in TOOLS:
        (site / f"{name}.dist-info").mkdir()
    # A machine with only the interpreter has none of its own.
    headers = tmp_path / "include" / "Python.h"
    headers.parent.mkdir()
    headers.touch()
    head = git(tree, "rev-parse", "HEAD")
    locked = LockedSource("torchaudio", str(tree), head, head, "flag", "torchaudio", hipify=False)
    given: dict[str, msgspec.Struct] = {
        "checkout-torchaudio": SourceTree(str(tree), locked, 0, 0, 1_700_000_000),
        "python-headers": PythonHeaders((str(headers.parent),), "of the distribution's package"),
        "build-env": rocm,
        "build-torch": torch_wheel(tmp_path),
    }
    graph = make_graph([build_step(options, "torchaudio", ("build-torch",))], given=given)

    def once() -> str:
        (step,) = local.run(graph, tmp_path / "work" / "state", given=given).steps
        return step.state

    return once


@pytest.mark.parametrize("name", ["CFLAGS", "CC", "CMAKE_ARGS", "USE_MPI", "HIPCC_COMPILE_FLAGS_APPEND"])
def test_another_value_of_what_a_build_reads_builds_again(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv(name, raising=False)
    assert [run(), run()] == ["done", "cached"]
    # A compiler has to be there before anything is built.
    value = "/bin/true" if name == "CC" else "-O1"
    monkeypatch.setenv(name, value)
    assert [run(), run()] == ["done", "cached"]
    assert json.loads((tmp_path / "seen.json").read_text())[name] == value
    monkeypatch.delenv(name)
    assert run() == "done"


def test_another_login_terminal_or_job_builds_nothing_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run() == "done"
    for name in (
        *(
            "HOME",
            "USER",
            "HOSTNAME",
            "PWD",
            "TMPDIR",
            "TERM",
            "LANG",
            "LC_ALL",
            "SSH_CLIENT",
            "XDG_RUNTIME_DIR",
        ),
        *(
            "GITHUB_RUN_ID",
            "GITHUB_TOKEN",
            "RUNNER_TEMP",
            "SLURM_JOB_ID",
            "MAX_JOBS",
            "https_proxy",
            "MAKEFLAGS",
            "MAKELEVEL",
        ),
        # No build has these: plans set their own.
        *("PYTHONPATH", "LD_LIBRARY_PATH", "ROCM_PATH", "HIP_PATH", "PIP_INDEX_URL", "VIRTUAL_ENV"),
    ):
        monkeypatch.setenv(name, "/another")
    assert run() == "cached"
