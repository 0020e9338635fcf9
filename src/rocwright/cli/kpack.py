"""`rocwright kpack`: device code out of fat libraries, and what there is of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from rocwright.cli.options import Level, OptionalCount, given_targets
from rocwright.cli.reply import Reply, for_json, for_people, plain, replies
from rocwright.cli.show_device_code import (
    code_line,
    code_summary,
    show_code,
    show_merged,
    show_parts,
    show_split,
    show_tree_unsplit,
    show_unsplit,
    show_wheels_unsplit,
)
from rocwright.device_code.archives import DEFAULT_LEVEL, LibrarySplit, split_library
from rocwright.device_code.tree.code import Listing, list_device_code
from rocwright.device_code.tree.extract import extract as extract_code
from rocwright.device_code.tree.merge import merge_trees
from rocwright.device_code.tree.names import printable
from rocwright.device_code.tree.split import TreeSplit, split_tree
from rocwright.device_code.tree.unsplit import unsplit_tree
from rocwright.device_code.unsplit_library import unsplit_library
from rocwright.device_code.verify.verify import verify as verify_paths
from rocwright.device_code.wheel.merge import merge_wheels
from rocwright.device_code.wheel.unsplit import unsplit_wheels
from rocwright.device_code.wheel.wheel import WheelSplit, split_wheel
from rocwright.errors import ContractBroken, UsageError
from rocwright.model.gpu import base_targets
from rocwright.system import console
from rocwright.system.files import rocm_root
from rocwright.system.limits import available_cores


@replies
def split(
    *paths: Path,
    output_dir: Path = Path("split"),
    targets: str | None = None,
    level: Level = DEFAULT_LEVEL,
    jobs: OptionalCount = None,
    prove: bool = True,
) -> Iterator[Reply]:
    """Split libraries, directories or wheels: host files, and archives of device code for each target.

    A library goes to OUTPUT_DIR and its archives to .kpack/ there. An artifact directory, or several in one
    directory, become NAME_COMPONENT_generic and one directory for each target; any other directory is taken
    for a ROCm prefix and becomes generic/ and a directory for each target. A wheel becomes a host wheel and
    device wheels, as `rocwright wheel split` makes them. What cannot be split safely is kept whole, with the
    reason. Nothing is written for a damaged input.

    Parameters
    ----------
    paths
        Libraries or programs, directories, wheels.
    output_dir
        Where the results go.
    targets
        Keep only device code for these base targets, separated by commas; for directories.
    level
        Compression level of zstd, 1 to 22: 3 is fast, 9 and 19 are for releases.
    jobs
        Threads (default: this machine's cores).
    prove
        Unpack every code object again and compare it, and compressed bundles with their hashes. Without it
        a library takes a quarter less time, with compressed bundles a third, and `kpack verify --against` can
        prove it later; directories and wheels are always proven.
    json
        Print the result as JSON.
    """
    paths = _given(paths)
    _require_different(paths, "split them into different output directories")
    if targets and not all(path.is_dir() for path in paths):
        raise UsageError("--targets is for directories", next_step="give a prefix or artifact directories")
    wanted = base_targets(given_targets(targets)) or None
    threads = jobs or available_cores()
    results: list[object] = []
    for path in paths:
        began = time.monotonic()
        done: TreeSplit | WheelSplit | LibrarySplit | None
        if path.is_dir():
            done = split_tree(
                rocm_root(path), output_dir, targets=wanted, level=level, threads=threads, note=console.say
            )
        elif path.suffix == ".whl":
            done = split_wheel(path, output_dir, level=level, threads=threads, note=console.say)
        else:
            done = split_library(path, output_dir, level=level, threads=threads, prove=prove)
        yield for_people(partial(show_split, path.name, done, time.monotonic() - began))
        results.append({"input": str(path), "split": done})
    yield for_json(results)


@replies
def merge(
    *paths: Path,
    output_dir: Path = Path("merged"),
    families: str | None = None,
    jobs: OptionalCount = None,
) -> Reply:
    """Merge what was split: parts of several builds, or those for one family into one tree or wheel.

    What several inputs contain, such as generic parts and host wheels, must be identical; host wheels may
    offer different device wheels.

    Parameters
    ----------
    paths
        Directories that `kpack split` wrote, or wheels that `wheel split` wrote: hosts and device wheels.
    output_dir
        Where the result goes.
    families
        Families or targets, separated by commas: each becomes one tree with host files and device code, or
        a directory with one wheel for each host. Without it the result has the layout of a split, with the
        parts of all inputs.
    jobs
        Threads for wheels (default: this machine's cores).
    json
        Print the result as JSON.
    """
    paths = _given(paths)
    names = families.split(",") if families else None
    directories = [path for path in paths if path.is_dir()]
    if not directories:
        _require_wheels(paths)
        wheels = merge_wheels(
            paths, output_dir, families=names, threads=jobs or available_cores(), note=console.say
        )
        return Reply(wheels, lambda: show_merged(wheels, output_dir))
    if len(directories) < len(paths):
        raise UsageError(
            "both directories and files are given",
            next_step="merge split directories and wheels one after another",
        )
    done = merge_trees(paths, output_dir, families=names, note=console.say)

    def show() -> None:
        show_parts(done.parts)
        for remark in done.absent:
            console.out(f"{remark.path}: {remark.reason}")

    return Reply(done, show)


@replies
def unsplit(
    *paths: Path,
    output_dir: Path = Path("unsplit"),
    targets: str | None = None,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    jobs: OptionalCount = None,
) -> Reply:
    """Set what was split back to fat libraries, for HIP runtimes that do not look into archives.

    A library goes to OUTPUT_DIR. Directories that a split wrote, or one in which libraries and archives are
    installed, become the tree OUTPUT_DIR/fat or OUTPUT_DIR/NAME_COMPONENT_fat. A host wheel and its device
    wheels become the fat wheel of the host's name. All code objects are read again and compared with the
    archives'. Archives of another build are refused.

    Parameters
    ----------
    paths
        Split libraries, directories, or all wheels of a set; one kind at a time.
    output_dir
        Where the results go.
    targets
        Only device code for these targets, separated by commas; one without features stands for all of its
        variants. Without it all that archives are at hand for.
    dry_run
        Read and decide everything, and write nothing.
    jobs
        Threads for wheels (default: this machine's cores).
    json
        Print the result as JSON.
    """
    paths = _given(paths)
    wanted = given_targets(targets)
    if all(path.is_dir() for path in paths):
        tree = unsplit_tree(paths, output_dir, targets=wanted, dry_run=dry_run, note=console.say)
        return Reply(tree, lambda: show_tree_unsplit(tree))
    if all(path.suffix == ".whl" for path in paths):
        wheels = unsplit_wheels(
            paths,
            output_dir,
            targets=wanted,
            threads=jobs or available_cores(),
            dry_run=dry_run,
            note=console.say,
        )
        return Reply(wheels, lambda: show_wheels_unsplit(wheels))
    if any(path.is_dir() or path.suffix == ".whl" for path in paths):
        raise UsageError(
            "libraries, directories and wheels are given together",
            next_step="set one kind after another back",
        )
    _require_different(paths, "set them back into different output directories")
    done = [unsplit_library(path, output_dir, targets=wanted, dry_run=dry_run) for path in paths]
    return Reply(done, lambda: show_unsplit(done))


def _require_wheels(paths: tuple[Path, ...]) -> None:
    for path in paths:
        if path.suffix != ".whl":
            raise UsageError(
                f"{path.name} is neither a wheel nor a directory written by a split",
                next_step="give what `rocwright kpack split` or `rocwright wheel split` wrote",
            )


@replies
def verify(
    *paths: Path,
    against: Annotated[tuple[Path, ...], Parameter(negative=(), consume_multiple=1, show_default=False)] = (),
    targets: str | None = None,
    jobs: OptionalCount = None,
) -> Iterator[Reply]:
    """Verify split libraries, archives, directories or sets of wheels; offline. Exit code 9 on an error.

    Host files are checked as a loader reads them, archives are unpacked whole, each code object must be for
    its archive's target, and each wrapper must be found. With --against nothing may be lost or invented.

    Parameters
    ----------
    paths
        Split libraries, archives, directories that a split wrote, or all wheels of a set.
    against
        What was split: a directory, or fat libraries or wheels. Every code object is compared with it. These
        come last.
    targets
        GPU targets that are meant to be here, with commas; without it all that the host was split into.
    jobs
        Threads (default: this machine's cores).
    json
        Print the report as JSON.
    """
    for original in against:
        _require_exists(original)
    if against and not paths:
        raise UsageError(
            "nothing given but originals", next_step="give what was split off them before --against"
        )
    wanted = given_targets(targets) or None
    report = verify_paths(_given(paths), against=against, targets=wanted, threads=jobs or available_cores())

    def show() -> None:
        for line in (*report.findings, *report.notes):
            console.out(str(line))
        compared = f", {report.identical} identical to the original" if report.compared else ""
        console.out(
            f"{len(report.libraries)} split libraries, {len(report.archives)} archives, "
            f"{report.objects} code objects unpacked{compared}: "
            f"{report.errors} errors, {report.warnings} warnings"
        )

    yield Reply(report.predicate(), show)
    if not report.passed:
        what = f"{report.errors} errors" if report.errors else "nothing here is split"
        raise ContractBroken(what, next_step="split again from the original")


@replies
def list_(*paths: Path) -> Iterator[Reply]:
    """List files with device code: fat and split libraries and programs, archives, including those in wheels.

    Only headers are read. A damaged file does not stop the others: it is named at the end, and the exit code
    is 3.

    Parameters
    ----------
    paths
        Files, directories that are searched, wheels; several wheels are taken for one set.
    json
        Print the result as JSON.
    """
    listing = list_device_code(_given(paths))

    def show() -> None:
        for file in listing.files:
            console.out(code_line(file))

    yield Reply([code_summary(file) for file in listing.files], show)
    _finish(listing)


@replies
def show(*paths: Path) -> Iterator[Reply]:
    """Show everything about device code: markers, archives, every code object.

    Parameters
    ----------
    paths
        Libraries, programs, archives, directories, wheels; several wheels are taken for one set.
    json
        Print the result as JSON.
    """
    listing = list_device_code(_given(paths))

    def show() -> None:
        for file in listing.files:
            show_code(file)

    yield Reply([{**code_summary(file), "code": file.code} for file in listing.files], show)
    _finish(listing)


@replies
def extract(
    *paths: Path,
    output_dir: Path = Path("code-objects"),
    targets: str | None = None,
) -> Reply:
    """Write code objects to files, from fat libraries, split ones or archives, including those in wheels.

    A code object that two wrappers use is written for both. It stops at the first damaged file.

    Parameters
    ----------
    paths
        Libraries, programs, archives, directories, wheels; several wheels are taken for one set.
    output_dir
        Where the files go, named after library, wrapper number and target.
    targets
        Only these targets, spelled in full (gfx90a:xnack-), separated by commas.
    json
        Print what was written as JSON.
    """
    wanted = frozenset(given_targets(targets)) or None
    done = extract_code(_given(paths), output_dir, targets=wanted)
    for name in done.absent:
        console.say(f"{plain(name)}: its archives are not beside it")
    if wanted and not done.written:
        console.say(f"no code for {' '.join(sorted(wanted))}; `rocwright kpack list` shows what there is")
    return Reply(
        [{**msgspec.structs.asdict(one), "path": printable(one.path)} for one in done.written],
        lambda: console.out(f"{len(done.written)} code objects in {output_dir}"),
    )


def _finish(listing: Listing) -> None:
    """Name what is damaged; the last one decides the exit code, which is the same for all."""
    if not listing.files and not listing.damaged:
        console.say("no device code")
    for error in listing.damaged[:-1]:
        console.error(error)
    if listing.damaged:
        raise listing.damaged[-1]


def _given(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    if not paths:
        raise UsageError("nothing given", next_step="give files or directories")
    for path in paths:
        _require_exists(path)
    return paths


def _require_different(paths: tuple[Path, ...], next_step: str) -> None:
    names = [path.name for path in paths]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"several inputs are called {' '.join(sorted(repeated))}", next_step=next_step)


def _require_exists(path: Path) -> None:
    if not path.exists():
        raise UsageError(f"{path} does not exist", next_step="give an existing file or directory")
