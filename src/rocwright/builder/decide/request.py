"""What a user asks of a build, parsed; nothing here was looked up on the machine."""

from __future__ import annotations

import msgspec

CACHES = ("ccache", "sccache")


class BuildRequest(msgspec.Struct, frozen=True):
    """One request to build.

    `sources` maps projects to the absolute directories of their checkouts, `build` says of a project that it
    is wanted or not (absent: it is when its directory is known). `pythons` are versions such as `3.12` or
    `3.13t` (empty: the one that runs). `version_suffix` starts with `+` (None: derived from the ROCm),
    `flash_attention` None means by the rule. `editable` names projects that are installed from their tree,
    `split` asks for host and device wheels. `cache` is empty or one of `CACHES`; `cache_hip` False keeps it
    away from HIP code. `part` are those of `targets` that device code is compiled for (empty: all of them).
    """

    sources: dict[str, str]
    platform: str
    targets: tuple[str, ...]
    pythons: tuple[str, ...] = ()
    release_type: str = "nightly"
    version_suffix: str | None = None
    build_number: int = 1
    clean: bool = False
    flash_attention: bool | None = None
    editable: tuple[str, ...] = ()
    split: bool = False
    cache: str = ""
    cache_hip: bool = True
    build: dict[str, bool] = {}
    jobs: int | None = None
    part: tuple[str, ...] = ()
