"""Types of options that commands of several groups take: numbers in ranges, words, paths, GPU targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from os.path import commonprefix
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, Token

from rocwright.data import built_in_values, load_table
from rocwright.data.overlay import Overlay, changed, read_overlay
from rocwright.data.sources import advice
from rocwright.errors import RocwrightError
from rocwright.model.device_files import DeviceFiles, known_targets
from rocwright.model.gpu import Families, InvalidTarget, in_order, parse_targets
from rocwright.model.indexes import IndexTable
from rocwright.system import console
from rocwright.system.days import today


def _within(least: int, most: int | None = None) -> Callable[[object, float | None], None]:
    """A validator for numbers from `least` to `most`; its words stand behind the option and the value."""

    said = f"{least} or more" if most is None else f"between {least} and {most}"

    def require(_: object, value: float | None) -> None:
        # Asked this way round, no-number (nan) is refused, too.
        if value is not None and not (least <= value and (most is None or value <= most)):
            raise ValueError(f"is not {said}")

    return require


def _above_zero(_: object, value: float | None) -> None:
    if value is not None and not value > 0:
        raise ValueError("is not more than 0")


def _place(_: object, tokens: Sequence[Token]) -> Path:
    """A path; an empty one is a variable that was not set, and would stand for the current directory."""
    text = tokens[0].value
    if not text.strip():
        raise ValueError("the path is empty")
    return Path(text)


_ONE_OR_MORE = Parameter(validator=_within(1))
_ABOVE_ZERO = Parameter(validator=_above_zero)

Count = Annotated[int, _ONE_OR_MORE]
OptionalCount = Annotated[int | None, _ONE_OR_MORE]
# Seconds, gigabytes.
Amount = Annotated[float, _ABOVE_ZERO]
OptionalAmount = Annotated[float | None, _ABOVE_ZERO]
# How hard zstd compresses.
Level = Annotated[int, Parameter(validator=_within(1, 22))]
# 0 takes a free one.
Port = Annotated[int, Parameter(validator=_within(0, 65535))]
# What says nothing where it is not given; a word of `Repeated` may hold spaces, so each has its own option.
# `Words` are one at least: an empty variable of a shell must not mean all.
Text = Annotated[str, Parameter(show_default=False)]
Repeated = Annotated[tuple[str, ...], Parameter(negative_iterable=(), show_default=False)]
Words = Annotated[tuple[str, ...], Parameter(negative_iterable=(), consume_multiple=1, show_default=False)]
Files = Annotated[tuple[Path, ...], Parameter(negative_iterable=(), show_default=False)]
# A directory or an interpreter; a place to write to.
Place = Annotated[Path | None, Parameter(converter=_place)]
OutputDir = Annotated[Path, Parameter(converter=_place)]


def tell_age(*tables: str) -> None:
    """Say, once, on stderr, where facts that a command rests on are older than they keep."""
    try:
        overlay = read_overlay()
    except RocwrightError:
        # Who reads it for more than this says what is wrong with it.
        overlay = None
    if text := advice(tables, today(), overlay):
        console.say(text)


def tell_changes(overlay: Overlay | None, *tables: str) -> None:
    """Say, on stderr, what a rocwright.toml changes of tables by which results come about."""
    if overlay is None:
        return
    for name in tables:
        found = list(changed(built_in_values(name), overlay.tables.get(name, {})))
        rows = Counter(one.path for one in found if not one.before)
        told = [f"{name}.{path}: {count} more" for path, count in rows.items()]
        told += [f"{name}.{one.path}: {_cut(one.before)} -> {_cut(one.after)}" for one in found if one.before]
        for line in told:
            console.say(f"note: {Path(overlay.where).absolute()} changes {line}")


def _cut(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


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
                f"{target} is not a known GPU target",
                next_step=f"{_perhaps(target.base, known)}`rocwright data explain families` shows them all",
            )
    return tuple(map(str, targets))


def meant_index(
    url: str | None, name: str, subdir: str = "", *, version: str | None = None, config: Path | None = None
) -> str | None:
    """The address that --index-url, --index-name and --index-subdir mean; says what replaced an older index.

    `version` is the one of ROCm that is wanted, if one alone is. Errors as in `IndexTable.address`.
    """
    table = load_table("indexes", IndexTable, read_overlay(config))
    address = table.address(url, name.strip(), subdir.strip(), version)
    tell_replaced(address, config)
    return address


def tell_replaced(url: str | None, config: Path | None = None) -> None:
    """Say what took the place of an index, where something did."""
    replaced = load_table("indexes", IndexTable, read_overlay(config)).notice(url)
    if replaced:
        console.say(f"note: {replaced}")


def _perhaps(base: str, known: Collection[str]) -> str:
    """The known targets that are spelled alike; of those the ones that begin alike: gfx1100 for gfx1109."""
    alike = get_close_matches(base, known, n=len(known))
    # No paths, and meant letter by letter.
    nearest = sorted(alike, key=lambda one: -len(commonprefix((one, base))))[:4]  # noqa: RUF071
    return f"perhaps {' or '.join(in_order(nearest))}; " if nearest else ""
