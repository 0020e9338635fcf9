"""`rocwright wheel`: look into finished wheels, and take them apart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cyclopts import App

from rocwright.cli.answer import Answer, answers, for_json, for_people
from rocwright.cli.numbers import Level, OptionalCount
from rocwright.cli.show_split import show_wheel
from rocwright.cli.show_wheel import show_about
from rocwright.device_code.wheel.wheel import split_wheel
from rocwright.errors import UsageError
from rocwright.pipeline.wheel_about import WheelAbout, about_wheel
from rocwright.system import console
from rocwright.system.cores import available_cores

app = App(name="wheel", help="Look into finished wheels, and take them apart.")
# By name: each imports what it needs and nothing of the others.
for _name in ("sanity_check", "torch_versions", "cp_version"):
    app.command(f"rocwright.cli.wheel_family:{_name}", name=_name.replace("_", "-"))
app.command("rocwright.cli.wheel_fat:fat", name="fat")
app.command("rocwright.cli.wheel_parts:parts", name="merge-parts")
app.command("rocwright.cli.wheel_reversion:reversion", name="reversion")


@app.command
@answers
def show(*wheels: Path) -> Iterator[Answer]:
    """Show what wheels are: metadata, compiled files with what they need, device code for each target, sizes.

    Whether all of that is right says `rocwright check`.

    Parameters
    ----------
    wheels
        Wheels to look into.
    json
        Print the result as JSON.
    """
    if not wheels:
        raise UsageError(
            "nothing to show", next_step="give wheels: rocwright wheel show torch-2.9.1-cp312-….whl"
        )
    for wheel in wheels:
        if not wheel.is_file():
            raise UsageError(f"{wheel} is no file", next_step="give the path of a wheel")
    found: list[WheelAbout] = []
    for wheel in wheels:
        if found:
            yield for_people(lambda: console.out(""))
        about = about_wheel(wheel)
        found.append(about)
        yield for_people(partial(show_about, about))
    yield for_json({"wheels": found})


@app.command
@answers
def split(
    *wheels: Path,
    output_dir: Path = Path("dist"),
    overlay_root: str | None = None,
    device_package_prefix: str | None = None,
    device_requires_dist: tuple[str, ...] = (),
    level: Level = 3,
    jobs: OptionalCount = None,
) -> Iterator[Answer]:
    """Split wheels into a host wheel of the same name and a device wheel for each GPU target.

    Whoever installs the host with the extra device-TARGET (or device-all) gets what the wheel held before.
    A wheel without device code is copied as it is.

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
