"""The catalogue: every rule, in the order in which it is applied and documented."""

from __future__ import annotations

from rocwright.check.rules import (
    archive,
    content,
    device,
    elf,
    elf_needed,
    elf_paths,
    installing,
    legal,
    metadata,
    offers,
    pe,
    preload,
    requires,
    sets,
    sizes,
)
from rocwright.check.rules.base import Rule, SetRule

RULES: tuple[Rule, ...] = (
    *archive.RULES,
    *sizes.RULES,
    *metadata.RULES,
    *requires.RULES,
    *legal.RULES,
    *content.RULES,
    *elf.RULES,
    *elf_paths.RULES,
    *elf_needed.RULES,
    *preload.RULES,
    *pe.RULES,
    *device.RULES,
)
SET_RULES: tuple[SetRule, ...] = (*sets.RULES, *offers.RULES, *installing.RULES)
