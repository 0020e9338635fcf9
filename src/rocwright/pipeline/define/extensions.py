"""Which projects that stand on torch a run builds, on which platform and after which others. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rocwright.builder.decide.extension import ExtensionTable
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.plan import Choice, Profile, Wanted, parse_extensions
from rocwright.pipeline.define.kinds import Projects

# In build order, each with those of the family and of the other extensions that it needs, torch apart.
Extensions = Sequence[tuple[Wanted, Sequence[str]]]


def extensions_of(
    profile: Profile,
    choice: Choice,
    projects: Mapping[str, Projects],
    table: ExtensionTable,
    notes: list[str],
    *,
    mini: bool = False,
) -> dict[str, Extensions]:
    """By platform; `projects` are those of the family there. What is left out somewhere is noted.

    Raises `UsageError` for what is no version of a project, is of the family, is refused, or needs what the
    run does not have; `InvalidData` for extensions that need each other.
    """
    if not choice.build_pytorch:
        return dict.fromkeys(projects, ())
    wanted = _wanted(profile, choice)
    if mini and choice.extensions is None:
        # Somebody may have one that is written for it, and then names it.
        notes += [f"{one} is left out: it stands on PyTorch, not on the miniature" for one in wanted]
        wanted = {}
    family = {name for held in projects.values() for name, _ in held}
    for one in wanted.values():
        row = table.get(one.project)
        if one.project in family:
            raise UsageError(
                f"--extensions has {one}, which is of the PyTorch family: its commit is what torch pins",
                next_step="name it with --projects",
            )
        if row.refused:
            raise UsageError(
                f"{one} is not built: {row.refused}", next_step=f"leave {one.project} out of --extensions"
            )
    found: dict[str, Extensions] = {}
    for platform, held in projects.items():
        here = _here(platform, wanted, table, notes)
        there = {*here, *(name for name, _ in held)}
        found[platform] = tuple(
            (wanted[name], _needs(name, platform, table, there)) for name in table.in_order(here)
        )
    return found


def _wanted(profile: Profile, choice: Choice) -> dict[str, Wanted]:
    given = profile.extensions if choice.extensions is None else choice.extensions
    try:
        return {one.project: one for one in parse_extensions(given)}
    except InvalidInput as error:
        raise UsageError(f"--extensions has {error.what}", next_step=error.next_step) from error


def _here(platform: str, wanted: Mapping[str, Wanted], table: ExtensionTable, notes: list[str]) -> list[str]:
    there = [name for name in wanted if platform in table.get(name).platforms]
    notes += [
        f"{name} is left out on {platform}: it is not built there" for name in wanted if name not in there
    ]
    return there


def _needs(name: str, platform: str, table: ExtensionTable, there: set[str]) -> tuple[str, ...]:
    needs = table.needs(name)
    for one in needs:
        if one not in there:
            raise UsageError(
                f"{name} needs {one}, which this run does not have on {platform}",
                next_step=f"add {one} with its version to --extensions, or to --projects",
            )
    return needs
