"""What lies in torch's directory: needs and sizes of real libraries, a broken one, device code, none."""

from __future__ import annotations

import subprocess
from pathlib import Path

from oracle.fat_library import DEVICE, build_library, bundle, code_object
from rocwright.compat.probe.run import look


def library(path: Path, *words: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text("int answer(void) { return 42; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(path), str(source), *words], check=True)
    source.unlink()
    return path


def test_libraries_with_what_they_need(tmp_path: Path) -> None:
    package = tmp_path / "torch"
    low = library(package / "lib" / "libc10_hip.so", "-Wl,-soname,libc10_hip.so")
    library(package / "lib" / "libtorch_hip.so", "-Wl,--no-as-needed", str(low), "-Wl,-z,defs", "-lm", "-lc")
    (package / "lib" / "libtorch.so").write_text("no ELF")
    (package / "_C.so").write_bytes(b"\x7fELF and then nothing of the kind")
    found = {one.file: one for one in look(package)}
    assert set(found) == {"lib/libc10_hip.so", "lib/libtorch_hip.so", "_C.so"}
    assert found["lib/libtorch_hip.so"].needed == ("libc10_hip.so", "libm.so.6", "libc.so.6")
    assert found["lib/libtorch_hip.so"].size == (package / "lib" / "libtorch_hip.so").stat().st_size
    assert (found["lib/libc10_hip.so"].device_code, found["lib/libc10_hip.so"].targets) == ("", ())
    assert found["_C.so"].problem and not found["_C.so"].needed


def test_device_code_is_told_by_its_targets(tmp_path: Path) -> None:
    package = tmp_path / "torch"
    (package / "lib").mkdir(parents=True)
    # EF_AMDGPU_MACH of gfx90a and gfx1100 (LLVM's AMDGPU usage guide).
    code = [(f"{DEVICE}gfx90a:xnack-", code_object(0x3F)), (f"{DEVICE}gfx1100", code_object(0x41))]
    built = build_library(tmp_path, bundles=[bundle(code)])
    (package / "lib" / "libtorch_hip.so").write_bytes(built.read_bytes())
    (one,) = look(package)
    assert (one.device_code, one.targets) == ("inside", ("gfx1100", "gfx90a:xnack-"))


def test_templates_are_known_by_their_names(tmp_path: Path) -> None:
    """Mangled as by the Itanium C++ ABI: a namespace's name follows its length."""
    (tmp_path / "names.c").write_text(
        'const char *const names[] = {"_ZN7rocprim6detail15sort_kernelILj1EEEvv", "_ZN6thrustice"};\n'
    )
    path = tmp_path / "torch" / "lib" / "libtorch_hip.so"
    path.parent.mkdir(parents=True)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, tmp_path / "names.c"], check=True)
    marks = {"hipCUB": [b"6hipcub", b"7rocprim"], "rocWMMA": [b"7rocwmma"]}
    assert [one.marks for one in look(tmp_path / "torch", marks)] == [("hipCUB",)]
    assert [one.marks for one in look(tmp_path / "torch")] == [()]


def test_no_torch_is_no_library(tmp_path: Path) -> None:
    assert look(tmp_path) == ()
