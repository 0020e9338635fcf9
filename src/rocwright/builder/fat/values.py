"""A fat wheel as decided: what is read, what changes, what goes in."""

from __future__ import annotations

import msgspec


class BundledFile(msgspec.Struct, frozen=True):
    """A file of ROCm: `path` in the wheel, `source` on disk; `rpath` what it gets (Linux libraries)."""

    path: str
    source: str
    size: int
    rpath: tuple[str, ...] | None = None


class WheelChange(msgspec.Struct, frozen=True):
    """What becomes of one wheel: `source` is read, `output` written.

    `texts` are members with new content (their names as in the source), `rpaths` libraries with a new RPATH.
    `dist_info` and `metadata` are those of the output. `dropped` are requirements that it no longer has.
    """

    source: str
    output: str
    version: str
    dist_info: str
    metadata: str
    texts: dict[str, str] = {}
    rpaths: dict[str, tuple[str, ...]] = {}
    dropped: tuple[str, ...] = ()


class FatPlan(msgspec.Struct, frozen=True):
    """Everything that `write_fat` does; torch is the first of `wheels`, the only one with `files`.

    `licences` and `boms` map paths below the new `.dist-info` to files, `bill` is the text of one more bill
    of materials. `preload` are paths below the ROCm inside, in order; `notes` are sentences for the user.
    """

    platform: str
    rocm: str
    rocm_version: str
    wheels: tuple[WheelChange, ...]
    files: tuple[BundledFile, ...]
    licences: dict[str, str] = {}
    boms: dict[str, str] = {}
    bill: str = ""
    preload: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
