"""How a wheel with ROCm inside is called: its version says so, its file name follows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from rocwright.errors import UsageError
from rocwright.wheel.metadata import wheel_stem
from rocwright.wheel.read import Wheel

LABEL = "rocm"


def fat_version(version: str) -> str:
    """`2.9.0+rocm.rocm7.10.0` for `2.9.0+rocm7.10.0`, `2.9.0+rocm` for `2.9.0`.

    The normal form of what `2.9.0+rocm_rocm7.10.0` spells: installers know both for the same version.
    """
    parsed = Version(version)
    local = f"{LABEL}.{parsed.local}" if parsed.local else LABEL
    return f"{parsed.public}+{local}"


def fat_filename(wheel: Wheel, version: str) -> str:
    """The wheel's file name with another version: build number and tags stay."""
    return f"{wheel_stem(wheel.name, version)}-{wheel.path.name.split('-', 2)[2]}"


def chosen_output(wheel: Wheel, given: Path | None) -> tuple[Path, str]:
    """The file that is written, and its version.

    Beside the wheel, or in the given directory, under the usual name; or the given file, whose name says the
    version. Raises `UsageError` for a file name of something else, and for the wheel itself.
    """
    version = fat_version(wheel.version)
    output = given or wheel.path.parent
    if output.is_dir() or output.suffix.lower() != ".whl":
        output = output / fat_filename(wheel, version)
    elif given is not None:
        version = _named_version(wheel, output)
    if output.resolve() == wheel.path.resolve():
        raise UsageError(
            f"the fat wheel would replace {wheel.path.name} itself",
            next_step="choose another --output-path",
        )
    return output, version


def _named_version(wheel: Wheel, output: Path) -> str:
    usual = fat_filename(wheel, fat_version(wheel.version))
    try:
        name, version, _, tags = parse_wheel_filename(output.name)
    except (InvalidWheelFilename, InvalidVersion) as error:
        raise UsageError(
            f"{output.name} is no valid wheel name: {error}",
            next_step=f"call it {usual}, or give a directory",
        ) from error
    theirs: Mapping[str, tuple[str, str]] = {
        "project": (canonicalize_name(wheel.name), name),
        "tags": (" ".join(sorted(wheel.tags)), " ".join(sorted(map(str, tags)))),
        "version": (Version(wheel.version).public, version.public),
    }
    for what, (have, said) in theirs.items():
        if have != said:
            raise UsageError(
                f"{output.name} says {what} {said}, {wheel.path.name} is {have}; installers go by the name",
                next_step=f"call it {usual}; only what follows the + may differ",
            )
    return str(version)
