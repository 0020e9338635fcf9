"""What a door makes of errors that no part of the house expects."""

from __future__ import annotations

import pytest

from rocwright.cli import guarded


def test_a_path_without_the_right_to_it_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    def act() -> None:
        raise PermissionError(13, "Permission denied", "/root/secret/rocm")

    with pytest.raises(SystemExit) as ended:
        guarded(act)
    assert ended.value.code == 3
    said = capsys.readouterr().err
    assert "you have no right to use /root/secret/rocm" in said
    assert "next: " in said


def test_one_that_names_no_path_is_a_defect() -> None:
    def act() -> None:
        raise PermissionError("something else")

    with pytest.raises(PermissionError):
        guarded(act)
