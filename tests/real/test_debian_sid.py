"""Debian experimental's ROCm 7.2, a smaller part of it: packaged on this machine, and used in a root of sid.

sid and experimental move: what they no longer have is a skip that says so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from needs import needs
from rocwright.sdk.intake.distribution import named_distribution

# Begins early: it takes minutes.
pytestmark = pytest.mark.long

SID = named_distribution("debian-sid")
NAME = "debian-sid-small"
# RCCL's units of relocatable device code export their bundle; rocFFT and rocRAND are as all others.
PACKAGES = ["hipcc", "libamdhip64-dev", "libamd-comgr-dev", "librocfft-dev", "librocrand-dev", "librccl-dev"]
GONE = (
    "no longer has ROCm",
    "Unable to locate package",
    "has no installation candidate",
    "unmet dependencies",
)
HELLO = """
#include <hip/hip_runtime.h>
#include <cstdio>
__global__ void saxpy(float a, const float *x, float *y) { y[threadIdx.x] += a * x[threadIdx.x]; }
int main() {
    int count = 0;
    std::printf("%s\\n", hipGetErrorName(hipGetDeviceCount(&count)));
}
"""


def row() -> str:
    """sid's row with fewer packages, as a user's rocwright.toml has it."""
    own = [rule for rule in SID.map if "llvm-22" in rule.source]
    lines = [
        "[[distributions.distribution]]",
        'id = "debian"',
        'version_id = "sid-small"',
        'family = "debian-sid-small"',
        f'rocm_version = "{SID.rocm_version}"',
        f'llvm = "{SID.llvm}"',
        f"apt_sources = {json.dumps(SID.apt_sources)}",
        f"packages = {json.dumps(PACKAGES)}",
    ]
    for rule in own:
        lines += ["[[distributions.distribution.map]]", f'from = "{rule.source}"', f'to = "{rule.target}"']
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def wheels(newcomer, cache):
    """The packages of that part, made by the command line as a user does, with what the splitter said."""
    home = newcomer.home / "sid"
    home.mkdir()
    (home / "rocwright.toml").write_text(row())
    newcomer.own(home)
    fetched = newcomer.rocwright(
        "sdk", "fetch", "rocm", "--distribution", NAME, "--cache-dir", cache, ok=False, cwd=home
    )
    log = home / "rocm.log"
    said = fetched.stderr + (log.read_text() if log.exists() else "")
    if fetched.returncode and any(words in said for words in GONE):
        pytest.skip(
            f"Debian has ROCm {SID.rocm_version} no more, its row wants to be made anew: {fetched.stderr}"
        )
    assert fetched.returncode == 0, fetched.stderr
    assert f"{NAME} is another system than" in fetched.stderr
    split = newcomer.rocwright("kpack", "split", "rocm", "--output-dir", "split", cwd=home)
    newcomer.run("rm", "-rf", home / "rocm")
    options = ["--dest-dir", "dist", "--selector", "wheel", "--wheel-compression", "fast"]
    newcomer.rocwright("sdk", "import", "split", *options, cwd=home)
    newcomer.run("rm", "-rf", home / "split")
    yield home / "dist", split.stdout + split.stderr
    newcomer.run("rm", "-rf", home)


def test_it_is_split_whole_and_checked_without_a_finding(newcomer, wheels):
    dist, said = wheels
    assert "kept whole" not in said
    targets = {
        path.name.split("-")[0].removeprefix("rocm_sdk_device_") for path in dist.glob("rocm_sdk_device_*")
    }
    assert {"gfx942", "gfx1100", "gfx1151", "gfx1201"} <= targets
    checked = newcomer.rocwright("check", dist)
    assert "0 errors, 0 warnings" in checked.stdout + checked.stderr


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A minimal Debian sid with Python and a C++ library."""
    if os.geteuid() or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("a root of another distribution takes root and mounts")
    place = tmp_path_factory.mktemp("sid") / "root"
    words = ["debootstrap", "--variant=minbase", "--include=python3,python3-venv,g++", "sid", place]
    made = subprocess.run([*words, "http://deb.debian.org/debian"], capture_output=True, text=True)
    assert made.returncode == 0, made.stdout[-3000:]
    yield place
    shutil.rmtree(place)


INSIDE = """
mount -t proc proc "$1/proc"; mount --rbind /dev "$1/dev"; mount --bind "$2" "$1/mnt"
exec chroot "$1" env -i HOME=/root PATH=/env/bin:/usr/bin:/bin LANG=C.UTF-8 sh -euc "$3"
"""


@needs("debootstrap")
def test_it_compiles_for_new_gpus_where_its_libraries_run(newcomer, wheels, root):
    dist, _ = wheels

    def inside(command: str) -> str:
        words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-euc", INSIDE, "-"]
        done = subprocess.run([*words, root, dist, command], capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    extras = "libraries,devel,device-gfx942,device-gfx1201"
    inside(f"python3 -m venv /env; pip install --quiet --no-index --find-links /mnt 'rocm[{extras}]'")
    assert ", 0 failed" in inside("rocm-sdk test --static")
    (root / "hello.hip").write_text(HELLO)
    targets = "--offload-arch=gfx942 --offload-arch=gfx1201"
    inside(f"hipcc -frtlib-add-rpath {targets} -O2 /hello.hip -o /hello")
    assert inside("/hello") == "hipErrorNoDevice\n"
    shutil.copy(root / "hello", dist.parent)
    newcomer.own(dist.parent / "hello")
    listed = newcomer.rocwright("kpack", "list", dist.parent / "hello")
    assert "2 code objects" in listed.stdout and "targets gfx1201 gfx942" in listed.stdout
