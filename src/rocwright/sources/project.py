"""Sources of a project that stands on torch: what a user names, and bringing it: sdist, directory, commit.

Nothing of the sources is executed here, also not to find out what they are called.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote, urlsplit

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidSdistFilename, canonicalize_name, parse_sdist_filename
from packaging.version import InvalidVersion

from rocwright.errors import InvalidInput, UsageError
from rocwright.model.edits import Edit
from rocwright.model.project import TORCH, origin_problem
from rocwright.sources.checkout import checked_out
from rocwright.sources.identity import identity
from rocwright.sources.lock import LockedSource
from rocwright.sources.mirror import Mirrors
from rocwright.sources.sdist import changed_by, unpack
from rocwright.sources.watch import NOBODY, Watch
from rocwright.system import git
from rocwright.system.files import sha256_file, write_text
from rocwright.system.git import Git, shown

_NAMED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s+@\s+(?P<place>\S.*)")
_SDIST = ".tar.gz"
_HOW = "write NAME==VERSION, ./DIRECTORY, ./FILE.tar.gz or git+https://HOST/REPOSITORY@COMMIT#NAME"


class ProjectSource(msgspec.Struct, frozen=True):
    """Where a project's sources are, as a user names it.

    A `release` has a name and a version; a `path` (absolute) and a `git` repository at `ref` (a commit, tag
    or branch, empty for its default) have a `place`, and a name where that is told. `below` is the directory
    of a repository that has the project, empty for its top.
    """

    kind: Literal["release", "path", "git"]
    name: str = ""
    version: str = ""
    place: str = ""
    ref: str = ""
    below: str = ""

    def __str__(self) -> str:
        if self.kind == "release":
            return f"{self.name}=={self.version}"
        return self.place if self.kind == "path" else self.at(self.ref or "HEAD")

    def at(self, ref: str) -> str:
        """A repository at a commit, tag or branch, as pip writes it and it may be shown."""
        text = f"git+{shown(self.place)}@{ref}"
        return f"{text}#subdirectory={quote(self.below)}" if self.below else text


class ProjectTree(msgspec.Struct, frozen=True):
    """The sources of a project, ready to be read.

    `version` is empty where only the build knows it, `origin` where they came from, `sha256` that of an
    sdist, `commit` that of a repository. `date` is the time of the newest file or of the commit, in seconds
    since 1970, None for a directory of the user's. `changed` are the files of an sdist that were changed, as
    its project's row says, `edits` is the digest of those changes.
    """

    project: str
    directory: str
    version: str = ""
    origin: str = ""
    sha256: str = ""
    commit: str = ""
    date: int | None = None
    changed: tuple[str, ...] = ()
    edits: str = ""


# -- what is named


def parse_source(text: str, *, base: Path) -> ProjectSource:
    """What `--project` names; relative paths are below `base`.

    Raises `UsageError` for a text of another form, a version that is not exact, and torch itself.
    """
    text = text.strip()
    found = _NAMED.fullmatch(text)
    name, place = (canonicalize_name(found["name"]), found["place"]) if found else ("", text)
    if place.startswith("git+"):
        source = _repository(place, name)
    elif _is_path(place):
        path = Path(place).expanduser()
        source = ProjectSource(
            "path", name, place=str(path if path.is_absolute() else (base / path).resolve())
        )
    elif found:
        raise UsageError(f"--project {text}: {place} is neither a path nor git+…", next_step=_HOW)
    else:
        source = _release(text)
    if source.name == TORCH:
        raise UsageError(
            "--project is for what stands on torch, not for torch itself",
            next_step="check torch out (rocwright checkout torch) and give --pytorch-dir",
        )
    return source


def _is_path(text: str) -> bool:
    return text.startswith((".", "~")) or "/" in text or "\\" in text or text.endswith(_SDIST)


def _release(text: str) -> ProjectSource:
    try:
        wanted = Requirement(text)
    except InvalidRequirement as error:
        raise UsageError(f"--project {text!r} names no project", next_step=_HOW) from error
    exact = [one.version for one in wanted.specifier if one.operator == "==" and "*" not in one.version]
    if len(wanted.specifier) != 1 or not exact or wanted.extras or wanted.marker or wanted.url:
        raise UsageError(
            f"--project {text} does not say which version", next_step=f"give one: {wanted.name}==1.2.3"
        )
    return ProjectSource("release", canonicalize_name(wanted.name), version=exact[0])


def _repository(text: str, name: str) -> ProjectSource:
    address, _, fragment = text.removeprefix("git+").partition("#")
    parts = urlsplit(address)
    path, at, ref = parts.path.partition("@")
    origin = parts._replace(path=path).geturl() if at else address
    if not parts.scheme or (problem := origin_problem(origin)) is not None:
        why = problem if parts.scheme else "has no https:// or the like"
        raise UsageError(f"--project: the repository of {name or 'it'} {why}", next_step=_HOW)
    said, below = _behind_hash(fragment, text)
    return ProjectSource("git", name or canonicalize_name(said), place=origin, ref=ref, below=below)


def _behind_hash(fragment: str, text: str) -> tuple[str, str]:
    """Name and subdirectory: `NAME`, or as pip has it, `egg=NAME&subdirectory=DIRECTORY`."""
    told: dict[str, str] = {}
    for part in filter(None, fragment.split("&")):
        key, equals, value = part.partition("=")
        key, value = (key, unquote(value)) if equals else ("egg", key)
        if key not in ("egg", "subdirectory") or key in told:
            raise UsageError(
                f"--project {text}: what follows # is the project's name and its subdirectory, and only that",
                next_step="write git+https://HOST/REPOSITORY@COMMIT#NAME&subdirectory=DIRECTORY",
            )
        told[key] = value
    parts = [part for part in told.get("subdirectory", "").split("/") if part not in ("", ".")]
    below = "/".join(parts)
    if not {"..", ".git"}.isdisjoint(parts) or "\\" in below or "\0" in below:
        raise UsageError(
            f"--project {text}: {below} is no directory below the top of the repository",
            next_step="write it as the repository does: #subdirectory=python/my-ext",
        )
    return told.get("egg", ""), below


def read_list(path: Path) -> tuple[ProjectSource, ...]:
    """The projects of a file, one a line, as `--project` takes them; `#` at the beginning or after a space
    starts a comment. Paths are relative to the file.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(
            f"{path} cannot be read: {why}", where=path, next_step="give a file with one project a line"
        ) from error
    texts = [(number, re.split(r"(?:^|\s)#", line)[0].strip()) for number, line in enumerate(lines, 1)]
    found = []
    for number, text in texts:
        if not text:
            continue
        try:
            found.append(parse_source(text, base=path.absolute().parent))
        except UsageError as error:
            raise UsageError(
                f"{path}, line {number}: {error.what}", where=path, next_step=error.next_step
            ) from error
    if not found:
        raise UsageError(f"{path} names no project", where=path, next_step=_HOW)
    return tuple(found)


# -- bringing it


def from_sdist(
    path: Path,
    source: ProjectSource,
    folder: Path,
    *,
    origin: str,
    edits: Callable[[str], Sequence[Edit]] = lambda project: (),
) -> ProjectTree:
    """The sources of an sdist, unpacked below `folder` unless they lie there already.

    The name of a user's archive may be that of its repository; what it holds says what it is. `edits` are the
    changes that a project of this name needs. Raises `InvalidArchive` for a damaged one, `InvalidInput` for
    one of another project or version, `InvalidData` for an edit that fits several times.
    """
    try:
        name, version = parse_sdist_filename(path.name)
    except (InvalidSdistFilename, InvalidVersion) as error:
        raise InvalidInput(
            f"{path.name} is not a name of an sdist: {error}",
            where=path,
            next_step="restore its name: NAME-VERSION.tar.gz; unpack other archives and give the directory",
        ) from error
    called = canonicalize_name(name)
    place, digest = folder / f"{called}-{version}", sha256_file(path)
    known = _known(place)
    if known is not None and (known.sha256, known.edits) == (digest, _told(edits(known.project))):
        _require_name(source, known.project, path)
        return known
    _record(place).unlink(missing_ok=True)
    date = unpack(path, place)
    project = called if source.kind == "release" else identity(place)[0] or called
    _require_name(source, project, path)
    wanted, told = edits(project), _told(edits(project))
    changed = tuple(dict.fromkeys(edit.file for edit in wanted if changed_by(place, edit)))
    tree = ProjectTree(project, str(place), str(version), origin=origin, sha256=digest, date=date)
    return _noted(msgspec.structs.replace(tree, changed=changed, edits=told), place)


def _told(edits: Sequence[Edit]) -> str:
    """A digest of changes; empty for none."""
    return hashlib.sha256(msgspec.json.encode(edits)).hexdigest() if edits else ""


def from_directory(source: ProjectSource) -> ProjectTree:
    """A directory of the user's, as it is; raises `UsageError` for none, or one without a name."""
    place = Path(source.place)
    if not place.is_dir():
        raise UsageError(
            f"--project {source.place}: there is no such directory or .tar.gz",
            where=place,
            next_step="give the directory that has setup.py or pyproject.toml",
        )
    name, version = _called(source, place)
    return ProjectTree(name, str(place), version, origin=str(place))


def from_repository(
    source: ProjectSource,
    folder: Path,
    *,
    mirrors: Mirrors | None,
    watch: Watch = NOBODY,
    log: Path | None = None,
) -> ProjectTree:
    """A checkout of one commit below `folder`, with its submodules.

    Raises as `sources.checkout` does, and `UsageError` where the repository has no such subdirectory.
    """
    found = git.resolve_remote(source.place, source.ref or "HEAD", log=log)
    stem = Path(urlsplit(source.place).path).name.removesuffix(".git") or source.name
    place = folder / f"{stem}-{found.commit[:12]}"
    known = _known(place)
    # What a build left there is no work of somebody's.
    if known is None or known.commit != found.commit:
        _record(place).unlink(missing_ok=True)
        locked = LockedSource(
            project=source.name or stem,
            origin=source.place,
            ref=found.ref,
            commit=found.commit,
            why="flag",
            directory=place.name,
            hipify=False,
        )
        checked_out(locked, place, mirrors=mirrors, watch=watch, log=log)
        date = int(Git(place / ".git", place).run("log", "-1", "--format=%ct", found.commit))
        known = _noted(ProjectTree(stem, str(place), commit=found.commit, date=date), place)
    if found.ref.startswith("refs/tags/"):
        # Projects ask git what their version is.
        Git(place / ".git", place).set_ref(found.ref, found.commit)
    # The next run may name another directory of it.
    directory, origin = place / source.below, source.at(found.commit)
    if not directory.is_dir():
        raise UsageError(
            f"{origin}: there is no such directory",
            where=directory,
            next_step="name the one that has setup.py or pyproject.toml: #subdirectory=DIRECTORY",
        )
    name, version = _called(source, directory)
    return msgspec.structs.replace(
        known, project=name, directory=str(directory), version=version, origin=origin
    )


def _require_name(source: ProjectSource, found: str, where: Path) -> None:
    if source.name and source.name != found:
        raise InvalidInput(
            f"these are the sources of {found}, not of {source.name}",
            where=where,
            next_step="name them as they call themselves, or give the right ones",
        )


def _called(source: ProjectSource, place: Path) -> tuple[str, str]:
    """Name and version of sources, by what they say, or the user; raises where nobody says a name."""
    found, version = identity(place)
    _require_name(source, found or source.name, place)
    name = found or source.name
    if not name:
        raise UsageError(
            f"the sources in {place} do not say what the project is called",
            where=place,
            next_step=f"say it: --project 'NAME @ {source.place}', or #NAME behind a repository",
        )
    if name == TORCH:
        raise UsageError(
            f"{place} has torch's own sources", where=place, next_step="give them with --pytorch-dir"
        )
    return name, version


# A record beside the tree, written last: what was interrupted is brought again.


def _record(place: Path) -> Path:
    return place.with_name(f"{place.name}.json")


def _known(place: Path) -> ProjectTree | None:
    try:
        found = msgspec.json.decode(_record(place).read_bytes(), type=ProjectTree)
    except (OSError, msgspec.DecodeError):
        return None
    return found if place.is_dir() and found.directory == str(place) else None


def _noted(tree: ProjectTree, place: Path) -> ProjectTree:
    write_text(_record(place), msgspec.json.format(msgspec.json.encode(tree), indent=2).decode() + "\n")
    return tree
