"""The distributions of a ROCm release: how they and the packages inside them are called, and which platform
gets which, by the families or targets that the release promises and those that were built.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from rocwright.data import load_table
from rocwright.device_code.tree.names import package_of, served
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.gpu import Families, InvalidTarget, base_targets

_SUFFIX = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


class Named(msgspec.Struct, frozen=True):
    """A distribution, and its package with files in site-packages (`_rocm_sdk_core`)."""

    distribution: str
    module: str

    @property
    def pure(self) -> str:
        """The public package; named after the distribution, so that no two wheels own one path."""
        return self.module.removeprefix("_")

    @property
    def facts(self) -> dict[str, object]:
        """What the `rocm` package knows of it."""
        return {"distribution": self.distribution, "module": self.module}


def _named(distribution: str) -> Named:
    return Named(distribution, "_" + distribution.replace("-", "_"))


CORE = _named("rocm-sdk-core")
DEVEL = _named("rocm-sdk-devel")
PROFILER = _named("rocm-profiler")
LIBRARIES = _named("rocm-sdk-libraries")
REFUSAL = "rocm-sdk-device"
"""The sdist behind `rocm[device]`, which fails and says which device extras there are."""


def libraries_of(family: str) -> Named:
    """The libraries with their device code, for one family."""
    return _named(f"rocm-sdk-libraries-{normal(family)}")


def device(word: str) -> Named:
    """Device code and databases for a target or group; they lie in the libraries package."""
    return Named(f"rocm-sdk-device-{normal(word)}", LIBRARIES.module)


def normal(text: str) -> str:
    """A family or target as a part of names; raises `UsageError` for text that cannot be one."""
    if not _SUFFIX.fullmatch(text):
        raise UsageError(
            f"{text!r} cannot be part of a package name", next_step="use letters, digits, and - between them"
        )
    return re.sub(r"[-_.]+", "-", text).lower()


# -- Which platform gets which


class Expected(msgspec.Struct, frozen=True):
    """Family or target names that each platform gets; None: what was built, where it was built for."""

    linux: tuple[str, ...] | None = None
    windows: tuple[str, ...] | None = None

    def of(self, platform: str) -> tuple[str, ...] | None:
        """The names for `linux` or `windows`."""
        return self.linux if platform == "linux" else self.windows


def family_targets(word: str) -> tuple[str, ...]:
    """Base targets of a family or target name; raises `InvalidTarget` naming the known families."""
    families = load_table("families", Families).families
    found = families.get(word) or served(word)
    if found:
        return tuple(found)
    raise InvalidTarget(
        f"{word!r} is not a known family or target",
        next_step="known families: " + " ".join(sorted(families)),
    )


def device_platforms(words: Iterable[str], expected: Expected, *, here: str) -> dict[str, tuple[str, ...]]:
    """For each device package of the release, its platforms (`linux`, `windows`), in the hardware's order.

    `words` are the targets and groups built for the platform `here`; the release has more where only the
    other platform gets a target. Raises `InvalidInput` when an expected target was not built, or one was
    built that is not expected: it would be a package that no extra leads to.
    """
    built = tuple(words)
    found: dict[str, list[str]] = {word: [here] for word in built}
    for platform in ("linux", "windows"):
        names = expected.of(platform)
        if names is None:
            continue
        targets = base_targets(target for name in names for target in family_targets(name))
        if platform == here:
            _compare(built, targets, platform)
            continue
        for target in targets:
            found.setdefault(target, []).append(platform)
        for word in built:
            # A group travels with the targets that it serves.
            if word not in targets and set(served(word)) & set(targets):
                found[word].append(platform)
    return {word: tuple(sorted(found[word])) for word in _ordered(found)}


def _compare(built: tuple[str, ...], targets: tuple[str, ...], platform: str) -> None:
    there = {target for word in built for target in served(word)}
    missing = [target for target in targets if target not in built]
    surplus = [word for word in built if not {package_of(word), *served(word)} & set(targets)]
    option = f"--{platform}-amdgpu-families"
    if missing:
        raise InvalidInput(
            f"{option} promises {' '.join(missing)}, for which nothing was built",
            next_step=f"fetch their artifacts, or leave them out; there is {' '.join(sorted(there))}",
        )
    if surplus:
        raise InvalidInput(
            f"device files for {' '.join(surplus)} were built, which {option} does not list",
            next_step="list the targets, or leave their artifacts out: no extra would lead to the package",
        )


def _ordered(words: Mapping[str, object]) -> list[str]:
    hardware = base_targets(target for word in words for target in served(word)[:1])
    return sorted(words, key=lambda word: (hardware.index(served(word)[0]), word))


def family_platforms(words: Iterable[str], expected: Expected, *, here: str) -> dict[str, tuple[str, ...]]:
    """As `device_platforms`, for the families of libraries with their device code inside."""
    built = tuple(words)
    found: dict[str, list[str]] = {word: [here] for word in built}
    for platform in ("linux", "windows"):
        names = expected.of(platform)
        if names is None:
            continue
        for name in names:
            family_targets(name)
        if platform != here:
            for name in names:
                found.setdefault(name, []).append(platform)
            continue
        missing = [name for name in names if name not in built]
        surplus = [word for word in built if word not in names]
        option = f"--{platform}-amdgpu-families"
        if missing or surplus:
            raise InvalidInput(
                f"{option} lists {' '.join(names)}, built were {' '.join(built)}",
                next_step="make both the same: a listed family needs its package, a package its extra",
            )
    return {word: tuple(sorted(platforms)) for word, platforms in sorted(found.items())}
