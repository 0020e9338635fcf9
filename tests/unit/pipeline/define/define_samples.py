"""Values that the tests of the definition start from, small and made by hand."""

from __future__ import annotations

from datetime import date

from rocwright.model.indexes import IndexTable, NamedIndex
from rocwright.model.plan import Choice, Group, Plan, Profile, Publication
from rocwright.model.runners import Bypass, FamilyRow, OnPlatform, Pool, Runners
from rocwright.pipeline.define.inputs import Known
from rocwright.pipeline.define.plan import make_plan

OPEN = Publication(True, True)
FAMILIES = {
    "one-all": ("gfx906",),
    "two-all": ("gfx90a", "gfx942"),
    "old-all": ("gfx900",),
    "every-all": ("gfx900", "gfx906", "gfx90a", "gfx942", "gfx1030"),
}
RUNNERS = Runners(
    (
        FamilyRow("one-all", "presubmit", OnPlatform(pools=(Pool("one-linux"),)), None),
        FamilyRow(
            "two-all",
            "postsubmit",
            OnPlatform(bypass=Bypass("no machines", date(2030, 1, 1))),
            OnPlatform(pools=(Pool("two-windows"),), nightly_only=True),
        ),
        FamilyRow("old-all", "nightly", OnPlatform(without_refs=("release/*",)), None),
    )
)
KNOWN = Known(
    families=FAMILIES,
    runners=RUNNERS,
    projects={
        "linux": [("triton", ()), ("torch", ("triton",)), ("torchvision", ("torch",))],
        "windows": [("triton", ()), ("torch", ("triton",)), ("torchvision", ("torch",))],
    },
    opt_in={"windows": frozenset({"triton"})},
    miniature=Group("house", ("gfx906", "gfx90a"), ("house",)),
    python="3.11",
    ref="release/1.0",
    indexes=IndexTable(
        (
            NamedIndex("stable", "https://packages.example/"),
            NamedIndex("each", "https://each.example/", layout="per-family"),
        )
    ),
    therock="s3://therock",
)
PROFILE = Profile(
    name="mine",
    release_type="dev",
    platforms=("linux",),
    pythons=("3.12",),
    refs=("release/2.9",),
    tier="presubmit",
    stage="staging",
    promote="release",
)


def plan_of(choice: Choice | None = None, profile: Profile = PROFILE, known: Known = KNOWN) -> Plan:
    """The plan of a choice; without one, of the profile as it is."""
    return make_plan(profile, choice or Choice("mine", "7"), known, OPEN)


def ids(plan: Plan, kind: str) -> list[str]:
    """Ids of the cells of a kind."""
    return [cell.id for cell in plan.cells if cell.kind == kind]
