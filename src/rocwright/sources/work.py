"""What becomes of work in a checkout that is not ours: refused, kept on a branch, or discarded on request."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.errors import UsageError
from rocwright.sources import whole
from rocwright.sources.state import Survey
from rocwright.sources.tree import Node


@dataclass(frozen=True)
class Work:
    """What to do with changes and commits that are not ours; by default they stop everything.

    `keep_branch` names the branch that gets them, `discard` throws them away. Raises `UsageError` for both.
    """

    keep_branch: str | None = None
    discard: bool = False

    def __post_init__(self) -> None:
        if self.keep_branch is not None and self.discard:
            raise UsageError("work is either kept on a branch or discarded", next_step="give one of the two")


REFUSE = Work()


class Kept(msgspec.Struct, frozen=True):
    """What became of the work in one repository (`repository`: path of the submodule, "" for the project).

    `kept`: `branch` holds it, up to `commit`. `left`: HEAD was at `commit` of the user's own `branch`, which
    stays as it is. `discarded`: `commit` is what HEAD was at, when commits went that only HEAD held; git
    finds it for some weeks. `items` lists the changes and commits.
    """

    repository: str
    fate: Literal["kept", "left", "discarded"]
    branch: str | None
    commit: str | None
    items: tuple[str, ...]


def set_aside(surveys: dict[str, tuple[Node, Survey]], work: Work, directory: Path) -> tuple[Kept, ...]:
    """Clear foreign work out of the way of a move, as `work` says; nothing to do is the usual case.

    Raises `UnsavedWork` for foreign work that nobody decided about, with everything left as it is.
    """
    whole.refuse_foreign(directory, whole.obstacles(surveys))
    return ()
