"""Older spellings: each is told in a line, whichever way the option is written, and works."""

from __future__ import annotations

import pytest

from rocwright.cli import main
from rocwright.cli.parse import tell_older


@pytest.mark.parametrize("form", [["--target=gfx1100"], ["--target", "gfx1100"]])
def test_an_older_spelling_is_told_once(form: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    tell_older(["store", "fetch", *form, *form])
    assert capsys.readouterr().err == "warning: --target is an older spelling; give --artifact-group\n"


@pytest.mark.parametrize(
    "words",
    [
        ["store", "fetch", "--artifact-group", "gfx1100"],
        # Of another command, and behind the words that are passed on.
        ["set", "lock", "x", "--target", "gfx1100"],
        ["test", "setup-venv", "v", "--", "--find-links-url"],
        [],
    ],
)
def test_nothing_else_is_told(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    tell_older(words)
    assert capsys.readouterr().err == ""


def test_the_command_line_tells_it_and_goes_on(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["store", "fetch", "--run-id=1", "--target=gfx942", "--store", str(tmp_path)])
    assert ended.value.code == 3
    first, *rest = capsys.readouterr().err.splitlines()
    assert first == "warning: --target is an older spelling; give --artifact-group"
    assert rest[0].startswith("error (InvalidInput): the store has no artifacts of run 1")
