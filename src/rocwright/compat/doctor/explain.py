"""Why torch cannot be imported: from the words of the loader and of Python to a cause and what mends it."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath

from rocwright.compat.doctor import mend
from rocwright.compat.doctor.facts import Case, TorchImport
from rocwright.compat.doctor.rules.libraries import provide
from rocwright.model.patterns import fits

# What glibc's loader says, and Python's import system.
_NOT_FOUND = re.compile(r"(?:ImportError|OSError): (\S+\.so[.\d]*): cannot open shared object file")
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
_VERSION = re.compile(r"(\S+): version [`']([A-Z]+_[\d.]+)' not found(?: \(required by (\S+)\))?")
_SYMBOL = re.compile(r"(\S+): (?:undefined symbol: (\S+)|symbol (\S+) version \S+ not defined in file (\S+))")
_DAMAGED = re.compile(
    r"(\S+): (file too short|invalid ELF header|wrong ELF class\S*|cannot read file data|ELF \S+)"
)
_ROCM_VERSION = re.compile(r"built for ROCm (\S+?),? but ROCm (\S+) is installed")
# ROCm's own packages name the file and the command.
_REPAIR = re.compile(r"(ROCm library \S+ is missing from the installed (\S+?));")
_RUNTIMES = ("GLIBC_", "GLIBCXX_", "CXXABI_")


def explain(case: Case, imported: TorchImport) -> tuple[str, str]:
    """The cause in a sentence, and the command that mends it."""
    error = imported.error
    if not error:
        why = imported.ended or "the process ended without a word"
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


def _library(case: Case, imported: TorchImport) -> tuple[str, str] | None:
    """A library that the loader does not find."""
    match = _NOT_FOUND.search(imported.error)
    environment = case.environment
    if match is None or environment is None:
        return None
    name = PurePosixPath(match[1]).name
    # One that an installed package should have; else the package that is known to have it.
    owner = next(
        (one for one in environment.family if any(path.endswith(f"/{name}") for path in one.libraries)), None
    )
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
    name = PurePosixPath(match[1]).name
    owner = next(
        (one for one in environment.family if any(path.endswith(f"/{name}") for path in one.libraries)), None
    )
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
