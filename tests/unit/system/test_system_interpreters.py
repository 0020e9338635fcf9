"""Finding Pythons by version."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rocwright.errors import MissingTool, UsageError
from rocwright.system.interpreters import find_interpreter

# No released Python: nothing on this machine answers to it, whatever is installed.
ANSWER = (
    '#!/bin/sh\necho \'{{"path": "{path}", "version": "3.99", "full": "3.99.{patch}", "include": "{include}",'
    ' "has_headers": {headers}, "free_threaded": {free}, "implementation": "{kind}"}}\'\n'
)


def fake(
    path: Path, *, patch: int = 1, headers: bool = True, free: bool = False, kind: str = "cpython"
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {"path": path, "patch": patch, "include": path.parent, "kind": kind}
    path.write_text(ANSWER.format(**values, headers=str(headers).lower(), free=str(free).lower()))
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """PATH, pyenv and uv below the test's own directory."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "uv"))
    return tmp_path


def test_the_running_one_knows_itself() -> None:
    found = find_interpreter()
    assert found.version == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert found.tag.startswith(f"cp{sys.version_info[0]}{sys.version_info[1]}")
    assert found.has_headers == (Path(found.include) / "Python.h").exists()
    assert find_interpreter(found.name) == found


@pytest.mark.parametrize(
    ("place", "free", "name", "tag"),
    [
        ("bin/python3.99", False, "3.99", "cp399"),
        ("bin/python3.99t", True, "3.99t", "cp399t"),
        ("pyenv/versions/3.99.1/bin/python", False, "3.99", "cp399"),
        ("pyenv/versions/3.99.1t/bin/python", True, "3.99t", "cp399t"),
        ("uv/cpython-3.99.1-linux-x86_64-gnu/bin/python3.99", False, "3.99", "cp399"),
        ("uv/cpython-3.99.1+freethreaded-linux-x86_64-gnu/bin/python3.99t", True, "3.99t", "cp399t"),
    ],
)
def test_it_is_found_wherever_pythons_lie(places: Path, place: str, free: bool, name: str, tag: str) -> None:
    path = fake(places / place, free=free)
    found = find_interpreter(name)
    assert (found.path, found.name, found.tag) == (str(path), name, tag)
    other = "3.99" if free else "3.99t"
    with pytest.raises(MissingTool, match=f"Python {other} was not found"):
        find_interpreter(other)


def test_one_with_headers_goes_before_one_without(places: Path) -> None:
    fake(places / "bin/python3.99", headers=False)
    assert find_interpreter("3.99").has_headers is False
    path = fake(places / "pyenv/versions/3.99.1/bin/python")
    assert find_interpreter("3.99").path == str(path)


def test_the_latest_of_several_is_taken(places: Path) -> None:
    for patch in (9, 10):
        fake(places / f"pyenv/versions/3.99.{patch}/bin/python", patch=patch)
    assert find_interpreter("3.99").full == "3.99.10"


def test_a_shim_for_a_version_that_is_not_installed_is_passed_over(places: Path) -> None:
    shim = places / "bin" / "python3.99"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\necho 'pyenv: python3.99: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    path = fake(places / "uv/cpython-3.99.1-linux-x86_64-gnu/bin/python3.99")
    assert find_interpreter("3.99").path == str(path)


def test_a_path_is_taken_as_it_is(places: Path) -> None:
    path = fake(places / "my python" / "python")
    assert find_interpreter(str(path)).path == str(path)
    with pytest.raises(MissingTool, match="does not answer as a Python interpreter"):
        find_interpreter("/bin/false")
    with pytest.raises(MissingTool):
        find_interpreter(str(places / "nowhere" / "python"))


def test_another_implementation_is_refused_by_name(places: Path) -> None:
    path = fake(places / "pypy" / "python", kind="pypy")
    with pytest.raises(MissingTool, match="is pypy; wheels are built for CPython"):
        find_interpreter(str(path))


@pytest.mark.parametrize("text", ["three", "3", "3.12.1", "cp312", "3.12.x", "3.13T", ">=3.12"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a version of Python"):
        find_interpreter(text)
