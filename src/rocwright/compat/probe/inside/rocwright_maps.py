"""Which libraries are mapped into this process: Linux says it, elsewhere the answer is empty."""

from __future__ import annotations

_MAPS = "/proc/self/maps"


def mapped() -> dict[str, str]:
    """Shared libraries of this process by the name of their file, each with its path."""
    found: dict[str, str] = {}
    try:
        with open(_MAPS, encoding="utf-8", errors="replace") as stream:  # noqa: PTH123
            lines = stream.readlines()
    except OSError:
        return found
    for line in lines:
        # address, rights, offset, device, inode, path: the last may hold spaces (proc_pid_maps(5)).
        fields = line.rstrip("\n").split(None, 5)
        path = fields[5].strip() if len(fields) == 6 else ""
        name = path.rpartition("/")[2]
        if path.startswith("/") and ".so" in name:
            found[name] = path
    return found
