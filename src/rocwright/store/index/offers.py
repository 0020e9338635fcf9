"""What a channel offers (sets, GPUs, Pythons, platforms that go together), and the lines that install it.

A function of the listed sets and the tables alone. An offer is made only where every project that it brings,
and all that these depend on within the set, has a file for this Python and platform.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import UNSET
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename

from rocwright.device_code.tree.names import packages_of
from rocwright.errors import InvalidInput
from rocwright.model.channels import LandingTable, Product
from rocwright.model.gpu import is_target
from rocwright.model.sets import FileEntry, SetManifest, set_id
from rocwright.model.version import parse_version
from rocwright.store.index.listed import ListedSet
from rocwright.store.index.lock import versions
from rocwright.store.layout import channel_prefix
from rocwright.store.sets.find import ranked, versions_of
from rocwright.wheel.tags import STABLE, allows, parse_wheel_name

# Stands in a requirement for the target that somebody chose.
TARGET = "TARGET"
_DEVICE = "-device-"
# A set says which system it is for; its wheels may not.
_SYSTEMS = {"linux": "linux-x86_64", "windows": "windows-x86_64"}


class Offer(msgspec.Struct, frozen=True):
    """What one set offers to some GPUs on one platform, for Pythons that need the same requirements.

    `set` is the id, `product` and `version` what people choose by. Where `per_target`, the requirements hold
    `TARGET` where the chosen target goes. `prereleases` says that installers must be told to take them,
    `outside` names what the set needs and the index does not have. `pinned` says that the set has pages with
    its pins and a lock for each target. `current` is false where a set of a higher version offers the same.
    With `variants`, an installer that speaks these chooses the target by itself.
    """

    family: str
    set: str
    uploaded: str | None
    product: str
    version: str
    targets: tuple[str, ...]
    per_target: bool
    platform: str
    pythons: tuple[str, ...]
    requirements: tuple[str, ...]
    prereleases: bool
    outside: tuple[str, ...]
    pinned: bool
    current: bool
    variants: bool = False


def offers_of(family: str, sets: Sequence[ListedSet], table: LandingTable) -> tuple[Offer, ...]:
    """What the sets of a family (oldest first, as a channel lists them) offer; first what installers take.

    Yanked sets are not offered, nor sets without a product of the table. Raises `InvalidVersion` for a file
    whose version is none.
    """
    here = {entry.project for one in sets if one.yanked is None for entry in one.manifest.files}
    found: list[Offer] = []
    taken: set[tuple[str, ...]] = set()
    listed = {set_id(one.manifest): one for one in sets if one.yanked is None}
    order = ranked({one: versions_of(item.manifest) for one, item in listed.items()}, listed)
    for one in (listed[digest] for digest in reversed(order)):
        for offer in _of_set(family, one, table, here):
            keys = {
                (offer.product, target, offer.platform, python)
                for target in offer.targets or ("",)
                for python in offer.pythons
            }
            found.append(msgspec.structs.replace(offer, current=not keys <= taken))
            taken |= keys
    return tuple(found)


def _of_set(family: str, one: ListedSet, table: LandingTable, here: set[str]) -> Iterator[Offer]:
    by_project: dict[str, list[FileEntry]] = {}
    for entry in one.manifest.files:
        by_project.setdefault(entry.project, []).append(entry)
    product = next((item for item in table.product if item.name in by_project), None)
    if product is None:
        return
    files = by_project[product.name]
    pythons = set().union(*(pythons_of(entry, table.pythons) for entry in files))
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for platform in _platforms(one.manifest, files):
        for python in sorted(pythons, key=_python_order):
            wanted = _requirements(product, by_project, python, platform)
            if wanted:
                groups.setdefault((platform, wanted), []).append(python)
    devices = _devices(by_project, product.name)
    targets = packages_of(target for target in one.manifest.targets if is_target(target))
    for (platform, wanted), chosen in groups.items():
        reached = _reached(by_project, [name.partition("[")[0].partition("=")[0] for name in wanted])
        entries = [entry for project in reached for entry in by_project[project]]
        yield Offer(
            family=family,
            set=set_id(one.manifest),
            uploaded=one.uploaded,
            product=product.name,
            version=str(_newest(files).version),
            targets=tuple(item for item in targets if item in devices) if devices else targets,
            per_target=bool(devices),
            platform=platform,
            pythons=tuple(chosen),
            requirements=wanted,
            prereleases=any(parse_version(entry.version).is_prerelease for entry in entries),
            pinned=all(len(found) == 1 for found in versions(one.manifest).values()),
            outside=tuple(sorted({name for entry in entries for name in entry.depends} - here)),
            current=True,
            variants=any(entry.variant is not UNSET for entry in entries),
        )


def _python_order(python: str) -> tuple[int, bool]:
    return int(python.rstrip("t").partition(".")[2]), python.endswith("t")


def _platforms(manifest: SetManifest, files: Iterable[FileEntry]) -> list[str]:
    tags = {tag.platform for entry in files for tag in tags_of(entry)} - {"any"}
    return sorted({platform_of(tag) for tag in tags}) or [_SYSTEMS.get(manifest.platform, manifest.platform)]


def _requirements(
    product: Product, by_project: dict[str, list[FileEntry]], python: str, platform: str
) -> tuple[str, ...]:
    """Exact requirements of the product and of what comes with it; none when it cannot be installed."""
    found = []
    for name in (product.name, *product.together):
        entries = [entry for entry in by_project.get(name, ()) if fits(entry, python, platform)]
        reached = _reached(by_project, [name])
        whole = all(any(fits(entry, python, platform) for entry in by_project[one]) for one in reached)
        if entries and whole:
            extras = list(product.extras) if name == product.name else []
            extras += [f"device-{TARGET}"] if _devices(by_project, name) else []
            words = f"[{','.join(extras)}]" if extras else ""
            found.append(f"{name}{words}=={_newest(entries).version}")
        elif name == product.name:
            return ()
    return tuple(found)


def _reached(by_project: dict[str, list[FileEntry]], start: Iterable[str]) -> set[str]:
    """Projects of the set that these need, and they themselves."""
    reached: set[str] = set()
    waiting = [name for name in start if name in by_project]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            needed = {need for entry in by_project[name] for need in entry.depends}
            waiting.extend(need for need in needed if need in by_project)
    return reached


def _devices(by_project: dict[str, list[FileEntry]], name: str) -> set[str]:
    """Targets whose device package the project brings under an extra of its own."""
    needed = {need for entry in by_project.get(name, ()) for need in entry.depends if need in by_project}
    ends = {need.partition(_DEVICE)[2] for need in needed}
    return {end for end in ends if is_target(end)}


def _newest(entries: Iterable[FileEntry]) -> FileEntry:
    return max(entries, key=lambda entry: parse_version(entry.version))


# -- the exact lines that install an offer, for pip and for uv


# What goes into a command line unquoted, in any shell.
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[A-Za-z0-9._~:/@%+-]*/")


def require_address(base: str) -> str:
    """The address of a store, ending with `/`; raises `InvalidInput` if no shell takes it as it is."""
    if _ADDRESS.fullmatch(base) is None:
        raise InvalidInput(
            f"{base!r} cannot stand in a command line as the address of the store",
            next_step="give one like https://packages.example.org/rocm/, ending with / and without spaces",
        )
    return base


def index_of(offer: Offer, prefix: str, base: str) -> str:
    """The address of the index that has the offer; `prefix` is that of its channel."""
    return f"{base}{channel_prefix(prefix, offer.family)}"


def pip_line(offer: Offer, index: str, target: str = TARGET) -> str:
    """What installs the offer with pip, into the environment that is active."""
    options = ["--pre"] if offer.prereleases else []
    return " ".join(["pip install", f"--index-url {index}", *options, *_quoted(offer, target)])


def uv_line(offer: Offer, index: str, target: str = TARGET) -> str:
    """What installs the offer with uv, into the environment that is active."""
    options = ["--prerelease allow"] if offer.prereleases else []
    return " ".join(["uv pip install", f"--default-index {index}", *options, *_quoted(offer, target)])


def words_of(offer: Offer, target: str = TARGET) -> list[str]:
    """The requirements of an offer for a target."""
    return [word.replace(f"device-{TARGET}", f"device-{target}") for word in offer.requirements]


def _quoted(offer: Offer, target: str) -> list[str]:
    # Brackets mean something to shells; double quotes to all of them the same.
    return [f'"{word}"' if "[" in word else word for word in words_of(offer, target)]


# -- which Pythons and platforms a file serves, as an installer decides it from the file's tags


_LINUX = re.compile(r"(?:manylinux(?:1|2010|2014|_[0-9]+_[0-9]+)|linux)_(?P<machine>.+)")
_MUSL = re.compile(r"musllinux_[0-9]+_[0-9]+_(?P<machine>.+)")
_PYTHON = re.compile(r"(?P<kind>cp|py)3(?P<minor>[0-9]*)")


def tags_of(entry: FileEntry) -> frozenset[Tag]:
    """The tags of a wheel; none for an sdist, and for a name that no installer reads."""
    try:
        return parse_wheel_name(entry.name)[3]
    except InvalidWheelFilename:
        return frozenset()


def platform_of(tag: str) -> str:
    """A platform without the version that its tag asks for: `manylinux_2_28_x86_64` → `linux-x86_64`."""
    for pattern, name in ((_LINUX, "linux"), (_MUSL, "musllinux")):
        match = pattern.fullmatch(tag)
        if match:
            return f"{name}-{match['machine']}"
    return {"win_amd64": "windows-x86_64", "win_arm64": "windows-arm64"}.get(tag, tag)


def pythons_of(entry: FileEntry, any_python: Iterable[str]) -> set[str]:
    """Pythons that the file names (`3.12`, `3.13t`), and those of `any_python` that it fits besides."""
    named = set(any_python)
    for tag in tags_of(entry):
        match = _PYTHON.fullmatch(tag.interpreter)
        if match and match["kind"] == "cp" and match["minor"]:
            named.add(f"3.{match['minor']}" + ("t" if tag.abi.endswith("t") else ""))
    return {python for python in named if fits(entry, python, None)}


def fits(entry: FileEntry, python: str, platform: str | None) -> bool:
    """Whether the file can be installed there; `platform` None asks for the Python alone."""
    if not allows(entry.requires_python, python):
        return False
    if not entry.name.endswith(".whl"):
        return True
    return any(_python_fits(tag, python) and _platform_fits(tag, platform) for tag in tags_of(entry))


def _platform_fits(tag: Tag, platform: str | None) -> bool:
    return platform is None or tag.platform == "any" or platform_of(tag.platform) == platform


def _python_fits(tag: Tag, python: str) -> bool:
    match = _PYTHON.fullmatch(tag.interpreter)
    if match is None:
        return False
    unlocked = python.endswith("t")
    minor = int(python.rstrip("t").partition(".")[2])
    named = int(match["minor"]) if match["minor"] else None
    if match["kind"] == "py":
        return tag.abi == "none" and (named is None or minor >= named)
    if tag.abi in STABLE:
        return tag.abi == STABLE[unlocked] and named is not None and minor >= named
    return named == minor and tag.abi in ("none", f"cp3{minor}" + ("t" if unlocked else ""))
