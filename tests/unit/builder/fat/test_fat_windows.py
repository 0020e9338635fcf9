"""A torch for Windows with ROCm inside, made on any system: which files, and what its modules say."""

from __future__ import annotations

import ast
import zipfile
from pathlib import Path

import pytest

from rocwright.builder.fat.plan import plan_fat
from rocwright.builder.fat.wheel import write_fat
from rocwright.errors import InvalidPrefix, InvalidWheel
from rocwright.wheel.read import open_wheel, verify_record
from wheels import write_wheel
from windows_tree import Dll, build_dll, windows_prefix

TAG = "cp312-cp312-win_amd64"
FAT = "2.9.0+rocm.rocm7.0.2"
INIT = """\
import os
import sys

if sys.platform == "win32":

    def _load_dll_libraries() -> None:
        dll_paths = list(filter(os.path.exists, [os.path.join(os.path.dirname(__file__), "lib")]))

        for dll_path in dll_paths:
            os.add_dll_directory(dll_path)

    _load_dll_libraries()

try:
    from . import _rocm_init
except ImportError:
    pass
else:
    _rocm_init.initialize()
"""
ROCM_INIT = """\
def initialize():
    import rocm_sdk

    rocm_sdk.initialize_process(
        preload_shortnames=["amd_comgr", "amdhip64", "miopen", "hipblas"], check_version="7.0.2"
    )
"""
# Everything of the tree but compiler, programs, and what is for Linux.
INSIDE = {
    ".info/version",
    "bin/amd_comgr0700.dll",
    "bin/amdhip64_7.dll",
    "bin/hipblas.dll",
    "bin/hiprtc-builtins0700.dll",
    "bin/hiprtc0700.dll",
    "bin/rocblas.dll",
    "bin/rocblas/library/TensileLibrary_lazy_gfx1100.dat",
    "bin/rocblas/library/TensileLibrary_lazy_gfx1101.dat",
    "bin/rocm-openblas.dll",
    "include/hip/hip_version.h",
    "include/rocblas/rocblas.h",
    "lib/amdhip64.lib",
    "lib/cmake/hip/hip-config.cmake",
    "lib/rocblas.lib",
    "share/therock/dist_info.json",
    "share/therock/therock_manifest.json",
}


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("rocm")
    windows_prefix(root)
    for path in ("lib/rocm_sysdeps/bin/z.dll", "lib/host-math/bin/x.dll"):
        (root / path).parent.mkdir(parents=True)
        (root / path).write_bytes(b"left out")
    return root


@pytest.fixture(scope="module")
def c10(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A DLL of torch that imports from HIP and hipBLAS."""
    path = tmp_path_factory.mktemp("dll") / "c10_hip.dll"
    build_dll(path, Dll(("c10",)), needs=[prefix / "bin/amdhip64_7.dll", prefix / "bin/hipblas.dll"])
    return path.read_bytes()


def torch(folder: Path, c10: bytes, *, init: str = INIT, rocm_init: str | None = ROCM_INIT) -> Path:
    files: dict[str, str | bytes] = {
        "torch/__init__.py": init,
        "torch/version.py": "__version__ = '2.9.0+rocm7.0.2'\n",
        "torch/lib/c10_hip.dll": c10,
    }
    if rocm_init is not None:
        files["torch/_rocm_init.py"] = rocm_init
    requires = ["rocm[libraries]==7.0.2"]
    return write_wheel(folder, "torch", "2.9.0+rocm7.0.2", files, requires=requires, tag=TAG)


def read(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_everything_but_the_compiler_goes_in(tmp_path: Path, prefix: Path, c10: bytes) -> None:
    plan = plan_fat(torch(tmp_path, c10), prefix)
    (made,) = write_fat(plan)
    assert made == tmp_path / f"torch-{FAT}-{TAG}.whl"
    files = read(made)
    root = "torch/lib/rocm/"
    inside = {name.removeprefix(root): data for name, data in files.items() if name.startswith(root)}
    assert set(inside) == INSIDE
    assert all((prefix / name).read_bytes() == data for name, data in inside.items())
    assert files["torch/lib/c10_hip.dll"] == c10
    assert verify_record(open_wheel(made)) == ()
    assert f"\nVersion: {FAT}\n" in files[f"torch-{FAT}.dist-info/METADATA"].decode()
    assert b"Requires-Dist" not in files[f"torch-{FAT}.dist-info/METADATA"]
    with zipfile.ZipFile(made) as archive:
        assert archive.getinfo(f"{root}bin/rocblas.dll").compress_type == zipfile.ZIP_DEFLATED
    assert plan.notes == (
        f"{prefix} has no licence texts: add those of ROCm before you hand it on",
        "this ROCm has no miopen, which torch loads first: it is left out",
    )


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_loader_is_told_of_rocms_directory(tmp_path: Path, prefix: Path, c10: bytes, end: str) -> None:
    wheel = torch(tmp_path, c10, init=INIT.replace("\n", end))
    init = read(write_fat(plan_fat(wheel, prefix))[0])["torch/__init__.py"].decode()
    line = '        dll_paths.insert(0, os.path.join(os.path.dirname(__file__), "lib", "rocm", "bin"))'
    marker = "        for dll_path in dll_paths:"
    assert init == INIT.replace(marker, f"{line}\n{marker}").replace("\n", end)
    ast.parse(init)


def test_what_is_loaded_first_comes_from_inside(tmp_path: Path, prefix: Path, c10: bytes) -> None:
    made = read(write_fat(plan_fat(torch(tmp_path, c10), prefix))[0])
    module = made["torch/_rocm_init.py"].decode()
    ast.parse(module)
    assert "rocm_sdk" not in module
    assert 'os.add_dll_directory(os.path.join(root, "bin"))' in module
    names = module[module.index("names = [") :]
    places = [names.index(f"'{name}'") for name in ("amd_comgr", "amdhip64", "hipblas")]
    assert places == sorted(places) and "miopen" not in module.lower()
    for name, file in (("amd_comgr", "amd_comgr0700"), ("amdhip64", "amdhip64_7"), ("rocblas", "rocblas")):
        assert f"{name!r}: 'bin/{file}.dll'," in module


def test_a_torch_that_never_knew_packages_gets_no_module(tmp_path: Path, prefix: Path, c10: bytes) -> None:
    made = read(write_fat(plan_fat(torch(tmp_path, c10, rocm_init=None), prefix))[0])
    assert "torch/_rocm_init.py" not in made


def test_without_the_place_in_the_loader_nothing_is_written(tmp_path: Path, prefix: Path, c10: bytes) -> None:
    wheel = torch(tmp_path, c10, init=INIT.replace("in dll_paths:", "in paths:"))
    with pytest.raises(InvalidWheel, match=r"torch/__init__\.py has no loop `for dll_path in dll_paths:`"):
        plan_fat(wheel, prefix)
    assert [path.name for path in tmp_path.iterdir()] == [wheel.name]


@pytest.mark.parametrize("text", ["# for dll_path in dll_paths:\n", '"""\nfor dll_path in dll_paths:\n"""\n'])
def test_a_text_about_the_place_is_not_the_place(tmp_path: Path, prefix: Path, c10: bytes, text: str) -> None:
    other = INIT.replace("in dll_paths:", "in paths:")
    with pytest.raises(InvalidWheel, match="has no loop"):
        plan_fat(torch(tmp_path, c10, init=text + other), prefix)
    init = text + INIT.replace("    ", "\t") * 2
    patched = plan_fat(torch(tmp_path, c10, init=init), prefix).wheels[0].texts["torch/__init__.py"]
    assert patched.startswith(text) and patched.count("\t\tdll_paths.insert(0, ") == 2
    assert patched.count("dll_paths.insert(") == 2
    ast.parse(patched)


def test_a_rocm_without_a_dll_that_torch_imports(tmp_path: Path, c10: bytes) -> None:
    windows_prefix(tmp_path / "rocm")
    (tmp_path / "rocm/bin/hipblas.dll").unlink()
    with pytest.raises(
        InvalidPrefix, match=r"this ROCm lacks hipblas\.dll \(needed by torch/lib/c10_hip\.dll"
    ):
        plan_fat(torch(tmp_path, c10), tmp_path / "rocm")
