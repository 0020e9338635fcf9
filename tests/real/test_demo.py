"""The main job on real ROCm, by an unprivileged newcomer; the built family is the miniature one."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from rocwright.store.objects.serve import serving

STEPS = [
    "rocm-fetch",
    "rocm-artifacts",
    "rocm-prefix",
    "rocm-packages",
    "check-rocm",
    "upload-rocm",
    "origins",
    "lock-sources",
    "checkout-triton",
    "python-headers",
    "build-env",
    "build-triton",
    "checkout-torch",
    "build-torch",
    "checkout-torchaudio",
    "build-torchaudio",
    "checkout-torchvision",
    "build-torchvision",
    "checkout-apex",
    "build-apex",
    "check",
    "upload-pytorch",
    "test-pip",
    "test-uv",
    "stage",
    "gate",
    "promote",
]


def test_every_step_was_done_by_somebody_without_rights(demo, newcomer):
    assert demo.states() == dict.fromkeys(STEPS, "done")
    owner = demo.work.stat().st_uid
    assert owner == newcomer.clone.stat().st_uid
    assert owner != 0


def test_the_rocm_packages_hold_the_real_thing(demo):
    packages = demo.value("rocm-packages")
    assert packages["version"] == "5.2.3"
    # What Debian 12 compiles its ROCm libraries for (roc-obj-ls lists the same).
    assert packages["targets"] == ["gfx803", "gfx900", "gfx906", "gfx908", "gfx90a", "gfx1030"]
    names = [file["name"] for file in packages["files"]]
    assert names == [
        "rocm_sdk_core-5.2.3-py3-none-linux_x86_64.whl",
        "rocm_sdk_libraries_debian12-5.2.3-py3-none-linux_x86_64.whl",
        "rocm_sdk_devel-5.2.3-py3-none-linux_x86_64.whl",
        "rocm-5.2.3.tar.gz",
    ]
    with zipfile.ZipFile(demo.work / "dist/rocm" / names[1]) as wheel:
        sizes = {info.filename: info.file_size for info in wheel.infolist()}
    assert sizes["_rocm_sdk_libraries_debian12/lib/librocsparse.so.0"] > 1_300_000_000
    assert not [name for name in sizes if name.endswith(("librocsparse.so", "librocsparse.so.0.1"))]


def test_wheels_agree_with_their_own_records_by_an_independent_look(demo):
    for wheel in [
        *(demo.work / "dist/rocm").glob("rocm_sdk_core*.whl"),
        *(demo.work / "dist/pytorch").glob("*.whl"),
    ]:
        with zipfile.ZipFile(wheel) as archive:
            assert archive.testzip() is None
            assert all(info.flag_bits & 0x8 == 0 for info in archive.infolist() if info.compress_type == 0)


def test_the_compiler_in_the_wheels_made_multi_target_fat_binaries(demo, tmp_path):
    wheel = next((demo.work / "dist/pytorch").glob("torch-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        library = Path(archive.extract("torch/lib/libtorch_hip.so", tmp_path))
    objcopy = demo.work / "rocm/lib/llvm/bin/llvm-objcopy"
    section = tmp_path / "fatbin"
    subprocess.run([objcopy, f"--dump-section=.hip_fatbin={section}", library, os.devnull], check=True)
    # The distribution's own tool says what is inside.
    bundler = demo.work / "rocm/lib/llvm/bin/clang-offload-bundler"
    listed = subprocess.run(
        [bundler, "--list", "--type=o", f"--input={section}"], check=True, text=True, capture_output=True
    ).stdout
    for target in ("gfx906", "gfx90a", "gfx1030"):
        assert f"hipv4-amdgcn-amd-amdhsa--{target}" in listed


def test_torch_requires_exactly_this_rocm_and_vision_exactly_this_torch(demo):
    def requires(pattern: str) -> list[str]:
        wheel = next((demo.work / "dist/pytorch").glob(pattern))
        with zipfile.ZipFile(wheel) as archive:
            text = archive.read(next(n for n in archive.namelist() if n.endswith("/METADATA"))).decode()
        return [line for line in text.splitlines() if line.startswith("Requires-Dist")]

    assert "Requires-Dist: rocm[libraries]==5.2.3" in requires("torch-*.whl")
    assert "Requires-Dist: triton==3.5.0+rocm5.2.3" in requires("torch-*.whl")
    assert "Requires-Dist: torch==2.9.0+rocm5.2.3" in requires("torchvision-*.whl")


def test_sources_carry_both_tags_and_a_clean_tree(demo, newcomer):
    tree = demo.work / "src/pytorch"
    log = newcomer.run("git", "log", "--oneline", "--decorate", "-2", cwd=tree).stdout.splitlines()
    assert "THEROCK_HIPIFY_DIFFBASE" in log[0]
    assert "DO NOT SUBMIT: HIPIFY" in log[0]
    assert "THEROCK_UPSTREAM_DIFFBASE" in log[1]
    assert newcomer.run("git", "status", "--porcelain", cwd=tree).stdout == ""


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_installed_over_http_and_tested_without_a_gpu(demo, installer):
    value = demo.value(f"test-{installer}")
    assert value["installed"]["torch"] == "2.9.0+rocm5.2.3"
    assert value["installed"]["rocm-sdk-libraries-debian12"] == "5.2.3"
    for suite in ("rocm_sdk", "smoke"):
        assert value[suite]["failed"] == 0
        assert value[suite]["passed"] > 20
    if not Path("/dev/kfd").exists():
        # Values computed on a GPU are neither passed nor failed here.
        assert value["smoke"]["skipped"] == 7
        assert all("no GPU" in reason for reason in value["smoke"]["skip_reasons"])


def test_the_release_says_what_was_not_tested(demo):
    decision = demo.value("promote")["decision"]
    assert decision["promote"] is True
    if not Path("/dev/kfd").exists():
        assert decision["rule"] == "bypassed"
        assert "NOT TESTED" in decision["reason"]


def test_released_files_are_the_tested_ones(demo):
    files = {entry["name"]: entry["sha256"] for entry in demo.value("stage")["manifest"]["files"]}
    for key in demo.value("promote")["files"]:
        path = demo.work / "store" / key
        assert hashlib.sha256(path.read_bytes()).hexdigest() == files[path.name]


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_the_printed_line_works_as_printed(demo, newcomer, installer):
    newcomer.run("sh", "-c", demo.report["install"][installer])
    place = demo.work / f"try-{installer}"
    script = (
        "import torch, torchvision, apex, json; maps = open('/proc/self/maps').read(); "
        "print(json.dumps([torch.version.hip, torch.mini_launch('mm').name, "
        "sorted({l.split()[-1] for l in maps.splitlines() if 'libamdhip64' in l})]))"
    )
    done = newcomer.run(place / "bin/python", "-c", script, cwd=newcomer.home)
    version, launch, libraries = json.loads(done.stdout)
    assert version.startswith("5.2.21153")
    if not Path("/dev/kfd").exists():
        assert launch in ("hipErrorNoDevice", "hipErrorInvalidDevice")
    # The runtime of the packaged wheels, and no other, is in the process.
    assert libraries == [
        str(next(place.glob("lib/python3*/site-packages")) / "_rocm_sdk_core/lib/libamdhip64.so.5")
    ]
    newcomer.run("rm", "-rf", place)


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_the_bare_name_installs_the_released_set_over_http(demo, newcomer, installer):
    """Nobody is asked for a version: the channel lists one set, and installers take it whole."""
    place = newcomer.home / f"bare-{installer}"
    newcomer.run("/usr/bin/python3", "-m", "venv", place)
    family = demo.value("stage")["manifest"]["family"]
    with serving(demo.work / "store") as url:
        index = ["--no-cache-dir", "--index-url", f"{url}v2/{family}/", "torch"]
        if installer == "pip":
            newcomer.run(place / "bin/python", "-m", "pip", "--isolated", "install", *index)
        else:
            uv = newcomer.clone / ".venv/bin/uv"
            newcomer.run(uv, "pip", "install", "--no-config", "--python", place / "bin/python", *index)
    listed = newcomer.run(place / "bin/python", "-m", "pip", "list", "--format", "json").stdout
    versions = {one["name"]: one["version"] for one in json.loads(listed)}
    released = {one["project"]: one["version"] for one in demo.value("stage")["manifest"]["files"]}
    assert {name: versions[name] for name in ("torch", "triton", "rocm", "rocm-sdk-core")} == {
        name: released[name] for name in ("torch", "triton", "rocm", "rocm-sdk-core")
    }
    newcomer.run("rm", "-rf", place)


def test_the_commands_know_the_released_set(demo, newcomer):
    def said(*words: str) -> dict:
        store = str(demo.work / "store")
        return json.loads(newcomer.rocwright("set", *words, "--json", "--store", store).stdout)

    family = demo.value("stage")["manifest"]["family"]
    digest = demo.value("promote")["set_id"]
    shown = said("show", f"release:{family}")
    assert (shown["set_id"], shown["channels"]) == (digest, {"staging": None, "release": None})
    verified = said("verify", digest)
    assert (verified["problems"], verified["files"]) == ([], len(shown["manifest"]["files"]))
    # Every target of the set was asked for by name.
    lifted = {line.partition(",")[0] for line in shown["said"] if line.startswith("bypass of ")}
    assert lifted == {f"bypass of smoke-gpu on {target}" for target in shown["manifest"]["targets"]}


CMAKE_PROJECT = """\
cmake_minimum_required(VERSION 3.21)
project(hello LANGUAGES CXX HIP)
find_package(hip REQUIRED)
find_package(rocsparse REQUIRED)
find_package(hiprand REQUIRED)
find_package(rocprim REQUIRED)
add_library(hello SHARED hello.hip)
target_link_libraries(hello PRIVATE hip::host roc::rocsparse hip::hiprand)
"""
HELLO = """\
#include <hip/hip_runtime.h>
#include <rocsparse/rocsparse.h>
__global__ void scale(float *values, float by) { values[threadIdx.x] *= by; }
extern "C" int hello(void) {
  rocsparse_handle handle;
  (void)rocsparse_create_handle(&handle);
  scale<<<1, 64>>>(nullptr, 2.f);
  return hipGetLastError();
}
"""


def test_cmake_finds_and_builds_against_the_installed_wheels(demo, newcomer):
    """The packages' own CMake files, which the layout had to correct, in an environment of four variables."""
    if not (shutil.which("cmake") and shutil.which("ninja")):
        pytest.skip("cmake and ninja are not installed")
    root = newcomer.run(demo.work / "env/build/bin/rocm-sdk", "path", "--root").stdout.strip()
    project = newcomer.home / "cmake-project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(CMAKE_PROJECT)
    (project / "hello.hip").write_text(HELLO)
    newcomer.own(project)
    environment = {"HIP_PLATFORM": "amd", "ROCM_PATH": root, "CMAKE_PREFIX_PATH": f"{root}/lib/cmake"}
    options = [
        f"-DCMAKE_HIP_COMPILER={root}/lib/llvm/bin/clang++",
        f"-DCMAKE_HIP_FLAGS=--rocm-path={root}",
        "-DCMAKE_HIP_ARCHITECTURES=gfx906;gfx90a",
    ]
    newcomer.run("cmake", "-S", project, "-B", project / "b", "-G", "Ninja", *options, **environment)
    newcomer.run("cmake", "--build", project / "b", **environment)
    needed = subprocess.run(
        ["readelf", "-d", project / "b/libhello.so"], check=True, text=True, capture_output=True
    ).stdout
    assert "[libamdhip64.so.5]" in needed
    assert "[librocsparse.so.0]" in needed


def test_a_second_run_does_nothing_again_and_is_short(demo, newcomer, cache):
    done = newcomer.run("make", "demo", f"ARGS=--json --cache-dir {cache}")
    states = {row["id"]: row["state"] for row in json.loads(done.stdout)["steps"]}
    assert states == dict.fromkeys(STEPS, "cached")
    done = newcomer.run("make", "demo", f"ARGS=--cache-dir {cache}")
    beginning, count = done.stderr.splitlines()
    assert beginning.startswith("From the distribution's ROCm packages to a tested release")
    assert re.fullmatch(r"27 steps, all as before \([0-9.]+ s\)", count)
    assert len(done.stdout.splitlines()) < 35
    assert not re.search("build-torch|test-uv|cached", done.stdout)
    for line in (*demo.report["install"].values(), *demo.report["next"], *demo.report["by_gpu"]):
        assert f"\n  {line}\n" in done.stdout
    assert "docs/how-to/build-wheels.md" in done.stdout
    assert (newcomer.clone / "docs/how-to/build-wheels.md").is_file()


def test_it_says_where_to_look_and_what_was_not_tested(demo):
    for name, words in (("release_page", "torch==2.9.0+rocm5.2.3"), ("run_page", "build-torchvision")):
        page = Path(url2pathname(urlsplit(demo.report[name]).path))
        assert words in page.read_text(encoding="utf-8")
    if not Path("/dev/kfd").exists():
        kernels = ("torch-fill", "torch-saxpy", "torch-mm", "torchaudio", "torchvision", "apex")
        assert demo.report["not_tested"] == {
            "rocm-sdk test": ["gpu"],
            "smoke tests": [
                *(f"test_kernel_computes_on_the_gpu[{name}]" for name in kernels),
                "test_tensors_compute_on_the_gpu",
            ],
        }


def test_what_it_says_to_try_next_works(demo, newcomer):
    served = demo.report["next"][-1]
    for line in demo.report["next"][:-1]:
        newcomer.run("sh", "-c", line)
    words = newcomer.command("timeout", "--signal=INT", "10", "sh", "-c", f"exec {served}")
    done = subprocess.run(words, cwd=newcomer.clone, env=newcomer.env(), text=True, capture_output=True)
    assert "/v2/debian12/" in done.stdout
    assert "stopped" in done.stderr


def test_the_lines_that_name_no_gpu_bring_the_device_code_of_the_machines(demo, newcomer):
    """The machine is forced to have one GPU; without, the first line says that there is none."""
    if not (demo.work / "split-store").exists():
        for line in demo.report["next"]:
            if "wheel split" in line or "set create" in line:
                newcomer.run("sh", "-c", line)
    see, install = demo.report["by_gpu"]
    assert not re.search("gfx[0-9]", see + install)
    if not Path("/dev/kfd").exists():
        assert newcomer.run("sh", "-c", see, ok=False).returncode == 1
    newcomer.run("sh", "-c", see, ROCM_BOOTSTRAP_FORCE_GFX_ARCH="gfx90a")
    newcomer.run("sh", "-c", install)
    place = demo.work / "try-view"
    installed = {path.name.partition("-")[0] for path in place.glob("lib/python3*/site-packages/*.dist-info")}
    assert {name for name in installed if "_device" in name} == {
        "amd_torch_device",
        "amd_torch_device_gfx90a",
    }
    [archive] = place.glob("lib/python3*/site-packages/torch/.kpack/*.kpack")
    assert "gfx90a" in archive.name
    newcomer.run("rm", "-rf", place)


def test_the_build_command_makes_the_family_from_the_same_trees(demo, newcomer):
    """The command that the demo prints for the real PyTorch, on the miniature and for one target."""
    output = newcomer.home / "wheels"
    done = newcomer.rocwright(
        "build",
        "--find-links",
        demo.work / "dist/rocm",
        "--pytorch-rocm-arch",
        "gfx1030",
        "--root-checkout-dir",
        demo.work / "src",
        "--output-dir",
        output,
        "--work-dir",
        newcomer.home / "wheels-work",
        "--json",
    )
    result = json.loads(done.stdout)
    built = {row["project"]: row for row in result["wheels"]}
    assert [row["project"] for row in result["proof"]] == list(built)
    assert list(built) == ["triton", "torch", "torchaudio", "torchvision", "apex"]
    assert sorted(path.name for path in output.iterdir()) == sorted(
        Path(row["path"]).name for row in built.values()
    )
    checked = newcomer.rocwright("check", output, "--targets", "gfx1030", "--json")
    report = json.loads(checked.stdout)
    assert [finding["rule"] for finding in report["findings"]] == ["set-closed"]  # rocm itself is not there
    assert newcomer.run("git", "status", "--porcelain", cwd=demo.work / "src/pytorch").stdout == ""
    # Gigabytes, which nobody else needs.
    shutil.rmtree(newcomer.home / "wheels-work")
