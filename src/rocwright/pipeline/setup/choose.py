"""What an event starts: explicit inputs, then labels, then what the event and the change call for. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from rocwright.errors import UsageError
from rocwright.model.plan import Choice, Profile, Rocm, TestLevel, Tier
from rocwright.model.runners import Runners
from rocwright.pipeline.define.run_matrix import grouped
from rocwright.pipeline.setup.event import Event, Started, Triggers, started
from rocwright.pipeline.setup.families import on_platform
from rocwright.pipeline.setup.wish import Wish, above, read_inputs, read_labels

# (groups by platform) -> the latest successful run with ROCm's packages for all of them, "" for none.
Reusable = Callable[[Mapping[str, Sequence[str]]], str]


class Tables(msgspec.Struct, frozen=True):
    """The tables that a decision needs: paths and branches, families with their rows, components.

    `miniature` is the group that stands for all families where the miniature family is built. `usual_rocm`
    tells where ROCm comes from if nobody says so, for it (True) and for PyTorch; `parse_rocm` reads what an
    input says.
    """

    triggers: Triggers
    families: Mapping[str, tuple[str, ...]]
    runners: Runners
    projects: tuple[str, ...] = ()
    miniature: str = ""
    usual_rocm: Callable[[bool], Rocm] = lambda _: Rocm()
    parse_rocm: Callable[[str], Rocm] = lambda _: Rocm()


class Chosen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be run. Without `run` nothing is, and `reasons` say why.

    `level` is what the change starts; `highlights` differ from the profile; `notes` tell what is not known or
    was left out. `tests` are named tests of `test_level`.
    """

    run: bool
    choice: Choice
    level: str
    test_level: TestLevel
    tests: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    highlights: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _Said(msgspec.Struct):
    """What is told to people about a decision while it is made."""

    reasons: list[str] = msgspec.field(default_factory=list)
    highlights: list[str] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)


def choose(event: Event, profile: Profile, base: Choice, tables: Tables, reusable: Reusable) -> Chosen:
    """What the event starts, from `base`: the profile's name, the run's id, and what the workflow asks for.

    `reusable` is asked only where a change leaves ROCm as it is. Raises `UsageError` and `InvalidTarget` for
    labels and inputs that contradict each other or name nothing there is, before anything is begun.
    """
    said = _Said()
    platforms = base.platforms or profile.platforms
    if event.idle:
        return _nothing(base, Started("nothing"), Wish(), said, event.idle)
    wish, change = _wish(event, platforms, tables, said)
    if event.trigger == "pull_request" and wish.skip:
        return _nothing(base, change, wish, said, "the label ci:skip is set")
    if change.level == "nothing":
        return _nothing(base, change, wish, said, "no file that changed goes into packages or wheels")
    tier = _tier(event, tables.triggers, wish)
    mini = (wish.sources or base.sources or profile.sources) == "miniature"
    platforms = _platforms(platforms, wish, mini, said)
    if not platforms:
        return _nothing(base, change, wish, said, "the inputs ask for no family on any platform")
    families = wish.families if mini else _families(platforms, tier, profile, base, wish, tables, said)
    built = {
        platform: families.get(platform) or _usual(platform, tier, profile, base, tables)
        for platform in platforms
    }
    groups = {
        platform: (tables.miniature,)
        if mini and not families.get(platform)
        else tuple(grouped(names, platform, profile, base, tables.runners))
        for platform, names in built.items()
    }
    rocm = _rocm(change, wish, base, groups, reusable, tables, mini, said)
    build = base.build_pytorch if wish.build_pytorch is None else wish.build_pytorch
    if not build and rocm.kind == "packages":
        why = "PyTorch is not to be built, and ROCm's packages are those of an earlier run: nothing is left"
        if event.trigger == "workflow_dispatch":
            raise UsageError(why, next_step="leave out artifact_run_id, or build_pytorch=false")
        return _nothing(base, change, wish, said, why)
    choice = msgspec.structs.replace(
        base,
        tier=tier,
        bump=change.level in ("rocm", "everything"),
        platforms=tuple(platforms),
        families_on={platform: families[platform] for platform in platforms if families.get(platform)},
        pythons=wish.pythons or base.pythons,
        refs=(wish.refs or base.refs) if build else (),
        projects=_projects(wish, base, tables) if build else (),
        extensions=(base.extensions if wish.extensions is None else wish.extensions) if build else None,
        sources=wish.sources or base.sources,
        rocm=rocm,
        build_pytorch=build,
        split=(base.split if wish.split is None else wish.split) if build else None,
        device_groups=(wish.device_groups or base.device_groups) if build else None,
        # Nobody is there at night to ask for it; the profile says whether it may.
        publish=base.publish or bool(wish.publish) or event.trigger == "schedule",
    )
    said.highlights += _highlights(choice, base)
    return _done(True, choice, change, event, profile, wish, said)


def _wish(event: Event, platforms: Sequence[str], tables: Tables, said: _Said) -> tuple[Wish, Started]:
    """What is asked for by label and by input, and what the change starts: all of it where somebody asks."""
    labels = read_labels(event.labels, tables.runners, tables.families)
    if event.trigger == "workflow_dispatch":
        wish = above(read_inputs(event.inputs, platforms, tables.runners, tables.families), labels)
        said.reasons.append("this run was started by hand")
        return wish, Started("everything", ("started by hand",))
    if event.trigger == "schedule":
        said.reasons.append("the run is a scheduled one: it tries all families")
        return labels, Started("everything", ("scheduled",))
    change = started(event.changed, tables.triggers)
    what = "a pull request" if event.trigger == "pull_request" else "a push"
    where = f"{what} to {event.branch}" if event.branch else what
    said.reasons.append(f"{where} that starts {change.level}: {_some(change.because)}")
    return labels, change


def _tier(event: Event, triggers: Triggers, wish: Wish) -> Tier | None:
    """None: as the profile has it."""
    if event.trigger == "workflow_dispatch":
        # Whoever names families wants them tested, also those whose tests wait for the night otherwise.
        return "nightly" if wish.families or wish.all_families else None
    if wish.all_families or event.trigger == "schedule":
        return "nightly"
    return "postsubmit" if event.trigger == "push" and triggers.is_main(event.branch) else "presubmit"


def _platforms(platforms: Sequence[str], wish: Wish, mini: bool, said: _Said) -> tuple[str, ...]:
    """Where inputs name families only their platforms; the miniature family is Linux's alone."""
    found = tuple(one for one in platforms if wish.families.get(one) or not wish.families)
    for platform in platforms:
        if platform not in found:
            said.reasons.append(f"{platform} is left out: the inputs ask for none of its families")
    if mini and "windows" in found and len(found) > 1:
        said.reasons.append("windows is left out: the miniature family is built on linux only")
        return tuple(one for one in found if one != "windows")
    return found


def _usual(
    platform: str, tier: Tier | None, profile: Profile, base: Choice, tables: Tables
) -> tuple[str, ...]:
    return on_platform(base.families, platform, tables.runners) or tables.runners.tier_families(
        platform, tier or profile.tier
    )


def _families(
    platforms: Sequence[str],
    tier: Tier | None,
    profile: Profile,
    base: Choice,
    wish: Wish,
    tables: Tables,
    said: _Said,
) -> dict[str, tuple[str, ...]]:
    """Those that differ from the tier's, by platform."""
    found: dict[str, tuple[str, ...]] = {}
    for platform in platforms:
        usual = wish.families.get(platform) or _usual(platform, tier, profile, base, tables)
        more = on_platform(wish.more, platform, tables.runners)
        left = [name for name in wish.more if name not in more]
        if left:
            said.notes.append(f"{', '.join(left)}, asked for by label, is not built on {platform}")
        if platform in wish.families or set(more) - set(usual):
            found[platform] = tuple(dict.fromkeys((*usual, *more)))
    return found


def _rocm(
    change: Started,
    wish: Wish,
    base: Choice,
    groups: Mapping[str, Sequence[str]],
    reusable: Reusable,
    tables: Tables,
    mini: bool,
    said: _Said,
) -> Rocm:
    """As inputs say, then options; an earlier run's packages, where the change leaves ROCm as it is."""
    if wish.artifact_run_id:
        return _earlier(wish.artifact_run_id, wish.repository, said, "as asked for")
    if wish.rocm:
        found = tables.parse_rocm(wish.rocm)
        said.reasons.append(f"ROCm is {found.told}, as asked for")
        return found
    usual = base.rocm or tables.usual_rocm(mini)
    prebuilt = True in wish.prebuilt.values()
    if base.rocm is not None or False in wish.prebuilt.values():
        return usual
    if not (prebuilt or change.level in ("tests", "pytorch")):
        return usual
    run = reusable(groups)
    if run:
        why = "as asked for" if prebuilt else "the change leaves ROCm as it is"
        return _earlier(run, "", said, why)
    said.reasons.append(f"ROCm is {usual.told}: no earlier run has packages for all of these families")
    return usual


def _earlier(run: str, repository: str, said: _Said, why: str) -> Rocm:
    said.reasons.append(f"ROCm's packages are those of run {run}, {why}: no step of ROCm is run")
    return Rocm(kind="packages", at=run, repository=repository)


def _projects(wish: Wish, base: Choice, tables: Tables) -> tuple[str, ...]:
    return tables.projects if wish.all_projects else wish.projects or base.projects


def _nothing(base: Choice, change: Started, wish: Wish, said: _Said, why: str) -> Chosen:
    return Chosen(
        run=False,
        choice=base,
        level=change.level,
        test_level="quick",
        reasons=tuple(dict.fromkeys((*said.reasons, why))),
        notes=tuple(dict.fromkeys((*said.notes, *wish.notes))),
    )


def _done(
    run: bool, choice: Choice, change: Started, event: Event, profile: Profile, wish: Wish, said: _Said
) -> Chosen:
    level, why = _test_level(event, profile, change, wish)
    if choice.test_level is not None and wish.test_level is None:
        level, why = choice.test_level, "an option says so"
    return Chosen(
        run=run,
        choice=msgspec.structs.replace(choice, test_level=level, tests=wish.tests),
        level=change.level,
        test_level=level,
        tests=wish.tests,
        reasons=(*said.reasons, f"tests are {level}: {why}"),
        highlights=tuple(said.highlights),
        notes=tuple(dict.fromkeys((*said.notes, *wish.notes))),
    )


def _test_level(event: Event, profile: Profile, change: Started, wish: Wish) -> tuple[TestLevel, str]:
    """The first that says something: filter, named tests, the release, the schedule, a change of ROCm."""
    if wish.test_level is not None:
        return wish.test_level, "a label says so"
    if wish.tests:
        return "full", f"a label names {', '.join(wish.tests)}"
    if profile.release_type == "nightly":
        return "comprehensive", "the run is a nightly release"
    if profile.release_type in ("prerelease", "release"):
        return "full", "the run is a release"
    if event.trigger == "schedule":
        return "comprehensive", "the run is a scheduled one"
    if change.level == "rocm":
        return "standard", "ROCm changed"
    return "quick", "nothing asks for more"


def _highlights(choice: Choice, base: Choice) -> list[str]:
    """What differs from the profile, in a line each."""
    found = [f"families on {platform}: {' '.join(names)}" for platform, names in choice.families_on.items()]
    for name, here, there in (
        ("Python", choice.pythons, base.pythons),
        ("PyTorch", choice.refs, base.refs),
        ("components", choice.projects, base.projects),
        ("extensions", choice.extensions, base.extensions),
    ):
        if here and here != there:
            found.append(f"{name}: {' '.join(here)}")
    if choice.rocm is not None:
        found.append(f"ROCm: {choice.rocm.told}")
    if not choice.build_pytorch:
        found.append("PyTorch is not built")
    return found


def _some(because: Sequence[str], most: int = 3) -> str:
    more = f" and {len(because) - most} more" if len(because) > most else ""
    return ", ".join(because[:most]) + more
