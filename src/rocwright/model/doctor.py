"""What the doctor looks for: the table `data/doctor.toml`."""

from __future__ import annotations

import msgspec


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
