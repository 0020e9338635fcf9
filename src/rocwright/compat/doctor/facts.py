"""What is known of a machine and of an environment: pure data, from which the rules conclude.

What is looked for there, and what it is compared with, is the table `doctor`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from rocwright.compat.detector import Gpu
from rocwright.model.sets import SetManifest


class PciRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """AMD's number as a vendor, and the beginnings of the class numbers of GPUs, as sysfs writes both."""

    vendor: str
    classes: tuple[str, ...]


class AccessRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Groups that may use a GPU, where the devices do not name any."""

    groups: tuple[str, ...]


class ContainerRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options that a container with a GPU is started with."""

    devices: tuple[str, ...]
    groups: tuple[str, ...]
    memory: str
    seccomp: str


class LibraryRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The distribution that has libraries of these names."""

    libraries: tuple[str, ...]
    distribution: str


class DoctorTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `data/doctor.toml`, whose head explains the fields; patterns are those of all tables."""

    family: tuple[str, ...]
    rocm: tuple[str, ...]
    frameworks: tuple[str, ...]
    extensions: tuple[str, ...]
    libraries: tuple[str, ...]
    hip: str
    packages: tuple[LibraryRow, ...]
    system: dict[str, str]
    shared_bytes: int
    import_s: float
    pci: PciRow
    access: AccessRow
    container: ContainerRow


class Device(msgspec.Struct, frozen=True):
    """A device file: its group (by name where it has one), its mode, whether this user may use it."""

    path: str
    group: str
    mode: int
    usable: bool


class LibraryPlace(msgspec.Struct, frozen=True):
    """A directory (or a file of LD_PRELOAD) that the loader takes libraries from, and their names there.

    `real` is the path with all links followed.
    """

    path: str
    via: Literal["LD_LIBRARY_PATH", "LD_PRELOAD", "ld.so.conf"]
    libraries: tuple[str, ...]
    real: str = ""


class SystemRocm(msgspec.Struct, frozen=True):
    """A ROCm that is installed on the system; `version` is empty where it does not say."""

    path: str
    version: str


class Machine(msgspec.Struct, frozen=True):
    """A machine, as this user sees it.

    `driver` is the state of the kernel driver: loaded, there but not loaded, or no sign of it. `boards` are
    AMD GPUs that the PCI bus lists, whether a driver serves them or not; `blocked` are the places that forbid
    the driver. `groups` are those of this process, `enrolled` those that the user has at the next login.
    `shared_bytes` is the size of /dev/shm where it has a limit of its own. `variables` are those of the
    environment that programs on a GPU read.
    """

    system: Literal["linux", "wsl", "windows", "other"]
    nodes: str
    driver_listed: bool
    gpus: tuple[Gpu, ...] = ()
    gpu_problems: tuple[str, ...] = ()
    boards: tuple[str, ...] = ()
    driver: Literal["loaded", "not loaded"] = "not loaded"
    blocked: tuple[str, ...] = ()
    kfd: Device | None = None
    render: tuple[Device, ...] = ()
    user: str = ""
    groups: tuple[str, ...] = ()
    enrolled: tuple[str, ...] = ()
    container: str = ""
    shared_bytes: int | None = None
    seccomp: bool = False
    variables: dict[str, str] = {}
    path: tuple[str, ...] = ()
    places: tuple[LibraryPlace, ...] = ()
    rocms: tuple[SystemRocm, ...] = ()


class FileProblem(msgspec.Struct, frozen=True):
    """A file of a distribution that is not as its RECORD says."""

    path: str
    kind: Literal["missing", "changed", "unreadable"]


class SplitPart(msgspec.Struct, frozen=True):
    """What a package says of the split that it is of, by the file beside its archives of device code.

    `group`, `build`, `part` and `targets` are those of `device_code.origin.SplitOrigin`; `folder` is where
    the file lies, with all links followed, `held` are the targets whose archives lie there, too, `unlike`
    those of them whose archive is, by RECORD, another than the one that the file names.
    """

    folder: str
    group: str
    build: str
    part: str = ""
    targets: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    unlike: tuple[str, ...] = ()


class Distribution(msgspec.Struct, frozen=True):
    """An installed distribution, by its normalised name; the fields from `family` on are of the family only.

    `directory` is where it is installed. `requires` are its Requires-Dist lines, `origin` the address that it
    was installed from, where that was given, and `origin_sha256` the digest of that file. `problems` are the
    first files that differ from RECORD, `bad_files` how many there are. `libraries` are paths
    relative to `directory`, `outside` the real paths of those that are links to elsewhere. `splits` are what
    it says of its device code, or of that which was split from it.
    """

    name: str
    version: str
    directory: str
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    family: bool = False
    installer: str = ""
    tags: tuple[str, ...] = ()
    origin: str = ""
    origin_sha256: str = ""
    metadata_sha256: str = ""
    editable: bool = False
    recorded: bool = True
    bad_files: int = 0
    problems: tuple[FileProblem, ...] = ()
    libraries: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    splits: tuple[SplitPart, ...] = ()


class DeviceMarker(msgspec.Struct, frozen=True):
    """What a device package of ROCm says of itself."""

    word: str
    serves: tuple[str, ...]


class TorchText(msgspec.Struct, frozen=True):
    """The torch that an import would find, as its version.py says; `hip` and `cuda` are empty without one.

    `extensions` are the names of its compiled modules `_C.*`.
    """

    directory: str
    version: str = ""
    hip: str = ""
    cuda: str = ""
    extensions: tuple[str, ...] = ()


class Shared(msgspec.Struct, frozen=True):
    """A file that two distributions claim."""

    path: str
    owners: tuple[str, ...]


class Need(msgspec.Struct, frozen=True):
    """A library that is nowhere, and the first that needs it: its distribution and its path in that."""

    library: str
    distribution: str
    path: str


class Environment(msgspec.Struct, frozen=True):
    """A Python environment.

    `version` is as wheels are asked for: `3.12`, `3.13t`. `libc` is `glibc`, `musl` or empty, `markers` are
    the values of PEP 508's environment markers. `targets` are those that a ROCm for a family of GPUs has code
    for, by distribution; `shadows` are directories of PYTHONPATH with a torch of their own, `roots` the real
    paths of the environment and of its packages.
    """

    python: str
    version: str
    full: str
    implementation: str
    prefix: str
    machine: str
    libc: str
    libc_version: str
    pip: bool
    markers: dict[str, str]
    distributions: tuple[Distribution, ...] = ()
    unreadable: tuple[str, ...] = ()
    torch: TorchText | None = None
    devices: tuple[DeviceMarker, ...] = ()
    targets: dict[str, tuple[str, ...]] = {}
    shared: tuple[Shared, ...] = ()
    shadows: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()

    @property
    def family(self) -> tuple[Distribution, ...]:
        """The distributions of the family."""
        return tuple(one for one in self.distributions if one.family)

    def named(self, name: str) -> Distribution | None:
        """The distribution of this name that an import finds, or None."""
        return next((one for one in self.distributions if one.name == name), None)


class TorchImport(msgspec.Struct, frozen=True):
    """How `import torch` went.

    `loaded` are the libraries that the process then had, `ended` says why it was cut off.
    """

    version: str | None = None
    error: str = ""
    module: str = ""
    architectures: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    ended: str = ""


class Case(msgspec.Struct, frozen=True):
    """All that the rules look at. `known` are all GPU targets, `index` is where packages come from.

    `extras` are those of the GPUs here, in an index that has some.
    """

    machine: Machine
    table: DoctorTable
    known: tuple[str, ...] = ()
    families: dict[str, tuple[str, ...]] = {}
    pythons: tuple[str, ...] = ()
    environment: Environment | None = None
    imported: TorchImport | None = None
    needs: tuple[Need, ...] = ()
    manifest: SetManifest | None = None
    set_id: str = ""
    index: str = ""
    extras: tuple[str, ...] = ()
