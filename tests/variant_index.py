"""A folder of files as an index with wheel variants has them, by hand: as PEP 825 and uv 0.13 read them.

torch requires `amd-torch-device` of its own version. That has a plain wheel and a null variant, which require
nothing, and for each target a variant that requires the device package of the target.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from wheels import ANY, pack, record_row, write_wheel

VERSION = "2.13.0+rocm7.13.0"
TARGETS = ("gfx942", "gfx1100", "gfx1151")
EDITION = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"
# What is asked, and where; not vendored by uv.
PROVIDER = {"requires": ["rocm-bootstrap"], "plugin-api": "rocm_bootstrap.variant_provider:AMDVariantPlugin"}


def stated(variants: dict[str, Any], provider: dict[str, Any]) -> dict[str, Any]:
    """The JSON of an index or of a wheel."""
    return {
        "$schema": EDITION,
        "default-priorities": {"namespace": ["amd"]},
        "providers": {"amd": provider},
        "variants": variants,
    }


def variants_of(targets: Iterable[str]) -> dict[str, Any]:
    return {"null": {}, **{target: {"amd": {"gfx_arch": [target]}} for target in targets}}


def write_index(folder: Path, *, version: str = VERSION, targets: Sequence[str] = TARGETS) -> Path:
    """Wheels of torch, of the project of its variants and of its device packages, and their variants.json."""
    selector, exact = "amd-torch-device", f"=={version}"
    write_wheel(
        *(folder, "torch", version, {"torch/__init__.py": "import amd_torch_device\n"}),
        requires=[
            selector + exact,
            *(f'amd-torch-device-{one}{exact}; extra == "device-{one}"' for one in targets),
        ],
        extras=[f"device-{one}" for one in targets],
        tag=ANY,
    )
    write_wheel(folder, selector, version, {"amd_torch_device/__init__.py": ""}, tag=ANY)
    for label, properties in variants_of(targets).items():
        requires = [f"{selector}-{label}{exact}"] if properties else []
        _write_variant(folder, selector, version, label, properties, requires)
        if properties:
            write_wheel(
                folder,
                f"{selector}-{label}",
                version,
                {f"amd_torch_device_{label}/__init__.py": ""},
                tag=ANY,
            )
    text = json.dumps(stated(variants_of(targets), PROVIDER))
    (folder / f"amd_torch_device-{version}-variants.json").write_text(text)
    return folder


def _write_variant(
    folder: Path, project: str, version: str, label: str, properties: dict[str, Any], requires: Sequence[str]
) -> None:
    """A wheel that states itself what it is for: installers ask it again when they have it."""
    stem = f"{project.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    members = {
        f"{info}/METADATA": "\n".join(
            [
                *("Metadata-Version: 2.1", f"Name: {project}", f"Version: {version}"),
                *(f"Requires-Dist: {one}" for one in requires),
                "",
            ]
        ).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {ANY}\n".encode(),
        f"{info}/variant.json": json.dumps(
            stated({label: properties}, {"static-properties": properties["amd"]} if properties else PROVIDER)
        ).encode(),
    }
    rows = "".join(record_row(name, data) for name, data in members.items())
    members[f"{info}/RECORD"] = f"{rows}{info}/RECORD,,\n".encode()
    pack(folder / f"{stem}-{ANY}-{label}.whl", members)
