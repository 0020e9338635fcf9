"""Families of GPUs: names as people write them, and the table and matrices that workflows read. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rocwright.device_code.tree.names import packages_of
from rocwright.errors import UsageError
from rocwright.model.gpu import InvalidTarget, expand, spelled
from rocwright.model.plan import ProfileTable, Tier
from rocwright.model.platforms import PLATFORMS
from rocwright.model.runners import Bypass, Pool, Runners
from rocwright.pipeline.define.inputs import Known

_AUTO = ("", "auto", "built")
_NONE = ("none", "skip")


def words(text: str) -> tuple[str, ...]:
    """A list separated by spaces, `,` or `;`, without repeats."""
    return tuple(dict.fromkeys(word for word in re.split(r"[\s,;]+", text) if word))


def family_names(
    given: Iterable[str], runners: Runners, families: Mapping[str, Sequence[str]], *, where: str
) -> tuple[str, ...]:
    """Families of the table by name, by target, or by how the name begins, whatever the case.

    Raises `InvalidTarget` naming `where` it was written and listing the known families.
    """
    return tuple(dict.fromkeys(_family(name, runners, families, where) for name in given))


def _family(name: str, runners: Runners, families: Mapping[str, Sequence[str]], where: str) -> str:
    rows = list(dict.fromkeys(row.name for row in runners.rows))
    targets = {target for members in families.values() for target in members}
    if name in rows or name in families:
        return name
    head = name.partition("-")[0].lower()
    near = [row for row in rows if row.lower() == name.lower()]
    near = near or [row for row in rows if row.partition("-")[0].lower() == head]
    if len(near) == 1:
        return near[0]
    if spelled(name, targets) in targets:
        return spelled(name, targets)
    raise InvalidTarget(
        f"{where} names {name!r}, which is not a known family", next_step=f"families: {' '.join(rows)}"
    )


def on_platform(names: Sequence[str], platform: str, runners: Runners) -> tuple[str, ...]:
    """Those that are built on a platform; what has no row may be tried anywhere."""
    return tuple(
        name for name in names if runners.row(name) is None or runners.on(name, platform) is not None
    )


def asked_for(
    text: str,
    platforms: Sequence[str],
    runners: Runners,
    families: Mapping[str, Sequence[str]],
    *,
    where: str,
) -> dict[str, tuple[str, ...]]:
    """`all`, `none` or names: the families that an input asks for, by platform.

    Raises `UsageError` for a family that is built on none of the platforms, and for `all` or `none` beside
    other names.
    """
    given = words(text)
    special = [word for word in given if word.lower() in ("all", "none")]
    if special and len(given) > 1:
        raise UsageError(
            f"{where} has {special[0]!r} together with other names: {text!r}",
            next_step="give one of them alone",
        )
    if special:
        every = special[0].lower() == "all"
        return {one: runners.tier_families(one, "nightly") if every else () for one in platforms}
    names = family_names(given, runners, families, where=where)
    found = {one: on_platform(names, one, runners) for one in platforms}
    missing = [name for name in names if not any(name in held for held in found.values())]
    if missing and platforms:
        there = dict.fromkeys(name for one in platforms for name in runners.tier_families(one, "nightly"))
        raise UsageError(
            f"{where} names {', '.join(missing)}, which is not built on {' or '.join(platforms)}",
            next_step=f"families there: {' '.join(there)}",
        )
    return found


class MatrixRow(msgspec.Struct, frozen=True):
    """A family on a platform, under the names that workflows know."""

    family: str
    tier: Tier
    platform: str
    targets: tuple[str, ...]
    test_runs_on: str = msgspec.field(name="test-runs-on", default="")
    labels: tuple[Pool, ...] = msgspec.field(name="test-runs-on-labels", default=())
    multi_gpu: str = msgspec.field(name="test-runs-on-multi-gpu", default="")
    kernels: dict[str, str] = msgspec.field(name="test-runs-on-kernel", default_factory=dict)
    benchmark: str = msgspec.field(name="benchmark-runs-on", default="")
    fetch_targets: tuple[str, ...] = msgspec.field(name="fetch-gfx-targets", default=())
    variants: tuple[str, ...] = msgspec.field(name="build_variants", default=())
    bypass_tests_for_releases: bool = False
    bypass: Bypass | None = None
    sanity_check_only_for_family: bool = False
    nightly_check_only_for_family: bool = False
    submodule_bump_tests_only: bool = False
    expect_failure: bool = False

    def shown(self) -> tuple[str, ...]:
        """Cells of a row for people."""
        notes = {
            "nightly only": self.nightly_check_only_for_family,
            "where ROCm changed": self.submodule_bump_tests_only,
            "first tests only": self.sanity_check_only_for_family,
            "expected to fail": self.expect_failure,
            f"bypass until {self.bypass.until}: {self.bypass.reason}" if self.bypass else "": self.bypass,
        }
        labels = " ".join(
            pool.label if len(self.labels) == 1 else f"{pool.label}({pool.weight})" for pool in self.labels
        )
        said = "; ".join(note for note, holds in notes.items() if holds)
        return self.family, self.tier, self.platform, " ".join(self.targets), labels or "none", said


def family_rows(
    known: Known, given: Sequence[str], platform: str | None, tier: Tier
) -> tuple[MatrixRow, ...]:
    """The rows of the families that are given, else of a tier, for each platform that they are built on."""
    rows = []
    for here in PLATFORMS if platform is None else (platform,):
        for name in _names(known, given, here, tier):
            on, row = known.runners.on(name, here), known.runners.row(name)
            if on is None or row is None:
                continue
            rows.append(
                MatrixRow(
                    family=name,
                    tier=row.tier,
                    platform=here,
                    targets=expand([name], known.families),
                    # The largest pool stands for all where a workflow can take only one.
                    test_runs_on=max(on.pools, key=lambda pool: pool.weight).label if on.pools else "",
                    labels=on.pools,
                    multi_gpu=on.multi_gpu,
                    kernels=on.kernels,
                    benchmark=on.benchmark,
                    fetch_targets=on.fetch_targets,
                    variants=on.variants,
                    bypass_tests_for_releases=on.bypass is not None,
                    bypass=on.bypass,
                    sanity_check_only_for_family=on.sanity_only,
                    nightly_check_only_for_family=on.nightly_only,
                    submodule_bump_tests_only=on.bump_only,
                    expect_failure=on.expect_failure,
                )
            )
    return tuple(rows)


def expanded(
    known: Known, given: Sequence[str], platform: str | None, tier: Tier, *, extras: bool
) -> tuple[str, ...]:
    """GPU targets of families, or extras `device-TARGET`; raises `InvalidTarget` listing what is known."""
    names = words(" ".join(given))
    if not names:
        here = PLATFORMS if platform is None else (platform,)
        names = tuple(name for one in here for name in known.runners.tier_families(one, tier))
    spellings = (*known.families, *(target for members in known.families.values() for target in members))
    targets = expand([spelled(name, spellings) for name in names], known.families)
    return tuple(f"device-{target}" for target in packages_of(targets)) if extras else targets


def _names(known: Known, given: Sequence[str], platform: str, tier: Tier) -> tuple[str, ...]:
    names = words(" ".join(given))
    if not names:
        return known.runners.tier_families(platform, tier)
    found = family_names(names, known.runners, known.families, where="--amdgpu-families")
    return on_platform(found, platform, known.runners)


def build_matrix(
    known: Known,
    profiles: ProfileTable,
    *,
    release_type: str,
    platform: str,
    pythons: Sequence[str] = (),
    refs: Sequence[str] = (),
    families: Sequence[str] = (),
) -> tuple[dict[str, str], ...]:
    """A row for each Python and branch: those of the profile with this release type, where none are given.

    Families that a branch does not support are left out of its rows, and so are rows without any.
    Raises `UsageError` for a release type that no profile has, `InvalidTarget` for an unknown family.
    """
    # One that tests on emulated GPUs is asked for by its name.
    by_type = {one.release_type: one for one in profiles.profile if not one.emulated}
    if release_type not in by_type:
        raise UsageError(
            f"there is no release type {release_type!r}", next_step=f"release types: {' '.join(by_type)}"
        )
    profile = by_type[release_type]
    names = (
        family_names(words(" ".join(families)), known.runners, known.families, where="--amdgpu-families")
        if families
        else known.runners.tier_families(platform, profile.tier)
    )
    rows = []
    for python in pythons or profile.pythons:
        for ref in refs or profile.refs_on(platform):
            here = [name for name in names if not known.runners.unsupported(name, platform, ref)]
            tested = [name for name in here if known.runners.runner_of(name, platform, tier=profile.tier)[0]]
            if here:
                rows.append(
                    {
                        "python_version": python,
                        "pytorch_git_ref": ref,
                        "amdgpu_families": ";".join(here),
                        "test_amdgpu_families": ";".join(tested),
                    }
                )
    return tuple(rows)


def matrix_of_tests(
    known: Known, *, built: Sequence[str], tested: str, platform: str, seed: str = ""
) -> tuple[tuple[dict[str, str], ...], tuple[str, ...]]:
    """A row for each family that is tested, and why others are not; `tested` is auto, none or names.

    Raises `UsageError` for words that contradict each other or a family that was not built, `InvalidTarget`
    for an unknown family.
    """
    there = family_names(
        words(" ".join(built)), known.runners, known.families, where="--build-amdgpu-families"
    )
    given = words(tested)
    special = [word for word in given if word.lower() in (*_AUTO, *_NONE)]
    if special and len(given) > 1:
        raise UsageError(
            f"--test-amdgpu-families has {special[0]!r} together with other names",
            next_step="give one of them alone",
        )
    if special and special[0].lower() in _NONE:
        return (), ("no family is to be tested",)
    names = there
    if given and not special:
        names = family_names(given, known.runners, known.families, where="--test-amdgpu-families")
    missing = [name for name in names if name not in there]
    if missing:
        raise UsageError(
            f"--test-amdgpu-families names {', '.join(missing)}, which is not built",
            next_step=f"built: {' '.join(there)}",
        )
    rows, notes = [], []
    for name in names:
        label, why = known.runners.runner_of(name, platform, seed=seed)
        if label:
            rows.append({"amdgpu_family": name, "test_runs_on": label})
        else:
            notes.append(f"{name} is not tested: {why}")
    return tuple(rows), tuple(notes)
