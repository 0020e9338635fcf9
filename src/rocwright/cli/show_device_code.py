"""How files with device code, and their splits and merges, look on the terminal and in JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from rocwright.cli.reply import plain
from rocwright.device_code.archives import LibrarySplit
from rocwright.device_code.tree.code import SPLIT, DeviceFile
from rocwright.device_code.tree.names import printable
from rocwright.device_code.tree.split import TreeSplit
from rocwright.device_code.tree.tree import Part
from rocwright.device_code.tree.unsplit import TreeUnsplit
from rocwright.device_code.unsplit_library import LibraryUnsplit
from rocwright.device_code.wheel.merge import WheelMerge
from rocwright.device_code.wheel.unsplit import WheelUnsplit
from rocwright.device_code.wheel.wheel import WheelSplit
from rocwright.system import console


def code_line(file: DeviceFile) -> str:
    """One line about a file with device code."""
    count = sum(number for number, _ in file.targets.values())
    size = console.human_bytes(sum(size for _, size in file.targets.values()))
    if count or file.archives or file.kind != SPLIT:
        what = f"{count} code objects, {size}, targets {' '.join(file.targets) or 'none'}"
    else:
        what = "archives not beside it"
    return plain(f"{file.name}: {file.kind}, {what}")


def show_code(file: DeviceFile) -> None:
    """Print all that is known about a file with device code."""
    lines = [f"{file.name}: {file.kind}, {file.size} bytes, {file.wrappers} wrappers"]
    if file.remark:
        lines.append(f"wrapper numbers are unknown: {file.remark}")
    if file.marker:
        lines.append(f"name in archives: {file.marker.kernel}")
        lines += [f"search path: {search}" for search in file.marker.search_paths]
        lines += [f"archive: {archive}" for archive in file.archives] or ["archives not beside it"]
    lines += [f"{t}: {count} code objects, {size} bytes" for t, (count, size) in file.targets.items()]
    for code in file.code:
        index = "?" if code.index is None else code.index
        lines.append(
            f"  {code.kernel}#{index} {code.target} {code.size} bytes at {code.place:#x}, {code.form}"
        )
    for line in lines:
        console.out(plain(line), hang=2)


def code_summary(file: DeviceFile) -> dict[str, object]:
    """The same for JSON, without the code objects."""
    return {
        "name": file.name,
        "path": printable(file.path),
        "member": file.member,
        "kind": file.kind,
        "size": file.size,
        "wrappers": file.wrappers,
        "targets": {t: {"objects": number, "bytes": size} for t, (number, size) in file.targets.items()},
        "marker": file.marker,
        "archives": file.archives,
        "remark": file.remark,
    }


def show_split(name: str, done: TreeSplit | WheelSplit | LibrarySplit | None, seconds: float) -> None:
    """Print what became of one input."""
    if done is None:
        console.out(f"{name}: no device code")
    elif isinstance(done, LibrarySplit):
        _library(done, seconds)
    elif isinstance(done, WheelSplit):
        show_wheel(done, seconds)
    else:
        _tree(name, done, seconds)


def show_wheel(done: WheelSplit, seconds: float) -> None:
    """Print what became of a wheel."""
    name = Path(done.source).name
    fat, host = console.human_bytes(done.fat_size), console.human_bytes(done.host_size)
    if done.changed:
        device = console.human_bytes(sum(one.size for one in done.device))
        parts = f"host {host} + {len(done.device)} device wheels {device}"
        console.out(f"{name}: {fat} -> {parts}, {seconds:.1f} s", hang=2)
        _sizes("device wheel", ((Path(one.path).name, one.size) for one in done.device))
        if done.selectors:
            console.out(f"{len(done.selectors)} wheels choose among them, where installers speak variants")
        console.out(f"{done.identical}/{done.objects} code objects identical, {done.libraries} libraries")
    else:
        state = "is split already" if done.already_split else "has no device code to split"
        console.out(f"{name}: {fat}, {state}; copied as it is, {seconds:.1f} s", hang=2)
    for left in done.kept:
        console.out(f"kept whole: {left.member}: {left.reason}", hang=2)
    for left in done.unplaced:
        console.out(f"left in the host: {left.member}: {left.reason}", hang=2)
    if done.undigested:
        console.out(
            f"without a digest in the wheel's RECORD: {done.undigested} files; their CRC is right", hang=2
        )


def show_parts(parts: Mapping[str, Part]) -> None:
    """Print directories with their sizes."""
    rows = [(str(part.files), console.human_bytes(part.bytes), name) for name, part in parts.items()]
    console.table("", ("files", "size", "directory"), rows, right=(0, 1))


def show_merged(done: WheelMerge, output_dir: Path) -> None:
    """Print merged wheels with their sizes, and what they offer but nobody gave."""
    _sizes("wheel", ((str(Path(one.path).relative_to(output_dir)), one.size) for one in done.wheels))
    for name in done.missing:
        console.out(f"offered, but not given: {name}")


def show_unsplit(done: Iterable[LibraryUnsplit]) -> None:
    """Print libraries that were set back."""
    for one in done:
        split, fat = console.human_bytes(one.split_size), console.human_bytes(one.fat_size)
        proven = f"{one.identical}/{one.objects} code objects identical" if one.identical else "not written"
        what = f"{one.name}: {split} -> {fat}, targets {' '.join(one.targets) or 'none'}, {proven}"
        console.out(plain(what), hang=2)


def show_tree_unsplit(done: TreeUnsplit) -> None:
    """Print a tree that was set back."""
    show_unsplit(done.libraries)
    show_parts(done.parts)
    for path in done.orphans:
        console.out(f"left out: {path} has code of libraries that are not there", hang=2)


def show_wheels_unsplit(done: WheelUnsplit) -> None:
    """Print fat wheels with what they offered and nobody gave."""
    for wheel in done.wheels:
        show_unsplit(wheel.libraries)
        for name in wheel.missing:
            console.out(f"offered, but not given: {name}")
    _sizes("wheel", ((Path(one.path).name, one.size) for one in done.wheels if one.size))


def _library(done: LibrarySplit, seconds: float) -> None:
    fat, host = console.human_bytes(done.fat_size), console.human_bytes(done.host_size)
    if done.kept:
        console.out(f"{done.name}: {fat}, copied as it is: {done.kept}", hang=2)
        return
    packed = console.human_bytes(sum(done.archives.values()))
    proven = f"{done.identical}/{done.objects} code objects identical" if done.identical else "not proven"
    parts = f"host {host} + {len(done.archives)} archives {packed}, {seconds:.1f} s"
    console.out(f"{done.name}: {fat} -> {parts}, {proven}", hang=2)
    _sizes("target", done.archives.items())


def _tree(name: str, done: TreeSplit, seconds: float) -> None:
    console.out(f"{name}: {seconds:.1f} s, {done.identical}/{done.objects} code objects identical")
    show_parts(done.parts)
    for group in done.groups:
        for remark in group.kept:
            console.out(f"kept whole: {remark.path}: {remark.reason}", hang=2)
        for remark in group.unplaced:
            console.out(f"left in the generic part: {remark.path}: {remark.reason}", hang=2)
        for target, count in group.dropped.items():
            console.out(f"not wanted: {count} code objects and files for {target}", hang=2)
    for entry in done.ignored:
        console.out(f"ignored, not an artifact directory: {entry}")


def _sizes(what: str, rows: Iterable[tuple[str, int]]) -> None:
    cells = [(console.human_bytes(size), name) for name, size in rows]
    console.table("", ("size", what), cells, right=(0,))
