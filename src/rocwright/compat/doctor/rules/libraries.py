"""Rules about libraries: two ROCms in one environment, copies from elsewhere that come first.

The import of torch fails by them, too: why, the words of the loader and of Python say.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from rocwright.compat.doctor import mend
from rocwright.compat.doctor.facts import Case, Distribution, Environment, LibraryPlace, TorchImport
from rocwright.compat.doctor.observations import Observation
from rocwright.model.patterns import fits

_SHOWN = 3


def two_rocms(case: Case) -> Iterator[Observation]:
    """More than one copy of ROCm's runtime among the distributions."""
    environment = case.environment
    assert environment is not None
    owners = {
        one.name: path
        for one in environment.family
        for path in one.libraries
        if PurePosixPath(path).name.startswith(case.table.hip)
    }
    # Development files link to the runtime's.
    owners = {name: path for name, path in owners.items() if not name.endswith("-devel")}
    if len(owners) > 1:
        named = ", ".join(f"{name} ({path})" for name, path in sorted(owners.items()))
        packages = [one.name for one in environment.family if fits(one.name, case.table.rocm)]
        detail = f"the environment has ROCm {len(owners)} times: {named}; a process may get a part of each"
        step = mend.uninstall(environment, packages or list(owners)[1:])
        yield Observation("two-rocms", "wrong", detail, step, section="environment")


def needed(case: Case) -> Iterator[Observation]:
    """Libraries that are needed and that nobody has. Without one of a tool's own all else works."""
    for need in case.needs:
        ours = fits(need.library, case.table.libraries)
        detail = f"{need.library} is not found anywhere; {need.distribution} needs it ({need.path})"
        yield Observation(
            "needed",
            "missing" if ours or need.distribution == "torch" else "note",
            detail,
            provide(case, need.library),
            need.library,
            "environment",
        )


def provide(case: Case, library: str) -> str:
    """What brings a library: an installed package that should have it, one known to, or the system's."""
    assert case.environment is not None
    known = next((row.distribution for row in case.table.packages if fits(library, row.libraries)), "")
    installed = case.environment.named(known) if known else None
    if installed is not None:
        return mend.reinstall(case, installed)
    if known:
        return mend.install(case, wanted_by_torch(case, known))
    debian = case.table.system.get(library)
    return f"apt-get install {debian}" if debian else f"apt-file search {library}, and install that package"


def wanted_by_torch(case: Case, distribution: str) -> str:
    """The requirement that brings a distribution, as torch spells it where it does."""
    assert case.environment is not None
    name = "rocm[libraries]" if distribution.startswith("rocm-sdk-libraries") else distribution
    torch = case.environment.named("torch")
    for text in torch.requires if torch else ():
        if _project(text) == _project(name):
            return text.partition(";")[0].strip().replace(" ", "")
    return name


def _project(requirement: str) -> str:
    return re.split(r"[\[=<>!~; ]", requirement)[0]


def own_libraries(case: Case) -> frozenset[str]:
    """Names of the libraries of ROCm and torch that the environment has."""
    assert case.environment is not None
    paths = (path for one in case.environment.family for path in one.libraries)
    names = (PurePosixPath(path).name for path in paths)
    return frozenset(name for name in names if fits(name, case.table.libraries))


def foreign_libraries(case: Case) -> Iterator[Observation]:
    """Places that the loader looks at, with copies of the environment's libraries."""
    environment = case.environment
    assert environment is not None
    own = own_libraries(case)
    if not own:
        return
    found = 0
    for place in case.machine.places:
        if _inside(place.path, environment) or _inside(place.real, environment):
            continue
        same = sorted(own & set(place.libraries))
        alike = [name for name in place.libraries if fits(name, case.table.libraries)]
        if same or (alike and place.via != "ld.so.conf"):
            found += 1
            yield _observation(place, same or alike, bool(same))
    if not found:
        detail = f"nothing is loaded instead of the environment's {len(own)} libraries of ROCm and torch"
        yield Observation("foreign-libraries", "ok", detail, section="environment")


def _observation(place: LibraryPlace, names: list[str], same: bool) -> Observation:
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    if place.via == "ld.so.conf":
        # The loader asks there last: after the paths in the libraries themselves.
        detail = f"the loader's configuration names {place.path}, which has {shown}, too"
        # The file may name other directories, too.
        line = re.sub(r"([^\w/-])", r"\\\1", place.path)
        step = f"sudo sed -i '\\|^{line}/*$|d' /etc/ld.so.conf /etc/ld.so.conf.d/*.conf && sudo ldconfig"
        return Observation("foreign-libraries", "note", detail, step, place.path, "environment")
    what = "has its own" if same else "has other libraries of ROCm:"
    effect = (
        "it may be loaded instead of the environment's"
        if same
        else "they may be mixed with the environment's"
    )
    detail = f"{place.via} leads to {place.path}, which {what} {shown}: {effect}"
    return Observation(
        "foreign-libraries",
        "wrong" if same else "note",
        detail,
        f"unset {place.via}",
        f"{place.via} {place.path}",
        "environment",
    )


def _inside(path: str, environment: Environment) -> bool:
    """Whether a path is the environment's own."""
    roots = {*environment.roots, environment.prefix, *(one.directory for one in environment.family)}
    return any(PurePosixPath(path).is_relative_to(root) for root in roots)


def is_own(path: str, case: Case) -> bool:
    """Whether a loaded library is the environment's, or one that the environment has no copy of."""
    assert case.environment is not None
    stem = PurePosixPath(path).name.partition(".so")[0]
    copies = {name.partition(".so")[0] for name in own_libraries(case)}
    # An installer may have linked files from its cache.
    linked = {real for one in case.environment.family for real in one.outside}
    return stem not in copies or path in linked or _inside(path, case.environment)


# -- whether torch can be imported; else why not


def imports(case: Case) -> Iterator[Observation]:
    """Whether torch can be imported; else why not."""
    if case.imported is None or case.environment is None or case.environment.torch is None:
        return
    if case.imported.version is not None and not case.imported.ended:
        detail = f"torch {case.imported.version} can be imported"
        yield Observation("import", "ok", detail, section="environment")
        return
    cause, step = explain(case, case.imported)
    yield Observation("import", "wrong", cause, step, section="environment")


def loaded(case: Case) -> Iterator[Observation]:
    """Whether the libraries that the process then had are the environment's."""
    if case.imported is None or not case.imported.loaded:
        return
    foreign = [path for path in case.imported.loaded if not is_own(path, case)]
    if foreign:
        more = f" and {len(foreign) - _SHOWN} more" if len(foreign) > _SHOWN else ""
        detail = f"loaded from outside of the environment: {', '.join(foreign[:_SHOWN])}{more}"
        names = [name for name in ("LD_LIBRARY_PATH", "LD_PRELOAD") if case.machine.variables.get(name)]
        step = (
            f"unset {' '.join(names)}" if names else "look at ldconfig -p, and take the directory out of it"
        )
        yield Observation("loaded", "wrong", detail, step, section="environment")


# What glibc's loader says, and Python's import system.
_NOT_FOUND = re.compile(r"(?:ImportError|OSError): (\S+\.so[.\d]*): cannot open shared object file")
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
_VERSION = re.compile(r"(\S+): version [`']([A-Z]+_[\d.]+)' not found(?: \(required by (\S+)\))?")
_SYMBOL = re.compile(r"(\S+): (?:undefined symbol: (\S+)|symbol (\S+) version \S+ not defined in file (\S+))")
_DAMAGED = re.compile(
    r"(\S+): (file too short|invalid ELF header|wrong ELF class\S*|cannot read file data|ELF \S+)"
)
_ROCM_VERSION = re.compile(r"(?:built for ROCm|a ROCm version matching) (\S+?),? but ROCm (\S+) is installed")
# ROCm's own packages name the file and the command.
_REPAIR = re.compile(r"(ROCm library \S+ is missing from the installed (\S+?));")
_RUNTIMES = ("GLIBC_", "GLIBCXX_", "CXXABI_")


def explain(case: Case, imported: TorchImport) -> tuple[str, str]:
    """The cause in a sentence, and the command that mends it."""
    error = imported.error
    if not error:
        why = imported.ended or "the process ended without any output"
        return f"import torch did not come to its end: {why}", _see(case)
    for answer in (_module, _own_words, _library, _damaged, _version, _symbol, _rocm):
        found = answer(case, imported)
        if found is not None:
            return found
    return f"torch cannot be imported: {error}", _see(case)


def _see(case: Case) -> str:
    assert case.environment is not None
    return f"{shlex.quote(case.environment.python)} -X faulthandler -c 'import torch'"


def _module(case: Case, imported: TorchImport) -> tuple[str, str] | None:
    """A Python module that is not there; torch's own compiled one means the wrong Python."""
    match = _NO_MODULE.search(imported.error)
    environment = case.environment
    if match is None or environment is None:
        return None
    name = match[1]
    text = environment.torch
    if name.startswith("torch._C") and text is not None:
        made = sorted({_python_of(one) for one in text.extensions} - {""})
        if made and environment.version not in made:
            cause = f"torch here is for Python {', '.join(made)}, this is Python {environment.version}"
            return cause, f"uv venv --python {made[0]} NEW, and install there"
        torch = environment.named("torch")
        step = mend.reinstall(case, torch) if torch else _see(case)
        return f"torch's compiled module {name} is missing", step
    top = name.partition(".")[0]
    owner = {"rocm_sdk": "rocm"}.get(top, top.replace("_", "-"))
    return f"torch needs the Python module {name}, which is not installed", mend.install(case, owner)


def _python_of(extension: str) -> str:
    match = re.search(r"\.(?:cpython-|cp)3(\d+)(t?)", extension)
    return f"3.{match[1]}{match[2]}" if match else ""


def _owner(environment: Environment, name: str) -> Distribution | None:
    """The installed package that has a library of this name."""
    has = (one for one in environment.family if any(path.endswith(f"/{name}") for path in one.libraries))
    return next(has, None)


def _library(case: Case, imported: TorchImport) -> tuple[str, str] | None:
    """A library that the loader does not find."""
    match = _NOT_FOUND.search(imported.error)
    environment = case.environment
    if match is None or environment is None:
        return None
    name = PurePosixPath(match[1]).name
    # One that an installed package should have; else the package that is known to have it.
    owner = _owner(environment, name)
    if owner is not None:
        cause = f"the library {name} is missing: {owner.name} {owner.version} had it"
        return cause, mend.reinstall(case, owner)
    known = next((row.distribution for row in case.table.packages if fits(name, row.libraries)), "")
    installed = environment.named(known) if known else None
    if installed is not None:
        cause = f"the library {name} is missing, and {known} {installed.version} has no such file"
    elif known:
        cause = f"the library {name} is missing; {known} has it"
    else:
        cause = f"the library {name} is missing from this system"
    return cause, provide(case, name)


def _own_words(case: Case, imported: TorchImport) -> tuple[str, str] | None:
    """What `rocm_sdk` says of a library that is not where it was installed."""
    match = _REPAIR.search(imported.error)
    if match is None or case.environment is None:
        return None
    owner = case.environment.named(match[2])
    return match[1], mend.reinstall(case, owner) if owner else mend.install(case, match[2], again=True)


def _damaged(case: Case, imported: TorchImport) -> tuple[str, str] | None:
    match = _DAMAGED.search(imported.error)
    environment = case.environment
    if match is None or environment is None:
        return None
    owner = _owner(environment, PurePosixPath(match[1]).name)
    cause = f"the library {match[1]} is damaged, or for another machine: {match[2]}"
    return cause, mend.reinstall(case, owner) if owner else _see(case)


def _version(case: Case, imported: TorchImport) -> tuple[str, str] | None:
    """A symbol version that a library does not have: the system's is too old, or a foreign one came first."""
    match = _VERSION.search(imported.error)
    if match is None:
        return None
    library, symbol = match[1], match[2]
    needs = f", which {match[3]} needs" if match[3] else ""
    if symbol.startswith(_RUNTIMES):
        cause = f"{library} of this system is too old: it has no {symbol}{needs}"
        return cause, "use a newer distribution, or wheels for an older one (manylinux_2_28)"
    return f"{library} is a foreign or older copy: it has no {symbol}{needs}", _unset(case)


def _symbol(case: Case, imported: TorchImport) -> tuple[str, str] | None:
    match = _SYMBOL.search(imported.error)
    if match is None:
        return None
    symbol = match[2] or match[3]
    cause = (
        f"{match[1]} needs {symbol}, which no library that was loaded has: copies of two versions are mixed"
    )
    return cause, _unset(case)


def _unset(case: Case) -> str:
    names = [name for name in ("LD_LIBRARY_PATH", "LD_PRELOAD") if case.machine.variables.get(name)]
    if names:
        return f"unset {' '.join(names)}"
    torch = case.environment.named("torch") if case.environment else None
    return mend.reinstall(case, torch) if torch else _see(case)


def _rocm(case: Case, imported: TorchImport) -> tuple[str, str] | None:
    match = _ROCM_VERSION.search(imported.error)
    if match is None:
        return None
    cause = f"torch was built for ROCm {match[1]}, installed is ROCm {match[2]}"
    return cause, mend.install(case, f"rocm[libraries]=={match[1]}")
