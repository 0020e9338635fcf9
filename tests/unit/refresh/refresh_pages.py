"""Small pages like the real ones of TheRock, rocm-bootstrap, libdrm, pciutils, the driver and ROCm.

The built-in tables differ from them where the tests of refresh say so.
"""

from __future__ import annotations

import sys
from pathlib import Path

import rocwright.data
from trees import write

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def table(name: str) -> dict[str, object]:
    """A built-in table as plain values."""
    text = (Path(rocwright.data.__file__).parent / f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def cmake(families: dict[str, list[str]]) -> str:
    """Declarations of these families, with what stands around them in the real file."""
    by_target: dict[str, list[str]] = {}
    for family, targets in families.items():
        for target in targets:
            by_target.setdefault(target, []).append(family)
    calls = [
        f'therock_add_amdgpu_target({target} "Some GPU / XT" FAMILY {" ".join(names)}\n'
        "  EXCLUDE_TARGET_PROJECTS\n    hipSPARSELt # https://example.org/issues/1 (open)\n)\n"
        for target, names in by_target.items()
    ]
    head = 'function(therock_add_amdgpu_target gfx_target product_name)\n  foreach(f "${gfx_target}")\n'
    head += "  endforeach()\nendfunction()\n"
    return head + "# gfx000: not one\n" + "\n".join(calls)


EXTRAS = """\
| Product Name             | GFX Target | Device Extra     |
| ------------------------ | ---------- | ---------------- |
| *All supported GPUs*     | (all)      | `device-all`     |
| AMD Instinct MI100       | gfx908     | `device-gfx908`  |
| AMD Ryzen AI Max+ PRO 999 | gfx1151   | `device-gfx1151` |
"""

SUPPORTED = """\
| Architecture | LLVM target | Build |
| ------------ | ----------- | ----- |
| **CDNA**     | **gfx908**  | x     |
"""

MATRIX = """\
import os
amdgpu_family_info_matrix_presubmit = {
    "gfx94x": {"linux": {"test-runs-on": "lab", "family": "gfx94X-dcgpu"}},
}
amdgpu_family_info_matrix_postsubmit = {}
amdgpu_family_info_matrix_nightly = {
    "gfx90a": {"linux": {"test-runs-on": "", "family": "gfx90a"}},
}
os.system("touch ran")
"""

PYTORCH = """\
RELEASE_PYTHON_VERSIONS = ["3.12", "3.15"]
CI_PYTHON_VERSIONS = {"linux": ["3.12"], "windows": ["3.12"]}
RELEASE_STABLE_PYTORCH_REFS = {"linux": ["release/2.14", "release/2.15"], "windows": ["release/2.14"]}
CI_PYTORCH_REFS = {"linux": ["release/2.14"], "windows": ["release/2.14"]}
"""

TARGETS = """\
from enum import Enum
class GfxTarget: ...
GFX942 = GfxTarget(name="gfx942", major=9, minor=4, stepping=2)
GFX1299 = GfxTarget(name="gfx1299", major=12, minor=9, stepping=9)
ALL_TARGETS: tuple[GfxTarget, ...] = (
    GFX942,
    GFX1299,
)
raise SystemExit("it was run")
"""

OWNERS = '_OVERRIDE_PACKAGE_OWNERS = {"gfx942": "gfx1299"}\nraise SystemExit("it was run")\n'

IDS = """\
# List of AMDGPU IDs
1.0.0
1309,\t00,\tAMD Radeon R7 Graphics
738C,\t01,\tAMD Instinct MI100
738C,\t02,\tAMD Instinct MI100
744C,\tC8,\tAMD Radeon RX 9999 XTX
"""

PCI = """\
#
#\tVersion: 2027.01.02
#\tDate:    2027-01-02 20:08:02
#
1001  Kolter Electronic
\t744c  Navi 31 [of somebody else]
1002  Advanced Micro Devices, Inc. [AMD/ATI]
\t744c  Navi 31 [Radeon RX 7900 XT/7900 XTX]
\t\t1002 0e3b  Radeon PRO W7900
\t74ff  Navi 31 [Radeon RX 9999]
\tab30  Navi 31 HDMI/DP Audio
1003  ULSI Systems
\t74fe  Navi 31 [of somebody else]
"""

DRIVER = """\
static const struct pci_device_id pciidlist[] = {
\t{0x1002, 0x6900, PCI_ANY_ID, PCI_ANY_ID, 0, 0, CHIP_TOPAZ},
\t{0x1002, 0x69FF, PCI_ANY_ID, PCI_ANY_ID, 0, 0, CHIP_TOPAZ|AMD_IS_MOBILITY},
"""

CSV = """\
ROCm Version,99.1.0,6.0.0
      ,.. _gpu-support:,
      :doc:`GPU / LLVM target <rocm:reference/system-requirements>`,gfx1201,gfx1100
      ,gfx942 [#note]_,gfx942
,,
      :doc:`PyTorch <../compatibility/pytorch-compatibility>`,"2.19, 2.18",2.1
      :doc:`RCCL <rccl:index>`,9.9.9,2.18.3
      :doc:`rocJPEG <rocjpeg:index>`,N/A,N/A
      `half <https://github.com/ROCm/half>`_ ,1.12.0,1.12.0
"""


def therock(folder: Path, **others: str) -> Path:
    """TheRock's files in a folder; by name other texts for some of them."""
    families = dict(table("families")["families"])  # type: ignore[call-overload]
    del families["gfx90a-dcgpu"]
    families["gfx94X-all"] = ["gfx942", "gfx950"]
    families["gfx129X-all"] = ["gfx1299"]
    texts = {
        "cmake/therock_amdgpu_targets.cmake": others.get("cmake", cmake(families)),
        "build_tools/github_actions/amdgpu_family_matrix.py": others.get("matrix", MATRIX),
        "build_tools/github_actions/configure_pytorch_release_matrix.py": others.get("pytorch", PYTORCH),
        "RELEASES.md": others.get("releases", EXTRAS),
        "SUPPORTED_GPUS.md": SUPPORTED,
        "version.json": others.get("version", '{"rocm-version": "99.0.0"}'),
    }
    for name, text in texts.items():
        write(folder / name, text)
    return folder


def bootstrap(folder: Path, targets: str = TARGETS, owners: str = OWNERS) -> Path:
    """rocm-bootstrap as it is installed."""
    write(folder / "rocm_bootstrap/targets.py", targets)
    write(folder / "rocm_bootstrap/package_metadata.py", owners)
    write(folder / "rocm_bootstrap-9.1.0.dist-info/METADATA", "Name: rocm-bootstrap\nVersion: 9.1.0\n")
    return folder
