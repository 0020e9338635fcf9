"""The PyTorch family: where the projects' sources live, what pins them, which versions are looked after."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from rocwright.errors import UnknownRelease, UsageError
from rocwright.model.build_env import variable_problem

# The project whose tree pins the others.
TORCH = "torch"
# What stands for all projects on a command line.
ALL = "all"

_SCHEMES = ("https", "http", "ssh", "git", "file")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)")
_HELPER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*::")
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")
# Letters, digits and what lies between them: safe on every file system and never an option.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._+-]*[A-Za-z0-9_+-])?")
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)}
)


def _need(problems: Iterable[tuple[str, str, str | None]]) -> None:
    """Raise `ValueError` for the (field, value, problem) that has one; an empty value is not shown."""
    for field, value, problem in problems:
        if problem is not None:
            raise ValueError(f"{field} {value!r} {problem}" if value else f"{field} {problem}")


class RelatedCommitsPin(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="related_commits", tag_field="kind"
):
    """Pinned by a line of torch's `related_commits`; `key` is the project's name in that file."""

    file: str
    key: str

    def __post_init__(self) -> None:
        _need([("file", self.file, _file_problem(self.file))])


class CommitFilePin(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="commit_file", tag_field="kind"
):
    """Pinned by a file of torch that holds one commit id.

    `version_file` holds the version; `release_ref` makes a release branch out of its `{major}` and
    `{minor}`.
    """

    file: str
    version_file: str | None = None
    release_ref: str | None = None

    def __post_init__(self) -> None:
        _need([(name, path, _file_problem(path)) for name, path in self._files()])
        if (self.version_file is None) != (self.release_ref is None):
            raise ValueError("version_file and release_ref go together")
        if self.release_ref is not None:
            try:
                ref = self.release_ref.format(major="1", minor="2")
            except (LookupError, ValueError) as error:
                raise ValueError("release_ref may use only {major} and {minor}") from error
            _need([("release_ref", self.release_ref, ref_problem(ref))])

    def _files(self) -> list[tuple[str, str]]:
        named = [("file", self.file)]
        return named if self.version_file is None else [*named, ("version_file", self.version_file)]


def _file_problem(path: str) -> str | None:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\\" in path or not path.isprintable():
        return "is not a path inside the torch tree"
    return None


class PlatformRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What differs on one platform; `None` means as elsewhere.

    A release for it may lack what is `optional`.
    """

    origin: str | None = None
    ref: str | None = None
    hipify: bool | None = None
    pinned: bool = True
    optional: bool = False

    def __post_init__(self) -> None:
        # An address is not shown: it may hold a login.
        _need([("origin", "", None if self.origin is None else origin_problem(self.origin))])
        _need([("ref", self.ref or "", None if self.ref is None else ref_problem(self.ref))])


class Project(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of `data/projects.toml`; the file's head explains the fields."""

    name: str
    directory: str
    origin: str
    hipify: bool
    submodules: bool
    alias: str | None = None
    ref: str | None = None
    pin: RelatedCommitsPin | CommitFilePin | None = None
    build_env: dict[str, str] = {}
    script: str | None = None
    windows: PlatformRow | None = None

    def __post_init__(self) -> None:
        _need(
            [
                ("name", self.name, folder_problem(self.name)),
                ("alias", self.alias or "", None if self.alias is None else folder_problem(self.alias)),
                ("directory", self.directory, folder_problem(self.directory)),
                ("origin", "", origin_problem(self.origin)),
                ("ref", self.ref or "", None if self.ref is None else ref_problem(self.ref)),
                *(
                    ("build_env", name, variable_problem(name, value))
                    for name, value in self.build_env.items()
                ),
            ]
        )
        if ALL in (self.name, self.alias):
            raise ValueError(f"{ALL!r} stands for all projects, so no project can have that name")
        if self.ref is None and self.pin is None:
            raise ValueError(f"{self.name} has neither a ref nor a pin, so nothing says which commit to use")

    def optional(self, platform: str) -> bool:
        """Whether a release for `linux` or `windows` may lack it."""
        return platform == "windows" and self.windows is not None and self.windows.optional

    def on(self, platform: str) -> Project:
        """The row as it reads on `linux` or `windows`."""
        row = self.windows if platform == "windows" else None
        if row is None:
            return self
        return msgspec.structs.replace(
            self,
            origin=row.origin or self.origin,
            ref=row.ref or self.ref,
            hipify=self.hipify if row.hipify is None else row.hipify,
            pin=self.pin if row.pinned else None,
        )


Support = Literal["supported", "previous", "unsupported"]


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One version of PyTorch: the branch of torch, and branches of the other projects.

    Of a `pinned` line every project that torch can pin has to be pinned by it or named in `refs`; else the
    project's own default follows.
    """

    name: str
    origin: str
    ref: str
    linux: Support
    windows: Support
    source: str = ""
    pinned: bool = False
    refs: dict[str, str] = {}

    def __post_init__(self) -> None:
        _need(
            [
                ("name", self.name, folder_problem(self.name)),
                ("origin", "", origin_problem(self.origin)),
                ("ref", self.ref, ref_problem(self.ref)),
                *((f"ref of {project}", ref, ref_problem(ref)) for project, ref in self.refs.items()),
            ]
        )

    def on(self, platform: str) -> Support:
        """How it is looked after on `linux` or `windows`."""
        return self.windows if platform == "windows" else self.linux


class ProjectTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All rows of `data/projects.toml` (and of a `rocwright.toml`).

    Of two rows with one name the last counts; two projects never share another name or a folder.
    """

    project: tuple[Project, ...]
    line: tuple[Line, ...] = ()

    def __post_init__(self) -> None:
        called: dict[str, str] = {}
        folders: dict[str, str] = {}
        for row in self.projects:
            for taken, word, what in (
                (called, row.name, "called"),
                (called, row.alias or row.name, "called"),
                # Windows and macOS do not tell capital letters apart.
                (folders, row.directory.lower(), "checked out to"),
            ):
                if taken.setdefault(word, row.name) != row.name:
                    raise ValueError(f"{taken[word]} and {row.name} are both {what} {word!r}")
        known = {row.name for row in self.projects} - {TORCH}
        for line in self.lines:
            if unknown := sorted(line.refs.keys() - known):
                raise ValueError(
                    f"the refs of line {line.name} name {unknown[0]!r}, which is not a project there"
                )

    @property
    def projects(self) -> tuple[Project, ...]:
        """One row for each name, in order; the last of a name counts."""
        return tuple({row.name: row for row in self.project}.values())

    @property
    def lines(self) -> tuple[Line, ...]:
        """One row for each version of PyTorch, in order; the last of a name counts."""
        return tuple({row.name: row for row in self.line}.values())

    def get(self, name: str) -> Project:
        """The row called `name`, in full or by its short name; raises `UsageError` listing the known ones."""
        for project in self.projects:
            if name in (project.name, project.alias):
                return project
        known = [project.name for project in self.projects]
        raise UsageError(f"unknown project {name!r}", next_step=f"choose one of: {_listed(name, known)}")

    def canonical(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Names as locks spell them; `all` stays. Raises `UsageError` for unknown and double ones."""
        found = tuple(name if name == "all" else self.get(name).name for name in names)
        double = next((name for name in found if found.count(name) > 1), None)
        if double is not None:
            raise UsageError(f"{double} is given twice", next_step="give each project once")
        if "all" in found and len(found) > 1:
            raise UsageError("`all` stands for every project", next_step="leave the other names out")
        return found

    def get_line(self, name: str) -> Line:
        """The version of PyTorch called `name` (`2.9`, also `release/2.9`); raises `UnknownRelease`."""
        for line in (*(line for line in self.lines if line.name == name), *self.lines):
            if name in (line.name, line.ref):
                return line
        known = [line.name for line in self.lines]
        raise UnknownRelease(
            f"unknown version of PyTorch: {name!r}",
            next_step=f"choose one of: {_listed(name, known)}; or give --gitrepo-origin and --repo-hashtag",
        )


def _listed(name: str, known: list[str]) -> str:
    """All names, those that may have been meant first."""
    near = get_close_matches(name, known, n=3)
    return ", ".join(dict.fromkeys([*near, *known]))


def origin_problem(origin: str, *, relative: bool = False) -> str | None:
    """Why `origin` is no address that may be written down, `None` for a good one.

    Good are URLs, `host:path` of ssh, and local paths; a relative path only where `relative` allows it,
    because a file is read from other directories. A login has no place in files that are handed on: the
    answer never repeats the address.
    """
    if not origin.strip():
        return "is empty"
    if origin.startswith("-"):
        return "starts with a dash"
    if not origin.isprintable() or origin != origin.strip():
        return "contains control characters or surrounding spaces"
    if _HELPER.match(origin):
        return "names a git remote helper instead of a repository"
    url = _URL.match(origin)
    if url is not None:
        return _url_problem(url[1].lower(), url[2], origin)
    if not relative and is_path(origin) and not origin.startswith(("/", "~")) and not _DRIVE.match(origin):
        return "is a relative path"
    return None


def _url_problem(scheme: str, host: str, origin: str) -> str | None:
    if scheme not in _SCHEMES:
        return f"has the scheme {scheme}; git repositories have one of {', '.join(_SCHEMES)}"
    login, at, _ = host.rpartition("@")
    # The user of ssh is part of the address; anywhere else it is half a secret or all of it.
    if at and (scheme != "ssh" or ":" in login):
        return "contains a login; leave it out: git asks its credential helper (or ~/.netrc) for it"
    if scheme != "file" and (" " in origin or not host):
        return "is not a complete address"
    return None


def is_path(origin: str) -> bool:
    """Whether `origin` is a path of this machine (a `file://` address is not written as one)."""
    # host:path is ssh; C:/path is a Windows drive.
    return "://" not in origin and re.match(r"[^/\\]{2,}:", origin) is None


def folder_problem(name: str) -> str | None:
    """Why `name` cannot be the name of one folder on every system, `None` when it can."""
    if not _NAME.fullmatch(name):
        return "is not a bare name of letters, digits, '.', '_', '+' and '-'"
    if name.split(".")[0].lower() in _DEVICES:
        return "is the name of a device on Windows"
    if len(name) > 100:
        return "is longer than 100 characters"
    return None


def ref_problem(ref: str) -> str | None:
    """Why `ref` is no name of a branch, tag or commit, `None` when it can be one."""
    if not ref:
        return "is empty"
    if ref.startswith(("-", "/")) or ref.endswith(("/", ".", ".lock")) or "//" in ref or "@{" in ref:
        return "is not a valid name of a git branch or tag"
    if re.search(r"[\s~^:?*\[\\\x7f]|\.\.", ref) or not ref.isprintable():
        return "is not a valid name of a git branch or tag"
    return None
