"""Files of a set with what chooses among its device packages: selectors beside hosts that require them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from packaging.utils import canonicalize_name

from rocwright.builder.pins import require_pins
from rocwright.check.run import expand
from rocwright.device_code.wheel.selectors import DeviceChoice, plan_choices, write_selectors
from rocwright.errors import InvalidInput
from rocwright.system.files import link_or_copy
from rocwright.wheel.read import open_wheel


@contextmanager
def with_variants(paths: Sequence[Path], note: Callable[[str], None]) -> Iterator[tuple[Path, ...]]:
    """As `with_selectors`; what is made lies in a directory for temporary files until the block ends."""
    with tempfile.TemporaryDirectory(prefix="rocwright-variants-") as work:
        yield with_selectors(paths, Path(work), note)


def with_selectors(paths: Sequence[Path], work: Path, note: Callable[[str], None]) -> tuple[Path, ...]:
    """These files and directories as files, hosts in `work` where they change, and their selectors there.

    A host that requires its selectors already stays where it is, and so does a selector that is among the
    files: those of a wheel that was split with variants. Raises `InvalidInput` where no file offers device
    packages, and as `plan_choices`.
    """
    files = expand(paths)[0]
    choices = plan_choices(open_wheel(path) for path in files if path.name.endswith(".whl"))
    if not choices:
        raise InvalidInput(
            "none of the files offers device packages, so there is nothing that variants could choose",
            next_step="split the wheels first: rocwright wheel split; or leave --variants out",
        )
    found = {path.name: path for path in files}
    for choice in choices:
        _require_free(choice, found)
        for name in choice.hosts:
            copy = work / name
            link_or_copy(found[name], copy)
            if require_pins(copy, [choice.requirement]) is not None:
                note(f"{name} requires {choice.requirement} now")
                found[name] = copy
    for path in write_selectors(choices, work):
        found.setdefault(path.name, path)
    return tuple(found.values())


def _require_free(choice: DeviceChoice, names: Iterable[str]) -> None:
    """A file of that project which is none of the selectors would be taken in their place."""
    own = {one.file_name for one in choice.selectors}
    for name in names:
        if name not in own and canonicalize_name(name.partition("-")[0]) == choice.project:
            raise InvalidInput(
                f"{name} is of the project that is to choose device packages, {choice.project}",
                where=name,
                next_step="leave that file out, or --variants",
            )
