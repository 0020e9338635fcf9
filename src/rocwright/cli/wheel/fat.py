"""`rocwright wheel fat`: a torch wheel that runs without ROCm's packages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from rocwright.builder.fat.plan import plan_fat
from rocwright.builder.fat.wheel import FatPlan, write_fat
from rocwright.cli.options import OptionalCount
from rocwright.cli.reply import Reply, replies
from rocwright.errors import UsageError
from rocwright.model.platforms import Platform
from rocwright.system import console
from rocwright.system.limits import available_cores


@replies
def fat(
    wheel: Path,
    rocm_dir: Path,
    /,
    *,
    output_path: Path | None = None,
    also: Annotated[tuple[Path, ...], Parameter(negative=(), consume_multiple=1, show_default=False)] = (),
    platform: Platform | None = None,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    jobs: OptionalCount = None,
) -> Reply:
    """Put ROCm into a torch wheel, which then runs without any of ROCm's packages.

    On Linux these are the libraries that torch needs or loads first, what they need in turn and what they
    open by name; on Windows all of ROCm except compiler and programs. The wheel becomes another version, such
    as 2.9.0+rocm.rocm7.10.0, requires no ROCm, and brings ROCm's licence texts.

    Parameters
    ----------
    wheel
        A torch wheel as it was built (not split into host and device wheels).
    rocm_dir
        ROCm for the wheel's platform: a plain installation, a Python environment that has the packages, or
        what `rocm-sdk path --root` prints.
    output_path
        The file to write, or its directory (default: beside the wheel). The file's name may give another
        local version: what follows the +.
    also
        Wheels that require exactly this torch (torchvision, torchaudio, apex): they are written beside the
        fat one, require that, and find ROCm in it. May be repeated.
    platform
        linux or windows; the wheel's tags say which, and must agree.
    dry_run
        Only show what would be written.
    jobs
        Threads (default: this machine's cores).
    json
        Print the plan as JSON.
    """
    for path in (wheel, *also):
        if not path.is_file():
            raise UsageError(f"{path} is not a file", next_step="give the path of a wheel")
    threads = jobs or available_cores()
    plan = plan_fat(
        wheel,
        rocm_dir,
        output=output_path,
        also=also,
        platform=platform,
        threads=threads,
        note=console.say,
    )
    for text in plan.notes:
        console.say(f"note: {text}")
    if not dry_run:
        write_fat(plan, threads=threads, note=console.say)
    return Reply(msgspec.to_builtins(plan), lambda: _show(plan, written=not dry_run))


def _show(plan: FatPlan, *, written: bool) -> None:
    size = console.human_bytes(sum(file.size for file in plan.files))
    console.out(f"ROCm {plan.rocm_version or 'of unknown version'}: {len(plan.files)} files, {size}")
    for change in plan.wheels:
        path = Path(change.output)
        console.out(f"{path}" + (f"  {console.human_bytes(path.stat().st_size)}" if written else ""))
        for text in change.dropped:
            console.out(f"  no longer requires {text}")
    torch = plan.wheels[0]
    if len(plan.wheels) == 1 and torch.version not in Path(torch.source).name:
        console.say(
            f"note: wheels that require the torch this was made of do not accept {torch.version}; "
            "give them with --also"
        )
