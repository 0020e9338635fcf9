"""Two commits side by side at every door: what commands print, how they end, what they write.

``make compare BASE=<commit> HEAD=<commit>`` runs both, one after the other at the same place, and prints each
difference, those that `cases.toml` explains with their reason. Exit code 1: a difference without one.

What is run: `--help` of every command and documented script; the lines of `cases.toml` on the store, the work
directory and the lock of one demo that the base made; and, unless ``--quick``, every command of the
documents, as the conformance tests type it. A commit's results are kept and not made again.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from rocwright.system.files import sha256_file

REPOSITORY = Path(__file__).resolve().parents[3]
CASES = Path(__file__).with_name("cases.toml")
LIMIT_S = 900
SHOWN = 12
# Files whose bytes are told by a digest; the others are compared as text.
_TEXT = (".json", ".html", ".toml", ".txt", ".xml", ".yml", ".log", "METADATA", "RECORD")


@dataclass
class Seen:
    """What a line did: exit code, both streams, and the files of its room, each with its text or digest."""

    code: int
    out: str
    err: str
    files: dict[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """All of it as lines that can be compared."""
        told = [f"exit {self.code}", *(f"out: {line}" for line in self.out.splitlines())]
        told += [f"err: {line}" for line in self.err.splitlines()]
        return told + [f"file: {name}: {text}" for name, text in sorted(self.files.items())]


class Plain:
    """Leaves out of a text what differs from run to run of one commit."""

    def __init__(self, rows: Iterable[dict[str, str]]) -> None:
        self.rows = [(re.compile(row["pattern"]), row["becomes"]) for row in rows]

    def __call__(self, text: str) -> str:
        for pattern, becomes in self.rows:
            text = pattern.sub(becomes, text)
        return text


@dataclass(frozen=True)
class Side:
    """One commit in the clone that both take turns in."""

    clone: Path
    commit: str
    plain: Plain

    def prepare(self) -> None:
        """Check it out, and install it as it wants to be."""
        _call("git", "-C", str(self.clone), "checkout", "--quiet", "--force", self.commit)
        _call("git", "-C", str(self.clone), "clean", "-qfdx", "-e", ".venv")
        (self.clone / ".venv" / ".dev").unlink(missing_ok=True)
        _call("make", "-s", "-C", str(self.clone), ".venv/.dev")

    def run(self, line: str, room: Path, **variables: str) -> Seen:
        """Type a line in a directory; no such directory counts as an exit code of its own."""
        path = f"{self.clone / '.venv' / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=room,
            env={**os.environ, "PATH": path, "COLUMNS": "100", **variables},
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=LIMIT_S,
            check=False,
        )
        return Seen(done.returncode, self.plain(done.stdout), self.plain(done.stderr))


def _call(*words: str) -> str:
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


# -- what is run


def _helps(side: Side, room: Path) -> Iterator[tuple[str, Seen]]:
    page = (side.clone / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    commands = re.findall(r"^## (rocwright .+)$", page, re.MULTILINE)
    groups = {line.rpartition(" ")[0] for line in commands}
    listed = _call("git", "-C", str(side.clone), "ls-files", "external-builds", "build_tools", "third-party")
    scripts = [name for name in listed.split() if name.endswith(".py") and "/smoke-tests/" not in name]
    lines = [*commands, *groups, *(f"python {side.clone}/{name}" for name in scripts)]
    for line in sorted(lines):
        yield f"{side.plain(line)} --help", side.run(f"{line} --help", room)


def _cases(side: Side, table: dict[str, Any], demo: Path, room: Path) -> Iterator[tuple[str, Seen]]:
    shutil.copytree(demo / "store", room / "store", copy_function=os.link, symlinks=True)
    known: dict[tuple[str, int, int], str] = {}
    passed_over = re.compile("|".join(table["passed_over"]))
    before = _files(room, side, passed_over, known)
    for line in table["lines"]:
        seen = side.run(line, room, DEMO=str(demo))
        after = _files(room, side, passed_over, known)
        seen.files = {name: text for name, text in after.items() if before.get(name) != text}
        seen.files |= dict.fromkeys(before.keys() - after.keys(), "gone")
        before = after
        yield line, seen


def _files(
    room: Path, side: Side, passed_over: re.Pattern[str], known: dict[tuple[str, int, int], str]
) -> dict[str, str]:
    """Path to digest, of texts without what differs from run to run; `known` spares reading a file again."""
    found = {}
    for path in sorted(room.rglob("*")):
        if path.is_symlink() or not path.is_file() or passed_over.search(str(path)):
            continue
        facts = path.stat()
        key = (str(path), facts.st_ino, facts.st_mtime_ns)
        if key not in known:
            text = side.plain(path.read_text(errors="replace")) if path.name.endswith(_TEXT) else None
            known[key] = sha256_file(path) if text is None else hashlib.sha256(text.encode()).hexdigest()
        found[side.plain(path.relative_to(room).as_posix())] = known[key][:16]
    return found


def _documented(side: Side, place: Path) -> Iterator[tuple[str, Seen]]:
    """Every command that the conformance tests type, scene by scene; a red run is a difference itself."""
    shutil.rmtree(place, ignore_errors=True)
    line = f"cd {side.clone} && python -m pytest -q -n 2 --dist worksteal tests/conformance"
    done = subprocess.run(
        ["bash", "-c", line],
        env={
            **os.environ,
            "PATH": f"{side.clone / '.venv' / 'bin'}:{os.environ['PATH']}",
            "ROCWRIGHT_CONFORMANCE": str(place),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stdout.strip().splitlines()[-1:]
    yield "conformance", Seen(done.returncode, side.plain("\n".join(last)), "")
    for transcript in sorted(place.glob("*/transcript.json")):
        for number, one in enumerate(json.loads(transcript.read_text())["done"]):
            name = f"{transcript.parent.name} {number}: {side.plain(one['printed'])}"
            # What tools beside ours say on stderr (pip, git) comes in any order.
            err = "\n".join(text for text in one["err"].splitlines() if text.startswith(("error", "  next:")))
            yield name, Seen(one["code"], side.plain(one["out"]), side.plain(err))


# -- differences

_DOCUMENTED = re.compile(r"[\w-]+ \d+: |conformance$")


def without_noise(seen: dict[str, Seen], noise: Plain) -> dict[str, Seen]:
    """What documents' commands did, without what follows from when they were typed.

    Their sources are committed anew for each run, so commits, what is built of them and the ids of sets
    differ; reports go by what took longest, so the order of lines says nothing.
    """
    found = {}
    for case, one in seen.items():
        if _DOCUMENTED.match(case):
            out, err = ("\n".join(sorted(noise(text).splitlines())) for text in (one.out, one.err))
            case, one = noise(case), Seen(one.code, out, err, one.files)
        found[case] = one
    return found


@dataclass(frozen=True)
class Reason:
    """Why lines of some cases may differ: patterns of the case and of the changed lines."""

    case: str
    lines: str
    reason: str

    def explains(self, case: str, line: str) -> bool:
        return re.search(self.case, case) is not None and re.search(self.lines, line) is not None


def differences(
    old: dict[str, Seen], new: dict[str, Seen], reasons: Iterable[Reason]
) -> Iterator[tuple[str, list[str], set[str]]]:
    """Case, changed lines, and the reasons that explain all of them; none where a line has no reason."""
    reasons = tuple(reasons)
    for case in [*old, *(name for name in new if name not in old)]:
        if case not in old or case not in new:
            changed = ["+ the case is new" if case in new else "- the case is gone"]
        else:
            diff = difflib.unified_diff(old[case].lines(), new[case].lines(), lineterm="", n=0)
            changed = [line for line in diff if not line.startswith(("---", "+++", "@@"))]
        if changed:
            found = [next((one for one in reasons if one.explains(case, line)), None) for line in changed]
            yield case, changed, {one.reason for one in found if one} if all(found) else set()


def results(side: Side, base: Side, table: dict[str, Any], work: Path, *, quick: bool) -> dict[str, Seen]:
    """What one commit does at all doors, from the work directory where it is known."""
    kept = work / f"seen-{side.commit[:12]}{'-quick' if quick else ''}.json"
    if kept.exists():
        return {case: Seen(**seen) for case, seen in json.loads(kept.read_text()).items()}
    demo, room = work / "demo", work / "room"
    if not (demo / "store").exists():
        base.prepare()
        subprocess.run(
            [base.clone / ".venv/bin/rocwright", "demo", "--work-dir", demo], check=True, capture_output=True
        )
    side.prepare()
    shutil.rmtree(room, ignore_errors=True)
    room.mkdir()
    seen = dict(_helps(side, room))
    seen |= dict(_cases(side, table, demo, room))
    if not quick:
        seen |= dict(_documented(side, work / "documents"))
    if side != base:
        # It has been taken up by another commit.
        shutil.rmtree(demo)
    kept.write_text(json.dumps({case: asdict(one) for case, one in seen.items()}, indent=1))
    return seen


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 when every difference has a reason."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("base")
    parser.add_argument("head", nargs="?", default="HEAD")
    parser.add_argument("--work", type=Path, default=Path("/tmp/rocwright-doors"), help="kept between runs")
    parser.add_argument("--quick", action="store_true", help="without the commands of the documents")
    asked = parser.parse_args(arguments)
    work: Path = asked.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    table = msgspec.toml.decode(CASES.read_bytes())
    clone = work / "clone"
    if not clone.exists():
        _call("git", "clone", "--quiet", str(REPOSITORY), str(clone))
    _call("git", "-C", str(clone), "fetch", "--quiet", "origin", "+refs/*:refs/compared/*")
    commits = [_call("git", "-C", str(REPOSITORY), "rev-parse", name) for name in (asked.base, asked.head)]
    here = [{"pattern": re.escape(str(path)), "becomes": f"<{path.name}>"} for path in (clone, work)]
    plain = Plain([*here, *table["plain"]])
    base, head = (Side(clone, commit, plain) for commit in commits)
    old, new = (results(side, base, table, work, quick=asked.quick) for side in (base, head))
    noise = Plain(table["noise"])
    old, new = without_noise(old, noise), without_noise(new, noise)
    reasons = [Reason(**row) for row in table["difference"]]
    told = list(differences(old, new, reasons))
    for case, changed, why in told:
        print(f"\n{case}\n  reason: {'; '.join(sorted(why)) or 'NONE'}")
        print("\n".join(f"    {line[:200]}" for line in changed[:SHOWN]))
        if len(changed) > SHOWN:
            print(f"    and {len(changed) - SHOWN} more lines")
    open_ = sum(not why for _, _, why in told)
    used = {why for _, _, whys in told for why in whys}
    stale = [one.reason for one in reasons if one.reason not in used]
    typed = " ".join(table["lines"])
    silent = [case.removesuffix(" --help") for case in new if case.endswith("--help")]
    silent = [name for name in silent if name.startswith("rocwright ") and name not in typed]
    print(f"\n{len(new)} cases: {len(new) - len(told)} equal, {len(told)} differ, {open_} without a reason")
    print(f"only their --help was compared here: {', '.join(silent)}")
    print("".join(f"no difference has this reason any more: {one}\n" for one in stale), end="")
    return 1 if open_ else 0


if __name__ == "__main__":
    sys.exit(main())
