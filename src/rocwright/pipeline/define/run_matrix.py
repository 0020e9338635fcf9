"""What a run is to have: a profile with what is asked for in its place, held against the tables. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

import msgspec

from rocwright.errors import UsageError
from rocwright.model.gpu import expand
from rocwright.model.plan import PYTHON, Choice, Group, Profile, Rocm, Sources, TestLevel, Tier
from rocwright.model.platforms import PLATFORMS
from rocwright.model.runners import Runners
from rocwright.pipeline.define.extensions import Extensions, extensions_of
from rocwright.pipeline.define.inputs import Known, default_rocm, require_run_id
from rocwright.pipeline.define.kinds import Projects
from rocwright.store.layout import MULTI_ARCH

# What a branch is called by, everywhere it is written: no option of git, no path out of a folder.
_REF = re.compile(r"(?!.*\.\.)(?!.*//)[A-Za-z0-9_][A-Za-z0-9._/+#@-]*[A-Za-z0-9_+#@]|[A-Za-z0-9_]")
# A part of a path in the store.
_UNTESTED = f"{MULTI_ARCH}-untested"
_PART = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]*")


class RunMatrix(msgspec.Struct, frozen=True):
    """The matrix of a run: groups, projects and extensions by platform, branches by platform and group.

    For each branch the group is as it is built there: without families that PyTorch does not support in it.
    """

    sources: Sources
    tier: Tier
    groups: Mapping[str, tuple[Group, ...]]
    pythons: tuple[str, ...]
    refs: Mapping[tuple[str, str], Mapping[str, Group]]
    projects: Mapping[str, Projects]
    rocm: Rocm
    split: bool
    device_groups: int
    build_pytorch: bool
    test_level: TestLevel
    notes: tuple[str, ...]
    extensions: Mapping[str, Extensions]


def resolve(profile: Profile, choice: Choice, known: Known) -> RunMatrix:
    """Raises `UsageError` and `InvalidTarget` for options that contradict each other, or name what is not."""
    _check(choice)
    notes: list[str] = []
    mini = (choice.sources or profile.sources) == "miniature"
    rocm = choice.rocm or default_rocm(profile, known, mini=mini)
    _check_rocm(choice, rocm)
    groups = _groups(profile, choice, known, rocm, mini, notes)
    level = choice.test_level or "quick"
    if choice.build_pytorch and (level != "quick" or choice.tests):
        named = f", with {' '.join(choice.tests)}" if choice.tests else ""
        notes.append(f"tests are {level}{named}")
    refs = {
        (platform, group.name): _refs(platform, group, profile, choice, known, mini, notes)
        for platform, held in groups.items()
        for group in held
    }
    if mini:
        notes.append(
            "the miniature family is built, stand-ins under the real names (--sources upstream: PyTorch)"
        )
    elif rocm.kind == "distribution":
        notes.append(
            "ROCm is the distribution's: if it is too old for PyTorch itself, give --rocm index:nightly"
        )
    left = {
        platform: tuple(_tested(group, choice, notes) for group in held if refs[platform, group.name])
        for platform, held in groups.items()
    }
    tested = {
        place: {ref: _tested(group, choice, []) for ref, group in held.items()}
        for place, held in refs.items()
    }
    if profile.promote and choice.build_pytorch and not mini:
        notes += [_held_back(group, profile, known) for held in groups.values() for group in held]
    projects = {platform: _projects(platform, choice, profile, known, mini, notes) for platform in groups}
    extensions = extensions_of(profile, choice, projects, known.extensions, notes, mini=mini)
    if not any(left.values()):
        raise UsageError("nothing is left to build: " + "; ".join(notes), next_step="name others")
    return RunMatrix(
        sources="miniature" if mini else "upstream",
        tier=choice.tier or profile.tier,
        groups=left,
        pythons=choice.pythons or ((known.python,) if mini else profile.pythons),
        refs=tested,
        projects=projects,
        rocm=rocm,
        split=profile.split if choice.split is None else choice.split,
        device_groups=profile.device_groups if choice.device_groups is None else choice.device_groups,
        build_pytorch=choice.build_pytorch,
        test_level=level,
        notes=tuple(filter(None, dict.fromkeys(notes))),
        extensions=extensions,
    )


def _check(choice: Choice) -> None:
    require_run_id(choice.run_id)
    for name, values in (
        ("--platforms", choice.platforms),
        ("--python-versions", choice.pythons),
        ("--pytorch-git-refs", choice.refs),
        ("--families", choice.families),
        ("--test-families", choice.tested or ()),
        ("--projects", choice.projects),
    ):
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise UsageError(f"{name} gives {twice[0]} twice", next_step="give each once")
    for platform in choice.platforms:
        if platform not in PLATFORMS:
            raise UsageError(
                f"there is no platform {platform!r}", next_step=f"platforms: {' '.join(PLATFORMS)}"
            )
    for python in choice.pythons:
        if PYTHON.fullmatch(python) is None:
            raise UsageError(
                f"{python!r} is not a version of Python", next_step="write it like 3.12 or 3.14t"
            )
    for ref in choice.refs:
        if _REF.fullmatch(ref) is None:
            raise UsageError(
                f"{ref!r} is not a branch or tag", next_step="write it like release/2.12 or nightly"
            )
    if choice.device_groups is not None and choice.device_groups < 1:
        raise UsageError(f"--device-groups is {choice.device_groups}", next_step="give 1 or more")
    if choice.group and not (choice.families or choice.families_on):
        raise UsageError(
            f"--group {choice.group} names a group without families", next_step="name them with --families"
        )
    if choice.group and _PART.fullmatch(choice.group) is None:
        raise UsageError(
            f"{choice.group!r} is not a valid group name", next_step="write it like multi-arch-release"
        )
    if not choice.build_pytorch:
        _check_without_pytorch(choice)


def _check_without_pytorch(choice: Choice) -> None:
    given = {
        "--pytorch-git-refs": choice.refs,
        "--projects": choice.projects,
        "--extensions": choice.extensions,
        "--split": choice.split,
        "--device-groups": choice.device_groups,
    }
    for name, value in given.items():
        if value:
            raise UsageError(
                f"--no-pytorch builds no PyTorch, but {name} says how to", next_step="leave one of them out"
            )


def _check_rocm(choice: Choice, rocm: Rocm) -> None:
    if not choice.build_pytorch and rocm.kind == "packages":
        raise UsageError(
            "--no-pytorch with the packages of an earlier run leaves nothing to build",
            next_step="leave out --no-pytorch or --artifact-run-id, or add --reuse artifacts",
        )


def _groups(
    profile: Profile, choice: Choice, known: Known, rocm: Rocm, mini: bool, notes: list[str]
) -> dict[str, tuple[Group, ...]]:
    for name in (*choice.families, *(choice.tested or ()), *sum(choice.families_on.values(), ())):
        expand([name], known.families)
        if _PART.fullmatch(name) is None:
            raise UsageError(
                f"the family {name!r} cannot name a folder of the store",
                next_step="rename it: letters, digits and . _ -",
            )
    found: dict[str, tuple[Group, ...]] = {}
    for platform in _platforms(profile, choice, rocm, mini, notes):
        asked = choice.families_on.get(platform) or choice.families
        if mini and not asked:
            found[platform] = (msgspec.structs.replace(_miniature(rocm, known), platform=platform),)
            continue
        names = asked or known.runners.tier_families(platform, choice.tier or profile.tier)
        here = [name for name in names if not _lacks(name, platform, known)]
        out = [name for name in names if name not in here]
        notes += [f"{name} is left out on {platform}: it is not built there" for name in out]
        if not here:
            notes.append(f"{platform} is left out: none of the families is built there")
        else:
            found[platform] = tuple(
                Group(name, expand(held, known.families), held, platform)
                for name, held in grouped(here, platform, profile, choice, known.runners).items()
            )
    if not found:
        raise UsageError(
            "none of the families is built on any of the platforms",
            next_step=f"families: {' '.join(known.runners.tier_families('linux', 'nightly'))}",
        )
    _require_index_for_all(found, choice, rocm)
    return found


def grouped(
    families: Sequence[str], platform: str, profile: Profile, choice: Choice, runners: Runners
) -> dict[str, tuple[str, ...]]:
    """What is built together, by the name of the group: of one family alone its own name.

    What goes to a channel goes there as one: families that nobody tests would keep back all others.
    """
    if choice.group:
        return {choice.group: tuple(families)}
    if (choice.grouping or profile.grouping) != "multi-arch":
        return {name: (name,) for name in families}
    apart = bool(profile.promote) and choice.build_pytorch and choice.tested is None
    held: dict[str, tuple[str, ...]] = {MULTI_ARCH: (), _UNTESTED: ()}
    for name in families:
        held[_UNTESTED if apart and runners.untested(name, platform) else MULTI_ARCH] += (name,)
    if not held[MULTI_ARCH]:
        held = {MULTI_ARCH: held[_UNTESTED]}
    return {its[0] if len(its) == 1 else name: its for name, its in held.items() if its}


def _require_index_for_all(groups: Mapping[str, Sequence[Group]], choice: Choice, rocm: Rocm) -> None:
    """An index with a folder for each family has no ROCm that a group of several can be built against."""
    for group in (one for held in groups.values() for one in held if rocm.by_family):
        if len(group.families) > 1:
            raise UsageError(
                f"{rocm.at} has its packages in a folder for each family, and the group {group.name} on "
                f"{group.platform} has {len(group.families)}",
                next_step=f"name an index for all GPUs (--rocm index:…), or {_each_alone(choice)}",
            )


def _held_back(group: Group, profile: Profile, known: Known) -> str:
    """Of several families that are published as one: those whose tests it waits for, and nobody can do."""
    waited = [name for name in group.families if known.runners.untested(name, group.platform)]
    if len(group.families) == 1 or not waited:
        return ""
    return (
        f"{group.name} on {group.platform} goes to {profile.promote} as one, and no runner tests "
        f"{' '.join(waited)}: the gate stays closed unless their rows of the table families get a bypass"
        + ("" if group.name == _UNTESTED else ", or each family is built on its own (--grouping family)")
    )


def _each_alone(choice: Choice) -> str:
    if choice.group:
        return "leave out --group"
    return 'build each family on its own: --grouping family, or grouping = "family" in the profile'


def _platforms(profile: Profile, choice: Choice, rocm: Rocm, mini: bool, notes: list[str]) -> tuple[str, ...]:
    """The miniature family, and a distribution's ROCm, are Linux's alone."""
    if mini and "windows" in choice.platforms:
        raise UsageError(
            "the miniature family is built on linux only, not on windows",
            next_step="leave out --platforms windows, or give --sources upstream",
        )
    wanted = choice.platforms or (("linux",) if mini else profile.platforms)
    if rocm.kind != "distribution" or "windows" not in wanted:
        return wanted
    if "windows" in choice.platforms:
        raise UsageError(
            "no distribution has ROCm for windows",
            next_step="say where it comes from: --rocm index:nightly",
        )
    notes.append("windows is left out: no distribution has ROCm for it (--rocm index:nightly has)")
    return tuple(one for one in wanted if one != "windows")


def _miniature(rocm: Rocm, known: Known) -> Group:
    """Named after the distribution, whose ROCm it is, an earlier run's too; others say nothing of targets."""
    if rocm.kind in ("distribution", "packages"):
        return known.miniature
    return Group("miniature", known.miniature.targets, ("miniature",))


def _lacks(family: str, platform: str, known: Known) -> bool:
    """Whether the table has a family and not this platform; what has no row can be tried anywhere."""
    return known.runners.row(family) is not None and known.runners.on(family, platform) is None


def _tested(group: Group, choice: Choice, notes: list[str]) -> Group:
    if choice.tested is None:
        return group
    there = tuple(name for name in group.families if name in choice.tested)
    for name in choice.tested:
        if choice.families and name not in choice.families:
            raise UsageError(
                f"--test-families names {name}, which is not built", next_step="name it in --families, too"
            )
    if left := [name for name in group.families if name not in there]:
        notes.append(f"not tested, because --test-families leaves them out: {' '.join(left)}")
    return msgspec.structs.replace(group, families=there)


def _refs(
    platform: str,
    group: Group,
    profile: Profile,
    choice: Choice,
    known: Known,
    mini: bool,
    notes: list[str],
) -> dict[str, Group]:
    """The branches that the group is built for, each with what it has there."""
    if mini:
        return dict.fromkeys(choice.refs or (known.ref,), group)
    refs = choice.refs or profile.refs_on(platform)
    if not choice.build_pytorch:
        return dict.fromkeys(refs, group)
    out = {
        name: [ref for ref in refs if known.runners.unsupported(name, platform, ref)]
        for name in group.families
    }
    notes += [
        f"{name} on {platform} is left out of {' '.join(left)}: PyTorch does not support it there"
        for name, left in out.items()
        if left
    ]
    held = {ref: tuple(name for name in group.families if ref not in out[name]) for ref in refs}
    return {ref: _only(group, names, known) for ref, names in held.items() if names}


def _only(group: Group, families: tuple[str, ...], known: Known) -> Group:
    if families == group.families:
        return group
    return msgspec.structs.replace(group, targets=expand(families, known.families), families=families)


def _projects(
    platform: str, choice: Choice, profile: Profile, known: Known, mini: bool, notes: list[str]
) -> Projects:
    wanted: Sequence[str] = choice.projects or profile.projects
    there = known.projects[platform]
    every = dict.fromkeys(name for held in known.projects.values() for name, _ in held)
    for name in wanted:
        if name not in every:
            near = get_close_matches(name, every, n=1)
            raise UsageError(
                f"there is no project {name!r}",
                next_step=f"perhaps {near[0]}" if near else f"projects: {' '.join(every)}",
            )
        if name not in {one for one, _ in there}:
            notes.append(f"{name} is left out on {platform}: it is not built there")
    if wanted and "torch" not in wanted:
        raise UsageError(
            "--projects leaves out torch, which everything else is built for",
            next_step="add torch to --projects",
        )
    off = known.opt_in.get(platform, frozenset())
    chosen = [(name, after) for name, after in there if (name in wanted if wanted else name not in off)]
    if not mini or known.miniature_projects is None:
        return chosen
    notes += [
        f"{name} is left out: the miniature family has none"
        for name, _ in chosen
        if name not in known.miniature_projects
    ]
    return [(name, after) for name, after in chosen if name in known.miniature_projects]
