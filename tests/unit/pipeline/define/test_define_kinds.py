"""The definition itself: steps in order, mistakes in it named, what each option adds and takes away."""

from __future__ import annotations

from itertools import product

import pytest

from rocwright.errors import InvalidInput
from rocwright.pipeline.define.kinds import Kind, in_order, kinds

PROJECTS = [("triton", ()), ("torch", ("triton",)), ("torchvision", ("torch",))]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([Kind("a", "j", ()), Kind("a", "j", ())], "two kinds of steps are called a"),
        ([Kind("a", "j", (), ("nothing",))], "the step a needs nothing, which is not a step of this run"),
        (
            [
                Kind("z", "j", ()),
                Kind("a", "j", (), ("b",)),
                Kind("b", "j", (), ("c",)),
                Kind("c", "j", (), ("b",)),
            ],
            "these steps need each other: b -> c -> b",
        ),
        ([Kind("a", "j", (), ("a",))], "these steps need each other: a -> a"),
    ],
)
def test_a_mistake_in_the_definition_is_named(given: list[Kind], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        in_order(given)


def test_what_stands_before_its_needs_comes_after_them() -> None:
    given = [Kind("b", "j", (), ("a",)), Kind("c", "j", ()), Kind("a", "j", ())]
    assert [kind.name for kind in in_order(given)] == ["c", "a", "b"]
    assert in_order(in_order(given)) == in_order(given)


def test_every_combination_of_options_fits_together() -> None:
    for split, parts, staged, promoted, pytorch, rocm in product((False, True), repeat=6):
        found = kinds(
            PROJECTS, split=split, parts=parts, staged=staged, promoted=promoted, pytorch=pytorch, rocm=rocm
        )
        assert in_order(found) == found
        names = {kind.name for kind in found}
        assert ("rocm-artifacts" in names) is rocm
        assert ("build-torch" in names) is pytorch
        assert ("split" in names) is (pytorch and split)
        assert ("merge-torch" in names) is (pytorch and parts)
        assert ("promote" in names) is (pytorch and staged and promoted)
        # Nothing is promoted but what the gate let through, and only what promotes changes that channel.
        for kind in found:
            if kind.name == "promote":
                assert "gate" in kind.needs
            assert (kind.changes == "channel") is (kind.name in ("stage", "promote"))
            assert (kind.changes == "run") is (kind.name.startswith("upload-") and "take" not in kind.job)


def test_what_is_uploaded_was_checked() -> None:
    found = {kind.name: kind for kind in kinds(PROJECTS, split=True, parts=True, staged=True, promoted=True)}
    assert "check-rocm" in found["upload-rocm"].needs
    assert "check" in found["upload-pytorch"].needs
    assert "check" in found["stage"].needs


def test_what_depends_on_torch_is_built_against_the_merged_one() -> None:
    found = {
        kind.name: kind for kind in kinds(PROJECTS, split=True, parts=True, staged=False, promoted=False)
    }
    assert found["build-torch"].axes[-1] == "part"
    assert found["build-torch"].needs == ("rocm-packages", "upload-rocm", "lock-sources", "build-triton")
    assert found["build-torchvision"].needs[-1] == "merge-torch"
    assert found["split"].needs == ("rocm-packages", "build-triton", "merge-torch", "build-torchvision")
    # What the parts need is built on a machine before theirs, or jobs would wait for each other.
    assert found["build-triton"].job not in (found["build-torch"].job, found["merge-torch"].job)
