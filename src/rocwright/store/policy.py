"""How the policy of channels differs from the built-in one: who promotes by another says so."""

from __future__ import annotations

from collections.abc import Iterator

from rocwright.data import built_in_values
from rocwright.data.overlay import Overlay, as_json, changed
from rocwright.model.channels import PolicyChange

# What decides whether a set may go into a channel; not where things lie, nor for how long they stay.
_POLICY = ("channel", "suite", "trusted", "overrides", "bypass")


def policy_changes(overlay: Overlay | None) -> tuple[PolicyChange, ...]:
    """What a rocwright.toml changes of what opens a gate: channels, suites, keys, overrides, bypasses."""
    return () if overlay is None else tuple(_changes(overlay))


def _changes(overlay: Overlay) -> Iterator[PolicyChange]:
    for row in overlay.tables.get("families", {}).get("family", ()):
        for platform, place in row.items():
            if isinstance(place, dict) and "bypass" in place:
                field = f"families.{row.get('name')}.{platform}.bypass"
                yield PolicyChange(field, "", as_json(place["bypass"]), overlay.name, overlay.sha256)
    over = {key: value for key, value in overlay.tables.get("channels", {}).items() if key in _POLICY}
    for path, before, after in changed(built_in_values("channels"), over):
        yield PolicyChange(f"channels.{path}", before, after, overlay.name, overlay.sha256)
