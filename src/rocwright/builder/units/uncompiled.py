"""Which device sources no compiler saw.

A kernel that a build leaves out is missed by nobody: libraries register their kernels as they are loaded, so
everything links and imports, and the first who calls the function on a GPU is told that there is none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable

import msgspec

SUFFIX = ".hip"
_OBJECTS = (".o", ".obj")


class Uncompiled(msgspec.Struct, frozen=True):
    """Device sources of one directory of a checkout that were left out, by name, of the `of` there are."""

    directory: str
    sources: tuple[str, ...]
    of: int


def uncompiled(sources: Collection[str], objects: Iterable[str]) -> tuple[Uncompiled, ...]:
    """Which of `sources` (paths in the checkout) none of `objects` was made of, by directory.

    Build systems name an object after its source and put it below a directory that ends like the source's:
    CMake `…/native/hip/Copy.hip.o`, its FindHIP `…/native/hip/torch_hip_generated_Copy.hip.o`, setuptools
    `…/csrc/Copy.o`. A name that only one source has is enough, since paths are shortened at times.
    """
    made: dict[str, list[str]] = defaultdict(list)
    for path in objects:
        directory, _, name = path.replace("\\", "/").rpartition("/")
        if name.endswith(_OBJECTS):
            made[_stem(name)].append(directory)
    names = Counter(_name(source) for source in sources)
    left: dict[str, list[str]] = defaultdict(list)
    for source in sorted(sources):
        directory, name = source.rpartition("/")[0], _name(source)
        if not _among(directory, _places(name, made), alone=names[name] == 1):
            left[directory].append(name)
    total = Counter(source.rpartition("/")[0] for source in sources)
    return tuple(Uncompiled(place, tuple(found), total[place]) for place, found in left.items())


def _name(source: str) -> str:
    return source.rpartition("/")[2]


def _stem(name: str) -> str:
    """`Copy` of `Copy.hip.o`, `Copy.o` and `torch_hip_generated_Copy.hip.o`."""
    name = name.rpartition(".")[0].removesuffix(SUFFIX)
    return name.partition("_generated_")[2] or name


def _places(name: str, made: dict[str, list[str]]) -> list[str]:
    return made.get(name.removesuffix(SUFFIX), [])


def _among(directory: str, places: list[str], *, alone: bool) -> bool:
    return any(alone or f"/{place}".endswith(f"/{directory}") for place in places)
