"""`rocwright kpack`: device code out of fat libraries, and what there is of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from rocwright.binary.split import DEFAULT_LEVEL
from rocwright.errors import UsageError
from rocwright.model.gpu import parse_targets
from rocwright.pipeline.options import available_cores
from rocwright.sdk.device_code import DeviceFile, describe, list_device_code
from rocwright.sdk.device_code import extract as extract_code
from rocwright.sdk.library_split import LibrarySplit, split_library
from rocwright.system import console

app = App(
    name="kpack", help="Split device code out of libraries and wheels, list, extract, merge and verify it."
)

Json = Annotated[bool, Parameter(name="--json")]


@app.command
def split(
    *paths: Path,
    output_dir: Path = Path("split"),
    level: int = DEFAULT_LEVEL,
    jobs: int | None = None,
    prove: bool = True,
    json: Json = False,
) -> None:
    """Split libraries into a host file and one archive of device code for each target.

    A file that cannot be split safely is
    kept whole, with the reason. Nothing is written for a damaged file.

    Parameters
    ----------
    paths
        Libraries or programs with device code.
    output_dir
        Where host files go; their archives go to .kpack/ in it.
    level
        Compression level of zstd, 1 to 22: 3 is fast, 9 and 19 are for releases.
    jobs
        Threads (default: this machine's cores).
    prove
        Unpack every code object again and compare it. Without it a split takes a quarter less time, and
        `kpack verify --against` can prove it later.
    json
        Print the result as JSON.
    """
    if not paths:
        raise UsageError("nothing to split", next_step="give libraries: rocwright kpack split lib/*.so")
    _require_level(level)
    names = [path.name for path in paths]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise UsageError(
            f"several inputs are called {' '.join(sorted(repeated))}",
            next_step="split them into different output directories",
        )
    results: list[LibrarySplit] = []
    for path in paths:
        _require_exists(path)
        begun = time.monotonic()
        result = split_library(path, output_dir, level=level, threads=jobs or available_cores(), prove=prove)
        if result is None:
            console.say(f"{path.name}: no device code")
            continue
        results.append(result)
        if not json:
            _print_split(result, time.monotonic() - begun, prove=prove)
    if json:
        console.out_json(results)


@app.command(name="list")
def list_(*paths: Path, json: Json = False) -> None:
    """List files with device code: in libraries, in archives, and the archives of split libraries.

    Parameters
    ----------
    paths
        Files, or directories that are searched.
    json
        Print the result as JSON.
    """
    found = [file for path in _given(paths) for file in list_device_code(path)]
    if json:
        console.out_json([_summary(file) for file in found])
        return
    for file in found:
        targets = " ".join(file.targets) or "none"
        count = sum(number for number, _ in file.targets.values())
        console.out(f"{file.path}: {file.kind}, {count} code objects, targets {targets}")
    if not found:
        console.say("no device code")


@app.command
def show(path: Path, /, *, json: Json = False) -> None:
    """Show everything about one file's device code: marker, archives, every code object.

    Parameters
    ----------
    path
        A library, program or archive.
    json
        Print the result as JSON.
    """
    _require_exists(path)
    file = describe(path)
    if file is None:
        console.say(f"{path.name}: no device code")
        return
    if json:
        console.out_json({**_summary(file), "code": file.code})
        return
    console.out(f"{path.name}: {file.kind}, {file.size} bytes, {file.wrappers} wrappers")
    if file.marker:
        console.out(f"name in archives: {file.marker.kernel}")
        for search in file.marker.search_paths:
            console.out(f"search path: {search}")
        for archive in file.archives:
            console.out(f"archive: {archive}")
    for target, (count, size) in file.targets.items():
        console.out(f"{target}: {count} code objects, {size} bytes")
    for code in file.code:
        console.out(
            f"  {code.kernel}#{code.index} {code.target} {code.size} bytes at {code.place:#x}, {code.form}"
        )


@app.command
def extract(
    path: Path, /, *, output_dir: Path = Path("code-objects"), targets: str | None = None, json: Json = False
) -> None:
    """Write code objects to files, from a fat library, a split one or an archive.

    Parameters
    ----------
    path
        A library, program or archive.
    output_dir
        Where the files go, named after library, wrapper number and target.
    targets
        Only these, spelled in full (gfx90a:xnack-), separated by commas.
    json
        Print the paths as JSON.
    """
    _require_exists(path)
    wanted = frozenset(str(target) for target in parse_targets(targets)) if targets else None
    written = extract_code(path, output_dir, targets=wanted)
    if json:
        console.out_json([str(file) for file in written])
        return
    console.out(f"{len(written)} code objects in {output_dir}")


def _given(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    if not paths:
        raise UsageError("nothing given", next_step="give files or directories")
    for path in paths:
        _require_exists(path)
    return paths


def _require_exists(path: Path) -> None:
    if not path.exists():
        raise UsageError(f"{path} does not exist")


def _require_level(level: int) -> None:
    if not 1 <= level <= 22:
        raise UsageError(f"--level {level} is no level of zstd", next_step="give 1 to 22; 3 is the default")


def _summary(file: DeviceFile) -> dict[str, object]:
    return {
        "path": str(file.path),
        "kind": file.kind,
        "size": file.size,
        "wrappers": file.wrappers,
        "targets": {t: {"objects": number, "bytes": size} for t, (number, size) in file.targets.items()},
        "marker": file.marker,
        "archives": [str(archive) for archive in file.archives],
    }


def _print_split(result: LibrarySplit, seconds: float, *, prove: bool) -> None:
    if result.kept:
        console.out(f"{result.name}: kept whole: {result.kept}")
        return
    packed = sum(result.archives.values())
    proven = f"{result.identical}/{result.objects} code objects identical" if prove else "not proven"
    console.out(
        f"{result.name}: {result.fat_size:,} bytes -> host {result.host_size:,} + archives {packed:,}, "
        f"{seconds:.1f} s, {proven}"
    )
    for target, size in result.archives.items():
        console.out(f"  {target}: {size:,} bytes")
