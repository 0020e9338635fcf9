"""Files that appear in an output directory together at the end, or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rocwright.errors import UsageError
from rocwright.system.files import PARTIAL, disk_error, remove_tree


def require_elsewhere(path: Path, output_dir: Path) -> None:
    """Raise `UsageError` when an output of the same name would replace the input.

    Another name of the same file is no obstacle: an earlier run links what it does not change.
    """
    if (output_dir / path.name).resolve() == path.resolve():
        raise UsageError(
            f"the host wheel would replace {path.name} itself",
            next_step="choose another output directory than the wheel's",
        )


@contextmanager
def workspace(target: Path) -> Iterator[Path]:
    """A directory beside `target` that is gone afterwards, together with an output directory made for it."""
    work = target.with_name(target.name + PARTIAL)
    made = [parent for parent in work.parents if not parent.exists()]
    try:
        remove_tree(work)
        work.mkdir(parents=True)
        yield work
    except OSError as error:
        raise disk_error(error, target) from error
    finally:
        remove_tree(work)
        for parent in made:
            if parent.exists() and not any(parent.iterdir()):
                parent.rmdir()


def publish(work: Path, names: Sequence[str], output_dir: Path) -> None:
    """Put finished wheels in place, the host last; all of them or none."""
    placed: list[Path] = []
    try:
        for name in reversed(names):
            target = output_dir / name
            placed.append(target)
            (work / name).replace(target)
    except BaseException:
        for target in placed:
            target.unlink(missing_ok=True)
        raise
