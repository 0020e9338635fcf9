"""ROCm for a build, from everywhere it may lie: an index over HTTP, environments, plain trees."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from real import sdk_index
from rocwright.builder.rocm.describe import describe_prefix

# Projects of the small ROCm that a build gets without extras.
BUILDING = {"rocm", "rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-devel"}


class Place:
    """A virtual environment of the newcomer's, and `rocwright install-rocm` into it."""

    def __init__(self, newcomer, root: Path) -> None:
        self.newcomer, self.root = newcomer, root
        newcomer.run("/usr/bin/python3", "-m", "venv", "--without-pip", root)

    def install(self, *words: str, named: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        where = ["--rocm-environment", str(self.root)] if named else []
        done = self.newcomer.rocwright("install-rocm", *where, *words, ok=False, **more)
        assert "Traceback" not in done.stderr
        return done

    def rocm(self, *words: str, named: bool = True, **more: str) -> dict:
        done = self.install(*words, "--json", named=named, **more)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        assert said["environment"] == str(self.root)
        return said["rocm"]


@pytest.fixture
def place(newcomer, request) -> Place:
    return Place(newcomer, newcomer.home / request.node.name.replace("[", "-").replace("]", ""))


@contextmanager
def shown_later(index: sdk_index.Index, *batches: set[str]) -> Iterator[None]:
    """Let an index show projects in batches, each after somebody asked for `rocm` once more."""
    everything = dict(index.files)
    index.files.clear()
    index.asked.clear()
    stop = threading.Event()

    def upload() -> None:
        for count, batch in enumerate(batches, 1):
            while index.asked.count("/simple/rocm/") < 2 * count and not stop.is_set():
                time.sleep(0.05)
            for name, path in everything.items():
                if sdk_index.project_of(name) in batch:
                    index.files[name] = path

    thread = threading.Thread(target=upload)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        index.files.update(everything)


def test_from_an_index_and_nowhere_else(newcomer, place, small_index) -> None:
    small_index.asked.clear()
    elsewhere = newcomer.home / "elsewhere"
    rocm = place.rocm(
        "--index-url",
        small_index.url,
        "--find-links=",
        "--rocm-extras",
        "device-gfx942",
        # What the caller has of other ROCms and other indexes says nothing here.
        ROCM_HOME=str(elsewhere),
        ROCM_PATH=str(elsewhere),
        HIP_PATH=str(elsewhere),
        LD_LIBRARY_PATH=str(elsewhere),
        PYTHONPATH=str(elsewhere),
        PIP_INDEX_URL="http://127.0.0.1:9/",
        PIP_FIND_LINKS="http://127.0.0.1:9/",
        PIP_REQUIREMENT=str(elsewhere),
    )
    (site,) = place.root.glob("lib/python3*/site-packages")
    assert rocm["version"] == "1.1"
    assert rocm["targets"] == ["gfx942"]
    assert rocm["libraries"] == ["amdhip64", "rocblas"]
    assert rocm["site"] == str(site)
    assert rocm["origin"] == "packages"
    for name in ("root", "bin", "cmake"):
        assert Path(rocm[name]).is_dir()
        assert rocm[name].startswith(str(site))
    assert (Path(rocm["cmake"]) / "hip/hip-config.cmake").is_file()
    ran = newcomer.run(Path(rocm["bin"]) / "hipcc", "-c")
    assert ran.stdout == "1.1 -c\n"
    assert small_index.projects() == BUILDING | {"rocm-sdk-device-gfx942"}


def test_a_version_and_another_after_it(newcomer, place, small_index) -> None:
    words = ("--index-url", small_index.url, "--rocm-extras", "device-gfx1100")
    assert place.rocm(*words, "--rocm-sdk-version", "==1.0")["version"] == "1.0"
    # By way of the active environment; and of two places, the second has it.
    empty = newcomer.home / "no-packages"
    newcomer.run("mkdir", empty)
    words = ("--find-links", str(empty), *words, "--rocm-sdk-version", ">1.0")
    rocm = place.rocm(*words, named=False, VIRTUAL_ENV=str(place.root))
    assert (rocm["version"], rocm["targets"]) == ("1.1", ["gfx1100"])
    assert newcomer.run(Path(rocm["bin"]) / "hipcc").stdout == "1.1\n"


def test_an_index_that_shows_the_upload_bit_by_bit(place, small_index) -> None:
    words = ("--index-url", small_index.url, "--rocm-extras", "device-gfx942")
    quickly = ("--install-retry-timeout-seconds", "300", "--install-retry-wait-between-seconds", "0.2")
    with shown_later(small_index, {"rocm", "rocm-sdk-core"}, BUILDING | {"rocm-sdk-device-gfx942"}):
        done = place.install(*words, *quickly, "--rocm-sdk-version", "==1.1", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rocm"]["version"] == "1.1"
    assert done.stderr.count("the index does not show the packages yet; trying again") >= 2


def test_what_there_is_not(newcomer, place, small_index) -> None:
    words = ("--index-url", small_index.url, "--install-retry-timeout-seconds", "0")
    done = place.install(*words, "--rocm-sdk-version", "==7.0")
    assert done.returncode == 7
    assert done.stdout == ""
    assert "from versions: 1.0, 1.1" in done.stderr
    assert "rocm[libraries,devel]==7.0 was not found" in done.stderr
    assert "trying again" not in done.stderr
    done = place.install(*words, "--rocm-sdk-version", "1.1")
    assert done.returncode == 2
    assert "'==7.10.0'" in done.stderr, "how to write it"
    done = place.install()
    assert (done.returncode, "--index-url" in done.stderr) == (2, True)
    assert list(place.root.glob("lib/python3*/site-packages/rocm*")) == []


def test_the_systems_python_is_left_alone(newcomer, place, small_index) -> None:
    if not list(Path("/usr/lib").glob("python3*/EXTERNALLY-MANAGED")):
        pytest.skip("the system's Python is open to everybody here")
    done = newcomer.rocwright(
        "install-rocm", "--index-url", small_index.url, "--rocm-environment", "/usr/bin/python3", ok=False
    )
    assert done.returncode == 2
    assert "python3 -m venv .venv" in done.stderr
    assert "Traceback" not in done.stderr


# -- plain trees ---------------------------------------------------------------------------------------------

KERNEL = "#include <hip/hip_runtime.h>\n__global__ void fill(int *out) { out[threadIdx.x] = 42; }\n"


@pytest.fixture(scope="module")
def debian(newcomer, cache) -> Path:
    """The distribution's ROCm in ROCm's own layout."""
    prefix = newcomer.home / "debian-rocm"
    newcomer.rocwright("sdk", "fetch", prefix, "--cache-dir", cache)
    return prefix


def test_a_plain_tree_compiles_with_what_is_said_of_it(newcomer, debian, tmp_path) -> None:
    rocm = describe_prefix(debian)
    assert (rocm.version, rocm.root, rocm.origin) == ("5.2.3", str(debian), "prefix")
    assert set(rocm.libraries) >= {"amdhip64", "amd_comgr", "rocsparse", "hipsparse", "rocrand"}
    work = newcomer.home / "compile"
    newcomer.run("mkdir", work)
    (work / "kernel.hip").write_text(KERNEL)
    environment = {
        "ROCM_PATH": rocm.root,
        "HIP_PATH": rocm.root,
        "HIP_PLATFORM": "amd",
        "HIP_DEVICE_LIB_PATH": rocm.device_libraries,
    }
    newcomer.run(
        f"{rocm.bin}/hipcc",
        "--offload-arch=gfx90a",
        "-c",
        "kernel.hip",
        "-o",
        "kernel.o",
        cwd=work,
        **environment,
    )
    assert b"gfx90a" in (work / "kernel.o").read_bytes()


def test_the_distributions_own_layout(newcomer, debian, cache, tmp_path) -> None:
    """Packages as they lie in `/usr`: CMake's files and libraries below the machine's name."""
    (debs,) = Path(cache).glob("packages/debian-12/debs")
    for package in ("hipcc", "libamdhip64-dev", "libamdhip64-5", "rocm-device-libs"):
        (deb,) = debs.glob(f"{package}_*.deb")
        subprocess.run(["dpkg-deb", "-x", deb, tmp_path], check=True, env=os.environ)
    usr = tmp_path / "usr"
    rocm = describe_prefix(usr)
    assert (rocm.root, rocm.bin) == (str(usr), f"{usr}/bin")
    assert rocm.cmake == f"{usr}/lib/x86_64-linux-gnu/cmake"
    assert (Path(rocm.device_libraries) / "ockl.bc").is_file()
    # HIP's own number: nothing else in these packages says one.
    assert rocm.version.startswith("5.2.")
    assert rocm.libraries == ("amdhip64",)
