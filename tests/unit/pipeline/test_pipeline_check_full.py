"""A full disk is no fault of a set: whoever has it proved is told where else, and how to do without."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import Run
from rocwright.check.contract import ContractTable
from rocwright.check.run import CheckRequest
from rocwright.errors import CommandFailed, MissingTool, NoSpace
from rocwright.pipeline.check_set import check_set
from rocwright.system import process
from rocwright.system.venv import is_out_of_space
from wheels import ANY, write_sdist, write_wheel

CONTRACT = ContractTable((), own=())
BACKEND = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
# Fails as whatever writes to a full disk.
FULL = """\
import errno, os

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "dist"
    write_wheel(path, "thing", "1", {"thing.py": ""}, tag=ANY, python=">=3.8")
    return path


@pytest.fixture
def small() -> Iterator[Path]:
    """A disk of 1 MB, which only root can make."""
    path = Path(tempfile.mkdtemp())
    try:
        process.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", path])
    except (CommandFailed, MissingTool):
        path.rmdir()
        pytest.skip("needs the right to mount a file system")
    yield path
    process.run(["umount", "-l", path])
    path.rmdir()


def advice(full: NoSpace) -> str:
    assert full.exit_code == 8
    return str(full.next_step)


def prove(folder: Path, work: Path | None = None) -> None:
    check_set(CheckRequest((folder,), closed=True, contract=CONTRACT), install=True, work_dir=work)


def test_the_command_says_what_to_do_where_there_is_too_little_room(
    folder: Path, tmp_path: Path, rocwright: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: type("Usage", (), {"free": 100}))
    done = rocwright("set", "create", folder, "--store", tmp_path / "store")
    assert done.code == 8, done.err
    assert "trying the installation with pip and uv needs" in done.err
    assert "TMPDIR" in done.err and "--no-install" in done.err
    assert not (tmp_path / "store" / "sets").exists()


def test_a_directory_that_was_named_is_not_advised_against(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: type("Usage", (), {"free": 100}))
    with pytest.raises(NoSpace) as caught:
        prove(folder, tmp_path / "work")
    assert "TMPDIR" not in advice(caught.value)


def test_no_room_for_the_directory_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/new")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(NoSpace, match="no space left") as caught:
        prove(folder)
    assert "--no-install" in advice(caught.value)


@pytest.mark.slow
def test_an_installer_that_finds_the_disk_full_finds_no_fault(folder: Path) -> None:
    write_sdist(folder, "fat", "1", {"pyproject.toml": BACKEND, "backend.py": FULL})
    with pytest.raises(NoSpace) as caught:
        prove(folder)
    assert "TMPDIR" in advice(caught.value) and "--no-install" in advice(caught.value)


def test_a_disk_that_fills_up(folder: Path, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there seemed to be enough before."""
    write_wheel(folder, "large", "1", {"large.bin": bytes(range(256)) * 8000}, tag=ANY)
    monkeypatch.setattr(tempfile, "tempdir", str(small))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1 << 40}))
    with pytest.raises(NoSpace) as caught:
        prove(folder)
    assert "TMPDIR" in advice(caught.value)
    assert list(small.iterdir()) == []


@pytest.mark.parametrize(
    ("tail", "full"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", True),
        ("error: failed to write to file `/x`: No space left on device (os error 28)", True),
        ("OSError: [Errno 122] Disk quota exceeded: '/x'", True),
        ("There is not enough space on the disk. (os error 112)", True),
        ("error: Permission denied (os error 13)", False),
        ("", False),
    ],
)
def test_how_programs_say_it(tail: str, full: bool) -> None:
    assert is_out_of_space(tail) is full
