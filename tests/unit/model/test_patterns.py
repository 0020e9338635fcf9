"""Patterns over paths that all tables share."""

from __future__ import annotations

import pytest

from rocwright.model.patterns import any_pattern, compile_pattern, fits


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("**/__pycache__/**", "__pycache__/a.pyc", True),
        ("**/__pycache__/**", "torch/utils/__pycache__/a.pyc", True),
        ("**/__pycache__/**", "torch/x__pycache__/a.pyc", False),
        ("**/*.orig", "a.orig", True),
        ("**/*.orig", "a/b/c.orig", True),
        ("**/*.orig", "a.orig/b", False),
        # Only at the start: elsewhere two stars ask for what stands around them.
        ("lib/**/x", "lib/x", False),
        ("lib/**/x", "lib/a/b/x", True),
        ("torch/lib/{libtorch_hip.so,torch_hip.dll}", "torch/lib/torch_hip.dll", True),
        ("torch/lib/{libtorch_hip.so,torch_hip.dll}", "torch/lib/torch_hipXdll", False),
        ("*", "a\nb", True),
    ],
)
def test_two_stars_at_the_start_also_stand_for_no_directory(pattern: str, path: str, expected: bool) -> None:
    assert fits(path, [pattern]) is expected


def test_any_of_several_patterns() -> None:
    assert fits("b/c", ("a/*", "b/*"))
    assert not fits("c/c", ("a/*", "b/*"))
    assert not fits("", ()) and not any_pattern(()).fullmatch("a")


def test_what_two_stars_matched_has_a_name() -> None:
    match = compile_pattern("**/lib/{a,b}*").fullmatch("usr/x/lib/b1")
    assert match is not None
    assert match.groupdict() == {"rest": "usr/x", "g1": "b", "g2": "1"}
    bare = compile_pattern("**/lib/*").fullmatch("lib/b")
    assert bare is not None and bare.group("rest") is None
