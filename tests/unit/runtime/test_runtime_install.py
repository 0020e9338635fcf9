"""Real pip and uv, no index: install the sdist without a build tool, use it, uninstall; nothing is left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import fake_rocm as fake
import pytest
from test_runtime_devel import kill_at

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory, wheels) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    for name in ("core", "libraries", "other", "devel"):
        shutil.copy(wheels[name], directory)
    fake.sdist(directory)
    return directory


@pytest.fixture(scope="module")
def wheel_dist(tmp_path_factory: pytest.TempPathFactory, wheels) -> Path:
    """As `dist`, with the wheel that the sdist gives, for tests that are not about the sdist."""
    directory = tmp_path_factory.mktemp("wheel-dist")
    for name in ("rocm", "core", "libraries", "devel"):
        shutil.copy(wheels[name], directory)
    return directory


class Environment:
    """A virtual environment without pip, served by the pip that runs the tests."""

    def __init__(self, path: Path) -> None:
        venv.create(path, with_pip=False, symlinks=True)
        self.path = path
        (self.site,) = path.glob("lib/python*/site-packages")
        self.before = self.everything()

    def everything(self) -> set[str]:
        everything = {str(p.relative_to(self.path)) for p in self.path.rglob("*")}
        return everything - {".lock"}  # which uv makes for itself

    def pip(
        self, *arguments: str, family: str = fake.FAMILY, cache: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ROCM_", "PIP_"))}
        command = [sys.executable, "-m", "pip", "--python", str(self.path / "bin/python")]
        command += ["--cache-dir", str(cache)] if cache else ["--no-cache-dir"]
        return subprocess.run(
            [*command, "--quiet", "--disable-pip-version-check", *arguments],
            env={**kept, "ROCM_SDK_TARGET_FAMILY": family, "PIP_ROOT_USER_ACTION": "ignore"},
            capture_output=True,
            text=True,
            check=False,
        )

    def uv(self, *arguments: str, cache: Path) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ROCM_", "UV_"))}
        verb, *rest = arguments
        command = [str(Path(sys.executable).parent / "uv"), "pip", verb, "--no-config", "--offline"]
        command += ["--cache-dir", str(cache), "--python", str(self.path / "bin/python")]
        return subprocess.run([*command, *rest], env=kept, capture_output=True, text=True, check=False)

    def install(self, dist: Path, *requirements: str, **names: str) -> None:
        done = self.pip(
            "install", "--no-index", "--no-compile", "--find-links", str(dist), *requirements, **names
        )
        assert done.returncode == 0, done.stderr

    def uninstall(self, *names: str) -> None:
        done = self.pip("uninstall", "-y", *names)
        assert done.returncode == 0, done.stderr

    def run(self, command: str, *arguments: str) -> str:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ROCM_")}
        environ = {**kept, "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            [str(self.path / "bin" / command), *arguments],
            env=environ,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "venv")


ALL = ["rocm", "rocm-sdk-core", "rocm-sdk-libraries-gfx90X-dcgpu", "rocm-sdk-devel"]


@pytest.mark.parametrize("order", [ALL, ALL[::-1]], ids=["core-first", "devel-first"])
def test_install_use_uninstall_leaves_nothing(
    environment: Environment, dist: Path, wheel_dist: Path, order: list[str]
) -> None:
    # Once from the sdist, through its isolated build; the other time from the wheel which that gives.
    environment.install(dist if order == ALL else wheel_dist, "rocm[libraries,devel]")
    tree = f"{environment.site}/_rocm_sdk_devel"
    assert environment.run("rocm-sdk", "path", "--root") == f"{tree}\n"
    assert environment.run("hipcc", "x").startswith(f"hipcc from {tree}/bin x")
    assert environment.run("amdclang++").startswith("amdclang++ from ")
    assert environment.run("python", "-m", "rocm_sdk", "targets") == "gfx906;gfx90a\n"
    environment.uninstall(*order)  # pip finishes each before the next
    assert environment.everything() == environment.before


def test_uninstall_after_a_kill_in_the_middle_leaves_nothing(
    environment: Environment, wheel_dist: Path
) -> None:
    environment.install(wheel_dist, "rocm[devel]")
    kill_at(environment.site, "_attach", "real(*arguments)")
    environment.uninstall(*ALL)
    assert environment.everything() == environment.before


def test_family_and_its_error_reach_the_user(environment: Environment, dist: Path, wheel_dist: Path) -> None:
    arguments = ["install", "--no-index", "--find-links", str(dist), "rocm[libraries]"]
    done = environment.pip(*arguments, family="gfx9")
    assert done.returncode != 0
    assert "ROCM_SDK_TARGET_FAMILY=gfx9 is not available. Set it to one of: gfx103X-dgpu" in done.stderr
    environment.install(dist, "rocm[libraries]", family=fake.OTHER)
    assert environment.run("rocm-sdk", "targets") == "gfx1030;gfx1031\n"
    # The extra of a family holds, whatever was chosen for this machine.
    environment.install(wheel_dist, "rocm[libraries-gfx90x-dcgpu]")
    assert environment.run("rocm-sdk", "targets") == "gfx1030;gfx1031;gfx906;gfx90a\n"


def test_upgrade_replaces_the_expanded_tree(
    environment: Environment, wheel_dist: Path, tmp_path: Path, libraries
) -> None:
    environment.install(wheel_dist, "rocm[devel]")
    environment.run("rocm-sdk", "init")
    newer = tmp_path / "newer"
    newer.mkdir()
    fake.build_rocm(newer, rocm_set={**fake.ROCM_SET, "version": "5.2.4"})
    fake.core_wheel(newer, libraries, version="5.2.4")
    fake.libraries_wheel(newer, libraries, version="5.2.4")
    entries = [entry for entry in fake.DEVEL_ENTRIES if entry[0] != "llvm"]
    fake.devel_wheel(newer, entries=entries, version="5.2.4")
    environment.install(newer, "--upgrade", "rocm[devel]")
    assert not (environment.site / "_rocm_sdk_devel").exists()
    tree = Path(environment.run("rocm-sdk", "path", "--root").strip())
    assert (tree / "bin/hipcc").exists()
    assert not (tree / "llvm").is_symlink()
    environment.uninstall(*ALL)
    assert environment.everything() == environment.before


@pytest.fixture(scope="module")
def kpack_dist(tmp_path_factory: pytest.TempPathFactory, kpack_wheels) -> Path:
    """A set in kpack mode with the `rocm` sdist and the refusing one."""
    directory = tmp_path_factory.mktemp("kpack-dist")
    for name, wheel in kpack_wheels.items():
        if name != "rocm":
            shutil.copy(wheel, directory)
    fake.sdist(directory, fake.KPACK_SET)
    fake.refusal(directory)
    return directory


def use(
    environment: Environment, installer: str, cache: Path, verb: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """`pip` or `uv pip`, with a cache that is kept between environments."""
    if installer == "uv":
        return environment.uv(verb, *arguments, cache=cache)
    answer = ["-y"] if verb == "uninstall" else []
    return environment.pip(verb, *answer, *arguments, cache=cache)


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_two_targets_with_a_warm_cache_and_removal_one_by_one(
    tmp_path: Path, kpack_dist: Path, installer: str
) -> None:
    """Today the second install silently gets the first one's choice, and removing one device package takes
    files that others share."""
    cache = tmp_path / "cache"
    places = ["--no-index", "--find-links", str(kpack_dist)]
    for number, extras in enumerate(["libraries,device-gfx906", "devel,device-gfx1030,device-gfx906"]):
        environment = Environment(tmp_path / f"venv{number}")
        done = use(environment, installer, cache, "install", *places, f"rocm[{extras}]")
        assert done.returncode == 0, done.stderr
        wanted = sorted(extra[7:] for extra in extras.split(",") if extra.startswith("device-"))
        assert environment.run("rocm-sdk", "targets").strip().split(";") == wanted
    tree = Path(environment.run("rocm-sdk", "path", "--root").strip())
    kernels = tree / "lib/rocblas/library/kernels_gfx906.co"
    assert kernels.read_bytes() == b"gfx906"
    done = use(environment, installer, cache, "uninstall", "rocm-sdk-device-gfx906")
    assert done.returncode == 0, done.stderr
    assert (kernels.is_symlink(), kernels.exists()) == (True, False)
    assert environment.run("rocm-sdk", "targets") == "gfx1030\n"
    assert environment.run("rocm-sdk", "path", "--root") == f"{tree}\n"
    # The devel package goes last, so that all links of its tree lead nowhere by then.
    order = ["rocm-sdk-device-gfx1030", "rocm-sdk-libraries", "rocm-sdk-core", "rocm", "rocm-sdk-devel"]
    if installer == "uv":  # pip leaves empty directories of the libraries package when that goes first
        order[:2] = reversed(order[:2])
    for names in [[name] for name in order] if installer == "uv" else [order]:
        done = use(environment, installer, cache, "uninstall", *names)
        assert done.returncode == 0, done.stderr
    assert environment.everything() == environment.before


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_the_extra_device_fails_and_says_what_to_do(
    environment: Environment, tmp_path: Path, kpack_dist: Path, installer: str
) -> None:
    places = ["--no-index", "--find-links", str(kpack_dist)]
    done = use(environment, installer, tmp_path / "cache", "install", *places, "rocm[device]")
    assert done.returncode != 0
    text = " ".join((done.stdout + done.stderr).split())  # uv breaks lines at the width of the terminal
    assert "Extras of rocm 5.2.3: device-gfx1030 device-gfx11 device-gfx906 device-all" in text
    assert environment.everything() == environment.before
