"""Compare what parts of a split say of themselves: one build, and an archive for each target of the host.

For what no marker covers: databases and further files of a part, and a target whose archive is gone.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from rocwright.device_code.origin import (
    LARGEST_ORIGIN,
    SplitOrigin,
    is_origin,
    named_archives,
    owner_of,
    parse_origin,
    part_of,
    speaks_of_origin,
    unlike_named,
)
from rocwright.device_code.source import Source
from rocwright.device_code.verify.archive import Shelf
from rocwright.device_code.verify.report import FindingLog
from rocwright.device_code.verify.sources import Tree
from rocwright.errors import InvalidInput
from rocwright.model.gpu import base_targets


class Said(msgspec.Struct, frozen=True):
    """A file beside archives and what it says."""

    source: Source
    origin: SplitOrigin

    @property
    def key(self) -> tuple[str, str]:
        """The directory of archives, as installed, and the group: the same for all parts of one split."""
        return posixpath.dirname(self.source.installed), self.origin.group


def check_origins(
    tree: Tree, shelves: Sequence[Shelf], wanted: frozenset[str] | None, log: FindingLog
) -> None:
    """Report parts of another build than their host's, and targets of hosts without an archive.

    `wanted` are the base targets that are meant to be here. Without it a part that is in no wheel and in no
    installed tree may be left out on purpose, which is noted; in a tree as a split writes it, it is missing.
    """
    said = list(_said(tree.sources, log))
    hosts = {one.key: one for one in said if not one.origin.part}
    parts = [one for one in said if one.origin.part]
    for one in parts:
        host = hosts.get(one.key)
        if host is not None and one.origin.build != host.origin.build and not _told(one, shelves, log):
            log.add("kpack-stranger", one.source.name, _stranger(one, host))
    for one in parts:
        _same_archives(one, shelves, log)
    there = {shelf.source.installed for shelf in shelves}
    unread = {source.installed for source in tree.sources if source.is_archive} - there
    for host in hosts.values():
        if tree.whole:
            its = {one.origin.part for one in parts if one.key == host.key}
            _archives(host, there | unread, its, tree, wanted, log)


def _same_archives(one: Said, shelves: Sequence[Shelf], log: FindingLog) -> None:
    named = named_archives([(one.source.installed, one.origin)])
    for shelf in shelves:
        name = shelf.source.name
        if shelf.source.installed not in named or log.seen["kpack-stranger", name]:
            continue
        wanted, _ = named[shelf.source.installed]
        found = hashlib.sha256(shelf.archive.file.slice(0, shelf.source.size)).hexdigest()
        if unlike := unlike_named(found, (wanted, one.source.name)):
            log.add("kpack-stranger", name, unlike)


def _said(sources: Iterable[Source], log: FindingLog) -> Iterator[Said]:
    for source in sources:
        if not is_origin(source.installed) or source.link is not None:
            continue
        try:
            data = source.open().read_at(0, min(source.size, LARGEST_ORIGIN))
            if speaks_of_origin(data):
                yield Said(source, parse_origin(data, posixpath.basename(source.installed)))
        except InvalidInput as error:
            log.add("kpack-readable", source.name, error.what)


def _told(one: Said, shelves: Iterable[Shelf], log: FindingLog) -> bool:
    """Whether an archive of the part is known for a stranger: then there is one fault, not two."""
    folder, group = one.key
    return any(
        log.seen["kpack-stranger", shelf.source.name]
        for shelf in shelves
        if posixpath.dirname(shelf.source.installed) == folder
        and shelf.archive.group == group
        and one.origin.part in (part_of(shelf.target), owner_of(shelf.target))
    )


def _stranger(one: Said, host: Said) -> str:
    return (
        f"the device code and databases for {one.origin.part} are of build {one.origin.build}, "
        f"{host.source.name} is of build {host.origin.build}"
    )


def _archives(
    host: Said, there: set[str], parts: set[str], tree: Tree, wanted: frozenset[str] | None, log: FindingLog
) -> None:
    folder, _ = host.key
    lacking = [
        target
        for target in host.origin.targets
        if (wanted is None or part_of(target) in wanted)
        and posixpath.join(folder, host.origin.archive(target)) not in there
    ]
    for target in lacking:
        own = {part_of(target), owner_of(target)} & parts
        must = bool(own) or wanted is not None or (tree.parts and host.source.crc is None)
        rule = "kpack-target" if must else "kpack-target-absent"
        log.add(rule, host.source.name, f"it was split into {target}, and no archive for that is here")
    absent = sorted((wanted or frozenset()) - set(base_targets(host.origin.targets)))
    for target in absent:
        log.add(
            "kpack-target", host.source.name, f"it was not split into {target}, which is meant to be here"
        )
