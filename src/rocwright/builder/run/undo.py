"""Files that stand in a source tree for the time of a build, under a journal that outlives a kill.

The journal lies beside the tree's history, not in a work directory: whichever build comes next finds it.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from rocwright.errors import InvalidData, InvalidInput
from rocwright.system.files import disk_error, make_directory, remove_tree, write_text

_JOURNAL = "journal.json"
_KEPT = "kept.json"


class _Entry(msgspec.Struct, frozen=True):
    """A path that a build writes: where its bytes of before are kept; None when there was no such file."""

    path: str
    saved: str | None


class _Journal(msgspec.Struct, frozen=True):
    """`directories` are those made for the entries, the deepest first."""

    entries: tuple[_Entry, ...]
    directories: tuple[str, ...]


def restore(keep: Path) -> int:
    """Put back what an ended build had replaced, as the journal in `keep` says; returns how many files.

    May be killed and run again at any point. Raises `InvalidData` for a journal that cannot be read.
    """
    path = keep / _JOURNAL
    if not path.exists():
        # Copies without a journal: killed before anything was written.
        remove_tree(keep)
        return 0
    try:
        journal = msgspec.json.decode(path.read_bytes(), type=_Journal)
    except msgspec.DecodeError as error:
        raise InvalidData(
            f"the record of what a build had replaced cannot be read: {error}",
            where=path,
            next_step="look at the checkout with `git status`, then delete this directory",
        ) from error
    for entry in journal.entries:
        target = Path(entry.path)
        try:
            if entry.saved is None:
                target.unlink(missing_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(keep / entry.saved, target)
        except OSError as error:
            raise disk_error(error, target) from error
    for directory in journal.directories:
        if Path(directory).is_dir() and not any(Path(directory).iterdir()):
            Path(directory).rmdir()
    path.unlink()
    remove_tree(keep)
    if keep.parent.is_dir() and not any(keep.parent.iterdir()):
        keep.parent.rmdir()
    return len(journal.entries)


@contextmanager
def written(
    keep: Path,
    directory: Path,
    generated: Mapping[str, str],
    copied: Mapping[str, str],
    absent: Collection[str] = (),
) -> Iterator[None]:
    """Write files below `directory` for the time of the block: `generated` are texts, `copied` file paths.

    Those named in `absent` are away meanwhile. `keep` holds the journal and is gone afterwards. Raises
    `InvalidInput` for a path that leads out of the directory or a file to copy that is not there; then
    nothing was written.
    """
    targets = {name: _below(directory, name) for name in (*generated, *copied, *absent)}
    sources = {name: _one_file(pattern) for name, pattern in copied.items()}
    if targets:
        _remember(keep, list(targets.values()), directory)
    try:
        for name in absent:
            targets[name].unlink(missing_ok=True)
        for name, text in generated.items():
            _write(targets[name], text)
        for name, source in sources.items():
            targets[name].parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, targets[name])
        yield
    finally:
        if targets:
            restore(keep)


def write_and_keep(
    own: Path, directory: Path, generated: Mapping[str, str], copied: Mapping[str, str]
) -> None:
    """Write the same files for good: an editable install imports them from the tree.

    Their names are remembered in `own`; those of an earlier editable install that are no longer wanted go.
    """
    names = {*generated, *copied}
    for name in kept_files(own):
        if name not in names:
            _below(directory, name).unlink(missing_ok=True)
    write_text(own / _KEPT, msgspec.json.encode(sorted(names)).decode())
    for name, text in generated.items():
        _write(_below(directory, name), text)
    for name, source in copied.items():
        shutil.copyfile(_one_file(source), _below(directory, name))


def kept_files(own: Path) -> tuple[str, ...]:
    """What an editable install left in the tree."""
    try:
        return msgspec.json.decode((own / _KEPT).read_bytes(), type=tuple[str, ...])
    except (OSError, msgspec.DecodeError):
        return ()


def _one_file(pattern: str) -> Path:
    """The file that a path or a pattern stands for; of several the last, which is the newest version."""
    path = Path(pattern)
    anchor = Path(path.anchor or ".")
    found = [path] if path.is_file() else sorted(anchor.glob(str(path.relative_to(path.anchor))))
    if not found or not found[-1].is_file():
        raise InvalidInput(
            f"{pattern}, which the build takes into its tree, was not found",
            where=pattern,
            next_step="install what provides it, or set the variable that says where it is",
        )
    return found[-1]


def _remember(keep: Path, targets: list[Path], directory: Path) -> None:
    make_directory(keep)
    entries = []
    for number, target in enumerate(targets):
        saved = None
        if target.exists() or target.is_symlink():
            saved = f"{number}-{target.name}"
            shutil.copy2(target, keep / saved)
        entries.append(_Entry(str(target), saved))
    missing = {
        parent
        for target in targets
        for parent in target.parents
        if directory in parent.parents and not parent.exists()
    }
    deepest = sorted(map(str, missing), key=len, reverse=True)
    write_text(keep / _JOURNAL, msgspec.json.encode(_Journal(tuple(entries), tuple(deepest))).decode())


def _write(path: Path, text: str) -> None:
    # A file with the same text keeps its time: nothing that depends on it is compiled again.
    if path.is_file() and path.read_bytes() == text.encode():
        return
    write_text(path, text)


def _below(directory: Path, name: str) -> Path:
    path = (directory / name).resolve()
    if directory.resolve() not in path.parents:
        raise InvalidInput(f"{name!r} lies outside of the tree {directory}", where=directory)
    return path
