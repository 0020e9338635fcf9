"""Which change starts what: every file of this repository has its rule; what none knows is everything."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocwright.data import load_table, parse_table
from rocwright.data.overlay import parse_overlay
from rocwright.errors import InvalidData
from rocwright.pipeline.setup.event import LEVELS, Triggers, started

ROOT = Path(__file__).resolve().parents[4]
TRIGGERS = load_table("triggers", Triggers)
RULES = {rule.name: rule for rule in TRIGGERS.rule}


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in done.stdout.split("\0") if path]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the files of the repository are git's to list")
def test_every_file_of_the_repository_has_a_rule_and_every_rule_a_file() -> None:
    rules = {path: TRIGGERS.rule_of(path) for path in tracked()}
    assert [path for path, rule in rules.items() if rule is None] == []
    used = {rule.name for rule in rules.values() if rule is not None}
    # What GitHub alone reads may be absent from a copy.
    assert {name for name in RULES if "workflows" not in name} <= used


@pytest.mark.parametrize(
    ("path", "level"),
    [
        ("README.md", "nothing"),
        ("docs/generate.py", "nothing"),
        ("examples/mini-pytorch/README.md", "nothing"),
        ("src/rocwright/sdk/README.md", "nothing"),
        ("LICENSE", "nothing"),
        ("runtime/LICENSE", "nothing"),
        ("external-builds/pytorch/dockerfiles/no_rocm_image_ubuntu24_04.Dockerfile", "nothing"),
        ("tests/unit/model/test_runners.py", "nothing"),
        (".github/workflows/ci.yml", "everything"),
        (".github/workflows/ci_windows.yml", "everything"),
        (".github/workflows/release_windows_pytorch_wheels.yml", "everything"),
        (".github/workflows/build_portable_linux_pytorch_wheels.yml", "everything"),
        (".github/workflows/ci_docs.yml", "nothing"),
        (".github/workflows/pre-commit.yml", "nothing"),
        (".github/CODEOWNERS", "nothing"),
        ("runtime/rocm/src/rocm_sdk/__init__.py", "rocm"),
        ("src/rocwright/sdk/plan/release.py", "rocm"),
        ("src/rocwright/data/packages.toml", "rocm"),
        ("build_tools/build_python_packages.py", "rocm"),
        ("src/rocwright/builder/order.py", "pytorch"),
        ("src/rocwright/sources/lock.py", "pytorch"),
        ("src/rocwright/data/projects.toml", "pytorch"),
        ("external-builds/pytorch/build_prod_wheels.py", "pytorch"),
        ("external-builds/pytorch/pytorch_torch_repo.py", "pytorch"),
        ("examples/mini-pytorch/pytorch/setup.py", "pytorch"),
        ("src/rocwright/gputest/skips/entries.py", "tests"),
        ("external-builds/pytorch/smoke-tests/test_gpu_math.py", "tests"),
        ("external-builds/pytorch/run_pytorch_tests.py", "tests"),
        ("build_tools/setup_venv.py", "tests"),
        ("src/rocwright/data/skips.toml", "tests"),
        ("src/rocwright/system/process.py", "everything"),
        ("src/rocwright/data/families.toml", "everything"),
        ("src/rocwright/data/profiles.toml", "everything"),
        ("src/rocwright/errors.py", "everything"),
        ("src/rocwright/pipeline/define/kinds.py", "everything"),
        ("pyproject.toml", "everything"),
        # Nobody knows it.
        ("new-room/file.py", "everything"),
        ("src/rocwright/new-room/file.py", "everything"),
        ("docs.py", "everything"),
        ("weird\nname.md", "nothing"),
    ],
)
def test_what_a_file_starts(path: str, level: str) -> None:
    assert started([path], TRIGGERS).level == level


def test_the_most_of_all_files_counts_and_is_named() -> None:
    found = started(["docs/a.md", "src/rocwright/builder/a.py", "src/rocwright/gputest/b.py"], TRIGGERS)
    assert (found.level, found.because) == ("pytorch", ("src/rocwright/builder/a.py (PyTorch's wheels)",))


def test_unknown_changes_are_everything_and_none_is_nothing() -> None:
    assert started(None, TRIGGERS).level == "everything"
    assert started([], TRIGGERS).level == "nothing"


@given(st.lists(st.sampled_from([*RULES, "none"]), max_size=4), st.lists(st.integers(0, 40), max_size=4))
def test_more_files_never_start_less(names: list[str], numbers: list[int]) -> None:
    files = ["docs/x.md", "src/rocwright/builder/x.py", "runtime/x.py", "src/rocwright/gputest/x.py", "odd"]
    some = [files[number % len(files)] for number in numbers]
    before = LEVELS.index(started(some, TRIGGERS).level)
    assert LEVELS.index(started([*some, "docs/y.md"], TRIGGERS).level) >= before
    assert LEVELS.index(started([*some, "odd"], TRIGGERS).level) == len(LEVELS) - 1
    assert started(list(reversed(some)), TRIGGERS) == started(some, TRIGGERS)


@pytest.mark.parametrize(
    ("branch", "main"),
    [("main", True), ("release/2.13", True), ("release/therock-7.10", True), ("mainly", False), ("", False)],
)
def test_branches_that_more_families_are_tried_on(branch: str, main: bool) -> None:
    assert TRIGGERS.is_main(branch) is main


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('branches = []\n[[rule]]\nname = "a"\nstarts = "all"\npaths = ["x"]\n', "$.rule[0].starts"),
        ('branches = []\n[[rule]]\nname = "a"\nstarts = "rocm"\npaths = []\n', "'a' has no paths"),
        ('branches = []\n[[rule]]\nname = "a"\nstarts = "rocm"\npath = ["x"]\n', "path"),
        ("branches = 3\nrule = []\n", "$.branches"),
        ("branches = [\nx = 3\n", "line 2"),
        (
            "branches = []\n" + '[[rule]]\nname = "a"\nstarts = "rocm"\npaths = ["x"]\n' * 2,
            "two rules are called 'a'",
        ),
    ],
)
def test_a_malformed_table_names_file_and_field(text: str, named: str) -> None:
    with pytest.raises(InvalidData) as raised:
        parse_table(text, Triggers, where="my/triggers.toml")
    assert named in str(raised.value) and "my/triggers.toml" in str(raised.value)


def test_an_own_rule_comes_after_the_built_in_ones() -> None:
    text = '[[triggers.rule]]\nname = "mine"\nstarts = "rocm"\npaths = ["vendor/**", "docs/**"]\n'
    table = load_table("triggers", Triggers, parse_overlay(text, where="rocwright.toml"))
    assert started(["vendor/x"], table).level == "rocm"
    assert started(["docs/x"], table).level == "nothing"
