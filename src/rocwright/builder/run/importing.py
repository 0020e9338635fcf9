"""Import what was built, in the environment that it was installed into."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rocwright.builder.rocm.rocm import Rocm
from rocwright.errors import CommandFailed, InvalidWheel
from rocwright.system.venv import Environment

# -I: neither the current directory (perhaps the source tree) nor a user's packages answer for the wheel.
_SCRIPT = """
import importlib, json, sys
name, project = sys.argv[1:]
module = importlib.import_module(name)
said = {"version": str(getattr(module, "__version__", "")), "file": getattr(module, "__file__", None) or ""}
if project == "torch":
    said["hip"] = getattr(module.version, "hip", None) or ""
    said["available"] = str(module.cuda.is_available())
print("\\n" + json.dumps(said))
"""


class Imported(msgspec.Struct, frozen=True):
    """What an imported package says of itself; `hip` and `available` (a GPU) are torch's alone."""

    version: str
    file: str
    hip: str | None = None
    available: str | None = None


def require_import(
    project: str, import_name: str, environment: Environment, rocm: Rocm | None, *, log: Path
) -> Imported:
    """Import a project that is installed; raises `InvalidWheel` when that fails, or torch has no HIP."""
    name = import_name or project.replace("-", "_")
    try:
        done = environment.run(
            [str(environment.python), "-I", "-c", _SCRIPT, name, project],
            env={"PYTHONWARNINGS": "default", **_library_path(rocm)},
            log=log,
        )
    except CommandFailed as error:
        last = error.tail.splitlines()[-1] if error.tail else "no output"
        raise InvalidWheel(
            f"{project} was built, and does not import: {last}",
            where=log,
            next_step="see that log; a library that is not found has to be in ROCm's packages",
        ) from error
    said = msgspec.json.decode(done.stdout.strip().splitlines()[-1], type=Imported)
    if project == "torch" and not said.hip:
        raise InvalidWheel(
            "torch was built, and has no HIP: torch.version.hip is not set",
            where=log,
            next_step="was the checkout hipified, and did its configuration find ROCm? see the build's log",
        )
    return said


def _library_path(rocm: Rocm | None) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": rocm.library_path} if rocm is not None and rocm.library_path else {}
