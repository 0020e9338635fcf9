"""Every documented script, from another directory, in a plain environment, on each Python there is here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.world import World, base_python
from rocwright.cli.documented import DOCUMENTED

# 3.11 and later are what the documents ask for; 3.10 works too.
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
SCRIPTS = sorted(DOCUMENTED)
# Arguments that make a script do something small, and what it says then; all others are asked for their help.
TRIED = {
    "build_tools/compute_rocm_package_version.py": (
        ["--release-type=nightly", "--override-base-version=7.12.0", "--date=20261103"],
        "rocm_package_version=7.12.0a20261103\n",
    ),
    "build_tools/github_actions/amdgpu_family_matrix.py": (["--json"], '"gfx110X'),
    "build_tools/github_actions/python_to_cp_version.py": (
        ["--python-version=3.12"],
        "cp_version=cp312-cp312\n",
    ),
}


def pythons() -> dict[str, Path]:
    """Version to interpreter: those that pyenv keeps, those on PATH, and the one that runs the tests."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found: dict[str, Path] = {}
    for version in VERSIONS:
        beside = [Path(place) / f"python{version}" for place in os.environ["PATH"].split(os.pathsep)]
        for path in [*sorted(kept.glob(f"{version}.*/bin/python")), *beside]:
            if path.exists() and _says(path) == version:
                found[version] = path
                break
    own = ".".join(map(str, sys.version_info[:2]))
    found.setdefault(own, base_python())
    return found


def _says(path: Path) -> str:
    code = "import sys, venv, ensurepip; print('.'.join(map(str, sys.version_info[:2])))"
    done = subprocess.run([path, "-c", code], capture_output=True, text=True)
    return done.stdout.strip()


def environment(world: World, version: str) -> Path:
    """A plain environment of that Python, rocwright installed into it as the scripts say."""

    def make(place: Path) -> None:
        subprocess.run([pythons()[version], "-m", "venv", place / "venv"], check=True)
        words = ["-m", "pip", "install", "-q", world.wheel()]
        variables = world.shell(place).variables
        subprocess.run([place / "venv/bin/python", *words], check=True, env=variables, timeout=300)

    return world.once(f"python-{version}", make) / "venv"


def test_the_python_of_most_users_is_among_them() -> None:
    assert "3.11" in pythons()


@pytest.mark.parametrize("version", sorted(pythons()))
def test_every_script_answers_from_another_directory(world: World, version: str, tmp_path: Path) -> None:
    venv = environment(world, version)
    env = {"PATH": f"{venv}/bin:/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    silent = {}
    for name in SCRIPTS:
        words, wanted = TRIED.get(name, (["--help"], "Usage:"))
        done = subprocess.run(
            ["python", world.clone() / name, *words], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        if done.returncode or wanted not in done.stdout or "Traceback" in done.stderr:
            silent[name] = f"exit {done.returncode}\n{done.stdout[-500:]}\n{done.stderr[-1500:]}"
    assert not silent, "\n".join(f"== {name}: {said}" for name, said in silent.items())
    assert sorted(path.name for path in tmp_path.iterdir()) in ([], [".cache"])


@pytest.mark.parametrize("version", sorted(pythons()))
def test_without_an_installation_each_says_in_a_line_what_to_type(world: World, version: str) -> None:
    empty = world.once(f"empty-{version}", lambda place: _bare(pythons()[version], place)) / "venv"
    clone = world.clone()
    for name in SCRIPTS:
        done = subprocess.run([empty / "bin/python", clone / name], cwd="/", capture_output=True, text=True)
        assert done.returncode == 1
        said, next_step = done.stderr.splitlines()
        assert said == "error: this Python has no rocwright"
        assert next_step == f"  next: {empty}/bin/python -m pip install {clone}"


def _bare(python: Path, place: Path) -> None:
    subprocess.run([python, "-m", "venv", "--without-pip", place / "venv"], check=True)
