"""Versions of the wheels: from the project's own, the ROCm, the release type and the commit."""

from __future__ import annotations

import re

from rocwright.builder.decide.recipe import Recipe
from rocwright.builder.decide.request import BuildRequest
from rocwright.builder.decide.tree import SourceFacts
from rocwright.builder.rocm.rocm import VERSION, Rocm
from rocwright.errors import UsageError
from rocwright.model.version import GIT_TYPES, check_pattern, rocm_suffix, with_commit, with_suffix

# A local version (PEP 440), with the separators that are normalized to dots.
_SUFFIX = re.compile(r"\+[a-z0-9]+([-_.][a-z0-9]+)*", re.IGNORECASE)
# In a plan without a ROCm, for the two numbers that a release accepts every patch level of.
_MAJOR_MINOR = "${ROCM_MAJOR}.${ROCM_MINOR}.*"


def local_suffix(wanted: BuildRequest, rocm: Rocm) -> str:
    """`+rocm7.10.0`: what was given, else what the ROCm's version says."""
    given = wanted.version_suffix
    if given is None:
        return f"+rocm{VERSION}" if rocm.version == VERSION else rocm_suffix(rocm.version)
    if not _SUFFIX.fullmatch(given):
        raise UsageError(
            f"version suffix {given!r} must start with '+', and have letters, digits and dots behind it",
            next_step="write it like --version-suffix +rocm7.10.0",
        )
    return given


def project_suffix(wanted: BuildRequest, rocm: Rocm, tree: SourceFacts, project: str) -> str:
    """The local suffix of one project's wheel: builds of a commit carry it, `+git1a2b3c4d.rocm7.10.0`."""
    suffix = local_suffix(wanted, rocm)
    if wanted.release_type not in GIT_TYPES:
        return suffix
    if not tree.commit:
        raise UsageError(
            f"a {wanted.release_type} wheel carries its commit, and {tree.directory} is no git checkout",
            next_step=f"check {project} out with git, or give another --release-type",
        )
    return with_commit(suffix, tree.commit)


def planned_version(recipe: Recipe, tree: SourceFacts, wanted: BuildRequest, suffix: str) -> tuple[str, str]:
    """What the version variable says, and the version that the wheel then has; empty where no recipe sets it.

    They differ for builds of a number: torch counts them in the version itself.
    """
    if not recipe.version_env:
        return "", ""
    version = tree.version + suffix
    if VERSION not in version:
        version = with_suffix(tree.version, suffix)
    if wanted.build_number > 1 and recipe.number_suffix:
        return version, version + recipe.number_suffix.format(number=wanted.build_number)
    return version, version


def joined_suffix(first: str, second: str) -> str:
    """Two local suffixes as one: a version has one plus sign only."""
    return second if not first else f"{first}.{second[1:]}" if "+" in first else first + second


def version_check(rocm: Rocm, release_type: str) -> str:
    """What the generated module compares the ROCm at run time with."""
    if rocm.version != VERSION:
        return check_pattern(rocm.version, release_type)
    exact = check_pattern("1.2.3", release_type) == "1.2.3"
    return VERSION if exact else _MAJOR_MINOR
