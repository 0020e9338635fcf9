"""How files with device code appear on the terminal, and in JSON."""

from __future__ import annotations

from rocwright.device_code.tree.code import SPLIT, DeviceFile
from rocwright.device_code.tree.names import printable
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
        console.out(plain(line))


def plain(text: str) -> str:
    """Text that changes nothing on a terminal; names in files may hold anything."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


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
