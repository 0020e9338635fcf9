"""Pin files: what is accepted, and that every bad line is named (G-13, pitfall 6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocwright.errors import InvalidPin
from rocwright.sources.pins import (
    is_commit_id,
    parse_commit,
    parse_related_commits,
    parse_release_branch,
    related_commit,
)

A, B = "a" * 40, "b" * 40
AUDIO = f"ubuntu|pytorch|torchaudio|release/2.9|{A}|https://github.com/pytorch/audio"
VISION = f"ubuntu|pytorch|torchvision|release/0.24|{B}|https://github.com/pytorch/vision"

# The shape of the file in the ROCm fork: two systems, and projects that are not built here.
FORK = (
    "ubuntu|pytorch|apex|master|267d3973d0774ada55eaf1092a82c0d2a9bba78d|https://github.com/ROCm/apex\n"
    "centos|pytorch|apex|master|267d3973d0774ada55eaf1092a82c0d2a9bba78d|https://github.com/ROCm/apex\n"
    "ubuntu|pytorch|torchvision|main|e3b5d3a8bf5e8636462fd8bce9897bccc690b2a0|https://github.com/pytorch/vision\n"
    "centos|pytorch|torchvision|main|e3b5d3a8bf5e8636462fd8bce9897bccc690b2a0|https://github.com/pytorch/vision\n"
    "ubuntu|pytorch|torchdata|main|92950795e0790eb74df995daf40b658e85fd2c9f|https://github.com/pytorch/data\n"
    "ubuntu|pytorch|torchaudio|main|87ff22e49ed0e92576c4935ccb8c143daac4a3cd|https://github.com/pytorch/audio\n"
    "ubuntu|pytorch|ao|main|5e90c477f6d49a17540bd7431728bfb2457610ee|https://github.com/pytorch/ao\n"
)


def refused(text: str) -> str:
    with pytest.raises(InvalidPin) as caught:
        parse_related_commits(text, where="some/related_commits")
    assert caught.value.where == "some/related_commits"
    return caught.value.what


def test_the_file_of_the_fork() -> None:
    records = parse_related_commits(FORK, where="pins")
    assert [(r.os, r.project, r.line) for r in records] == [
        ("ubuntu", "apex", 1),
        ("centos", "apex", 2),
        ("ubuntu", "torchvision", 3),
        ("centos", "torchvision", 4),
        ("ubuntu", "torchdata", 5),
        ("ubuntu", "torchaudio", 6),
        ("ubuntu", "ao", 7),
    ]
    apex = related_commit(records, "apex")
    assert apex is not None
    assert (apex.branch, apex.commit, apex.origin) == (
        "master",
        "267d3973d0774ada55eaf1092a82c0d2a9bba78d",
        "https://github.com/ROCm/apex",
    )
    assert related_commit(records, "triton") is None


def test_records_are_looked_up_for_ubuntu() -> None:
    centos = AUDIO.replace("ubuntu", "centos").replace(A, B)
    records = parse_related_commits(
        f"\n# comment\n  # another\n{centos}\n{AUDIO}\r\n  {VISION}  \n\n", where="p"
    )
    found = related_commit(records, "torchaudio")
    assert found is not None and (found.commit, found.line) == (A, 5)
    assert related_commit(parse_related_commits(centos, where="p"), "torchaudio") is None


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_as_editors_count_them(end: str) -> None:
    # A form feed ends no line.
    assert refused(f"# one \x0c still one{end}{AUDIO}{end}oops{end}").startswith(
        "some/related_commits:3: 1 fields"
    )


def test_spaces_around_fields_do_not_hide_a_pin() -> None:
    records = parse_related_commits(AUDIO.replace("|", " |\t"), where="pins")
    assert related_commit(records, "torchaudio") is not None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (AUDIO + "|extra", "7 fields instead of 6"),
        (AUDIO + "|", "7 fields instead of 6"),
        ("ubuntu|pytorch", "2 fields instead of 6"),
        ("|||||", "the field os is empty"),
        (AUDIO.replace(A, "abc123"), "'abc123' is not a complete commit id"),
        (AUDIO.replace(A, "A" * 40), f"'{'A' * 40}' is not a complete commit id"),
        (AUDIO.replace(A, A + "a"), "is not a complete commit id"),
        (AUDIO.replace(A, ""), "the field commit is empty"),
        (AUDIO.replace(A, "x" * 300), f"'{'x' * 60}…' is not a complete commit id"),
        (AUDIO.replace("torchaudio", "torch audio"), "the field project is 'torch audio'"),
        (AUDIO.replace("torchaudio", "torch\x1b[2Jaudio"), r"the field project is 'torch\x1b[2Jaudio'"),
        (AUDIO.replace("ubuntu", "Ubuntu"), "the field os is 'Ubuntu'; systems are written in lower case"),
        (AUDIO.replace("release/2.9", "--force"), "the field branch is '--force'"),
        (AUDIO.replace("release/2.9", "a..b"), "the field branch 'a..b' is not a valid name"),
        (
            AUDIO.replace("https://", "--upload-pack=touch${IFS}x;https://"),
            "the field origin starts with a dash",
        ),
        (AUDIO.replace("https://", "ext::https://"), "the field origin names a git remote helper"),
        (AUDIO.replace("https://github.com/", "../"), "the field origin is a relative path"),
        (AUDIO.replace("audio", "au dio"), "the field project is"),
        (AUDIO.replace("pytorch/audio", "pytorch/au dio"), "the field origin holds spaces"),
        (AUDIO.replace("https://", "https://ann:hunter2@"), "the field origin contains a login"),
    ],
)
def test_a_malformed_line_is_named(line: str, said: str) -> None:
    what = refused(f"{VISION}\n{line}\n")
    assert what.startswith("some/related_commits:2: ") and said in what
    assert "hunter2" not in what


def test_all_malformed_lines_are_named_at_once_also_the_first() -> None:
    what = refused(f"oops\n{VISION}\nbad|line\n{VISION.replace(B, A)}\n")
    assert what.splitlines() == [
        "some/related_commits:1: 1 fields instead of 6",
        "some/related_commits:3: 2 fields instead of 6",
        "some/related_commits:4: pins torchvision on ubuntu differently from line 2",
    ]


@pytest.mark.parametrize("system", ["ubuntu", "centos"])
@pytest.mark.parametrize(
    ("old", "new"),
    [(A, B), ("release/2.9", "main"), ("github.com/pytorch", "github.com/ROCm")],
)
def test_contradictory_duplicates_are_refused_for_every_system(system: str, old: str, new: str) -> None:
    line = AUDIO.replace("ubuntu", system)
    assert refused(f"{line}\n{VISION}\n{line.replace(old, new)}\n") == (
        f"some/related_commits:3: pins torchaudio on {system} differently from line 1"
    )


def test_equal_duplicates_and_other_systems_contradict_nothing() -> None:
    centos = AUDIO.replace("ubuntu", "centos").replace(A, B)
    assert len(parse_related_commits(f"{AUDIO}\n{AUDIO}\n{centos}\n", where="pins")) == 3


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing pinned\n"])
def test_a_file_without_records_pins_nothing(text: str) -> None:
    assert parse_related_commits(text, where="pins") == ()


@given(st.text(alphabet="ubuntu|release/9.2ab \t\r\n#-~\0\x0c\u2028", max_size=200))
def test_any_text_is_read_or_refused_with_a_line_that_exists(text: str) -> None:
    try:
        records = parse_related_commits(text, where="pins")
    except InvalidPin as error:
        last = text.count("\n") + text.count("\r") + 1
        for said in error.what.splitlines():
            assert said.startswith("pins:")
            assert 1 <= int(said.split(":")[1]) <= last
    else:
        assert all(is_commit_id(record.commit) for record in records)


_WORD = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)


@given(st.lists(st.tuples(_WORD, _WORD, st.sampled_from([A, B])), max_size=6))
def test_whatever_is_written_is_read_back_or_contradicts_itself(pins: list[tuple[str, str, str]]) -> None:
    text = "".join(f"ubuntu|pytorch|{name}|{branch}|{c}|https://h/{name}\n" for name, branch, c in pins)
    if len({name for name, _, _ in pins}) == len(set(pins)):
        read = parse_related_commits(text, where="pins")
        assert [(r.project, r.branch, r.commit) for r in read] == pins
    else:
        assert "differently from line" in refused(text)


@pytest.mark.parametrize("text", [A, A + "\n", A + "\r\n", f"  {A}\t\n\n", f"\n{A}\n"])
def test_a_commit_file(text: str) -> None:
    assert parse_commit(text, where="triton.txt") == (A, 2 if text.startswith("\n") else 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "triton.txt:1: a commit id is missing: the file is blank"),
        ("\n \n", "triton.txt:1: a commit id is missing: the file is blank"),
        ("main\n", "triton.txt:1: 'main' is not a complete commit id"),
        (A[:12], f"triton.txt:1: '{A[:12]}' is not a complete commit id"),
        (f"{A} {B}", "is not a complete commit id"),
        (f"\n{A}\n\n{B}\n", "triton.txt:4: a second line, where only a commit id is allowed"),
        (f"# pin\n{A}\n", "triton.txt:2: a second line"),
    ],
)
def test_a_commit_file_that_holds_something_else(text: str, said: str) -> None:
    with pytest.raises(InvalidPin) as caught:
        parse_commit(text, where="triton.txt")
    assert said in caught.value.what


@pytest.mark.parametrize(
    ("version", "branch"),
    [
        ("3.5.1\n", "release/3.5.x"),
        ("3.5", "release/3.5.x"),
        ("3.10.0+git1234\r\n", "release/3.10.x"),
        ("3.6.0a0", "release/3.6.x"),
        ("3.6.0rc1", "release/3.6.x"),
        ("3.6.0.post1", "release/3.6.x"),
    ],
)
def test_the_release_branch_of_a_version(version: str, branch: str) -> None:
    assert parse_release_branch(version, "release/{major}.{minor}.x", where="v") == (branch, 1)


@pytest.mark.parametrize(
    "text", ["three", "3", "v3.5.1", "3.5.1 3.6.0", "3.5;rm", "3.5.", "٣.٥", "3.5.1/../x"]
)
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(InvalidPin, match=r"v:1: .* is not a version"):
        parse_release_branch(text, "release/{major}.{minor}.x", where="v")


def test_a_blank_version_file() -> None:
    with pytest.raises(InvalidPin, match="v:1: a version is missing"):
        parse_release_branch("\n", "x", where="v")
