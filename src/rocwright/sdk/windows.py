"""Names that a package for Windows may have."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rocwright.errors import InvalidPrefix

# An environment's path comes in front, and Windows stops at 260 characters where long paths are not enabled.
_LONGEST = 160
_FORBIDDEN = re.compile(r'[<>:"|?*\x00-\x1f]')
_RESERVED = re.compile(r"(con|prn|aux|nul|com[1-9]|lpt[1-9])(\..*)?", re.IGNORECASE)


def require_windows_names(names: Iterable[str]) -> None:
    """Refuse member names that Windows cannot have or that are too long below an environment.

    Names that differ only by case are refused by the wheel writer. Raises `InvalidPrefix` naming the first.
    """
    for name in names:
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
