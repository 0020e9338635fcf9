"""`rocwright pipeline render`: files that follow from the definition, written or compared with those here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from cyclopts import Parameter

from rocwright.cli.pipeline.options import PlaceOptions, PlanOptions
from rocwright.cli.reply import OnlyJson, Reply, replies
from rocwright.data import load_table
from rocwright.errors import InvalidInput, RocwrightError, UsageError
from rocwright.model.workflows import Ask, SlurmTable, WorkflowTable
from rocwright.pipeline.define.inputs import known, profiles
from rocwright.pipeline.render.cluster import ask_cluster, fit_all
from rocwright.pipeline.render.scripts import render_make, render_slurm, slurm_asks
from rocwright.pipeline.render.workflows import github_files
from rocwright.system import console
from rocwright.system.files import atomic_write, disk_error

_PLACE = PlaceOptions()
_OPTIONS = PlanOptions()


@replies(before="place", option=OnlyJson)
def pipeline_render(
    *,
    to: Literal["github", "slurm", "make"] = "github",
    check: Annotated[bool, Parameter(negative="")] = False,
    output: Path | None = None,
    place: PlaceOptions = _PLACE,
    options: PlanOptions = _OPTIONS,
) -> Iterator[Reply]:
    """Write the workflows of GitHub Actions that follow from the definition, or job scripts or a Makefile.

    Parameters
    ----------
    to
        github: the workflows of a repository, in .github/workflows. slurm, make: the one run that the options
        ask for, as scripts for sbatch or a Makefile.
    check
        Change nothing; name each file that is missing or stale, with what differs, and exit with 1.
    output
        Root of the repository (default: here); for slurm and make the folder of the run.
    json
        Print the result as JSON.
    """
    root = output or Path()
    if not root.is_dir():
        raise UsageError(
            "there is no such directory to render to",
            where=root,
            next_step="make it, or give another --output",
        )
    if to == "github":
        if place != PlaceOptions(place.run_id, place.store, place.plan) or options != PlanOptions(
            sources=options.sources
        ):
            raise UsageError(
                "workflows are rendered for every run; these options are for a single one",
                next_step="leave them out, or give --to slurm or --to make",
            )
        files = github_files(known().projects, profiles(), load_table("workflows", WorkflowTable))
    elif output is None:
        raise UsageError(f"--to {to} makes a folder for the run", next_step="give --output FOLDER")
    elif to == "slurm":
        table = load_table("slurm", SlurmTable, place.overlay())
        plan = options.plan(place)
        files = render_slurm(plan, table, _fitted(slurm_asks(plan, table)))
    else:
        files = render_make(options.plan(place))
    if not check:
        written = [str(path) for path in write_files(files, root)]
        yield Reply(
            {"written": written, "unchanged": len(files) - len(written)},
            lambda: _show_written(written, len(files)),
        )
        return
    found = drifted(files, root)
    rows = [{"path": str(one.path), "missing": one.missing, "diff": one.diff} for one in found]

    def show() -> None:
        for drift in found:
            console.out(drift.diff)
        if not found:
            console.say(f"{len(files)} files are up to date")

    yield Reply({"stale": rows}, show)
    if found:
        raise RocwrightError(
            f"{len(found)} files are missing or out of date: {found[0].path}"
            + (" and others, as listed above" if len(found) > 1 else ""),
            where=root,
            next_step="write them again: rocwright pipeline render",
        )


def _fitted(asks: Mapping[str, Ask]) -> Mapping[str, Ask]:
    """What jobs ask for on the cluster of this machine; as the table has it, where that is not known."""
    there = ask_cluster()
    if isinstance(there, str):
        console.say(f"{there}: jobs ask for what the table has; render on a login node to fit them")
        return asks
    fitted, told = fit_all(asks, there)
    for line in told:
        console.say(line)
    return fitted


def _show_written(written: Sequence[str], files: int) -> None:
    for path in written:
        console.out(path)
    console.say(f"{len(written)} of {files} files written")


# -- files as they are rendered, and as they are


@dataclass(frozen=True)
class Drift:
    """A file that is not as it is rendered; `diff` is from what is there to what is rendered."""

    path: PurePosixPath
    missing: bool
    diff: str


def drifted(files: Mapping[PurePosixPath, str], root: Path) -> tuple[Drift, ...]:
    """The files below `root` that are missing or stale."""
    found = []
    for path, text in files.items():
        there = _read(root / path)
        if there != text:
            lines = unified_diff(
                (there or "").splitlines(),
                text.splitlines(),
                f"{path} (on disk)",
                f"{path} (rendered)",
                lineterm="",
            )
            found.append(Drift(path, there is None, "\n".join(lines)))
    return tuple(found)


def write_files(files: Mapping[PurePosixPath, str], root: Path) -> tuple[PurePosixPath, ...]:
    """Write what differs; the paths written. Each file is whole or as it was."""
    written = tuple(drift.path for drift in drifted(files, root))
    for path in written:
        with atomic_write(root / path) as stream:
            stream.write(files[path].encode())
    return written


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise InvalidInput(
            "this is not a text file", where=path, next_step="remove it, then render again"
        ) from error
    except OSError as error:
        raise disk_error(error, path) from error
