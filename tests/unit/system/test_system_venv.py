"""Environments: closed installs see only what they are given, tool installs see the user's index."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rocwright.errors import CommandFailed
from rocwright.system import venv
from rocwright.system.venv import Closed, Environment
from rocwright.wheel.metadata import Metadata
from rocwright.wheel.write import BytesSource, Member, WheelPlan, write_wheel


def wheel(folder: Path, version: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    plan = WheelPlan(
        "leaky",
        version,
        Metadata("leaky", version),
        (Member("leaky.py", BytesSource(f"v = {version!r}\n".encode())),),
        tag="py3-none-any",
        root_is_purelib=True,
    )
    return write_wheel(plan, folder).path


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`ours` has version 1, `theirs` (the user's configuration) version 2."""
    root = tmp_path_factory.mktemp("pages")
    wheel(root / "ours", "1")
    wheel(root / "theirs", "2")
    return root


@pytest.fixture(autouse=True)
def _without_this_machines_pip_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return venv.create(tmp_path / "env")


@pytest.fixture
def users_pip(pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user whose variables and configuration file lead elsewhere."""
    monkeypatch.setenv("PIP_FIND_LINKS", str(pages / "theirs"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    home = tmp_path / "home"
    (home / "pip").mkdir(parents=True)
    (home / "pip" / "pip.conf").write_text(f"[global]\nfind-links = {pages / 'theirs'}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))


def test_a_new_environment_is_empty_and_replaces_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "env" / "lib").mkdir(parents=True)
    (tmp_path / "env" / "lib" / "rest-of-a-killed-run").write_text("")
    made = venv.create(tmp_path / "env")
    assert made.python.exists()
    assert not (tmp_path / "env" / "lib" / "rest-of-a-killed-run").exists()
    assert venv.installed(made) == {}


@pytest.mark.usefixtures("users_pip")
def test_a_closed_pip_install_ignores_the_users_variables_and_file(
    environment: Environment, pages: Path
) -> None:
    venv.pip_install(environment, ["leaky"], closed=Closed(find_links=(str(pages / "ours"),)))
    assert venv.installed(environment) == {"leaky": "1"}


@pytest.mark.usefixtures("users_pip")
def test_a_tool_install_uses_the_users_configuration(environment: Environment) -> None:
    venv.pip_install(environment, ["leaky"], closed=None)
    assert venv.installed(environment) == {"leaky": "2"}


def test_a_closed_pip_install_ignores_a_configuration_file_alone(
    environment: Environment, pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "pip.conf").write_text(
        f"[global]\nfind-links = {pages / 'theirs'}\nno-index = true\n"
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(CommandFailed):
        venv.pip_install(environment, ["leaky==2"], closed=Closed(find_links=(str(pages / "ours"),)))
    venv.pip_install(environment, ["leaky==2"], closed=None)  # the file does lead there
    assert venv.installed(environment) == {"leaky": "2"}


def test_a_closed_uv_install_ignores_the_users_variables_and_file(
    environment: Environment, pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_FIND_LINKS", str(pages / "theirs"))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    (tmp_path / "config" / "uv").mkdir(parents=True)
    (tmp_path / "config" / "uv" / "uv.toml").write_text(f'[pip]\nfind-links = ["{pages / "theirs"}"]\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    closed = Closed(find_links=(str(pages / "ours"),))
    venv.uv_install(environment, ["leaky"], closed=closed, cache=tmp_path / "cache")
    assert venv.installed(environment) == {"leaky": "1"}
    assert (tmp_path / "cache").is_dir()


def test_without_an_index_none_is_asked() -> None:
    assert Closed(find_links=("a", "b")).arguments() == [
        "--no-index",
        "--find-links",
        "a",
        "--find-links",
        "b",
    ]
    assert Closed(index_url="http://x/simple/").arguments() == ["--index-url", "http://x/simple/"]


def test_nothing_of_the_caller_leaks_into_an_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leak").mkdir()
    (tmp_path / "leak" / "leaked.py").write_text("")
    for name in ("PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.setenv(name, str(tmp_path / "leak"))
    environment = venv.create(tmp_path / "env")
    code = (
        "import importlib.util, os, shutil, sys; "
        "print(importlib.util.find_spec('leaked'), sys.prefix, shutil.which('python')); "
        "print([n for n in os.environ if n in "
        "('PYTHONPATH', 'PYTHONHOME', 'VIRTUAL_ENV', 'CONDA_PREFIX', 'LD_LIBRARY_PATH', 'LD_PRELOAD')])"
    )
    done = environment.run(["python", "-c", code])
    root = tmp_path / "env"
    assert done.stdout.splitlines() == [f"None {root} {root}/bin/python", "[]"]


def test_projects_are_named_as_an_index_names_them(tmp_path: Path) -> None:
    environment = venv.create(tmp_path / "env")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    info = environment.root / "lib" / version / "site-packages" / "Rocm_SDK.Core-7.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Rocm_SDK.Core\nVersion: 7.1\n")
    assert venv.installed(environment) == {"rocm-sdk-core": "7.1"}


@pytest.mark.slow
def test_a_tool_install_goes_into_its_environment_whatever_the_users_pip_is_set_to(
    environment: Environment, pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "pip.conf").write_text("[global]\nuser = true\nrequire-virtualenv = true\n")
    settings = {
        "XDG_CONFIG_HOME": tmp_path,
        "PIP_FIND_LINKS": pages / "theirs",
        "PIP_NO_INDEX": "1",
        "PIP_TARGET": tmp_path / "elsewhere",
        "PIP_PREFIX": tmp_path / "elsewhere",
        "PIP_USER": "1",
        "PIP_DRY_RUN": "1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, str(value))
    venv.pip_install(environment, ["leaky"], closed=None)
    assert venv.installed(environment) == {"leaky": "2"}
    assert not (tmp_path / "elsewhere").exists()
    venv.pip_uninstall(environment, ["leaky"])
    assert venv.installed(environment) == {}
