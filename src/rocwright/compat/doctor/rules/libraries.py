"""Rules about libraries: two ROCms in one environment, and copies from elsewhere that come first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from rocwright.compat.doctor import mend
from rocwright.compat.doctor.facts import Case, Environment, LibraryPlace
from rocwright.compat.doctor.observations import Observation
from rocwright.model.patterns import fits

_SHOWN = 3


def two_rocms(case: Case) -> Iterator[Observation]:
    """More than one copy of ROCm's runtime among the distributions."""
    environment = case.environment
    assert environment is not None
    owners = {
        one.name: path
        for one in environment.family
        for path in one.libraries
        if PurePosixPath(path).name.startswith(case.table.hip)
    }
    # Development files link to the runtime's.
    owners = {name: path for name, path in owners.items() if not name.endswith("-devel")}
    if len(owners) > 1:
        named = ", ".join(f"{name} ({path})" for name, path in sorted(owners.items()))
        packages = [one.name for one in environment.family if fits(one.name, case.table.rocm)]
        detail = f"the environment has ROCm {len(owners)} times: {named}; a process may get a part of each"
        step = mend.uninstall(environment, packages or list(owners)[1:])
        yield Observation("two-rocms", "wrong", detail, step, section="environment")


def needed(case: Case) -> Iterator[Observation]:
    """Libraries that are needed and that nobody has. Without one of a tool's own all else works."""
    for need in case.needs:
        ours = fits(need.library, case.table.libraries)
        detail = f"{need.library} is nowhere; {need.distribution} needs it ({need.path})"
        yield Observation(
            "needed",
            "missing" if ours or need.distribution == "torch" else "note",
            detail,
            provide(case, need.library),
            need.library,
            "environment",
        )


def provide(case: Case, library: str) -> str:
    """What brings a library: an installed package that should have it, one known to, or the system's."""
    assert case.environment is not None
    known = next((row.distribution for row in case.table.packages if fits(library, row.libraries)), "")
    installed = case.environment.named(known) if known else None
    if installed is not None:
        return mend.reinstall(case, installed)
    if known:
        return mend.install(case, wanted_by_torch(case, known))
    debian = case.table.system.get(library)
    return f"apt-get install {debian}" if debian else f"apt-file search {library}, and install that package"


def wanted_by_torch(case: Case, distribution: str) -> str:
    """The requirement that brings a distribution, as torch spells it where it does."""
    assert case.environment is not None
    name = "rocm[libraries]" if distribution.startswith("rocm-sdk-libraries") else distribution
    torch = case.environment.named("torch")
    for text in torch.requires if torch else ():
        if _project(text) == _project(name):
            return text.partition(";")[0].strip().replace(" ", "")
    return name


def _project(requirement: str) -> str:
    return re.split(r"[\[=<>!~; ]", requirement)[0]


def own_libraries(case: Case) -> frozenset[str]:
    """Names of the libraries of ROCm and torch that the environment has."""
    assert case.environment is not None
    paths = (path for one in case.environment.family for path in one.libraries)
    names = (PurePosixPath(path).name for path in paths)
    return frozenset(name for name in names if fits(name, case.table.libraries))


def foreign_libraries(case: Case) -> Iterator[Observation]:
    """Places that the loader looks at, with copies of the environment's libraries."""
    environment = case.environment
    assert environment is not None
    own = own_libraries(case)
    if not own:
        return
    found = 0
    for place in case.machine.places:
        if _inside(place.path, environment) or _inside(place.real, environment):
            continue
        same = sorted(own & set(place.libraries))
        alike = [name for name in place.libraries if fits(name, case.table.libraries)]
        if same or (alike and place.via != "ld.so.conf"):
            found += 1
            yield _observation(place, same or alike, bool(same))
    if not found:
        detail = f"nothing leads past the environment's {len(own)} libraries of ROCm and torch"
        yield Observation("foreign-libraries", "ok", detail, section="environment")


def _observation(place: LibraryPlace, names: list[str], same: bool) -> Observation:
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    if place.via == "ld.so.conf":
        # The loader asks there last: after the paths in the libraries themselves.
        detail = f"the loader's configuration names {place.path}, which has {shown}, too"
        # The file may name other directories, too.
        line = re.sub(r"([^\w/-])", r"\\\1", place.path)
        step = f"sudo sed -i '\\|^{line}/*$|d' /etc/ld.so.conf /etc/ld.so.conf.d/*.conf && sudo ldconfig"
        return Observation("foreign-libraries", "note", detail, step, place.path, "environment")
    what = "has its own" if same else "has other libraries of ROCm:"
    effect = (
        "it may be loaded instead of the environment's"
        if same
        else "they may be mixed with the environment's"
    )
    detail = f"{place.via} leads to {place.path}, which {what} {shown}: {effect}"
    return Observation(
        "foreign-libraries",
        "wrong" if same else "note",
        detail,
        f"unset {place.via}",
        f"{place.via} {place.path}",
        "environment",
    )


def _inside(path: str, environment: Environment) -> bool:
    """Whether a path is the environment's own."""
    roots = {*environment.roots, environment.prefix, *(one.directory for one in environment.family)}
    return any(PurePosixPath(path).is_relative_to(root) for root in roots)


def is_own(path: str, case: Case) -> bool:
    """Whether a loaded library is the environment's, or one that the environment has no copy of."""
    assert case.environment is not None
    stem = PurePosixPath(path).name.partition(".so")[0]
    copies = {name.partition(".so")[0] for name in own_libraries(case)}
    # An installer may have linked files from its cache.
    linked = {real for one in case.environment.family for real in one.outside}
    return stem not in copies or path in linked or _inside(path, case.environment)
