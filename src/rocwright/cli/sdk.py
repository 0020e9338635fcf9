"""`rocwright sdk`: ROCm in, Python packages out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
from cyclopts import Parameter

from rocwright.cli.options import OptionalCount
from rocwright.cli.reply import Reply, replies
from rocwright.data.overlay import read_overlay
from rocwright.device_code.tree.names import package_of
from rocwright.errors import UsageError
from rocwright.model.version import COMMIT_TYPES, ReleaseType, rocm_package_versions
from rocwright.pipeline.options import default_cache
from rocwright.sdk.build import Made, make_packages
from rocwright.sdk.intake.deb import lay_out
from rocwright.sdk.intake.deb_import import LEAST_GROWTH, unpack_packages
from rocwright.sdk.intake.distribution import named_distribution, this_distribution, this_machine
from rocwright.sdk.intake.fetch import fetch, unpack
from rocwright.sdk.intake.forms import Form, artifacts_in, form_of
from rocwright.sdk.plan.release import Packaging
from rocwright.sdk.rocm_version import base_version, commit, today
from rocwright.system import console
from rocwright.system.files import remove_tree, require_space
from rocwright.system.limits import available_cores, return_large_blocks
from rocwright.system.workflow import tell_workflow

# What the C library keeps for so many threads is little; giving it back costs a twentieth of the time.
_FEW_THREADS = 2


@Parameter(name="*")
@dataclass(frozen=True)
class Shape:
    """What the packages shall be like; the same for every way to get at a ROCm."""

    version: str | None = None
    """ROCm's version, instead of what it says itself."""

    version_suffix: str = ""
    """Appended to the version, such as rc1 or +abcdef."""

    linux_amdgpu_families: str | None = None
    """Families or targets of the release on Linux, separated by ; , or spaces: all must have been built."""

    windows_amdgpu_families: str | None = None
    """The same for Windows."""

    split_compiler: bool = False
    """Move clang, lld and LLVM from rocm-sdk-core to rocm-sdk-devel."""

    devel_tarball_compression: bool = False
    """Compress the devel tree with xz: smaller, slower to expand."""

    wheel_compression: Literal["fast", "balanced", "small", "none"] = "balanced"
    """How hard to compress the wheels."""

    selector: Literal["sdist", "wheel"] = "sdist"
    """Form of the rocm package: a source distribution, or a wheel for indexes without those."""

    without: str = ""
    """Packages not to make, separated by commas: profiler."""

    jobs: OptionalCount = None
    """Compressors at once (default: this machine's cores)."""

    def packaging(self, family: str | None = None) -> Packaging:
        """The same as the packager takes it."""
        without = tuple(_words(self.without) or ())
        if set(without) - {"profiler"}:
            raise UsageError(
                f"--without {self.without}: only profiler can be left out",
                next_step="write --without profiler",
            )
        return Packaging(
            family=family,
            version_suffix=self.version_suffix,
            linux=_words(self.linux_amdgpu_families),
            windows=_words(self.windows_amdgpu_families),
            split_compiler=self.split_compiler,
            devel_xz=self.devel_tarball_compression,
            selector=self.selector,
            compression=self.wheel_compression,
            without=without,
        )


_DEFAULT = Shape()


def _words(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(word for word in re.split(r"[\s,;]+", text) if word)


@replies
def compute_version(
    *,
    release_type: ReleaseType | None = None,
    custom_version_suffix: str | None = None,
    prerelease_version: str | None = None,
    override_base_version: str | None = None,
    override_git_sha: str | None = None,
    version_file: Path = Path("version.json"),
    date: str | None = None,
    bkc_date: str | None = None,
) -> Reply:
    """Say which version ROCm's packages get, as Python, Debian and RPM spell it.

    Prints `rocm_package_version=…`, `rocm_deb_package_version=…` and `rocm_rpm_package_version=…`, and
    appends the same lines to the file `$GITHUB_OUTPUT` where that is set. An empty option
    counts as not given.

    Parameters
    ----------
    release_type
        What kind of build it is.
    custom_version_suffix
        Instead of a release type: what follows the release, such as `.dev1+mine`.
    prerelease_version
        Number of the release candidate; with the release type prerelease.
    override_base_version
        The release, instead of what the version file says.
    override_git_sha
        The commit, instead of `$GITHUB_SHA` or HEAD of the repository that the version file lies in.
    version_file
        A JSON file with the release under `rocm-version`.
    date
        Day of the build as YYYYMMDD (default: today in UTC, or the day of `$SOURCE_DATE_EPOCH`).
    bkc_date
        Day of the bkc of a nightly-bkc build (default: as for the date).
    json
        Print the result as JSON.
    """
    if bool(release_type) == bool(custom_version_suffix):
        raise UsageError(
            "a version needs a release type or a suffix of its own, and not both",
            next_step="give either --release-type or --custom-version-suffix",
        )
    if (release_type == "prerelease") != bool(prerelease_version):
        raise UsageError(
            "--prerelease-version goes with --release-type prerelease, and only with it",
            next_step="give both, or neither",
        )
    if prerelease_version and not prerelease_version.isdecimal():
        raise UsageError(
            f"--prerelease-version is a number, not {prerelease_version!r}", next_step="write it like 2"
        )
    sha = override_git_sha
    if release_type in COMMIT_TYPES and not sha:
        sha = commit(version_file.absolute().parent)
    versions = rocm_package_versions(
        override_base_version or base_version(version_file),
        release_type=release_type,
        custom_suffix=custom_version_suffix or None,
        prerelease=int(prerelease_version) if prerelease_version else None,
        date=date or today(),
        sha=sha,
        bkc_date=bkc_date or today(),
    )
    named = {
        "rocm_package_version": versions.python,
        "rocm_deb_package_version": versions.deb,
        "rocm_rpm_package_version": versions.rpm,
    }
    lines = [f"{name}={value}" for name, value in named.items()]
    tell_workflow(lines)
    return Reply(named, lambda: console.out("\n".join(lines)))


@replies
def build(
    *,
    artifact_dir: Path,
    dest_dir: Path,
    shape: Shape = _DEFAULT,
) -> Reply:
    """Make Python packages from ROCm's artifacts, in DEST_DIR/dist.

    The artifacts decide whether device code lies inside the libraries or in packages of its own
    (KPACK_SPLIT_ARTIFACTS in therock_manifest.json).

    Parameters
    ----------
    artifact_dir
        Directory of artifacts, as directories or archives: NAME_COMPONENT_TARGET[.tar.zst|.tar.xz].
    dest_dir
        The packages go to dist/ in it; ROCm packages of earlier runs there are removed.
    json
        Print the result as JSON.
    """
    return _made(artifacts_in(artifact_dir), dest_dir / "dist", shape, shape.packaging())


@replies
def import_(
    sources: list[Path],
    /,
    *,
    dest_dir: Path = Path("dist"),
    family: str | None = None,
    shape: Shape = _DEFAULT,
) -> Reply:
    """Make Python packages from any ROCm: an installation, one that was split, artifacts, archives of them.

    Parameters
    ----------
    sources
        Root of a ROCm installation (with bin/, include/ and lib/), what `rocwright kpack split` made of one,
        a directory of artifacts or of Debian packages, or archives of artifacts.
    dest_dir
        Where the packages go; ROCm packages of earlier runs in it are removed.
    family
        Name of the target family, for an installation with its device code inside. Without it, the known
        family with exactly the targets found inside.
    json
        Print the result as JSON.
    """
    return _made(form_of(sources), dest_dir, shape, shape.packaging(family))


def fetch_(
    prefix: Path,
    /,
    *,
    distribution: str | None = None,
    cache_dir: Path | None = None,
    refresh: bool = False,
    jobs: OptionalCount = None,
) -> None:
    """Fetch a distribution's ROCm packages, as any user, and lay them out as a ROCm prefix.

    Parameters
    ----------
    prefix
        Where the installation goes; it must not exist yet.
    distribution
        Whose packages, such as debian-sid (default: this machine's); also a row of rocwright.toml.
    cache_dir
        Downloaded packages (default: ~/.cache/rocwright).
    refresh
        Ask the distribution for newer packages.
    jobs
        Packages unpacked at once (default: this machine's cores).
    """
    _require_new(prefix)
    row = named_distribution(distribution, read_overlay()) if distribution else this_distribution()
    machine, pretty = this_machine()
    if machine != row.name:
        console.say(
            f"{row.name} is another system than {pretty}: its ROCm {row.rocm_version} can be split, packaged "
            "and checked here; its programs and libraries run where the C library is as new as there"
        )
    cache = (cache_dir or default_cache()).resolve() / "packages"
    target = prefix.resolve()
    log = target.with_name(target.name + ".log")
    packages = fetch(row, cache, log=log, refresh=refresh, note=console.say)
    unpacked = target.with_name(target.name + ".unpacked")
    console.say(f"unpacking {len(packages.packages)} packages")
    require_space(target, packages.size * LEAST_GROWTH, purpose="the unpacked packages")
    try:
        unpack(packages, unpacked, log=log, threads=jobs or available_cores())
        laid = lay_out(row, unpacked, target)
    finally:
        remove_tree(unpacked)
    console.out(
        f"ROCm {laid.rocm_version} in {laid.prefix}: {laid.files} files, {console.human_bytes(laid.size)}"
    )


def unpack_(
    debs: Path,
    prefix: Path,
    /,
    *,
    jobs: OptionalCount = None,
) -> None:
    """Lay a directory of Debian packages out as a ROCm prefix, to be split or built against.

    Parameters
    ----------
    debs
        Directory of .deb files: AMD's, those of a distribution that is known, or of one that a row of
        rocwright.toml describes.
    prefix
        Where the installation goes; it must not exist yet.
    jobs
        Packages unpacked at once (default: this machine's cores).
    """
    _require_new(prefix)
    target = prefix.resolve()
    made = unpack_packages(
        debs,
        target,
        threads=jobs or available_cores(),
        overlay=read_overlay(),
    )
    for name in made.left_out:
        console.say(f"left out: {name} (not a package of ROCm)")
    for name in made.missing:
        console.say(f"missing: {name}, a package of {made.origin}'s ROCm")
    console.out(f"{made.origin} in {made.prefix}: {made.packages} packages")


def _require_new(prefix: Path) -> None:
    if prefix.exists():
        raise UsageError(f"{prefix} exists already", next_step="name a directory that does not exist yet")


def _made(form: Form, dest_dir: Path, shape: Shape, packaging: Packaging) -> Reply:
    threads = shape.jobs or available_cores()
    if threads > _FEW_THREADS:
        return_large_blocks()
    made = make_packages(
        form,
        dest_dir,
        packaging,
        version=shape.version,
        overlay=read_overlay(),
        threads=threads,
        note=console.say,
    )
    return Reply({**msgspec.structs.asdict(made.built), "unchanged": made.unchanged}, lambda: _show(made))


def _show(made: Made) -> None:
    built = made.built
    rows = [
        (
            console.human_bytes(file.size),
            console.human_bytes(file.installed) if file.installed else "-",
            file.name,
        )
        for file in built.files
    ]
    title = f"ROCm {built.version} for {built.family}" + (", unchanged" if made.unchanged else "")
    console.table(title, ("size", "installed", "package"), rows, right=(0, 1))
    for note in built.notes:
        console.out(f"left out: {note}")
    extras = (
        "libraries,devel" if built.mode == "legacy" else f"libraries,device-{package_of(built.targets[0])}"
    )
    console.out(f'install: pip install --find-links {built.directory} "rocm[{extras}]=={built.version}"')
