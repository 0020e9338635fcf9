"""The quick check of a build job: are the wheels it should have made there, whole, and for its Python?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from rocwright.check.contract import ContractTable
from rocwright.check.report import Report
from rocwright.check.run import check_paths
from rocwright.errors import UsageError
from rocwright.model.findings import Clause, Finding
from rocwright.wheel.tags import cp_version, serves

TAG = Clause(
    "sanity-tag",
    "The wheels of the family fit the Python and platform they were built for.",
    next_step="say what it is for (--python-version, --platform), or build it for that",
)
SIZE = Clause(
    "sanity-size",
    "They are not smaller than 100 KiB, which no build with kernels is.",
    severity="warning",
    next_step="look whether the build left something out",
)
NAME = Clause(
    "sanity-name",
    "Their version has a local part that names ROCm: `2.9.0+rocm7.10.0`.",
    severity="warning",
    next_step="build with a local version such as +rocm7.10.0",
)
# In the order in which a report names them.
BUILD_RULES = (SIZE, NAME, TAG)
# No library with kernels is this small.
_SMALL = 100 << 10
_VENDOR = "rocm"


def sanity_check(
    folder: Path,
    *,
    projects: Iterable[str],
    expect: Iterable[str],
    python: str,
    platform: str,
    targets: Iterable[str] | None = None,
    contract: ContractTable | None = None,
    jobs: int = 2,
) -> Report:
    """The wheel contract over a build's output folder, and what a build job knows besides.

    The projects in `expect` must be there. Wheels of `projects` must install with `python` (`3.12`) on
    `platform` (`linux`, `windows`); below 100 KiB, or without a local version that names ROCm, they are
    reported as unusual. Raises `UsageError` for what is no directory.
    """
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is no directory", next_step="give the directory that the build wrote wheels to"
        )
    cp_version(python)
    report = check_paths([folder], targets=targets, expect=expect, contract=contract, jobs=jobs)
    sizes = {name: (folder / name).stat().st_size for name in report.files if name.endswith(".whl")}
    wanted = frozenset(str(canonicalize_name(name)) for name in projects)
    findings = (*report.findings, *_unusual(sizes, wanted, python, platform))
    return msgspec.structs.replace(
        report, findings=findings, rules=(*report.rules, *(rule.id for rule in BUILD_RULES))
    )


def _unusual(
    sizes: Mapping[str, int], projects: frozenset[str], python: str, platform: str
) -> Iterator[Finding]:
    for name, size in sizes.items():
        try:
            project, version, _, tags = parse_wheel_filename(name)
        except InvalidWheelFilename:
            continue  # the rule `readable` has said so
        if project not in projects:
            continue
        if not serves(map(str, tags), python, platform):
            spelled = "-".join(name.removesuffix(".whl").split("-")[-3:])
            yield TAG.broken(name, f"its tag {spelled} does not fit Python {python} on {platform}")
        if size < _SMALL:
            yield SIZE.broken(name, f"it has {size} bytes, which is little for a build with kernels")
        if _VENDOR not in (version.local or ""):
            yield NAME.broken(name, f"its version {version} does not say which ROCm it is for")
