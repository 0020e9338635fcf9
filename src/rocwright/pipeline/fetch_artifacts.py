"""Fetch a run's artifacts out of a store into a folder of artifact directories, resumed where it stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock

import msgspec

from rocwright.errors import InvalidData, InvalidInput
from rocwright.sdk.intake.archives import unpack_artifacts
from rocwright.store.objects.protocol import ObjectStore, download
from rocwright.store.runs.artifacts import SIDECAR, ArtifactArchive, RunArtifacts
from rocwright.system.files import atomic_write, make_directory, remove_tree, require_space, write_text
from rocwright.system.parallel import in_order

# Hidden: whoever packages the artifacts does not take them for an artifact.
STATE = ".rocwright-fetch.json"
_WORK = ".rocwright-fetch"


class FetchState(msgspec.Struct, frozen=True):
    """What lies in a folder: the address of the run it is of, and the sha256 of each artifact's archive."""

    run: str
    artifacts: dict[str, str]


class Fetched(msgspec.Struct, frozen=True):
    """Artifacts in a folder, by name; `kept` were there already."""

    directory: str
    run_id: str
    platform: str
    artifacts: tuple[str, ...]
    kept: tuple[str, ...]
    unverified: tuple[str, ...]
    size: int


def fetch_artifacts(
    store: ObjectStore,
    found: RunArtifacts,
    dest: Path,
    *,
    unpack: bool = True,
    threads: int = 4,
    note: Callable[[str], None] = lambda _: None,
) -> Fetched:
    """Download, compare and unpack the archives, several at once; each artifact is there whole or not.

    Without `unpack` the archives themselves go to `dest`, each with a sidecar that says its sha256. What
    an earlier call completed is kept. Raises `InvalidInput` where `dest` contains artifacts of another run or
    of somebody else, `IntegrityError`, `InvalidArchive`, `Unreachable`, `NoSpace`.
    """
    dest = dest.resolve()
    state = _read_state(dest, store.url(found.run.folder))
    make_directory(dest)
    wanted, kept = _missing(found, dest, state, unpack=unpack)
    # Archives and what is in them lie there for a moment together; unpacking looks for itself.
    require_space(dest, sum(one.size for one in wanted), purpose=f"fetching {len(wanted)} artifacts")
    work = dest / _WORK
    lock = Lock()

    def one(archive: ArtifactArchive) -> None:
        name = archive.key.rpartition("/")[2]
        path = work / name
        digest = download(store, archive.key, path, archive.sha256)
        unpacked = work / f"{archive.artifact}.unpacked"
        if unpack:
            unpack_artifacts([path], unpacked, threads=1)
        # Noted before it is there: what is there and not noted would be taken for somebody else's.
        with lock:
            state.artifacts[_stamp(archive, unpack)] = digest
            _write_state(dest, state)
        if unpack:
            (unpacked / archive.artifact).rename(dest / archive.artifact)
            path.unlink()
        else:
            write_text(dest / f"{name}{SIDECAR}", f"{digest}  {name}\n")
            path.rename(dest / name)
        note(f"fetched {archive.artifact}")

    largest_first = sorted(wanted, key=lambda archive: (-archive.size, archive.artifact))
    for _ in in_order(one, ((archive, 0) for archive in largest_first), threads=threads, window=1):
        pass
    remove_tree(work)
    return Fetched(
        directory=str(dest),
        run_id=found.run.run_id,
        platform=found.run.platform,
        artifacts=tuple(archive.artifact for archive in found.archives),
        kept=kept,
        unverified=tuple(archive.artifact for archive in found.archives if archive.sha256 is None),
        size=found.size,
    )


def _stamp(archive: ArtifactArchive, unpack: bool) -> str:
    return archive.artifact if unpack else archive.key.rpartition("/")[2]


def _missing(
    found: RunArtifacts, dest: Path, state: FetchState, *, unpack: bool
) -> tuple[list[ArtifactArchive], tuple[str, ...]]:
    wanted, kept, foreign = [], [], []
    for archive in found.archives:
        name = _stamp(archive, unpack)
        there = (dest / name).exists()
        known = state.artifacts.get(name)
        if there and known is None:
            foreign.append(name)
        elif there and archive.sha256 in (None, known):
            kept.append(archive.artifact)
        else:
            remove_tree(dest / name)
            wanted.append(archive)
    if foreign:
        raise InvalidInput(
            f"{dest.name} contains artifacts that were not fetched into it: {', '.join(foreign)}",
            where=dest,
            next_step="name another directory, or move them away",
        )
    return wanted, tuple(kept)


def _read_state(dest: Path, run: str) -> FetchState:
    path = dest / STATE
    if dest.exists() and not dest.is_dir():
        raise InvalidInput(f"{dest} is not a directory", where=dest, next_step="name another one")
    if not path.is_file():
        return FetchState(run, {})
    try:
        state = msgspec.json.decode(path.read_bytes(), type=FetchState)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidData(
            f"{path} is damaged: {error}", where=path, next_step="remove the directory and fetch again"
        ) from error
    if state.run != run and state.artifacts:
        raise InvalidInput(
            f"{dest.name} contains artifacts of another run, and two runs must not mix: {state.run}",
            where=dest,
            next_step="name another directory for this run",
        )
    return FetchState(run, dict(state.artifacts))


def _write_state(dest: Path, state: FetchState) -> None:
    with atomic_write(dest / STATE) as stream:
        stream.write(msgspec.json.encode(state, order="sorted"))
