"""What ROCm's packages cost in use: start of `rocm-sdk`, import, the first call of the compiler, disk."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from measured import Command, Side, disk_bytes, fresh, run, sha256, turns
from results import Figure, Row, compared, row, seconds

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


def runtime(wheels: Path, scratch: Path, requirement: str) -> list[Row]:
    """All figures of one installation."""
    place = install(wheels, scratch, requirement)
    programs = place / "bin"
    return [version(programs), importing(programs), expansion(place, scratch), duplicates(place)]


def version(programs: Path) -> Row:
    """CPU of `rocm-sdk version` above its own launcher with nothing behind it."""
    launcher, empty = programs / "rocm-sdk", programs / "rocm-sdk-empty"
    text, found = re.subn(
        r"^from rocm_sdk\._cli import main$", "main = int", launcher.read_text(), flags=re.MULTILINE
    )
    assert found == 1, "the installer's launcher looks different"
    empty.write_text(text)
    empty.chmod(0o755)
    what = "own time of `rocm-sdk version`"
    return above("version", what, [launcher, "version"], [empty, "version"], MOST_VERSION_MS)


def importing(programs: Path) -> Row:
    """CPU of `import rocm_sdk` above a bare interpreter."""
    python = programs / "python"
    command: Command = [python, "-c", "import rocm_sdk"]
    return above("import", "own time of `import rocm_sdk`", command, [python, "-c", "pass"], MOST_IMPORT_MS)


def above(name: str, what: str, ours: Command, floor: Command, most: float) -> Row:
    """Both in turn, often; the difference of the medians."""
    measured = turns({"ours": Side(ours), "floor": Side(floor)}, SHORT_RUNS)
    difference = (measured.cpu("ours") - measured.cpu("floor")) * 1000
    figures = [seconds("CPU", difference, measured.load, most, "ms")]
    return row(name, what, measured.load, figures, runs=SHORT_RUNS)


def expansion(place: Path, scratch: Path) -> Row:
    """The first `hipcc --version`, `rocm-sdk init` and `tar x` of the same archive, in turn, each anew."""
    programs = place / "bin"
    root = Path(run([programs / "rocm-sdk", "path", "--root"]).output.strip())
    (archive,), target = root.parent.glob("*/_devel.tar*"), scratch / "tar"
    hipcc: Command = [programs / "hipcc", "--version"]
    sides = {
        "ours": Side(hipcc, lambda: fresh(root)),
        "again": Side(hipcc),
        "tar": Side(["tar", "xf", archive, "-C", target], lambda: fresh(target, made=True)),
        "init": Side([programs / "rocm-sdk", "init", "--quiet"], lambda: fresh(root)),
    }
    measured = turns(sides, EXPANSIONS)
    fresh(target)
    without = (measured.cpu("ours") - measured.cpu("again")) / measured.cpu("tar")
    more = [
        Figure("CPU without hipcc's own", "×", round(without, 2)),
        Figure("CPU of rocm-sdk init", "×", round(measured.cpu("init") / measured.cpu("tar"), 2)),
    ]
    what = "the first `hipcc --version` after installing"
    against = "`tar x` of the development files"
    sided = ("ours", "tar")
    return compared("hipcc", what, measured, against=against, sides=sided, cpu=MOST_EXPANSION, more=more)


def duplicates(place: Path) -> Row:
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
    for paths in twice:
        print("the same bytes:", *(path.relative_to(place) for path in paths), file=sys.stderr)
    wasted = sum(path.stat().st_size for paths in twice for path in paths[1:])
    figures = [
        Figure("bytes twice", "B", wasted, 0),
        Figure("libraries", "B", sum(path.stat().st_size for path in by_inode.values())),
        Figure("environment", "B", disk_bytes(place)),
    ]
    return row("disk", f"{len(by_inode)} libraries of an installation", None, figures)
