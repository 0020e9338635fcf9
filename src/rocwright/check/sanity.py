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
from rocwright.model.findings import Finding, Severity
from rocwright.wheel.tags import cp_version, serves

SIZE, NAME, TAG = "sanity-size", "sanity-name", "sanity-tag"
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
    return msgspec.structs.replace(report, findings=findings, rules=(*report.rules, SIZE, NAME, TAG))


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
            cause = f"its tag {spelled} does not fit Python {python} on {platform}"
            next_step = "say what it is for (--python-version, --platform), or build it for that"
            yield _finding(TAG, "error", name, cause, next_step)
        if size < _SMALL:
            cause = f"it has {size} bytes, which is little for a build with kernels"
            yield _finding(SIZE, "warning", name, cause, "look whether the build left something out")
        if _VENDOR not in (version.local or ""):
            cause = f"its version {version} does not say which ROCm it is for"
            yield _finding(NAME, "warning", name, cause, "build with a local version such as +rocm7.10.0")


def _finding(rule: str, severity: Severity, file: str, cause: str, next_step: str) -> Finding:
    return Finding(rule, severity, file, cause, next_step)
