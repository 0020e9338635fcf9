"""The variables of a repository that rendered workflows read, and what they say of each. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import get_args
from urllib.parse import urlsplit

from rocwright.errors import UsageError
from rocwright.model.plan import Profile, Sources
from rocwright.model.workflows import VariableRow, WorkflowTable
from rocwright.pipeline.define.inputs import ROCM, SOURCES, Known, parse_rocm
from rocwright.pipeline.doctor.conditions import Condition

STORE, REGION, TESTED = "ROCWRIGHT_STORE", "ROCWRIGHT_REGION", "ROCWRIGHT_TEST_FAMILIES"
_READ = re.compile(r"\bvars\.([A-Za-z_][A-Za-z0-9_]*)")
# A number, or one of two: whether the repository names larger machines.
_SECONDS = re.compile(r"\bseconds: (?:\$\{\{ vars\.(\w+) && ([0-9]+) \|\| ([0-9]+) \}\}|'?([0-9]+)\b)")
_OURS = ("ROCWRIGHT_", "ROCM_THEROCK_")
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]")
# As docker reads it: a registry with a port, a path, and a tag or a digest.
_IMAGE = re.compile(
    r"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?[a-z0-9._/-]+(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)


def variables_read(files: Mapping[PurePosixPath, str]) -> dict[str, tuple[str, ...]]:
    """Which files read each variable, sorted by name; `files` are rendered ones by path."""
    found: dict[str, dict[str, None]] = {}
    for path, text in files.items():
        for name in _READ.findall(text):
            found.setdefault(name, {})[path.name] = None
    return {name: tuple(found[name]) for name in sorted(found)}


def longest_role(files: Mapping[PurePosixPath, str], variables: Mapping[str, str]) -> int:
    """The longest time in seconds for which a job of these workflows asks for its role."""
    found = (one for text in files.values() for one in _SECONDS.findall(text))
    asked = (plain or (larger if variables.get(name) else usual) for name, larger, usual, plain in found)
    return max(map(int, asked), default=3600)


def described(table: WorkflowTable, profiles: Iterable[Profile]) -> dict[str, VariableRow]:
    """What each variable is about, by its name: of its own rows, and of those that name one."""
    rows = [VariableRow(REGION, "the region of the bucket", table.region)]
    rows += [
        VariableRow(one.variable, f"the label of {one.platform} machines that build", one.label)
        for one in table.machine
    ]
    rows += [
        VariableRow(
            one.variable,
            f"the image of jobs that {one.use} on {one.platform}; none: the machine itself",
            f"{one.image}, by digest",
        )
        for one in table.container
        if one.variable
    ]
    rows += [
        VariableRow(
            one.role,
            f"the ARN of the role that the profile {one.name} writes with",
            "its runs write to no store",
        )
        for one in profiles
        if one.role
    ]
    return {row.name: row for row in (*table.variable, *rows)}


# -- what is wrong with those that a repository has


def judge_names(variables: Mapping[str, str], read: Iterable[str]) -> tuple[Condition, ...]:
    """Names that look like ours and that no workflow reads."""
    known = tuple(read)
    found = []
    for name in sorted(variables):
        if name in known or not name.startswith(_OURS):
            continue
        near = get_close_matches(name, known, n=1)
        hint = f"gh variable set {near[0]} --body {shlex.quote(variables[name])}; " if near else ""
        found.append(
            Condition(
                "variables",
                "wrong",
                f"no workflow reads {name}" + (f": perhaps {near[0]} was meant" if near else ""),
                f"{hint}gh variable delete {name}",
                name,
            )
        )
    return tuple(found)


def judge_values(variables: Mapping[str, str], known: Known) -> tuple[Condition, ...]:
    """Values that no run could use: each would end in its first job."""
    problems: list[tuple[str, str, str]] = []
    said = variables.get(STORE, "").strip()
    if said and urlsplit(said).scheme.lower() != "s3":
        problems.append(
            (STORE, f"{said!r} is no bucket, and machines of a run share no folder", "s3://BUCKET/PREFIX")
        )
    said = variables.get(REGION, "").strip()
    if said and _REGION.fullmatch(said) is None:
        problems.append((REGION, f"{said!r} is not a region", "us-east-2"))
    said = variables.get(SOURCES, "").strip()
    if said and said not in get_args(Sources):
        problems.append((SOURCES, f"{said!r} is not one of {', '.join(get_args(Sources))}", "upstream"))
    said = variables.get(ROCM, "").strip()
    if said:
        try:
            parse_rocm(said, known)
        except UsageError as error:
            problems.append((ROCM, error.what, "index:nightly"))
    return tuple(
        Condition("variables", "wrong", f"{name}: {why}", f"gh variable set {name} --body {example}", name)
        for name, why, example in problems
    )


def judge_images(variables: Mapping[str, str], table: WorkflowTable) -> tuple[Condition, ...]:
    """The images of jobs; whether a registry has one is not asked."""
    found = []
    for row in table.container:
        said = variables.get(row.variable, "").strip() if row.variable else ""
        if not said:
            continue
        if said == "none":
            detail = f"jobs that {row.use} on {row.platform} run on the machine itself"
            found.append(Condition("images", "note", detail, about=row.variable))
        elif (image := _IMAGE.fullmatch(said)) is None:
            step = f"gh variable set {row.variable} --body {row.pinned}"
            found.append(
                Condition("images", "wrong", f"{said!r} is not the name of an image", step, row.variable)
            )
        elif image.group(1) is None:
            detail = f"{said} has no digest, so it can change between two jobs of a run"
            step = f"docker buildx imagetools inspect {said}"
            found.append(Condition("images", "note", detail, step, row.variable))
        else:
            found.append(Condition("images", "ok", said, about=row.variable))
    return tuple(found) or (Condition("images", "ok", "those that the workflows name, by digest"),)


def with_plain_values(conditions: Sequence[Condition], variables: Mapping[str, str]) -> tuple[Condition, ...]:
    """The conditions of variables, or that all of them are as they should be."""
    if conditions:
        return tuple(conditions)
    ours = sorted(name for name in variables if name.startswith(_OURS))
    return (Condition("variables", "ok", f"set: {', '.join(ours) or 'none'}"),)
