"""The terminal: data on stdout, talk on stderr, whole without colour or width."""

from __future__ import annotations

import json
import subprocess
import sys

import msgspec
import pytest

from rocwright.errors import InvalidPrefix
from rocwright.system import console
from unit.system.terminal import QUIET, on_terminal, piped


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (148_807_836, "148.8 MB"),
        (1_300_000_000, "1.3 GB"),
        (12_345_000_000_000, "12345.0 GB"),
    ],
)
def test_bytes_for_people(count: int, text: str) -> None:
    assert console.human_bytes(count) == text


@pytest.mark.parametrize(("count", "text"), [(999_960, "1.0 MB"), (999_999_999, "1.0 GB")])
def test_bytes_that_round_up_to_the_next_unit(count: int, text: str) -> None:
    assert console.human_bytes(count) == text


def test_data_goes_to_stdout_and_talk_to_stderr() -> None:
    done = piped("console.out('data [bold]x[/bold]'); console.say('talk [red]y[/red]')")
    assert (done.stdout, done.stderr) == ("data [bold]x[/bold]\n", "talk [red]y[/red]\n")


@pytest.mark.parametrize("env", [{}, {"COLUMNS": "20"}, {"CI": "1"}], ids=["plain", "narrow", "ci"])
def test_a_line_of_talk_is_never_cut(env: dict[str, str]) -> None:
    assert piped("console.say('word ' * 60 + 'end')", env).stderr == "word " * 60 + "end\n"


@pytest.mark.parametrize("length", [150, 400])
def test_a_path_in_a_table_can_be_copied(length: int) -> None:
    path = "/" + "x" * length
    code = f"console.table('T', ('what', 'path', 'n'), [('a', {path!r}, '1')], right=(2,))"
    to_a_pipe = piped(code, {"COLUMNS": "40"}).stdout
    assert "\x1b" not in to_a_pipe
    assert [line.split() for line in to_a_pipe.splitlines()] == [
        ["T"],
        ["what", "path", "n"],
        ["a", path, "1"],
    ]
    shown = on_terminal({"COLUMNS": "40", "TERM": "dumb"}, f"from rocwright.system import console; {code}")
    # What follows it stands below, so that only this line is longer than others.
    assert [line.split() for line in shown.splitlines()] == [["T"], ["what", "path", "n"], ["a", path], ["1"]]
    head, _, rest = shown.splitlines()[1:]
    assert head.rindex("n") == rest.index("1")


def test_a_table_takes_text_as_it_is() -> None:
    done = piped("console.table('T', ('a',), [('[red]rocm[libraries]==7.1[/red]',)])")
    assert "[red]rocm[libraries]==7.1[/red]" in done.stdout


def test_json_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    class Value(msgspec.Struct):
        name: str
        sizes: tuple[int, ...]

    console.out_json(Value("ü[bold]", (1, 2)))
    text = capsys.readouterr().out
    assert json.loads(text) == {"name": "ü[bold]", "sizes": [1, 2]}
    assert len(text.splitlines()) > 1


def test_an_error_is_shown_whole_and_unstyled(capsys: pytest.CaptureFixture[str]) -> None:
    console.error(InvalidPrefix("no [ROCm] here", where="/opt/rocm", next_step="give another"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "error (InvalidPrefix): no [ROCm] here\n  in: /opt/rocm\n  next: give another\n"


def test_what_an_output_cannot_show_is_spelled_out() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from rocwright.system import console; console.out('a\\u2026\\udcffb')"],
        env={**QUIET, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "a\\u2026\\udcffb\n", "")


@pytest.mark.parametrize("call", ["say({0!a})", "error(InvalidPrefix({0!a}))"])
def test_a_terminal_obeys_no_name_of_a_file(call: str) -> None:
    code = call.format("a\x1b[31m\x07\u202eb\n  c")
    done = piped(f"from rocwright.errors import InvalidPrefix\nconsole.{code}")
    assert "a\\x1b[31m\\x07\\u202eb\n  c" in done.stderr


ERROR = (
    "from rocwright.system import console; from rocwright.errors import UsageError; "
    "console.error(UsageError('no'))"
)


def test_colour_on_a_terminal_unless_the_user_wants_none() -> None:
    assert "\x1b[1;31m" in on_terminal({}, ERROR)
    plain = on_terminal({"NO_COLOR": "1"}, ERROR)
    assert "[31m" not in plain
    assert ";31m" not in plain
    assert "error (UsageError): no" in plain.replace("\x1b[1m", "").replace("\x1b[0m", "")


ROWS = (
    "('channels', '24', 'no', 'where sets are listed, what it takes to get there, and for how long they "
    "stay'),"
    "('licences', '1,413', 'yes', 'under which licences the parts of ROCm, and what it bundles, come')"
)
NARROW = """\
table     facts  added  about
channels     24  no     where sets are listed,
                        what it takes to get
                        there, and for how
                        long they stay
licences  1,413  yes    under which licences
                        the parts of ROCm, and
                        what it bundles, come
"""


def test_a_table_goes_on_in_further_lines_of_the_same_column() -> None:
    code = f"console.table('', ('table', 'facts', 'added', 'about'), [{ROWS}], right=(1,))"
    on_46 = on_terminal({"COLUMNS": "46", "TERM": "dumb"}, f"from rocwright.system import console; {code}")
    assert on_46.replace("\r\n", "\n") == NARROW
    # Who searches a log, or takes columns out of it, gets a line a row.
    assert len(piped(code, {"COLUMNS": "46"}).stdout.splitlines()) == 3


def test_only_the_head_of_a_table_is_bold_and_only_on_a_terminal() -> None:
    code = "from rocwright.system import console; console.table('T', ('a', 'b'), [('x', 'y')])"
    assert on_terminal({}, code) == "\x1b[1mT\x1b[0m\r\n\x1b[1ma  b\x1b[0m\r\nx  y\r\n"


def test_prose_is_wrapped_below_its_beginning_and_words_stay_whole() -> None:
    code = "console.out('said   ' + 'word ' * 5 + '/' + 'x' * 40 + ' end', hang=7)"
    # Who searches a log looks for the whole of it.
    assert piped(code, {"COLUMNS": "30"}).stdout == "said   " + "word " * 5 + "/" + "x" * 40 + " end\n"
    lines = on_terminal({"COLUMNS": "30"}, f"from rocwright.system import console; {code}").splitlines()
    assert lines == ["said   word word word word", "       word", "       /" + "x" * 40, "       end"]
