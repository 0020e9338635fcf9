"""Files and directories of cells: into the store under their digest, and out of it to their place here."""

from __future__ import annotations

import hashlib
import os
import posixpath
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import zstandard

from rocwright.engine.changes import Left, leave, still_left
from rocwright.errors import IntegrityError, InvalidArchive, InvalidInput
from rocwright.pipeline.records import CellOutput, Machine, Record
from rocwright.store.layout import file_key, is_key
from rocwright.store.lease import PIPELINE
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import download
from rocwright.store.pool import is_distribution
from rocwright.system.console import human_bytes
from rocwright.system.files import (
    atomic_directory,
    atomic_write,
    make_directory,
    remove_tree,
    require_space,
    sha256_file,
    walk_files,
    write_text,
)
from rocwright.system.links import make_link
from rocwright.system.locks import turn
from rocwright.system.tarballs import bounded_members, opened_tar

Say = Callable[[str], None]
# Notes of what was compared, objects under way: of this machine only.
_OWN = ".fetched"
# A packed tree takes this much of its size when it is unpacked beside itself.
_UNPACKED = 5
# Times of files say when a machine worked, not what it made; zip archives know none before 1980.
_TIME = 315_619_200
_LEVEL = 3
SUFFIX = ".tar.zst"


class _Known(msgspec.Struct, frozen=True):
    """An output as it was left here, and the digest of its object."""

    left: Left
    sha256: str


def put_outputs(machine: Machine, paths: Iterable[Path], say: Say) -> tuple[CellOutput, ...]:
    """Put files and directories into the store; what is there already is not sent again.

    What lies in the store's own folder is there already. Raises `TypeError` for a path outside of the run's
    directory, which no other machine could find.
    """
    inside = machine.store.root if isinstance(machine.store, LocalStore) else None
    wanted = [path for path in paths if inside is None or not path.is_relative_to(inside)]
    return tuple(_put(machine, path, say) for path in wanted)


def _put(machine: Machine, path: Path, say: Say) -> CellOutput:
    if not path.is_relative_to(machine.work):
        raise TypeError(f"{path} lies outside of {machine.work}, so no other machine can have it")
    place = path.relative_to(machine.work).as_posix()
    if not path.is_dir():
        output = _put_file(machine, path, place, path.name, say)
    else:
        packed = machine.work / _OWN / f"{_name(place)}{SUFFIX}"
        say(f"packing {path.name}")
        try:
            pack_tree(path, packed, threads=machine.jobs)
            output = msgspec.structs.replace(
                _put_file(machine, packed, place, f"{path.name}{SUFFIX}", say), tree=True
            )
        finally:
            packed.unlink(missing_ok=True)
    _note(machine, output, path)
    return output


def _put_file(machine: Machine, path: Path, place: str, name: str, say: Say) -> CellOutput:
    digest = sha256_file(path)
    name = name if is_key(name) else "file"
    key = file_key(digest, name) if is_distribution(path) else f"{PIPELINE}objects/{digest}/{name}"
    size = path.stat().st_size
    there = machine.store.stat(key)
    if there is None:
        say(f"uploading {name} ({human_bytes(size)})")
    elif there.size != size:
        _drop(machine, key, say)
    try:
        machine.store.put_file(path, key)
    except IntegrityError:
        # Its key says what its bytes are, so one of the two is damaged.
        if sha256_file(path) != digest:
            raise
        _drop(machine, key, say)
        machine.store.put_file(path, key)
    return CellOutput(place, key, digest, size)


def _drop(machine: Machine, key: str, say: Say) -> None:
    say(f"warning: {key} was damaged in the store and is replaced")
    machine.store.delete(key)


def lost_outputs(machine: Machine, record: Record) -> list[str]:
    """What the store does not have any more of a record's files, as lines for people.

    In a folder their bytes are compared, once after each change; elsewhere their size, and their bytes when
    they are fetched.
    """
    return [line for output in record.outputs if (line := _lost(machine, output))]


def _lost(machine: Machine, output: CellOutput) -> str:
    there = machine.store.stat(output.key)
    if there is None:
        return f"{output.key} is not in the store any more"
    if there.size != output.size:
        return f"{output.key} has {there.size:,} bytes, but {output.size:,} were recorded"
    if not isinstance(machine.store, LocalStore):
        return ""
    path = machine.store.root / output.key
    note = machine.work / _OWN / "store" / f"{_name(output.key)}.json"
    if _still(note, path, output.sha256):
        return ""
    try:
        if sha256_file(path) != output.sha256:
            return f"{output.key} has other bytes than when it was recorded"
        _write_note(note, path, output.sha256)
    except FileNotFoundError:
        # Others take out what is damaged, too.
        return f"{output.key} is not in the store any more"
    return ""


def get_outputs(machine: Machine, records: Iterable[Record], say: Say) -> int:
    """Have every file of the records at its place here; gives how many had to be fetched.

    Raises `IntegrityError` where the store has other bytes, `NoSpace` before anything is fetched.
    """
    wanted = {output.path: output for record in records for output in record.outputs}
    missing = [output for output in wanted.values() if not _here(machine, output)]
    need = sum(output.size * (_UNPACKED if output.tree else 1) for output in missing)
    if need:
        require_space(machine.work, need, purpose="what earlier steps made")
    for output in missing:
        _get(machine, output, say)
    return len(missing)


def _target(machine: Machine, output: CellOutput) -> Path:
    path = (machine.work / output.path).resolve()
    if not path.is_relative_to(machine.work.resolve()) or path == machine.work.resolve():
        raise InvalidInput(
            f"a record names {output.path!r}, outside of the directory of the run",
            next_step="it was not written by this tool: give another --run-id",
        )
    return machine.work / output.path


def _get(machine: Machine, output: CellOutput, say: Say) -> None:
    path = _target(machine, output)
    own = machine.work / _OWN
    with turn(own / f"{_name(output.path)}.lock", lambda: say(f"waiting for {path.name}")):
        if _here(machine, output):
            return
        say(f"fetching {path.name} ({human_bytes(output.size)})")
        make_directory(path.parent)
        if not output.tree:
            if path.is_dir():
                remove_tree(path)
            download(machine.store, output.key, path, output.sha256)
        else:
            packed = own / f"{output.sha256}{SUFFIX}"
            download(machine.store, output.key, packed, output.sha256)
            unpack_tree(packed, path)
            packed.unlink(missing_ok=True)
        _note(machine, output, path)


def _here(machine: Machine, output: CellOutput) -> bool:
    path = _target(machine, output)
    if _still(_note_of(machine, output), path, output.sha256):
        return True
    try:
        if output.tree or not path.is_file() or path.stat().st_size != output.size:
            return False
        if sha256_file(path) != output.sha256:
            return False
        _note(machine, output, path)
    except FileNotFoundError:
        # Another cell of this place puts it there anew.
        return False
    return True


def _still(note: Path, path: Path, sha256: str) -> bool:
    try:
        known = msgspec.json.decode(note.read_bytes(), type=_Known)
        return known.sha256 == sha256 and still_left(path, known.left) is not None
    except (OSError, msgspec.DecodeError, InvalidInput):
        # No note; or another run or thread puts another tree there while we look.
        return False


def _note(machine: Machine, output: CellOutput, path: Path) -> None:
    _write_note(_note_of(machine, output), path, output.sha256)


def _write_note(note: Path, path: Path, sha256: str) -> None:
    left = leave(path) if path.is_dir() else leave(path, sha256=sha256)
    write_text(note, msgspec.json.encode(_Known(left, sha256)).decode())


def _note_of(machine: Machine, output: CellOutput) -> Path:
    return machine.work / _OWN / f"{_name(output.path)}.json"


def _name(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


# -- a directory as one object: a `.tar.zst` that is the same bytes for the same tree, and back


def pack_tree(root: Path, target: Path, *, threads: int) -> None:
    """Write the files and links below `root`, and its empty directories, to `target`.

    Names, contents, links and the right to execute are kept; times, owners and byte code caches are not.
    Raises `InvalidInput` for a link that leads out of the tree: it would lead elsewhere on another machine.
    """
    # With threads the same bytes whatever their number, other bytes than without.
    packer = zstandard.ZstdCompressor(level=_LEVEL, threads=max(1, threads))
    with (
        atomic_write(target) as stream,
        packer.stream_writer(stream, closefd=False) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted({*walk_files(root), *_empty(root)}):
            name = path.relative_to(root).as_posix()
            if "__pycache__" in name.split("/"):
                continue
            info = tarfile.TarInfo(name)
            info.mtime = _TIME
            if path.is_symlink():
                info.type, info.linkname = tarfile.SYMTYPE, _inside(name, os.readlink(path), root)  # noqa: PTH115
                archive.addfile(info)
            elif path.is_dir():
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(info)
            else:
                facts = path.stat()
                info.size, info.mode = facts.st_size, 0o755 if facts.st_mode & 0o100 else 0o644
                with path.open("rb") as content:
                    archive.addfile(info, content)


def _empty(root: Path) -> list[Path]:
    return [
        Path(here)
        for here, folders, names in os.walk(root)
        if not folders and not names and here != str(root)
    ]


def _inside(name: str, target: str, root: Path) -> str:
    if not _stays(name, target):
        raise InvalidInput(
            f"{name} is a link to {target}, out of the tree that is to be stored",
            where=root,
            next_step="make it a relative link to a file of the tree, or a file",
        )
    return target


def _stays(name: str, target: str) -> bool:
    led = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    return not target.startswith("/") and led != ".." and not led.startswith("../")


def unpack_tree(packed: Path, root: Path) -> None:
    """Put a packed tree at `root`, whole, in place of whatever was there.

    Raises `InvalidArchive` for what cannot be read or would write outside of `root`.
    """
    try:
        with atomic_directory(root) as fresh:
            _unpack(packed, fresh)
    except (tarfile.TarError, zstandard.ZstdError, EOFError, ValueError) as error:
        raise InvalidArchive(
            f"{packed.name} is not a packed tree: {error}", where=packed, next_step="delete it and run again"
        ) from error


def _unpack(packed: Path, fresh: Path) -> None:
    links: list[tuple[Path, str]] = []
    with (
        packed.open("rb") as stream,
        zstandard.ZstdDecompressor().stream_reader(stream) as content,
        opened_tar(content) as archive,
    ):
        for member in bounded_members(archive, packed.stat().st_size):
            if member.name.startswith("/") or ".." in member.name.split("/"):
                raise ValueError(f"{member.name} leaves it")
            path = fresh / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            if member.isdir():
                path.mkdir(exist_ok=True)
            elif member.issym() and _stays(member.name, member.linkname):
                # Last, so that nothing is written through a link.
                links.append((path, member.linkname))
            elif member.isfile():
                _write(archive, member, path)
            else:
                raise ValueError(f"{member.name} is not a file, directory or link inside of it")
    for path, target in links:
        remove_tree(path)
        make_link(path, target)


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    source = archive.extractfile(member)
    assert source is not None
    with source, path.open("wb") as stream:
        while piece := source.read(1 << 20):
            stream.write(piece)
    path.chmod(0o755 if member.mode & 0o100 else 0o644)
