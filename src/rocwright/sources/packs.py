"""The packs of a mirror: what it was made of, whether all of it is still there, and a checkout's links."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from rocwright.system import files
from rocwright.system.git import Git

_RECORD = "rocwright-packs.json"
# More packs than this make every look-up slow; then the small ones are joined.
_MANY = 40
_DIGEST_BYTES = 20


def record(mirror: Git) -> None:
    """Write down the packs that a mirror has; joins small ones when there are many."""
    packs = _directory(mirror.git_dir)
    if len([*packs.glob("*.pack")]) > _MANY:
        mirror.run("repack", "-d", "-q", "--geometric=2", "--no-write-bitmap-index")
    found = [path for ending in ("pack", "idx") for path in packs.glob(f"*.{ending}")]
    sizes = {path.name: path.stat().st_size for path in found}
    files.write_text(mirror.git_dir / _RECORD, msgspec.json.encode(sizes, order="sorted").decode() + "\n")


def are_whole(git_dir: Path) -> bool:
    """Whether a mirror is there with all of its recorded packs, none of them cut.

    A pack ends with its digest, which its index repeats: this reads a few bytes, whatever the size.
    """
    packs = _directory(git_dir)
    try:
        sizes = msgspec.json.decode((git_dir / _RECORD).read_bytes(), type=dict[str, int])
        return (git_dir / "HEAD").is_file() and all(
            (packs / name).stat().st_size == size and _agrees_with_index(packs / name)
            for name, size in sizes.items()
        )
    except (OSError, msgspec.DecodeError):
        return False


def link(mirror: Git, into: Git, linked: list[Path]) -> None:
    """Give a repository every pack of a mirror as hard links; adds those to `linked`.

    Raises `OSError` where that is not possible.
    """
    source, target = _directory(mirror.git_dir), _directory(into.git_dir)
    # A pack is complete when its index is there; git finds it by the index, so that comes last here too.
    for index in sorted(source.glob("pack-*.idx")):
        for path in (index.with_suffix(".pack"), index.with_suffix(".rev"), index):
            if not (target / path.name).exists() and (path.suffix != ".rev" or path.exists()):
                os.link(path, target / path.name)
                linked.append(target / path.name)


def _directory(git_dir: Path) -> Path:
    return git_dir / "objects" / "pack"


def _agrees_with_index(path: Path) -> bool:
    return path.suffix != ".pack" or _end(path, 1) == _end(path.with_suffix(".idx"), 2)


def _end(path: Path, back: int) -> bytes:
    """The digest that stands `back` digests before the end of a file."""
    with path.open("rb") as stream:
        stream.seek(-back * _DIGEST_BYTES, os.SEEK_END)
        return stream.read(_DIGEST_BYTES)
