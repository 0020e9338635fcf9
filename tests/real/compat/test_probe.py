"""The probe on a real torch without a GPU: what it can do, what the wheel is, a torch that lost a library."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

# What Debian's torch 2.6.0 cannot do on a CPU, tried by hand in its interpreter: sums of 8-bit floats and of
# wide unsigned integers, and products of these and of half-precision complex numbers, are "not implemented".
BEYOND = {
    "float8_e4m3fn": ["elementwise", "matmul"],
    "float8_e5m2": ["elementwise", "matmul"],
    "complex32": ["matmul"],
    "uint16": ["elementwise", "matmul"],
    "uint32": ["elementwise", "matmul"],
    "uint64": ["elementwise", "matmul"],
    "quint4x2": ["elementwise"],
}


@pytest.fixture(scope="module")
def report(desk):
    done = desk.rocwright("compat", "probe", "--python", desk.python, "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_every_data_type_works_as_claimed(report):
    assert len(report["dtypes"]) == 22
    assert {row["found"] for row in report["dtypes"]} == {"works"}
    found = {row["name"]: [one.split(":")[0] for one in row["beyond"]] for row in report["dtypes"]}
    assert {name: steps for name, steps in found.items() if steps} == BEYOND
    assert (report["failed"], report["restarts"], report["lost"]) == ([], 0, [])


def test_functions_work_and_no_library_of_rocm_is_claimed(report):
    found = {row["name"]: row["found"] for row in report["calls"]}
    for_gpus = ("semi-structured", "composed")
    assert {name for name, verdict in found.items() if verdict != "works"} == set(for_gpus)
    assert {found[name] for name in for_gpus} == {"not for this device"}
    assert len(report["libraries"]) == 20
    assert {(row["found"], row["outcome"]) for row in report["libraries"]} == {
        ("not a ROCm torch", "not claimed")
    }
    assert [(row["found"], row["value"]) for row in report["flags"]] == [("not compared", "True")] * 2


def test_it_says_what_this_torch_is(report, desk):
    environment = report["environment"]
    assert (environment["torch"], environment["kind"]) == ("2.6.0+debian", "CPU only")
    assert (environment["device"], environment["devices"]) == ("cpu", [])
    assert "PyTorch built with" in environment["config"]
    assert {"float8_e4m3fnuz", "bits8"} <= set(environment["further_dtypes"])
    assert any("/libtorch_cpu.so" in path for path in report["mapped"])
    # Debian keeps the libraries elsewhere; in torch's own directory lies the module that loads them.
    (module,) = (one for one in report["held"] if one["file"].startswith("_C."))
    assert any(name.startswith("libtorch_python.so") for name in module["needed"])
    assert module["device_code"] == ""


def test_a_gpu_is_asked_for_where_none_is(desk):
    done = desk.rocwright("compat", "probe", "--python", desk.python, "--device", "cuda")
    assert done.returncode == 1
    assert "error (NoGpu): torch 2.6.0+debian (CPU only) sees no GPU" in done.stderr


def test_a_torch_that_lost_a_library_has_its_own_exit_code(desk):
    """A copy of the environment whose torch finds one of its libraries no more."""
    libraries = desk.root / "userland" / "usr/lib/x86_64-linux-gnu"
    (real,) = (path for path in libraries.glob("libtorch_cpu.so.2*") if not path.is_symlink())
    moved = real.with_name("moved-away")
    real.rename(moved)
    try:
        done = desk.rocwright("compat", "probe", "--python", desk.python)
    finally:
        moved.rename(real)
    assert done.returncode == 15, done.stderr
    assert "error (TorchBroken): torch cannot be imported by" in done.stderr
    assert "ImportError: libtorch_cpu.so.2" in done.stderr


def test_the_script_alone_and_its_report_elsewhere(desk, report, tmp_path_factory):
    """As on a machine that has torch and a copy of two directories, and nothing of rocwright."""
    place = desk.root / "copied"
    source = desk.newcomer.clone / "src/rocwright"
    place.mkdir()
    for path in (source / "compat/probe/inside").glob("*.py"):
        shutil.copy2(path, place)
    shutil.copy2(source / "data/probe.toml", place)
    desk.newcomer.own(place)
    out = place / "answers.json"
    desk.newcomer.run(desk.python, "-I", place / "rocwright_try.py", place / "probe.toml", "--out", out)
    done = desk.rocwright("compat", "probe", "--answers", out, "--html", place / "probe.html", "--json")
    assert done.returncode == 0, done.stderr
    elsewhere = json.loads(done.stdout)
    assert {row["name"]: row["found"] for row in elsewhere["dtypes"]} == {
        row["name"]: row["found"] for row in report["dtypes"]
    }
    assert elsewhere["held"] == []
    page = Path(place / "probe.html").read_text()
    assert "? Not a ROCm torch: CPU only, on the CPU; it says nothing" in page
