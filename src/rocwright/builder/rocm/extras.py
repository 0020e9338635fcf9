"""Extras that the installed `rocm` package offers: pip only warns of one that is not there, and goes on."""

from __future__ import annotations

from collections.abc import Sequence
from email.parser import BytesHeaderParser
from pathlib import Path

from packaging.utils import canonicalize_name

from rocwright.builder.rocm.rocm import Rocm
from rocwright.errors import InvalidInput

# Every build gets these, asked for or not.
ALWAYS = ("libraries", "devel")


def offered_extras(rocm: Rocm) -> frozenset[str]:
    """Canonical names of the extras of a packaged ROCm; none for other ROCms."""
    if rocm.origin != "packages" or not rocm.site:
        return frozenset()
    return frozenset(
        canonicalize_name(name)
        for path in Path(rocm.site).glob("rocm-*.dist-info/METADATA")
        for name in BytesHeaderParser().parsebytes(path.read_bytes()).get_all("Provides-Extra", [])
    )


def require_extras(rocm: Rocm, extras: Sequence[str]) -> None:
    """Raise `InvalidInput` for extras that this ROCm does not offer, with those that it does."""
    offered = offered_extras(rocm)
    missing = [name for name in dict.fromkeys(extras) if canonicalize_name(name) not in offered]
    if missing:
        others = ", ".join(sorted(offered - set(ALWAYS)))
        raise InvalidInput(
            f"ROCm {rocm.version} offers no extra {', '.join(missing)}",
            next_step=f"--rocm-extras can name: {others}" if others else "leave --rocm-extras out",
        )
