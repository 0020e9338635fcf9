"""The environments of a build: one per Python, in which ROCm is seen where it lies, and nothing else is;
importing there what was built, and at the end all wheels together in a fresh one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from rocwright.builder.decide.environment import TORCH_ROOT
from rocwright.builder.decide.plan import BuiltWheel
from rocwright.builder.rocm.rocm import Rocm
from rocwright.builder.run.tree import state_digest
from rocwright.errors import CommandFailed, InvalidInput, InvalidWheel
from rocwright.model.project import TORCH
from rocwright.system import links, venv
from rocwright.system.files import atomic_directory, remove_tree, write_text
from rocwright.system.interpreters import Interpreter
from rocwright.system.venv import Environment
from rocwright.wheel.read import open_wheel, read_member

_STAMP = "rocwright-environment.json"
_POINTER = "rocwright-rocm.pth"
# The distributions that are ROCm's, by normalised name.
_ROCM = re.compile(r"rocm([-_.].*)?")


class _Stamp(msgspec.Struct, frozen=True):
    """What an environment was made for, and the wheels of this family in it: project to sha256."""

    made_for: str
    installed: dict[str, str] = {}


def build_environment(
    root: Path, interpreter: Interpreter, rocm: Rocm, *, view: Path, log: Path, seen: Sequence[str] = ()
) -> Environment:
    """The environment at `root`, made anew unless it was made for this interpreter and this ROCm.

    `view` is where ROCm's packages, and those `seen` besides, are picked out of an environment that has
    others, too.
    """
    made_for = state_digest({"python": interpreter, "rocm": rocm, "seen": list(seen)})
    environment = Environment(root)
    if _read(root).made_for == made_for and environment.python.exists():
        # What is seen may lie there in another version now.
        show_rocm(environment, rocm, view=view, seen=seen)
        return environment
    remove_tree(root)
    environment = venv.create(root, python=Path(interpreter.path), log=log)
    show_rocm(environment, rocm, view=view, seen=seen)
    # Last: an environment that was interrupted is made again.
    _write(root, _Stamp(made_for))
    return environment


def in_environment(env: Mapping[str, str], environment: Environment) -> dict[str, str]:
    """Variables of a plan with the place where torch lies in an environment."""
    if not any(TORCH_ROOT in value for value in env.values()):
        return dict(env)
    places = [site_packages(environment)]
    pointer = places[0] / _POINTER
    if pointer.is_file():
        places.append(Path(pointer.read_text(encoding="utf-8").strip()))
    there = next((place / TORCH for place in places if (place / TORCH).exists()), places[0] / TORCH)
    return {name: value.replace(TORCH_ROOT, str(there)) for name, value in env.items()}


def show_rocm(environment: Environment, rocm: Rocm, *, view: Path, seen: Sequence[str] = ()) -> None:
    """Let an environment see ROCm's packages where they are installed, and those `seen` besides.

    A plain prefix needs nothing.
    """
    if rocm.origin != "packages" or not rocm.site:
        return
    site, here = Path(rocm.site), site_packages(environment)
    if site.resolve() == here.resolve():
        return
    write_text(here / _POINTER, f"{_only_rocm(site, view, frozenset(seen))}\n")


def site_packages(environment: Environment) -> Path:
    """Where its packages lie."""
    found = venv.package_directories(environment.root)
    if not found:
        raise InvalidInput(
            f"{environment.root} is not a Python environment",
            where=environment.root,
            next_step=f"make one: python3 -m venv {environment.root}",
        )
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


def _only_rocm(site: Path, view: Path, seen: frozenset[str]) -> Path:
    """`site`, or a directory of links to what is ROCm's in it, or `seen`, when it has other packages."""
    records = {info: _is_rocm(info) or _project(info) in seen for info in sorted(site.glob("*.dist-info"))}
    if all(records.values()):
        return site
    names = {name for info, ours in records.items() if ours for name in (info.name, *_top_level(info))}
    with atomic_directory(view) as made:
        for name in sorted(names):
            if (site / name).exists():
                links.make_link(made / name, str(site / name))
    return view


def _is_rocm(info: Path) -> bool:
    return _ROCM.fullmatch(_project(info)) is not None


def _project(info: Path) -> str:
    return canonicalize_name(info.name.removesuffix(".dist-info").rpartition("-")[0])


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


# Folders that projects leave in their wheels by mistake.
_STRAY = frozenset(("benchmark", "benchmarks", "docs", "example", "examples", "scripts", "test", "tests"))


def module_of(wheel: Path, project: str) -> str:
    """What a wheel is imported by: what is called like its project, else the first that it brings."""
    found = open_wheel(wheel)
    brought: dict[str, None] = {}
    for member in found.members:
        first, _, rest = member.name.partition("/")
        top = first if rest else first.partition(".")[0]
        if PurePath(member.name).suffix in (".py", ".so", ".pyd") and top.isidentifier():
            brought[top] = None
    told = f"{found.dist_info}/top_level.txt"
    listed = read_member(found, told).decode("utf-8", "replace").split() if told in found.member else []
    names = [name for name in listed if name in brought] or [name for name in brought if name not in _STRAY]
    alike = (name for name in names if canonicalize_name(name) == project)
    public = (name for name in names if not name.startswith("_"))
    return next(alike, None) or next(public, None) or project.replace("-", "_")


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
            f"{project} was built, but cannot be imported: {last}",
            where=log,
            next_step="see that log; a library that is not found has to be in ROCm's packages",
        ) from error
    said = msgspec.json.decode(done.stdout.strip().splitlines()[-1], type=Imported)
    if project == "torch" and not said.hip:
        raise InvalidWheel(
            "torch was built, but has no HIP: torch.version.hip is not set",
            where=log,
            next_step="was the checkout hipified, and did its configuration find ROCm? see the build's log",
        )
    return said


def _library_path(rocm: Rocm | None) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": rocm.library_path} if rocm is not None and rocm.library_path else {}


# -- Proving built wheels in a fresh environment


class Proven(msgspec.Struct, frozen=True):
    """A wheel that was imported in an environment made for it: what it said there."""

    project: str
    python: str
    said: Imported


def prove(
    wheels: Sequence[BuiltWheel],
    import_names: dict[str, str],
    *,
    interpreter: Interpreter,
    rocm: Rocm,
    root: Path,
    view: Path,
    log: Path,
    given: Sequence[BuiltWheel] = (),
    seen: Sequence[str] = (),
) -> tuple[Proven, ...]:
    """Import the wheels of one Python in a new environment at `root`, which sees ROCm and nothing else.

    `given` are wheels of other runs that these were built against, `seen` distributions beside ROCm's.
    Their further dependencies come from the user's own index. Raises `InvalidWheel` naming every project that
    does not import; the wheels stay where they are.
    """
    environment = venv.create(root, python=Path(interpreter.path), log=log)
    show_rocm(environment, rocm, view=view, seen=seen)
    install_built(environment, [*given, *wheels], log=log)
    proven, failed = [], []
    for wheel in wheels:
        try:
            name = import_names.get(wheel.project) or module_of(Path(wheel.path), wheel.project)
            said = require_import(wheel.project, name, environment, rocm, log=log)
            proven.append(Proven(wheel.project, interpreter.name, said))
        except InvalidWheel as error:
            failed.append((wheel, name, error.what))
    if failed:
        lines = "\n".join(f"  {Path(wheel.path).name}: {what}" for wheel, _, what in failed)
        raise InvalidWheel(
            f"{len(failed)} of {len(wheels)} wheels do not work in a fresh environment; "
            f"they stay in the output directory, unproven\n{lines}",
            where=log,
            next_step=f"try it there: {environment.python} -c 'import {failed[0][1]}'; where that is another "
            "name than its package has, give its row an import_name",
        )
    return tuple(proven)


def install_built(environment: Environment, wheels: Sequence[BuiltWheel], *, log: Path) -> None:
    """Install built wheels together with what they need; raises `InvalidWheel` when pip finds no way."""
    paths = [wheel.path for wheel in wheels]
    try:
        venv.pip_install(environment, paths, closed=None, log=log)
        device = [path for wheel in wheels for path in wheel.device]
        if device:
            # They ask for ROCm's device code, which a machine that only builds need not have.
            venv.pip_install(environment, device, closed=None, options=["--no-deps"], log=log)
    except CommandFailed as error:
        last = next((line for line in reversed(error.tail.splitlines()) if "ERROR" in line), "see the log")
        raise InvalidWheel(
            f"the built wheels cannot be installed together: {last}",
            where=log,
            next_step="an index must provide what else they need (PIP_INDEX_URL); the wheels stay, unproven",
        ) from error
