"""Build environments: which ROCm they see, when they are made anew, what is there already."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from rocwright.builder.rocm.rocm import Rocm
from rocwright.builder.run.environments import build_environment, module_of, satisfies, site_packages
from rocwright.system.interpreters import running_interpreter
from rocwright.system.venv import Environment, create
from wheels import ANY, write_wheel


def distribution(site: Path, name: str, version: str, *files: str) -> None:
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for file in files:
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).write_text(f"where = {str(site / file)!r}\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in (*files, f"{info.name}/RECORD")))


@pytest.fixture
def rocm(tmp_path: Path) -> Rocm:
    site = tmp_path / "theirs"
    distribution(site, "rocm", "7.1", "rocm_sdk/__init__.py", "../../../bin/rocm-sdk")
    distribution(site, "rocm-sdk-core", "7.1", "_rocm_sdk_core/__init__.py")
    root = str(site / "_rocm_sdk_core")
    return Rocm(version="7.1", root=root, bin=f"{root}/bin", cmake=f"{root}/cmake", site=str(site))


def made(tmp_path: Path, rocm: Rocm) -> Environment:
    return build_environment(
        tmp_path / "env", running_interpreter(), rocm, view=tmp_path / "view", log=tmp_path / "log"
    )


def sees(environment: Environment, module: str) -> str:
    done = subprocess.run(
        [environment.python, "-I", "-c", f"import {module}; print({module}.where)"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_rocm_is_seen_where_it_lies(tmp_path: Path, rocm: Rocm) -> None:
    environment = made(tmp_path, rocm)
    assert sees(environment, "rocm_sdk") == f"{rocm.site}/rocm_sdk/__init__.py"
    assert not (tmp_path / "view").exists()


def test_of_an_environment_with_other_packages_only_rocm_is_seen(tmp_path: Path, rocm: Rocm) -> None:
    site = Path(rocm.site)
    distribution(site, "numpy", "1.0", "numpy/__init__.py")
    distribution(site, "rocket", "1.0", "rocket/__init__.py")
    environment = made(tmp_path, rocm)
    assert sees(environment, "rocm_sdk").endswith("/rocm_sdk/__init__.py")
    assert sees(environment, "_rocm_sdk_core").endswith("/_rocm_sdk_core/__init__.py")
    for hidden in ("numpy", "rocket"):
        assert sees(environment, hidden) == f"ModuleNotFoundError: No module named '{hidden}'"
    script = "import importlib.metadata as m; print(sorted(d.name for d in m.distributions()))"
    done = environment.run([str(environment.python), "-I", "-c", script])
    assert done.stdout == "['rocm', 'rocm-sdk-core']\n"


def test_an_environment_is_kept_for_the_same_rocm_and_made_anew_for_another(
    tmp_path: Path, rocm: Rocm
) -> None:
    mark = site_packages(made(tmp_path, rocm)) / "installed.py"
    mark.touch()
    made(tmp_path, rocm)
    assert mark.exists()
    made(tmp_path, msgspec.structs.replace(rocm, version="7.2"))
    assert not mark.exists()


def test_one_that_was_interrupted_while_it_was_made_is_made_anew(tmp_path: Path, rocm: Rocm) -> None:
    half = create(tmp_path / "env")
    mark = site_packages(half) / "installed.py"
    mark.touch()
    made(tmp_path, rocm)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("requirements", "there"),
    [
        (["setuptools==80.9.0"], True),
        (["SetupTools >= 70, < 81", "typing.extensions"], True),
        (["setuptools>=81"], False),
        (["wheel"], False),
        (["setuptools", "-c constraints.txt"], False),
        (["setuptools; python_version < '3'"], False),
        (["setuptools[core]"], False),
        (["setuptools @ https://localhost/setuptools.whl"], False),
    ],
    ids=lambda value: str(value),
)
def test_only_what_is_certainly_there_is_not_asked_for(
    tmp_path: Path, requirements: list[str], there: bool
) -> None:
    environment = Environment(tmp_path)
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    distribution(site, "setuptools", "80.9.0")
    distribution(site, "typing_extensions", "4.0")
    assert satisfies(environment, requirements) is there


@pytest.mark.parametrize(
    ("files", "module"),
    [
        (["tiny_ext/__init__.py", "modules/__init__.py"], "tiny_ext"),
        (["functions/__init__.py", "Tiny_Ext.cpython-312-x86_64-linux-gnu.so"], "Tiny_Ext"),
        (["tests/__init__.py", "_C.abi3.so", "deform/__init__.py", "include/a.h"], "deform"),
        (["one/__init__.py", "two.py", "tiny_ext-1.0.dist-info/top_level.txt"], "two"),
        (["tests/__init__.py", "share/notes"], "tiny_ext"),
    ],
)
def test_a_wheel_tells_what_it_is_imported_by(tmp_path: Path, files: list[str], module: str) -> None:
    wheel = write_wheel(tmp_path, "tiny-ext", "1.0", dict.fromkeys(files, "two\n"), tag=ANY)
    assert module_of(wheel, "tiny-ext") == module
