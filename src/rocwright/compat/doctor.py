"""Look at this machine: what of rocwright works here, and what to do about the rest."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.compat.detector import KFD_NODES, detect

Verdict = Literal["ok", "missing", "note"]


class Finding(msgspec.Struct, frozen=True):
    """One thing looked at: what it is for, how it stands, what mends it."""

    id: str
    verdict: Verdict
    detail: str
    next_step: str = ""


class Diagnosis(msgspec.Struct, frozen=True):
    """All findings; `gpus` are the targets of the AMD GPUs found."""

    gpus: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def missing(self) -> int:
        """How many things are missing."""
        return sum(finding.verdict == "missing" for finding in self.findings)


# Measured: prefix 1.9, packages 0.5, build environment 1.9, two test environments and uv's cache 5.6 GB.
_DEMO_SPACE = 10_000_000_000
# Program, what the demo and every build need it for, the Debian package that has it.
PROGRAMS = (
    ("git", "check out sources", "git"),
    ("cc", "compile launchers for links to programs", "gcc"),
    ("g++", "build the PyTorch family", "g++"),
)
_MAKE = ("make", "run the commands of the README", "make")


def diagnose(
    *,
    nodes: Path = KFD_NODES,
    which: Callable[[str], str | None] = shutil.which,
    work_dir: Path | None = None,
) -> Diagnosis:
    """Everything at once; reads only, and never guesses a GPU."""
    detected = detect(nodes)
    findings = [_gpu_finding(tuple(gpu.target for gpu in detected.gpus), detected.problems, nodes)]
    for program, purpose, package in (*PROGRAMS, _MAKE):
        path = which(program)
        findings.append(
            Finding(program, "ok", path)
            if path
            else Finding(program, "missing", f"needed to {purpose}", f"apt-get install {package}")
        )
    if which("apt-get") and which("dpkg-deb"):
        findings.append(
            Finding("rocm-source", "ok", "ROCm can be fetched from the distribution, without root")
        )
    else:
        findings.append(
            Finding("rocm-source", "missing", "no apt here to fetch ROCm with", "use --rocm-prefix DIR")
        )
    findings.append(_disk_finding(work_dir or Path.cwd()))
    leaking = [name for name in ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH") if os.environ.get(name)]
    if leaking:
        detail = f"{', '.join(leaking)} set: libraries from there may be loaded first"
        findings.append(Finding("environment", "note", detail, f"unset {' '.join(leaking)}"))
    return Diagnosis(tuple(gpu.target for gpu in detected.gpus), tuple(findings))


def _disk_finding(directory: Path) -> Finding:
    existing = directory.resolve()
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    detail = f"{free / 1e9:.1f} GB free, the demo needs about {_DEMO_SPACE / 1e9:.0f} GB"
    if free > _DEMO_SPACE:
        return Finding("disk", "ok", detail)
    return Finding("disk", "missing", detail, "free some space, or choose another --work-dir")


def _gpu_finding(targets: tuple[str, ...], problems: tuple[str, ...], nodes: Path) -> Finding:
    if targets:
        return Finding("gpu", "ok", ", ".join(targets))
    if problems:
        return Finding(
            "gpu", "missing", "; ".join(problems), "check the permissions of /dev/kfd and /sys/class/kfd"
        )
    reason = f"no {nodes}" if not nodes.exists() else "the driver lists none"
    return Finding("gpu", "note", f"no AMD GPU ({reason}); building works, kernels cannot run here")
