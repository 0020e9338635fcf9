"""How the distributions of ROCm and the packages inside them are called."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rocwright.errors import UsageError

_SUFFIX = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(frozen=True)
class Named:
    """A distribution, and its package with files in site-packages (`_rocm_sdk_core`)."""

    distribution: str
    module: str

    @property
    def pure(self) -> str:
        """The public package; named after the distribution, so that no two wheels own one path."""
        return self.module.removeprefix("_")

    @property
    def facts(self) -> dict[str, object]:
        """What the `rocm` package knows of it."""
        return {"distribution": self.distribution, "module": self.module}


def _named(distribution: str) -> Named:
    return Named(distribution, "_" + distribution.replace("-", "_"))


CORE = _named("rocm-sdk-core")
DEVEL = _named("rocm-sdk-devel")
PROFILER = _named("rocm-profiler")
LIBRARIES = _named("rocm-sdk-libraries")
REFUSAL = "rocm-sdk-device"
"""The sdist behind `rocm[device]`, which fails and says which device extras there are."""


def libraries_of(family: str) -> Named:
    """The libraries with their device code, for one family."""
    return _named(f"rocm-sdk-libraries-{normal(family)}")


def device(word: str) -> Named:
    """Device code and databases for a target or group; they lie in the libraries package."""
    return Named(f"rocm-sdk-device-{normal(word)}", LIBRARIES.module)


def normal(text: str) -> str:
    """A family or target as a part of names; raises `UsageError` for text that cannot be one."""
    if not _SUFFIX.fullmatch(text):
        raise UsageError(
            f"{text!r} cannot be part of a package name", next_step="use letters, digits, and - between them"
        )
    return re.sub(r"[-_.]+", "-", text).lower()
