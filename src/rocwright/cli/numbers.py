"""Numbers that options take, each with the range in which it means something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from cyclopts import Parameter


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
