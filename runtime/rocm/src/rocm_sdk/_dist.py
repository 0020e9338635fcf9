"""Where the packages of this set are installed, what they say of themselves, how to get a missing one."""

import os

from . import _set

MARKER = "_device_"  # begins the name of the file by which a device package is known

ROLES = ("core", "libraries", "devel", "profiler")
WINDOWS = os.name == "nt"


class PackageMissing(ModuleNotFoundError):
    """A package of the set is not installed; the message says how to install it."""


def pip_hint(*extras):
    """The command that installs the set's packages behind `extras`; core comes without one."""
    wanted = ",".join(extra for extra in extras if extra != "core")
    name = f"rocm[{wanted}]" if wanted else "rocm"
    return f'pip install "{name}=={_set.VERSION}"'


def repair_hint(distribution):
    """The command that installs one damaged package anew."""
    return f"pip install --force-reinstall --no-deps {distribution}=={_set.VERSION}"


def module_directory(module):
    """Directory of an installed top-level package, None when it is not installed.

    A directory that an uninstallation left behind has no `__init__.py` and does not count as installed.
    """
    loaded = _import(module)
    file = getattr(loaded, "__file__", None)
    return os.path.dirname(os.path.abspath(file)) if file else None


def module_version(module):
    """`__version__` of an installed package, None when it has none or is not installed."""
    return getattr(_import(module), "__version__", None)


def module_fact(module, name):
    """LIBRARIES, NOT_LOADABLE or TARGETS of an installed package; {} when it has none."""
    return getattr(_import(module), name, None) or {}


def _import(module):
    try:
        return __import__(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return None


def package(role):
    """{"distribution", "module"} of a role; None when the set has no such package.

    For `libraries` in legacy mode it is the package in use: the selected family's when installed, else the
    only other installed one of the set. `PackageMissing` when several others are installed, as none was
    chosen.
    """
    if role != "libraries" or _set.MODE != "legacy":
        return _set.PACKAGES.get(role)
    families = _set.PACKAGES.get("libraries", {})
    others = [name for name in installed_families() if name != _set.FAMILY]
    if _set.FAMILY in families and (not others or _installed(families[_set.FAMILY])):
        return families[_set.FAMILY]
    if len(others) > 1:
        raise PackageMissing(
            f"ROCm libraries for the families {', '.join(others)} are installed, but rocm was installed for "
            f"{_set.FAMILY}. Choose one: ROCM_SDK_TARGET_FAMILY={others[0]} "
            f"pip install --force-reinstall --no-deps --no-cache-dir rocm=={_set.VERSION}"
        )
    return families[others[0]] if others else None


def installed_families():
    """Families of this set whose libraries package is installed, sorted; [] in kpack mode."""
    if _set.MODE != "legacy":
        return []
    families = _set.PACKAGES.get("libraries", {})
    return sorted(name for name in families if _installed(families[name]))


def _installed(entry):
    return module_directory(entry["module"]) is not None


def present(role, entry):
    """The package that is there as soon as a role's distribution is installed.

    That of the development files comes on their first use; until then they lie packed in the pure package.
    """
    return entry["module"].lstrip("_") if role == "devel" else entry["module"]


def device_notes():
    """Names, in the libraries package, of the files of `installed_devices`, for all that the set has."""
    if _set.MODE != "kpack":
        return []
    words = [entry["distribution"][len("rocm-sdk-device-") :] for entry in _set.DEVICES.values()]
    return [f"{MARKER}{word}.json" for word in sorted(words)]


def installed_devices():
    """The installed device packages: word to {"version", "serves", ...}, as each one's own file says.

    `RuntimeError` names a file that cannot be read.
    """
    if _set.MODE != "kpack":
        return {}
    root = directory("libraries")
    if root is None:
        return {}
    import json

    found = {}
    for name in sorted(os.listdir(root)):
        if not (name.startswith(MARKER) and name.endswith(".json")):
            continue
        path = os.path.join(root, name)
        try:
            with open(path, encoding="utf-8") as stream:
                marker = json.load(stream)
            word = name[len(MARKER) : -len(".json")]
            found[word] = dict(marker, version=marker["version"], serves=marker["serves"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RuntimeError(f"a device package of ROCm is damaged: {path}: {error!r}") from error
    return found


def directory(role):
    """Directory of an installed package, None when it is not installed; of devel, where its archive lies."""
    entry = package(role)
    return module_directory(present(role, entry)) if entry else None


def require(role):
    """Directory of an installed package; `PackageMissing` with the command that installs it."""
    found = directory(role)
    if found is not None:
        return found
    entry = package(role)
    if entry is None:
        raise PackageMissing(f"ROCm {_set.VERSION} as Python packages has no {role} package")
    raise PackageMissing(
        "the package {} is not installed; install it with: {}".format(entry["distribution"], pip_hint(role)),
        name=entry["module"],
    )
