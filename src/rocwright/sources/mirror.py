"""Keeps what was fetched, so that a second checkout anywhere on this machine fetches nothing again.

A mirror is a bare repository for each host and path; `mirror_key` names it. It only grows, one pack a fetch,
and every pack it was made of is on record, so that a lost or cut one is noticed. A checkout gets hard links
of the packs: it costs no room, takes no time, and depends on nothing afterwards. Git's own way of sharing
(alternates) breaks every checkout with the mirror.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from urllib.parse import unquote_to_bytes

import msgspec

from rocwright.errors import (
    CommandFailed,
    Interrupted,
    InvalidInput,
    NoSpace,
    RocwrightError,
    Unreachable,
)
from rocwright.sources.fetch import COMMITS, fetch_from, is_complete, is_fetched, noting
from rocwright.sources.watch import NOBODY, Watch
from rocwright.system import files, git, locks
from rocwright.system.git import Git
from rocwright.system.remote import PAUSES_S

_LOCKS, _UNDER_WAY, _DAMAGED = ".locks", ".partial", ".damaged"
_SETTINGS = {
    "core.bare": "true",
    "core.logAllRefUpdates": "false",
    # Whoever runs git here by hand removes nothing that a run relies on.
    "gc.auto": "0",
    "gc.pruneExpire": "never",
    "maintenance.auto": "false",
    # Commits that no ref names are handed out too.
    "uploadpack.allowAnySHA1InWant": "true",
}
# What git says of a repository that lost something, as opposed to a server that does not answer.
_BROKEN = re.compile(
    r"^(?!remote:).*(?:not a git repository|bad (?:object|ref|config)|corrupt|did not send all necessary"
    r"|loose object|unable to resolve reference|reference broken|unknown object type"
    r"|unable to read (?:sha1|tree)|missing (?:blob|tree|commit)|packfile .*(?:cannot|is|does)"
    r"|index file .*(?:is|has)|inflate)",
    re.IGNORECASE | re.MULTILINE,
)


def default_root() -> Path:
    """Where mirrors live: $ROCWRIGHT_MIRRORS, else `rocwright/git` of the user's cache directory."""
    given = os.environ.get("ROCWRIGHT_MIRRORS")
    if given:
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "rocwright" / "git"


class Mirrors(msgspec.Struct, frozen=True):
    """The mirrors below one directory; safe for several threads and runs at the same time.

    `pauses_s`: how long to wait before each further try when the network fails.
    """

    root: Path
    pauses_s: Sequence[float] = PAUSES_S

    def key(self, origin: str) -> PurePosixPath | None:
        """Where the mirror of `origin` lies below the root: `github.com/pytorch/pytorch.git`.

        `None` for a repository of this machine, which needs no mirror.
        """
        return mirror_key(origin)

    def repository(self, origin: str) -> Git | None:
        """The mirror of `origin`; `None` where there is none, or none that is whole."""
        key = self.key(origin)
        place = None if key is None else self.root / key
        return _at(place) if place is not None and has_its_packs(place) else None

    def fetch(
        self,
        origin: str,
        commit: str,
        *,
        ref: str | None = None,
        watch: Watch = NOBODY,
        name: str = "",
        log: Path | None = None,
    ) -> Git | None:
        """Bring a commit with its history into the mirror of `origin`, which is made when there is none.

        Others that want this mirror wait for their turn and then find what is there. A mirror that is
        damaged is made anew. `None` for an origin that is not mirrored. Raises as `fetch_from` does.
        """
        key = self.key(origin)
        if key is None:
            return None
        place = self.root / key
        mirror = _at(place, log)
        with suppress(CommandFailed):
            if has_its_packs(place) and is_fetched(mirror, commit):
                return mirror

        def waiting() -> None:
            watch.note(name, "waiting for another run that fetches it")

        with self._turn(key, waiting):
            if has_its_packs(place):
                try:
                    if is_complete(mirror, commit):
                        return mirror
                    self._fetch(mirror, origin, commit, ref, watch, name)
                    return mirror
                except (CommandFailed, Unreachable) as error:
                    if not _BROKEN.search(_said(error)):
                        raise
            if place.exists():
                watch.note(name, "its mirror is damaged and made anew")
                self._remove(key)
            self._make(key, origin, commit, ref, watch, name, log)
            return mirror

    def _fetch(self, mirror: Git, origin: str, commit: str, ref: str | None, watch: Watch, name: str) -> None:
        note = noting(watch, name)
        fetch_from(mirror, origin, commit, ref=ref, note=note, pauses_s=self.pauses_s)
        record_packs(mirror)

    def _make(
        self,
        key: PurePosixPath,
        origin: str,
        commit: str,
        ref: str | None,
        watch: Watch,
        name: str,
        log: Path | None,
    ) -> None:
        """Fill a new mirror beside its place, then put it there: what has the name was fetched to its end."""
        fresh = self.root / _UNDER_WAY / key
        files.remove_tree(fresh)
        try:
            self._fetch(_init(fresh, log), origin, commit, ref, watch, name)
            files.make_directory((self.root / key).parent)
            fresh.rename(self.root / key)
        finally:
            files.remove_tree(fresh)

    def _remove(self, key: PurePosixPath) -> None:
        aside = self.root / _DAMAGED / key
        files.remove_tree(aside)
        files.make_directory(aside.parent)
        (self.root / key).rename(aside)
        files.remove_tree(aside)

    @contextmanager
    def _turn(self, key: PurePosixPath, waiting: locks.Waiting = locks.silently) -> Iterator[None]:
        with ExitStack() as stack:
            try:
                path = (self.root / _LOCKS / key).with_name(key.name + ".lock")
                stack.enter_context(locks.turn(path, waiting))
            except InvalidInput as error:
                raise InvalidInput(
                    f"no mirror can be kept in {self.root}: {error.what}",
                    where=self.root,
                    next_step="make it writable, or give --mirror-dir DIR or --no-mirror",
                ) from error
            yield

    def share(self, mirror: Git, into: Git, commit: str) -> None:
        """Give a commit of a mirror, with its history, to a repository that will not depend on the mirror.

        Raises a `RocwrightError` when the mirror cannot give it.
        """
        _give(mirror, COMMITS + commit, commit, into)

    def keep(self, origin: str, commit: str, ref: str, source: Git) -> None:
        """Keep a commit of `source` under `ref` in the mirror of `origin`.

        Does nothing where there is no mirror, it lacks the commit's parents (they would not be complete) or
        it cannot be read or written: it is only a cache.
        """
        mirror, key = self.repository(origin), self.key(origin)
        if mirror is None or key is None:
            return
        try:
            parents = source.run("rev-parse", f"{commit}^@").split()
            if mirror.refs(ref).get(ref) == commit or not all(is_complete(mirror, p) for p in parents):
                return
            with self._turn(key):
                mirror.fetch(str(source.git_dir), f"{commit}:{ref}")
                record_packs(mirror)
        except (Interrupted, NoSpace):
            raise
        except RocwrightError:
            return

    def find(self, origin: str, ref: str, into: Git) -> str | None:
        """The commit kept under `ref`, brought into a repository under the same ref; else `None`."""
        mirror = self.repository(origin)
        if mirror is None:
            return None
        try:
            commit = mirror.refs(ref).get(ref)
            if commit is not None:
                _give(mirror, ref, commit, into)
        except (Interrupted, NoSpace):
            raise
        except RocwrightError:
            # Only a cache: what it cannot give is made again.
            return None
        return commit


def _at(place: Path, log: Path | None = None) -> Git:
    return Git(place, place, log)


def _said(error: RocwrightError) -> str:
    cause = error.__cause__
    return error.tail if isinstance(error, CommandFailed) else getattr(cause, "tail", "")


def _init(place: Path, log: Path | None) -> Git:
    files.make_directory(place)
    mirror = git.init(place, place, log=log)
    mirror.run("config", "--local", "--unset", "core.worktree", ok=(0, 5))
    for setting, value in _SETTINGS.items():
        mirror.run("config", "--local", setting, value)
    return mirror


def _give(mirror: Git, ref: str, commit: str, into: Git) -> None:
    """Set `ref` of a repository to a commit of a mirror, of which it gets links, else copies."""
    linked: list[Path] = []
    try:
        _link_packs(mirror, into, linked)
        into.set_ref(ref, commit)
    except (OSError, CommandFailed):
        # Another file system or owner, or a join of packs that removed what was being linked. What cannot
        # be read would hide what is fetched instead.
        for path in reversed(linked):
            path.unlink(missing_ok=True)
        into.fetch(str(mirror.git_dir), f"{commit}:{ref}")


# -- packs: what a mirror was made of, whether all of it is still there, and a checkout's links

_RECORD = "rocwright-packs.json"
# More packs than this make every look-up slow; then the small ones are joined.
_MANY = 40
_DIGEST_BYTES = 20


def record_packs(mirror: Git) -> None:
    """Write down the packs that a mirror has; joins small ones when there are many."""
    packs = _pack_directory(mirror.git_dir)
    if len([*packs.glob("*.pack")]) > _MANY:
        mirror.run("repack", "-d", "-q", "--geometric=2", "--no-write-bitmap-index")
    found = [path for ending in ("pack", "idx") for path in packs.glob(f"*.{ending}")]
    sizes = {path.name: path.stat().st_size for path in found}
    files.write_text(mirror.git_dir / _RECORD, msgspec.json.encode(sizes, order="sorted").decode() + "\n")


def has_its_packs(git_dir: Path) -> bool:
    """Whether a mirror is there with all of its recorded packs, none of them cut.

    A pack ends with its digest, which its index repeats: this reads a few bytes, whatever the size.
    """
    packs = _pack_directory(git_dir)
    try:
        sizes = msgspec.json.decode((git_dir / _RECORD).read_bytes(), type=dict[str, int])
        return (git_dir / "HEAD").is_file() and all(
            (packs / name).stat().st_size == size and _agrees_with_index(packs / name)
            for name, size in sizes.items()
        )
    except (OSError, msgspec.DecodeError):
        return False


def _link_packs(mirror: Git, into: Git, linked: list[Path]) -> None:
    """Give a repository every pack of a mirror as hard links; adds those to `linked`.

    Raises `OSError` where that is not possible.
    """
    source, target = _pack_directory(mirror.git_dir), _pack_directory(into.git_dir)
    # A pack is complete when its index is there; git finds it by the index, so that comes last here too.
    for index in sorted(source.glob("pack-*.idx")):
        for path in (index.with_suffix(".pack"), index.with_suffix(".rev"), index):
            if not (target / path.name).exists() and (path.suffix != ".rev" or path.exists()):
                os.link(path, target / path.name)
                linked.append(target / path.name)


def _pack_directory(git_dir: Path) -> Path:
    return git_dir / "objects" / "pack"


def _agrees_with_index(path: Path) -> bool:
    return path.suffix != ".pack" or _digest(path, 1) == _digest(path.with_suffix(".idx"), 2)


def _digest(path: Path, back: int) -> bytes:
    """The digest that stands `back` digests before the end of a file."""
    with path.open("rb") as stream:
        stream.seek(-back * _DIGEST_BYTES, os.SEEK_END)
        return stream.read(_DIGEST_BYTES)


# -- one name for one repository of a server, however its address is spelled; a safe path anywhere

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<server>[^/]*)/*(?P<path>.*)", re.DOTALL)
_SCP = re.compile(r"(?P<server>(?:[^@/]*@)?(?:\[[^]]*\]|[^:\[]*)):(?P<path>.*)", re.DOTALL)
_PORT = re.compile(r"(?P<host>.*?)(?::(?P<port>\d*))?", re.DOTALL)
_USUAL_PORT = {"https": "443", "http": "80", "ssh": "22", "git+ssh": "22", "ssh+git": "22", "git": "9418"}
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.+")
# Names that Windows keeps for devices, with any ending.
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)
_LONGEST = 100


def mirror_key(origin: str) -> PurePosixPath | None:
    """Host and path of an address: `git@github.com:a/b` and `https://github.com/a/b/` → `github.com/a/b.git`.

    Folded are scheme, login, a usual port, the letters' case of the host, `.git` and spare slashes. Other
    than plain characters are spelled `%41`, so different repositories have different keys. `None` for a
    repository of this machine and for an address without a path.
    """
    if git.is_local(origin):
        return None
    found = _URL.fullmatch(origin)
    scheme = found["scheme"].lower() if found else "ssh"
    found = found or _SCP.fullmatch(origin)
    if found is None:
        return None
    server = found["server"].rpartition("@")[2]
    path = unquote_to_bytes(found["path"]) if scheme != "ssh" or "://" in origin else found["path"].encode()
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    host = _host(server, scheme)
    if not parts or host is None:
        return None
    parts[-1] = parts[-1].removesuffix(b".git") or parts[-1]
    *above, last = [_safe(part) for part in parts]
    # A mirror's directory ends in .git, no other does: none lies inside another.
    above = [re.sub(r"\.(?=git$)", "%2E", part, flags=re.IGNORECASE) for part in above]
    return PurePosixPath(host, *above, last + ".git")


def _host(server: str, scheme: str) -> str | None:
    split = _PORT.fullmatch(server)
    host, port = (server, None) if split is None else (split["host"], split["port"])
    name = host.lower().rstrip(".")
    if not name:
        return None
    return _safe((name if port in (None, "", _USUAL_PORT.get(scheme)) else f"{name}:{port}").encode())


def _safe(part: bytes) -> str:
    text = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in part)
    # Neither hidden nor `..`, and nothing that Windows takes for something else.
    if text.startswith(".") or _DEVICE.match(text):
        text = f"%{ord(text[0]):02X}" + text[1:]
    if text.endswith("."):
        text = text[:-1] + "%2E"
    if len(text) <= _LONGEST:
        return text
    return text[: _LONGEST - 20] + "%%" + hashlib.sha256(part).hexdigest()[:16]
