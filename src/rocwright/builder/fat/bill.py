"""The bill of materials of the ROCm inside a wheel, as CycloneDX (cyclonedx.org, PEP 770)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rocwright.builder.fat.values import BundledFile

PATH = "sboms/rocm.cdx.json"


def render_bill(torch: str, rocm: str, files: Sequence[BundledFile]) -> str:
    """What the torch of version `torch` brings of ROCm, which is of version `rocm` (empty: unknown)."""
    inside: dict[str, object] = {"type": "framework", "name": "ROCm", "bom-ref": "rocm"}
    if rocm:
        inside["version"] = rocm
    inside["components"] = [{"type": "file", "name": file.path} for file in files]
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "library", "name": "torch", "version": torch}},
        "components": [inside],
    }
    return msgspec.json.format(msgspec.json.encode(bill), indent=1).decode() + "\n"
