"""Write empty wheels that stand for packages from elsewhere while a set's installation is tried."""

from __future__ import annotations

import zipfile
from pathlib import Path

from rocwright.check.install.plan import StandIn
from rocwright.wheel.metadata import (
    Metadata,
    render_metadata,
    render_wheel_file,
    wheel_filename,
    wheel_stem,
)

_TAG = "py3-none-any"


def write_stand_in(folder: Path, stand_in: StandIn) -> Path:
    """The wheel of a stand-in: metadata and nothing else."""
    info = f"{wheel_stem(stand_in.project, stand_in.version)}.dist-info"
    metadata = Metadata(
        stand_in.project,
        stand_in.version,
        summary="Stands for the package of this name while an installation is tried.",
        provides_extra=stand_in.extras,
    )
    members = {
        f"{info}/METADATA": render_metadata(metadata),
        f"{info}/WHEEL": render_wheel_file(_TAG, root_is_purelib=True, generator="rocwright"),
    }
    record = "".join(f"{name},,\n" for name in (*members, f"{info}/RECORD"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / wheel_filename(stand_in.project, stand_in.version, _TAG)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**members, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return path
