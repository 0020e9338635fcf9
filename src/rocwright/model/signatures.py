"""The table `signatures`: what of a failure's words tells its cause, and which causes are the machine's."""

from __future__ import annotations

import re

import msgspec


class InfraRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cause that is the machine's, not the wheels': its name, and regular expressions, one of which its
    message contains. Case does not matter."""

    kind: str
    patterns: tuple[str, ...]

    def __post_init__(self) -> None:
        for pattern in self.patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                # As a ValueError it becomes a message that names the row.
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from error


class SignatureTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table.

    `variants` are the ends of test names that stand for a device or data type: the same test on another one
    fails for the same cause. `vague` are regular expressions for messages that say nothing of the cause by
    themselves: the test's name becomes part of their signature.
    """

    variants: tuple[str, ...]
    vague: tuple[str, ...]
    infra: tuple[InfraRow, ...]

    def __post_init__(self) -> None:
        for pattern in self.vague:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from error


def infra_kind(text: str, table: SignatureTable) -> str:
    """The kind of the first row that the text fits; empty where the cause is none of the machine's."""
    for row in table.infra:
        if any(re.search(pattern, text, re.IGNORECASE) for pattern in row.patterns):
            return row.kind
    return ""
