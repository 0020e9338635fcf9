"""`rocwright set lock`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.store_options import StoreOptions
from rocwright.store.index.lock import lock_name
from rocwright.store.index.set_pages import lock_recorded, only_target
from rocwright.store.sets.find import resolve_set
from rocwright.store.sets.records import read_listed
from rocwright.system import console
from rocwright.system.files import write_text

_DEFAULTS = StoreOptions()


def set_lock(
    which: str,
    /,
    *,
    target: str | None = None,
    index: str | None = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    options: StoreOptions = _DEFAULTS,
) -> None:
    """Lock a set for one GPU target (PEP 751), with what it requires from another index if that is named.

    pip from 26.1 on takes it with `pip install -r`, uv with `uv pip install -r` or `uv pip sync`. Without
    --index it is the lock that lies beside the set.

    Parameters
    ----------
    which
        Eight or more digits of its id, CHANNEL:FAMILY for the set that installers take from there, or newest:
        that of the first channel (newest:FAMILY where it has several).
    target
        A GPU target of the set (default: its only one; of a set without targets all is locked).
    index
        The URL of the index that has everything else, such as https://pypi.org/simple; uv resolves it.
    output
        A directory, where the lock is written under its name, or a file (default: printed).
    options
        The store.
    """
    store = options.opened()
    digest = resolve_set(store, options.channels(), which)
    with tempfile.TemporaryDirectory(prefix="rocwright-lock-") as work:
        listed = read_listed(store, digest)
        target = target or only_target(listed.manifest)
        lock = lock_recorded(store, listed, target, index_url=index, work=Path(work))
    if output is None:
        console.out(lock.rstrip("\n"))
        return
    path = output / lock_name(target) if output.is_dir() else output
    write_text(path, lock)
    console.say(f"wrote {path}")
