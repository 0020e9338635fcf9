"""Why torch cannot be imported, in words that help."""

from __future__ import annotations

import sys

import pytest

from rocwright.compat.doctor.observations import Diagnosis
from trees import write
from unit.compat.doctor.desk import Room, Tree, of, one, visit

HERE = f"3.{sys.version_info[1]}"


# --- importing


def failing(room: Room, body: str, **more: object) -> Diagnosis:
    room.torch()
    (room.site / "torch/__init__.py").write_text(body)
    return visit(room, import_=True, **more)


def test_torch_is_imported_only_when_asked(room: Room) -> None:
    room.torch()
    assert of(visit(room), "import") == []
    (room.site / "torch/__init__.py").write_text("from torch.version import __version__\n")
    assert one(visit(room, import_=True), "import").detail == "torch 2.9.0+rocm7.10.0 can be imported"


# What glibc's loader and Python say, word for word.
SAID = {
    "OSError('libamdhip64.so.7: cannot open shared object file: No such file or directory')": (
        "the library libamdhip64.so.7 is missing; rocm-sdk-core has it",
        "rocm-sdk-core",
    ),
    "ImportError('librocblas.so.5: cannot open shared object file: No such file or directory')": (
        "the library librocblas.so.5 is missing; rocm-sdk-libraries has it",
        '"rocm[libraries]==7.10.0"',
    ),
    "ImportError('libomp.so.5: cannot open shared object file: No such file or directory')": (
        "the library libomp.so.5 is missing from this system",
        "apt-get install libomp5",
    ),
    "ImportError('/x/libtorch_hip.so: file too short')": (
        "the library /x/libtorch_hip.so is damaged, or for another machine: file too short",
        "--no-deps torch==2.9.0+rocm7.10.0",
    ),
    """ImportError("/lib/libc.so.6: version `GLIBC_2.38' not found (required by /x/libtorch.so)")""": (
        "/lib/libc.so.6 of this system is too old: it has no GLIBC_2.38, which /x/libtorch.so needs",
        "use a newer distribution, or wheels for an older one (manylinux_2_28)",
    ),
    "ImportError('/x/libtorch_hip.so: undefined symbol: hipFoo')": (
        "/x/libtorch_hip.so needs hipFoo, which no library that was loaded has: "
        "copies of two versions are mixed",
        "--no-deps torch==2.9.0+rocm7.10.0",
    ),
    "ModuleNotFoundError(\"No module named 'typing_extensions'\", name='typing_extensions')": (
        "torch needs the Python module typing_extensions, which is not installed",
        "typing-extensions",
    ),
    "ModuleNotFoundError(\"No module named 'rocm_sdk'\", name='rocm_sdk')": (
        "torch needs the Python module rocm_sdk, which is not installed",
        " rocm",
    ),
    "RuntimeError('this program was built for ROCm 7.10.*, but ROCm 7.9.0 is installed as Python pack…')": (
        "torch was built for ROCm 7.10.*, installed is ROCm 7.9.0",
        '"rocm[libraries]==7.10.*"',
    ),
    "RuntimeError('… a ROCm version matching 7.10.*, but ROCm 7.9.0 is installed as Python packages')": (
        "torch was built for ROCm 7.10.*, installed is ROCm 7.9.0",
        '"rocm[libraries]==7.10.*"',
    ),
    "RuntimeError('what nobody thought of')": (
        "torch cannot be imported: RuntimeError: what nobody thought of",
        "-X faulthandler -c 'import torch'",
    ),
}


@pytest.mark.parametrize("raised", SAID)
def test_a_torch_that_cannot_be_imported_is_explained(room: Room, raised: str) -> None:
    cause, step = SAID[raised]
    room.torch(requires=["rocm[libraries]==7.10.0"])
    (room.site / "torch/__init__.py").write_text(f"raise {raised}\n")
    item = one(visit(room, import_=True), "import")
    assert (item.verdict, item.detail) == ("wrong", cause)
    assert item.next_step.endswith(step)


def test_a_library_that_a_package_had_is_mended_by_that_package(room: Room) -> None:
    room.rocm()
    (room.site / "_rocm_sdk_core/lib/libamdhip64.so.7").unlink()
    said = "libamdhip64.so.7: cannot open shared object file: No such file or directory"
    item = one(failing(room, f"raise OSError({said!r})\n"), "import")
    assert item.detail == "the library libamdhip64.so.7 is missing: rocm-sdk-core 7.10.0 had it"
    assert item.next_step.endswith("--reinstall --no-deps rocm-sdk-core==7.10.0")


def test_a_foreign_library_path_is_named_as_the_way_out(room: Room, tree: Tree) -> None:
    body = "raise ImportError('/x/libtorch_hip.so: undefined symbol: hipFoo')\n"
    found = failing(room, body, tree=tree, environ={"LD_LIBRARY_PATH": "/opt/rocm/lib"})
    assert one(found, "import").next_step == "unset LD_LIBRARY_PATH"


def test_a_torch_for_another_python(room: Room) -> None:
    write(room.site / "torch/_C.cpython-39-x86_64-linux-gnu.so")
    item = one(failing(room, "import torch._C\n"), "import")
    assert item.detail == f"torch here is for Python 3.9, this is Python {HERE}"
    assert item.next_step == "uv venv --python 3.9 NEW, and install there"


def test_a_torch_that_ends_the_process(room: Room) -> None:
    item = one(failing(room, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"), "import")
    assert item.detail.startswith("import torch did not come to its end: was killed by signal 11")


def test_a_torch_that_exits(room: Room) -> None:
    item = one(failing(room, "import sys\nsys.exit('no GPU, no torch')\n"), "import")
    assert "ended with exit code 1: no GPU, no torch" in item.detail
