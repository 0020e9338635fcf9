"""Where a source is read: the web, a clone, a folder, a file, a wheel, or the installed package."""

from __future__ import annotations

import email.utils
import re
import zipfile
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path, PurePosixPath

import msgspec

from rocwright.errors import InvalidInput, NoObject, Unreachable
from rocwright.system.git import Git, is_repository
from rocwright.system.http import Web
from rocwright.wheel.read import DAMAGED

# The largest of the lists (pci.ids) has a twentieth of it.
MOST = 32 << 20
_BLOB = re.compile(r"https://github\.com/(?P<repo>[^/]+/[^/]+)/blob/(?P<ref>[^/]+)/(?P<path>.+)")
_WEB = re.compile(r"https?://")
_WHEEL = re.compile(r"[^-]+-(?P<version>[^-]+)-.*\.whl")


class Read(msgspec.Struct, frozen=True):
    """What stands somewhere: `as_of` is its date or version, `url` where others find the same."""

    text: str
    as_of: str
    url: str


class SourcePlace(msgspec.Struct, frozen=True):
    """Where to look: an address or a path as the user gave it; empty for the source's own address."""

    given: str
    url: str
    web: Web

    def read(self, *paths: str) -> Read:
        """The first of these paths that is there, below a folder or a clone; of a file, its content.

        Raises `Unreachable` where nothing is, `InvalidInput` for what is too large or no text.
        """
        if not self.given:
            return self._web(_raw(self.url))
        if _WEB.match(self.given):
            return self._web(self.given + paths[0] if self.given.endswith("/") else self.given)
        path = Path(self.given)
        if not path.exists():
            raise Unreachable(f"{path} is not there", where=path, next_step="give another path with --from")
        for git_dir in (path / ".git", path):
            if path.is_dir() and is_repository(git_dir):
                return self._clone(Git(git_dir, path), paths)
        return self._file(path, paths)

    def package(self, name: str, files: Sequence[str]) -> tuple[dict[str, str], str]:
        """Files of an installed package, a wheel or a folder with it, never imported; and its version."""
        if not self.given:
            return _installed(name, files)
        path = Path(self.given)
        if path.suffix == ".whl" and path.is_file():
            return _wheel(path, files)
        found = {file: self._below(path, (file, PurePosixPath(file).name)) for file in files}
        return found, _version_beside(path, name)

    def _below(self, path: Path, paths: Sequence[str]) -> str:
        return self._file(path, paths).text

    def _web(self, url: str) -> Read:
        answer = self.web.get(url, limit=MOST, packed=True)
        said = email.utils.parsedate_tz(answer.headers.get("last-modified", ""))
        day = datetime.now(timezone.utc) if said is None else datetime(*said[:3])
        return Read(_text(answer.body, url), f"{day:%Y-%m-%d}", self.url or url)

    def _clone(self, git: Git, paths: Sequence[str]) -> Read:
        for path in paths:
            size = git.run("cat-file", "-s", f"HEAD:{path}", ok=(0, 128)).strip()
            if size.isdigit():
                _require_small(int(size), f"{git.work_tree}:{path}")
                day = git.run("log", "-1", "--format=%cs", "HEAD").strip()
                return Read(git.run("show", f"HEAD:{path}"), day, self.url)
        raise Unreachable(
            f"{git.work_tree} has no {paths[0]} at HEAD",
            where=git.work_tree,
            next_step="give a clone that has it, checked out at its main branch",
        )

    def _file(self, path: Path, paths: Sequence[str]) -> Read:
        file = path if path.is_file() else next((path / one for one in paths if (path / one).is_file()), None)
        if file is None:
            raise Unreachable(
                f"{path} has no {paths[0]}", where=path, next_step="give the file itself with --from"
            )
        try:
            facts = file.stat()
            _require_small(facts.st_size, str(file))
            day = datetime.fromtimestamp(facts.st_mtime, timezone.utc)
            return Read(_text(file.read_bytes(), str(file)), f"{day:%Y-%m-%d}", self.url)
        except OSError as error:
            raise Unreachable(f"{file} cannot be read: {error.strerror}", where=file) from error


def path_of(url: str) -> str:
    """The path below its repository of a file at GitHub; of another address its last part."""
    blob = _BLOB.fullmatch(url)
    return blob["path"] if blob else url.rstrip("/").rpartition("/")[2]


def _raw(url: str) -> str:
    blob = _BLOB.fullmatch(url)
    return f"https://raw.githubusercontent.com/{blob['repo']}/{blob['ref']}/{blob['path']}" if blob else url


def _require_small(size: int, where: str) -> None:
    if size > MOST:
        raise InvalidInput(
            f"{where} has {size:,} bytes, which is more than can be right",
            where=where,
            next_step="see what it is, and give another with --from",
        )


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{where} is not UTF-8", where=where, next_step="see what it is, and give another with --from"
        ) from error


def _installed(name: str, files: Sequence[str]) -> tuple[dict[str, str], str]:
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError as error:
        raise Unreachable(
            f"{name} is not installed beside rocwright",
            next_step=f"pip install {name}, or give its wheel: --from {name}=FILE.whl",
        ) from error
    texts = {file: found.read_text(f"../{file}") or "" for file in files}
    missing = [file for file, text in texts.items() if not text]
    if missing:
        raise InvalidInput(
            f"the installed {name} {found.version} has no {missing[0]}",
            next_step=f"install another version of {name}, or give its wheel with --from",
        )
    return texts, found.version


def _wheel(path: Path, files: Sequence[str]) -> tuple[dict[str, str], str]:
    version = _WHEEL.fullmatch(path.name)
    try:
        with zipfile.ZipFile(path) as archive:
            for file in files:
                _require_small(archive.getinfo(file).file_size, f"{path.name}/{file}")
            texts = {file: _text(archive.read(file), f"{path.name}/{file}") for file in files}
    except KeyError as error:
        raise NoObject(f"{path.name} has no {error.args[0]}", where=path) from error
    except (*DAMAGED, OSError) as error:
        raise InvalidInput(f"{path.name} cannot be read as a wheel: {error}", where=path) from error
    return texts, version["version"] if version else path.name


def _version_beside(path: Path, name: str) -> str:
    stem = name.replace("-", "_")
    for folder in (path, path.parent):
        for info in folder.glob(f"{stem}-*.dist-info"):
            return info.name[len(stem) + 1 : -len(".dist-info")]
    raise InvalidInput(
        f"{path} does not say which version of {name} it is",
        where=path,
        next_step="give a wheel, or the folder that it is installed in (site-packages)",
    )
