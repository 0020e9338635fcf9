"""Short names of ROCm libraries: find their files, load them once per process, compare versions."""

import ctypes
import os
import re
import sys
import threading

from . import _dist, _set

PRELOAD_VARIABLE = "ROCM_SDK_PRELOAD_LIBRARIES"

_lock = threading.RLock()
_loaded = {}  # path -> (handle, loaded with RTLD_GLOBAL)


def _renew_lock():
    # A fork while another thread holds the lock would leave it locked for ever in the child.
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def find(shortname):
    """Absolute path of the library `shortname`; errors as in `rocm_sdk.find_libraries`."""
    entry = _set.LIBRARIES.get(shortname)
    if entry is None:
        raise ModuleNotFoundError(_unknown(shortname))
    try:
        root = _dist.require(entry["package"])
    except _dist.PackageMissing as error:
        raise _dist.PackageMissing(f"ROCm library {shortname!r}: {error}", name=error.name) from None
    path = os.path.join(root, *entry["path"].split("/"))
    if not os.path.isfile(path):
        owner = _dist.package(entry["package"])["distribution"]
        raise FileNotFoundError(
            2,
            f"ROCm library {shortname!r} is missing from the installed {owner}; repair it with: "
            f"pip install --force-reinstall --no-deps {owner}=={_set.VERSION}",
            path,
        )
    return path


def _unknown(shortname):
    known = "known names: " + " ".join(sorted(_set.LIBRARIES))
    if shortname in _set.ABSENT_LIBRARIES:
        return f"ROCm library {shortname!r} is not part of ROCm {_set.VERSION} as Python packages; {known}"
    return f"unknown ROCm library {shortname!r}; {known}"


def preload(shortnames, rtld_global=True):
    """Load libraries in order. A library already loaded privately is made global when that is asked for."""
    mode = ctypes.RTLD_GLOBAL if rtld_global else ctypes.RTLD_LOCAL
    for shortname in shortnames:
        with _lock:
            path = find(shortname)
            if path in _loaded and (_loaded[path][1] or not rtld_global):
                continue
            try:
                handle = ctypes.CDLL(path, mode=mode)
            except OSError as error:
                raise OSError(
                    f"cannot load ROCm library {shortname!r} ({path}): {error}. "
                    "`rocm-sdk test` checks the installation"
                ) from error
            _loaded[path] = (handle, rtld_global)
        _talk(f"preloaded {shortname} {path}")


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
    """Whether the whole of `version` matches `pattern`, in which only `*` is special."""
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), version) is not None


def mismatch_message(pattern, version):
    """What a version mismatch means and how to end it."""
    text = f"this program was built for ROCm {pattern}, but ROCm {version} is installed as Python packages"
    if "*" in pattern and not re.fullmatch(r"[^*]+\.\*", pattern):
        return text  # pip has no way to spell such a pattern
    return f'{text}. Install the matching one: pip install "rocm[libraries]=={pattern}"'
