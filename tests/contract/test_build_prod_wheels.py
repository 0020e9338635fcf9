"""`build_prod_wheels.py` and the two shell scripts as the build documentation writes them down.

ROCm is a package of a few kilobytes on an index of this machine; builds are planned, not carried out.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rocwright
from real import sdk_index
from rocwright.system import venv
from unit.builder.rocm import rocm_wheels

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "external-builds/pytorch"
MINI = ROOT / "examples/mini-pytorch"
SOURCE = Path(rocwright.__file__).resolve().parents[1]
FAMILY = ("pytorch", "pytorch_audio", "pytorch_vision", "triton")


class Desk:
    """A user's clone of the scripts, with checkouts beside them, in a home with a space in its name."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.scripts = home / "clone/external-builds/pytorch"
        self.scripts.mkdir(parents=True)
        for script in SCRIPTS.iterdir():
            if script.is_file():
                shutil.copy(script, self.scripts)
        for name in FAMILY:
            shutil.copytree(MINI / name, self.scripts / name)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PYTHONPATH": str(SOURCE),
            "PYTHON": sys.executable,
            "PIP_RETRIES": "0",
            "XDG_CACHE_HOME": str(home / "cache"),
        }

    def run(self, *words: object, cwd: Path | None = None, **env: object) -> subprocess.CompletedProcess[str]:
        """A command; `python` is the one that runs the tests."""
        done = subprocess.run(
            [sys.executable if word == "python" else str(word) for word in words],
            cwd=cwd or self.scripts,
            env={**self.env, **{name: str(value) for name, value in env.items()}},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def plan(self, *words: object, cwd: Path | None = None, **env: object) -> dict[str, Any]:
        """What a command line that ends in a dry run would do."""
        done = self.run(*words, "--dry-run", "--json", cwd=cwd, **env)
        assert done.returncode == 0, done.stderr
        plan: dict[str, Any] = json.loads(done.stdout)
        return plan


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "a home")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = tmp_path_factory.mktemp("index")
    rocm_wheels.make_wheel(place, "7.10.0a20251124")
    with sdk_index.serving(place) as address:
        yield address.url


def plain_rocm(prefix: Path, targets: str = "") -> Path:
    """A plain ROCm that says of itself what it was built for, if anything."""
    files = {
        **rocm_wheels.tree(""),
        "include/hip/hip_version.h": "#define HIP_VERSION_MAJOR 6\n",
        ".info/version": "6.4.3-1\n",
        "lib/libamdhip64.so": "",
    }
    if targets:
        files["share/therock/dist_info.json"] = json.dumps({"dist_amdgpu_targets": targets})
    for name, text in files.items():
        path = prefix / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return prefix


def projects(plan: dict[str, Any]) -> list[str]:
    return [build["project"] for build in plan["builds"]]


@pytest.mark.slow
def test_install_rocm_for_one_gpu_from_an_index_for_all(desk: Desk, tmp_path: Path) -> None:
    """The documented way: the GPU is an extra, and nothing of the other GPUs is installed."""
    place = tmp_path / "whl-next"
    rocm_wheels.multi_arch(place, "10.0.0", "gfx942", "gfx1151")
    environment = venv.create(desk.home / "venv")
    with sdk_index.serving(place) as served:
        words = ("--index-url", served.url, "--rocm-extras", "device-gfx1151", "install-rocm")
        done = desk.run("python", "build_prod_wheels.py", *words, VIRTUAL_ENV=environment.root)
        assert done.returncode == 0, done.stderr
        there = venv.installed(environment)
        assert (there["rocm"], there["rocm-sdk-device-gfx1151"]) == ("10.0.0", "10.0.0")
        assert "rocm-sdk-device-gfx942" not in there


@pytest.mark.slow
def test_install_rocm_with_options_before_it(desk: Desk, index: str) -> None:
    # CL-17.
    environment = venv.create(desk.home / "venv")
    words = ("python", "build_prod_wheels.py", "--index-url", index, "install-rocm")
    done = desk.run(*words, VIRTUAL_ENV=environment.root)
    assert done.returncode == 0, done.stderr
    assert "7.10.0a20251124" in done.stdout
    assert venv.installed(environment)["rocm"] == "7.10.0a20251124"

    # CL-63 to CL-65: what the environment says of its ROCm is what a build there sees.
    torch = desk.plan(
        *("python", "build_prod_wheels.py", "build", "--output-dir", desk.home / "out"),
        *("--rocm-environment", environment.root),
    )["builds"][1]
    (tree,) = environment.root.glob("lib/python3*/site-packages/rocm_sdk/tree")
    assert torch["env"]["CMAKE_PREFIX_PATH"] == str(tree / "lib/cmake")
    assert torch["env"]["ROCM_HOME"] == torch["env"]["ROCM_PATH"] == str(tree)
    assert torch["env"]["PATH"].split(os.pathsep)[0] == str(tree / "bin")
    # Those of its device packages.
    assert sorted(torch["env"]["PYTORCH_ROCM_ARCH"].split(";")) == ["gfx1100", "gfx942"]
    assert torch["version"].endswith("+rocm7.10.0a20251124")
    # CL-66, CL-67.
    required = torch["env"]["PYTORCH_EXTRA_INSTALL_REQUIREMENTS"].split("|")
    assert required[0] == "rocm[libraries]==7.10.0a20251124"
    init = torch["generated"]["torch/_rocm_init.py"]
    assert "check_version='7.10.0a20251124'" in init.replace('"', "'")
    assert "amdhip64" in init and "rccl" not in init


def test_the_quickstart(desk: Desk) -> None:
    # CL-09: what is beside the script, in order; the ROCm is still to be installed.
    plan = desk.plan(
        *("python", "build_prod_wheels.py", "build", "--install-rocm"),
        *("--index-url", "https://rocm.nightlies.amd.com/v2/gfx110X-all/"),
        *("--output-dir", desk.home / "tmp/pyout", "--pytorch-rocm-arch", "gfx1100"),
        cwd=desk.scripts,
    )
    assert projects(plan) == ["triton", "torch", "torchaudio", "torchvision"]
    assert plan["builds"][1]["directory"] == str(desk.scripts / "pytorch")
    assert not (desk.home / "tmp").exists()


def test_short_directories_on_windows(desk: Desk, tmp_path: Path) -> None:
    # CL-10: directories by option, from anywhere.
    short = tmp_path / "b"
    (desk.scripts / "pytorch").rename(short)
    plan = desk.plan(
        *("python", desk.scripts / "build_prod_wheels.py", "--platform", "windows", "build"),
        *("--pytorch-dir", short, "--output-dir", "out", "--pytorch-rocm-arch", "gfx1100"),
        *("--enable-pytorch-flash-attention-windows", "--no-build-pytorch-audio"),
        cwd=tmp_path,
    )
    assert projects(plan) == ["torch", "torchvision"]
    assert plan["builds"][0]["directory"] == str(short)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "build",
        "develop --output-dir x",
        "build --output-dir x --pytorch-rocm",
        "install-rocm --output-dir x",
    ],
)
def test_words_that_the_script_does_not_know(desk: Desk, words: str) -> None:
    before = sorted(desk.scripts.iterdir())
    done = desk.run("python", "build_prod_wheels.py", *words.split())
    assert done.returncode == 2
    assert sorted(desk.scripts.iterdir()) == before


def test_an_index_alone_installs_nothing(desk: Desk, index: str, tmp_path: Path) -> None:
    empty = venv.create(desk.home / "venv")
    words = ("build", "--index-url", index, "--pytorch-rocm-arch", "gfx942", "--output-dir", tmp_path / "out")
    done = desk.run("python", "build_prod_wheels.py", *words, VIRTUAL_ENV=empty.root)
    assert done.returncode == 12
    assert f"{empty.root} has no ROCm packages" in done.stderr
    assert "next: add --install-rocm to install them there" in done.stderr
    assert not (tmp_path / "out").exists() and not (tmp_path / "out-work").exists()


def test_a_rocm_that_cmake_prefix_path_names(desk: Desk, tmp_path: Path) -> None:
    # CL-45, CL-46: a "dist dir", and Kineto as the caller wants it; the editable build of today.
    prefix = plain_rocm(tmp_path / "build/dist/rocm")
    empty = venv.create(desk.home / "venv")
    caller = {"CMAKE_PREFIX_PATH": f"{tmp_path / 'other'}{os.pathsep}{prefix}", "USE_KINETO": "OFF"}
    done = desk.run(
        *("python", "build_prod_wheels.py", "build", "--output-dir", tmp_path / "out", "--dry-run", "--json"),
        *("--pytorch-rocm-arch", "gfx1100", "--editable", "torch"),
        *("--no-build-triton", "--no-build-pytorch-audio", "--no-build-pytorch-vision"),
        VIRTUAL_ENV=empty.root,
        **caller,
    )
    assert done.returncode == 0, done.stderr
    (torch,) = json.loads(done.stdout)["builds"]
    assert torch["env"]["ROCM_PATH"] == str(prefix)
    assert torch["env"]["USE_KINETO"] == "OFF"
    assert str(tmp_path / "other") in torch["env"]["CMAKE_PREFIX_PATH"].split(os.pathsep)
    assert torch["editable"] is True
    assert "PYTORCH_EXTRA_INSTALL_REQUIREMENTS" not in torch["env"] or "rocm" not in str(torch["pins"])
    assert "-e" in torch["argv"] or "--editable" in torch["argv"]


def test_a_rocm_that_was_built_in_this_repository(desk: Desk, tmp_path: Path) -> None:
    # FD-29: nothing names it; a variable that names another one comes first.
    empty = venv.create(desk.home / "venv")
    words = ("python", "build_prod_wheels.py", "build", "--output-dir", tmp_path / "out")
    plain_rocm(desk.home / "clone/build/dist/rocm", "gfx942;gfx1100")
    plan = desk.plan(*words, VIRTUAL_ENV=empty.root)
    assert plan["targets"] == ["gfx942", "gfx1100"]
    assert plan["builds"][1]["env"]["ROCM_PATH"] == str(desk.home / "clone/build/dist/rocm")
    plain_rocm(tmp_path / "other", "gfx90a")
    plan = desk.plan(*words, VIRTUAL_ENV=empty.root, CMAKE_PREFIX_PATH=tmp_path / "other")
    assert plan["targets"] == ["gfx90a"]


@pytest.mark.slow
def test_build_pytorch_windows_is_the_builder_with_an_arch(desk: Desk, tmp_path: Path) -> None:
    # CL-47.
    script = desk.scripts / "build_pytorch_windows.sh"
    here = desk.plan("bash", "build_pytorch_windows.sh", "gfx1100")
    builder = desk.plan(
        *("python", "build_prod_wheels.py", "build", "--pytorch-rocm-arch", "gfx1100"),
        *("--output-dir", desk.scripts / "dist"),
    )
    assert here == builder
    elsewhere = desk.plan("bash", script, "gfx1100", "--output-dir", "out", "--clean", cwd=tmp_path)
    assert elsewhere["targets"] == ["gfx1100"]
    for words in ((), ("--dry-run",)):
        done = desk.run("bash", script, *words)
        assert done.returncode == 2
        assert "usage: bash build_pytorch_windows.sh TARGETS" in done.stderr


def test_checkout_and_build_all_passes_its_words_on(desk: Desk, tmp_path: Path) -> None:
    # CL-42: a stand-in for Python writes down what it is called with.
    calls = tmp_path / "calls"
    fake = tmp_path / "python"
    fake.write_text(f'#!/bin/sh\nfor word in "$@"; do printf "%s|" "$word"; done >>{calls}\necho >>{calls}\n')
    fake.chmod(0o755)
    script = desk.scripts / "checkout_and_build_all.sh"
    dist = ["--output-dir", str(desk.scripts / "dist")]
    for words, checkout, build in (
        ([], [], dist),
        (["--pytorch-rocm-arch", "gfx942"], [], [*dist, "--pytorch-rocm-arch", "gfx942"]),
        (
            ["--pytorch-version", "2.9", "--", "--output-dir", "a b"],
            ["--pytorch-version", "2.9"],
            ["--output-dir", "a b"],
        ),
        (["--jobs", "2", "--"], ["--jobs", "2"], dist),
    ):
        calls.unlink(missing_ok=True)
        done = desk.run("bash", script, *words, cwd=tmp_path, PYTHON=fake)
        assert done.returncode == 0, done.stderr
        lines = [line.split("|")[:-1] for line in calls.read_text().splitlines()]
        assert lines == [
            ["-m", "rocwright", "checkout", "all", "--directory", str(desk.scripts), *checkout],
            [str(desk.scripts / "build_prod_wheels.py"), "build", *build],
        ]


def test_a_failed_checkout_is_not_built(desk: Desk, tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\necho called >>{tmp_path}/calls\nexit 11\n")
    fake.chmod(0o755)
    done = desk.run("bash", "checkout_and_build_all.sh", PYTHON=fake)
    assert done.returncode == 11
    assert (tmp_path / "calls").read_text() == "called\n"


def test_copies_of_the_scripts_serve_in_whatever_directory(desk: Desk) -> None:
    copies = desk.home / "my scripts"
    copies.mkdir()
    for name in ("build_prod_wheels.py", "build_pytorch_windows.sh"):
        shutil.copy(SCRIPTS / name, copies)
    words = ("--pytorch-dir", desk.scripts / "pytorch")
    plan = desk.plan("bash", copies / "build_pytorch_windows.sh", "gfx1100", *words, cwd=desk.home)
    assert plan["targets"] == ["gfx1100"]
    renamed = copies / "build.py"
    shutil.copy(SCRIPTS / "build_prod_wheels.py", renamed)
    done = desk.run("python", renamed, "build")
    assert done.returncode == 2
    assert "build.py is not the name of a documented script" in done.stderr


def test_a_python_that_rocm_is_not_installed_into_is_told_with_the_rest(desk: Desk) -> None:
    python = desk.home / "old/bin/python"
    python.parent.mkdir(parents=True)
    said = {"path": str(python), "version": "3.9", "full": "3.9.1", "include": "/i", "has_headers": True}
    python.write_text(f"#!/bin/sh\necho '{json.dumps(said)}'\n")
    python.chmod(0o755)
    done = desk.run(
        *("python", "build_prod_wheels.py", "build", "--install-rocm", "--find-links", desk.home),
        *("--output-dir", desk.home / "out", "--pytorch-rocm-arch", "gfx942"),
        VIRTUAL_ENV=desk.home / "old",
        CC="no-compiler",
    )
    assert done.returncode == 12
    assert "has Python 3.9; wheels are built for 3.10 to 3.15" in done.stderr
    assert "the variable CC names no-compiler" in done.stderr
