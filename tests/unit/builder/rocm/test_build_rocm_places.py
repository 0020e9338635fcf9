"""Where ROCm comes from and where it goes to, as options say it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from rocwright.builder.rocm.place import PlainPython, RocmPlace, closed_places, find_environment, present_rocm
from rocwright.errors import UsageError
from rocwright.system.venv import Closed, Environment, package_directories, remote_places


def venv_at(root: Path) -> Path:
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "python").symlink_to(sys.executable)
    (root / "pyvenv.cfg").write_text("")
    return root


def test_empty_text_is_an_option_not_given(tmp_path: Path) -> None:
    assert closed_places("", [str(tmp_path), " "]) == Closed(None, (str(tmp_path),))
    assert closed_places("https://host/simple/", [""]) == Closed("https://host/simple/", ())
    for index, pages in (("", ()), (None, ["", ""]), (" ", [])):
        with pytest.raises(UsageError, match="no place") as refused:
            closed_places(index, pages)
        assert "--index-url" in str(refused.value.next_step)


def test_several_pages_stay_in_order_and_directories_become_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rocm").mkdir()
    monkeypatch.chdir(tmp_path)
    pages = ["https://host/b/", "rocm", "https://host/a.html"]
    assert closed_places(None, pages).find_links == (
        "https://host/b/",
        str(tmp_path / "rocm"),
        "https://host/a.html",
    )


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        closed_places("https://host/", [str(tmp_path / "dits")])


def test_only_the_network_shows_something_later(tmp_path: Path) -> None:
    places = Closed("http://host/simple/", (str(tmp_path), "file:///srv/rocm", "https://host/page.html"))
    assert remote_places(places) == ("http://host/simple/", "https://host/page.html")
    assert remote_places(Closed(None, (str(tmp_path),))) == ()


def test_the_environment_that_is_named(tmp_path: Path) -> None:
    root = venv_at(tmp_path / "env")
    other = venv_at(tmp_path / "other")
    caller = {"VIRTUAL_ENV": str(other)}
    assert find_environment(root, caller) == Environment(root)
    assert find_environment(root / "bin" / "python", caller) == Environment(root)
    assert find_environment(None, caller) == Environment(other)


def test_an_environment_as_windows_lays_it_out(tmp_path: Path) -> None:
    program = tmp_path / "env/Scripts/python.exe"
    program.parent.mkdir(parents=True)
    program.symlink_to(sys.executable)
    (tmp_path / "env/pyvenv.cfg").write_text("")
    for found in (
        find_environment(None, {"VIRTUAL_ENV": str(tmp_path / "env")}),
        find_environment(program, {}),
    ):
        assert found == Environment(tmp_path / "env")
        assert (found.python, found.bin) == (program, program.parent)
    assert package_directories(tmp_path / "env") == []
    (tmp_path / "env/Lib/site-packages").mkdir(parents=True)
    assert package_directories(tmp_path / "env") == [tmp_path / "env/Lib/site-packages"]


def test_without_any_it_is_the_one_that_runs_this() -> None:
    found = find_environment(None, {"VIRTUAL_ENV": ""})
    assert found.python.resolve() == Path(sys.executable).resolve()


def test_an_interpreter_of_its_own_keeps_its_name(tmp_path: Path) -> None:
    program = tmp_path / "opt" / "bin" / "python3.12"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    found = find_environment(program, {})
    assert found == PlainPython(tmp_path / "opt", program)
    assert (found.python, found.bin) == (program, program.parent)


@pytest.mark.parametrize("active", [True, False])
def test_what_is_no_environment(tmp_path: Path, active: bool) -> None:
    (tmp_path / "text").write_text("")
    for name, said in (("gone", "no such"), ("", "no bin/python"), ("text", "cannot be executed")):
        path = tmp_path / name
        with pytest.raises(UsageError, match=said) as refused:
            find_environment(None if active else path, {"VIRTUAL_ENV": str(path)} if active else {})
        assert "VIRTUAL_ENV" in refused.value.what or not active
        assert "python3 -m venv" in str(refused.value.next_step)


@pytest.mark.parametrize(
    ("place", "advice"),
    [
        ({"index_url": "https://host/simple/"}, "add --install-rocm to install them there"),
        ({"find_links": ("wheels",)}, "add --install-rocm to install them there"),
        ({"directory": "env"}, "install them (`rocwright install-rocm --rocm-environment {root} ...`)"),
        ({}, "give --index-name, --index-url or --find-links, --rocm-environment, or --rocm-prefix"),
    ],
)
def test_an_environment_without_rocm_says_how_it_gets_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: dict[str, Any], advice: str
) -> None:
    root = venv_at(tmp_path / "env")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="has no ROCm packages") as refused:
        present_rocm(RocmPlace("environment", **place), {"VIRTUAL_ENV": str(root)})
    assert str(refused.value.next_step).startswith(advice.format(root=root))
