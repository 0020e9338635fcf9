"""Gather where the loader takes libraries from besides an environment, and the ROCms that a system has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from rocwright.compat.doctor.facts import LibraryPlace, SystemRocm

_LIBRARY = re.compile(r".+\.so(\.[0-9.]+)?")
# An include that includes itself must end.
_DEPTH = 5
_VERSION = re.compile(r"\d+(?:\.\d+)+[^\s]*")


def library_places(root: Path, environ: Mapping[str, str]) -> tuple[LibraryPlace, ...]:
    """The directories of LD_LIBRARY_PATH and of the loader's configuration, and the files of LD_PRELOAD.

    Of the system's own directories (/lib, /usr/lib) nothing is told: they come last and everyone has them.
    """
    # An empty word stands for the current directory.
    given = [word or "." for word in environ["LD_LIBRARY_PATH"].split(":")] if _set(environ) else []
    found = [_directory(word, "LD_LIBRARY_PATH", root) for word in dict.fromkeys(given)]
    preloaded = filter(None, re.split(r"[ :]+", environ.get("LD_PRELOAD", "")))
    found += [
        LibraryPlace(word, "LD_PRELOAD", (Path(word).name,), os.path.realpath(word)) for word in preloaded
    ]
    configured = dict.fromkeys(_configured(root, root / "etc/ld.so.conf"))
    found += [_directory(word, "ld.so.conf", root) for word in configured if not _of_the_system(word)]
    return tuple(found)


def _set(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("LD_LIBRARY_PATH"))


def _directory(word: str, via: Literal["LD_LIBRARY_PATH", "ld.so.conf"], root: Path) -> LibraryPlace:
    path = root / word.lstrip("/") if word.startswith("/") else Path(word)
    try:
        names = sorted(entry.name for entry in path.iterdir() if _LIBRARY.fullmatch(entry.name))
    except OSError:
        names = []
    return LibraryPlace(word, via, tuple(names), os.path.realpath(path))


def _configured(root: Path, path: Path, depth: int = 0) -> Iterator[str]:
    """Directories that a file of the loader's configuration names, in order."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        word = line.partition("#")[0].strip()
        if word.startswith("include") and depth < _DEPTH:
            pattern = word[len("include") :].strip()
            base = root if pattern.startswith("/") else path.parent
            for included in sorted(base.glob(pattern.lstrip("/"))) if pattern else []:
                yield from _configured(root, included, depth + 1)
        elif word.startswith("/"):
            yield word


def _of_the_system(word: str) -> bool:
    return re.fullmatch(r"(?:/usr)?/lib(?:32|64|x32)?(?:/[^/]+-linux-[^/]+)?", word.rstrip("/")) is not None


def system_rocms(root: Path) -> tuple[SystemRocm, ...]:
    """ROCm below /opt, and the distribution's own, each once, however many links lead to it."""
    found: dict[Path, SystemRocm] = {}
    for path in sorted((root / "opt").glob("rocm*")):
        if not ((path / "lib").is_dir() or (path / "bin").is_dir()):
            continue
        real = path.resolve()
        # The link /opt/rocm sorts first, and is what people name.
        found.setdefault(real, SystemRocm(f"/opt/{path.name}", _version(path)))
    for pattern in ("usr/lib/*/libamdhip64.so*", "usr/lib64/libamdhip64.so*"):
        for library in sorted(root.glob(pattern)):
            place = library.parent
            version = library.name.partition(".so.")[2]
            found[place] = SystemRocm(f"/{place.relative_to(root)}", version)
    return tuple(found.values())


def _version(path: Path) -> str:
    for name in (".info/version", ".info/version-dev"):
        try:
            text = (path / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        match = _VERSION.match(text.strip())
        if match:
            return match[0]
    match = _VERSION.search(path.resolve().name)
    return match[0] if match else ""
