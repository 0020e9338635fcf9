"""What is read off the sources of what stands on torch: the kind of build, downloads, missing headers."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocwright.builder.before.extension import (
    ExtensionFacts,
    extension_notes,
    extension_problems,
    look_at_extension,
)
from rocwright.builder.decide.extension import Extension
from trees import write

BUILD_EXTENSION = "from torch.utils.cpp_extension import BuildExtension, CUDAExtension\n"
FINDS_TORCH = "find_package(Torch REQUIRED)\n"


def found(root: Path, files: dict[str, str]) -> list[tuple[int, str, bool]]:
    """Downloads as (line, what, whether it is done in any case)."""
    for name, text in files.items():
        write(root / name, text)
    facts = look_at_extension(root)
    return [(each.line, each.what, each.certain) for each in facts.downloads]


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"setup.py": BUILD_EXTENSION, "CMakeLists.txt": FINDS_TORCH}, "torch"),
        ({"setup.py": "import torch.utils.cpp_extension as e\ne.BuildExtension\n"}, "torch"),
        ({"setup.py": "import subprocess\n", "CMakeLists.txt": FINDS_TORCH}, "cmake"),
        ({"setup.py": "import subprocess\n", "CMakeLists.txt": "project(x)\n"}, None),
        (
            {
                "pyproject.toml": "[build-system]\nbuild-backend = 'scikit_build_core.build'\n",
                "CMakeLists.txt": FINDS_TORCH,
            },
            "scikit-build-core",
        ),
        ({"setup.py": "this is no Python"}, None),
        ({}, None),
    ],
)
def test_how_hip_is_switched_on(tmp_path: Path, files: dict[str, str], kind: str | None) -> None:
    for name, text in files.items():
        write(tmp_path / name, text)
    assert look_at_extension(tmp_path).kind == kind


SETUP = """
import os, subprocess, requests, urllib.request
from torch.utils.cpp_extension import BuildExtension
def fetch():
    urllib.request.urlretrieve("https://example.org/x", "x")
def never():
    requests.get("https://example.org")
fetch()
if os.environ.get("FULL"):
    subprocess.run(["git", "submodule", "update", "--init", "csrc/ck"])
subprocess.check_call(f"git clone https://example.org/{'cub'} cub", shell=True)
with open("log") as log:
    os.system("curl -O https://example.org/y")
class Command:
    def run(self):
        subprocess.run(["pip", "install", "x"])
subprocess.run(["ninja", "--version"])
print("git clone is what a text says, not a command")
"""


def test_downloads_of_setup_py(tmp_path: Path) -> None:
    assert found(tmp_path, {"setup.py": SETUP}) == [
        # Called where the module runs.
        (5, "urlretrieve", True),
        (7, "requests.get", False),
        (10, "git submodule update", False),
        (11, "git clone", True),
        (13, "curl", True),
        (16, "pip install", False),
    ]


def test_what_only_asks_or_may_fail_is_no_certain_download(tmp_path: Path) -> None:
    setup = """import subprocess
from urllib.request import urlopen
subprocess.run(["which", "curl"])
try:
    urlopen("https://example.org/newer")
except OSError:
    pass
finally:
    subprocess.run(["curl", "https://example.org/always"])
"""
    assert found(tmp_path, {"setup.py": setup}) == [(5, "urlopen", False), (9, "curl", True)]


CMAKE = """
# FetchContent_Declare(nothing GIT_REPOSITORY https://example.org)
find_package(Torch REQUIRED)
if(USE_CUDA)
  FetchContent_Declare(
    cutlass
    GIT_REPOSITORY https://example.org/cutlass)
else()
  file(DOWNLOAD https://example.org/a a)
endif()
FetchContent_Declare(local SOURCE_DIR ${CMAKE_SOURCE_DIR}/third_party/local)
ExternalProject_Add(nccl GIT_REPOSITORY https://example.org/nccl)
file(GLOB sources *.cu)
execute_process(COMMAND git clone https://example.org/six)
"""


def test_downloads_of_cmake(tmp_path: Path) -> None:
    files = {
        "setup.py": "import subprocess\n",
        "CMakeLists.txt": CMAKE,
        "cmake/more.cmake": "file(DOWNLOAD https://example.org/b b)\n",
        "third_party/other/CMakeLists.txt": "file(DOWNLOAD https://example.org/c c)\n",
    }
    for name, text in files.items():
        write(tmp_path / name, text)
    facts = look_at_extension(tmp_path)
    assert facts.kind == "cmake"
    assert [str(each) for each in facts.downloads if each.certain] == [
        "CMakeLists.txt, line 12: ExternalProject_Add(nccl …)",
        "CMakeLists.txt, line 14: execute_process(COMMAND …)",
    ]
    assert [str(each) for each in facts.downloads if not each.certain] == [
        "CMakeLists.txt, line 5: FetchContent_Declare(cutlass …)",
        "CMakeLists.txt, line 9: file(DOWNLOAD …)",
        "cmake/more.cmake, line 1: file(DOWNLOAD …)",
    ]


def test_conditions_of_cmake_nest(tmp_path: Path) -> None:
    cmake = """find_package(Torch REQUIRED)
if(USE_CUDA OR (NOT (DEFINED A AND (B OR C))))
  FetchContent_Declare(one GIT_REPOSITORY https://example.org/one)
endif()
message(STATUS "take another (or none), if (and only if) it is there")
FetchContent_Declare(two GIT_REPOSITORY https://example.org/two)
"""
    write(tmp_path / "setup.py", "")
    write(tmp_path / "CMakeLists.txt", cmake)
    facts = look_at_extension(tmp_path)
    assert [(each.line, each.certain) for each in facts.downloads] == [(3, False), (6, True)]


def test_cmake_files_of_a_build_extension_are_for_others(tmp_path: Path) -> None:
    assert found(tmp_path, {"setup.py": BUILD_EXTENSION, "CMakeLists.txt": CMAKE}) == []


def test_a_certain_download_is_in_the_way_unless_its_row_knows_it(tmp_path: Path) -> None:
    write(tmp_path / "setup.py", SETUP)
    facts = look_at_extension(tmp_path)
    row = Extension("tiny-attention")
    (problem,) = extension_problems(row, facts, tmp_path)
    assert problem.what == (
        "tiny-attention: its build downloads: setup.py, line 5: urlretrieve; setup.py, line 11: git clone; "
        "setup.py, line 13: curl"
    )
    assert problem.next_step.endswith("give --allow-downloads")
    (note,) = extension_notes(row, facts, 1)
    assert "its build may download, and is kept from the network" in note

    known = Extension("tiny-attention", fetches=("setup.py: a wheel made elsewhere; without it, it builds",))
    assert list(extension_problems(known, facts, tmp_path)) == []
    assert list(extension_notes(known, facts, 1)) == []


def test_nobody_guesses_how_hip_is_switched_on(tmp_path: Path) -> None:
    write(tmp_path / "setup.py", "import subprocess\n")
    write(tmp_path / "csrc" / "kernel.cu", "")
    (problem,) = extension_problems(Extension("odd"), look_at_extension(tmp_path), tmp_path)
    assert "odd: nothing tells how its build switches HIP on" in problem.what
    known = Extension("odd", kind="cmake")
    assert list(extension_problems(known, look_at_extension(tmp_path, known.kind), tmp_path)) == []


def test_headers_that_are_added_on_the_way_are_looked_for_as_well(tmp_path: Path) -> None:
    write(
        tmp_path / "setup.py",
        BUILD_EXTENSION + "if torch.version.hip:\n"
        "    include_dirs += [Path(here) / 'third_party' / 'ck_tiled' / 'include']\n",
    )
    write(tmp_path / "k.cu", "")
    assert look_at_extension(tmp_path).missing == ("third_party/ck_tiled/include",)


def test_missing_headers_and_what_it_costs_are_told(tmp_path: Path) -> None:
    write(
        tmp_path / "setup.py",
        BUILD_EXTENSION
        + "CUDAExtension('x', ['csrc/k.cu'], include_dirs=[os.path.join(here, 'csrc', 'ck', 'include'),"
        " Path(here) / 'csrc' / 'there', 'third_party/cub', '/usr/include'])\n",
    )
    write(tmp_path / "csrc" / "there" / "k.h", "")
    write(tmp_path / "csrc" / "k.cu", "")
    write(tmp_path / "build" / "k.hip", "")
    facts = look_at_extension(tmp_path)
    assert facts.missing == ("csrc/ck/include", "third_party/cub")
    row = Extension("tiny", hours_per_target=0.25, unit_memory=3_000_000_000)
    missing, cost = extension_notes(row, facts, 2)
    assert "tiny: headers that setup.py looks for are not there: csrc/ck/include; third_party/cub" in missing
    assert cost == (
        "tiny: about 15 CPU minutes for each GPU target, about 30 CPU minutes for 2; "
        "its largest file takes 3.0 GB (an estimate)"
    )
    assert list(extension_notes(Extension("tiny"), facts, 2))[1] == (
        "tiny: one device source, compiled for each GPU target; its largest file takes 2.0 GB (an estimate)"
    )


@pytest.mark.parametrize(
    ("hours", "told"),
    [
        (0.007, "less than a CPU minute for each GPU target, about 1 CPU minute for 3;"),
        (0.04, "about 2 CPU minutes for each GPU target, about 7 CPU minutes for 3;"),
        (0.8, "about 48 CPU minutes for each GPU target, about 2.4 CPU hours for 3;"),
        (2.0, "about 2.0 CPU hours for each GPU target, about 6.0 CPU hours for 3;"),
    ],
)
def test_what_takes_little_is_told_in_minutes(hours: float, told: str) -> None:
    row = Extension("tiny", hours_per_target=hours)
    (cost,) = extension_notes(row, ExtensionFacts("torch"), 3)
    assert told in cost
