"""What ROCm's packages cost in use: start of `rocm-sdk`, import, the first call of the compiler, disk."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sdk_measure import Command, cpu_ms, disk_bytes, middle, run, sha256, shown

MOST_VERSION_MS = 5.0  # CPU above the launcher
MOST_IMPORT_MS = 8.0  # CPU above the bare interpreter
MOST_EXPANSION = 1.5  # of tar x
SHORT_RUNS = 40
EXPANSIONS = 5
UV = Path(sys.executable).with_name("uv")


def install(wheels: Path, scratch: Path, requirement: str) -> Path:
    """A new environment with the packages of a directory; nothing is linked to anywhere else."""
    place = scratch / "venv"
    run([UV, "venv", "-q", "--python", sys.executable, place])
    options: Command = ["--no-index", "--link-mode", "copy", "--cache-dir", scratch / "uv-cache"]
    command = [UV, "pip", "install", "-q", "--python", place / "bin/python", *options]
    run([*command, "--find-links", wheels, requirement])
    shutil.rmtree(scratch / "uv-cache")
    return place


def runtime(wheels: Path, scratch: Path, requirement: str) -> dict[str, object]:
    """All figures of one installation."""
    place = install(wheels, scratch, requirement)
    return {
        "installed": requirement,
        "rocm-sdk version": version(place / "bin"),
        "import rocm_sdk": importing(place / "bin"),
        "first compiler call": expansion(place, scratch),
        "disk": duplicates(place),
    }


def version(programs: Path) -> dict[str, object]:
    """CPU of `rocm-sdk version` above its own launcher with nothing behind it."""
    launcher, empty = programs / "rocm-sdk", programs / "rocm-sdk-empty"
    text, found = re.subn(
        r"^from rocm_sdk\._cli import main$", "main = int", launcher.read_text(), flags=re.MULTILINE
    )
    assert found == 1, "the installer's launcher looks different"
    empty.write_text(text)
    empty.chmod(0o755)
    return above([launcher, "version"], [empty, "version"], MOST_VERSION_MS)


def importing(programs: Path) -> dict[str, object]:
    """CPU of `import rocm_sdk` above a bare interpreter."""
    python = programs / "python"
    return above([python, "-c", "import rocm_sdk"], [python, "-c", "pass"], MOST_IMPORT_MS)


def above(ours: Command, floor: Command, most: float) -> dict[str, object]:
    """Both in turn, often; the difference of the medians, and of the least figures."""
    for command in (ours, floor):
        cpu_ms(command)  # writes byte code
    pairs = [(cpu_ms(ours), cpu_ms(floor)) for _ in range(SHORT_RUNS)]
    mine, least = zip(*pairs, strict=True)
    difference = statistics.median(mine) - statistics.median(least)
    return {
        "goal": f"at most {most} ms CPU above the floor",
        "measured": {
            "above_ms": round(difference, 2),
            "above_ms_of_minima": round(min(mine) - min(least), 2),
            "cpu_ms": middle(mine),
        },
        "floor": {"cpu_ms": middle(least)},
        "met": difference <= most,
        "runs": SHORT_RUNS,
        "commands": {"ours": shown(ours), "floor": shown(floor)},
    }


def expansion(place: Path, scratch: Path) -> dict[str, object]:
    """The first `hipcc --version`, `rocm-sdk init` and `tar x` of the same archive, in turn, each anew."""
    programs = place / "bin"
    root = Path(run([programs / "rocm-sdk", "path", "--root"]).output.strip())
    archive, fresh = root.parent / "_devel.tar", scratch / "tar"
    first: Command = [programs / "hipcc", "--version"]
    init: Command = [programs / "rocm-sdk", "init", "--quiet"]
    tar: Command = ["tar", "xf", archive, "-C", fresh]

    def expanding(command: Command) -> Callable[[], float]:
        def once() -> float:
            shutil.rmtree(root, ignore_errors=True)
            return run(command, sample=False).wall

        return once

    def unpacking() -> float:
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        return run(tar, sample=False).wall

    sides = {"hipcc": expanding(first), "tar": unpacking, "init": expanding(init)}
    seen: dict[str, list[float]] = {name: [] for name in (*sides, "hipcc again")}
    for _ in range(EXPANSIONS):
        for name, once in sides.items():
            seen[name].append(once())
        seen["hipcc again"].append(run(first, sample=False).wall)
    shutil.rmtree(fresh)
    ratios = {
        name: middle(mine / least for mine, least in zip(seen[name], seen["tar"], strict=True))
        for name in ("hipcc", "init")
    }
    return {
        "goal": f"the first hipcc --version at most {MOST_EXPANSION} of tar x",
        "measured": {
            "ratio": ratios["hipcc"],
            "ratio without hipcc's own time": middle(
                (mine - own) / least
                for mine, own, least in zip(seen["hipcc"], seen["hipcc again"], seen["tar"], strict=True)
            ),
            "ratio of rocm-sdk init": ratios["init"],
            "wall_s": {name: middle(walls, 3) for name, walls in seen.items() if name != "tar"},
        },
        "floor": {"wall_s": middle(seen["tar"], 3), "bytes": archive.stat().st_size},
        "met": ratios["hipcc"] <= MOST_EXPANSION,
        "runs": EXPANSIONS,
        "commands": {"ours": shown(first), "init": shown(init), "floor": shown(tar)},
    }


def duplicates(place: Path) -> dict[str, Any]:
    """Libraries with the same bytes in two files; two names of one file are none."""
    by_inode: dict[tuple[int, int], Path] = {}
    for here, _, names in os.walk(place):
        for name in names:
            path = Path(here, name)
            if (name.endswith(".so") or ".so." in name) and not path.is_symlink():
                facts = path.stat()
                by_inode[facts.st_dev, facts.st_ino] = path
    by_digest: dict[str, list[Path]] = {}
    for path in by_inode.values():
        if path.stat().st_size:
            by_digest.setdefault(sha256(path), []).append(path)
    twice = [paths for paths in by_digest.values() if len(paths) > 1]
    wasted = sum(path.stat().st_size for paths in twice for path in paths[1:])
    return {
        "goal": "no byte of a library twice",
        "measured": {
            "duplicated_bytes": wasted,
            "duplicates": [sorted(str(path.relative_to(place)) for path in paths) for paths in twice],
            "libraries": len(by_inode),
            "library_bytes": sum(path.stat().st_size for path in by_inode.values()),
            "environment_bytes": disk_bytes(place),
        },
        "met": wasted == 0,
    }
