"""`rocwright sdk`: ROCm in, Python packages out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from rocwright.errors import UsageError
from rocwright.pipeline.options import available_cores, default_cache
from rocwright.sdk.build import BuiltPackages, build_packages
from rocwright.sdk.distribution import this_distribution
from rocwright.sdk.fetch import fetch, unpack
from rocwright.sdk.layout import lay_out
from rocwright.sdk.prefix import read_prefix
from rocwright.sdk.release import Packaging
from rocwright.system import console
from rocwright.system.files import require_space

app = App(name="sdk", help="Make Python packages of ROCm.")


@app.command(name="import")
def import_(
    prefix: Path,
    /,
    *,
    dest_dir: Path = Path("dist"),
    family: str | None = None,
    version: str | None = None,
    jobs: int | None = None,
    json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """Make rocm, rocm-sdk-core, rocm-sdk-libraries-FAMILY and rocm-sdk-devel of any ROCm installation.

    Parameters
    ----------
    prefix
        Root of a ROCm installation: the directory with bin/, include/ and lib/.
    dest_dir
        Where the packages go; ROCm packages of earlier runs in it are removed.
    family
        Name of the target family. Without it, the known family with exactly the targets found inside.
    version
        ROCm's version, where the installation does not say.
    jobs
        Compressors at once (default: this machine's cores).
    json
        Print the result as JSON.
    """
    found = read_prefix(prefix, version=version)
    require_space(dest_dir.resolve(), found.size // 3, purpose="the ROCm wheels")
    console.say(f"ROCm {found.version}, {len(found.host.files)} files, targets {' '.join(found.targets)}")
    packaging = Packaging(family=family)
    built = build_packages(found, dest_dir, packaging, threads=jobs or available_cores(), note=console.say)
    _show(built, json=json)


@app.command(name="fetch")
def fetch_(
    prefix: Path,
    /,
    *,
    cache_dir: Path | None = None,
    refresh: bool = False,
    jobs: int | None = None,
) -> None:
    """Fetch this distribution's ROCm packages, as any user, and lay them out as a ROCm prefix.

    Parameters
    ----------
    prefix
        Where the installation goes; it must not exist yet.
    cache_dir
        Downloaded packages (default: ~/.cache/rocwright).
    refresh
        Ask the distribution for newer packages.
    jobs
        Packages unpacked at once (default: this machine's cores).
    """
    if prefix.exists():
        raise UsageError(f"{prefix} exists already", next_step="name a directory that does not exist yet")
    distribution = this_distribution()
    cache = (cache_dir or default_cache()).resolve() / "packages"
    target = prefix.resolve()
    log = target.with_name(target.name + ".log")
    packages = fetch(distribution, cache, log=log, refresh=refresh, note=console.say)
    unpacked = target.with_name(target.name + ".unpacked")
    console.say(f"unpacking {len(packages.packages)} packages")
    unpack(packages, unpacked, log=log, threads=jobs or available_cores())
    laid = lay_out(distribution, unpacked, target)
    console.out(
        f"ROCm {laid.rocm_version} in {laid.prefix}: {laid.files} files, {console.human_bytes(laid.size)}"
    )


def _show(built: BuiltPackages, *, json: bool) -> None:
    if json:
        console.out_json(built)
        return
    rows = [
        (
            file.name,
            console.human_bytes(file.size),
            console.human_bytes(file.installed) if file.installed else "-",
        )
        for file in built.files
    ]
    console.table(
        f"ROCm {built.version} for {built.family}", ("package", "size", "installed"), rows, right=(1, 2)
    )
    for note in built.notes:
        console.out(f"left out: {note}")
    console.out(
        f'install: pip install --find-links {built.directory} "rocm[libraries,devel]=={built.version}"'
    )
