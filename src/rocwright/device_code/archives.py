"""Write the code of split libraries into one archive for each target, also that of a single library.

Code objects stream from where they lie into zstd frames on several threads; each frame is unpacked again and
compared with the original before it counts.
"""

from __future__ import annotations

import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import IO

import msgspec
import zstandard

from rocwright.binary.view import Mapped, mapped
from rocwright.device_code.fatbin import Bundle, CodeObject, code_in, device_code
from rocwright.device_code.kpack import DIRECTORY, PLACEHOLDER, SUFFIX, ArchiveWriter, Entry, Marker
from rocwright.device_code.split import Kept, LibraryPlan, plan_library
from rocwright.device_code.unpack import PackedStream, require_hash, unpack
from rocwright.errors import IntegrityError, InvalidInput, UsageError
from rocwright.model.gpu import is_target, less_specific, parse_target
from rocwright.system.files import CHUNK, atomic_write
from rocwright.system.parallel import in_order
from rocwright.system.progress import counted

DEFAULT_LEVEL = 3
# What waits for a thread, in bytes. Code that lies in a file takes no memory, but its frame will: it counts
# by a part of its size, and so that each thread has one at work and two that wait or are done.
_WINDOW = 24 << 20
_SHARE, _EACH = 3, 3
_LARGE = 1 << 20
_PIECE = 256 << 10
_HASH_LOG, _CHAIN_LOG = 16, 15


class Stored(msgspec.Struct):
    """What went into the archives: for each target code objects, their bytes, and the archive's bytes.

    `identical` of the code objects were proven; `repeated` were put into a more specific archive as well.
    """

    objects: Counter[str] = msgspec.field(default_factory=Counter)
    unpacked: Counter[str] = msgspec.field(default_factory=Counter)
    packed: Counter[str] = msgspec.field(default_factory=Counter)
    identical: int = 0
    repeated: int = 0


class _Item(msgspec.Struct, frozen=True):
    """A code object on its way into an archive."""

    plan: LibraryPlan
    indices: tuple[int, ...]
    code: CodeObject
    data: memoryview


class _Unpacked(msgspec.Struct, frozen=True):
    """A bundle whose hash is still to be compared."""

    file: Mapped
    packed: PackedStream
    data: bytes


class _Frame(msgspec.Struct, frozen=True):
    """A compressed code object; holds nothing of the library."""

    kernel: str
    build: str
    indices: tuple[int, ...]
    code: CodeObject
    data: bytes


def store(
    plans: Iterable[LibraryPlan],
    path_of: Callable[[str], Path],
    group: str,
    *,
    level: int = DEFAULT_LEVEL,
    threads: int = 2,
    prove: bool = True,
    verified: bool = False,
) -> Stored:
    """Write the code of all plans into one archive for each target, at `path_of(target)`.

    `plans` may be made on the way. Bytes do not depend on `threads`. All archives appear whole at the end or
    not at all. `prove` unpacks every frame again and compares it with its code object; only those count as
    `identical`. It also compares each compressed bundle with its hash, unless the files were `verified` by
    digests of their own. Raises `InvalidBundle` for damaged code, `IntegrityError` when a frame differs.
    """
    stored = Stored()
    with ExitStack() as open_files:
        archives: dict[str, ArchiveWriter] = {}
        work = _Packer(level, prove)
        items = _items(plans, threads, prove and not verified)
        total = sum(map(_code_size, plans)) if isinstance(plans, Sequence) else None
        with (
            counted("compressing device code", total) as count,
            closing(in_order(work, items, threads=threads, window=_WINDOW)) as outcomes,
        ):
            for frame in filter(None, outcomes):
                count.add(frame.code.size)
                target = frame.code.target
                if target not in archives:
                    stream = open_files.enter_context(atomic_write(path_of(target)))
                    archives[target] = ArchiveWriter(stream, group, target)
                _enter(archives[target], frame, stored)
                stored.identical += len(frame.indices) if prove else 0
        stored.repeated = _complete(archives)
        for target, archive in archives.items():
            archive.close()
            stored.packed[target] = _length(archive.stream)
    return stored


def _code_size(plan: LibraryPlan) -> int:
    return sum(code.size for bundle, _ in plan.bundles for code in bundle.entries if code.target)


def _complete(archives: dict[str, ArchiveWriter]) -> int:
    """Repeat code in more specific archives that lack it; returns how often.

    On `gfx90a:xnack-` the runtime opens the archive for that, if there is one, and older ones then look
    nowhere else (ROCm/TheRock 7081). Code that was built for plain `gfx90a` has to be found there too.
    """
    repeated = 0
    for text, archive in sorted(archives.items()):
        target = parse_target(text)
        have = {(entry.kernel, entry.index) for entry in archive.entries}
        for other in map(str, less_specific(target, map(parse_target, archives))):
            ordinals: dict[int, int] = {}
            for entry in list(archives[other].entries):
                if (entry.kernel, entry.index) in have:
                    continue
                if entry.ordinal not in ordinals:
                    ordinals[entry.ordinal] = archive.add(archives[other].frame(entry.ordinal))
                build = archives[other].builds.get(entry.kernel, "")
                archive.enter(
                    msgspec.structs.replace(entry, target=text, ordinal=ordinals[entry.ordinal]), build
                )
                have.add((entry.kernel, entry.index))
                repeated += 1
    return repeated


def _length(stream: IO[bytes]) -> int:
    return stream.seek(0, 2)


def _enter(archive: ArchiveWriter, frame: _Frame, stored: Stored) -> None:
    ordinal = archive.add(frame.data)
    code = frame.code
    for index in frame.indices:
        archive.enter(Entry(frame.kernel, index, code.target, ordinal, code.size, code.id), frame.build)
        stored.objects[code.target] += 1
    stored.unpacked[code.target] += code.size


_Job = _Item | _Unpacked | None  # something to do for a thread, or nothing


def _items(plans: Iterable[LibraryPlan], threads: int, hashed: bool) -> Iterator[tuple[_Job, int]]:
    """Code objects with their weight in bytes; with `hashed`, before them the unpacked bundle they lie in.

    An unpacked bundle stays in memory until its last code object is done. Before the next one is unpacked a
    weight that fills the window makes the threads finish, unless both fit beside each other.
    """
    unpacked, least = 0, _WINDOW // (_EACH * threads)
    for plan in plans:
        largest = max(bundle.memory for bundle, _ in plan.bundles)
        for bundle, indices in plan.bundles:
            if bundle.memory and unpacked + bundle.memory > max(largest, _WINDOW):
                yield None, _WINDOW
            unpacked = bundle.memory
            # In a frame of its own, whose variables do not hold this bundle while the next is unpacked.
            yield from _code_of(plan, bundle, indices, least, hashed)


def _code_of(
    plan: LibraryPlan, bundle: Bundle, indices: tuple[int, ...], least: int, hashed: bool
) -> Iterator[tuple[_Job, int]]:
    if bundle.packed is None:
        found = device_code(plan.file, bundle)
    else:
        unpacked = unpack(plan.file, bundle.packed)
        if hashed:
            # Weighs nothing: it is done before the code objects in it, which weigh as much as all of it.
            yield _Unpacked(plan.file, bundle.packed, unpacked), 0
        found = code_in(bundle, unpacked)
    for code, data in found:
        weight = code.size if bundle.memory else max(least, code.size // _SHARE)
        yield _Item(plan, indices, code, data), weight


def _compressor(level: int, large: bool) -> zstandard.ZstdCompressor:
    """A compressor whose frames depend on nothing but level and input, and tell when a bit of them flips."""
    if level != DEFAULT_LEVEL or not large:
        return zstandard.ZstdCompressor(level=level, write_checksum=True)
    # Tables of half the size stay in a core's own cache: 9 % less CPU for 0.5 % more bytes (rocSPARSE).
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level, hash_log=_HASH_LOG, chain_log=_CHAIN_LOG, write_checksum=True
    )
    return zstandard.ZstdCompressor(compression_params=parameters)


class _Packer:
    """Compresses one code object and proves the frame, or compares a bundle's hash; runs on any thread."""

    def __init__(self, level: int, prove: bool) -> None:
        self.level, self.prove = level, prove
        self.tools = threading.local()

    def __call__(self, item: _Job) -> _Frame | None:
        if isinstance(item, _Unpacked):
            require_hash(item.file, item.packed, item.data)
        return self._frame(item) if isinstance(item, _Item) else None

    def _frame(self, item: _Item) -> _Frame:
        if not hasattr(self.tools, "packers"):
            self.tools.packers = {large: _compressor(self.level, large) for large in (False, True)}
            self.tools.unpacker = zstandard.ZstdDecompressor()
            self.tools.piece = bytearray(_PIECE)
        frame: bytes = self.tools.packers[len(item.data) >= _LARGE].compress(item.data)
        if self.prove and not self._gives_back(frame, item.data):
            raise IntegrityError(
                f"code for {item.code.target} of {item.plan.kernel} did not survive compression",
                where=item.plan.file.path,
            )
        return _Frame(item.plan.kernel, item.plan.build, item.indices, item.code, frame)

    def _gives_back(self, frame: bytes, data: memoryview) -> bool:
        """Whether a frame unpacks to exactly these bytes, in pieces that stay in the processor's cache."""
        piece = self.tools.piece
        done = 0
        with self.tools.unpacker.stream_reader(frame) as stream:
            while got := stream.readinto(piece):
                # startswith compares any buffer without copying it.
                if done + got > len(data) or not piece.startswith(data[done : done + got]):
                    return False
                done += got
        return done == len(data)


class LibrarySplit(msgspec.Struct, frozen=True):
    """What became of one file: sizes in bytes; `archives` maps a target to its archive's size.

    `kept` is why the file stays whole (it was copied), None when it was split.
    """

    name: str
    fat_size: int
    host_size: int
    archives: dict[str, int]
    objects: int
    identical: int
    kept: str | None = None


def split_library(
    path: Path, dest: Path, *, level: int = DEFAULT_LEVEL, threads: int = 2, prove: bool = True
) -> LibrarySplit | None:
    """Write the host file to `dest` and its archives to `dest/.kpack`; None for a file without device code.

    A file that cannot be split is copied. Archives of an earlier split of the same file are replaced, those
    for targets it has no code for any more are removed. `prove` as for `store`. Raises `InvalidElf`,
    `InvalidBundle`, `NoSpace`, and `UsageError` when the output would overwrite the input; then nothing is
    written.
    """
    target = dest / path.name
    if target.exists() and path.exists() and target.samefile(path):
        raise UsageError(f"{target} would be overwritten", next_step="choose another --output-dir")
    if not path.is_file():
        raise InvalidInput(
            f"{path} is not a file", where=path, next_step="name a file that is there: `ls` shows them"
        )
    name = path.name
    marker = Marker((f"{DIRECTORY}/{name}_{PLACEHOLDER}{SUFFIX}",), name)
    with mapped(path) as file:
        plan = plan_library(file, marker)
        if plan is None:
            return None
        stored = Stored()
        pieces = plan.host.pieces() if isinstance(plan, LibraryPlan) else _whole(path)
        # The host file appears last: without its archives it would be useless.
        with atomic_write(target) as stream:
            for piece in pieces:
                stream.write(piece)
            Path(stream.name).chmod(stat.S_IMODE(path.stat().st_mode))
            if isinstance(plan, LibraryPlan):
                stored = store(
                    [plan],
                    lambda t: _archive(dest, name, t),
                    name,
                    level=level,
                    threads=threads,
                    prove=prove,
                )
        _remove_stale(dest, name, stored)
    return LibrarySplit(
        name=name,
        fat_size=path.stat().st_size,
        host_size=target.stat().st_size,
        archives=dict(sorted(stored.packed.items())),
        objects=plan.objects if isinstance(plan, LibraryPlan) else 0,
        identical=stored.identical,
        kept=plan.reason if isinstance(plan, Kept) else None,
    )


def _archive(dest: Path, name: str, target: str) -> Path:
    return dest / DIRECTORY / f"{name}_{target}{SUFFIX}"


def _whole(path: Path) -> Iterable[bytes]:
    with path.open("rb") as stream:
        while piece := stream.read(CHUNK):
            yield piece


def _remove_stale(dest: Path, name: str, stored: Stored) -> None:
    """An archive of an earlier split would hand out code that belongs to another host file."""
    if not stored.packed:
        return
    for archive in (dest / DIRECTORY).glob(f"*{SUFFIX}"):
        prefix, text = archive.name[: len(name) + 1], archive.name[len(name) + 1 : -len(SUFFIX)]
        if prefix == f"{name}_" and text not in stored.packed and is_target(text):
            archive.unlink()
