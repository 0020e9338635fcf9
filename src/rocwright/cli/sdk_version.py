"""`rocwright sdk compute-version`."""

from __future__ import annotations

from pathlib import Path

from rocwright.cli.answer import Answer, answers
from rocwright.errors import UsageError
from rocwright.model.version import COMMIT_TYPES, ReleaseType, rocm_package_versions
from rocwright.sdk.rocm_version import base_version, commit, today
from rocwright.system import console
from rocwright.system.workflow import tell_workflow


@answers
def compute_version(
    *,
    release_type: ReleaseType | None = None,
    custom_version_suffix: str | None = None,
    prerelease_version: str | None = None,
    override_base_version: str | None = None,
    override_git_sha: str | None = None,
    version_file: Path = Path("version.json"),
    date: str | None = None,
    bkc_date: str | None = None,
) -> Answer:
    """Say which version ROCm's packages get, as Python, Debian and RPM spell it.

    Prints `rocm_package_version=…`, `rocm_deb_package_version=…` and `rocm_rpm_package_version=…`, and
    appends the same lines to the file `$GITHUB_OUTPUT` where that is set. An empty option
    counts as not given.

    Parameters
    ----------
    release_type
        What kind of build it is.
    custom_version_suffix
        Instead of a release type: what stands behind the release, such as `.dev1+mine`.
    prerelease_version
        Number of the release candidate; with the release type prerelease.
    override_base_version
        The release, instead of what the version file says.
    override_git_sha
        The commit, instead of `$GITHUB_SHA` or HEAD of the repository that the version file lies in.
    version_file
        A JSON file with the release under `rocm-version`.
    date
        Day of the build as YYYYMMDD (default: today in UTC, or the day of `$SOURCE_DATE_EPOCH`).
    bkc_date
        Day of the bkc of a nightly-bkc build (default: as for the date).
    json
        Print the result as JSON.
    """
    if bool(release_type) == bool(custom_version_suffix):
        raise UsageError(
            "a version needs a release type or a suffix of its own, and not both",
            next_step="give either --release-type or --custom-version-suffix",
        )
    if (release_type == "prerelease") != bool(prerelease_version):
        raise UsageError(
            "--prerelease-version goes with --release-type prerelease, and only with it",
            next_step="give both, or neither",
        )
    if prerelease_version and not prerelease_version.isdecimal():
        raise UsageError(
            f"--prerelease-version is a number, not {prerelease_version!r}", next_step="write it like 2"
        )
    sha = override_git_sha
    if release_type in COMMIT_TYPES and not sha:
        sha = commit(version_file.absolute().parent)
    versions = rocm_package_versions(
        override_base_version or base_version(version_file),
        release_type=release_type,
        custom_suffix=custom_version_suffix or None,
        prerelease=int(prerelease_version) if prerelease_version else None,
        date=date or today(),
        sha=sha,
        bkc_date=bkc_date or today(),
    )
    named = {
        "rocm_package_version": versions.python,
        "rocm_deb_package_version": versions.deb,
        "rocm_rpm_package_version": versions.rpm,
    }
    lines = [f"{name}={value}" for name, value in named.items()]
    tell_workflow(lines)
    return Answer(named, lambda: console.out("\n".join(lines)))
