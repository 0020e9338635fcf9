"""Tables that the tests of setup decide with: the built-in ones, and a profile of the size of CI's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rocwright.data import load_table
from rocwright.model.gpu import Families
from rocwright.model.plan import Choice, Profile
from rocwright.model.runners import Runners
from rocwright.pipeline.setup.choose import Chosen, Tables, choose
from rocwright.pipeline.setup.event import Event, Triggers

FAMILIES = load_table("families", Families)
RUNNERS = Runners(FAMILIES.family)
TABLES = Tables(
    load_table("triggers", Triggers),
    FAMILIES.families,
    RUNNERS,
    ("apex", "torch", "torchaudio", "torchvision", "triton"),
    "debian12",
)
CI = Profile(
    name="ci",
    release_type="ci",
    platforms=("linux", "windows"),
    pythons=("3.12",),
    refs=("release/2.12",),
    tier="presubmit",
    stage="staging",
    publish="embedded",
)
BASE = Choice("ci", "100")
PYTORCH_ONLY = ("external-builds/pytorch/build_prod_wheels.py",)
ROCM = ("src/rocwright/sdk/build.py",)
DOCS = ("docs/index.md",)


def run_99(groups: Mapping[str, Sequence[str]]) -> str:
    """A store whose run 99 has everything."""
    return "99"


def no_run(groups: Mapping[str, Sequence[str]]) -> str:
    """An empty store."""
    return ""


def decide(event: Event, *, there: bool = True, base: Choice = BASE, profile: Profile = CI) -> Chosen:
    """The decision where an earlier run can be had, or not."""
    return choose(event, profile, base, TABLES, run_99 if there else no_run)
