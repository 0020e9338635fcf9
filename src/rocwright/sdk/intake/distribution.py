"""How a Linux distribution's ROCm packages map to a ROCm prefix: data in, a pure mapping out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

import msgspec

from rocwright.data import load_table
from rocwright.data.overlay import Overlay
from rocwright.errors import InvalidPrefix, Unreachable, UsageError
from rocwright.model.patterns import compile_pattern
from rocwright.sdk.links import follow, normalise, relative_link


class MapRule(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"source": "from", "target": "to"}
):
    """One row: paths matching `source` go to `target`; an empty target leaves them out."""

    source: str
    target: str


class Distribution(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """What one release of one distribution packages, and where its files belong.

    `packages` bring what they depend on, but for `system`. `apt_sources` are lines of apt's list, for
    machines of another distribution. `links` (path to link text) and `files` (path to content) are what a
    ROCm has and its packages lack; `{llvm}` in a link stands for the compiler's version. `targets` are those
    that its compiler makes code for; empty: not known.
    """

    id: str
    version_id: str
    rocm_version: str
    family: str
    packages: tuple[str, ...]
    map: tuple[MapRule, ...] = ()
    links: dict[str, str] = {}
    files: dict[str, str] = {}
    targets: tuple[str, ...] = ()
    apt_sources: tuple[str, ...] = ()
    system: tuple[str, ...] = ()
    llvm: str = ""
    triplet: str = "x86_64-linux-gnu"

    @property
    def name(self) -> str:
        """`debian-12`."""
        return f"{self.id}-{self.version_id}"

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
    """`system`, `map` and `links` are those of every row."""

    system: tuple[str, ...]
    map: tuple[MapRule, ...]
    links: dict[str, str]
    distribution: tuple[Distribution, ...]

    def complete(self, row: Distribution) -> Distribution:
        links = {**self.links, **row.links}
        return msgspec.structs.replace(
            row,
            system=(*row.system, *self.system),
            map=(*row.map, *self.map),
            links={
                path.format(llvm=row.llvm): text.format(llvm=row.llvm)
                for path, text in links.items()
                if row.llvm or "{llvm}" not in path + text
            },
        )


def _substitute(target: str, match: re.Match[str], path: str) -> str:
    filled = re.sub(r"\{(\d+)\}", lambda number: match.group(f"g{number.group(1)}"), target)
    if filled.endswith("/"):
        return filled + path.rsplit("/", 1)[-1]
    return filled.replace("**", match.groupdict().get("rest") or "")


def distributions(overlay: Overlay | None = None) -> tuple[Distribution, ...]:
    """Every distribution whose packages are known, those of a user's `rocwright.toml` included."""
    table = load_table("distributions", _Table, overlay)
    return tuple(map(table.complete, table.distribution))


def named_distribution(name: str, overlay: Overlay | None = None) -> Distribution:
    """The distribution called so, `debian-12`, the last of several rows; raises `UsageError` for none."""
    rows = {row.name: row for row in distributions(overlay)}
    if name not in rows:
        raise UsageError(
            f"the ROCm packages of {name} are not known here",
            next_step=f"name one of {', '.join(rows)}, or write a row of [[distributions.distribution]] "
            "into rocwright.toml",
        )
    return rows[name]


def this_machine(os_release: Path = Path("/etc/os-release")) -> tuple[str, str]:
    """What this machine runs: its name as distributions have it, `debian-12`, and as people do."""
    facts: dict[str, str] = {}
    if os_release.exists():
        for line in os_release.read_text(encoding="utf-8").splitlines():
            key, separator, value = line.partition("=")
            if separator:
                facts[key] = value.strip("\"'")
    # What has not been released yet has no version: Debian's sid.
    name = f"{facts.get('ID', '')}-{facts.get('VERSION_ID', 'sid')}"
    return name, facts.get("PRETTY_NAME", "this system")


def this_distribution(os_release: Path = Path("/etc/os-release")) -> Distribution:
    """The distribution of this machine; raises `Unreachable` when its ROCm packages are not known."""
    name, pretty = this_machine(os_release)
    rows = {row.name: row for row in distributions()}
    if name not in rows:
        raise Unreachable(
            f"the ROCm packages of {pretty} are not known here (known: {', '.join(rows)})",
            where=os_release,
            next_step="give any ROCm installation with --rocm-prefix DIR",
        )
    return rows[name]


class Placement(msgspec.Struct, frozen=True):
    """Where everything of an unpacked tree goes: files by move, links by (new path, new target)."""

    files: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...]
    left_out: int


def place(distribution: Distribution, files: Iterable[str], links: Mapping[str, str]) -> Placement:
    """Decide where each file and link belongs.

    `files` and the keys of `links` are relative to the unpacked root, link values are the link texts.
    Links are rewritten to point, relatively, to where their target went; links whose target is left
    out, that would point to themselves or end nowhere, are dropped. Raises `InvalidPrefix` when two files
    belong at one place.
    """
    moved = _moves(distribution, files)
    present = {*moved.values(), *distribution.files}
    placed: dict[str, str] = {}
    left_out = 0
    for path, text in links.items():
        here = distribution.destination(path)
        target = _link_destination(distribution, path, text)
        if here is None or target is None or here == target or here in present:
            left_out += 1
            continue
        placed[here] = relative_link(here, target)
    for here, text in distribution.links.items():
        if here not in present:
            placed.setdefault(here, text)
    # Only links that end, over however many others, at something that is there.
    directories = {str(parent) for path in (*present, *placed) for parent in Path(path).parents}
    there = present | directories
    kept = {here: text for here, text in placed.items() if follow(here, placed, directories) in there}
    left_out += len(placed) - len(kept)
    return Placement(tuple(sorted(moved.items())), tuple(sorted(kept.items())), left_out)


def _moves(distribution: Distribution, files: Iterable[str]) -> dict[str, str]:
    moved: dict[str, str] = {}
    taken = dict.fromkeys(distribution.files, "the table's own file")
    for path in files:
        to = distribution.destination(path)
        if to is None:
            continue
        if to in taken:
            raise InvalidPrefix(
                f"{path} and {taken[to]} both belong at {to}", next_step="correct the map in the table"
            )
        taken[to] = path
        moved[path] = to
    return moved


def _link_destination(distribution: Distribution, path: str, text: str) -> str | None:
    target = text.lstrip("/") if text.startswith("/") else normalise(path, text)
    return None if target is None else distribution.destination(target)


def upstream(version: str) -> str:
    """The version without what packaging adds: `1:5.2.3+dfsg-2` → `5.2.3`."""
    return re.split(r"[-+~]", version.partition(":")[2] or version, maxsplit=1)[0]
