"""GPU targets as options name them."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from os.path import commonprefix
from pathlib import Path

from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.model.device_files import DeviceFiles, known_targets
from rocwright.model.gpu import Families, InvalidTarget, in_order, parse_targets


def given_targets(text: str | None, config: Path | None = None) -> tuple[str, ...]:
    """The targets of `--target` or `--targets`, as they are written; none where none is given.

    Raises `InvalidTarget` for one that no table has: code for it is nowhere, so whatever is asked about it
    would find nothing. A family of `rocwright.toml` makes a new one known.
    """
    targets = parse_targets(text or "")
    overlay = read_overlay(config)
    known = known_targets(load_table("device_files", DeviceFiles), load_table("families", Families, overlay))
    for target in targets:
        if target.base not in known:
            raise InvalidTarget(
                f"{target} is no known GPU target",
                next_step=f"{_perhaps(target.base, known)}`rocwright data explain families` shows them all",
            )
    return tuple(map(str, targets))


def _perhaps(base: str, known: Collection[str]) -> str:
    """The known targets that are spelled alike; of those the ones that begin alike: gfx1100 for gfx1109."""
    alike = get_close_matches(base, known, n=len(known))
    # No paths, and meant letter by letter.
    nearest = sorted(alike, key=lambda one: -len(commonprefix((one, base))))[:4]  # noqa: RUF071
    return f"perhaps {' or '.join(in_order(nearest))}; " if nearest else ""
