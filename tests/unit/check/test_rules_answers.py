"""Rules about requirements that nobody can answer, alone or with others; packaging is the witness."""

from __future__ import annotations

import random
from typing import Any

import pytest
import set_facts
from packaging.specifiers import SpecifierSet
from wheel_facts import ids, only, wheel

from rocwright.check.facts import Facts
from rocwright.check.install_plan import version_for
from rocwright.check.rules import answers, requires

RULES = (*requires.RULES, *answers.RULES)
TORCH = "2.9.0+rocm7.1"
PINS = ("rocm[libraries]==7.1",)


def needing(*lines: str, project: str = "pure", version: str = "1.0", **options: Any) -> Facts:
    extras = options.pop("extras", ())
    return wheel(project, version, headers={"requires": lines, "extras": extras}, **options)


def torch(*lines: str) -> Facts:
    return needing(*PINS, *lines, project="torch", version=TORCH, tag="cp311-cp311-linux_x86_64")


@pytest.mark.parametrize(
    "address", ["https://example.org/x-1.0-py3-none-any.whl", "git+ssh://git@example.org/x"]
)
def test_an_address_is_an_error_in_the_family_and_else_a_warning(address: str) -> None:
    for facts, severity in ((needing(f"x @ {address}"), "warning"), (torch(f"x @ {address}"), "error")):
        finding = only(facts, RULES)
        assert (finding.rule, finding.severity) == ("requirement-address", severity)
        assert address in finding.cause


@pytest.mark.parametrize(
    "line",
    ["nvidia-cublas-cu12==12.8", "cuda-bindings>=12; extra == 'cuda'", "pytorch-triton==3.5.0"],
)
def test_what_another_vendors_build_requires(line: str) -> None:
    facts = needing(
        *PINS, line, project="torch", version=TORCH, tag="cp311-cp311-linux_x86_64", extras=("cuda",)
    )
    assert "requirement-stranger" in ids(facts, RULES)
    # The project's own build for that vendor is none of this rule's business.
    other = needing(line, project="triton", version="3.5.0+cu128", extras=("cuda",))
    assert ids(other, answers.RULES) == []


@pytest.mark.parametrize("local", ["cu128", "cpu", "xpu"])
def test_another_build_of_torch(local: str) -> None:
    facts = needing(f"torch==2.9.0+{local}", project="torchaudio", version=TORCH)
    assert only(facts, RULES).rule == "requirement-stranger"
    right = needing(f"torch=={TORCH}", project="torchaudio", version=TORCH)
    assert ids(right, RULES) == []


@pytest.mark.parametrize(
    ("lines", "clash"),
    [
        (["x==2.9,==2.8"], "==2.8,==2.9"),
        (["x>=3,<2"], "<2,>=3"),
        (["x>=3", "x<2"], ">=3 and <2"),
        (["x!=1", "x>=3; python_version >= '3'", "x<2; sys_platform == 'linux'"], ">=3 and <2"),
        (["x>=2a1,<2"], "<2,>=2a1"),
    ],
)
def test_lines_that_exclude_each_other(lines: list[str], clash: str) -> None:
    finding = only(needing(*lines), RULES)
    assert (finding.rule, finding.severity) == ("requirement-contradiction", "error")
    assert finding.cause == f"no version of x satisfies {clash}"


@pytest.mark.parametrize(
    "lines",
    [
        ["x>=3; sys_platform == 'win32'", "x<2; sys_platform != 'win32'"],
        ["x>=3; python_version < '3.9'", "x<2; python_version >= '3.9'"],
        ["x==1.0", "x==1.0.0"],
        ["x==2.9", "x==2.9+local"],
        ["x>=1,!=1.0,!=1.1.*,<1.3"],
        ["x>1!0,<2!0"],
        ["x>=1", "y<1"],
        ["pure[more]; extra == 'all'", "pure>=1"],
    ],
)
def test_lines_that_go_together(lines: list[str]) -> None:
    facts = needing(*lines, extras=("all", "more"))
    assert ids(facts, RULES) == []


def test_a_contradiction_that_only_an_extra_brings() -> None:
    finding = only(needing("x>=3", "x<2; extra == 'old'", extras=("old",)), RULES)
    assert finding.cause == "no version of x satisfies <2 and >=3, which its extra old brings"
    # Of two extras each can be had alone.
    apart = needing("x>=3; extra == 'new'", "x<2; extra == 'old'", extras=("old", "new"))
    assert ids(apart, RULES) == []


def test_another_version_of_itself() -> None:
    finding = only(needing("pure==0.9"), RULES)
    assert finding.cause == "it requires pure==0.9 and is pure 1.0 itself"
    assert ids(needing("pure==1"), RULES) == []


@pytest.mark.parametrize("marker", ["python_version < '3'", "sys_platform == 'win32'", "os_name == 'java'"])
def test_a_pin_of_the_family_that_never_holds(marker: str) -> None:
    finding = only(torch(f"triton==3.5.0+rocm7.1; {marker}"), RULES)
    assert (finding.rule, finding.severity) == ("requirement-vain", "error")
    # Backports for old Pythons are in many good wheels; of another package nothing is said.
    assert ids(torch(f"typing-extensions; {marker}"), RULES) == []
    both = torch(f"triton==3.4.0; {marker}", "triton==3.5.0+rocm7.1; sys_platform == 'linux'")
    assert ids(both, RULES) == []


def test_what_holds_on_linux_may_stand_in_a_wheel_for_windows() -> None:
    lines = (*PINS, "triton==3.5.0; platform_system == 'Linux'")
    facts = needing(*lines, project="torch", version=TORCH, tag="cp311-cp311-win_amd64")
    assert ids(facts, RULES) == []


def test_a_thousand_lines_about_one_project_are_not_weighed() -> None:
    assert ids(needing(*(f"x!={number}" for number in range(1000)), "x<0,>1"), RULES) == []


# -- the set


def test_two_packages_that_cannot_be_there_together() -> None:
    files = (set_facts.wheel("a", requires=["numpy>=2"]), set_facts.wheel("b", requires=["numpy<2"]))
    [(rule, file, cause)] = set_facts.found(*files)
    assert (rule, file) == ("set-contradiction", files[1].name)
    assert (
        cause
        == f"it requires numpy<2, and {files[0].name} requires numpy>=2: no version of numpy satisfies both"
    )
    [open_one] = set_facts.set_report(*files, closed=False).findings
    assert open_one.severity == "warning"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("numpy>=1", "numpy<2"),
        ("numpy>=2; sys_platform == 'win32'", "numpy<2"),
        ("numpy>=2; extra == 'e'", "numpy<2"),
    ],
)
def test_packages_that_go_together(first: str, second: str) -> None:
    files = (set_facts.wheel("a", requires=[first], extras=["e"]), set_facts.wheel("b", requires=[second]))
    assert set_facts.found(*files) == []


# -- the witness: packaging knows itself whether a specifier can be satisfied


def test_packaging_agrees_on_what_can_be_satisfied() -> None:
    witness = getattr(SpecifierSet, "is_unsatisfiable", None)
    assert witness is not None, "this test needs packaging 26"
    pick = random.Random(31)
    numbers = ["0", "1", "1.0", "1.1", "1.2.3", "2", "2.0rc1", "2.0.post1", "2.1", "1!0", "3.0.dev1"]
    seen = set()
    for _ in range(3000):
        parts = [
            f"{pick.choice(['==', '!=', '>=', '<=', '>', '<'])}{pick.choice(numbers)}"
            for _ in range(pick.randint(1, 4))
        ]
        specifier = SpecifierSet(",".join(parts), prereleases=True)
        can = version_for(specifier) is not None
        seen.add(can)
        assert can != witness(specifier), specifier
    assert seen == {True, False}
