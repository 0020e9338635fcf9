"""Checks of an installation that need no GPU: one bad library fails one check, an absent GPU fails none.

A check is {"id", "verdict", "cause", "fix"}; cause and fix are empty for a passed one.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch

from . import _detect, _devel, _dist, _libraries, _manifest, _set

VERDICTS = ("passed", "failed", "skipped")
LOAD_SECONDS = 120
RUN_SECONDS = 60
# The loader's own words, without a Python traceback around them.
LOAD = """
import ctypes, os, sys
try:
    ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW)
except OSError as error:
    sys.exit(str(error))
"""


def run():
    """All checks, in a fixed order."""
    checks = []
    for part in (_packages, _library_files, _loads, _commands, _programs, _devel_tree, _gpu):
        try:
            checks.extend(part())
        except Exception as error:  # a broken installation breaks one part of the report, not the report
            checks.append(_check("test:" + part.__name__.strip("_"), "failed", repr(error)))
    return checks


def _check(name, verdict, cause="", fix=""):
    return {"id": name, "verdict": verdict, "cause": cause, "fix": fix}


def _reinstall(distribution):
    return f"pip install --force-reinstall --no-deps {distribution}=={_set.VERSION}"


def _package(role):
    """(entry, directory, cause): the entry and directory of an installed package, else why there is none."""
    try:
        entry = _dist.package(role)
    except _dist.PackageMissing as error:
        return None, None, str(error)
    if entry is None:
        return None, None, f"this ROCm has no {role} package"
    return entry, _dist.module_directory(entry["module"]), "{} is not installed".format(entry["distribution"])


def _packages():
    """Installed packages are importable and of one version; only core is required."""
    for role in ("core", "libraries", "devel"):
        name = "package:" + role
        try:
            entry, directory, cause = _package(role)
            version = _dist.module_version(entry["module"]) if directory else None
        except Exception as error:  # whatever a broken package raises on import is the finding
            yield _check(name, "failed", f"cannot be imported: {error!r}", _dist.pip_hint())
            continue
        if directory is None:
            # Without an entry although families are installed, nobody can say which one to use.
            unclear = role == "libraries" and entry is None and _dist.installed_families()
            verdict = "failed" if role == "core" or unclear else "skipped"
            yield _check(name, verdict, cause, _dist.pip_hint(role))
        elif version != _set.VERSION:
            cause = f"it is version {version}, rocm is {_set.VERSION}"
            yield _check(name, "failed", cause, _reinstall(entry["distribution"]))
        else:
            yield _check(name, "passed")


def _library_files():
    """Every library of the table of short names has its file."""
    for shortname in sorted(_set.LIBRARIES):
        name = "library:" + shortname
        try:
            _libraries.find(shortname)
        except ModuleNotFoundError as error:
            role = _set.LIBRARIES[shortname]["package"]
            yield _check(name, "failed" if role == "core" else "skipped", str(error), _dist.pip_hint(role))
        except FileNotFoundError as error:
            owner = _package(_set.LIBRARIES[shortname]["package"])[0]["distribution"]
            yield _check(name, "failed", f"{error.filename} is missing", _reinstall(owner))
        else:
            yield _check(name, "passed")


def _loads():
    """Every shared library of core and libraries loads in an interpreter of its own."""
    jobs = []
    for role in ("core", "libraries"):
        entry, directory, _ = _package(role)
        if directory is not None:
            jobs += [(entry, role, directory, path) for path in _shared_libraries(directory)]
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        yield from pool.map(_load, jobs)


def _shared_libraries(directory):
    for here, names, files in os.walk(directory):
        names.sort()
        for file in sorted(files):
            path = os.path.join(here, file)
            if (file.endswith(".so") or ".so." in file) and _is_elf(path):
                yield os.path.relpath(path, directory)


def _is_elf(path):
    with open(path, "rb") as stream:
        return stream.read(4) == b"\x7fELF"


def _load(job):
    entry, role, directory, path = job
    name = "load:{}/{}".format(entry["module"], path)
    for pattern, reason in sorted(_set.NOT_LOADABLE.get(role, {}).items()):
        if fnmatch(path, pattern):
            return _check(name, "skipped", "not meant to be loaded alone: " + reason)
    done = _run([sys.executable, "-I", "-S", "-c", LOAD, os.path.join(directory, path)], LOAD_SECONDS)
    if done is None:
        return _check(name, "passed")
    return _check(name, "failed", done, _reinstall(entry["distribution"]))


def _run(command, seconds):
    """None when a command succeeds, else how it failed, in a line."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end after {seconds} s"
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    if done.returncode == 0:
        return None
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    ending = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
    return "{} ({})".format(lines[-1] if lines else "no message", ending)


def _commands():
    """Every console command that core declares has its program."""
    entry, directory, _ = _package("core")
    if directory is None:
        return
    from importlib import metadata

    try:
        from rocm_sdk_core import _cli as core
    except ImportError as error:
        yield _check("commands", "failed", str(error), _reinstall(entry["distribution"]))
        return
    try:
        declared = metadata.distribution(entry["distribution"]).entry_points
    except metadata.PackageNotFoundError:
        yield _check("commands", "skipped", "the installer left no metadata of " + entry["distribution"])
        return
    for point in sorted(declared, key=lambda point: point.name):
        module, _, attribute = point.value.partition(":")
        if point.group != "console_scripts" or module != core.__name__:
            continue
        if core.find_program(attribute, directory):
            yield _check("command:" + point.name, "passed")
        else:
            cause = f"its program is not in {directory}"
            yield _check("command:" + point.name, "failed", cause, _reinstall(entry["distribution"]))


def _programs():
    """The compiler driver and the configuration tool start."""
    entry, directory, cause = _package("core")
    places = {"hipconfig": ("bin",), "clang": ("lib/llvm/bin", "llvm/bin", "bin")}
    for program in sorted(places):
        name = "run:" + program
        found = [os.path.join(directory, place, program) for place in places[program]] if directory else []
        path = next((path for path in found if os.path.isfile(path)), None)
        if path is None:
            yield _check(name, "skipped", "core has no " + program if directory else cause)
            continue
        failure = _run([path, "--version"], RUN_SECONDS)
        if failure:
            yield _check(name, "failed", f"{path} --version: {failure}", _reinstall(entry["distribution"]))
        else:
            yield _check(name, "passed")


def _devel_tree():
    """The development files expand, their links lead somewhere, and the compiler is there."""
    _, directory, cause = _package("devel")
    if directory is None:
        yield _check("devel:expand", "skipped", cause, _dist.pip_hint("libraries,devel"))
        return
    try:
        tree = _devel.root()
    except (_devel.DevelError, ImportError) as error:
        yield _check("devel:expand", "failed", str(error))
        return
    yield _check("devel:expand", "passed")
    again = f"remove {tree} and run: rocm-sdk init"
    bad = _manifest.problems(directory, tree)
    yield (
        _check("devel:layout", "failed", "; ".join(bad[:5]), again)
        if bad
        else _check("devel:layout", "passed")
    )
    compilers = [os.path.join(tree, place, "clang++") for place in ("lib/llvm/bin", "llvm/bin", "bin")]
    if any(os.access(path, os.X_OK) for path in compilers):
        yield _check("devel:clang++", "passed")
    else:
        yield _check("devel:clang++", "failed", "no clang++ in " + tree, again)


def _gpu():
    """The installed libraries serve the GPUs of this machine."""
    if not os.path.exists("/dev/kfd"):
        yield _check("gpu", "skipped", "no AMD GPU here: there is no /dev/kfd")
        return
    gpus, problems = _detect.scan()
    if not gpus:
        cause = "; ".join(problems) or "/dev/kfd is there, but the driver lists no GPU"
        yield _check("gpu", "skipped", "no AMD GPU could be read: " + cause)
        return
    families = _dist.installed_families()
    if not families:
        yield _check("gpu", "skipped", "no libraries package is installed", _dist.pip_hint("libraries"))
        return
    served = {target.partition(":")[0] for family in families for target in _set.FAMILIES[family]}
    for gpu in gpus:
        name = "gpu:{}".format(gpu["index"])
        if gpu["target"] in served:
            yield _check(name, "passed")
            continue
        right = sorted(
            family
            for family in _set.FAMILIES
            if gpu["target"] in {target.partition(":")[0] for target in _set.FAMILIES[family]}
        )
        cause = "it is a {}, the installed libraries are for {}".format(
            gpu["target"], " ".join(sorted(served))
        )
        # Installers cache the wheel built from the rocm sdist, with the family that was chosen then.
        fix = (
            f"pip cache remove rocm; ROCM_SDK_TARGET_FAMILY={right[0]} "
            f'pip install --force-reinstall --no-cache-dir "rocm[libraries]=={_set.VERSION}"'
            if right
            else "this ROCm serves only: " + " ".join(sorted(_set.FAMILIES))
        )
        # A second, unserved GPU is a machine's own business; none served at all is a failure.
        usable = any(other["target"] in served for other in gpus)
        yield _check(name, "skipped" if usable else "failed", cause, fix)
