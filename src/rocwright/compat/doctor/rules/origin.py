"""The rule about a set: is each distribution of the family the one that the set has?"""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import InvalidVersion, Version

from rocwright.compat.doctor import mend
from rocwright.compat.doctor.facts import Case, Distribution
from rocwright.compat.doctor.values import Finding, Whose
from rocwright.model.manifest import FileEntry, SetManifest


def whose(one: Distribution, manifest: SetManifest) -> tuple[Whose, str]:
    """Whether a distribution is the set's, and why (not).

    The file that it was installed from is known where an address was given; else METADATA tells, which
    installers copy as it is. Of what was built from an sdist only the version can be compared.
    """
    entries = [entry for entry in manifest.files if entry.project == one.name]
    if not entries:
        return "unknown", "the set has no such project"
    same = [entry for entry in entries if entry.version == _normal(one.version)]
    if not same:
        versions = ", ".join(sorted({entry.version for entry in entries}))
        return "other", f"the set has {versions}"
    if one.origin_sha256:
        known = {entry.sha256 for entry in same}
        if one.origin_sha256 in known:
            return "set", "installed from a file of the set"
        return (
            "other",
            f"installed from {one.origin}, whose sha256 {one.origin_sha256[:12]}… is none of the set's",
        )
    return _by_metadata(one, same)


def _normal(version: str) -> str:
    """As a manifest spells a version; METADATA may spell it in another way."""
    try:
        return str(Version(version))
    except InvalidVersion:
        return version


def _by_metadata(one: Distribution, same: list[FileEntry]) -> tuple[Whose, str]:
    digests = {entry.metadata_sha256 for entry in same if entry.metadata_sha256}
    if not digests:
        return "set", "the version is the set's (an sdist: there is no more to compare)"
    if one.metadata_sha256 in digests:
        return "set", "its METADATA is the set's"
    return "other", "the version is the set's, its METADATA is not: another build"


def from_set(case: Case) -> Iterator[Finding]:
    """Say of each distribution whether it is the set's; only with a set."""
    environment, manifest = case.environment, case.manifest
    assert environment is not None
    if manifest is None:
        return
    name = f"set {case.set_id[:12]}"
    versions = {entry.project: entry.version for entry in manifest.files}
    for one in environment.family:
        answer, why = whose(one, manifest)
        said = f"{one.name} {one.version}"
        if answer == "set":
            yield Finding("set", "ok", f"{said} is from {name}: {why}", about=one.name, section="environment")
        elif answer == "unknown":
            detail = f"{said} is not from {name}: {why}"
            yield Finding("set", "note", detail, about=one.name, section="environment")
        else:
            step = mend.install(case, f"{one.name}=={versions[one.name]}", again=True, alone=True)
            detail = f"{said} is not from {name}: {why}"
            yield Finding("set", "wrong", detail, step, one.name, "environment")
