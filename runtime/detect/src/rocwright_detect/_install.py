"""The lines that install PyTorch for some targets from an index: for pip, for uv, for a pyproject.toml."""

import os
import re

from . import _known
from ._table import BESIDE, PROJECTS

KINDS = ("multi-arch", "family")
TORCH = PROJECTS[0][0]
# What goes into a command line unquoted, in any shell.
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[A-Za-z0-9._~:/@%+-]+")
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)+((a|b|rc)[0-9]+)?(\.dev[0-9]+)?(\+[a-z0-9]+([._-][a-z0-9]+)*)?")


def checked(index, torch):
    """The address with a `/` at its end; `ValueError` for one, or a version, that no command line takes.

    A directory of this machine becomes its address.
    """
    if "://" not in index and os.path.isdir(index):
        import pathlib

        index = pathlib.Path(index).resolve().as_uri()
    if _ADDRESS.fullmatch(index) is None:
        raise ValueError(
            f"{index!r} is no address of an index; give one like https://packages.example.org/rocm/"
        )
    if torch is not None and _VERSION.fullmatch(torch) is None:
        raise ValueError(f"{torch!r} is not a version of torch; give one like 2.9.0 or 2.9")
    return index.rstrip("/") + "/"


def lines(targets, index, kind="multi-arch", torch=None, pre=False, platform="linux"):
    """What installs torch for all these targets: a list of {"for", "index", "pip", "uv", "pyproject"}.

    One entry with `multi-arch`, an index in which each target has an extra; with `family`, an index with a
    directory for each family, one for each family that is needed. Targets that nothing is published for are
    left out, so the list may be empty. `ValueError` for an address or a version that is none.
    """
    base = checked(index, torch)
    served = [one for one in dict.fromkeys(targets) if _known.family_for(one, platform)]
    if kind == "multi-arch":
        groups = [(tuple(served), base)] if served else []
    else:
        families = {}
        for target in served:
            families.setdefault(_known.family_for(target, platform), []).append(target)
        groups = [(tuple(found), f"{base}{name}/") for name, found in families.items()]
    return [_entry(found, address, kind, torch, pre, platform) for found, address in groups]


def _entry(targets, address, kind, torch, pre, platform):
    """An entry that nobody has checked: the names that such an index has."""
    extras = "[" + ",".join("device-" + target for target in targets) + "]"
    words = []
    for name, split in PROJECTS:
        word = name + extras if split and kind == "multi-arch" else name
        words.append(word + pin(torch) if torch and name == TORCH else word)
    if kind == "multi-arch":
        owned = ["rocm-sdk-libraries"]
        owned += [f"rocm-sdk-device-{target}" for target in targets]
        owned += [f"amd-{name}-device-{target}" for name, split in PROJECTS if split for target in targets]
    else:
        owned = ["rocm-sdk-libraries-" + _known.family_for(targets[0], platform).lower()]
    pre = pre or bool(torch and re.search(r"[0-9](a|b|rc)[0-9]|\.dev", torch))
    return entry(words, [*(name for name, _ in PROJECTS), *BESIDE, *owned], targets, address, pre)


def entry(words, projects, targets, address, pre):
    """The lines that install some requirements; `projects` are those that only this index may give."""
    # Brackets and stars mean something to shells; double quotes to all of them the same.
    quoted = " ".join(f'"{word}"' if re.search(r"[\[*]", word) else word for word in words)
    pip = ["pip install", f"--index-url {address}", "--pre" if pre else "", quoted]
    uv = ["uv pip install", f"--default-index {address}", "--prerelease allow" if pre else "", quoted]
    return {
        "for": list(targets),
        "index": address,
        "pip": " ".join(filter(None, pip)),
        "uv": " ".join(filter(None, uv)),
        "pyproject": _pyproject(words, projects, address, pre),
    }


def pin(torch):
    """`2.9` is any release of it, anything longer exactly that."""
    return f"=={torch}.*" if re.fullmatch(r"[0-9]+\.[0-9]+", torch) else f"=={torch}"


def _pyproject(words, projects, address, pre):
    """A part of a pyproject.toml; only the projects named in it are taken from the index, and from no other.

    uv takes a source for direct dependencies; named as a constraint, too, it holds for whatever requires the
    project. It takes no notice of a constraint without a version, so there is one that all satisfy.
    """
    text = [
        "[project]",
        "dependencies = [",
        *(f'    "{word}",' for word in words),
        "]",
        "",
        "[tool.uv]",
        *(['prerelease = "allow"'] if pre else []),
        "constraint-dependencies = [",
        *(f'    "{project}>=0",' for project in projects),
        "]",
        "",
        "[[tool.uv.index]]",
        'name = "rocm"',
        f'url = "{address}"',
        "explicit = true",
        "",
        "[tool.uv.sources]",
        *(f'{project} = {{ index = "rocm" }}' for project in projects),
    ]
    return "\n".join(text) + "\n"
