"""Decide all packages of a ROCm together, and what the `rocm` package says of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rocwright.binary.view import mapped
from rocwright.data import load_table
from rocwright.device_code.kpack import SUFFIX, read_archive
from rocwright.device_code.tree.names import package_of
from rocwright.errors import InvalidPrefix, UsageError
from rocwright.model.gpu import Families, base_targets, matching_family
from rocwright.model.version import parse_version
from rocwright.sdk.intake.tree import RocmTree
from rocwright.sdk.plan.devel import DevelPayload, plan_devel
from rocwright.sdk.plan.packages import (
    CORE,
    DEVEL,
    LIBRARIES,
    PROFILER,
    REFUSAL,
    Expected,
    device,
    device_platforms,
    family_platforms,
    family_targets,
    libraries_of,
)
from rocwright.sdk.plan.runtime import RuntimePlan, plan_runtime
from rocwright.sdk.plan.wheels import Legal, Maker, console_commands
from rocwright.sdk.table import package_table
from rocwright.wheel.source import Source
from rocwright.wheel.write import WheelPlan

MULTI_ARCH = "multi-arch"
"""What stands for the family where a release serves every target with packages of its own."""


class Packaging(msgspec.Struct, frozen=True):
    """How a ROCm is to be packaged.

    `family` names the libraries package of a single tree with its device code inside; without it, a known
    family with exactly the targets found is taken, else `other_family`. `linux` and `windows` are the
    families or targets that a release promises (see `Expected`). `selector` is `sdist` or `wheel`,
    `compression` a name of `wheel.deflate`; `devel_xz` compresses the devel tree once more, smaller and
    slower to expand. `without` are packages that shall not be made.
    """

    family: str | None = None
    other_family: str | None = None
    version_suffix: str = ""
    linux: tuple[str, ...] | None = None
    windows: tuple[str, ...] | None = None
    split_compiler: bool = False
    devel_xz: bool = False
    selector: str = "sdist"
    compression: str = "balanced"
    without: tuple[str, ...] = ()


class SdkPlan(msgspec.Struct, frozen=True):
    """Everything that will be written, decided.

    `wheels` lacks only devel's, whose archive may be compressed on the way (`devel_wheel`). `facts` are what
    the `rocm` package says of the set.
    """

    version: str
    mode: str
    family: str
    targets: tuple[str, ...]
    wheels: tuple[WheelPlan, ...]
    devel: DevelPayload
    maker: Maker
    compiler: Mapping[str, str]
    facts: Mapping[str, object]
    rpath_edits: int
    left_out: tuple[tuple[str, str], ...]

    def devel_wheel(self, member: str, archive: Source) -> WheelPlan:
        """The devel wheel around its archive."""
        return self.maker.devel(self.devel, (member, archive), self.compiler)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, and what is not known."""
        return (*(f"{path}: {reason}" for path, reason in self.left_out), *dict.fromkeys(self.maker.remarks))


def plan_packages(tree: RocmTree, packaging: Packaging | None = None) -> SdkPlan:
    """Decide the packages of a ROCm.

    Raises `UsageError` when no family fits, `InvalidPrefix` when no library holds device code or nothing
    belongs to a needed package, `InvalidInput` when the release promises other targets than there are.
    """
    packaging = packaging or Packaging()
    table = package_table()
    modules = {
        "core": CORE.module,
        "libraries": LIBRARIES.module,
        "profiler": PROFILER.module,
        "devel": DEVEL.module,
    }
    if not tree.split:
        families = tuple(tree.parts) or (choose_family(tree, packaging.family, packaging.other_family),)
        if len(families) == 1:
            modules["libraries"] = libraries_of(families[0]).module
    runtime = plan_runtime(tree, table, modules, split_compiler=packaging.split_compiler)
    devel = plan_devel(tree, runtime, modules)
    version = str(parse_version(tree.version + packaging.version_suffix))
    maker = Maker(version, "win_amd64" if tree.windows else "linux_x86_64", table, Legal.of_tree(tree))
    kind = _kpack if tree.split else _legacy
    chosen = kind(tree, runtime, maker, packaging)
    wheels = [maker.core(runtime), *chosen.wheels]
    packages = {"core": CORE.facts, "devel": DEVEL.facts, **chosen.packages}
    if "profiler" not in packaging.without:
        if runtime.of("profiler"):
            wheels.append(maker.profiler(runtime))
        # `rocm` is the same on both platforms, although only Linux has the package.
        if runtime.of("profiler") or (tree.windows and packaging.linux is not None):
            packages["profiler"] = {**PROFILER.facts, "platforms": ["linux"]}
    left_out = (*tree.left_out, *devel.left_out)
    if runtime.of("profiler") and "profiler" in packaging.without:
        left_out += (("rocm-profiler", "left out as asked"),)
    mode = "kpack" if tree.split else "legacy"
    facts = {
        "version": version,
        "mode": mode,
        "packages": packages,
        "known_libraries": table.known_libraries,
        **chosen.facts,
    }
    expanded = (f"{DEVEL.module}/{path}" for path in devel.paths)
    require_installable(wheels, expanded, windows=tree.windows)
    moved = devel.programs if packaging.split_compiler else ()
    compiler = console_commands(moved, table, "rocm_sdk_devel")
    return SdkPlan(
        version=version,
        mode=mode,
        family=chosen.family,
        targets=chosen.targets,
        wheels=tuple(wheels),
        devel=devel,
        maker=maker,
        compiler=compiler,
        facts=facts,
        rpath_edits=runtime.rpath_edits,
        left_out=left_out,
    )


class _Chosen(msgspec.Struct, frozen=True):
    """What differs between the modes."""

    family: str
    targets: tuple[str, ...]
    wheels: list[WheelPlan]
    packages: dict[str, object]
    facts: dict[str, object] = msgspec.field(default_factory=dict)


def _here(tree: RocmTree) -> str:
    return "windows" if tree.windows else "linux"


def _kpack(tree: RocmTree, runtime: RuntimePlan, maker: Maker, packaging: Packaging) -> _Chosen:
    """Libraries for all GPUs, and one device package for each target or group."""
    if not runtime.parts:
        raise InvalidPrefix(
            "no target has device files", where=tree.root, next_step="fetch the artifacts of the targets, too"
        )
    expected = Expected(packaging.linux, packaging.windows)
    platforms = device_platforms(runtime.parts, expected, here=_here(tree))
    wheels = [maker.libraries(LIBRARIES, runtime.of("libraries"), ())]
    # Code for some targets comes in the package of another one.
    inside = {
        word: [one for one in platforms if package_of(one) == word] for word in map(package_of, platforms)
    }
    devices: dict[str, object] = {}
    for word, ones in inside.items():
        serves = [target for one in ones for target in family_targets(one)]
        built = [one for one in ones if one in runtime.parts]
        if built:
            files = [file for one in built for file in runtime.parts[one]]
            code = {target for one in built for target in _archived_code(tree, one)}
            targets = [target for one in built for target in family_targets(one)]
            wheels.append(maker.device(word, targets, files, code, inside))
        where = sorted({platform for one in ones for platform in platforms[one]})
        devices[word] = {"distribution": device(word).distribution, "serves": serves, "platforms": where}
    packages: dict[str, object] = {"libraries": LIBRARIES.facts, "device_refusal": {"distribution": REFUSAL}}
    return _Chosen(MULTI_ARCH, tuple(platforms), wheels, packages, {"devices": devices})


def _archived_code(tree: RocmTree, word: str) -> set[str]:
    """Full targets of the archives in a part."""
    found: set[str] = set()
    for path, file in tree.parts[word].files.items():
        if path.endswith(SUFFIX):
            with mapped(file.place) as archive:
                found.update(read_archive(archive).targets)
    return found


def _legacy(tree: RocmTree, runtime: RuntimePlan, maker: Maker, packaging: Packaging) -> _Chosen:
    """Libraries with their device code inside, one package for each family."""
    families = {word: _part_targets(tree, word) for word in runtime.parts}
    if not families:
        chosen = choose_family(tree, packaging.family, packaging.other_family)
        families = {chosen: tree.targets or family_targets(chosen)}
    elif packaging.family is not None:
        raise UsageError(
            "the artifacts name their families themselves", next_step="leave --family out, or the artifacts"
        )
    expected = Expected(packaging.linux, packaging.windows)
    platforms = family_platforms(families, expected, here=_here(tree))
    shared = runtime.of("libraries")
    wheels = [
        maker.libraries(libraries_of(word), (*shared, *runtime.parts.get(word, ())), targets)
        for word, targets in families.items()
    ]
    libraries = {
        word: {**libraries_of(word).facts, "platforms": list(where)} for word, where in platforms.items()
    }
    served = {word: list(families.get(word) or family_targets(word)) for word in platforms}
    default = next(iter(platforms))
    return _Chosen(
        next(iter(families)),
        base_targets(target for targets in families.values() for target in targets),
        wheels,
        {"libraries": libraries},
        {"families": served, "default_family": default},
    )


def _part_targets(tree: RocmTree, word: str) -> tuple[str, ...]:
    """What the code of a family's libraries is for; without any, what the family's name says."""
    layer = tree.parts[word]
    return base_targets({target for path in layer.elves for target in layer.code(path)}) or family_targets(
        word
    )


def choose_family(tree: RocmTree, family: str | None, other: str | None = None) -> str:
    """The family that the libraries package of a single tree is named after; see `plan_packages`."""
    for name in (one for one in (family, other) if one is not None):
        libraries_of(name)  # must do as part of a package's name
    if not tree.targets and not (tree.windows and (family or other)):
        raise InvalidPrefix(
            "no library of the prefix holds device code",
            where=tree.root,
            next_step="is this a ROCm with rocBLAS, rocSPARSE or another math library?",
        )
    known = family or matching_family(tree.targets, load_table("families", Families).families) or other
    if known is None:
        raise UsageError(
            f"the targets of this ROCm ({' '.join(tree.targets)}) are not a known family",
            next_step="name one with --family NAME; it becomes part of rocm-sdk-libraries-NAME",
        )
    return known


# -- whether all packages of a ROCm can be installed together, as Linux and as Windows sees it


# An environment's path comes in front, and Windows stops at 260 characters where long paths are not enabled.
_LONGEST = 160
_FORBIDDEN = re.compile(r'[<>:"|?*\x00-\x1f]')
_RESERVED = re.compile(r"(con|prn|aux|nul|com[1-9]|lpt[1-9])(\..*)?", re.IGNORECASE)


def require_installable(wheels: Sequence[WheelPlan], expanded: Iterable[str], *, windows: bool) -> None:
    """Refuse paths with two owners and, for Windows, what cannot be a path there.

    `expanded` are the paths of the devel tree in site-packages. Uninstalling one of two owners would take
    the other's file away. Raises `InvalidPrefix` naming the path.
    """
    owners: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for wheel in wheels:
        for member in wheel.members:
            owner = owners.setdefault(member.name, wheel.name)
            if owner != wheel.name:
                raise InvalidPrefix(f"{member.name} would be owned by {owner} and by {wheel.name}")
    for name in (*owners, *expanded) if windows else ():
        _require_windows_name(name)
        other = spelled.setdefault(name.casefold(), name)
        if other != name:
            raise InvalidPrefix(
                f"{other} and {name} differ only by case, and Windows can hold only one of them",
                next_step="rename one of the two",
            )


def _require_windows_name(name: str) -> None:
    if len(name) > _LONGEST:
        raise InvalidPrefix(
            f"{name} is {len(name)} characters long; packages for Windows have at most {_LONGEST}",
            next_step="shorten the path: an installation below a user's directory could not hold it",
        )
    for part in name.split("/"):
        if _FORBIDDEN.search(part) or _RESERVED.fullmatch(part) or part.endswith((".", " ")):
            raise InvalidPrefix(
                f"{name} cannot be on Windows: {part!r} is not a valid file name there",
                next_step="rename the file; archives for target features need another name on Windows",
            )
