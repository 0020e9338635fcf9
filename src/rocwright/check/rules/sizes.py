"""Rules about sizes: within the budget, and not grown since the previous set."""

from __future__ import annotations

from rocwright.check.rules.base import Rule

RULES: tuple[Rule, ...] = ()
