"""What all commands refuse alike: numbers and targets that mean nothing, and words that no command knows."""

import pytest

from rocwright.cli import main
from rocwright.errors import InvalidWheel, UsageError
from rocwright.system import console


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Return how a command line ends and what it says on stderr; it prints and writes nothing else."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main(words)
        captured = capsys.readouterr()
        assert (captured.out, list(tmp_path.iterdir())) == ("", [])
        return ended.value.code, captured.err

    return run


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("check dist --jobs 0", "--jobs 0 is not 1 or more"),
        ("checkout torch --jobs -3", "--jobs -3 is not 1 or more"),
        ("checkout torch --depth 0", "--depth 0 is not 1 or more"),
        ("hipify pytorch --jobs 0", "--jobs 0 is not 1 or more"),
        ("wheel split a.whl --jobs 0", "--jobs 0 is not 1 or more"),
        ("wheel split a.whl --level 23", "--level 23 is not between 1 and 22"),
        ("kpack split a.so --level 0", "--level 0 is not between 1 and 22"),
        ("sdk unpack debs rocm --jobs 0", "--jobs 0 is not 1 or more"),
        ("store fetch --run-id 1 --jobs 0", "--jobs 0 is not 1 or more"),
        ("store verify v2/ --threads 0", "--threads 0 is not 1 or more"),
        ("store serve --port -1", "--port -1 is not between 0 and 65535"),
        ("pipeline plan --device-groups 0", "--device-groups 0 is not 1 or more"),
        ("test units --workers 0", "--workers 0 is not 1 or more"),
        ("test units --memory-gb 0", "--memory-gb 0 is not more than 0"),
        ("compat probe --timeout nan", "--timeout nan is not more than 0"),
        ("compat probe --timeout soon", "--timeout 'soon' is not a number"),
        ("check dist --jobs two", "--jobs 'two' is not a whole number"),
    ],
)
def test_a_number_out_of_its_range(refused, line, said):
    code, message = refused(*line.split())
    command = "rocwright " + line.partition(" --")[0].split()[0]
    assert code == 2
    assert message.startswith(f"error (UsageError): {said}\n  next: give another --")
    assert f"`{command}" in message


def test_a_number_out_of_the_environment_is_refused_by_its_variable(refused, monkeypatch):
    monkeypatch.setenv("SHARD_NUMBER", "first")
    assert "SHARD_NUMBER: 'first' is not a whole number" in refused("test", "full")[1]


@pytest.mark.parametrize(
    "line",
    [
        "check .",
        "kpack split .",
        "kpack extract .",
        "wheel sanity-check .",
        "wheel merge-parts",
    ],
)
def test_a_target_that_no_table_has(refused, line):
    code, message = refused(*line.split(), "--targets", "gfx942,gfx1109")
    assert code == 3
    assert message.startswith("error (InvalidTarget): gfx1109 is not a known GPU target\n")
    assert "next: perhaps gfx1100 or gfx1101 or gfx1102 or gfx1103;" in message


def test_a_target_of_ones_own_is_known(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rocwright.toml").write_text('[families.families]\nmine = ["gfx1109"]\n', encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["check", "nowhere", "--targets", "gfx1109"])
    assert "nowhere does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "chek dist",
            "`rocwright` has no command 'chek'\n"
            "  next: did you mean check? `rocwright --help` lists them all\n",
        ),
        (
            "test skips lnit",
            "`rocwright test skips` has no command 'lnit'\n"
            "  next: did you mean lint? `rocwright test skips --help` lists them all\n",
        ),
        (
            "check --tagets=gfx942",
            "`rocwright check` has no option --tagets\n"
            "  next: did you mean --targets? `rocwright check --help` lists them all\n",
        ),
        (
            "check --targets",
            "--targets needs a value\n"
            "  next: give --targets with a value; `rocwright check --help` says more\n",
        ),
        (
            "check --targets gfx942 --targets gfx90a",
            "--targets is given several times\n  next: give --targets once\n",
        ),
        (
            "completion",
            "`rocwright completion` needs SHELL\n"
            "  next: choose bash, fish, powershell or zsh; `rocwright completion --help` says more\n",
        ),
        (
            "completion bash zsh",
            "`rocwright completion` does not take 'zsh'\n"
            "  next: leave it out, or see `rocwright completion --help`\n",
        ),
        (
            "doctor --deep=perhaps",
            "--deep 'perhaps' is neither true nor false\n"
            "  next: give --deep without a value; `rocwright doctor --help` says more\n",
        ),
        (
            "set show",
            "`rocwright set show` needs WHICH\n"
            "  next: give WHICH, as in `rocwright set show release:gfx94X-dcgpu`; "
            "`rocwright set show --help` says more\n",
        ),
        (
            "promote x",
            "`rocwright` has no command 'promote'\n"
            "  next: did you mean `rocwright set promote`? `rocwright --help` lists them all\n",
        ),
        (
            "set verify-all x",
            "`rocwright set` has no command 'verify-all'\n"
            "  next: did you mean verify? `rocwright set --help` lists them all\n",
        ),
        (
            "detect --channel",
            "`rocwright detect` has no option --channel\n  next: `rocwright detect --help` lists them all\n",
        ),
    ],
)
def test_words_that_no_command_knows(refused, line, message):
    assert refused(*line.split()) == (2, f"error (UsageError): {message}")


def test_an_error_without_a_next_step_gets_that_of_its_kind(capsys):
    console.error(InvalidWheel("a.whl is cut"))
    console.error(UsageError("no", next_step="say yes"))
    assert capsys.readouterr().err == (
        "error (InvalidWheel): a.whl is cut\n  next: build or fetch the wheel again\n"
        "error (UsageError): no\n  next: say yes\n"
    )
