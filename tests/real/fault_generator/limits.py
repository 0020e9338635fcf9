"""What neither the files nor an installation tell: faults of these kinds may pass a check.

Each is described under its name in `docs/explanation/limits.md`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple


class Limit(NamedTuple):
    """Operators that make faults of a kind, and how such a fault shows in a client.

    What stops the import of a package itself is no limit, since an installation is proved by that, unless
    it could be that a machine lacks something.
    """

    operators: frozenset[str]
    shows: re.Pattern[str]


LIMITS = {
    "machine code and tables of a library": Limit(
        frozenset({
            "byte_of_section_flipped", "code_overwritten", "dynamic_entry_changed", "relocation_changed",
            "stripped_too_far", "symbol_hidden",
        }),
        re.compile(r"\w+: (the interpreter ends: exit status -\d+|libraries |imports \w+\.)"),
    ),
    "what Python code does": Limit(
        frozenset({
            "definition_renamed", "import_of_build_machine", "indentation_shifted", "left_from_debugging",
            "line_deleted", "literal_changed", "members_swapped", "misspell_an_import", "name_misspelt",
            "other_bytes_fetched", "template_not_filled",
        }),
        re.compile(r"\w+: (the interpreter ends: exit status \d|imports \w+\.|rocm-sdk )"),
    ),
    "what an import asks of the machine": Limit(
        frozenset({
            "import_of_build_machine", "indentation_shifted", "left_from_debugging", "newer_c_library",
        }),
        re.compile(
            r"\w+: imports [\w.]+: (AssertionError|FileNotFoundError|ModuleNotFoundError"
            r"|KeyError: '[A-Z_]+'|RuntimeError: HIP error|ImportError: \S+: version `)"
        ),
    ),
    "what an sdist's modules lack": Limit(
        frozenset({"source_distribution_damaged"}), re.compile(r"\w+: (imports \w+\.|rocm-sdk )")
    ),
}  # fmt: skip


def limit_of(row: Mapping[str, Any]) -> str | None:
    """The limit that a sample's breaks are all of."""
    for name, limit in LIMITS.items():
        if limit.operators & {*row["operators"]} and all(map(limit.shows.match, row["breaks"])):
            return name
    return None
