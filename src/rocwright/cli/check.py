"""`rocwright check`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.check.loading import ask_waivers, load_contract, unused
from rocwright.check.report import Report
from rocwright.check.run import CheckRequest, expand, gather_paths
from rocwright.cli.options import OptionalCount, given_targets
from rocwright.cli.reply import Reply, replies
from rocwright.cli.show_check import overlay_lines, show_report, verdict
from rocwright.data.overlay import read_overlay
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.findings import Waiver
from rocwright.system import console, days
from rocwright.system.limits import available_cores


@replies
def check(
    *paths: Path,
    set_dir: Annotated[Path | None, Parameter(name="--set")] = None,
    targets: str | None = None,
    expect: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    previous: Path | None = None,
    install: bool = False,
    adopted: Annotated[bool, Parameter(negative=())] = False,
    allow: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    reason: str | None = None,
    expires: str | None = None,
    statements: Path | None = None,
    config: Path | None = None,
    overrides: bool = True,
    jobs: OptionalCount = None,
) -> Iterator[Reply]:
    """Check wheels and sdists, or directories of them, against the wheel contract; offline.

    Exit code 0 when no error was found or all are waived, 9 otherwise; warnings do not count.

    Parameters
    ----------
    paths
        Wheels and sdists, or directories that hold them.
    set_dir
        A directory whose files are, together with the given ones, all of a set: what they require of the
        family must be among them. Rules about single files are applied to the given files only; without any,
        to those of the directory.
    targets
        GPU targets that torch and its extensions must hold code for, separated by commas.
    expect
        A project that must be there; may be repeated.
    previous
        The set before this one, to compare sizes with: a directory of wheels, a set's manifest, or what
        `--json` printed.
    install
        Install the set with pip and uv, from an index on this machine that holds nothing else, and import
        what it offers; needs --set.
    adopted
        Others built and published these wheels: what only ROCm's own packages promise is a warning, as for
        `rocwright set create --from-index`.
    allow
        Accept errors of this rule (with RULE:PATTERN, only in files whose names match); may be repeated.
        Needs --reason and --expires.
    reason
        Why they are accepted.
    expires
        The last day on which they are accepted, such as 2030-01-31.
    statements
        A directory, or a local store: write there what was found, and each waiver, as statements about the
        set of all files. Rules about single files are then applied to every file.
    config
        A rocwright.toml that says what your own packages must fulfil (default: that of the current directory,
        if there is one).
    overrides
        Let a rocwright.toml take away from what the built-in contract asks.
    jobs
        Threads (default: this machine's cores).
    json
        Print the result as JSON.
    """
    began = time.monotonic()
    today = days.today()
    overlay = read_overlay(config)
    waivers = ask_waivers(allow, reason, expires, today)
    everything = (*paths, *((set_dir,) if set_dir else ()))
    _require(everything, previous)
    _require_set(set_dir, paths, install)
    asked = CheckRequest(
        # What is stated of a set must hold for all of it.
        everything if statements is not None or not paths else paths,
        beside=everything,
        targets=given_targets(targets, config) or None,
        closed=set_dir is not None,
        expect=expect,
        previous=previous,
        contract=load_contract(overlay, today, overrides=overrides),
        jobs=jobs or available_cores(),
        adopted=adopted,
    )
    for line in overlay_lines(overlay):
        console.say(line)
    # What is stated of a set says, too, that it was not installed.
    wanted = install if install or statements is not None else None
    if wanted is None:
        report = gather_paths(asked).judged()
    else:
        # With them comes the store, which takes longer to import than a small wheel to check.
        from rocwright.pipeline.check_set import check_set

        report = check_set(asked, install=wanted, note=console.say if install else lambda _: None)
    seconds = time.monotonic() - began
    left = len(report.weighed(waivers, today).refused)
    more = {"left": left, "waivers": waivers, "seconds": round(seconds, 2)}
    yield Reply({**report.predicate(), **more}, lambda: show_report(report, waivers, today, seconds=seconds))
    for waiver in unused(waivers, report.findings, today):
        console.say(f"note: the waiver of {waiver.rule} for {waiver.file} was not needed")
    if statements is not None:
        _state(statements, everything, report, waivers)
    verdict(report, waivers, today, seconds=seconds)


def _state(folder: Path, paths: tuple[Path, ...], report: Report, waivers: tuple[Waiver, ...]) -> None:
    from rocwright.pipeline.create_set import state_check  # slow to import, and few runs state anything

    try:
        stated = state_check(folder, paths, report, waivers)
    except InvalidInput as error:
        if report.passed:
            raise
        # What is broken has been printed, and ends the command.
        console.say(f"note: no statements were written: {error.what}")
        return
    for key in stated.statements:
        console.say(f"wrote {folder / key}")


def _require_set(set_dir: Path | None, paths: tuple[Path, ...], install: bool) -> None:
    if set_dir is None:
        if install:
            raise UsageError("--install is for a complete set", next_step="name its directory: --set DIR")
        return
    if not set_dir.is_dir():
        raise UsageError(
            f"--set {set_dir} is not a directory", next_step="give the directory that holds the set"
        )
    # Without paths the check itself says so.
    if paths and expand([set_dir])[1]:
        raise UsageError(f"--set {set_dir} holds no wheels or sdists", next_step="give the rest of the set")


def _require(paths: tuple[Path, ...], previous: Path | None) -> None:
    if not paths:
        raise UsageError(
            "nothing to check", next_step="give wheels or directories: rocwright check dist/*.whl"
        )
    for path in (*paths, *((previous,) if previous else ())):
        try:
            there = path.exists()
        except OSError as error:
            raise UsageError(
                f"cannot read {path}: {error.strerror}", next_step="check its permissions"
            ) from error
        if not there:
            raise UsageError(
                f"{path} does not exist", next_step="give wheels, sdists, or a directory that holds them"
            )
