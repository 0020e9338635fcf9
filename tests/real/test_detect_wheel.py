"""The detector's own wheel, built by pip: small, needs nothing, runs where installed; its lines hold."""

from __future__ import annotations

import email
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from wheels import ANY, write_wheel

ROOT = Path(__file__).resolve().parents[2]
EIGHT = sorted((Path.home() / ".pyenv/versions").glob("3.8*/bin/python"))
PYTHONS = [sys.executable, *map(str, EIGHT[:1])]
PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check"]


def run(*words: object, code: int = 0, **more: object) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, **more)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, of the tree as it is in the repository, without what other builds left in it."""
    directory = tmp_path_factory.mktemp("detect")
    shutil.copytree(ROOT / "runtime", directory / "runtime", ignore=shutil.ignore_patterns("__pycache__"))
    run(sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", directory, directory / "runtime/detect")
    (wheel,) = directory.glob("*.whl")
    return wheel


def test_it_is_small_and_needs_nothing(built: Path) -> None:
    assert built.name.endswith("-py3-none-any.whl")
    assert built.stat().st_size < 50_000
    with zipfile.ZipFile(built) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(wheel.read(name))
    assert metadata["Requires-Dist"] is None
    assert metadata["Requires-Python"] == ">=3.8"


def test_it_holds_the_very_detector_of_the_package_rocm(built: Path) -> None:
    with zipfile.ZipFile(built) as wheel:
        inside = wheel.read("rocwright_detect/_detect.py")
        names = {name for name in wheel.namelist() if name.startswith("rocwright_detect/")}
    assert inside == (ROOT / "runtime/rocm/src/rocm_sdk/_detect.py").read_bytes()
    own = {f"rocwright_detect/{path.name}" for path in (ROOT / "runtime/detect/src").rglob("*.py")}
    assert names == own | {"rocwright_detect/_detect.py"}


@pytest.mark.parametrize("python", PYTHONS)
def test_it_installs_offline_and_answers(built: Path, tmp_path: Path, python: str) -> None:
    run(python, "-m", "venv", tmp_path / "venv")
    inside = tmp_path / "venv/bin"
    run(inside / "python", *PIP, "install", "--no-index", built)
    command = [
        inside / "rocwright-detect",
        "--target",
        "gfx1100",
        "--index",
        "https://x.example/",
        "--offline",
    ]
    command.append("--json")
    environment = {"PATH": os.environ["PATH"]}
    by_command = json.loads(run(*command, env=environment))
    by_module = json.loads(run(inside / "python", "-m", "rocwright_detect", *command[1:], env=environment))
    assert by_command == by_module
    assert by_command["targets"] == ["gfx1100"]
    (tmp_path / "empty").mkdir()
    assert run(inside / "rocwright-detect", "--root", tmp_path / "empty", code=1, env=environment) == ""


def test_uv_resolves_what_the_snippet_says(built: Path, tmp_path: Path) -> None:
    """Only from the index that it names: in the other one there is a newer torch, which nobody may get."""
    pages = {"ours": tmp_path / "ours", "other": tmp_path / "other"}
    for which, version in (("ours", "2.9.0"), ("other", "3.0.0")):
        for project in ("torch", "torchvision", "torchaudio", "rocm"):
            _publish(pages[which], project, version, needs="rocm" if project == "torch" else None)
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(tmp_path / "venv/bin/python", *PIP, "install", "--no-index", built)
    index = f"{pages['ours'].as_uri()}/"
    command = [tmp_path / "venv/bin/rocwright-detect", "--target", "gfx942", "--index", index, "--json"]
    (one,) = json.loads(run(*command))["install"]
    head = '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.10"\n'
    (tmp_path / "pyproject.toml").write_text(one["pyproject"].replace("[project]\n", head, 1))
    uv = Path(sys.executable).parent / "uv"
    run(uv, "lock", "--default-index", pages["other"].as_uri(), "--no-cache", cwd=tmp_path)
    lock = (tmp_path / "uv.lock").read_text()
    assert lock.count('version = "2.9.0"') == 4
    assert "3.0.0" not in lock


def _publish(index: Path, project: str, version: str, needs: str | None) -> None:
    folder = index / project
    requires = [needs] if needs else []
    name = write_wheel(
        folder, project, version, {}, requires=requires, extras=["device-gfx942"], tag=ANY
    ).name
    (folder / "index.html").write_text(f'<!DOCTYPE html><a href="{name}">{name}</a>\n')
