"""Whether all packages of a ROCm can be installed together, as Linux and as Windows sees it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rocwright.errors import InvalidPrefix
from rocwright.wheel.write import WheelPlan

# An environment's path comes in front, and Windows stops at 260 characters where long paths are not enabled.
_LONGEST = 160
_FORBIDDEN = re.compile(r'[<>:"|?*\x00-\x1f]')
_RESERVED = re.compile(r"(con|prn|aux|nul|com[1-9]|lpt[1-9])(\..*)?", re.IGNORECASE)


def require_installable(wheels: Sequence[WheelPlan], expanded: Iterable[str], *, windows: bool) -> None:
    """Refuse paths with two owners and, for Windows, what cannot be a path there.

    `expanded` are the paths of the devel tree in site-packages. Uninstalling one of two owners would take
    the other's file away. Raises `InvalidPrefix` naming the path.
    """
    owners: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for wheel in wheels:
        for member in wheel.members:
            owner = owners.setdefault(member.name, wheel.name)
            if owner != wheel.name:
                raise InvalidPrefix(f"{member.name} would be owned by {owner} and by {wheel.name}")
    for name in (*owners, *expanded) if windows else ():
        _require_windows_name(name)
        other = spelled.setdefault(name.casefold(), name)
        if other != name:
            raise InvalidPrefix(
                f"{other} and {name} differ only by case, and Windows can hold only one of them",
                next_step="rename one of the two",
            )


def _require_windows_name(name: str) -> None:
    if len(name) > _LONGEST:
        raise InvalidPrefix(
            f"{name} is {len(name)} characters long; packages for Windows have at most {_LONGEST}",
            next_step="shorten the path: an installation below a user's directory could not hold it",
        )
    for part in name.split("/"):
        if _FORBIDDEN.search(part) or _RESERVED.fullmatch(part) or part.endswith((".", " ")):
            raise InvalidPrefix(
                f"{name} cannot be on Windows: {part!r} is no file name there",
                next_step="rename the file; archives for target features need another name on Windows",
            )
