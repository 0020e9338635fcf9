"""What a build of the family downloads: in setup.py, the modules that it imports, CMake files."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocwright.builder.before.downloads import reached_downloads
from trees import write


def found(root: Path, files: dict[str, str], setup: str = ".") -> list[tuple[str, bool]]:
    for name, text in files.items():
        write(root / name, text)
    return [(str(each), each.certain) for each in reached_downloads(root, setup)]


CLONES = """
import subprocess
def checkout_nccl():
    subprocess.check_call(["git", "clone", "https://example.org/nccl", "third_party/nccl"])
def build_all():
    checkout_nccl()
"""


@pytest.mark.parametrize(
    "setup",
    [
        "from tools.build_libs import build_all\nbuild_all()\n",
        "from tools import build_libs\nbuild_libs.build_all()\n",
        "import tools.build_libs\ntools.build_libs.build_all()\n",
        "import tools.build_libs as libs\ndef main():\n    libs.build_all()\n"
        "if __name__ == '__main__':\n    main()\n",
        "from tools.more import *\nbuild_all()\n",
        "from tools.build_libs import build_all\nfor one in ('a', 'b'):\n    build_all()\n",
    ],
)
def test_a_clone_in_a_module_that_setup_py_imports(tmp_path: Path, setup: str) -> None:
    files = {
        "setup.py": setup,
        "tools/__init__.py": "",
        "tools/build_libs.py": CLONES,
        "tools/more.py": "from .build_libs import build_all\n",
    }
    assert found(tmp_path, files) == [("tools/build_libs.py, line 4: git clone", True)]


@pytest.mark.parametrize(
    "setup",
    [
        "if os.environ.get('USE_NCCL'):\n    build_all()\n",
        "os.environ.get('USE_NCCL') and build_all()\n",
        "build_all() if os.environ.get('USE_NCCL') else None\n",
        "try:\n    build_all()\nexcept OSError:\n    pass\n",
        "with contextlib.suppress(OSError):\n    build_all()\n",
        "def deps():\n    if os.path.isdir('third_party/nccl'):\n        return\n    build_all()\ndeps()\n",
        "for name in missing:\n    build_all()\n",
        "class Build(build_ext):\n    def run(self):\n        build_all()\n"
        "setup(cmdclass={'build_ext': Build})\n",
        "setup(hook=build_all)\n",
        "[build_all() for each in missing]\n",
        "def later():\n    yield build_all()\nlater()\n",
    ],
)
def test_what_a_condition_may_leave_out_is_not_certain(tmp_path: Path, setup: str) -> None:
    files = {"setup.py": f"from build_libs import build_all\n{setup}", "build_libs.py": CLONES}
    assert found(tmp_path, files) == [("build_libs.py, line 4: git clone", False)]


@pytest.mark.parametrize(
    "setup",
    [
        # Nobody calls it.
        "def fetch():\n    build_all()\n",
        "import subprocess\nsubprocess.check_call(['git', 'submodule', 'update', '--init'])\n",
        "if __name__ != '__main__':\n    pass\n",
        "this is no Python",
    ],
)
def test_what_is_never_called_and_submodules_are_not_told(tmp_path: Path, setup: str) -> None:
    files = {"setup.py": f"from build_libs import build_all\n{setup}", "build_libs.py": CLONES}
    assert found(tmp_path, files) == []


def test_a_module_runs_where_it_is_imported_but_not_what_is_for_a_script(tmp_path: Path) -> None:
    module = """
import os
os.system("curl -O https://example.org/a")
if __name__ == "__main__":
    os.system("curl -O https://example.org/b")
"""
    files = {"python/setup.py": "import fetched\n", "python/fetched.py": module}
    assert found(tmp_path, files, setup="python") == [("python/fetched.py, line 3: curl", True)]


def test_modules_that_import_one_another_in_a_circle_come_to_an_end(tmp_path: Path) -> None:
    files = {
        "setup.py": "from a import *\nnobody()\n",
        "a.py": "from b import *\n",
        "b.py": "from a import *\ndef again():\n    again()\nagain()\n",
    }
    assert found(tmp_path, files) == []


def test_what_lies_outside_or_nests_too_deep_is_not_followed(tmp_path: Path) -> None:
    setup = f"from ... import outside\noutside.build_all()\nlong = {' + '.join(['1'] * 5000)}\n"
    write(tmp_path / "outside.py", CLONES)
    assert found(tmp_path / "a" / "b", {"setup.py": setup}) == []


def test_what_only_brings_what_is_missing_is_not_certain(tmp_path: Path) -> None:
    setup = "import os\nos.system('pip install x')\nos.system('git fetch --tags')\nos.system('wget x')\n"
    assert [certain for _, certain in found(tmp_path, {"setup.py": setup})] == [False, False, True]


# -- CMake

RUNS_CMAKE = "import subprocess\nsubprocess.check_call(['cmake', '..'])\n"
SIX = "include(ExternalProject)\nExternalProject_Add(six GIT_REPOSITORY https://example.org/six.git)\n"


def cmake(root: Path, files: dict[str, str]) -> list[tuple[str, bool]]:
    return found(root, {"setup.py": RUNS_CMAKE, **files})


@pytest.mark.parametrize(
    ("lists", "certain"),
    [
        ("add_subdirectory(third_party/nnpack)\n", True),
        ('add_subdirectory("${CMAKE_CURRENT_SOURCE_DIR}/third_party/nnpack" EXCLUDED)\n', True),
        ("include(third_party/nnpack/CMakeLists.txt)\n", True),
        ('# "one quote\nmessage("#")\nset(x "a \\" b")\nadd_subdirectory(third_party/nnpack)\n', True),
        ("if(USE_NNPACK)\n  add_subdirectory(third_party/nnpack)\nendif()\n", False),
        ("foreach(each ${some})\n  add_subdirectory(third_party/${each})\nendforeach()\n", None),
        ("if(NOT USE_NNPACK)\n  return()\nendif()\nadd_subdirectory(third_party/nnpack)\n", False),
        ("set(HERE third_party/nnpack)\nadd_subdirectory(${HERE})\n", False),
        ("add_subdirectory(third_party/nnpack EXCLUDE_FROM_ALL)\n", False),
        ("configure_file(third_party/nnpack/CMakeLists.txt six/CMakeLists.txt)\n", False),
        ("# add_subdirectory(third_party/nnpack)\n#[[\nadd_subdirectory(third_party/nnpack)\n]]\n", None),
        ("add_subdirectory(../elsewhere)\nadd_subdirectory(gone)\nadd_subdirectory(.)\n", None),
    ],
)
def test_what_a_submodule_fetches(tmp_path: Path, lists: str, certain: bool | None) -> None:
    files = {"CMakeLists.txt": lists, "third_party/nnpack/CMakeLists.txt": SIX}
    told = [] if certain is None else [(_SIX_TOLD, certain)]
    assert cmake(tmp_path / "tree", files) == told


_SIX_TOLD = "third_party/nnpack/CMakeLists.txt, line 2: ExternalProject_Add(six …)"


@pytest.mark.parametrize(
    ("command", "certain"),
    [
        ("FetchContent_Declare(six URL https://example.org/six)\nFetchContent_MakeAvailable(six)", True),
        ("FetchContent_Declare(six URL https://example.org/six)", False),
        (
            "FetchContent_Declare(six URL https://example.org/six FIND_PACKAGE_ARGS)\n"
            "FetchContent_MakeAvailable(six)",
            False,
        ),
        ("ExternalProject_Add(six URL ${WHERE}/six.tar.gz)", False),
        ("ExternalProject_Add(six URL https://example.org/six EXCLUDE_FROM_ALL TRUE)", False),
        ("ExternalProject_Add(six SOURCE_DIR ${CMAKE_SOURCE_DIR}/six)", None),
        ("file(DOWNLOAD https://example.org/six six)", True),
        ("file(DOWNLOAD https://example.org/six six STATUS done)", False),
        ("execute_process(COMMAND git clone https://example.org/six)", True),
        ("execute_process(COMMAND git clone https://example.org/six RESULT_VARIABLE done)", False),
        ("execute_process(COMMAND git fetch)", False),
        ("execute_process(COMMAND git submodule update --init)", None),
        ("function(later)\n  file(DOWNLOAD https://example.org/six six)\nendfunction()", False),
    ],
)
def test_commands_that_may_do_without_the_network(tmp_path: Path, command: str, certain: bool | None) -> None:
    told = [certain for _, certain in cmake(tmp_path, {"CMakeLists.txt": command})]
    assert told == ([] if certain is None else [certain])


def test_cmake_files_count_only_where_the_build_runs_cmake(tmp_path: Path) -> None:
    files = {"setup.py": "from setuptools import setup\nsetup()\n", "CMakeLists.txt": SIX}
    assert found(tmp_path, files) == []
    assert len(reached_downloads(tmp_path, cmake=True)) == 1
