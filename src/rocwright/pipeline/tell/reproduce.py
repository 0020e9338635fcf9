"""The "PyTorch Test Report" of a workflow: what was tested, and command lines that set the same up again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

import msgspec
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
)

from rocwright.errors import UsageError
from rocwright.system.workflow import address, code
from rocwright.wheel.tags import parse_wheel_name

_FORK, _UPSTREAM = "https://github.com/ROCm/pytorch", "https://github.com/pytorch/pytorch"
# Of branches that the fork does not have.
_OF_UPSTREAM = ("nightly", "main")
MINIATURE = "Of the miniature family: stand-ins under the real names, not PyTorch."
_WHAT_TESTS_NEED = "pytorch/.ci/docker/requirements-ci.txt"
_CONTINUATION = {"windows": "^"}
_PLAIN = re.compile(r"[\w@%+=:,./~-]+", re.ASCII)


class Tested(msgspec.Struct, frozen=True):
    """What was tested, and from where; `device` are extras such as `device-gfx942`, separated by commas.

    Of `index` (a package index) and `find_links` (pages of files) one is there. `ref` is PyTorch's branch,
    tag or commit, empty for sources that are nowhere public. `miniature` says that the wheels are stand-ins.
    """

    torch: str = ""
    python: str = ""
    family: str = ""
    device: str = ""
    index: str = ""
    find_links: tuple[str, ...] = ()
    ref: str = ""
    platform: str = "linux"
    miniature: bool = False


def tested(
    *,
    torch: str,
    python: str,
    ref: str,
    index: str,
    subdir: str = "",
    device: str = "",
    find_links: tuple[str, ...] = (),
    platform: str = "linux",
) -> Tested:
    """From the options of a workflow; the index ends with one `/`.

    Raises `UsageError` where both or neither of index and find-links are given, and for a find-links page
    with a directory of an index.
    """
    if bool(index) == bool(find_links):
        raise UsageError(
            "give where the wheels come from: --index-url or --find-links, and not both",
            next_step="--index-url takes an index, --find-links a page of files",
        )
    if subdir and not index:
        raise UsageError("--index-subdir is a directory of an index", next_step="give --index-url, too")
    base = index.rstrip("/")
    # One index for all targets has no directory of a family.
    base += f"/{subdir.strip('/')}" if subdir.strip("/") and not device else ""
    return Tested(
        torch=torch,
        python=python,
        family=subdir.strip("/"),
        device=device.strip(","),
        index=f"{base}/" if index else "",
        find_links=find_links,
        ref=ref,
        platform=platform,
    )


def test_report(about: Tested) -> list[str]:
    """Markdown: what is known of what was tested, and how to set the same up on another machine."""
    target = ", ".join(filter(None, (about.family, about.device)))
    rows = [
        ("Torch version", code(about.torch)),
        ("Python version", code(about.python)),
        ("GPU target", code(target)),
        ("Package index", address(about.index)),
        *(("Packages", address(page)) for page in about.find_links),
        ("PyTorch source code", address(_source(about))),
    ]
    mini = (
        ["The miniature family: stand-ins under the real names, not PyTorch.", ""] if about.miniature else []
    )
    return [
        "## PyTorch Test Report",
        "",
        *mini,
        *(f"* {name}: {value}" for name, value in rows if value),
        "",
        "To set up the same:",
        "",
        f"```{'bat' if about.platform == 'windows' else 'bash'}",
        *reproduce(about),
        "```",
        "",
    ]


def reproduce(about: Tested) -> list[str]:
    """Lines for a shell of the platform: an environment, the packages, the sources of the tests."""
    windows = about.platform == "windows"
    comment = "REM" if windows else "#"
    extras = f"[{about.device}]" if about.device else ""
    torch = f"torch{extras}" + (f"=={about.torch}" if about.torch else "")
    pip = pip_install(
        [torch], about.platform, find_links=about.find_links, index=about.index, pre=not about.torch
    )
    lines = [
        f"{comment} The packages, in an environment of their own:",
        "py -m venv .venv" if windows else "python3 -m venv .venv",
        r".venv\Scripts\activate.bat" if windows else ". .venv/bin/activate",
        *pip.split("\n"),
    ]
    if not about.ref or about.miniature:
        return lines
    origin = "" if _repository(about) == _UPSTREAM else " --origin rocm"
    return [
        *lines,
        f"{comment} The sources, with the tests, and what the tests need:",
        f"git clone --branch {quoted(about.ref, about.platform)}{origin} {_repository(about)}.git",
        f"pip install -r {_WHAT_TESTS_NEED}",
    ]


def _repository(about: Tested) -> str:
    return _UPSTREAM if about.ref in _OF_UPSTREAM else _FORK


def _source(about: Tested) -> str:
    return f"{_repository(about)}/tree/{about.ref}" if about.ref and not about.miniature else ""


# -- command lines that people paste: pip with the continuation of their platform's shell, git


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
                project, version, *_ = parse_wheel_name(name)
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
