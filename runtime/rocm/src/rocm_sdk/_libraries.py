"""Short names of ROCm libraries: find their files, load them once per process, compare versions."""

import ctypes
import os
import re
import sys
import threading

from . import _ALL_CDLLS, _dist, _set

PRELOAD_VARIABLE = "ROCM_SDK_PRELOAD_LIBRARIES"

_lock = threading.RLock()
_loaded = {}  # path -> (handle, loaded with RTLD_GLOBAL)
_dll_directories = {}  # path -> handle; Windows only


def _renew_lock():
    # A fork while another thread holds the lock would leave it locked for ever in the child.
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def find(shortname):
    """Absolute path of the library `shortname`; errors as in `rocm_sdk.find_libraries`.

    None on Windows for a name that ROCm knows and the installed packages do not have: ROCm has several
    libraries for Linux only, and callers ask for one list of names everywhere.
    """
    role = _set.KNOWN_LIBRARIES.get(shortname)
    if role is None:
        known = " ".join(sorted(_set.KNOWN_LIBRARIES))
        raise ModuleNotFoundError(f"unknown ROCm library {shortname!r}; known names: {known}")
    try:
        root = _dist.require(role)
    except _dist.PackageMissing as error:
        raise _dist.PackageMissing(f"ROCm library {shortname!r}: {error}", name=error.name) from None
    entry = _dist.package(role)
    shipped = _dist.module_fact(entry["module"], "LIBRARIES")
    if shortname not in shipped:
        if _dist.WINDOWS:
            return None
        raise ModuleNotFoundError(
            "ROCm library {!r} is not part of ROCm {} as Python packages; {} has: {}".format(
                shortname, _set.VERSION, entry["distribution"], " ".join(sorted(shipped))
            )
        )
    path = os.path.join(root, *shipped[shortname].split("/"))
    if not os.path.isfile(path):
        raise FileNotFoundError(
            2,
            "ROCm library {!r} is missing from the installed {}; repair it with: {}".format(
                shortname, entry["distribution"], _dist.repair_hint(entry["distribution"])
            ),
            path,
        )
    return path


def preload(shortnames, rtld_global=True):
    """Load libraries in order. A library already loaded privately is made global when that is asked for."""
    mode = ctypes.RTLD_GLOBAL if rtld_global else ctypes.RTLD_LOCAL
    for shortname in shortnames:
        with _lock:
            path = find(shortname)
            if path is None:
                continue
            if path in _loaded and (_loaded[path][1] or not rtld_global):
                _ALL_CDLLS[shortname] = _loaded[path][0]
                continue
            if _dist.WINDOWS:
                _let_windows_find_dependencies()
            try:
                handle = ctypes.CDLL(path, mode=mode)
            except OSError as error:
                raise OSError(
                    f"cannot load ROCm library {shortname!r} ({path}): {error}. "
                    "`rocm-sdk test` checks the installation"
                ) from error
            _loaded[path] = (handle, rtld_global)
            _ALL_CDLLS[shortname] = handle
        _talk(f"preloaded {shortname} {path}")


def _let_windows_find_dependencies():
    """Windows has no RPATH: a DLL of libraries finds those of core through this list of the process."""
    for role in ("core", "libraries"):
        root = _dist.directory(role)
        place = os.path.join(root, "bin") if root else ""
        if os.path.isdir(place) and place not in _dll_directories:
            _dll_directories[place] = os.add_dll_directory(place)


def preload_from_environment(rtld_global=True):
    """Load the libraries that ROCM_SDK_PRELOAD_LIBRARIES names."""
    names = [name.strip() for name in re.split("[,;]", os.environ.get(PRELOAD_VARIABLE, ""))]
    try:
        preload([name for name in names if name], rtld_global=rtld_global)
    except ModuleNotFoundError as error:
        raise type(error)(f"{PRELOAD_VARIABLE}: {error}", name=error.name) from None


def _talk(text):
    if os.environ.get("ROCM_SDK_VERBOSE", "0") not in ("", "0"):
        print("rocm_sdk: " + text, file=sys.stderr)


def version_matches(pattern, version):
    """Whether `version` is what a text says, in which only `*` is special; or begins as a pattern matches."""
    if isinstance(pattern, re.Pattern):
        return pattern.match(version) is not None
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), version) is not None


def mismatch_message(pattern, version):
    """What a version mismatch means and how to end it."""
    exact = not isinstance(pattern, re.Pattern)
    wanted = pattern if exact else pattern.pattern
    text = (
        f"The program was compiled against a ROCm version matching {wanted}, "
        f"but ROCm {version} is installed as Python packages"
    )
    if not exact:
        return text
    if "*" in pattern and not re.fullmatch(r"[^*]+\.\*", pattern):
        return text  # pip has no way to spell such a pattern
    return f'{text}. Install the matching one: pip install "rocm[libraries]=={pattern}"'
