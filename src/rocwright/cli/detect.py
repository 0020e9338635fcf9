"""`rocwright detect`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rocwright.cli.options import Text, given_targets, tell_age, tell_replaced
from rocwright.cli.reply import OnlyJson, Reply, replies
from rocwright.compat.detector import Answer, Viewed, answer, shown
from rocwright.compat.detector import view as write_view
from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.errors import InvalidInput, NoGpu, Unreachable, UsageError
from rocwright.model.indexes import IndexTable
from rocwright.system import console

Kind = Literal["multi-arch", "family"]


def _named(index: str | None, name: str, kind: Kind | None) -> tuple[str, Kind | None]:
    """The address and the layout of the index with this name."""
    if index is not None:
        raise UsageError("--index and --index-name contradict each other", next_step="leave one of them out")
    row = load_table("indexes", IndexTable, read_overlay()).named(name)
    return row.url, kind or ("multi-arch" if row.extras else "family" if row.by_family else None)


@replies(option=OnlyJson)
def detect(
    *,
    index: str | None = None,
    index_name: Text = "",
    kind: Kind | None = None,
    torch: str | None = None,
    pre: Annotated[bool, Parameter(negative="")] = False,
    python: str | None = None,
    offline: Annotated[bool, Parameter(negative="")] = False,
    view: Path | None = None,
    target: list[str] | None = None,
    from_windows: Path | None = None,
    root: Path = Path("/"),
) -> Iterator[Reply]:
    """Say which AMD GPUs this machine has, and which lines install PyTorch for them from an index.

    The same as `rocwright-detect`, a separate wheel without dependencies. Exit code 0 when every GPU is
    identified, 1 when there is none, 3 when one cannot be identified or has no packages, 5 when the index
    cannot be read or is not an index. Never a guess.

    Parameters
    ----------
    index
        Address of a package index, or a directory: ask it, and print what installs torch from it, with pip,
        with uv, as a pyproject.toml. Without one, the line for AMD's stable index is shown, unchecked.
    index_name
        The index by its name: stable, prerelease, nightly, dev, or one of rocwright.toml.
    kind
        How the index is laid out: an extra for each target, or a directory for each family (default:
        detected).
    torch
        Version of torch: 2.9 is any release of it, 2.9.0 exactly that one.
    pre
        Take pre-releases, such as nightlies, even where there are final releases.
    python
        Version of Python, such as 3.12 (default: the one that runs this).
    offline
        Do not ask the index: print the lines unchecked.
    view
        A directory: write a view of the index there, whose wheel variants know this machine's GPUs, and print
        the line by which uv takes the right device from it.
    target
        A GPU target, instead of this machine's GPUs.
    from_windows
        A file with PnP device ids of display adapters, as Windows prints them; - is standard input.
    root
        Look at the /sys and /dev below this directory.
    json
        Print the result as JSON.
    """
    given_targets(",".join(target or ()))
    if index_name.strip():
        index, named_kind = _named(index, index_name.strip(), kind)
        kind = named_kind if view is None else kind
    tell_replaced(index)
    found: Answer | Viewed
    if view is None:
        found = answer(
            root=root,
            from_windows=from_windows,
            targets=target or (),
            index=index,
            kind=kind,
            torch=torch,
            pre=pre,
            python=python,
            offline=offline,
        )
    elif index is None or kind or torch or pre or python or offline:
        raise UsageError(
            "--view shows all that an index has",
            next_step="give it --index or --index-name, and no --kind, --torch, --pre, --python or --offline",
        )
    else:
        found = write_view(view, index, root=root, from_windows=from_windows, targets=target or ())
    out, err = shown(found)

    def show() -> None:
        for line in out:
            console.out(line)

    yield Reply(found, show)
    tell_age("families", "gpus", "indexes")
    last = err.pop() if found.exit_status in (NoGpu.exit_code, Unreachable.exit_code) else ""
    for line in err:
        console.say(line)
    if found.exit_status == NoGpu.exit_code:
        raise NoGpu(last, next_step="name a GPU of another machine: rocwright detect --target TARGET")
    if found.exit_status == Unreachable.exit_code:
        step = "--offline prints the lines unchecked" if view is None else "the index installs without a view"
        raise Unreachable(last, next_step=f"check the address; {step}")
    if found.exit_status:
        raise InvalidInput("a GPU is not identified, or has no packages", next_step="see the lines above")
