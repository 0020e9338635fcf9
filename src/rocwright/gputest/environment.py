"""The environment of test processes: what is set for them and what is taken away, never for the caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from rocwright.model.platforms import Platform
from rocwright.model.suites import SuiteTable

# Read by the plugin that applies skip entries: run what they are for, and nothing else.
ONLY_ENTRIES = "ROCWRIGHT_SKIPS_ONLY"
_SEPARATORS = {"linux": ":", "windows": ";"}
# Read by torch's own test helpers: which devices the device-generic tests are made for, and whether what is
# known not to work on ROCm is left out.
_ONLY_FOR = "PYTORCH_TESTING_DEVICE_ONLY_FOR"
_WITH_ROCM = "PYTORCH_TEST_WITH_ROCM"


@dataclass(frozen=True)
class ChildEnvironment:
    """Variables that are set for the child, and names that it does not inherit."""

    set: dict[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()

    def with_(self, more: Mapping[str, str]) -> ChildEnvironment:
        """This environment with more variables; one that is set is not removed."""
        return ChildEnvironment(
            {**self.set, **more}, tuple(name for name in self.removed if name not in more)
        )


def child_environment(
    table: SuiteTable,
    *,
    tests_dir: PurePath,
    miopen_cache: PurePath,
    platform: Platform,
    inherited: Mapping[str, str],
    device: Literal["cuda", "cpu"] = "cuda",
    rocm: bool = True,
) -> ChildEnvironment:
    """What test processes get besides the caller's environment, on `platform`.

    `device` is the device that torch's device-generic tests are made for; on a machine without a GPU `cuda`
    would leave none of them. A torch that is not built for ROCm must not be told to skip what ROCm cannot do.
    `inherited` is the caller's environment; its PYTHONPATH stays, behind the directory of the tests.
    """
    variables = {**table.environment.set, _ONLY_FOR: device}
    removed = list(table.environment.removed)
    if not rocm:
        variables.pop(_WITH_ROCM, None)
        removed.append(_WITH_ROCM)
    variables["MIOPEN_CUSTOM_CACHE_DIR"] = str(miopen_cache)
    # An empty entry would stand for the current directory.
    parts = [str(tests_dir), *filter(None, inherited.get("PYTHONPATH", "").split(_SEPARATORS[platform]))]
    variables["PYTHONPATH"] = _SEPARATORS[platform].join(parts)
    return ChildEnvironment(dict(sorted(variables.items())), tuple(sorted(set(removed))))
