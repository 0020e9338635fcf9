"""The wheel contract over a set, with the proof that pip and uv install it from an index of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from rocwright.check.install import prove
from rocwright.check.report import Report
from rocwright.check.run import CheckRequest, gather_paths
from rocwright.store.index.listed import ListedFile
from rocwright.store.index.pages import view_pages
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.serve import serving
from rocwright.store.pool import describe_files, put_distribution

_METADATA = ".metadata"


def check_set(
    asked: CheckRequest,
    *,
    install: bool = False,
    work_dir: Path | None = None,
    note: Callable[[str], None] = lambda _: None,
    log: Path | None = None,
) -> Report:
    """Check files as `CheckRequest` describes; with `install`, try to install all of them, too.

    The installation needs room for the set, unpacked, twice, below `work_dir` (by default the directory for
    temporary files); nothing stays there. Raises `NoSpace` when there is less.
    """
    note("reading the files")
    gathered = gather_paths(asked)
    if not install or not gathered.context.files:
        return gathered.judged()
    if work_dir is not None:
        work_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rocwright-install-", dir=work_dir) as work:
        return gathered.judged(prove(gathered.context, serve_files, Path(work), note=note, log=log))


class _Served:
    """An index of some files: its address, and what was asked of it."""

    def __init__(self, url: str, requests: list[str]) -> None:
        self.url = url
        self._requests = requests

    def asked(self) -> Sequence[str]:
        """Names of distribution files whose content or metadata was asked for."""
        names = (unquote(path).rpartition("/")[2].removesuffix(_METADATA) for path in list(self._requests))
        return [name for name in names if name.endswith((".whl", ".tar.gz"))]


@contextmanager
def serve_files(files: Sequence[Path], folder: Path) -> Iterator[_Served]:
    """A simple repository of these files, laid out in `folder`, on the loopback interface.

    Raises `InvalidWheel` for a file that cannot be described.
    """
    store = LocalStore(folder)
    by_name = {path.name: path for path in files}
    entries = describe_files(by_name.values())
    for entry in entries:
        put_distribution(store, by_name[entry.name], entry, entry.name)
    for key, page in view_pages((ListedFile(entry, entry.name) for entry in entries), "").items():
        store.put_bytes(key, page)
    requests: list[str] = []
    with serving(folder, requests=requests) as url:
        yield _Served(url, requests)
