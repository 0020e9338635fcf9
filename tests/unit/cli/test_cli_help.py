"""What helps at the prompt: examples in the help of every command, completion in real shells."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from cyclopts import App

from command_line import PROGRAM
from rocwright.cli import main
from rocwright.cli.help import examples
from rocwright.cli.parse import app


def _commands(group: App, words: tuple[str, ...] = ()) -> list[str]:
    found = []
    for name in group:
        if not name.startswith("-"):
            command = group[name]
            below = (*words, name)
            found += [" ".join(below)] if command.default_command else _commands(command, below)
    return found


def _says(*words: str) -> str:
    done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return done.stdout


def _ends(*words: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


def test_every_command_has_an_example_and_no_example_is_of_another() -> None:
    assert sorted(examples()) == sorted(_commands(app))


@pytest.mark.parametrize("command", sorted(examples()))
def test_examples_call_their_command_and_parse(command: str) -> None:
    for line in examples()[command]:
        words = shlex.split(line)
        called = command.split()
        assert words[: 1 + len(called)] == ["rocwright", *called]
        arguments = words[1 : words.index(">")] if ">" in words else words[1:]
        app.parse_args(arguments, exit_on_error=False, print_error=False)


def test_the_help_of_a_command_ends_with_its_examples() -> None:
    shown = _says("set", "promote", "--help")
    assert "$ rocwright set promote newest --family gfx94X-dcgpu" in shown.partition("Examples:")[2]


@pytest.mark.parametrize(
    "words",
    [
        "check --help",
        "check -h",
        "--help check",
        "help check",
        "check help",
        "check dist --jobs 3 --help",
        "-q help check",
    ],
)
def test_every_way_to_ask_for_the_help_of_a_command(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _ends(*words.split()) == 0
    assert capsys.readouterr().out.startswith("Usage: rocwright check PATHS... [OPTIONS]\n")


@pytest.mark.parametrize("words", ["", "help", "--help", "-h"])
def test_every_way_to_ask_for_the_list_of_commands(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _ends(*words.split()) == 0
    assert capsys.readouterr().out.startswith("Usage: rocwright COMMAND\n")


def test_a_file_that_is_called_help_can_be_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "help").touch()
    assert _ends("check", "help") not in (0, None)
    assert "Usage:" not in capsys.readouterr().out


def test_what_stands_behind_two_dashes_asks_for_no_help(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command of the user's own may be asked for its help in a search."""
    words = ("set", "bisect", "release:a", "--good", "0123", "--store", str(tmp_path / "none"))
    assert _ends(*words, "--", "tool", "--help") not in (0, None)
    assert capsys.readouterr().out == ""
    assert _ends(*words, "--help") == 0
    assert "Examples:" in capsys.readouterr().out


def test_help_fits_the_terminal_and_cuts_no_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert _ends("build", "--help") == 0
    text, _, examples = capsys.readouterr().out.partition("Examples:")
    assert examples
    wide = [line for line in text.splitlines() if len(line) > 60]
    assert [line for line in wide if not line.startswith("  --")] == []
    assert "\n  --enable-pytorch-flash-attention, --no-enable-pytorch-flash-attention\n" in text


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bash") / "rocwright"
    path.write_text(_says("completion", "bash"))
    return path


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("rocwright set pro", {"promote", "project"}),
        ("rocwright kpack ", {"split", "merge", "verify", "list", "show", "extract"}),
        ("rocwright check --ins", {"--install"}),
        ("rocwright pipeline render --to s", {"slurm"}),
    ],
)
def test_bash_completes_commands_options_and_choices(script: Path, typed: str, offered: set[str]) -> None:
    words = typed.split(" ")
    line = " ".join(map(shlex.quote, words))
    ask = (
        f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; COMP_LINE={shlex.quote(typed)};"
        f' COMP_POINT={len(typed)}; _rocwright rocwright; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert offered <= set(done.stdout.split())
    if not typed.endswith(" "):
        assert set(done.stdout.split()) == offered
