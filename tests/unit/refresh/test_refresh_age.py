"""Commands that rest on tables say once, on stderr, that these are old; and what to type."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import Run
from trees import write

OLD = """\
[[sources.source]]
id = "lab"
url = "https://lab.example/gpus"
as_of = "2020-01-01"
read = 2020-01-01
of = ["families.families"]
days = 30
"""
SAYS = "facts that this rests on are old: families, read 2020-01-01 ("
COMMAND = "rocwright data refresh --dry-run"
LINES = [
    ("detect", "--target", "gfx942"),
    ("pipeline", "plan", "--profile", "nightly"),
    ("doctor", "--root", "empty"),
]


@pytest.mark.parametrize("words", LINES, ids=lambda words: words[0])
def test_it_is_said_once_and_on_stderr_only(rocwright: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "empty").mkdir()
    fresh = rocwright(*words)
    assert "are old" not in fresh.err
    write(tmp_path / "rocwright.toml", OLD)
    done = rocwright(*words)
    told = " ".join(done.err.split())
    assert told.count(SAYS) == 1 and COMMAND in told
    assert done.code == fresh.code
    assert "are old" not in done.out
    assert SAYS not in rocwright("-q", *words).err
    json.loads(rocwright(*words, "--json").out)


def test_a_source_that_was_read_again_says_nothing(rocwright: Run, tmp_path: Path) -> None:
    write(tmp_path / "rocwright.toml", OLD.replace("read = 2020-01-01", "read = 2026-11-01"))
    assert "are old" not in rocwright("detect", "--target", "gfx942").err


def test_a_broken_rocwright_toml_is_not_the_ages_matter(rocwright: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    code = rocwright("doctor", "--root", "empty").code
    write(tmp_path / "rocwright.toml", "[")
    assert rocwright("doctor", "--root", "empty").code == code
