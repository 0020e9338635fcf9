"""What the pin files of a torch tree say about one project."""

from __future__ import annotations

from dataclasses import dataclass

from rocwright.errors import InvalidPin
from rocwright.model.project import CommitFilePin, RelatedCommitsPin
from rocwright.sources.decide import pins
from rocwright.sources.decide.pin_files import Pins

# Every door to this has the option.
TORCH_FIRST = "check torch out first, or name its checkout with --torch-dir, or give the ref explicitly"


@dataclass(frozen=True)
class Pinned:
    """What a pin says; without a commit `ref` has to be asked for."""

    origin: str | None
    ref: str
    commit: str | None
    said: str


def read_pin(pin: RelatedCommitsPin | CommitFilePin, tree: Pins, *, release: bool) -> Pinned | None:
    """What a torch tree says about a project, `None` where it says nothing.

    With `release` the release branch of the version that the tree names. Raises `InvalidPin`.
    """
    if isinstance(pin, CommitFilePin) and release and pin.version_file and pin.release_ref:
        text, where = tree.text(pin.version_file), tree.where(pin.version_file)
        if text is None:
            raise InvalidPin(
                f"{where} does not exist, so the release branch is unknown",
                where=where,
                next_step=TORCH_FIRST,
            )
        ref, line = pins.parse_release_branch(text, pin.release_ref, where=where)
        return Pinned(None, ref, None, tree.said(pin.version_file, line))
    text, where = tree.text(pin.file), tree.where(pin.file)
    if text is None:
        return None
    if isinstance(pin, CommitFilePin):
        commit, line = pins.parse_commit(text, where=where)
        return Pinned(None, commit, commit, tree.said(pin.file, line))
    record = pins.related_commit(pins.parse_related_commits(text, where=where), pin.key)
    if record is None:
        return None
    said = tree.said(pin.file, record.line)
    return Pinned(record.origin, f"refs/heads/{record.branch}", record.commit, said)
