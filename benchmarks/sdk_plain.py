"""Wheels of a ROCm in the plain way: copy, one patchelf for each file to edit, setuptools, zlib 6.

``python benchmarks/sdk_plain.py SPLIT INFLATED SCRATCH --python PYTHON`` takes the members from our own
plan, so that the wheels hold the same files with the same RPATHs, and prints seconds and bytes. INFLATED is
what ``sdk_floor.py inflate`` made of our wheels; the RPATHs are read there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from rocwright.binary.elf import read_elf
from rocwright.binary.patch import PatchedFile
from rocwright.sdk.intake.forms import read_prefix
from rocwright.sdk.plan.release import plan_packages
from rocwright.wheel.source import FileSource
from rocwright.wheel.write import Member, WheelPlan

SETUP = """
import glob, os, sys
from setuptools import setup
packages = [name for name in sorted(os.listdir(".")) if os.path.isdir(name)]
data = {
    package: [
        glob.escape(os.path.relpath(os.path.join(here, name), package))
        for here, _, names in os.walk(package) for name in names
    ]
    for package in packages
}
setup(name=sys.argv.pop(), version=sys.argv.pop(), packages=packages, package_data=data)
"""
COPY = 4 << 20


def stage(plan: WheelPlan, staging: Path, inflated: Path) -> list[tuple[Path, str]]:
    """Copy a wheel's files; returns those whose RPATH is to be set, with it."""
    edits = []
    for member in plan.members:
        if member.name.startswith(f"{plan.dist_info}/"):
            continue
        target = staging / member.name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy(member, target)
        if isinstance(member.source, PatchedFile) and member.source.patch is not None:
            elf = read_elf(inflated / Path(plan.filename).stem / member.name)
            edits.append((target, elf.runpath or elf.rpath or ""))
    return edits


def copy(member: Member, target: Path) -> None:
    """A file as it lies in the tree; what is in no file is written."""
    source = member.source
    if isinstance(source, (PatchedFile, FileSource)):
        shutil.copyfile(source.path, target)
    else:
        with target.open("wb") as stream:
            for offset in range(0, source.size, COPY):
                stream.write(source.read_at(offset, COPY))
    target.chmod(member.unix_mode)


def main() -> int:
    """Make all wheels."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("split", "inflated", "scratch"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--python", type=Path, required=True, help="an interpreter with setuptools")
    options = parser.parse_args()
    packages = plan_packages(read_prefix(options.split))
    plans = [*packages.wheels, packages.devel_wheel("_devel.tar", packages.devel.archive)]
    spent = {"copy": 0.0, "patchelf": 0.0, "setuptools": 0.0}
    calls = 0
    for plan in plans:
        staging = options.scratch / plan.name
        began = time.monotonic()
        edits = stage(plan, staging, options.inflated)
        (staging / "setup.py").write_text(SETUP)
        spent["copy"] += time.monotonic() - began
        began = time.monotonic()
        for file, rpath in edits:
            subprocess.run(["patchelf", "--set-rpath", rpath, str(file)], check=True)
        calls += len(edits)
        spent["patchelf"] += time.monotonic() - began
        began = time.monotonic()
        command = [str(options.python), "setup.py", "-q", "bdist_wheel", "--plat-name", "linux_x86_64"]
        command += ["--dist-dir", str(options.scratch / "dist"), plan.version, plan.name]
        subprocess.run(command, check=True, cwd=staging, stdout=subprocess.DEVNULL)
        spent["setuptools"] += time.monotonic() - began
    made = list((options.scratch / "dist").glob("*.whl"))
    assert len(made) == len(plans)
    print(
        json.dumps(
            {
                "seconds": {name: round(value, 1) for name, value in spent.items()},
                "bytes": sum(wheel.stat().st_size for wheel in made),
                "patchelf_calls": calls,
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
