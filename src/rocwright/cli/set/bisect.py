"""`rocwright set bisect`: find the first bad set of a channel."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.help import names_family
from rocwright.cli.options import Count, Repeated
from rocwright.cli.reply import Reply, replies
from rocwright.cli.set.look import show_diff
from rocwright.cli.store.options import OfChannel, StoreOptions
from rocwright.pipeline.bisect import Bisected, behind, bisect, span
from rocwright.pipeline.trial import Question
from rocwright.store.layout import channel_prefix
from rocwright.store.objects.address import open_store
from rocwright.store.sets.find import named_place, resolve_set
from rocwright.system import console

_DEFAULTS = StoreOptions()
_SHORT = 16


@names_family
@replies
def set_bisect(
    channel: OfChannel,
    /,
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    good: str,
    bad: str | None = None,
    python: Path | None = None,
    target: str | None = None,
    install: Repeated = (),
    other_index: str | None = None,
    installer: str = "uv",
    tries: Count = 1,
    again: bool = False,
    verdicts: str | None = None,
    work_dir: Path = Path("bisect"),
    options: StoreOptions = _DEFAULTS,
) -> Reply:
    """Find the first bad set of a channel by trying the one in the middle, again and again.

    Each set is installed into a fresh environment, and the command runs there: exit code 0 is good, 125 is
    inconclusive (the set is skipped), anything else is bad. Verdicts are kept beside the sets, so an
    interrupted search goes on, and the same command is never tried on a set twice.

    Parameters
    ----------
    command
        What to run in the environment, behind --.
    good
        A set that is known to be good: 8 or more digits of its id.
    bad
        A newer one that is known to be bad (default: the channel's current set, or after a rollback the
        one that the channel listed last).
    python
        The interpreter for the environments (default: the one that runs here).
    target
        The GPU target whose device packages to install, where a set has several.
    install
        A requirement to install; may be repeated (default: {installed} of the set).
    other_index
        Where packages come from that the set does not have, such as https://pypi.org/simple/. What the set
        has is taken from the set only.
    installer
        uv or pip.
    tries
        How often the command runs on each set. A set whose runs differ is named, and skipped.
    again
        Try sets that were tried before, too.
    verdicts
        The store that verdicts are kept in (default: the store itself).
    work_dir
        Where environments are made and removed again; logs/ stays.
    json
        Print the result as JSON.
    """
    store, channels = options.opened(), options.channels()
    chosen, family = named_place(store, channels, channel)
    prefix = channel_prefix(chosen.prefix, family)
    first = resolve_set(store, channels, good)
    last = resolve_set(store, channels, bad or f"{chosen.name}:{family}")
    if bad is None:
        last = behind(store, prefix, first, last)
    found = bisect(
        store,
        span(store, prefix, first, last),
        Question(
            command=command,
            python=python or Path(sys.executable),
            target=target,
            install=install,
            other_index=other_index,
            installer=installer,
        ),
        work_dir,
        memory=open_store(verdicts) if verdicts else None,
        again=again,
        tries=tries,
        tell=console.say,
    )
    return Reply(found, lambda: _show(found))


def _show(found: Bisected) -> None:
    rows = [
        (trial.set[:_SHORT], trial.verdict, trial.why, f"{trial.seconds:.1f} s" if trial.seconds else "")
        for trial in found.trials
    ]
    console.table("", ("set", "verdict", "because", "time"), rows, right=(3,))
    console.out("")
    for one in found.flaky:
        console.out(f"flaky      {one}")
    if found.first_bad is not None:
        console.out(f"first bad  {found.first_bad}")
        console.out(f"last good  {found.good}")
    else:
        console.out(f"the first bad set is one of these {len(found.suspects)}; those between were skipped:")
        for one in found.suspects:
            console.out(f"           {one}")
    if found.diff is not None:
        console.out("")
        show_diff(found.diff)
