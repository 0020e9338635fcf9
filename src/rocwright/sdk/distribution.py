"""How a Linux distribution's ROCm packages map to a ROCm prefix: data in, a pure mapping out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from rocwright.data import load_table
from rocwright.errors import Unreachable


class MapRule(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"source": "from", "target": "to"}
):
    """One row: paths matching `source` go to `target`; an empty target leaves them out."""

    source: str
    target: str


class Distribution(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """What one release of one distribution packages, and where its files belong."""

    id: str
    version_id: str
    rocm_version: str
    triplet: str
    family: str
    packages: tuple[str, ...]
    map: tuple[MapRule, ...]
    links: dict[str, str]

    @cached_property
    def compiled(self) -> tuple[tuple[re.Pattern[str], str], ...]:
        """The map with its patterns compiled."""
        return tuple((compile_pattern(rule.source), rule.target) for rule in self.map)

    def destination(self, path: str) -> str | None:
        """Where a path of the unpacked packages belongs in the prefix; None leaves it out.

        `path` is relative to the file system root (`usr/lib/…`, `lib/…`).
        """
        below = path.removeprefix("usr/")
        for pattern, target in self.compiled:
            match = pattern.fullmatch(below)
            if match is None:
                continue
            if not target:
                return None
            return _substitute(target, match, below)
        return None


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    distribution: tuple[Distribution, ...]


def compile_pattern(pattern: str, *, named: bool = True) -> re.Pattern[str]:
    """`**` spans directories, `*` and `{a,b}` do not.

    With `named`, what `**` matched is the group `rest` and the others are numbered groups.
    """
    parts: list[str] = []
    for piece in re.split(r"(\*\*|\*|\{[^}]*\})", pattern):
        if piece == "**":
            parts.append("(?P<rest>.*)" if named else ".*")
        elif piece == "*":
            parts.append("([^/]*)")
        elif piece.startswith("{"):
            words = (re.escape(word).replace(r"\*", "[^/]*") for word in piece[1:-1].split(","))
            parts.append("(" + "|".join(words) + ")")
        else:
            parts.append(re.escape(piece))
    return re.compile("".join(parts))


def _substitute(target: str, match: re.Match[str], path: str) -> str:
    if target.endswith("/"):
        return target + path.rsplit("/", 1)[-1]
    filled = re.sub(r"\{(\d+)\}", lambda number: match.group(int(number.group(1))), target)
    return filled.replace("**", match.groupdict().get("rest") or "")


def distributions() -> tuple[Distribution, ...]:
    """Every distribution whose packages are known."""
    return load_table("distributions", _Table).distribution


def this_distribution(os_release: Path = Path("/etc/os-release")) -> Distribution:
    """The distribution of this machine; raises `Unreachable` when its ROCm packages are not known."""
    facts: dict[str, str] = {}
    if os_release.exists():
        for line in os_release.read_text(encoding="utf-8").splitlines():
            key, separator, value = line.partition("=")
            if separator:
                facts[key] = value.strip("\"'")
    for row in distributions():
        if facts.get("ID") == row.id and facts.get("VERSION_ID") == row.version_id:
            return row
    known = ", ".join(f"{row.id} {row.version_id}" for row in distributions())
    name = facts.get("PRETTY_NAME", "this system")
    raise Unreachable(
        f"the ROCm packages of {name} are not known here (known: {known})",
        where=os_release,
        next_step="give any ROCm installation with --rocm-prefix DIR",
    )


@dataclass(frozen=True)
class Placement:
    """Where everything of an unpacked tree goes: files by move, links by (new path, new target)."""

    files: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...]
    left_out: int


def place(distribution: Distribution, files: Iterable[str], links: Mapping[str, str]) -> Placement:
    """Decide where each file and link belongs.

    `files` and the keys of `links` are relative to the unpacked root, link values are the link texts.
    Links are rewritten to point, relatively, to where their target went; links whose target is left
    out, or that would point to themselves, are dropped.
    """
    moved = {path: to for path in files if (to := distribution.destination(path)) is not None}
    placed: dict[str, str] = {}
    left_out = 0
    for path, text in links.items():
        here = distribution.destination(path)
        target = _link_destination(distribution, path, text)
        if here is None or target is None or here == target:
            left_out += 1
            continue
        placed[here] = relative_link(here, target)
    for here, text in distribution.links.items():
        placed.setdefault(here, text)
    # Links may chain; one that ends nowhere would dangle in the prefix.
    present = set(moved.values())
    directories = {str(parent) for path in present for parent in Path(path).parents}
    reachable = present | directories | set(placed)
    kept = {here: text for here, text in placed.items() if normalise(here, text) in reachable}
    left_out += len(placed) - len(kept)
    return Placement(tuple(sorted(moved.items())), tuple(sorted(kept.items())), left_out)


def _link_destination(distribution: Distribution, path: str, text: str) -> str | None:
    return distribution.destination(text.lstrip("/") if text.startswith("/") else normalise(path, text))


def normalise(path: str, text: str) -> str:
    """The path, relative to the root, that a relative link `text` at `path` points to."""
    parts = path.split("/")[:-1]
    for piece in text.split("/"):
        if piece == "..":
            if parts:
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
