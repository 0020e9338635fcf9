"""The build's own environment with ROCm in it: kept as long as it holds just what is asked for.

A ROCm that is installed again makes every object that was compiled against it look out of date, so an
environment is replaced only when its packages would be others. The path that is asked for is a link to the
environment; a new one is made beside it, and the link is turned only when it is whole.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from rocwright.builder.rocm.describe import describe_rocm
from rocwright.builder.rocm.install import (
    INDEX_WAIT_S,
    RETRY_EVERY_S,
    Install,
    Note,
    forget_selection,
    pip_install,
    require_version,
    rocm_requirement,
    run_pip,
    satisfies,
)
from rocwright.builder.rocm.rocm import Rocm, require_extras, what_lacks
from rocwright.errors import CommandFailed, InvalidInput, UsageError
from rocwright.system import files, links, venv
from rocwright.system.remote import without_login
from rocwright.system.venv import Closed, Environment, local_path, package_directories

_STAMP = "rocwright-rocm.json"
_PACKAGE_FILES = ("*.whl", "*.tar.gz", "*.zip")


class PackageRequest(msgspec.Struct, frozen=True):
    """What decides which packages an environment gets; addresses without logins."""

    spec: str
    extras: tuple[str, ...]
    pre: bool
    index_url: str
    find_links: tuple[str, ...]
    python: str
    family: str = ""


class Held(msgspec.Struct, frozen=True):
    """What an environment was made for and holds.

    `packages` maps each project to its version and the sha256 of its file (empty where unknown), `installed`
    to the version in the name of its directory; `local` says how ROCm's files lay in the directories among
    the places.
    """

    asked: PackageRequest
    version: str
    packages: dict[str, tuple[str, str]]
    installed: dict[str, str]
    local: tuple[str, ...]


def asked_for(places: Closed, spec: str, extras: Sequence[str], pre: bool, python: Path) -> PackageRequest:
    """What the options ask for."""
    return PackageRequest(
        spec=str(SpecifierSet(spec)),
        extras=tuple(sorted(extras)),
        pre=pre,
        index_url=without_login(places.index_url or ""),
        find_links=tuple(without_login(place) for place in places.find_links),
        # Of another Python, site-packages would lie elsewhere.
        python=str(python.resolve()),
        # The rocm source package chooses its libraries by it.
        family=os.environ.get("ROCM_SDK_TARGET_FAMILY", ""),
    )


class _Archive(msgspec.Struct, frozen=True):
    hashes: dict[str, str] = {}


class _Download(msgspec.Struct, frozen=True):
    archive_info: _Archive = _Archive()


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    version: str


class _Item(msgspec.Struct, frozen=True):
    metadata: _Metadata
    download_info: _Download = _Download()


class _Report(msgspec.Struct, frozen=True):
    """What is needed of pip's installation report."""

    install: tuple[_Item, ...]


def read_report(path: Path) -> dict[str, tuple[str, str]]:
    """Project to version and sha256 of what pip installed, or would install."""
    report = msgspec.json.decode(path.read_bytes(), type=_Report)
    return {
        canonicalize_name(item.metadata.name): (
            item.metadata.version,
            item.download_info.archive_info.hashes.get("sha256", ""),
        )
        for item in report.install
    }


def read_held(root: Path) -> Held | None:
    """What an environment holds; None where none was finished."""
    try:
        return msgspec.json.decode((root / _STAMP).read_bytes(), type=Held)
    except (OSError, msgspec.DecodeError):
        return None


def write_held(root: Path, held: Held) -> None:
    """Write it down; the last step of making an environment."""
    files.write_text(root / _STAMP, msgspec.json.format(msgspec.json.encode(held), indent=1).decode())


def local_state(places: Closed) -> tuple[str, ...]:
    """How ROCm's files lie in the directories among the places: name, size, time; sorted."""
    lines: set[str] = set()
    for place in places.find_links:
        path = local_path(place)
        if path is None:
            continue
        found = [path] if path.is_file() else [p for glob in _PACKAGE_FILES for p in path.glob(f"rocm{glob}")]
        for file in found:
            facts = file.stat()
            lines.add(f"{file} {facts.st_size} {facts.st_mtime_ns}")
    return tuple(sorted(lines))


def distributions(root: Path) -> dict[str, str]:
    """Project to version of what is installed, by the names of the directories that say so."""
    found: dict[str, str] = {}
    for info in (info for site in package_directories(root) for info in site.glob("*.dist-info")):
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        found[canonicalize_name(name)] = version
    return found


def decide_reuse(
    held: Held | None, asked: PackageRequest, *, local: Sequence[str], installed: dict[str, str]
) -> Literal["keep", "ask", "make"]:
    """Whether the environment still is what is wanted: `keep` it, `ask` the index, or `make` another.

    `local` is how the directories among the places look now, `installed` what the environment has.
    """
    if held is None or msgspec.structs.replace(held.asked, spec=asked.spec) != asked:
        return "make"
    if installed != held.installed or not satisfies(held.version, asked.spec):
        return "make"
    if tuple(local) != held.local:
        return "ask"
    if _is_exact(asked.spec):
        # One exact version never becomes another on an index; files in directories were compared.
        return "keep"
    by_network = asked.index_url or any(local_path(place) is None for place in asked.find_links)
    return "ask" if by_network or asked.spec != held.asked.spec else "keep"


def _is_exact(spec: str) -> bool:
    return any(item.operator in ("==", "===") and "*" not in item.version for item in SpecifierSet(spec))


def rocm_environment(
    root: Path,
    places: Closed,
    *,
    spec: str = ">1.0",
    extras: Sequence[str] = (),
    pre: bool = True,
    python: Path | None = None,
    pip_cache_dir: Path | None = None,
    index_wait_s: float = INDEX_WAIT_S,
    index_every_s: float = RETRY_EVERY_S,
    log: Path,
    note: Note,
) -> Rocm:
    """ROCm from `places` in an environment at `root` that belongs to the build; describes it.

    What is there is kept, untouched, when it holds what would be installed. Else another is made; until that
    is whole, and when it fails, `root` stays as it was. The caller keeps other runs off `root`. Errors as in
    `install_rocm`.
    """
    wanted = Install(rocm_requirement(spec, extras), places, pre=pre, cache_dir=pip_cache_dir)
    asked = asked_for(places, spec, extras, pre, python or Path(sys.executable))
    if root.exists() and not root.is_symlink() and not (root / "pyvenv.cfg").exists():
        raise UsageError(
            f"{root} is to become ROCm's environment, but something else is there",
            where=root,
            next_step="choose another directory for the build's work",
        )
    files.make_directory(root.parent)
    _sweep(root)
    kept = _kept(Environment(root), wanted, asked, log=log, note=note)
    if kept is not None:
        return kept
    note(f"installing {wanted.requirement}")
    fresh = Environment(_free(root))
    try:
        _fill(fresh, wanted, asked, python, (index_wait_s, index_every_s), log=log, note=note)
        _turn_link(root, fresh.root)
    except BaseException:
        with contextlib.suppress(OSError):
            files.remove_tree(fresh.root)
        raise
    _sweep(root)
    return describe_rocm(Environment(root), log=log)


def _kept(
    environment: Environment, wanted: Install, asked: PackageRequest, *, log: Path, note: Note
) -> Rocm | None:
    """The ROCm that is there, if it is the one that is wanted."""
    held = read_held(environment.root)
    local = local_state(wanted.places)
    decision = decide_reuse(held, asked, local=local, installed=distributions(environment.root))
    if held is None or decision == "make" or not environment.python.exists():
        return None
    if decision == "ask" and _would_install(environment, wanted, held, log=log, note=note) != held.packages:
        return None
    try:
        rocm = describe_rocm(environment, log=log)
    except (CommandFailed, InvalidInput) as error:
        note(f"the ROCm in {environment.root} is damaged ({error.what}); installing it anew")
        return None
    if lacks := what_lacks(rocm):
        note(f"the ROCm in {environment.root} is damaged ({', '.join(lacks)} missing); installing it anew")
        return None
    note(f"ROCm {rocm.version} is in {environment.root} already")
    if decision == "ask":
        write_held(environment.root, msgspec.structs.replace(held, asked=asked, local=local))
    return rocm


def _would_install(
    environment: Environment, wanted: Install, held: Held, *, log: Path, note: Note
) -> dict[str, tuple[str, str]]:
    """What pip would install now; what there is, where the places cannot be asked."""
    report = environment.root / "pip-would-install.json"
    asking = Install(
        wanted.requirement, wanted.places, pre=wanted.pre, cache_dir=wanted.cache_dir, report=report, dry=True
    )
    try:
        forget_selection(environment, asking, log=log, note=note)
        run_pip(environment, asking.arguments(), log=log)
        return read_report(report)
    except CommandFailed as failed:
        reason = failed.tail.splitlines()[-1:] or [failed.what]
        note(f"warning: could not look for newer packages ({reason[0]}); keeping ROCm {held.version}")
        return held.packages
    finally:
        report.unlink(missing_ok=True)


def _fill(
    fresh: Environment,
    wanted: Install,
    asked: PackageRequest,
    python: Path | None,
    wait: tuple[float, float],
    *,
    log: Path,
    note: Note,
) -> None:
    """A whole environment: ROCm installed, devel's files expanded, what it holds written down."""
    local = local_state(wanted.places)
    venv.create(fresh.root, python=python, log=log)
    report = fresh.root / "pip-installed.json"
    installing = Install(
        wanted.requirement, wanted.places, pre=wanted.pre, cache_dir=wanted.cache_dir, report=report
    )
    pip_install(fresh, installing, wait_s=wait[0], every_s=wait[1], log=log, note=note)
    rocm = describe_rocm(fresh, log=log)
    require_version(rocm.version, asked.spec, environment=fresh)
    require_extras(rocm, asked.extras)
    installed = distributions(fresh.root)
    write_held(fresh.root, Held(asked, rocm.version, read_report(report), installed, local))
    report.unlink()


# -- the link and what it leads to ---------------------------------------------------------------------------


def _free(root: Path) -> Path:
    """A directory beside `root` that is not there yet: an environment cannot be moved once it is made."""
    number = 1
    while os.path.lexists(path := root.with_name(f"{root.name}.{number}")):
        number += 1
    return path


def _turn_link(root: Path, target: Path) -> None:
    """Let `root` lead to `target`, in one step where it is a link already."""
    if root.exists() and not links.is_link(root):
        # An environment that something else made there: swept as a whole, since half of one could not be told
        # from something else if this run is killed.
        root.rename(_free(root))
    link = root.with_name(root.name + files.PARTIAL)
    files.remove_tree(link)
    links.turn_link(root, target.name, aside=link)


def _sweep(root: Path) -> None:
    """Remove the environments beside `root` that it does not lead to, such as those of a killed run."""
    current = root.resolve()
    mine = re.compile(re.escape(root.name) + r"\.\d+")
    for path in root.parent.iterdir():
        if mine.fullmatch(path.name) and path.resolve() != current:
            files.remove_tree(path)
