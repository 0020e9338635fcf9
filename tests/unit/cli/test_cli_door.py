"""What a door makes of errors that no part of the house expects."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from rocwright.cli import guarded, main


def test_a_path_without_the_right_to_it_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    def act() -> None:
        raise PermissionError(13, "Permission denied", "/root/secret/rocm")

    with pytest.raises(SystemExit) as ended:
        guarded(act)
    assert ended.value.code == 3
    said = capsys.readouterr().err
    assert "no permission to use /root/secret/rocm" in said
    assert "next: " in said


@pytest.mark.parametrize(
    ("number", "path", "code", "told"),
    [
        (errno.ENOTDIR, "/a/file/b", 3, "/a/file/b cannot be used: Not a directory"),
        (errno.EROFS, "/a", 3, "/a cannot be used: Read-only file system"),
        (errno.ENAMETOOLONG, "/a", 3, "/a cannot be used: File name too long"),
        (errno.ENOSPC, "/a", 8, "no space left on /a"),
        # A write names no path.
        (errno.ENOSPC, None, 8, "no space left on the disk that was written to"),
    ],
)
def test_what_a_file_system_refuses_is_told(
    capsys: pytest.CaptureFixture[str], number: int, path: str | None, code: int, told: str
) -> None:
    def act() -> None:
        raise OSError(number, os.strerror(number), path)

    with pytest.raises(SystemExit) as ended:
        guarded(act)
    assert ended.value.code == code
    said = capsys.readouterr().err
    assert told in said
    assert "next: " in said


def test_a_link_that_leads_to_itself_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    for words in (
        ["pipeline", "show", "--store", str(loop)],
        ["set", "list", "--store", str(loop)],
        ["pipeline", "run", "--dry-run", "--work-dir", str(loop)],
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 3
        assert str(loop) in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        PermissionError("something else"),
        FileNotFoundError(errno.ENOENT, "No such file or directory", "/a/part/of/ours"),
        OSError(errno.EINVAL, "Invalid argument", "/a"),
        RuntimeError("something else"),
    ],
    ids=repr,
)
def test_what_is_a_defect_stays_one(error: Exception) -> None:
    def act() -> None:
        raise error

    with pytest.raises(type(error)):
        guarded(act)


@pytest.mark.parametrize("run_id", ["a/b", "../x", "objects", "a" * 300])
@pytest.mark.parametrize("words", ["plan", "run --dry-run", "show", "step rocm-artifacts/linux/debian12"])
def test_a_wrong_run_id_is_the_same_error_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, run_id: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", *words.split(), "--run-id", run_id, "--work-dir", str(tmp_path / "work")])
    assert ended.value.code == 3
    assert f"'{run_id}' is not a valid run id" in capsys.readouterr().err.replace("\n", "")
    assert list(tmp_path.iterdir()) == []
