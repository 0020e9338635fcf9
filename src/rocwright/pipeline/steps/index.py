"""Steps of a run that takes ROCm's packages from an index or a page: found, pinned by digest, fetched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin

import msgspec

from rocwright.check.loading import load_contract
from rocwright.engine.graph import Inputs, Note, Step
from rocwright.errors import ContractBroken, InvalidInput
from rocwright.model.gpu import Families
from rocwright.model.plan import Rocm
from rocwright.model.project import ProjectTable
from rocwright.pipeline.find_sets import Finder, named_targets, offered_targets, require_targets
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.reuse import describe
from rocwright.pipeline.steps.rocm import Pinned, packages_step
from rocwright.sdk.build import BuiltPackages
from rocwright.store.adopt.fetch import Fetcher
from rocwright.store.adopt.offered import Catalogue, Offered, SetChoice, is_rocm, project_of, select
from rocwright.store.adopt.pages import Reading, read_flat, read_index
from rocwright.store.pool import describe_files
from rocwright.system.console import human_bytes
from rocwright.system.files import make_directory, require_space
from rocwright.system.http import Web

_CORE = "rocm-sdk-core"
_ROOMS = ("store/adopt", "pipeline/find_sets.py", "system/http.py")


def index_address(rocm: Rocm, families: Sequence[str]) -> str:
    """Where the packages for these families are offered.

    Raises `InvalidInput` for a group of several families and an index that has a folder for each.
    """
    if not rocm.by_family:
        return rocm.at
    if len(families) != 1:
        raise InvalidInput(
            f"{rocm.at} has its packages in a folder for each family, and this group has {len(families)}",
            next_step="build each family as a group of its own, or name an index for all: --rocm index:…",
        )
    return urljoin(f"{rocm.at.rstrip('/')}/", f"{families[0]}/")


def rocm_offered(web: Web, rocm: Rocm, address: str) -> Reading:
    """ROCm's own packages at an address; what is built with them there may lag behind."""
    if rocm.kind == "index":
        return read_index(web, address, only=is_rocm)
    index = read_flat(web, address)
    files = {project: found for project, found in index.catalogue.files.items() if is_rocm(project)}
    return msgspec.structs.replace(index, catalogue=Catalogue(files, frozenset(files)))


def what_lacks(index: Reading, wanted: SetChoice, families: Families) -> str:
    """What these packages do not have for a platform and targets, as far as names tell; empty for nothing."""
    here = select(index.catalogue, msgspec.structs.replace(wanted, targets=())).files
    for project in ("rocm", _CORE):
        if not here.get(project):
            return f"{index.name} has no {project} for {wanted.platform}"
    files = [one for found in here.values() for one in found]
    there = named_targets(files, families.families)
    without = [target for target in wanted.targets if target not in there]
    if not there or not without:
        return ""
    return (
        f"{index.name} has no code for {', '.join(without)} on {wanted.platform}; it has {', '.join(there)}"
    )


@contextmanager
def reading(options: RunOptions) -> Iterator[Reading]:
    """The index or page that this place's ROCm comes from."""
    address = index_address(options.rocm, options.families)
    with Web() as web:
        yield rocm_offered(web, options.rocm, address)


def finder(options: RunOptions, index: Reading, note: Note) -> Finder:
    """What finds ROCm's packages for the platform and the targets of this place there."""
    wanted = SetChoice(
        "rocm", options.rocm.version or None, platform=options.platform, targets=options.targets
    )
    fetcher = Fetcher(index.web, options.workspace.root / "fetched", options.cache / "metadata")
    projects = options.table("projects", ProjectTable)
    return Finder(index, fetcher, wanted, load_contract(options.overlay), note=note, projects=projects)


def newest(finder: Finder, families: Families) -> tuple[str, tuple[Offered, ...]]:
    """What it is, and the files of the newest ROCm that is whole and has code for all of the targets.

    Raises `InvalidInput` naming targets without code, `ContractBroken` where no ROCm there is whole.
    """
    found = finder.newest()
    if _CORE not in found.found.versions:
        raise InvalidInput(
            f"{finder.reading.name} has {found.name} without {_CORE} for {finder.wanted.platform}",
            where=finder.reading.name,
            next_step="leave the platform out, or take another index",
        )
    there = offered_targets(found, finder.reading.catalogue, families.families)
    # Where names tell no targets, `check-rocm` looks into the files.
    if there:
        require_targets(finder.wanted.targets, there, found)
    return f"{found.name} of {finder.reading.name}", found.files


def index_artifacts_step(options: RunOptions, needs: tuple[str, ...] = ()) -> Step:
    """`rocm-artifacts` of an index: pins the files by the digests that it gives, or that they have."""

    def act(_: Inputs, note: Note) -> Pinned:
        with reading(options) as index:
            looking = finder(options, index, note)
            what, files = newest(looking, options.table("families", Families))
            entries = looking.fetcher.entries(files)
        if lost := looking.fetcher.gone:
            raise ContractBroken(
                f"{what} is not whole: " + "; ".join(f"{name}: {why}" for name, why in lost.items()),
                next_step="name another version with --rocm-version, or tell whoever runs the index",
            )
        digests = {entry.name: entry.sha256 for entry in entries}
        return Pinned(options.rocm.kind, what, digests, sum(entry.size for entry in entries))

    return Step(
        id="rocm-artifacts",
        result=Pinned,
        act=act,
        needs=needs,
        rooms=_ROOMS,
        facts=lambda: {name: getattr(options, name) for name in ("rocm", "platform", "targets", "families")},
        summary=lambda value: f"{value.what}: {len(value.files)} files, {human_bytes(value.size)}",
    )


def index_packages_step(options: RunOptions, needs: tuple[str, ...] = ()) -> Step:
    """`rocm-packages` of an index: the pinned files, fetched; other bytes are refused."""
    folder = options.workspace.rocm_wheels

    def act(inputs: Inputs, note: Note) -> BuiltPackages:
        pinned = inputs.get("rocm-artifacts", Pinned)
        require_space(options.workspace.root, pinned.size, purpose="ROCm's packages")
        make_directory(folder)
        with reading(options) as index:
            _fetch(index, pinned, folder, note)
        return describe(describe_files(folder / name for name in pinned.files), folder, options.targets)

    return packages_step(options, act, (*needs, "rocm-artifacts"))


def _fetch(index: Reading, pinned: Pinned, folder: Path, note: Note) -> None:
    web = index.web
    assert web is not None
    index.more(project_of(name) for name in pinned.files)
    links = {one.name: one.link for files in index.catalogue.files.values() for one in files}
    for name, digest in pinned.files.items():
        if name not in links:
            raise InvalidInput(
                f"{index.name} no longer offers {name}, which this run began with",
                where=index.name,
                next_step="start another run",
            )
        note(f"fetching {name}")
        web.save(links[name].url, folder / name, sha256=digest)
