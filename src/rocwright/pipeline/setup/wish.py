"""What labels and inputs ask of a run, in the same words; inputs stand above labels. Pure."""

from __future__ import annotations

import msgspec

from rocwright.model.plan import TestLevel
from rocwright.model.profile import Sources


class Wish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked for; empty and None: nothing is said of it.

    `families` by platform take the place of the tier's, `more` are added to them; `all_families` are those of
    all tiers. `tests` are named ones. `prebuilt` says by platform whether an earlier run's ROCm is taken,
    `artifact_run_id` of which run. `notes` are for people: what is not known, or does nothing here.
    """

    skip: bool = False
    all_families: bool = False
    families: dict[str, tuple[str, ...]] = {}
    more: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    all_projects: bool = False
    build_pytorch: bool | None = None
    test_level: TestLevel | None = None
    tests: tuple[str, ...] = ()
    prebuilt: dict[str, bool] = {}
    artifact_run_id: str = ""
    repository: str = ""
    sources: Sources | None = None
    split: bool | None = None
    device_groups: int | None = None
    publish: bool | None = None
    notes: tuple[str, ...] = ()


# Where "no" is an answer, too.
_ANSWERS = ("build_pytorch", "split", "publish")


def above(first: Wish, second: Wish) -> Wish:
    """The first wish, and what only the second one says; notes of both."""
    found = {}
    for name in Wish.__struct_fields__:
        one, other = getattr(first, name), getattr(second, name)
        found[name] = other if (one is None if name in _ANSWERS else not one) else one
    if first.projects or first.all_projects:
        # Which components: one answer, not half of each.
        found |= {"projects": first.projects, "all_projects": first.all_projects}
    found["notes"] = tuple(dict.fromkeys((*first.notes, *second.notes)))
    return Wish(**found)
