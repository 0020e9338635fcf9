"""Entries in the reference's format: a file for all versions, and one for each version of torch."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from rocwright.gputest.inside.rocwright_patterns import is_exact, parts
from rocwright.gputest.skips.expression import word_of
from rocwright.gputest.skips.hold import FamilyMembers, release_line, targets_of
from rocwright.gputest.skips.reference import GENERIC, VARIABLE
from rocwright.gputest.skips.versions import version_fits
from rocwright.model.skips import SkipEntry, SkipWhere

_HEAD = "# Made from skip entries, where reasons and days stand; a name means every test that holds it.\n"


class Exported(msgspec.Struct, frozen=True):
    """The text of each file by name, and the entries that the format cannot say, with the reason."""

    files: dict[str, str]
    left_out: dict[str, str]


def exported(entries: Sequence[SkipEntry], families: FamilyMembers, torch: str | None = None) -> Exported:
    """Files of the reference's format; `torch` (`2.9`) also brings what holds for ranges of versions there.

    The format knows no versions of ROCm and Python, no targets on one platform, and leaves out what is flaky.
    """
    tables: dict[str, dict[str, dict[str, list[str]]]] = {}
    left_out: dict[str, str] = {}
    for entry in entries:
        file = _file(entry.where, torch)
        words = {test: word_of(test) for test in entry.tests}
        why = _unsayable(entry, words, file)
        if why:
            left_out[entry.id] = why
            continue
        for section in _sections(entry.where, families):
            for test, word in words.items():
                modules = tables.setdefault(file or GENERIC, {}).setdefault(section, {})
                names = modules.setdefault(_module(test), [])
                if word is not None and word not in names:
                    names.append(word)
    return Exported({name: _text(table) for name, table in sorted(tables.items())}, left_out)


def _file(where: SkipWhere, torch: str | None) -> str | None:
    """The file that an entry goes into, None where its versions have no file."""
    if not where.torch:
        return GENERIC
    line = release_line(where.torch)
    if torch is not None and version_fits(where.torch, torch):
        return f"pytorch_{'.'.join(torch.split('.')[:2])}.py"
    if torch is None and line is not None and line.count(".") == 1:
        return f"pytorch_{line}.py"
    return None


def _unsayable(entry: SkipEntry, words: dict[str, str | None], file: str | None) -> str:
    where = entry.where
    if entry.kind == "flaky":
        return "is flaky, and run"
    if where.rocm or where.python:
        return "holds for some versions of ROCm or Python only"
    if where.targets and where.platforms:
        return "holds for some targets on one platform only"
    if file is None:
        return f"holds for torch {where.torch}, which is no one version: name one with --torch"
    unsaid = [test for test, word in words.items() if word is None or not is_exact(parts(test)[0])]
    return f"has a pattern that no name stands for: {unsaid[0]}" if unsaid else ""


def _sections(where: SkipWhere, families: FamilyMembers) -> list[str]:
    if where.targets:
        # A family matches no target there: the section has to be a part of the target's name.
        short = [name[:-1] for name in where.targets if name.endswith("*")]
        others = [name for name in where.targets if not name.endswith("*")]
        return [*short, *sorted(targets_of(others, families))]
    return list(where.platforms) or ["common"]


def _module(test: str) -> str:
    folder, slash, name = parts(test)[0].removesuffix(".py").rpartition("/")
    return f"{folder}{slash}{name.removeprefix('test_')}"


def _text(table: dict[str, dict[str, list[str]]]) -> str:
    lines = [_HEAD + f"{VARIABLE} = {{"]
    for section, modules in sorted(table.items()):
        lines.append(f"    {json.dumps(section)}: {{")
        for module, names in sorted(modules.items()):
            lines.append(f"        {json.dumps(module)}: [")
            lines += [f"            {json.dumps(name)}," for name in sorted(names)]
            lines.append("        ],")
        lines.append("    },")
    return "\n".join([*lines, "}"]) + "\n"
