"""What the doctor says: findings, and all of them together."""

from __future__ import annotations

from typing import Literal

import msgspec

SCHEMA = "rocwright.doctor/1"

# `missing`: not there; `wrong`: there, and does not fit; `note`: worth knowing, no fault.
Verdict = Literal["ok", "note", "missing", "wrong"]
Section = Literal["machine", "environment"]
# Whose a distribution is, compared with the manifest of a set.
Whose = Literal["set", "other", "unknown"]


class Finding(msgspec.Struct, frozen=True):
    """One thing looked at: how it stands, and what mends it.

    `id` is one of `kinds.KINDS`, `about` what in particular (a distribution, a GPU), empty where there is
    but one. `next_step` is a command, or a sentence where none helps; empty where nothing is to be done.
    """

    id: str
    verdict: Verdict
    detail: str
    next_step: str = ""
    about: str = ""
    section: Section = "machine"

    @property
    def bad(self) -> bool:
        """Whether something is to be done."""
        return self.verdict in ("missing", "wrong")


class Installed(msgspec.Struct, frozen=True):
    """A distribution of the family: `whose` is None where there was no set to compare with."""

    name: str
    version: str
    directory: str
    whose: Whose | None = None


class Looked(msgspec.Struct, frozen=True):
    """The environment that was looked at; `torch` is `rocm`, `cuda`, `cpu`, or empty where there is none."""

    python: str
    version: str
    torch: str
    installed: tuple[Installed, ...]


class Diagnosis(msgspec.Struct, frozen=True):
    """All findings; `gpus` are targets of AMD GPUs, `environment` is None where none was looked at."""

    gpus: tuple[str, ...]
    findings: tuple[Finding, ...]
    environment: Looked | None = None
    schema: str = SCHEMA

    @property
    def missing(self) -> int:
        """How many things are missing or wrong."""
        return sum(finding.bad for finding in self.findings)
