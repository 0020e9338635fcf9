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

from rocwright.builder.rocm import pip
from rocwright.builder.rocm.ask import describe_rocm
from rocwright.builder.rocm.extras import require_extras
from rocwright.builder.rocm.held import (
    Held,
    PackageRequest,
    asked_for,
    distributions,
    local_state,
    read_held,
    read_report,
    write_held,
)
from rocwright.builder.rocm.install import INDEX_WAIT_S, require_version, rocm_requirement, satisfies
from rocwright.builder.rocm.rocm import Rocm
from rocwright.builder.rocm.whole import what_lacks
from rocwright.errors import CommandFailed, InvalidInput, UsageError
from rocwright.system import files, locks, venv
from rocwright.system.venv import Closed, Environment, local_path


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
    index_every_s: float = pip.RETRY_EVERY_S,
    log: Path,
    note: pip.Note,
) -> Rocm:
    """ROCm from `places` in an environment at `root` that belongs to the build; describes it.

    What is there is kept, untouched, when it holds what would be installed. Else another is made; until that
    is whole, and when it fails, `root` stays as it was. Errors as in `install_rocm`.
    """
    wanted = pip.Install(rocm_requirement(spec, extras), places, pre=pre, cache_dir=pip_cache_dir)
    asked = asked_for(places, spec, extras, pre, python or Path(sys.executable))
    if root.exists() and not root.is_symlink() and not (root / "pyvenv.cfg").exists():
        raise UsageError(
            f"{root} is to become ROCm's environment, but something else is there",
            where=root,
            next_step="choose another directory for the build's work",
        )
    files.make_directory(root.parent)
    with locks.turn(
        root.with_name(root.name + ".lock"), lambda: note("waiting for another run that installs ROCm")
    ):
        kept = _kept(Environment(root), wanted, asked, log=log, note=note)
        if kept is not None:
            return kept
        _sweep(root)
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
    environment: Environment, wanted: pip.Install, asked: PackageRequest, *, log: Path, note: pip.Note
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
    environment: Environment, wanted: pip.Install, held: Held, *, log: Path, note: pip.Note
) -> dict[str, tuple[str, str]]:
    """What pip would install now; what there is, where the places cannot be asked."""
    report = environment.root / "pip-would-install.json"
    asking = pip.Install(
        wanted.requirement, wanted.places, pre=wanted.pre, cache_dir=wanted.cache_dir, report=report, dry=True
    )
    try:
        pip.forget_selection(environment, asking, log=log, note=note)
        pip.run_pip(environment, asking.arguments(), log=log)
        return read_report(report)
    except CommandFailed as failed:
        reason = failed.tail.splitlines()[-1:] or [failed.what]
        note(f"warning: newer packages could not be asked for ({reason[0]}); keeping ROCm {held.version}")
        return held.packages
    finally:
        report.unlink(missing_ok=True)


def _fill(
    fresh: Environment,
    wanted: pip.Install,
    asked: PackageRequest,
    python: Path | None,
    wait: tuple[float, float],
    *,
    log: Path,
    note: pip.Note,
) -> None:
    """A whole environment: ROCm installed, devel's files expanded, what it holds written down."""
    local = local_state(wanted.places)
    venv.create(fresh.root, python=python, log=log)
    report = fresh.root / "pip-installed.json"
    installing = pip.Install(
        wanted.requirement, wanted.places, pre=wanted.pre, cache_dir=wanted.cache_dir, report=report
    )
    pip.install(fresh, installing, wait_s=wait[0], every_s=wait[1], log=log, note=note)
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
    if root.exists() and not root.is_symlink():
        # An environment that something else made there.
        files.remove_tree(root)
    link = root.with_name(root.name + files.PARTIAL)
    files.remove_tree(link)
    link.symlink_to(target.name)
    link.replace(root)


def _sweep(root: Path) -> None:
    """Remove the environments beside `root` that it does not lead to, such as those of a killed run."""
    current = root.resolve()
    mine = re.compile(re.escape(root.name) + r"\.\d+")
    for path in root.parent.iterdir():
        if mine.fullmatch(path.name) and path.resolve() != current:
            files.remove_tree(path)
