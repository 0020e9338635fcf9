"""With what compilers and which ROCm a build works, told without reading large files."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rocwright.builder.decide.plan import BuildPlan
from rocwright.builder.rocm.rocm import Rocm
from rocwright.system.files import fact_line

# Programs that a build takes from PATH unless a variable names another.
_TOOLS = {"CC": "cc", "CXX": "c++", "CMAKE": "cmake", "NINJA": "ninja", "HIPCC": "hipcc"}
# Where a plain installation keeps what compiles: Debian, AMD's packages and a build of one's own differ.
_PLACES = (".info", "lib", "bin", "llvm/bin", "lib/llvm/bin", "amdgcn/bitcode", "lib/llvm/amdgcn/bitcode")


def rocm_identity(rocm: Rocm) -> str:
    """Differs when another ROCm lies there, without reading its libraries."""
    digest = hashlib.sha256(msgspec.json.encode(rocm))
    if rocm.site:
        for record in sorted(Path(rocm.site).glob("rocm*.dist-info/RECORD")):
            digest.update(record.read_bytes())
        return digest.hexdigest()
    for name in _PLACES:
        directory = Path(rocm.root) / name
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            # A directory's time tells of anything that is installed there, a package of games too.
            is_one = path.is_dir() and not path.is_symlink()
            digest.update(path.name.encode() if is_one else fact_line(path.name, path.lstat()))
    return digest.hexdigest()


def tools(plan: BuildPlan, caller: Mapping[str, str]) -> dict[str, str]:
    """Which compilers the build will find, as file and time; behind a launcher (`ccache gcc`) too."""
    found = {}
    for variable, name in _TOOLS.items():
        words = (plan.env.get(variable) or caller.get(variable) or name).split() or [name]
        paths = [shutil.which(word, path=plan.env.get("PATH", os.defpath)) for word in words]
        files = [Path(path).resolve() for path in paths if path is not None]
        if files:
            states = [path.stat() for path in files]
            found[variable] = " ".join(
                f"{path} {state.st_size} {state.st_mtime_ns}"
                for path, state in zip(files, states, strict=True)
            )
    return found
