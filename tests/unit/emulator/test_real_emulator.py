"""A real emulator, where a variable names one; everything else here rests on a stand-in.

ROCWRIGHT_EMULATOR names it as for a user. ROCWRIGHT_TEST_ROCM may name the prefix of HIP's runtime and its
hipcc (default: what is found without), ROCWRIGHT_TEST_ROCM_PYTHON an interpreter that can load that runtime.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from command_line import run
from rocwright.emulator.find import find_emulator, find_runtime
from rocwright.system import process

pytestmark = pytest.mark.skipif(
    not os.environ.get("ROCWRIGHT_EMULATOR"),
    reason="needs an emulator of AMD GPUs: ROCWRIGHT_EMULATOR names none",
)
# What no emulator may be wrong about: without these nothing that it says counts.
BASE = ("integer", "float32", "gather", "arguments", "grid")


def test_a_real_emulator_is_calibrated_and_loads_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    named = os.environ.get("ROCWRIGHT_TEST_ROCM")
    rocm = ["--rocm", named] if named else []
    target = find_emulator(None, os.environ).targets[0]
    ended = run(capsys, "test", "calibrate", *BASE, "--emulate", target, *rocm, "--json")
    assert ended.code == 0, ended.err
    (found,) = ended.json["calibrations"].values()
    assert {one["name"]: one["state"] for one in found["answers"]} == dict.fromkeys(BASE, "right")
    assert all(one["dispatches"] > 0 for one in found["answers"])
    assert found["own_s"] < 0.1 * found["cpu_s"]

    # The program holds the kernels for that target.
    runtime = find_runtime(Path(named) if named else None, os.environ)
    hipcc = runtime.library.parent.parent / "bin/hipcc"
    source = tmp_path / "one.hip"
    source.write_text(
        "#include <hip/hip_runtime.h>\n__global__ void one(int *at) { at[threadIdx.x] += 1; }\n"
        "void launch(int *at) { one<<<1, 64>>>(at); }\n"
    )
    words = [hipcc, f"--offload-arch={target}", "-O2", "-c", source, "-o", tmp_path / "one.o", "-fPIC"]
    process.run(words, env={"HIP_PLATFORM": "amd"})
    process.run([hipcc, "-shared", tmp_path / "one.o", "-o", tmp_path / "libone.so", "--hip-link",
                 f"--offload-arch={target}"], env={"HIP_PLATFORM": "amd"})  # fmt: skip
    python = os.environ.get("ROCWRIGHT_TEST_ROCM_PYTHON")
    with_it = ["--python", python] if python else []
    ended = run(capsys, "test", "kernels", "libone.so", "--emulate", target, *rocm, *with_it, "--json")
    assert ended.code == 0, ended.err
    (loaded,) = ended.json["loaded"].values()
    assert [(one["state"], one["kernels"]) for one in loaded["objects"]] == [("loads", 1)]
