"""Packages and libraries under the names by which AMD's packages of ROCm tell of them.

Programs written for those, their own tests among them, read these names. Nothing is known twice: each
answer comes from `_dist` and `_set`. A library is listed when its package ships it, or is not installed.
"""

import importlib.util
import os

from . import _dist, _set

__version__ = _set.VERSION
PY_PACKAGE_SUFFIX_NONCE = ""
AVAILABLE_TARGET_FAMILIES = sorted(_set.FAMILIES if _set.MODE == "legacy" else _set.DEVICES)
DEFAULT_TARGET_FAMILY = _set.FAMILY or next(iter(AVAILABLE_TARGET_FAMILIES), "")


def determine_target_family():
    """The family whose libraries are in use; in kpack mode the first target with an installed package.

    ROCM_SDK_TARGET_FAMILY decides first. Unlike the packages of AMD, this asks what is installed, not which
    GPU the machine has. `ValueError` for a name that the release does not have.
    """
    wanted = os.environ.get("ROCM_SDK_TARGET_FAMILY")
    if not wanted:
        devices = list(_dist.installed_devices())
        return devices[0] if devices else _family_in_use() or DEFAULT_TARGET_FAMILY
    if wanted not in AVAILABLE_TARGET_FAMILIES:
        raise ValueError(
            f"ROCM_SDK_TARGET_FAMILY={wanted} is not part of ROCm {_set.VERSION}; "
            f"it has: {' '.join(AVAILABLE_TARGET_FAMILIES)}"
        )
    return wanted


def _family_in_use():
    if _set.MODE != "legacy":
        return None
    entry = _dist.package("libraries")
    families = _set.PACKAGES.get("libraries", {})
    return next((name for name in families if families[name] == entry), None)


class PackageEntry:
    """A distribution of the set by its role; those for a GPU are asked for with a family or target."""

    def __init__(self, logical_name, pure_py_package_name, required=False):
        self.logical_name = logical_name
        self.pure_py_package_name = pure_py_package_name
        self.required = required

    @property
    def is_target_specific(self):
        """Whether there is one for each family or target."""
        legacy = _set.MODE == "legacy"
        return self.logical_name == "device" or (legacy and self.logical_name == "libraries")

    def _entry(self, target_family):
        if self.logical_name == "meta":
            return {"distribution": "rocm", "module": "rocm_sdk"}
        if not self.is_target_specific:
            entry = _dist.package(self.logical_name)
        elif target_family is None:
            raise ValueError(f"there is one package {self.logical_name} for each target: name a target")
        elif self.logical_name == "device":
            device = _set.DEVICES.get(target_family.split(":")[0]) if _set.MODE == "kpack" else None
            entry = device and dict(device, module=_set.PACKAGES["libraries"]["module"])
        else:
            entry = _set.PACKAGES.get("libraries", {}).get(target_family)
        if not entry:
            raise ValueError(f"ROCm {_set.VERSION} has no package {self.logical_name} for {target_family}")
        return entry

    def get_dist_package_name(self, target_family=None):
        """Name of the distribution."""
        return self._entry(target_family)["distribution"]

    def get_dist_package_require(self, target_family=None):
        """The requirement that installs it."""
        return f"{self.get_dist_package_name(target_family)}=={_set.VERSION}"

    def get_py_package_name(self, target_family=None):
        """Name of the package with its files."""
        return self._entry(target_family)["module"]

    def get_py_package(self, target_family=None):
        """Specification of the package with its files, None when it is not there."""
        try:
            return importlib.util.find_spec(self.get_py_package_name(target_family))
        except ValueError:
            return None

    def has_py_package(self, target_family=None):
        """Whether its files are there; those of devel are once they are expanded."""
        found = self.get_py_package(target_family)
        return found is not None and found.origin is not None

    def __repr__(self):
        return f"PackageEntry({self.logical_name!r})"


class LibraryEntry:
    """A library by its short name, and the package that has it."""

    def __init__(self, shortname, package):
        self.shortname = shortname
        self.package = package

    def __repr__(self):
        return f"LibraryEntry({self.shortname!r}, {self.package!r})"


def _libraries():
    for name, role in _set.KNOWN_LIBRARIES.items():
        entry = _dist.package(role)
        module = entry["module"] if entry else ""
        absent = not entry or _dist.module_directory(module) is None
        if absent or name in _dist.module_fact(module, "LIBRARIES"):
            yield name, LibraryEntry(name, ALL_PACKAGES[role])


ALL_PACKAGES = {
    entry.logical_name: entry
    for entry in (
        PackageEntry("meta", "rocm_sdk", required=True),
        PackageEntry("core", "rocm_sdk_core", required=True),
        PackageEntry("libraries", "rocm_sdk_libraries"),
        PackageEntry("device", "rocm_sdk_device"),
        PackageEntry("devel", "rocm_sdk_devel"),
        PackageEntry("profiler", "rocm_profiler"),
    )
}
ALL_LIBRARIES = dict(_libraries())
