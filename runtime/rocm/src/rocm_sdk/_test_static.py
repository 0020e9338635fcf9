"""`rocm-sdk test --static`: packages, libraries, commands and search paths, without a GPU and a network."""

import ast
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch

from . import _devel, _dist, _gpus, _libraries, _set
from ._checks import check, failure, in_a_line, run_command

LOAD_SECONDS = 120
RUN_SECONDS = 60
# The loader's own words, without a Python traceback around them; then what the library brought with it.
LOAD = """
import ctypes, os, sys
def mapped():
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="backslashreplace") as stream:
            return {line.split(None, 5)[5].rstrip() for line in stream if "/" in line}
    except OSError:
        return set()
for place in sys.argv[2:]:
    os.add_dll_directory(place)
before = mapped()
try:
    ctypes.CDLL(sys.argv[1], mode=getattr(os, "RTLD_NOW", 0))
except OSError as error:
    sys.exit(str(error))
for path in sorted(mapped() - before):
    print("mapped", ascii(path))
"""


def _installed(*roles):
    """(entry, directory) of the packages of these roles that are installed."""
    for role in roles:
        entry = _dist.package(role)
        directory = _dist.module_directory(_dist.present(role, entry)) if entry else None
        if directory is not None:
            yield entry, directory


def _packages():
    """Installed packages are importable and of one version; only core is required."""
    for role in _dist.ROLES:
        name = "package:" + role
        cause, version, entry = f"this ROCm has no {role} package", None, None
        try:
            entry = _dist.package(role)
            if entry is not None:
                cause = "{} is not installed".format(entry["distribution"])
                version = _dist.module_version(_dist.present(role, entry))
        except _dist.PackageMissing as error:
            yield check(name, "failed", str(error), _dist.pip_hint(role))
            continue
        except Exception as error:  # whatever a broken package raises on import is the finding
            yield check(name, "failed", f"cannot be imported: {error!r}", _dist.pip_hint())
            continue
        if entry is None or _dist.module_directory(_dist.present(role, entry)) is None:
            fix = _dist.pip_hint(role) if entry or role == "libraries" else ""
            yield check(name, "failed" if role == "core" else "skipped", cause, fix)
        elif version != _set.VERSION:
            cause = f"it is version {version}, rocm is {_set.VERSION}"
            yield check(name, "failed", cause, _dist.repair_hint(entry["distribution"]))
        else:
            yield check(name, "passed")


def _devices():
    """Installed device packages are of this version."""
    for word, marker in _dist.installed_devices().items():
        name = "package:device-" + word
        if marker["version"] == _set.VERSION:
            yield check(name, "passed")
        else:
            cause = "it is version {}, rocm is {}".format(marker["version"], _set.VERSION)
            yield check(name, "failed", cause, _dist.pip_hint("device-" + word))


def _library_files():
    """Every short name that an installed package has leads to its file."""
    for entry, _ in _installed("core", "libraries"):
        for shortname in sorted(_dist.module_fact(entry["module"], "LIBRARIES")):
            name = "library:" + shortname
            try:
                _libraries.find(shortname)
            except FileNotFoundError as error:
                fix = _dist.repair_hint(entry["distribution"])
                yield check(name, "failed", f"{error.filename} is missing", fix)
            except ModuleNotFoundError as error:
                yield check(name, "failed", str(error), _dist.repair_hint("rocm"))
            else:
                yield check(name, "passed")


def _loads():
    """Every shared library of the packages loads in an interpreter of its own, and brings no foreign one."""
    packages = list(_installed("core", "libraries", "profiler"))
    jobs = [
        (entry, directory, path) for entry, directory in packages for path in _shared_libraries(directory)
    ]
    brought = set()
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        for result, mapped in pool.map(_load, jobs):
            brought |= mapped
            yield result
    if not jobs or _dist.WINDOWS:
        return
    site = os.path.realpath(os.path.dirname(jobs[0][1]))
    stems = {_stem(path) for _, _, path in jobs}
    leaks = sorted(
        path
        for path in brought
        if not path.startswith(site + os.sep) and (_stem(path) in stems or path.startswith("/opt/rocm"))
    )
    if leaks:
        cause = "loading the libraries brought in: " + " ".join(leaks)
        yield check("search-path:mapped", "failed", cause, "unset LD_LIBRARY_PATH and LD_PRELOAD")
    else:
        yield check("search-path:mapped", "passed")


def _stem(path):
    return os.path.basename(path).partition(".so")[0]


def _shared_libraries(directory):
    for here, names, files in os.walk(directory):
        names.sort()
        for file in sorted(files):
            path = os.path.join(here, file)
            if (file.endswith((".so", ".dll")) or ".so." in file) and _is_library(path):
                yield os.path.relpath(path, directory).replace(os.sep, "/")


def _is_library(path):
    with open(path, "rb") as stream:
        return stream.read(4)[: 2 if _dist.WINDOWS else 4] in (b"\x7fELF", b"MZ")


def _load(job):
    """(check, paths that loading mapped) of one shared library."""
    entry, directory, path = job
    name = "load:{}/{}".format(entry["module"], path)
    for pattern, reason in sorted(_dist.module_fact(entry["module"], "NOT_LOADABLE").items()):
        if fnmatch(path, pattern):
            return check(name, "skipped", "not meant to be loaded alone: " + reason), set()
    places = [os.path.join(d, "bin") for _, d in _installed("core", "libraries")] if _dist.WINDOWS else []
    command = [sys.executable, "-I", "-S", "-c", LOAD, os.path.join(directory, *path.split("/")), *places]
    text, ending = run_command(command, LOAD_SECONDS)
    if ending:
        return check(name, "failed", in_a_line(text, ending), _dist.repair_hint(entry["distribution"])), set()
    told = [line for line in text.splitlines() if line.startswith("mapped ")]
    return check(name, "passed"), {ast.literal_eval(line[len("mapped ") :]) for line in told}


def _commands():
    """Every console command that a package declares has its program."""
    from importlib import metadata

    for entry, directory in _installed("core", "profiler"):
        try:
            from rocm_sdk_core import _cli as core
        except ImportError as error:
            yield check("commands", "failed", str(error), _dist.repair_hint("rocm-sdk-core"))
            return
        try:
            declared = metadata.distribution(entry["distribution"]).entry_points
        except metadata.PackageNotFoundError:
            cause = "the installer left no metadata of " + entry["distribution"]
            yield check("commands:" + entry["distribution"], "skipped", cause)
            continue
        for point in sorted(declared, key=lambda point: point.name):
            module, _, attribute = point.value.partition(":")
            if point.group != "console_scripts" or module != entry["module"][1:] + "._cli":
                continue
            if core.find_program(attribute, directory):
                yield check("command:" + point.name, "passed")
            else:
                cause = f"its program is not in {directory}"
                yield check(
                    "command:" + point.name, "failed", cause, _dist.repair_hint(entry["distribution"])
                )


def _programs():
    """The compiler driver and the configuration tool start."""
    core = next(_installed("core"), None)
    places = {"hipconfig": ("bin",), "clang": ("lib/llvm/bin", "llvm/bin", "bin")}
    for program in sorted(places):
        name = "run:" + program
        found = [os.path.join(core[1], place, program) for place in places[program]] if core else []
        path = next((path for path in found if os.path.isfile(path)), None)
        if path is None:
            yield check(name, "skipped", f"core has no {program}" if core else "core is not installed")
            continue
        cause = failure([path, "--version"], RUN_SECONDS)
        if cause:
            fix = _dist.repair_hint(core[0]["distribution"])
            yield check(name, "failed", f"{path} --version: {cause}", fix)
        else:
            yield check(name, "passed")


def _search_paths():
    """LD_LIBRARY_PATH leads to no other libraries of the same names."""
    packages = list(_installed("core", "libraries"))
    if _dist.WINDOWS or not packages:
        return
    site = os.path.realpath(os.path.dirname(packages[0][1]))
    names = {os.path.basename(path) for _, directory in packages for path in _shared_libraries(directory)}
    found = []
    for place in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        inside = os.path.realpath(place).startswith(site + os.sep)
        if place and not inside and os.path.isdir(place):
            same = sorted(names.intersection(os.listdir(place)))
            found += [f"{place} has {' '.join(same[:3])}{' and more' if same[3:] else ''}"] if same else []
    if found:
        cause = "LD_LIBRARY_PATH leads to other libraries of the same names: " + "; ".join(found)
        yield check("search-path:LD_LIBRARY_PATH", "failed", cause, "unset LD_LIBRARY_PATH")
    else:
        yield check("search-path:LD_LIBRARY_PATH", "passed")


def _devel_tree():
    """The development files expand, their links lead somewhere, and the compiler is there."""
    found = next(_installed("devel"), None)
    if found is None:
        fix = _dist.pip_hint("libraries", "devel") if _dist.package("devel") else ""
        yield check("devel:expand", "skipped", "the development files are not installed", fix)
        return
    from . import _manifest

    try:
        tree = _devel.root()
    except (_devel.DevelError, ImportError) as error:
        yield check("devel:expand", "failed", str(error))
        return
    yield check("devel:expand", "passed")
    again = f"remove {tree} and run: rocm-sdk init"
    bad = _manifest.problems(found[1], tree)
    yield (
        check("devel:layout", "failed", "; ".join(bad[:5]), again) if bad else check("devel:layout", "passed")
    )
    compilers = [os.path.join(tree, place, "clang++") for place in ("lib/llvm/bin", "llvm/bin", "bin")]
    compilers += [path + ".exe" for path in compilers]
    if any(os.access(path, os.X_OK) for path in compilers):
        yield check("devel:clang++", "passed")
    else:
        yield check("devel:clang++", "failed", "no clang++ in " + tree, again)


def _gpu():
    """The installed libraries serve the GPUs of this machine; no GPU is used."""
    gpus, problems = _gpus.visible()
    if not gpus:
        yield check("gpu", "skipped", "no AMD GPU could be read: " + "; ".join(problems or ["there is none"]))
        return
    if _dist.directory("libraries") is None:
        yield check("gpu", "skipped", "no libraries package is installed", _dist.pip_hint("libraries"))
        return
    served = _gpus.installed_targets()
    usable = any(gpu["target"] in served for gpu in gpus)
    for gpu in gpus:
        name = "gpu:{}".format(gpu["index"])
        if gpu["target"] in served:
            yield check(name, "passed")
            continue
        have = " ".join(served) or "nothing"
        cause = "it is a {}, the installed libraries have device code for {}".format(gpu["target"], have)
        # A second, unserved GPU is a machine's own business; none served at all is a failure.
        yield check(name, "skipped" if usable else "failed", cause, _gpus.advice(gpu["target"])[1])


PARTS = (
    _packages,
    _devices,
    _library_files,
    _loads,
    _commands,
    _programs,
    _search_paths,
    _devel_tree,
    _gpu,
)
