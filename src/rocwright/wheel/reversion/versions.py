"""The version of ROCm inside a version and inside requirements, and the same ones with another version.

Only the part that is ROCm's changes: of ROCm's own packages the public version (`7.13.0rc2`), of frameworks
the segment of the local version that names it (`2.10.0a0+rocm7.13.0rc2`). Everything goes through the parts
that packaging tells apart: replacing text has turned alphas of torch into releases and changed commit hashes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, Specifier
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion as _PackagingInvalid
from packaging.version import Version

from rocwright.errors import InvalidWheel, UsageError
from rocwright.model.version import InvalidVersion, parse_version

_ROCM = re.compile(r"rocm[0-9].*")
_FIRST = re.compile(r"rocm(?P<number>[0-9]+)(?P<pre>(a|b|rc)[0-9]+)?")
_NEXT = re.compile(r"[0-9]+(?P<pre>(a|b|rc)[0-9]+)?")
_MORE = re.compile(r"(dev|post)[0-9]+")
_SHORT = re.compile(r"rc(0|[1-9][0-9]*)|a[0-9]{8}")
_NUMBERS = 3  # of ROCm's releases; what follows is a commit or another label
_DATE = 8
_CLAUSE = re.compile(r"(?P<operator>===|==|~=|>=|<=)(?P<space>\s*)(?P<version>[^\s,;()]+)")
EXACT = ("==", "===")


class Rule(msgspec.Struct, frozen=True):
    """What the version of ROCm becomes: the release itself (`pre` empty), `rc2`, `a20260430`.

    `base` is the release that it must be of, None for that of the version at hand.
    """

    pre: str
    base: str | None = None


def parse_rule(text: str) -> Rule:
    """`release`, `rc2`, `a20260430`, or a whole version such as `7.13.0` or `7.13.0rc2`.

    Raises `UsageError` for anything else.
    """
    if text == "release":
        return Rule("")
    if _SHORT.fullmatch(text):
        return Rule(text)
    try:
        version = parse_version(text)
        pre = "" if version.pre is None else "{}{}".format(*version.pre)
        plain = f"{version.base_version}{pre}" == text and (not pre or _SHORT.fullmatch(pre) is not None)
    except InvalidVersion:
        plain = False
    if not plain:
        raise UsageError(
            f"{text!r} is not a version that a candidate or nightly can become",
            next_step="give release, a candidate (rc2), a nightly (a20260430), or the version (7.13.0)",
        )
    return Rule(pre, version.base_version)


def rocm_version(version: Version, *, own: bool) -> Version | None:
    """The version of ROCm that a version names, without ROCm's own local part; None where it names none.

    `own` says that the project is one of ROCm's. Raises `InvalidVersion` where it is not plain which one.
    """
    if own:
        return Version(version.public)
    place = _place(version)
    return None if place is None else place.version


def new_version(version: Version, rule: Rule, *, own: bool) -> Version:
    """The version with another version of ROCm in it; the same where it names none.

    `2.10.0a0+rocm7.13.0a20260430.asan` becomes `2.10.0a0+rocm7.13.0.asan`. Raises `InvalidVersion` for forms
    that are no candidate and no nightly, and `UsageError` where ROCm's version already is what is wanted.
    """
    if own:
        local = f"+{version.local}" if version.local else ""
        return Version(f"{_converted(Version(version.public), rule, version)}{local}")
    place = _place(version)
    if place is None:
        return version
    new = f"rocm{_converted(place.version, rule, version)}"
    segments = [*place.before, new, *place.behind]
    return Version(f"{version.public}+{'.'.join(segments)}")


class _Place(msgspec.Struct, frozen=True):
    """The segments of a local version before and behind those that are ROCm's."""

    before: tuple[str, ...]
    version: Version
    behind: tuple[str, ...]


def _place(version: Version) -> _Place | None:
    segments = (version.local or "").split(".")
    if any(segment.startswith("devrocm") for segment in segments):
        raise _unknown(version, "it was built against a development version of ROCm")
    found = [number for number, segment in enumerate(segments) if _ROCM.fullmatch(segment)]
    if not found:
        return None
    if len(found) > 1:
        raise _unknown(version, "it names ROCm twice")
    start = found[0]
    first = _FIRST.fullmatch(segments[start])
    if first is None:
        raise _unknown(version, f"{segments[start]} is not a version number of ROCm")
    text, ended, stop = segments[start][len("rocm") :], first["pre"] is not None, start + 1
    while not ended and stop - start < _NUMBERS and stop < len(segments):
        following = _NEXT.fullmatch(segments[stop])
        if following is None:
            break
        text, ended, stop = f"{text}.{segments[stop]}", following["pre"] is not None, stop + 1
    while stop < len(segments) and _MORE.fullmatch(segments[stop]):
        text, stop = f"{text}.{segments[stop]}", stop + 1
    return _Place(tuple(segments[:start]), parse_version(text), tuple(segments[stop:]))


def _converted(rocm: Version, rule: Rule, whole: Version) -> str:
    """ROCm's version as the rule wants it."""
    if rocm.dev is not None:
        raise _unknown(whole, "it is a development version, which is built again for a release")
    if rule.base is not None and Version(rule.base).release != rocm.release:
        raise UsageError(
            f"{whole} is of ROCm {rocm.base_version} and cannot become {rule.base}{rule.pre}",
            next_step=f"give a version of {rocm.base_version}; another release has to be built",
        )
    wanted = f"{rocm.base_version}{rule.pre}"
    if rocm.pre is None or str(rocm) == wanted:
        raise UsageError(
            f"{whole} carries ROCm {rocm}, " + ("its final version" if rocm.pre is None else "as wanted"),
            next_step="promote it as it is: promotion changes no file and needs no other version",
        )
    kind, number = rocm.pre
    if rocm.post is not None or kind not in ("a", "rc") or (kind == "a" and len(str(number)) != _DATE):
        raise _unknown(whole, f"{rocm} is neither a candidate (7.13.0rc2) nor a nightly (7.13.0a20260430)")
    return wanted


def _unknown(version: Version, why: str) -> InvalidVersion:
    return InvalidVersion(
        f"{version} cannot get another version: {why}",
        next_step="give a release candidate or a nightly; build anything else again with the new version",
    )


class Change(msgspec.Struct, frozen=True):
    """A version and the one that takes its place."""

    old: Version
    new: Version


def parse_requirement(text: str, file: str) -> Requirement:
    """A requirement; raises `InvalidWheel` naming the file."""
    try:
        return Requirement(text)
    except (InvalidRequirement, RecursionError) as error:
        raise InvalidWheel(f"{file} requires {text!r}: {error}", where=file) from error


def edit_requirement(text: str, changes: Mapping[str, Sequence[Change]], file: str) -> str:
    """A requirement with the clauses that name an old version naming the new one; all else as written.

    `changes` are by normalised project. Name, extras, markers and addresses are never touched.
    """
    requirement = parse_requirement(text, file)
    mine = changes.get(canonicalize_name(requirement.name), ())
    if not mine or requirement.url is not None:
        return text
    # No quoted text stands before the first semicolon: what follows it is the marker.
    head, mark, tail = text.partition(";")

    def replaced(match: re.Match[str]) -> str:
        new = _replacement(match["operator"], match["version"], mine)
        return match[0] if new is None else f"{match['operator']}{match['space']}{new}"

    edited = _CLAUSE.sub(replaced, head) + mark + tail
    again = parse_requirement(edited, file)
    if (again.name, again.extras, str(again.marker)) != (
        requirement.name, requirement.extras, str(requirement.marker)
    ):  # fmt: skip
        raise InvalidWheel(f"{file} requires {text!r}, which is not understood", where=file)
    return edited


def _replacement(operator: str, text: str, changes: Sequence[Change]) -> str | None:
    """The version that a clause names from now on; None for the one it has."""
    try:
        version = Version(text)
    except _PackagingInvalid:
        return None
    for change in changes:
        if version == change.old:
            return str(change.new)
        # `==7.13.0rc1` accepts 7.13.0rc1+asan.
        if operator != "===" and version == Version(change.old.public):
            return change.new.public
    return None


def exact_versions(requirement: Requirement) -> list[str]:
    """The versions that a requirement pins; patterns (`==7.*`) pin none."""
    return [
        clause.version
        for clause in requirement.specifier
        if clause.operator in EXACT and not clause.version.endswith(".*")
    ]


def accepts(requirement: Requirement, versions: Sequence[Version]) -> bool:
    """Whether any of the versions satisfies a requirement."""
    return any(requirement.specifier.contains(version, prereleases=True) for version in versions)


def parsed_pin(text: str) -> Version | None:
    """The version of a pin; None for what is none (`===anything`)."""
    try:
        Specifier(f"=={text}")
        return Version(text)
    except (InvalidSpecifier, _PackagingInvalid):
        return None
