"""The demo's torch with the distribution's ROCm inside runs where there is no ROCm, nor its packages."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

# What this torch needs of ROCm; a stand-in for each lies on the hostile search path.
NAMES = ("libamdhip64.so.5", "libhsa-runtime64.so.1", "libamd_comgr.so.2", "libelf.so.1", "libnuma.so.1")
PROBE = """
import torch, torchvision, torchaudio, amp_C
print(torch.__version__)
print(torch.cuda.device_count(), torch.mini_launch().name)
for line in open("/proc/self/maps"):
    if ".so" in line:
        print(line.split()[-1])
"""

# hiprtc needs no GPU, but comgr, a library with headers that it opens by name, and device libraries.
COMPILE = """
import ctypes, torch
(hip,) = {line.split()[-1] for line in open("/proc/self/maps") if "/libamdhip64.so" in line}
hip = ctypes.CDLL(hip)
program, size = ctypes.c_void_p(), ctypes.c_size_t()
source = b'extern "C" __global__ void k(float* x) { x[threadIdx.x] = sinf(x[threadIdx.x]); }'
assert hip.hiprtcCreateProgram(ctypes.byref(program), source, b"k.hip", 0, None, None) == 0
options = (ctypes.c_char_p * 1)(b"--offload-arch=gfx90a")
done = hip.hiprtcCompileProgram(program, 1, options)
hip.hiprtcGetProgramLogSize(program, ctypes.byref(size))
log = ctypes.create_string_buffer(size.value + 1)
hip.hiprtcGetProgramLog(program, log)
assert done == 0, log.value
assert hip.hiprtcGetCodeSize(program, ctypes.byref(size)) == 0
code = ctypes.create_string_buffer(size.value)
assert hip.hiprtcGetCode(program, code) == 0
print(code.raw[:4], code.raw[18], b"sinf" not in code.raw)
"""


@pytest.fixture(scope="module")
def fat(newcomer, demo) -> Iterator[dict]:
    """The plan that the command printed, and the directory with what it wrote."""
    dist, out = demo.work / "dist/pytorch", newcomer.home / "fat"
    (torch,) = dist.glob("torch-*.whl")
    others = [path for path in dist.glob("*.whl") if not path.name.startswith(("torch-", "triton-"))]
    done = newcomer.rocwright(
        "wheel", "fat", torch, demo.work / "rocm", "--output-path", f"{out}/", "--also", *others, "--json"
    )
    (triton,) = dist.glob("triton-*.whl")
    newcomer.run("cp", triton, out)
    yield {"plan": json.loads(done.stdout), "out": out}
    # Gigabytes, which nobody else needs.
    for path in newcomer.home.glob("fat*"):
        shutil.rmtree(path)


def test_nothing_is_wrong_with_the_whole_set(newcomer, fat) -> None:
    report = json.loads(newcomer.rocwright("check", "--set", fat["out"], "--json").stdout)
    assert [one for one in report["findings"] if one["severity"] == "error"] == []


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_it_computes_in_an_environment_without_rocm(newcomer, fat, tmp_path: Path, installer: str) -> None:
    root, out = newcomer.home / f"fat-{installer}", fat["out"]
    python = root / "bin/python"
    tools = newcomer.clone / ".venv/bin"
    newcomer.run(tools / "python", "-m", "venv", root)
    asked = ["--no-index", "--find-links", out, "torch", "torchvision", "torchaudio", "apex"]
    if installer == "pip":
        newcomer.run(python, "-m", "pip", "install", *asked)
    else:
        newcomer.run(tools / "uv", "pip", "install", "--python", python, *asked)
    newcomer.run(tools / "uv", "pip", "check", "--python", python)
    listed = json.loads(newcomer.run(python, "-m", "pip", "list", "--format", "json").stdout)
    assert not [row for row in listed if row["name"].startswith("rocm")]

    hostile = newcomer.home / f"hostile-{installer}"
    hostile.mkdir()
    for name in NAMES:
        words = ["gcc", "-shared", "-o", hostile / name, f"-Wl,-soname,{name}", "-x", "c", "/dev/null"]
        subprocess.run(words, check=True)
    clean = ["env", "-i", f"LD_LIBRARY_PATH={hostile}", python, "-I", "-c", PROBE]
    version, answer, *maps = newcomer.run(*clean).stdout.splitlines()
    assert version == fat["plan"]["wheels"][0]["version"]
    # No GPU here, which HIP itself says; with one, the kernel runs.
    assert answer.split()[1] in ("hipErrorInvalidDevice", "hipErrorNoDevice", "hipSuccess")
    inside = {Path(file["path"]).name for file in fat["plan"]["files"] if file["rpath"]}
    loaded = {Path(path) for path in maps if Path(path).name in inside}
    # A code object, EM_AMDGPU (224), into which the sine is linked.
    assert newcomer.run(*clean[:-1], COMPILE).stdout == f"{bytes([127]) + b'ELF'!r} 224 True\n"
    bundle = next(iter(root.glob("lib/python3*/site-packages"))) / "torch/lib/rocm"
    # A few libraries are the interpreter's own as well, which has loaded them before.
    foreign = {path for path in loaded if not path.is_relative_to(bundle)}
    assert {path.name for path in foreign} <= {"libz.so.1", "libffi.so.8", "liblzma.so.5"}
    assert not [path for path in maps if str(hostile) in path or "/opt/rocm" in path]
    assert {"libamdhip64.so.5", "libhsa-runtime64.so.1", "libamd_comgr.so.2"} <= {
        path.name for path in loaded - foreign
    }
