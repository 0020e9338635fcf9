"""Pin files: what is accepted, and that every bad line is named (G-13, pitfall 6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocwright.errors import InvalidPin
from rocwright.sources.pins import (
    parse_related_commits,
    read_commit_file,
    read_related_commits,
    read_release_branch,
    related_commit,
)

A, B = "a" * 40, "b" * 40
AUDIO = f"ubuntu|pytorch|torchaudio|release/2.9|{A}|https://github.com/pytorch/audio"
VISION = f"ubuntu|pytorch|torchvision|release/0.24|{B}|https://github.com/pytorch/vision"


def test_records_are_read_and_looked_up_for_ubuntu() -> None:
    centos = AUDIO.replace("ubuntu", "centos").replace(A, B)
    records = parse_related_commits(f"\n# comment\n{centos}\n{AUDIO}\r\n  {VISION}  \n\n", where="pins")
    found = related_commit(records, "torchaudio")
    assert found is not None
    assert (found.commit, found.branch, found.origin, found.line) == (
        A,
        "release/2.9",
        "https://github.com/pytorch/audio",
        4,
    )
    assert related_commit(records, "apex") is None


def test_spaces_around_fields_do_not_hide_a_pin() -> None:
    records = parse_related_commits(AUDIO.replace("|", " | "), where="pins")
    assert related_commit(records, "torchaudio") is not None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (AUDIO + "|extra", "7 fields instead of 6"),
        ("ubuntu|pytorch", "2 fields instead of 6"),
        (AUDIO.replace(A, "abc123"), "'abc123' is no complete commit id"),
        (AUDIO.replace(A, ""), "the field commit is empty"),
        (AUDIO.replace("https://", "--upload-pack=touch${IFS}x;https://"), "the field origin is"),
    ],
)
def test_a_malformed_line_is_named(line: str, said: str) -> None:
    with pytest.raises(InvalidPin) as caught:
        parse_related_commits(f"{VISION}\n{line}\n", where="some/related_commits")
    assert f"some/related_commits:2: {said}" in str(caught.value)


def test_all_malformed_lines_are_named_at_once_also_the_first() -> None:
    with pytest.raises(InvalidPin) as caught:
        parse_related_commits(f"oops\n{VISION}\nbad|line\n", where="pins")
    assert "pins:1: 1 fields" in str(caught.value)
    assert "pins:3: 2 fields" in str(caught.value)


def test_contradictory_duplicates_are_refused_and_equal_ones_are_not() -> None:
    assert len(parse_related_commits(f"{AUDIO}\n{AUDIO}\n", where="pins")) == 2
    with pytest.raises(InvalidPin, match="pins:2: pins torchaudio on ubuntu differently from line 1"):
        parse_related_commits(f"{AUDIO}\n{AUDIO.replace(A, B)}\n", where="pins")


def test_files(tmp_path: Path) -> None:
    assert read_related_commits(tmp_path / "absent") == ()
    assert read_commit_file(tmp_path / "absent") is None
    pin, version = tmp_path / "triton.txt", tmp_path / "triton_version.txt"
    pin.write_text(A + "\n")
    version.write_text("3.5.1\n")
    assert read_commit_file(pin) == A
    assert read_release_branch(version, "release/{major}.{minor}.x") == "release/3.5.x"
    pin.write_text("main\n")
    with pytest.raises(InvalidPin, match=r"triton\.txt:1: 'main' is no complete commit id"):
        read_commit_file(pin)
    version.write_text("three\n")
    with pytest.raises(InvalidPin, match="'three' is no version"):
        read_release_branch(version, "release/{major}.{minor}.x")
    with pytest.raises(InvalidPin, match="release branch is unknown"):
        read_release_branch(tmp_path / "absent", "release/{major}.{minor}.x")
