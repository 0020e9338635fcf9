"""What the operators of this folder change: a member that is wanted, its text."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from real.fault_generator.base import any_wheel, members, open_wheel, pick
from real.mutations_base import Workbench

TRIES, LARGEST = 6, 4 << 20
_LIBRARY = re.compile(r".*\.so(\.\d+)*")
_TEXT = (".py", "METADATA", "WHEEL", ".txt", ".h", ".hpp", ".json", ".pl", ".pm", "RECORD")


def found(
    bench: Workbench, rng: Random, wanted: Callable[[str], bool], *, info: bool = False
) -> tuple[str, str, bytes] | None:
    """A project, one of its wheel's smaller members that is wanted, and the bytes."""
    for _ in range(TRIES):
        project = any_wheel(bench, rng)
        wheel = open_wheel(bench.paths[project])
        names = [name for name in members(wheel, info=info) if wanted(name)]
        name = pick(rng, [name for name in names if wheel.part(name).size < LARGEST])
        if name is not None:
            return project, name, wheel.read(name)
    return None


def is_module(name: str) -> bool:
    """Whether this is Python source."""
    return name.endswith(".py")


def is_text(name: str) -> bool:
    """Whether people read this."""
    return name.endswith(_TEXT)


def is_library(name: str) -> bool:
    """Whether a loader takes this."""
    return bool(_LIBRARY.fullmatch(name))


def change_text(
    bench: Workbench,
    rng: Random,
    wanted: Callable[[str], bool],
    change: Callable[[str], tuple[str, str] | None],
    *,
    info: bool = False,
) -> str | None:
    """Change the text of a wanted member; `change` gives the new text and what it did."""
    for _ in range(TRIES):
        place = found(bench, rng, wanted, info=info)
        if place is None:
            return None
        project, name, data = place
        text = data.decode("utf-8", "surrogateescape")
        made = change(text)
        if made is not None and made[0] != text:
            with bench.edit(project) as wheel:
                wheel.put(name, made[0].encode("utf-8", "surrogateescape"))
            return f"{project}, {name}: {made[1]}"
    return None
