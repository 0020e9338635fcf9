"""Read a directory of ROCm artifacts: `<name>_<component>_<target>/`, each with its `artifact_manifest.txt`.

The stage directories that a manifest lists are laid over each other; the same path may come twice only with
the same bytes. The mode is what `therock_manifest.json` of the artifact `base` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from rocwright.binary.elf import is_loadable
from rocwright.device_code.kpack import SUFFIX
from rocwright.device_code.tree.names import (
    GENERIC,
    MANIFEST,
    Artifact,
    is_artifact,
    read_artifact,
    served,
    tables,
)
from rocwright.errors import InvalidData, InvalidInput, InvalidPrefix
from rocwright.model.gpu import InvalidTarget, parse_target
from rocwright.sdk.intake.tree import (
    GatheredTree,
    Layer,
    RocmTree,
    device_code,
    is_linker_script,
    is_windows,
    readable,
    rocm_version,
)
from rocwright.sdk.table import DEVEL, PackageTable
from rocwright.system.files import walk_files

FLAGS = "share/therock/therock_manifest.json"
_SPLIT_FLAG = "KPACK_SPLIT_ARTIFACTS"


class _Flags(msgspec.Struct, frozen=True):
    flags: dict[str, object] = {}


class _Named(msgspec.Struct, frozen=True):
    """An artifact with its name taken apart; `word` is the target's: generic, a family, a target."""

    artifact: Artifact
    name: str
    component: str
    word: str


def read_artifacts(
    root: Path, table: PackageTable, *, version: str | None = None, without: Iterable[str] = ()
) -> RocmTree:
    """Read the artifacts below `root`; headers and names only.

    `version` overrides `<what base says>.dev0`. `without` are packages that shall not be made. Raises
    `InvalidPrefix` naming missing artifacts, a path that comes twice, a file that no manifest lists;
    `InvalidInput` and `InvalidData` for a malformed manifest.
    """
    if not root.is_dir():
        raise InvalidPrefix(
            f"{root} is not a directory", where=root, next_step="give the directory that holds the artifacts"
        )
    root = root.resolve()
    with readable(root):
        artifacts, left_out = _find(root, table)
        _require(root, artifacts, table, frozenset(without))
        split = _is_split(artifacts)
        gathered, owners = _gather_host(artifacts, table, split=split, left_out=left_out)
        found = _gather_parts(artifacts, table, split=split, left_out=left_out)
        for part in found.values():
            _move_linker_scripts(part, gathered, owners)
        _require_apart(gathered, found)
        parts = {word: part.layer(beside=gathered.files) for word, part in found.items()}
        # What each family brings is there in every installation; what single targets bring is not.
        shared: dict[str, object] = {}
        for part in found.values() if not split else ():
            shared.update(part.files)
        host = gathered.layer(beside=shared)
        if split:
            _require_split(host)
        else:
            _require_whole((host, *parts.values()))
        return RocmTree(
            root=root,
            version=version or _version(root, host),
            host=host,
            parts=parts,
            split=split,
            owners=owners,
            code=device_code(host),
            left_out=tuple(left_out),
        )


def _find(root: Path, table: PackageTable) -> tuple[list[_Named], list[tuple[str, str]]]:
    found: list[_Named] = []
    left_out: list[tuple[str, str]] = []
    # Hidden entries are notes of tools, such as those of the one that fetched the artifacts.
    for entry in sorted(path for path in root.iterdir() if not path.name.startswith(".")):
        if not (entry.is_dir() and is_artifact(entry)):
            left_out.append((entry.name, "no artifact: it has no " + MANIFEST))
            continue
        artifact = read_artifact(entry)
        name, _, component = artifact.stem.rpartition("_")
        if not table.knows_artifact(name, component):
            left_out.append((entry.name, "no package claims an artifact of this name"))
            continue
        _require_listed(artifact)
        found.append(_Named(artifact, name, component, artifact.target))
    if not found:
        raise InvalidPrefix(
            f"{root} holds no artifacts",
            where=root,
            next_step=f"give the directory of <name>_<component>_<target> directories with {MANIFEST}",
        )
    return found, left_out


def _require_listed(artifact: Artifact) -> None:
    """Every file lies in a stage directory of the manifest; another one means that lines are missing."""
    stages = tuple(f"{prefix}/" for prefix in artifact.prefixes)
    for entry in walk_files(artifact.root):
        path = entry.relative_to(artifact.root).as_posix()
        if path != MANIFEST and not path.startswith(stages):
            raise InvalidInput(
                f"{MANIFEST} of {artifact.root.name} lists no directory that holds {path}",
                where=artifact.root / MANIFEST,
                next_step="the manifest is cut off or of another artifact; fetch the artifact again",
            )


def _require(root: Path, artifacts: Sequence[_Named], table: PackageTable, without: frozenset[str]) -> None:
    windows = _are_windows(artifacts)
    missing: list[str] = []
    for package in ("core", "libraries", "profiler"):
        if package in without or (package == "profiler" and windows):
            continue
        names, components = table.needed_artifacts(package)
        there = {item.name for item in artifacts if item.component in components}
        if package == "core":
            missing += [f"{name} (of {package})" for name in names if name not in there]
        elif not there.intersection(names):
            missing.append(f"any of {' '.join(names)} (of {package})")
    if missing:
        raise InvalidPrefix(
            f"artifacts are missing: {'; '.join(missing)}",
            where=root,
            next_step="fetch them, or leave a package out with --without NAME",
        )


def _are_windows(artifacts: Sequence[_Named]) -> bool:
    bins = [item.artifact.root / stage / "bin" for item in artifacts for stage in item.artifact.prefixes]
    return is_windows({f"bin/{dll.name}": dll for place in bins for dll in place.glob("*.dll")})


def _is_split(artifacts: Sequence[_Named]) -> bool:
    for item in artifacts:
        for stage in item.artifact.prefixes:
            path = item.artifact.root / stage / FLAGS
            if item.name == "base" and path.is_file():
                try:
                    flags = msgspec.json.decode(path.read_bytes(), type=_Flags).flags
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise InvalidData(f"{FLAGS} is damaged: {error}", where=path) from error
                value = flags.get(_SPLIT_FLAG, False)
                if not isinstance(value, bool):
                    raise InvalidData(f"{_SPLIT_FLAG} is {value!r}, not true or false", where=path)
                return value
    return False


def _gather_host(
    artifacts: Sequence[_Named], table: PackageTable, *, split: bool, left_out: list[tuple[str, str]]
) -> tuple[GatheredTree, dict[str, str]]:
    """What all GPUs share. Device-specific files that only devel has belong to it where nothing is split."""
    gathered = GatheredTree.empty()
    owners: dict[str, str] = {}
    for item in artifacts:
        if split and item.component in table.artifacts.not_when_split:
            left_out.append((item.artifact.root.name, f"component {item.component} needs device code to run"))
            continue
        if item.word != GENERIC and (split or _is_part(item, table)):
            continue
        unclaimed = _add(gathered, item, table, owners)
        if unclaimed:
            left_out.append((item.artifact.root.name, f"{unclaimed} files match no package's patterns"))
    return gathered, owners


def _add(gathered: GatheredTree, item: _Named, table: PackageTable, owners: dict[str, str]) -> int:
    """Add an artifact's claimed files; returns how many no package has."""
    unclaimed = 0
    for stage in item.artifact.prefixes:
        base = item.artifact.root / stage
        for entry in walk_files(base) if base.is_dir() else ():
            path = entry.relative_to(base).as_posix()
            package = table.package_in_artifact(item.name, item.component, path)
            if package is None:
                unclaimed += 1
                continue
            gathered.put(entry, path, item.artifact.root.name)
            # Of the packages that have the same file, a runtime one owns it.
            if owners.get(path, DEVEL) == DEVEL:
                owners[path] = package
    return unclaimed


def _is_part(item: _Named, table: PackageTable) -> bool:
    """Whether an artifact for some GPUs goes, in legacy mode, into a libraries package."""
    rows = [row for row in table.artifact if row.package == "libraries" and item.name in row.names]
    return item.word != GENERIC and any(item.component in row.components for row in rows)


def _gather_parts(
    artifacts: Sequence[_Named], table: PackageTable, *, split: bool, left_out: list[tuple[str, str]]
) -> dict[str, GatheredTree]:
    """What single families or targets have, by the word of their package."""
    gathered: dict[str, GatheredTree] = {}
    for item in artifacts:
        word, name = item.word, item.artifact.root.name
        if word == GENERIC or not (split or _is_part(item, table)):
            continue
        if split:
            if item.component in table.artifacts.not_when_split:
                continue  # reported with the host's
            if not (_is_part(item, table) and item.name in table.device_artifacts):
                left_out.append((name, "device files of an artifact that no device package has"))
                continue
            word = _device_word(item)
        part = gathered.setdefault(word, GatheredTree.empty())
        for stage in item.artifact.prefixes:
            part.add(item.artifact.root / stage, name)
    return dict(sorted(gathered.items()))


def _move_linker_scripts(part: GatheredTree, host: GatheredTree, owners: dict[str, str]) -> None:
    """Only the linker reads them, so they go to devel, whatever the GPU."""
    for path, file in list(part.files.items()):
        if not is_loadable(file.place) and is_linker_script(path, file.place):
            host.put(file.place, path, file.artifact)
            owners[path] = DEVEL
            del part.files[path]


def _require_apart(host: GatheredTree, parts: dict[str, GatheredTree]) -> None:
    """No path is a file for all GPUs and a directory of some, or the other way round."""
    below = host.directories
    for word, part in parts.items():
        files = next((path for path in (*part.files, *part.links) if path in below), None)
        directory = next((path for path in part.directories if path in host.files), None)
        path = files or directory
        if path is not None:
            raise InvalidPrefix(
                f"{path} is a directory and also a file, in what all GPUs share and in {word}",
                next_step="an installed ROCm can hold only one; this is a bug in the build of ROCm",
            )


def _device_word(item: _Named) -> str:
    """The word of a device package: all variants of a target are in the one of its base."""
    word = item.word
    with suppress(InvalidTarget):
        word = parse_target(word).base
    known = tables().targets
    if not served(word) or not known.issuperset(served(word)):
        raise InvalidTarget(
            f"{item.artifact.root.name}: {item.word} is not a known GPU target, but the artifacts are split",
            where=item.artifact.root,
            next_step="split artifacts are for single targets, such as gfx942 or gfx942:xnack+",
        )
    return word


def _require_split(host: Layer) -> None:
    """The flag says that device code was split; a library that still has its own would be shipped to all."""
    fat = sorted(path for path in host.elves if host.code(path) and not host.is_split(path))
    if fat and not any(host.is_split(path) for path in host.elves):
        raise InvalidPrefix(
            f"the artifacts say that device code is split, but {fat[0]} holds its own",
            where=host.files[fat[0]].place,
            next_step="split them with `rocwright kpack split`, or correct " + FLAGS,
        )


def _require_whole(layers: Iterable[Layer]) -> None:
    for layer in layers:
        archives = [path for path in layer.files if path.endswith(SUFFIX)]
        split = [path for path in layer.elves if layer.is_split(path)]
        for path in (*archives, *split):
            raise InvalidPrefix(
                f"{path} is split device code, but the artifacts say that nothing is split",
                where=layer.files[path].place,
                next_step=f'set "{_SPLIT_FLAG}": true in {FLAGS} of the artifact base',
            )


def _version(root: Path, host: Layer) -> str:
    found = rocm_version(host.files)
    if found is None:
        raise InvalidPrefix(
            "the artifacts do not say ROCm's version (.info/version, include/hip/hip_version.h)",
            where=root,
            next_step="give it with --version",
        )
    return f"{found}.dev0"


def has_artifacts(root: Path) -> bool:
    """Whether a directory holds artifact directories."""
    return root.is_dir() and any(entry.is_dir() and is_artifact(entry) for entry in root.iterdir())
