"""A torch with many faults at once is refused with one error for each, and nothing of it is stored."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import Run
from needs import needs
from wheels import write_torch, write_wheel

pytestmark = pytest.mark.slow

HERE = f"cp{sys.version_info.major}{sys.version_info.minor}"
ROCM = "7.10.0"
# Rule that finds it → how `write_torch` makes it. Each row is a fault of its own; add rows as rules come.
FAULTS: Mapping[str, Mapping[str, Any]] = {
    "torch-hip": {"files": {"torch/version.py": "hip: Optional[str] = None\n"}},
    "torch-rocm-init": {"files": {"torch/_rocm_init.py": None}},
    "required-files": {"files": {"torch/lib/libc10_hip.so": None}},
    "forbidden-files": {"files": {"torch/__pycache__/nn.cpython-311.pyc": "left behind"}},
    "member-modes": {"modes": {"torch/lib/libtorch_hip.so": 0o100000}},
    "requirement-extra": {"requires": ['fsspec; extra == "data"']},
    "set-import": {"files": {"torch/__init__.py": "from torch import nn\n", "torch/nn.py": "print(lost)\n"}},
}


def torch_with(folder: Path, *rules: str) -> None:
    """A closed set of torch, which has these faults, and of what it requires."""
    files: dict[str, object] = {}
    modes: dict[str, int] = {}
    requires = [f"rocm[libraries]=={ROCM}"]
    for rule in rules:
        files.update(FAULTS[rule].get("files", {}))
        modes.update(FAULTS[rule].get("modes", {}))
        requires += FAULTS[rule].get("requires", [])
    write_torch(folder, tag=f"{HERE}-{HERE}-linux_x86_64", files=files, modes=modes, requires=requires)
    info, licence = f"rocm-{ROCM}.dist-info", "licenses/LICENSE"
    rocm = {"rocm_sdk/__init__.py": "", f"{info}/{licence}": "as it is"}
    write_wheel(folder, "rocm", ROCM, rocm, tag="py3-none-any", extras=["libraries"])


def errors(found: Mapping[str, Any]) -> Counter[str]:
    return Counter(one["rule"] for one in found["check"]["findings"] if one["severity"] == "error")


def test_without_the_faults_the_set_is_staged(rocwright: Run) -> None:
    torch_with(Path("dist"))
    done = rocwright("set", "create", "dist", "--stage", "--family", "fam")
    assert done.code == 0, done.out + done.err
    assert f"install the set for {HERE} on linux_x86_64: 2 packages, 2 modules imported" in done.err


def test_seven_faults_are_seven_errors_and_nothing_is_stored(rocwright: Run) -> None:
    torch_with(Path("dist"), *FAULTS)
    done = rocwright("set", "create", "dist", "--stage", "--family", "fam", "--json")
    assert done.code == 9, done.err
    assert errors(done.json) == Counter(list(FAULTS))
    assert len(FAULTS) >= 7
    assert not Path("store").exists()


MERGE = "<<<<<<< HEAD\nLIMIT = 1\n=======\nLIMIT = 2\n>>>>>>> upstream/main\n"


def extension(source: str) -> bytes:
    """An extension module, by the compiler."""
    Path("ext.c").write_text(source)
    words = ["gcc", "-shared", "-fPIC", "-o", "ext.so", "ext.c"]
    subprocess.run(words, check=True, env={"PATH": os.environ["PATH"], "LC_ALL": "C"})
    return Path("ext.so").read_bytes()


@needs("gcc")
def test_seven_faults_of_the_release_engineer_are_seven_errors(rocwright: Run) -> None:
    suffix = f"cpython-{HERE[2:]}-x86_64-linux-gnu.so"
    lost = "void lost(void); void *PyInit_lost(void) { lost(); return 0; }\n"
    other = "void *PyInit_other(void) { return 0; }\n"
    files = {
        "torch/merged.py": MERGE,
        f"torch/lost.{suffix}": extension(lost),
        f"torch/entry.{suffix}": extension(other),
        "torch.pth": "import os; os.system('true')\n",
        "torch/version.py": "hip: Optional[str] = '6.4.0'\n",
    }
    # The last line of METADATA stands behind an empty one, so nobody reads it.
    requires = [
        f"rocm[libraries]=={ROCM}",
        "sympy @ https://example.org/sympy-1.14-py3-none-any.whl",
        "filelock\n\nRequires-Dist: fsspec",
    ]
    torch_with(Path("dist"))
    write_torch(Path("dist"), tag=f"{HERE}-{HERE}-linux_x86_64", files=files, requires=requires)
    done = rocwright("set", "create", "dist", "--stage", "--family", "fam", "--json")
    assert done.code == 9, done.err
    assert errors(done.json) == Counter(
        (
            "merge-marks",
            "elf-symbols",
            "extension-init",
            "requirement-address",
            "startup-code",
            "metadata-hidden",
            "torch-hip",
        )
    )
    assert not Path("store").exists()


def test_without_an_installation_the_record_says_so(rocwright: Run) -> None:
    torch_with(Path("dist"))
    words = ("dist", "--family", "fam", "--no-install")
    done = rocwright("set", "create", *words)
    assert done.code == 0, done.out + done.err
    [said] = [path for path in Path("store/sets").rglob("*.json") if "set-unproved" in path.read_text()]
    assert "the installation was left out" in said.read_text()
    assert "set-install" not in said.read_text()
