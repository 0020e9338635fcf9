"""The ROCm libraries below PyTorch, and their versions by release of ROCm: the table `compat_libraries`."""

from __future__ import annotations

import msgspec

from rocwright.model.compat_text import need_targets, need_versions


class Library(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A ROCm library: what it does, what of PyTorch uses it; questions may give `functions` and `words`."""

    name: str
    address: str
    purpose: str
    users: str
    functions: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


class RocmRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A release of ROCm as one source has it: the version set, and what AMD supports with it.

    A library that is neither in `versions` nor in `absent` is unknown.
    """

    rocm: str
    source: str
    versions: dict[str, str]
    absent: tuple[str, ...] = ()
    torch: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        need_versions((self.rocm, *self.torch))
        need_targets(self.targets)
        if both := set(self.absent) & set(self.versions):
            raise ValueError(f"{min(both)!r} is in versions and in absent")


class Products(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """GPUs that AMD lists by their names, from this release of ROCm on."""

    rocm: str
    sources: tuple[str, ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        need_versions((self.rocm,))


class Distributions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Distributions of Linux with their versions, from this release of ROCm on.

    Those of `whole` are for all GPUs, those of `limited` for some of them.
    """

    rocm: str
    source: str
    whole: dict[str, tuple[str, ...]]
    limited: dict[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        need_versions((self.rocm,))


class LibraryTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `compat_libraries`; `latest` is the release that a version set called latest means.

    What is said of releases holds on `platforms`. A later release of the same number takes the place of an
    earlier one.
    """

    latest: str
    platforms: tuple[str, ...]
    library: tuple[Library, ...]
    release: tuple[RocmRelease, ...]
    products: tuple[Products, ...] = ()
    distributions: tuple[Distributions, ...] = ()

    def __post_init__(self) -> None:
        names = {row.name for row in self.library}
        for row in self.release:
            if stray := sorted({*row.versions, *row.absent} - names):
                raise ValueError(f"release {row.rocm} has a version of {stray[0]!r}, which is no library")
        if self.latest not in {row.rocm for row in self.release}:
            raise ValueError(f"latest is {self.latest!r}, which is no release")
