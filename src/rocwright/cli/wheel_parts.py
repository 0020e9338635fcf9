"""`rocwright wheel merge-parts`: wheels built for some targets each, as one wheel for all."""

from __future__ import annotations

import time
from pathlib import Path

from rocwright.cli.answer import Answer, answers
from rocwright.cli.numbers import OptionalCount
from rocwright.cli.targets import given_targets
from rocwright.device_code.parts.merge import MergedParts, Part, merge_parts
from rocwright.errors import UsageError
from rocwright.system import console
from rocwright.system.cores import available_cores


@answers
def parts(
    *wheels: Path,
    output_dir: Path = Path("merged"),
    targets: str = "",
    jobs: OptionalCount = None,
) -> Answer:
    """Merge wheels of one build whose device code was compiled in parts, on several machines, into one.

    Each part was built with rocwright build --device-part: host code as for all targets, device code for
    some. The first wheel's host code is taken, and must be the same in the others but for addresses. The
    result is a whole wheel; rocwright wheel split splits it as it splits one of a build for all targets.

    Parameters
    ----------
    wheels
        The wheel of each part; they have the same name, so they lie in different directories.
    output_dir
        Where the merged wheel goes.
    targets
        Targets that it must have code for, separated by commas: a part that was forgotten is an error then.
    jobs
        Threads (default: this machine's cores).
    json
        Print the result as JSON.
    """
    for wheel in wheels:
        if not wheel.is_file():
            raise UsageError(f"{wheel} is no file", next_step="give the path of a wheel")
    wanted = given_targets(targets)
    began = time.monotonic()
    done = merge_parts(
        [Part(wheel) for wheel in wheels],
        output_dir,
        targets=wanted,
        threads=jobs or available_cores(),
        note=console.say,
    )
    return Answer(done, lambda: _show(done, time.monotonic() - began))


def _show(done: MergedParts, seconds: float) -> None:
    size = console.human_bytes(done.size)
    console.out(f"{done.path}: {done.parts} parts, {size}, {seconds:.1f} s")
    console.out(
        f"{done.objects} code objects in {done.libraries} merged libraries, targets {' '.join(done.targets)}"
    )
    if done.shared:
        console.out(f"in several parts, and the same there: {done.shared} code objects")
    if done.partial:
        console.out(f"compiled for some of the targets only: the code of {done.partial} wrappers")
    if done.apart:
        console.out(f"not in all parts: {done.apart} kernels")
    if done.files:
        console.out(f"from other parts than the first: {done.files} files for single targets")
