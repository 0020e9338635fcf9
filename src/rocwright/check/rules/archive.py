"""Rules about the archive: its names, its members, its RECORD."""

from __future__ import annotations

import re
from collections.abc import Iterator
from zipfile import ZIP_STORED

from rocwright.check.context import Context
from rocwright.check.facts import Facts
from rocwright.check.rules.base import Problem, Rule

_DATA_DESCRIPTOR = 1 << 3
_REBUILD = "build the wheel again; a wheel is never repaired by hand"


def _member_names(facts: Facts, _: Context) -> Iterator[Problem]:
    for member in facts.members:
        parts = member.name.split("/")
        if member.name.startswith("/") or "\\" in member.name or re.match("[A-Za-z]:", member.name):
            yield Problem("the name is no relative path with forward slashes", _REBUILD, member.name)
        elif any(part in ("", ".", "..") for part in parts):
            yield Problem("the name leaves the folder it is installed in", _REBUILD, member.name)


def _member_twice(facts: Facts, _: Context) -> Iterator[Problem]:
    seen: set[str] = set()
    for member in facts.members:
        if member.name in seen:
            yield Problem("it is in the archive twice", _REBUILD, member.name)
        seen.add(member.name)


def _stored_descriptor(facts: Facts, _: Context) -> Iterator[Problem]:
    for member in facts.members:
        if member.method == ZIP_STORED and member.flags & _DATA_DESCRIPTOR:
            yield Problem(
                "it is stored with a data descriptor; uv refuses such a member over HTTP",
                "write its size and checksum into the local header",
                member.name,
            )


def _record(facts: Facts, _: Context) -> Iterator[Problem]:
    for fault in facts.record:
        yield Problem(fault.what, "write RECORD after the last change to a member", fault.member)


RULES = (
    Rule(
        "member-names",
        "Names are relative, with forward slashes, and stay inside.",
        _member_names,
        waivable=False,
    ),
    Rule("member-twice", "No name is in the archive twice.", _member_twice, waivable=False),
    Rule("stored-descriptor", "No stored member has a data descriptor.", _stored_descriptor),
    Rule(
        "record",
        "RECORD lists every member, and nothing else, with the right digest and size.",
        _record,
        waivable=False,
    ),
)
