"""The plan of a whole family: what will be built, in which order, against what."""

from __future__ import annotations

import msgspec

from rocwright.build.decide.plan import BuildPlan
from rocwright.build.rocm.described import Rocm


class FamilyPlan(msgspec.Struct, frozen=True):
    """Everything that a run of the builder will do; `builds` in order, one Python after the other.

    `left_out` maps a project that is not built to the reason; `notes` are sentences for the user (the cost of
    many targets, why flash attention is off).
    """

    platform: str
    release_type: str
    targets: tuple[str, ...]
    rocm: Rocm
    builds: tuple[BuildPlan, ...]
    left_out: dict[str, str] = {}
    notes: tuple[str, ...] = ()
