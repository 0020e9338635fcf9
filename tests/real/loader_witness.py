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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rocwright.check.rules.elf import native
from rocwright.check.run import CheckRequest, gather_paths

_UNDEFINED = re.compile(r"undefined symbol: (?P<name>[^,\s]+)(?:, version \S+)?\s+\((?P<file>[^)]*)\)")
_NO_VERSION = re.compile(r"symbol (?P<name>\S+), version \S+ not defined in file \S+ .*\((?P<file>[^)]*)\)")
_INTERPRETER = ("Py", "_Py")


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


def ask_loader(path: Path) -> Said:
    """The loader's answer for one library, without the names of the interpreter."""
    env = {**os.environ, "LC_ALL": "C"}
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


def differences(wheel: Path) -> Iterator[Difference | str]:
    """Each symbol of a wheel that one of the two misses alone; a text for each library that was compared."""
    gathered = gather_paths(CheckRequest((wheel,)))
    context = gathered.context
    (facts,) = context.files
    scopes = context.scopes
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        for elf in native(facts, context):
            said = ask_loader(Path(folder, elf.member))
            if elf.symbols is None or said.refused:
                continue
            yield elf.member
            ours = {want.name for want in scopes.missing(facts, elf, closed=False)}
            ours = {name for name in ours if not name.startswith(_INTERPRETER)}
            inside = [one.symbols for one in facts.elf if one.symbols is not None and one is not elf]
            for name in sorted(said.undefined - ours):
                if any(hash(name.encode()) in symbols.defined for symbols in inside):
                    why = "another library of the wheel defines it, and may be loaded before"
                elif said.lost:
                    why = "a library that it loads is not at hand"
                elif not elf.symbols.inits:
                    why = "no module: whoever opens it may define it"
                else:
                    why = ""
                yield Difference(elf.member, name, "loader", why)
            for name in sorted(ours - said.undefined):
                yield Difference(elf.member, name, "check")


def main(names: list[str]) -> None:
    """Print the differences of each wheel, and how many there are of each kind."""
    counts = Counter[str]()
    for name in names:
        for one in differences(Path(name)):
            if isinstance(one, str):
                counts["libraries"] += 1
                continue
            counts[f"{one.by}: {one.why}"] += 1
            print(Path(name).name[:40], one.member, one.by, one.symbol, one.why, sep="\t", flush=True)
    for kind, count in counts.most_common():
        print(count, kind)


if __name__ == "__main__":
    main(sys.argv[1:])
