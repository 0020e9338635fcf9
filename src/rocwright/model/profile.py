"""Profiles, as the table `data/profiles.toml` has them: which cells a run has, and what it may publish."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Literal

import msgspec

from rocwright.errors import InvalidInput
from rocwright.model.platforms import PLATFORMS

Tier = Literal["presubmit", "postsubmit", "nightly"]
# From the families that every change is tried on to all of them.
TIERS: tuple[Tier, ...] = ("presubmit", "postsubmit", "nightly")
Sources = Literal["miniature", "upstream"]
PYTHON = re.compile(r"3\.[0-9]+t?")
_NAME = re.compile(r"[a-z][a-z0-9-]*")


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row: the axes of a run, and where its results may go.

    `tier` includes the families of the tiers before it. `projects` are those of the family, all of the
    platform's without any. `device_groups` cuts the GPU targets of a group into so many builds, 1 for none.
    `stage` and `promote` name channels, empty for none. `publish`: a channel is changed `never`, only where
    the store is the run's own folder (`embedded`), or also elsewhere when it is `asked` for. `role` names the
    variable with the role that a workflow assumes to write.
    """

    name: str
    release_type: str
    platforms: tuple[str, ...]
    pythons: tuple[str, ...]
    refs: tuple[str, ...]
    tier: Tier
    sources: Sources = "upstream"
    projects: tuple[str, ...] = ()
    refs_windows: tuple[str, ...] = ()
    split: bool = False
    device_groups: int = 1
    stage: str = ""
    promote: str = ""
    publish: Literal["never", "embedded", "asked"] = "never"
    role: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is no name of a profile: write lower-case letters, digits and -")
        for field in ("platforms", "pythons", "refs"):
            values = getattr(self, field)
            if not values:
                raise ValueError(f"profile {self.name} has no {field}: its run would be empty")
            if len(set(values)) < len(values):
                raise ValueError(f"profile {self.name} gives one of its {field} twice")
        for platform in self.platforms:
            if platform not in PLATFORMS:
                raise ValueError(
                    f"profile {self.name} has the platform {platform!r}; known: {' '.join(PLATFORMS)}"
                )
        for python in self.pythons:
            if not PYTHON.fullmatch(python):
                raise ValueError(
                    f"profile {self.name} has the Python {python!r}: write it like 3.12 or 3.14t"
                )
        if self.device_groups < 1:
            raise ValueError(f"profile {self.name} has device_groups = {self.device_groups}: write 1 or more")
        if self.promote and not self.stage:
            raise ValueError(f"profile {self.name} promotes to {self.promote} and stages nowhere: add stage")
        if self.publish == "asked" and not self.stage:
            raise ValueError(f"profile {self.name} can be asked to publish and has no channel: add stage")

    def refs_on(self, platform: str) -> tuple[str, ...]:
        """References of torch on a platform."""
        return (self.refs_windows or self.refs) if platform == "windows" else self.refs


class ProfileTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table; a later row of the same name takes the place of an earlier one."""

    profile: tuple[Profile, ...]

    def named(self, name: str) -> Profile:
        """The profile of that name; raises `InvalidInput` listing the known ones."""
        for profile in reversed(self.profile):
            if profile.name == name:
                return profile
        known = list(dict.fromkeys(profile.name for profile in self.profile))
        near = get_close_matches(name, known, n=1)
        listed = f"profiles: {' '.join(known)}"
        raise InvalidInput(
            f"there is no profile {name!r}", next_step=f"perhaps {near[0]}; {listed}" if near else listed
        )
