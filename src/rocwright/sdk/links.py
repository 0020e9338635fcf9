"""Paths and symbolic links of a tree, followed by name as the kernel follows them by place."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping

# Linux gives up after this many links on one path.
_MOST_LINKS = 40


def normalise(path: str, text: str) -> str | None:
    """The path, relative to the root, that the relative link `text` at `path` names; None outside the root.

    Links on the way are not followed; `follow` does that.
    """
    parts = path.split("/")[:-1]
    for piece in text.split("/"):
        if piece == "..":
            if not parts:
                return None
            parts.pop()
        elif piece not in ("", "."):
            parts.append(piece)
    return "/".join(parts)


def relative_link(path: str, target: str) -> str:
    """The link text at `path` that points to `target`, both relative to the same root."""
    here, there = path.split("/")[:-1], target.split("/")
    common = 0
    while common < min(len(here), len(there) - 1) and here[common] == there[common]:
        common += 1
    return "/".join([".."] * (len(here) - common) + there[common:])


def follow(path: str, links: Mapping[str, str], directories: Container[str]) -> str | None:
    """Where `path` leads once every link on it is followed.

    `links` maps paths to link texts, `directories` are the paths of real directories, which a path has to
    pass through. None for a circle, a way out of the root, or a way through something that is no directory;
    whether the end exists is not asked.
    """
    here: list[str] = []
    pending = deque(path.split("/"))
    budget = _MOST_LINKS
    while pending:
        piece = pending.popleft()
        if piece in ("", "."):
            continue
        if piece == "..":
            if not here:
                return None
            here.pop()
            continue
        text = links.get("/".join([*here, piece]))
        if text is None:
            here.append(piece)
            if pending and "/".join(here) not in directories:
                return None
            continue
        budget -= 1
        if text.startswith("/") or budget < 0:
            return None
        pending.extendleft(reversed(text.split("/")))
    return "/".join(here)
