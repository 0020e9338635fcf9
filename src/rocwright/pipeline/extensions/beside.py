"""torch and what a run needs besides, where they are installed beside ROCm's packages."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec
from packaging.utils import canonicalize_name

from rocwright.builder.decide.extension import in_force
from rocwright.builder.decide.plan import BuiltWheel
from rocwright.builder.rocm.place import RocmPlace, place_environment
from rocwright.errors import UsageError
from rocwright.model.project import TORCH
from rocwright.pipeline.extensions.given import Foundation, exactly, require_hip
from rocwright.store.adopt.offered import is_rocm, label_of
from rocwright.system.files import sha256_file
from rocwright.system.interpreters import ask_interpreter
from rocwright.system.venv import Environment, package_directories
from rocwright.wheel.metadata import Metadata, exact_version, parse_metadata


class BesideRocm(msgspec.Struct, frozen=True):
    """What is given, without files, and the distributions that builds have to see."""

    given: Foundation
    seen: tuple[str, ...]


def beside_rocm(
    place: RocmPlace, pythons: Sequence[str], torch: str | None, needs: Sequence[str], built: Collection[str]
) -> BesideRocm:
    """The torch that is installed where ROCm's packages are, for the Pythons (`3.12`) of a run.

    Raises `UsageError` where it is for another Python or has another version than `torch` says, or one of
    `needs` is missing, `WrongTorch` for a torch without HIP.
    """
    environment = place_environment(place, os.environ)
    own = ask_interpreter(environment.python).name
    if tuple(pythons) != (own,):
        raise UsageError(
            f"the torch of {environment.root} is for Python {own}, wheels are asked for {', '.join(pythons)}",
            where=environment.root,
            next_step=f"give --python {own}, or the place of ROCm and torch: --find-links, --index-url",
        )
    there = _installed_given(environment, own, needs, built)
    version = next(wheel.version for wheel in there.given.wheels if wheel.project == TORCH)
    if torch is not None and not exactly(torch).contains(version, prereleases=True):
        raise UsageError(
            f"--torch {torch}: {environment.root} has torch {version}",
            where=environment.root,
            next_step="leave --torch out, or give the place of the other: --find-links, --index-url",
        )
    return there


def _installed_given(
    environment: Environment, python: str, needs: Iterable[str], built: Collection[str]
) -> BesideRocm:
    """torch and `needs` of an environment, and what they require there, without what is `built`."""
    found: dict[str, Path] = {
        canonicalize_name(info.name.removesuffix(".dist-info").rpartition("-")[0]): info
        for site in package_directories(environment.root)
        for info in sorted(site.glob("*.dist-info"))
    }
    roots = (TORCH, *needs)
    for name in roots:
        if name not in found:
            raise UsageError(
                f"{name} is not installed in {environment.root}, and --project is built against it",
                where=environment.root,
                next_step="install it there, or give the place of ROCm and torch: --find-links, --index-url",
            )
    version = found[TORCH].parent / TORCH / "version.py"
    require_hip(version.read_text(encoding="utf-8") if version.is_file() else "", environment.root)
    told = _closure(roots, {name: info for name, info in found.items() if name not in built})
    wheels = tuple(
        BuiltWheel(
            name,
            told[name].version,
            path="",
            sha256=sha256_file(found[name] / "RECORD"),
            size=0,
            wall_s=0,
            cpu_s=0,
            peak_rss=0,
            python=python,
        )
        for name in roots
    )
    exact = _rocm(told[TORCH])
    label = exact.replace("+", ".") or label_of(TORCH, told[TORCH].version) or ""
    return BesideRocm(Foundation(wheels, (), label, exact), tuple(name for name in told if not is_rocm(name)))


def _closure(roots: Iterable[str], found: dict[str, Path]) -> dict[str, Metadata]:
    """METADATA of what is there of some distributions and of what they require."""
    told: dict[str, Metadata] = {}
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name in told or name not in found:
            continue
        told[name] = parse_metadata((found[name] / "METADATA").read_bytes())
        pending += [canonicalize_name(wanted.name) for wanted in in_force(told[name].requires_dist)]
    return told


def _rocm(torch: Metadata) -> str:
    """The ROCm that torch requires exactly; empty for none."""
    wanted = in_force(torch.requires_dist)
    pins = (exact_version(one) for one in wanted if is_rocm(canonicalize_name(one.name)))
    return next((pin for pin in pins if pin), "")
