"""What the version of a torch wheel says."""

from __future__ import annotations

import re

_ROCM = re.compile(r"rocm(?P<version>[0-9]+(?:\.[0-9a-z]+)*)")


def rocm_of(version: str) -> str:
    """The ROCm that a wheel names in its version: 7.10.0 for `2.10.0+rocm7.10.0`; empty without one."""
    match = _ROCM.search(version.partition("+")[2])
    return match["version"] if match else ""
