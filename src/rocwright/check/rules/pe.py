"""Rules about Windows programs and DLLs, which are checked on any system."""

from __future__ import annotations

from rocwright.check.rules.base import Rule

RULES: tuple[Rule, ...] = ()
