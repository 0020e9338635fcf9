"""What a plan is made from: the tables as one value; options and a workflow's inputs, from text to values."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import get_args

import msgspec

from rocwright.builder.decide.extension import ExtensionTable, load_extensions
from rocwright.builder.decide.recipe import load_recipes
from rocwright.data import load_table
from rocwright.data.overlay import Overlay
from rocwright.errors import InvalidData, InvalidInput, UsageError
from rocwright.gputest.shards.level import NOTHING, Recorded
from rocwright.model.channels import Channels
from rocwright.model.gpu import Families, base_targets
from rocwright.model.indexes import IndexTable
from rocwright.model.plan import Group, Profile, ProfileTable, Rocm, Sources
from rocwright.model.platforms import PLATFORMS
from rocwright.model.runners import OVERRIDE, Runners, parse_override
from rocwright.model.suites import SuiteTable
from rocwright.pipeline.define.kinds import Projects
from rocwright.sdk.intake.distribution import distributions, this_machine
from rocwright.system.files import PARTIAL


class Known(msgspec.Struct, frozen=True):
    """The tables that a plan is made from.

    `families` are targets by family, `runners` say which of them are built and tested where. `projects` are
    those of the family by platform, `opt_in` those among them that are built only when asked for.
    `miniature` is the group that stands for all where the miniature family is built, `python` the interpreter
    that it is built with, `ref` its branch, `miniature_projects` those that it has (None: all). `indexes`
    have names, `therock` is the store of TheRock's runs. `levels` say what is tested, `recorded` how long
    that took. `extensions` say what is particular to projects that stand on torch.
    """

    families: Mapping[str, tuple[str, ...]]
    runners: Runners
    projects: Mapping[str, Projects]
    miniature: Group
    python: str
    ref: str
    opt_in: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)
    miniature_projects: frozenset[str] | None = None
    indexes: IndexTable = msgspec.field(default_factory=lambda: IndexTable(()))
    therock: str = ""
    levels: SuiteTable | None = None
    recorded: Recorded = NOTHING
    extensions: ExtensionTable = msgspec.field(default_factory=lambda: ExtensionTable(()))


class _Demo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    targets: tuple[str, ...]
    torch_ref: str
    projects: tuple[str, ...]


def known(overlay: Overlay | None = None, environment: Mapping[str, str] = os.environ) -> Known:
    """The built-in tables, with what a user's `rocwright.toml` and the environment add to them.

    Raises `InvalidData` naming the file, or the variable, and the field that does not fit.
    """
    table = load_table("families", Families, overlay)
    recipes = load_recipes(overlay).recipe
    demo = load_table("demo", _Demo)
    rows = {row.name: row.family for row in distributions(overlay)}
    family = rows.get(this_machine()[0], next(iter(rows.values())))
    return Known(
        families=table.families,
        runners=Runners(table.family, parse_override(environment.get(OVERRIDE, ""))),
        projects={
            platform: [(row.project, row.after) for row in recipes if platform in row.platforms]
            for platform in PLATFORMS
        },
        opt_in={
            platform: frozenset(row.project for row in recipes if platform in row.opt_in)
            for platform in PLATFORMS
        },
        miniature=Group(family, base_targets(demo.targets), (family,)),
        python=".".join(map(str, sys.version_info[:2])),
        ref=demo.torch_ref,
        miniature_projects=frozenset(demo.projects),
        indexes=load_table("indexes", IndexTable, overlay),
        levels=load_table("tests", SuiteTable, overlay),
        extensions=load_extensions(overlay),
        therock=f"s3://{load_table('channels', Channels, overlay).buckets.runs}",
    )


def profiles(overlay: Overlay | None = None) -> ProfileTable:
    """The profiles, with those of a user's `rocwright.toml`.

    Raises `InvalidData` for a row that does not fit its schema, and a row whose channel is none.
    """
    table = load_table("profiles", ProfileTable, overlay)
    channels = load_table("channels", Channels, overlay)
    for profile in table.profile:
        for place, name in (("stage", profile.stage), ("promote", profile.promote)):
            if name and name not in {one.name for one in channels.channel}:
                raise InvalidData(
                    f"profile {profile.name} has {place} = {name!r}, which is not a channel",
                    where=overlay.where if overlay else "data/profiles.toml",
                    next_step=f"channels: {' '.join(one.name for one in channels.channel)}",
                )
    return table


# -- options and inputs of a workflow

# Of a workflow: what is built where no option says so.
SOURCES = "ROCWRIGHT_SOURCES"
# Variables of a repository that rendered workflows pass on: where results go; whether schedules start
# anything (on, off; where it is not set, not in a fork); what is tested on GPUs, as --test-families takes it.
STORE, SCHEDULE, TESTED = "ROCWRIGHT_STORE", "ROCWRIGHT_SCHEDULE", "ROCWRIGHT_TEST_FAMILIES"
# Of a rendered workflow: how results travel between its jobs, through a store or as artifacts.
CARRY = "ROCWRIGHT_CARRY"
# Of a workflow or a machine: which compiler cache builds use, auto where it is not set.
COMPILER_CACHE = "ROCWRIGHT_COMPILER_CACHE"
# Of a workflow or a machine: where ROCm comes from where no option says so.
ROCM = "ROCWRIGHT_ROCM"
_RUN_ID = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
# Objects of all runs lie beside the runs.
_TAKEN = ("objects", "reports")


def words(given: Iterable[str]) -> tuple[str, ...]:
    """Names separated by spaces, commas or semicolons, in the order given."""
    return tuple(word for text in given for word in re.split(r"[\s,;]+", text) if word)


def families_to_test(text: str) -> tuple[str, ...] | None:
    """Families to test: None for `auto` (all that are built), empty for `none`, else those named."""
    if text.strip() in ("", "auto"):
        return None
    return () if text.strip() == "none" else words([text])


def extensions_asked(given: Iterable[str]) -> tuple[str, ...] | None:
    """Extensions by name and version: None where nothing is said (the profile's), empty for `none`."""
    found = words(given)
    return None if not found else () if found == ("none",) else found


def sources_of(environment: Mapping[str, str]) -> Sources | None:
    """What `ROCWRIGHT_SOURCES` says, None where it is empty; raises `UsageError` for anything else."""
    said = environment.get(SOURCES, "")
    found = next((one for one in get_args(Sources) if one == said), None)
    if said and found is None:
        raise UsageError(
            f"{SOURCES} is {said!r}", next_step=f"set it to one of: {' '.join(get_args(Sources))}"
        )
    return found


def said_rocm(environment: Mapping[str, str]) -> str:
    """What `ROCWRIGHT_ROCM` says, as `parse_rocm` takes it; empty for nothing."""
    return environment.get(ROCM, "").strip()


# How each kind of --rocm is written, and what follows the colon.
_ROCM = {
    "index": "the name or the address of a package index",
    "page": "the address of a page of wheels",
    "therock": "the number of a run of TheRock",
    "packages": "the id of an earlier run",
    "artifacts": "the id of an earlier run",
    "tarball": "the path or the address of a tarball",
    "prefix": "the directory of an installation",
    "command": "a command line that builds ROCm into $ROCWRIGHT_ROCM_DIR",
    "distribution": "",
}


def parse_rocm(text: str, known: Known, version: str = "") -> Rocm:
    """Where ROCm comes from, written as `KIND:WHERE`: `index:nightly`, `prefix:/opt/rocm`, `distribution`.

    Of a stream's indexes it is the one that has the `version`.

    Raises `UsageError` for a kind that is none or lacks what it needs, and for an unknown name of an index.
    """
    kind, _, at = text.strip().partition(":")
    if kind not in _ROCM:
        near = get_close_matches(kind, _ROCM, n=1)
        raise UsageError(
            f"{text!r} does not say where ROCm comes from",
            next_step=f"perhaps {near[0]}:{at}" if near else f"write one of {', '.join(_written())}",
        )
    if bool(at) != bool(_ROCM[kind]):
        raise UsageError(
            f"{text!r} lacks {_ROCM[kind]}" if _ROCM[kind] else f"nothing follows {kind}",
            next_step=f"write {next(one for one in _written() if one.startswith(kind))}",
        )
    if kind == "index":
        return _index(at, known.indexes, version)
    if kind == "therock":
        return Rocm("artifacts", require_run_id(at), store=known.therock)
    if kind in ("packages", "artifacts"):
        return Rocm("packages" if kind == "packages" else "artifacts", require_run_id(at))
    if kind == "prefix" or (kind == "tarball" and not _is_address(at)):
        return Rocm("prefix" if kind == "prefix" else "tarball", str(Path(at).resolve()))
    if kind == "page" and not _is_address(at):
        raise UsageError(f"{at!r} is not the address of a page", next_step="write page:https://…")
    return msgspec.convert({"kind": kind, "at": at}, Rocm)


def default_rocm(profile: Profile, known: Known, *, mini: bool) -> Rocm:
    """Where ROCm comes from if nobody says so: as the profile says for PyTorch itself."""
    return Rocm() if mini else parse_rocm(profile.rocm, known)


def _written() -> list[str]:
    return [f"{kind}:{'…'}" if what else kind for kind, what in _ROCM.items()]


def _is_address(text: str) -> bool:
    return re.match(r"[a-z][a-z0-9+.-]*://", text) is not None


def _index(at: str, indexes: IndexTable, version: str) -> Rocm:
    if _is_address(at):
        return Rocm("index", at)
    named = indexes.with_rocm(at, version)
    return Rocm("index", named.url, by_family=named.by_family)


def choose_rocm(
    known: Known,
    *,
    source: str = "",
    usual: str = "",
    prefix: str | None = None,
    version: str = "",
    run_id: str = "",
    reuse: str | None = None,
    repository: str = "",
) -> Rocm | None:
    """Where ROCm comes from, None where nothing says so.

    `source` is `--rocm`, `usual` what the environment says where no option does; prefix and run have options
    of their own besides. Raises `UsageError` naming the two options that contradict each other.
    """
    given = {"--rocm": source, "--rocm-prefix": prefix, "--artifact-run-id": run_id}
    named = [option for option, value in given.items() if value]
    if len(named) > 1:
        raise _both(named[0], named[1], "ROCm comes from one place")
    for name, value in (("--reuse", reuse), ("--repository", repository)):
        if value and not run_id:
            raise _alone(name, "--artifact-run-id", "the earlier run")
    said = source or (f"prefix:{prefix}" if prefix else "" if run_id else usual)
    found = parse_rocm(said, known, version) if said else None
    if run_id:
        found = Rocm("artifacts" if reuse == "artifacts" else "packages", run_id, repository)
    if version and (found is None or found.kind not in ("prefix", "index", "page", "tarball", "command")):
        raise _alone("--rocm-version", "--rocm or --rocm-prefix", "the installation, or the index,")
    return None if found is None else msgspec.structs.replace(found, version=version)


def _both(one: str, other: str, why: str) -> UsageError:
    return UsageError(f"{one} and {other} contradict each other: {why}", next_step="leave one of them out")


def _alone(option: str, other: str, what: str) -> UsageError:
    return UsageError(f"{option} is about {what} that {other} names", next_step=f"add {other}")


def require_run_id(run_id: str) -> str:
    """The name itself, when a run can have it; raises `InvalidInput` else."""
    if _RUN_ID.fullmatch(run_id) is None or run_id in _TAKEN or run_id.endswith(PARTIAL):
        raise InvalidInput(
            f"{run_id!r} is not a valid run id",
            next_step="give --run-id letters and digits, with dots, dashes and underscores after the first "
            "one, at most 128",
        )
    return run_id


def rendered(environment: Mapping[str, str]) -> bool:
    """Whether this is a job of a rendered workflow, which says in either case how results travel."""
    return bool(environment.get(CARRY))


def carries(environment: Mapping[str, str]) -> bool:
    """Whether results travel as artifacts; raises `UsageError` for another word in the variable.

    A rendered workflow says `store` where they travel through a store.
    """
    said = environment.get(CARRY, "")
    if said not in ("", "store", "artifacts"):
        raise UsageError(f"{CARRY} is {said!r}", next_step="set it to artifacts or store, or to nothing")
    return said == "artifacts"
