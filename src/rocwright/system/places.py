"""Where installers take packages from: an index, pages with links, directories."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from rocwright.errors import UsageError
from rocwright.system.venv import Closed


def links_page(text: str) -> str:
    """A page with links as installers take it: an address as it is, a directory or file made absolute.

    Raises `UsageError` for one that is not there: pip would only say that it found no package.
    """
    if "://" in text:
        return text
    path = Path(text).expanduser().absolute()
    if not path.exists():
        raise UsageError(
            f"--find-links {text}: there is no such directory or page",
            where=path,
            next_step="give the directory that holds the packages, or the address of a page with links",
        )
    return str(path)


def local_path(place: str) -> Path | None:
    """The directory or file of this machine that a place is; None for one that is reached by network."""
    if place.startswith("file:"):
        return Path(unquote(urlsplit(place).path))
    return None if "://" in place else Path(place)


def remote_places(places: Closed) -> tuple[str, ...]:
    """The places that are reached by network: only they can show a package later than it was uploaded."""
    given = (*filter(None, [places.index_url]), *places.find_links)
    return tuple(place for place in given if local_path(place) is None)
