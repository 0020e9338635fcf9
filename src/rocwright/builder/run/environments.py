"""The environments of a build: one per Python, in which ROCm is seen where it lies, and nothing else is; and
importing there what was built.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from rocwright.builder.rocm.rocm import Rocm
from rocwright.builder.run.tree import state_digest
from rocwright.errors import CommandFailed, InvalidInput, InvalidWheel
from rocwright.system import venv
from rocwright.system.files import atomic_directory, remove_tree, write_text
from rocwright.system.interpreters import Interpreter
from rocwright.system.venv import Environment

_STAMP = "rocwright-environment.json"
_POINTER = "rocwright-rocm.pth"
# The distributions that are ROCm's, by normalised name.
_ROCM = re.compile(r"rocm([-_.].*)?")


class _Stamp(msgspec.Struct, frozen=True):
    """What an environment was made for, and the wheels of this family in it: project to sha256."""

    made_for: str
    installed: dict[str, str] = {}


def build_environment(
    root: Path, interpreter: Interpreter, rocm: Rocm, *, view: Path, log: Path
) -> Environment:
    """The environment at `root`, made anew unless it was made for this interpreter and this ROCm.

    `view` is where ROCm's packages are picked out of an environment that has others, too.
    """
    made_for = state_digest({"python": interpreter, "rocm": rocm})
    environment = Environment(root)
    if _read(root).made_for == made_for and environment.python.exists():
        return environment
    remove_tree(root)
    environment = venv.create(root, python=Path(interpreter.path), log=log)
    show_rocm(environment, rocm, view=view)
    # Last: an environment that was interrupted is made again.
    _write(root, _Stamp(made_for))
    return environment


def show_rocm(environment: Environment, rocm: Rocm, *, view: Path) -> None:
    """Let an environment see ROCm's packages where they are installed; a plain prefix needs nothing."""
    if rocm.origin != "packages" or not rocm.site:
        return
    site, here = Path(rocm.site), site_packages(environment)
    if site.resolve() == here.resolve():
        return
    write_text(here / _POINTER, f"{_only_rocm(site, view)}\n")


def site_packages(environment: Environment) -> Path:
    """Where its packages lie."""
    found = venv.package_directories(environment.root)
    if not found:
        raise InvalidInput(f"{environment.root} is no Python environment", where=environment.root)
    return found[0]


def satisfies(environment: Environment, requirements: Iterable[str]) -> bool:
    """Whether plain requirements are there already; False also where only pip can tell (options, markers).

    Read off the names in the directory: pip takes a second to find out that there is nothing to do.
    """
    there = {
        canonicalize_name(name): version
        for info in site_packages(environment).glob("*.dist-info")
        for name, _, version in [info.name.removesuffix(".dist-info").rpartition("-")]
        if name
    }
    try:
        for text in requirements:
            wanted = Requirement(text)
            version = there.get(canonicalize_name(wanted.name))
            if wanted.marker or wanted.extras or wanted.url or version is None:
                return False
            if not wanted.specifier.contains(version, prereleases=True):
                return False
    except (InvalidRequirement, InvalidVersion):
        return False
    return True


def is_installed(environment: Environment, project: str) -> bool:
    """Whether any version of a project is there."""
    names = (path.name.partition("-")[0] for path in site_packages(environment).glob("*-*.dist-info"))
    return canonicalize_name(project) in map(canonicalize_name, names)


def installed_wheels(environment: Environment) -> dict[str, str]:
    """Project to sha256 of the wheels of this family that a build put there."""
    return dict(_read(environment.root).installed)


def note_installed(environment: Environment, project: str, sha256: str | None) -> None:
    """Remember which wheel of a project is there; None: perhaps none, because it is about to change."""
    stamp = _read(environment.root)
    installed = {name: digest for name, digest in stamp.installed.items() if name != project}
    if sha256 is not None:
        installed[project] = sha256
    _write(environment.root, msgspec.structs.replace(stamp, installed=installed))


def _only_rocm(site: Path, view: Path) -> Path:
    """`site`, or a directory of links to what is ROCm's in it when it has other packages."""
    records = {info: _is_rocm(info) for info in sorted(site.glob("*.dist-info"))}
    if all(records.values()):
        return site
    names = {name for info, ours in records.items() if ours for name in (info.name, *_top_level(info))}
    with atomic_directory(view) as made:
        for name in sorted(names):
            if (site / name).exists():
                (made / name).symlink_to(site / name)
    return view


def _is_rocm(info: Path) -> bool:
    name = info.name.removesuffix(".dist-info").rpartition("-")[0]
    return _ROCM.fullmatch(name.lower()) is not None


def _top_level(info: Path) -> set[str]:
    """First parts of the paths that a distribution recorded, without those that lead out of the directory."""
    record = info / "RECORD"
    if not record.is_file():
        return set()
    paths = (line.partition(",")[0].strip('"') for line in record.read_text("utf-8").splitlines())
    return {path.split("/", 1)[0] for path in paths if path and not path.startswith(("..", os.sep))}


def _read(root: Path) -> _Stamp:
    try:
        return msgspec.json.decode((root / _STAMP).read_bytes(), type=_Stamp)
    except (OSError, msgspec.DecodeError):
        return _Stamp("")


def _write(root: Path, stamp: _Stamp) -> None:
    write_text(root / _STAMP, msgspec.json.encode(stamp).decode())


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
