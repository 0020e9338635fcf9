"""Wheels and sdists that places offer, an index, pages with links, directories, read project by project; and
the sources of the projects that a user names, brought from there, from repositories and directories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import msgspec
from packaging.version import InvalidVersion, Version

from rocwright.builder.decide.extension import Extension, ExtensionTable
from rocwright.errors import InvalidInput, UsageError
from rocwright.sources.mirror import Mirrors, default_root
from rocwright.sources.project import (
    ProjectSource,
    ProjectTree,
    from_directory,
    from_repository,
    from_sdist,
)
from rocwright.store.adopt.offered import Catalogue, Offered, OfferedFiles
from rocwright.store.adopt.pages import Reading, parse_page, read_flat, read_folder
from rocwright.system.files import make_directory, sha256_file
from rocwright.system.http import Web
from rocwright.system.venv import Closed, local_path

Note = Callable[[str], None]
_PYPI = "https://pypi.org/simple/"


class Offers(msgspec.Struct):
    """What some places offer; files that are fetched go to `folder`."""

    web: Web
    readings: list[Reading]
    folder: Path
    note: Note

    @property
    def names(self) -> str:
        """The places, as they may be shown."""
        return ", ".join(reading.name for reading in self.readings)

    def of(self, project: str) -> tuple[Offered, ...]:
        """Every file of a project, each name once."""
        found: dict[str, Offered] = {}
        for reading in self.readings:
            reading.more([project])
            for one in reading.catalogue.files.get(project, ()):
                found.setdefault(one.name, one)
        return tuple(found.values())

    def path(self, one: Offered) -> Path:
        """The file: where it lies, or fetched now; raises `IntegrityError` where its digest is another."""
        parts = urlsplit(one.link.url)
        if parts.scheme == "file":
            return Path(url2pathname(unquote(parts.path)))
        place = self.folder / one.name
        if one.link.sha256 and place.is_file() and sha256_file(place) == one.link.sha256:
            return place
        self.note(f"fetching {one.name}")
        make_directory(self.folder)
        self.web.save(one.link.url, place, sha256=one.link.sha256)
        return place


@contextmanager
def offers_of(places: Closed, folder: Path, note: Note) -> Iterator[Offers]:
    """What the places of an install offer; raises `InvalidInput` for one without any file."""
    with Web() as web:
        readings = [_page(web, place) for place in places.find_links]
        if places.index_url:
            # As installers do: the page of a project is asked for by its name.
            readings.append(Reading(web, _with_slash(web.enter(places.index_url)), Catalogue({})))
        yield Offers(web, readings, folder, note)


def _with_slash(url: str) -> str:
    return url if url.endswith("/") else f"{url}/"


def _page(web: Web, place: str) -> Reading:
    path = local_path(place)
    if path is None:
        return read_flat(web, place)
    if path.is_dir():
        return read_folder(path)
    gathered = OfferedFiles()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}", where=path) from error
    gathered.add(parse_page(data, "text/html", path.as_uri(), lambda url: url).files)
    files = gathered.by_project()
    return Reading(None, path.name, Catalogue(files, frozenset(files)), gathered.notes)


# -- sources


def source_index(environment: Mapping[str, str]) -> str:
    """Where sdists are looked for if nobody says so: the user's own index, else PyPI."""
    return environment.get("PIP_INDEX_URL") or _PYPI


def bring_sources(
    sources: Sequence[ProjectSource], table: ExtensionTable, *, index: str, folder: Path, note: Note
) -> tuple[ProjectTree, ...]:
    """The sources of each project, below `folder` as far as they are not a directory of the user's.

    sdists come from the index at the address `index`. Raises `UsageError` for a project that is refused,
    named twice, or has no sdist of this version, `IntegrityError` for one that is not what the index says.
    """
    for source in sources:
        if source.name:
            _require_wanted(table.get(source.name))
    make_directory(folder)
    with offers_of(Closed(index_url=index), folder, note) as offers:
        trees = [_brought(source, table, offers, folder, note) for source in sources]
    names = [tree.project for tree in trees]
    for tree in trees:
        _require_wanted(table.get(tree.project))
        if names.count(tree.project) > 1:
            raise UsageError(f"{tree.project} is named twice", next_step="name it once in --project")
    return tuple(trees)


def _require_wanted(row: Extension) -> None:
    """Raise `UsageError` for a project that its row refuses."""
    if row.refused:
        raise UsageError(
            f"{row.project} is not built: {row.refused} (found out with {row.version} on {row.date})",
            where=row.source,
            next_step="to try all the same, give it a row of your own in rocwright.toml: "
            f'[[extensions.extension]], project = "{row.project}"',
        )


def _brought(
    source: ProjectSource, table: ExtensionTable, offers: Offers, folder: Path, note: Note
) -> ProjectTree:
    if source.kind == "git":
        note(f"checking out {source}")
        return from_repository(source, folder, mirrors=Mirrors(default_root()), log=folder / "git.log")
    if source.kind == "path" and not Path(source.place).is_file():
        return from_directory(source)
    one = find_sdist(source, offers) if source.kind == "release" else None
    path = Path(source.place) if one is None else offers.path(one)
    tree = from_sdist(
        path,
        source,
        folder,
        origin=str(path) if one is None else one.link.url,
        edits=lambda project: table.get(project).edits,
    )
    for file in tree.changed:
        note(f"{tree.project}: {file} is changed, as its row in extensions.toml says")
    return tree


def find_sdist(source: ProjectSource, offers: Offers) -> Offered:
    """The sdist of a release; raises `UsageError` saying what there is instead."""
    files = offers.of(source.name)
    try:
        wanted = str(Version(source.version))
    except InvalidVersion as error:
        raise UsageError(f"{source} names no version", next_step=f"write {source.name}==1.2.3") from error
    meant = [one for one in files if one.version == wanted]
    sdists = [one for one in meant if not one.is_wheel]
    if sdists:
        return sdists[0]
    if meant:
        raise UsageError(
            f"{source} has wheels on {offers.names} and no sdist, so there is nothing to build it from",
            next_step=f"take its repository: --project git+https://HOST/REPOSITORY@TAG#{source.name}",
        )
    versions = sorted({one.version for one in files if not one.is_wheel}, key=Version)
    raise UsageError(
        f"{offers.names} has no {source}, "
        + (f"but sdists of {', '.join(versions[-8:])}" if versions else "and no other sdist of it"),
        next_step="name a version that is there, or give its sources: a directory, a .tar.gz, git+…@COMMIT",
    )
