"""What the system's loader misses in the libraries of a wheel, beside what `rocwright check` says of them.

`PYTHONPATH=tests python -m real.loader_witness FILE...` prints each symbol on which the two differ, and why.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from rocwright.check.rules.elf import native
from rocwright.check.run import CheckRequest, gather_paths

_UNDEFINED = re.compile(r"undefined symbol: (?P<name>[^,\s]+)(?:, version \S+)?\s+\((?P<file>[^)]*)\)")
_NO_VERSION = re.compile(r"symbol (?P<name>\S+), version \S+ not defined in file \S+ .*\((?P<file>[^)]*)\)")
_INTERPRETER = ("Py", "_Py")
# What an interpreter has loaded before any module.
_BY_PYTHON = "libm.so.6"


@dataclass(frozen=True)
class Said:
    """What `ldd -r` says of a file: symbols that nothing defines, and libraries that are nowhere."""

    undefined: frozenset[str]
    lost: frozenset[str]
    refused: bool = False


@dataclass(frozen=True)
class Difference:
    """A symbol that only one of the two misses; `why` is empty where there is no reason for it."""

    member: str
    symbol: str
    by: str
    why: str = ""


@dataclass(frozen=True)
class Compared:
    """What both say of a wheel: members that were compared, where they differ, what both miss of which."""

    members: tuple[str, ...]
    differences: tuple[Difference, ...]
    missed: frozenset[tuple[str, str]]


def ask_loader(path: Path, preload: str = "") -> Said:
    """The loader's answer for one library, without the names of the interpreter."""
    env = {**os.environ, "LC_ALL": "C", "LD_PRELOAD": preload}
    env.pop("LD_LIBRARY_PATH", None)
    done = subprocess.run(["ldd", "-r", path], capture_output=True, text=True, env=env, check=False)
    text = done.stdout + done.stderr
    found = {
        match["name"]
        for pattern in (_UNDEFINED, _NO_VERSION)
        for match in pattern.finditer(text)
        if match["file"] == str(path) and not match["name"].startswith(_INTERPRETER)
    }
    lost = {line.split()[0] for line in text.splitlines() if line.endswith("=> not found")}
    refused = "not a dynamic executable" in text or "statically linked" in text
    return Said(frozenset(found), frozenset(lost), refused)


def compared(wheel: Path) -> Compared:
    """Ask both for each library of a wheel."""
    context = gather_paths(CheckRequest((wheel,))).context
    (facts,) = context.files
    members: list[str] = []
    found: list[Difference] = []
    missed: set[tuple[str, str]] = set()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        for elf in native(facts, context):
            program = elf.interp is not None or elf.kind == "exec"
            said = ask_loader(Path(folder, elf.member), "" if program else _BY_PYTHON)
            if elf.symbols is None or said.refused:
                continue
            members.append(elf.member)
            ours = {want.name for want in context.scopes.missing(facts, elf, closed=False)}
            ours = {name for name in ours if not name.startswith(_INTERPRETER)}
            missed |= {(elf.member, name) for name in ours & said.undefined}
            if said.lost:
                why = "a library that it loads is not at hand"
            else:
                why = "" if elf.symbols.inits else "no module: whoever opens it may define it"
            found += [Difference(elf.member, name, "loader", why) for name in sorted(said.undefined - ours)]
            found += [Difference(elf.member, name, "check") for name in sorted(ours - said.undefined)]
    return Compared(tuple(members), tuple(found), frozenset(missed))


def main(names: list[str]) -> None:
    """Print the differences of each wheel, and how many there are of each kind."""
    counts = Counter[str]()
    for name in names:
        said = compared(Path(name))
        counts["libraries"] += len(said.members)
        counts["both"] += len(said.missed)
        for one in said.differences:
            counts[f"{one.by}: {one.why}"] += 1
            print(Path(name).name[:40], one.member, one.by, one.symbol, one.why, sep="\t", flush=True)
    for kind, count in counts.most_common():
        print(count, kind)


if __name__ == "__main__":
    main(sys.argv[1:])
