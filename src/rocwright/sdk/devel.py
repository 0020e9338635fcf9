"""The payload of rocm-sdk-devel: what no runtime package has, and how to bring the original layout back.

The archive holds only real files; links and the files that a runtime package ships are entries of the
manifest, made on first use (format: runtime/README.md). So nothing is shipped twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from rocwright.sdk.links import relative_link
from rocwright.sdk.plan import RuntimePlan
from rocwright.sdk.prefix import Prefix
from rocwright.sdk.tar_source import TarEntry, TarSource
from rocwright.system.files import sha256_file
from rocwright.wheel.source import FileSource

# Stands for the libraries package in use, whichever family it is of.
LIBRARIES = "@libraries@"


@dataclass(frozen=True)
class DevelPayload:
    """`archive` becomes `_devel.tar`, `manifest` `_devel.json`; `files` counts the real ones."""

    archive: TarSource
    manifest: bytes
    files: int
    left_out: tuple[tuple[str, str], ...]


def plan_devel(prefix: Prefix, runtime: RuntimePlan, modules: Mapping[str, str]) -> DevelPayload:
    """Decide the devel tree. Reads the files that only devel ships, for their sha256.

    The tree has every path of the prefix; where the runtime ships a library under another name (its
    SONAME), that name is a sibling and the names of the prefix are links to it.
    """
    places = {"core": modules["core"], "libraries": LIBRARIES}
    entries: dict[str, tuple[str, str]] = {}
    archive: list[TarEntry] = []
    for path in sorted(prefix.files):
        shipped = runtime.home.get(path)
        if shipped is None:
            source = FileSource(prefix.root / path)
            archive.append(TarEntry(path, source, prefix.executable(path)))
            entries[path] = ("file", sha256_file(prefix.root / path))
            continue
        entries[shipped.path] = ("sibling", f"../{places[shipped.package]}/{shipped.path}")
        if shipped.path != path:
            entries[path] = ("link", relative_link(path, shipped.path))
    left_out: list[tuple[str, str]] = []
    for path, link in sorted(prefix.links.items()):
        if link.kind == "dangling":
            left_out.append((path, f"leads nowhere: {link.text}"))
        elif path in entries:
            continue
        else:
            shipped = runtime.home.get(link.target)
            target = shipped.path if shipped is not None else link.target
            entries[path] = ("dirlink" if link.kind == "directory" else "link", relative_link(path, target))
    rows = [[path, kind, value] for path, (kind, value) in sorted(entries.items())]
    manifest = msgspec.json.encode({"files": len(rows), "entries": rows}) + b"\n"
    return DevelPayload(TarSource(archive), manifest, len(archive), tuple(left_out))
