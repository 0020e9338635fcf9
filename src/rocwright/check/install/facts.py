"""What came of installing a set, as values: the rules `set-install` and `set-candidates` judge them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Installation:
    """One installer on one Python and platform.

    `problems` say what went wrong, none where everything was installed. `asked` are the distributions whose
    metadata or content the installer fetched, by project. `not_tried` says why it was not done at all.
    `stand_ins` are empty wheels, made up for packages that the set needs from elsewhere.
    """

    installer: str
    where: str
    problems: tuple[str, ...] = ()
    asked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    not_tried: str | None = None
    next_step: str = ""
    stand_ins: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    seconds: float = 0.0
