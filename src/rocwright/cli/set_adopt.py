"""`rocwright set create --from-index` (`--from-page`, `--from-folder`): adopt a set that others built."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.check.loading import load_contract
from rocwright.cli.show_adopt import show_adopted, show_sets
from rocwright.cli.store_options import StoreOptions
from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.pipeline.adopt.find import Finder
from rocwright.pipeline.adopt.run import How, adopt
from rocwright.pipeline.options import default_cache
from rocwright.store.adopt.fetch import Fetcher
from rocwright.store.adopt.read import Reading, read_flat, read_folder, read_index
from rocwright.store.adopt.select import Wanted
from rocwright.system import console
from rocwright.system.http import Web


@Parameter(name="*")
@dataclass(frozen=True)
class AdoptOptions:
    """Adopt a set that somebody else built, without its files."""

    from_index: str | None = None
    """Address of an index, as --index-url takes it: find the newest whole set there and record it."""

    from_page: str | None = None
    """The same with a flat page, as --find-links takes it."""

    from_folder: Path | None = None
    """The same with a folder of wheels, of one build or several; the files go into the store."""

    project: str | None = None
    """The project that a set grows from (default: torch, or rocm where there is none)."""

    version: str | None = None
    """Its version, with or without what stands behind a plus sign."""

    date: str | None = None
    """The date of the build: 20260430."""

    rocm_version: str | None = None
    """ROCm's version of the build: 7.12.0a20260430."""

    python: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = ()
    """Only files for this Python (3.12); may be repeated."""

    list_sets: Annotated[bool, Parameter(negative=())] = False
    """List the newest sets, whole and mixed, and record nothing."""

    limit: int = 10
    """So many are listed."""

    download: bool | None = None
    """Fetch all files, check them, and put them into the store. With --no-download no wheel is fetched whole,
    not even where the index gives no sha256."""

    resolve: bool = True
    """Try whether pip and uv resolve the set, with wheels that hold its metadata only."""

    timeout: float = 30.0
    """Seconds to wait for a server."""

    @property
    def wanted(self) -> bool:
        """Whether a set is to be adopted."""
        return any(one is not None for one in (self.from_index, self.from_page, self.from_folder))


def adopt_set(
    options: StoreOptions,
    asked: AdoptOptions,
    *,
    family: str | None = None,
    platform: str | None = None,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Find a set where the options say, and record it in the store; or list the sets that are there."""
    places = (asked.from_index, asked.from_page, asked.from_folder)
    if sum(one is not None for one in places) != 1:
        raise UsageError("give one of --from-index, --from-page and --from-folder")
    wanted = Wanted(
        asked.project, asked.version, asked.date, asked.rocm_version, asked.python, platform or "linux"
    )
    contract = load_contract(read_overlay(options.config))
    with (
        tempfile.TemporaryDirectory(prefix="rocwright-adopt-") as scratch,
        _reading(asked) as reading,
    ):
        cache = None if reading.web is None else default_cache() / "metadata"
        fetcher = Fetcher(reading.web, Path(scratch), cache, whole=asked.download is not False)
        finder = Finder(reading, fetcher, wanted, contract, note=console.say)
        if asked.list_sets:
            show_sets(finder.sets(asked.limit), json=json)
            return
        how = How(asked.resolve, asked.download is True, dry_run, family, options.families())
        now = datetime.now(timezone.utc)
        show_adopted(adopt(options.opened(new=True), finder, how, now, note=console.say), json=json)


@contextmanager
def _reading(asked: AdoptOptions) -> Iterator[Reading]:
    if asked.from_folder is not None:
        yield read_folder(asked.from_folder)
        return
    with Web(timeout_s=asked.timeout, deadline_s=6 * asked.timeout) as web:
        yield read_index(web, asked.from_index) if asked.from_index else read_flat(web, asked.from_page or "")
