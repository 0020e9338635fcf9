"""`rocwright wheel split | merge-parts`: host wheel and device wheels of one, and one wheel of its parts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.options import Level, OptionalCount, given_targets
from rocwright.cli.reply import Reply, for_json, for_people, replies
from rocwright.cli.show_device_code import show_wheel
from rocwright.device_code.merge_parts import MergedParts, Part, merge_parts
from rocwright.device_code.wheel.wheel import split_wheel
from rocwright.errors import UsageError
from rocwright.system import console
from rocwright.system.limits import available_cores


@replies
def split(
    *wheels: Path,
    output_dir: Path = Path("dist"),
    overlay_root: str | None = None,
    device_package_prefix: str | None = None,
    device_requires_dist: tuple[str, ...] = (),
    variants: Annotated[bool, Parameter(negative=())] = False,
    level: Level = 3,
    jobs: OptionalCount = None,
) -> Iterator[Reply]:
    """Split wheels into a host wheel of the same name and a device wheel for each GPU target.

    Whoever installs the host with the extra device-TARGET (or device-all) gets what the wheel contained
    before. A wheel without device code is copied as it is.

    Parameters
    ----------
    wheels
        Wheels to split.
    output_dir
        Where host and device wheels go; not the directory of a wheel that is split.
    overlay_root
        Directory in the wheel that archives go below (default: the package with the device code).
    device_package_prefix
        How the names of device wheels begin (default: amd-NAME-device-).
    device_requires_dist
        A further requirement of each device wheel, with @GFXARCH@ for its target; may be repeated.
    variants
        Write wheel variants as well: small wheels that choose the device wheel for the GPU of whoever
        installs the host, where the installer speaks variants. The host then requires them.
    level
        Compression of device code, 1 to 22: 3 is fast, 19 makes about a fifth less.
    jobs
        Compressors at once (default: this machine's cores).
    json
        Print the result as JSON.
    """
    _require_sense(wheels, device_package_prefix)
    results = []
    for wheel in wheels:
        began = time.monotonic()
        done = split_wheel(
            wheel,
            output_dir,
            overlay_root=overlay_root,
            prefix=device_package_prefix,
            device_requires=device_requires_dist,
            variants=variants,
            level=level,
            threads=jobs or available_cores(),
            note=console.say,
        )
        seconds = round(time.monotonic() - began, 2)
        results.append({"seconds": seconds, "split": done})
        yield for_people(partial(show_wheel, done, seconds))
    yield for_json({"wheels": results})


def _require_sense(wheels: tuple[Path, ...], prefix: str | None) -> None:
    if not wheels:
        raise UsageError(
            "nothing to split", next_step="give wheels: rocwright wheel split torch-2.9.1-cp312-….whl"
        )
    names = [wheel.name for wheel in wheels]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise UsageError(f"{double} is given twice", next_step="give each wheel once")
    if prefix is not None and len({name.partition("-")[0].lower() for name in names}) > 1:
        raise UsageError(
            "one --device-package-prefix for wheels of several projects would give files of the same name",
            next_step="split them one by one",
        )


@replies
def parts(
    *wheels: Path,
    output_dir: Path = Path("merged"),
    targets: str = "",
    jobs: OptionalCount = None,
) -> Reply:
    """Merge wheels of one build whose device code was compiled in parts, on several machines, into one.

    Each part was built with rocwright build --device-part: host code as for all targets, device code for
    some. The first wheel's host code is taken, and must be the same in the others except for addresses. The
    result is a whole wheel, which rocwright wheel split splits like one built for all targets.

    Parameters
    ----------
    wheels
        The wheel of each part; they have the same name, so they lie in different directories.
    output_dir
        Where the merged wheel goes.
    targets
        Targets that it must have code for, separated by commas: a missing part is then an error.
    jobs
        Threads (default: this machine's cores).
    json
        Print the result as JSON.
    """
    for wheel in wheels:
        if not wheel.is_file():
            raise UsageError(f"{wheel} is not a file", next_step="give the path of a wheel")
    wanted = given_targets(targets)
    began = time.monotonic()
    done = merge_parts(
        [Part(wheel) for wheel in wheels],
        output_dir,
        targets=wanted,
        threads=jobs or available_cores(),
        note=console.say,
    )
    return Reply(done, lambda: _show(done, time.monotonic() - began))


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
