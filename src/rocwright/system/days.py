"""Which day it is, for what has a last day: bypasses, waivers, skip entries."""

from __future__ import annotations

from datetime import date, datetime, timezone


def today() -> date:
    """The day in UTC: the same on every machine of a run, whatever its time zone."""
    return datetime.now(timezone.utc).date()
