"""`rocwright set reversion`."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.check.loading import load_contract
from rocwright.cli.numbers import OptionalCount
from rocwright.cli.reply import Reply, replies
from rocwright.cli.store.options import StoreOptions
from rocwright.cli.wheel.reversion import show_reversion
from rocwright.data.overlay import read_overlay
from rocwright.pipeline.reversion import reversion_set
from rocwright.store.sets.find import resolve_set
from rocwright.system import console
from rocwright.system.limits import available_cores
from rocwright.wheel.reversion.versions import parse_rule

_DEFAULTS = StoreOptions()


@replies
def set_reversion(
    which: str,
    /,
    *,
    to: Annotated[str, Parameter(name="--to")],
    install: bool = False,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    work_dir: Path | None = None,
    options: StoreOptions = _DEFAULTS,
    jobs: OptionalCount = None,
) -> Reply:
    """Make a new set of a candidate or nightly, with its final version, and list it in the first channel.

    As `rocwright wheel reversion` for files. The new set is checked before it is recorded, and has to be
    tested before it can be promoted: its bytes are others. A statement says which file came out of which. A
    set that carries its final version already needs none of this: it is promoted as it is.

    Parameters
    ----------
    which
        Eight or more digits of the set's id, CHANNEL:FAMILY for the set that installers take from there, or
        newest: that of the first channel (newest:FAMILY where it has several).
    to
        release, a candidate (rc2), a nightly (a20260430), or ROCm's version itself (7.13.0).
    install
        Install the new set with pip and uv, too, from an index on this machine that holds nothing else.
    dry_run
        Only show what would change.
    work_dir
        Where the files lie meanwhile, old and new (default: the directory for temporary files).
    jobs
        Threads (default: this machine's cores).
    json
        Print the result as JSON.
    """
    store, channels = options.opened(), options.channels()
    done = reversion_set(
        store,
        channels,
        resolve_set(store, channels, which),
        parse_rule(to),
        datetime.now(timezone.utc),
        contract=load_contract(read_overlay(options.config)),
        install=install,
        dry_run=dry_run,
        jobs=jobs or available_cores(),
        work_dir=work_dir,
        note=console.say,
    )
    staged = done.staged
    said = {"old": done.plan.old, "new": done.plan.new, "files": [one.said for one in done.plan.files]}
    made = {
        "set": staged.set_id if staged else None,
        "index_url": staged.index_url if staged else None,
        "manifest_files": staged.files if staged else (),
    }

    def show() -> None:
        show_reversion(done.plan, done.written, kept=False)
        if staged is not None:
            console.say(f"listed; install from it with --index-url {staged.index_url}")
            console.out(f"set {staged.set_id}")

    return Reply({"from": done.old_set, **said, **made}, show)
