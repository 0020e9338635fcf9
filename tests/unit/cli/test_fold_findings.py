"""Findings that say nearly the same: when they are told as one, and what is then told."""

from __future__ import annotations

from rocwright.cli.show_check import Told, runs, told
from rocwright.model.findings import Finding

NEXT = "build again"


def finding(cause: str, *members: str, rule: str = "some-rule", next_step: str = NEXT) -> Finding:
    return Finding(rule, "error", "x-1.0-py3-none-any.whl", cause, next_step, members)


def test_what_differs_in_each_file_stands_behind_its_name() -> None:
    run = [
        finding("it has RUNPATH '/opt/a', which holds on one machine only", "x/one.so"),
        finding("it has RUNPATH '/opt/b', which holds on one machine only", "x/two.so", "x/three.so"),
    ]
    assert told(run) == Told(
        ("2 times: it has RUNPATH …, which holds on one machine only",),
        ("x/one.so: '/opt/a'", "x/two.so, x/three.so: '/opt/b'"),
    )


def test_short_differences_of_the_file_itself_share_a_line() -> None:
    run = [finding("it has no a.py"), finding("it has no b/c.py"), finding("it has no d.py")]
    assert told(run) == Told(("3 times: it has no …",), ("a.py, b/c.py, d.py",))


def test_differences_of_the_same_files_share_a_line() -> None:
    run = [
        finding("it needs liba.so: nobody holds it", "x/one.so"),
        finding("it needs libb.so: nobody holds it", "x/one.so"),
        finding("it needs libc.so: nobody holds it", "x/two.so"),
    ]
    assert told(run) == Told(
        ("3 times: it needs …: nobody holds it",), ("x/one.so: liba.so, libb.so", "x/two.so: libc.so")
    )


def test_long_differences_have_lines_of_their_own() -> None:
    names = ["a" * 50, "b" * 50]
    assert told([finding(f"it has no {name}") for name in names]).items == tuple(names)


def test_one_finding_is_told_as_it_is() -> None:
    assert told([finding("it has no a.py", "x/one.so")]) == Told(("x/one.so: it has no a.py",))


def test_causes_with_little_in_common_are_not_folded() -> None:
    run = [
        finding("it needs GLIBC_2.32; the tag ends at GLIBC_2.24", "x/one.so"),
        finding("it needs CXXABI_1.3.13; the tag ends at CXXABI_1.3.10", "x/one.so"),
        finding("the tag is no tag"),
    ]
    assert told(run).causes == tuple(f"{one.about}{one.cause}" for one in run)
    assert told(run).items == ()


def test_a_cause_that_is_the_beginning_of_another_is_not_folded() -> None:
    run = [finding("it has no licence"), finding("it has no licence of numpy")]
    assert told(run) == Told(("it has no licence", "it has no licence of numpy"))


def test_words_are_not_shared_from_both_ends_at_once() -> None:
    # `no` is the end of what both begin with, and the beginning of what both end with.
    run = [finding("it has no no a.py"), finding("it has no a.py")]
    assert told(run).items == ()


def test_a_long_list_ends_with_how_many_more() -> None:
    run = [finding("it has no such file there", f"x/{number}.so") for number in range(21)]
    differing = [finding(f"it has no {number} file there", f"x/{number}.so") for number in range(21)]
    assert told(run).items == ()
    assert len(told(differing).items) == 21
    assert told(differing).items[19:] == ("x/19.so: 19", "and 1 more; --json lists all")
    assert told(differing).causes == ("21 times: it has no … file there",)


def test_only_neighbours_of_one_rule_and_next_step_are_one_run() -> None:
    first, second = finding("a"), finding("b")
    other, later = finding("c", rule="other-rule"), finding("d", next_step="wait")
    assert list(runs([first, second, other, later])) == [[first, second], [other], [later]]
