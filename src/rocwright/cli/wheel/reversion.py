"""`rocwright wheel reversion`: finished wheels and sdists with another version of ROCm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from rocwright.cli.options import OptionalCount
from rocwright.cli.reply import Reply, plain, replies
from rocwright.errors import UsageError
from rocwright.system import console
from rocwright.system.limits import available_cores
from rocwright.wheel.reversion.plan import plan_reversion
from rocwright.wheel.reversion.values import ReversionPlan
from rocwright.wheel.reversion.versions import parse_rule
from rocwright.wheel.reversion.write import WrittenFile, write_reversion

_SHOWN = 3  # members that still mention the old version, of each file


@replies
def reversion(
    *files: Path,
    to: Annotated[str, Parameter(name="--to")],
    output_dir: Path = Path("dist"),
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    verify: Annotated[bool, Parameter(negative=())] = False,
    jobs: OptionalCount = None,
) -> Reply:
    """Give the files of a candidate or nightly their final version, without building them again.

    Only ROCm's part of each version changes: 7.13.0rc2 becomes 7.13.0, 2.10.0a0+rocm7.13.0rc2 becomes
    2.10.0a0+rocm7.13.0. Requirements among the files change with it, as do texts in them that are exactly a
    version; everything else is copied unchanged. All files are written or none. Files that already carry
    their final version do not need this: they are promoted as they are.

    Parameters
    ----------
    files
        All wheels and sdists of the set: what they require of each other must be among them.
    to
        release, a candidate (rc2), a nightly (a20260430), or ROCm's version itself (7.13.0).
    output_dir
        Where the new files go.
    dry_run
        Only show what would change.
    verify
        Unpack every new wheel, compare its digests, and search all of it for the old version.
    jobs
        Threads for --verify (default: this machine's cores).
    json
        Print the result as JSON.
    """
    _require(files)
    plan = plan_reversion(files, parse_rule(to))
    written: Sequence[WrittenFile] = ()
    if not dry_run:
        written = write_reversion(plan, output_dir, verify=verify, threads=jobs or available_cores())
    changes = [change.said for change in plan.files]
    made = [msgspec.to_builtins(file, enc_hook=str) for file in written]
    return Reply(
        {"old": plan.old, "new": plan.new, "files": changes, "written": made},
        lambda: show_reversion(plan, written),
    )


def _require(files: tuple[Path, ...]) -> None:
    if not files:
        raise UsageError(
            "no files are given",
            next_step="give all of a set: rocwright wheel reversion --to release dist/*",
        )
    names = [file.name for file in files]
    for file in files:
        if not file.is_file():
            raise UsageError(f"{file} is not a file", next_step="give the paths of wheels and sdists")
        if names.count(file.name) > 1:
            raise UsageError(f"{file.name} is given twice", next_step="give each file once")


def show_reversion(plan: ReversionPlan, written: Sequence[WrittenFile], *, kept: bool = True) -> None:
    """Print what changes; warnings go to stderr. Only of files that are kept where they lie, the paths."""
    console.out(f"ROCm {plan.old} becomes {plan.new}")
    by_name = {file.path.name: file for file in written}
    for change in plan.files:
        file = by_name.get(change.name)
        size = f"  {console.human_bytes(file.size)}  sha256 {file.sha256}" if file else ""
        stays = "" if change.old != change.new else "  (unchanged)"
        console.out(plain(f"{file.path if file and kept else change.name}{size}{stays}"))
        for old, new in change.requirements:
            console.out(plain(f"  required {old}"))
            console.out(plain(f"  requires {new}"))
        for name in change.edited:
            console.out(plain(f"  edited   {name}"))
        for name in change.dropped:
            console.out(plain(f"  dropped  {name}, which signed what changed"))
        left = file.left if file else change.left
        if left:
            more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
            listed = ", ".join(left[:_SHOWN])
            console.say(f"warning: {change.name} still mentions {plan.old} in {listed}{more}")
