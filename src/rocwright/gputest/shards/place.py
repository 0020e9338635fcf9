"""Where times of tests are comparable: what a plan needs to know of them, and so little is imported."""

from __future__ import annotations

from typing import Annotated

import msgspec

from rocwright.errors import InvalidInput
from rocwright.model.gpu import parse_target
from rocwright.model.platforms import Platform, platform_named
from rocwright.model.testing import Ran
from rocwright.model.version import parse_version


class TimingPlace(msgspec.Struct, frozen=True, order=True, forbid_unknown_fields=True):
    """Where times are comparable: a target (`cpu` for none), torch's `major.minor`, a platform, a
    configuration."""

    target: str
    torch: Annotated[str, msgspec.Meta(pattern=r"^[0-9]+\.[0-9]+$")]
    platform: Platform = "linux"
    config: str = "default"

    def __str__(self) -> str:
        told = [self.target, f"torch {self.torch}"]
        told += [self.platform] if self.platform != "linux" else []
        told += [self.config] if self.config != "default" else []
        return ", ".join(told)


def minor_of(torch: str) -> str:
    """`major.minor` of a version of torch, nightly or not; raises `InvalidVersion`."""
    version = parse_version(torch)
    return f"{version.major}.{version.minor}"


def place_of(ran: Ran) -> TimingPlace:
    """The place of a run; raises `InvalidInput` for a run that does not name its version of torch."""
    if not ran.torch:
        raise InvalidInput(
            f"the run {ran.key} does not say which torch it tested",
            next_step="give it with --torch",
        )
    # An emulator's times say nothing of a GPU's.
    target = target_name(ran.target) + ("-emulated" if ran.emulated else "")
    return TimingPlace(target, minor_of(ran.torch), platform_named(ran.platform), ran.config)


def target_name(text: str) -> str:
    """A target without its features; `cpu` where there is none."""
    if not text or text == "cpu":
        return "cpu"
    # Other makers' GPUs have other names.
    return parse_target(text).base if text.startswith("gfx") else text
