"""Check that in a split tree every file is in the right part, and that device files are for their target."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from packaging.utils import canonicalize_name

from rocwright.binary.elf import read_elf
from rocwright.data import load_table
from rocwright.device_code import fatbin
from rocwright.device_code.fatbin import PACKED_MAGIC, scan_bundles
from rocwright.device_code.source import Source
from rocwright.device_code.unpack import RAW_MAGIC
from rocwright.device_code.verify.archive import Shelf
from rocwright.device_code.verify.library import is_host_elf
from rocwright.device_code.verify.report import FindingLog
from rocwright.device_code.verify.sources import Tree
from rocwright.errors import InvalidInput
from rocwright.model.device_files import DeviceFile, DeviceFiles, Unplaced, classify, known_targets
from rocwright.model.gpu import Families, InvalidTarget, base_targets
from rocwright.model.machines import Machines, is_code_object, machine_of


def check_parts(tree: Tree, shelves: Sequence[Shelf], machines: Machines, log: FindingLog) -> None:
    """Report files in the wrong part, in two parts, and device files whose code is for another target."""
    table = load_table("device_files", DeviceFiles)
    targets = known_targets(table, load_table("families", Families))
    for source in tree.sources:
        if source.is_archive:
            continue
        found = classify(source.installed, table, targets)
        if isinstance(found, Unplaced) and tree.parts:
            log.add("kpack-unplaced", source.name, f"{found.word} {found.reason}")
        if isinstance(found, DeviceFile):
            word = found.target or found.group or ""
            if tree.parts:
                _place(source, word, log)
            _content(source, word, found.members or (word,), machines, log)
    if tree.parts:
        for shelf in shelves:
            _place(shelf.source, shelf.parsed.base, log)
        _apart(tree.sources, log)


def _place(source: Source, word: str, log: FindingLog) -> None:
    if source.part is None:
        log.add("kpack-device-file", source.name, f"it serves {word} and is in the part for all GPUs")
    elif canonicalize_name(source.part.partition(":")[0]) != canonicalize_name(word):
        log.add("kpack-foreign", source.name, f"it serves {word} and is in the part for {source.part}")


def _apart(sources: Iterable[Source], log: FindingLog) -> None:
    owners: dict[str, Source] = {}
    for source in sources:
        first = owners.setdefault(source.installed, source)
        # Artifacts may share what is for all GPUs; wheels may not: uninstalling one breaks the other.
        if first.owner != source.owner and (first.part != source.part or source.crc is not None):
            log.add("kpack-overlap", source.name, f"{first.owner} holds {source.installed} too")


def _content(
    source: Source, word: str, members: tuple[str, ...], machines: Machines, log: FindingLog
) -> None:
    """Whether device code in a file is for the target that its path names."""
    if source.link is not None:
        return
    try:
        found = _targets(source, machines)
    except InvalidInput as error:
        log.add("kpack-readable", source.name, error.what)
        return
    foreign = sorted(found - set(members))
    if foreign:
        log.add("kpack-machine", source.name, f"it serves {word} and holds code for {', '.join(foreign)}")


def _targets(source: Source, machines: Machines) -> set[str]:
    """Base targets of the code objects in a file, as far as they are known."""
    head = source.head()
    if is_code_object(head):
        name = machine_of(head, machines)
        return set() if name is None else {name}
    if head.startswith((RAW_MAGIC, PACKED_MAGIC)):
        bundles = scan_bundles(source.open(), 0, source.size)
    elif is_host_elf(head):
        file = source.open()
        section = read_elf(file).sections.get(fatbin.SECTION)
        bundles = scan_bundles(file, section.offset, section.offset + section.size) if section else ()
    else:
        return set()
    found = {entry.target for bundle in bundles for entry in bundle.entries if entry.target}
    try:
        return set(base_targets(found))
    except InvalidTarget:
        return found
