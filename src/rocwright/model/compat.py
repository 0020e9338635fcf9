"""What PyTorch on ROCm consists of and supports, section by section: the table `compat`."""

from __future__ import annotations

from typing import Literal

import msgspec

from rocwright.model.compat_releases import need_specifiers, need_targets, need_versions
from rocwright.model.platforms import Platform

Built = Literal["supported", "not supported", "unsupported", "previously built", "in progress"]


class Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The page as a whole: what it is called, the set of library versions that it shows, what PyTorch is.

    `source` is where texts and rows come from, `status_source` where `status` and `torch` do, and
    `versions_source` where the versions do that go with one of PyTorch.
    """

    title: str
    description: str
    keywords: tuple[str, ...]
    version_set: str
    version: str
    about: str
    offers: tuple[str, ...]
    source: str
    status_source: str
    versions_source: str


class Passage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A paragraph of the overview."""

    id: str
    text: str


class UseCase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that PyTorch on ROCm is used for, and the page that tells how."""

    name: str
    address: str
    text: str


class Docker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Docker images: their name, the list of their tags, when they are released, whether AMD tested them."""

    image: str
    tags: str
    released: str
    tested: bool
    text: str


class DataType(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A type of tensors. `native`: ROCm has instructions for it; `eager`: how far eager mode supports it."""

    name: str
    text: str
    aliases: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    native: bool = True
    eager: Literal["full", "limited"] = "full"


class DataTypeNotes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is said of all data types: what they are, the unsigned ones, the hardware.

    `everywhere` are those that every architecture has.
    """

    intro: str
    unsigned: str
    hardware: str
    hardware_source: str
    everywhere: tuple[str, ...]


class OtherType(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A data type that people ask for and PyTorch's list does not have; `near`, the nearest that it has."""

    name: str
    words: tuple[str, ...]
    near: str = ""


class Hardware(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An architecture: its targets, the data types it has beyond the usual, those it has in part, and how.

    With a `source` of its own it has what it names, and of all else nothing is known.
    """

    name: str
    targets: tuple[str, ...]
    types: tuple[str, ...] = ()
    limited: dict[str, str] = {}
    source: str = ""

    def __post_init__(self) -> None:
        need_targets(self.targets)


class PythonRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Versions of Python that wheels of some versions of PyTorch (a specifier) are built for.

    `missing` are versions that they are not built for, by these sources; `platforms`, where not on all.
    """

    torch: str
    text: str
    sources: tuple[str, ...]
    versions: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    platforms: tuple[Platform, ...] = ()

    def __post_init__(self) -> None:
        need_versions((*self.versions, *self.missing))
        need_specifiers((self.torch,))


class Modules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """PyTorch's core modules: examples, where all of them are documented, what they do on ROCm."""

    names: tuple[str, ...]
    text: str
    core: tuple[str, ...]


class DomainNotes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is said of all domain libraries."""

    intro: str


class Domain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A domain library. `release`: official releases `only`, a `beta`, or releases `ended`.

    `last_torch` is the version of PyTorch with which they ended.
    """

    name: str
    address: str
    text: str
    release: Literal["", "only", "beta", "ended"] = ""
    note: str = ""
    last_torch: str = ""

    def __post_init__(self) -> None:
        need_versions(filter(None, (self.last_torch,)))


class Issue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known not to work, in these versions and on these GPUs; empty means any.

    `names` are what questions may call it; of PyTorch's own they stand below `module`. `fixed` is the release
    of ROCm that ended it, `sources` are where it is followed and where it was read.
    """

    id: str
    names: tuple[str, ...]
    rocm: tuple[str, ...]
    text: str
    module: str = ""
    torch: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ("linux",)
    fixed: str = ""
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        need_versions((*self.torch, *self.rocm, *filter(None, (self.fixed,))))
        need_targets(self.targets)


class StatusRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A project or feature, and whether it is built for each platform; with `topic` also a statement.

    `torch` are the versions of PyTorch that it is said of (a specifier; empty: those of the table), `source`
    where it was read if not where the others were.
    """

    name: str
    linux: Built
    windows: Built
    topic: str = ""
    issue: str = ""
    torch: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        need_specifiers((self.torch,))

    def on(self, platform: str) -> Built:
        """The word for one platform."""
        return self.windows if platform == "windows" else self.linux


class TorchRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A version of PyTorch, maybe an alpha (`2.9 alpha`): whether it is built, and from which sources.

    `versions` are those of other projects that go with it; `source` and `versions_source` are where it was
    read, if not where the others were.
    """

    name: str
    linux: Built
    windows: Built
    origin: str = ""
    ref: str = ""
    triton: str = ""
    others: str = ""
    versions: dict[str, str] = {}
    source: str = ""
    versions_source: str = ""

    def __post_init__(self) -> None:
        need_versions((self.name.partition(" ")[0],))

    def on(self, platform: str) -> Built:
        """The word for one platform."""
        return self.windows if platform == "windows" else self.linux


class CompatTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `compat`; `addresses` and `labels` say where references to other documentations lead."""

    page: Page
    addresses: dict[str, str]
    labels: dict[str, str]
    overview: tuple[Passage, ...]
    use_case: tuple[UseCase, ...]
    docker: Docker
    data_types: DataTypeNotes
    data_type: tuple[DataType, ...]
    other_type: tuple[OtherType, ...]
    hardware: tuple[Hardware, ...]
    modules: Modules
    domains: DomainNotes
    domain: tuple[Domain, ...]
    issue: tuple[Issue, ...]
    status: tuple[StatusRow, ...]
    torch: tuple[TorchRow, ...]
    python: tuple[PythonRow, ...]
