"""The code objects for a target in files, directories and wheels: in libraries, archives, by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from rocwright.binary.view import mapped
from rocwright.data import load_table
from rocwright.device_code.descriptors import DeviceKernel, read_kernels
from rocwright.device_code.source import Given, find_sources
from rocwright.device_code.tree.code import ARCHIVE, list_device_code
from rocwright.device_code.tree.extract import Extracted, Extraction, extract
from rocwright.errors import InvalidElf, InvalidInput
from rocwright.model.gpu import in_order, parse_target
from rocwright.model.machines import Machines, is_code_object, machine_of
from rocwright.system.files import atomic_write


class GatheredObject(msgspec.Struct, frozen=True):
    """A code object in a file of its own, with its kernels; `problem` says why these cannot be read."""

    object: Extracted
    kernels: tuple[DeviceKernel, ...]
    problem: str = ""


class GatheredCode(msgspec.Struct, frozen=True):
    """The code objects for a target.

    `absent` are split files without their archives beside them, `lacking` files with code for other targets
    only, and of a file with code for the target, as `NAME#WRAPPER`, the translation units without. `unlike`
    says of archives that are not those that the files beside them name, why.
    """

    objects: tuple[GatheredObject, ...]
    absent: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    unlike: tuple[str, ...] = ()


def gather_objects(
    paths: Sequence[Path], base: str, generic: Mapping[str, Iterable[str]], dest: Path
) -> GatheredCode:
    """Write all code that may run on `base` below `dest`.

    `generic` maps generic targets to those that run their code. Raises `InvalidInput` for a damaged file, and
    where nothing has code for the target.
    """
    also = {base, *(name for name, members in generic.items() if base in members)}
    wanted, has, lacking = _targets(paths, also)
    found: list[Extracted] = []
    extraction = Extraction((), ())
    if wanted:
        extraction = extract(paths, dest / "inside", targets=frozenset(wanted), compare=True)
        found += extraction.written
    others: set[str] = set()
    with ExitStack() as stack:
        for source, target in _alone(paths, stack):
            others.add(target)
            if target not in also:
                continue
            path = dest / "alone" / f"{len(found)}.hsaco"
            file = source.open()
            with atomic_write(path) as stream:
                stream.write(file.read_at(0, file.size))
            found.append(Extracted(path, source.name, source.inside, None, target, file.size))
    if not found:
        names = " ".join(path.name for path in paths)
        told = ", ".join(in_order({*has, *others}))
        raise InvalidInput(
            f"{names}: no code for {base}" + (f"; there is some for {told}" if told else ""),
            next_step="build it for this target, or emulate one that it has code for",
        )
    return GatheredCode(tuple(map(_read, found)), extraction.absent, lacking, extraction.unlike)


def _targets(paths: Sequence[Path], also: set[str]) -> tuple[tuple[str, ...], set[str], tuple[str, ...]]:
    """The targets, spelled in full, with a base in `also`; all that there are; what has others only."""
    listing = list_device_code(paths)
    if listing.damaged:
        raise listing.damaged[0]
    has: set[str] = set()
    lacking = []
    for file in listing.files:
        own = {code.target for code in file.code}
        has |= own
        # An archive is for one target, and says so in its name.
        if file.kind == ARCHIVE:
            continue
        units = {code.index for code in file.code}
        served = {code.index for code in file.code if parse_target(code.target).base in also}
        if units and not served:
            lacking.append(file.name)
        else:
            lacking += [f"{file.name}#{one}" for one in sorted(map(str, units - served), key=_natural)]
    return tuple(name for name in in_order(has) if parse_target(name).base in also), has, tuple(lacking)


def _natural(text: str) -> tuple[int, str]:
    return len(text), text


def _alone(paths: Sequence[Path], stack: ExitStack) -> Iterator[tuple[Given, str]]:
    """Files that are code objects themselves, as BLAS libraries have beside them, with their targets."""
    machines = load_table("machines", Machines)
    for source in find_sources(paths, stack):
        head = source.head()
        if is_code_object(head):
            yield source, machine_of(head, machines) or "another"


def _read(one: Extracted) -> GatheredObject:
    try:
        with mapped(one.path) as file:
            return GatheredObject(one, read_kernels(file))
    except InvalidElf as error:
        return GatheredObject(one, (), error.what.replace(str(one.path), "it"))
