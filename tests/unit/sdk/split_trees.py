"""Small trees with fat libraries and databases, and what of them lies where, for tests of splitting."""

from __future__ import annotations

import hashlib
from pathlib import Path

from oracle import fatbin_walk, loader
from oracle.fat_library import build_library, bundle, code_object
from oracle.kpack_reader import read_kpack

GFX90A, GFX942, GFX1100 = 0x3F, 0x4C, 0x41
XNACK_ON, XNACK_OFF = 0x300, 0x200


def code(mach: int, seed: int, features: int = 0) -> bytes:
    return code_object(mach, hashlib.sha256(bytes([seed])).digest() * 500, features=features)


def fat(place: Path, seed: int = 0) -> Path:
    """A library with two wrappers: the first has gfx90a:xnack-, gfx942 and gfx1100, the second no gfx90a."""
    bundles = [
        bundle(
            [
                ("gfx90a:xnack-", code(GFX90A, seed + 1, XNACK_OFF)),
                ("gfx942", code(GFX942, seed + 2)),
                ("gfx1100", code(GFX1100, seed + 3)),
            ]
        ),
        bundle([("gfx942", code(GFX942, seed + 4)), ("gfx1100", code(GFX1100, seed + 5))]),
    ]
    return library(place, bundles)


def library(place: Path, bundles: list[bytes], **options: object) -> Path:
    """Link a fat library at exactly `place`; nothing else is left beside it."""
    scratch = place.parent / "scratch"
    built = build_library(scratch, bundles=bundles, **options)
    built.rename(place)
    for file in sorted(scratch.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    scratch.rmdir()
    return place


def original_code(path: Path) -> dict[tuple[int, str], bytes]:
    """(wrapper, target) → code object, by the second reader of fat libraries."""
    found = {}
    for wrapper in fatbin_walk.walk(path):
        for name, entry in wrapper.device.items():
            assert entry.data is not None
            found[wrapper.index, name.rpartition("--")[2]] = entry.data
    return found


def archived_code(*roots: Path) -> dict[tuple[str, int, str], bytes]:
    """(kernel, wrapper, target) → code object of all archives below, by the second reader of archives."""
    found: dict[tuple[str, int, str], bytes] = {}
    for archive in (path for root in roots for path in sorted(root.rglob("*.kpack")) if path.is_file()):
        entries = read_kpack(archive).entries
        assert not found.keys() & entries.keys()
        found |= entries
    return found


def loaded(path: Path, isa: str, workdir: Path) -> list[bytes | None]:
    """The code object that each wrapper of a library gets for an ISA; None where it gets none."""
    loading = loader.load(path, isa=isa, workdir=workdir)
    assert not loading.error, loading.error
    return [None if registration.reason else registration.read() for registration in loading]
