"""How much is said: -q leaves results and errors, -v adds what is behind them; every command takes both."""

import pytest

from rocwright.cli import main
from rocwright.errors import CommandFailed
from rocwright.system import console, process
from rocwright.system.progress import Progress

OLDER = ["store", "fetch", "--run-id=1", "--target=gfx942", "--store", "."]
WARNED = "warning: --target is an older spelling; give --artifact-group\n"


@pytest.fixture
def said(capsys, tmp_path, monkeypatch):
    """Return what a command line says on stderr, and prints on stdout."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        with pytest.raises(SystemExit):
            main(words)
        found = capsys.readouterr()
        return found.err, found.out

    yield run
    console.talk(0)


@pytest.mark.parametrize("quiet", ["-q", "--quiet"])
@pytest.mark.parametrize("place", [0, 1, 2, len(OLDER)])
def test_quiet_leaves_the_error(said, quiet, place):
    error = said(*OLDER)[0].removeprefix(WARNED)
    assert error.startswith("error (InvalidInput): the store has no artifacts of run 1")
    assert said(*OLDER[:place], quiet, *OLDER[place:])[0] == error
    # Of one call, not of those after it.
    assert said(*OLDER)[0] == WARNED + error


def test_quiet_leaves_the_result(said):
    assert said("-q", "wheel", "cp-version", "--python-version", "3.12") == ("", "cp_version=cp312-cp312\n")


def test_quiet_shows_no_progress(capsys):
    console.talk(-1)
    try:
        with Progress(total=1).shown() as progress:
            progress.start("one")
            progress.end("one", "done")
    finally:
        console.talk(0)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("level", "shown"), [(-1, ""), (0, ""), (1, "$ true 'a b'\n")])
def test_verbose_says_which_commands_are_run(capsys, level, shown):
    console.talk(level)
    try:
        process.run(["true", "a b"])
    finally:
        console.talk(0)
    assert capsys.readouterr().err == shown


def test_verbose_says_what_lies_behind_an_error(said, tmp_path):
    (tmp_path / "rocwright.toml").write_text("families = ")
    error, _ = said("data", "list")
    assert error.startswith("error (InvalidData): ")
    longer, _ = said("data", "list", "-v")
    assert longer.startswith(error)
    assert longer.removeprefix(error).startswith("  because: TOMLDecodeError: ")


def test_both_contradict_each_other(said):
    expected = "error (UsageError): -q and --verbose contradict each other\n  next: give one of them\n"
    assert said("check", "-q", "dist", "--verbose")[0] == expected


@pytest.mark.parametrize("words", [["--", "tool", "-q"], ["tool", "-q"]])
def test_words_of_another_program_are_its_own(words, monkeypatch):
    from rocwright.cli import parse

    taken = []
    monkeypatch.setattr(parse, "parsed", lambda _, given: taken.append(given))
    main(["set", "-v", "bisect", "release:a", *words])
    console.talk(0)
    assert taken == [["set", "bisect", "release:a", *words]]


def test_of_what_a_command_printed_its_first_error_and_its_last_line_are_shown(capsys, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    printed = [
        "cc -c a.c",
        "a.c:1:2: error: broken",
        *(f"cc -c {name}.c" for name in "bcdefg"),
        "make: *** [all] Error 2",
    ]
    console.error(CommandFailed("make", 2, tail="\n".join(printed), log="make.log"))
    assert capsys.readouterr().err.splitlines() == [
        "error (CommandFailed): command ended with exit code 2: make",
        "  of its last lines; -v shows 7 more:",
        "    a.c:1:2: error: broken",
        "    make: *** [all] Error 2",
        "  log: make.log",
        "  next: fix what its last lines report, then run again",
    ]
