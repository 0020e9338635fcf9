"""The catalogue: every rule, in the order in which it is applied and documented."""

from __future__ import annotations

from rocwright.check.context import Rule, SetRule
from rocwright.check.rules import (
    answers,
    archive,
    choice,
    commands,
    content,
    device,
    dist_info,
    elf,
    environment,
    metadata,
    needs,
    offers,
    pe,
    python,
    requires,
    rocm_init,
    sdists,
    sets,
    symbols,
    variant_sets,
    variants,
    versions,
)
from rocwright.model.findings import Clause

RULES: tuple[Rule, ...] = (
    *archive.RULES,
    *environment.RULES,
    *metadata.RULES,
    *dist_info.RULES,
    *requires.RULES,
    *answers.RULES,
    *sdists.RULES,
    *content.LEGAL_RULES,
    *content.RULES,
    *elf.RULES,
    *needs.RULES,
    *symbols.RULES,
    *rocm_init.RULES,
    *pe.RULES,
    *device.RULES,
    *python.RULES,
    *commands.RULES,
    *versions.RULES,
    *variants.RULES,
)
SET_RULES: tuple[SetRule, ...] = (
    *sets.RULES,
    *answers.SET_RULES,
    *choice.SET_RULES,
    *offers.RULES,
    *variant_sets.RULES,
    *sets.INSTALL_RULES,
)
# What is found before any rule can be applied, or where there is nothing to apply any to.
READABLE = Clause(
    "readable",
    "It is neither a wheel nor an sdist, has no valid name, is cut off, or cannot be opened.",
    next_step="build or fetch the file again",
    waivable=False,
)
ARCHIVE_BOMB = Clause(
    "archive-bomb",
    "The archive claims to unpack to far more than any package has; nothing was unpacked.",
    next_step="do not unpack or publish this file",
    waivable=False,
)
EMPTY_FOLDER = Clause(
    "empty-folder",
    "A directory has neither wheels nor sdists in it: an earlier step failed.",
    next_step="look for an earlier step that failed, or give another folder",
    waivable=False,
)
EXPECTED = Clause(
    "expected",
    "A project that should be there (`--expect`) is not.",
    next_step="build it, then check again",
    waivable=False,
)
STRUCTURE = Clause(
    "structure",
    "A strict reader refuses the wheel for a reason that no rule explains.",
    next_step="build the wheel again",
    waivable=False,
)
OWN_RULES = (READABLE, ARCHIVE_BOMB, EMPTY_FOLDER, EXPECTED, STRUCTURE)
