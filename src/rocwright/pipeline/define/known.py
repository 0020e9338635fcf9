"""What a plan is made from: the tables, as one value."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from rocwright.builder.decide.recipe import load_recipes
from rocwright.data import load_table
from rocwright.data.overlay import Overlay
from rocwright.errors import InvalidData
from rocwright.model.channels import Channels
from rocwright.model.gpu import Families, base_targets
from rocwright.model.plan import Group
from rocwright.model.platforms import PLATFORMS
from rocwright.model.profile import ProfileTable
from rocwright.model.runners import OVERRIDE, Runners, parse_override
from rocwright.sdk.intake.distribution import distributions

# Projects in build order, each with those that it is built after.
Projects = Sequence[tuple[str, Sequence[str]]]


@dataclass(frozen=True)
class Known:
    """The tables that a plan is made from.

    `families` are targets by family, `runners` say which of them are built and tested where. `projects` are
    those of the family by platform, `opt_in` the ones among them that are built only when asked for.
    `miniature` is the group that stands for all where the miniature family is built, `python` the interpreter
    that it is built with, `ref` its branch, `miniature_projects` those that it has (None: all).
    """

    families: Mapping[str, tuple[str, ...]]
    runners: Runners
    projects: Mapping[str, Projects]
    miniature: Group
    python: str
    ref: str
    opt_in: Mapping[str, frozenset[str]] = field(default_factory=dict)
    miniature_projects: frozenset[str] | None = None


class _Demo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    targets: tuple[str, ...]
    torch_ref: str
    projects: tuple[str, ...]


def known(overlay: Overlay | None = None, environment: Mapping[str, str] = os.environ) -> Known:
    """The built-in tables, with what a user's `rocwright.toml` and the environment add to them.

    Raises `InvalidData` naming the file, or the variable, and the field that does not fit.
    """
    table = load_table("families", Families, overlay)
    recipes = load_recipes(overlay).recipe
    demo = load_table("demo", _Demo)
    family = distributions()[0].family
    return Known(
        families=table.families,
        runners=Runners(table.family, parse_override(environment.get(OVERRIDE, ""))),
        projects={
            platform: [(row.project, row.after) for row in recipes if platform in row.platforms]
            for platform in PLATFORMS
        },
        opt_in={
            platform: frozenset(row.project for row in recipes if platform in row.opt_in)
            for platform in PLATFORMS
        },
        miniature=Group(family, base_targets(demo.targets), (family,)),
        python=".".join(map(str, sys.version_info[:2])),
        ref=demo.torch_ref,
        miniature_projects=frozenset(demo.projects),
    )


def profiles(overlay: Overlay | None = None) -> ProfileTable:
    """The profiles, with those of a user's `rocwright.toml`.

    Raises `InvalidData` for a row that does not fit its schema, and one whose channel is none.
    """
    table = load_table("profiles", ProfileTable, overlay)
    channels = load_table("channels", Channels, overlay)
    for profile in table.profile:
        for place, name in (("stage", profile.stage), ("promote", profile.promote)):
            if name and name not in {one.name for one in channels.channel}:
                raise InvalidData(
                    f"profile {profile.name} has {place} = {name!r}, which is no channel",
                    where=overlay.where if overlay else "data/profiles.toml",
                    next_step=f"channels: {' '.join(one.name for one in channels.channel)}",
                )
    return table
