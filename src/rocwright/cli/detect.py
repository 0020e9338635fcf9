"""`rocwright detect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rocwright.compat.detector import answer, shown
from rocwright.errors import InvalidInput, NoGpu
from rocwright.system import console


def detect(
    *,
    index: str | None = None,
    kind: Literal["multi-arch", "family"] | None = None,
    torch: str | None = None,
    pre: Annotated[bool, Parameter(negative="")] = False,
    target: list[str] | None = None,
    from_windows: Path | None = None,
    root: Path = Path("/"),
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Say which AMD GPUs this machine has, and which lines install PyTorch for them from an index.

    The same as `rocwright-detect`, a wheel of its own that needs nothing. Exit code 0 when every GPU is
    identified, 1 when there is none, 3 when one cannot be identified or has no packages. Never a guess.

    Parameters
    ----------
    index
        Address of a package index: print what installs torch from it, with pip, with uv, as a pyproject.toml.
    kind
        What the index is like: an extra for each target (the default), or a directory for each family.
    torch
        This version: 2.9 is any release of it, 2.9.0 exactly that one.
    pre
        The index holds pre-releases, as nightlies are.
    target
        For this target instead of this machine's GPUs.
    from_windows
        A file with PnP device ids of display adapters, as Windows prints them; - is standard input.
    root
        Look at the /sys and /dev below this directory.
    json
        Print the result as JSON.
    """
    found = answer(
        root=root,
        from_windows=from_windows,
        targets=target or (),
        index=index,
        kind=kind,
        torch=torch,
        pre=pre,
    )
    if json:
        console.out_json(found)
    out, err = shown(found)
    for line in [] if json else out:
        console.out(line)
    nothing = err.pop() if found.exit_status == NoGpu.exit_code else None
    for line in err:
        console.say(line)
    if nothing is not None:
        raise NoGpu(nothing, next_step="for another machine's: --target")
    if found.exit_status:
        raise InvalidInput("not every GPU is identified and served", next_step="see the lines above")
