"""Command lines that people paste: pip with the continuation of their platform's shell, git."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)

_CONTINUATION = {"windows": "^"}
_PLAIN = re.compile(r"[\w@%+=:,./~-]+", re.ASCII)


def quoted(word: str, platform: str) -> str:
    """A word for the shell of the platform; brackets of extras and `>` need it everywhere."""
    if platform == "windows":
        return word if _PLAIN.fullmatch(word) else '"' + word.replace('"', "") + '"'
    return f'"{word}"' if re.fullmatch(r"[\w.,+=\[\]-]+", word) and "[" in word else shlex.quote(word)


def pip_install(
    requirements: Sequence[str],
    platform: str,
    *,
    find_links: Iterable[str] = (),
    index: str = "",
    pre: bool = False,
) -> str:
    """`pip install`, one option a line."""
    parts = ["pip install " + " ".join(quoted(one, platform) for one in requirements)]
    parts[0] += " --pre" if pre else ""
    parts += [f"--index-url {quoted(index, platform)}"] if index else []
    parts += [f"--find-links {quoted(one, platform)}" for one in find_links]
    return f" {_CONTINUATION.get(platform, chr(92))}\n    ".join(parts)


def pins(files: Iterable[str]) -> dict[str, str]:
    """Version by project of these files; what is no wheel and no sdist is left out."""
    found = {}
    for name in sorted(files):
        try:
            if name.endswith(".whl"):
                project, version, *_ = parse_wheel_filename(name)
            else:
                project, version = parse_sdist_filename(name)
        except (InvalidWheelFilename, InvalidSdistFilename):
            continue
        found[str(project)] = str(version)
    return found


def wanted(files: Iterable[str]) -> tuple[str, ...]:
    """Exact requirements for what people install of an upload: rocm with its libraries, or the wheels."""
    found = pins(files)
    if "rocm" in found:
        return (f"rocm[libraries,devel]=={found['rocm']}",)
    named = {name: version for name, version in found.items() if "-device-" not in name}
    return tuple(f"{name}=={version}" for name, version in (named or found).items())
