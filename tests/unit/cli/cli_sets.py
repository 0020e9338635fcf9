"""A store in a folder and the commands on its sets, run as a user runs them; small wheels of two projects."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import Ended, Run
from wheels import write_wheel

SETS = ("mylib", "helper")
SOURCE = "mylib=0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def run(rocwright: Run) -> Run:
    """`rocwright set …`; a set is created without its installation, unless that is asked for."""

    def typed(command: str, *words: object) -> Ended:
        quick = command == "create" and "--install" not in words
        return rocwright("set", command, *words, *(["--no-install"] if quick else []))

    return typed


def wheels(folder: str, version: str, *, body: str = "") -> Path:
    """A closed set: helper, and mylib that requires exactly it."""
    here = Path(folder)
    local = f"{version}+r1"
    write_wheel(here, "helper", version, {"helper/__init__.py": body}, tag="py3-none-any")
    requires = [f"helper=={version}"]
    write_wheel(here, "mylib", local, {"mylib/__init__.py": ""}, tag="py3-none-any", requires=requires)
    return here


def created(run: Run, version: str = "1.0", *words: object, body: str = "") -> str:
    """The id of a set that was created."""
    folder = wheels(f"dist-{version}-{len(body)}", version, body=body)
    done = run("create", folder, "--family", "fam", "--target", "gfx942", "--source", SOURCE, *words)
    assert done.code == 0, done.err
    [digest] = done.lines
    return digest


def kept(folder: Path = Path("store")) -> dict[str, bytes]:
    """Every file of the store, but who held it when."""
    files = (path for path in folder.rglob("*") if path.is_file() and "_leases" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def all_tested(run: Run, digest: str) -> None:
    """All that a release asks for, passed."""
    for suite in ("rocm-sdk", "smoke-host"):
        assert run("state", digest, "--suite", suite, "--result", "passed").code == 0
    done = run("state", digest, "--suite", "smoke-gpu", "--target", "gfx942", "--result", "passed")
    assert done.code == 0, done.err
