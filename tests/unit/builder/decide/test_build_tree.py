"""What is read of a checkout, and which targets and requirements come of text."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from plans_by_hand import one, trees

import git_repos
from rocwright.builder.decide.project import build_requirements
from rocwright.builder.decide.recipe import recipes
from rocwright.builder.decide.tree import SourceFacts, absent_tree, read_tree
from rocwright.builder.order import parse_build_targets
from rocwright.builder.rocm.rocm import Rocm, unknown_rocm
from rocwright.errors import InvalidData, InvalidInput, UsageError
from rocwright.model.gpu import InvalidTarget

TORCH, TRITON = recipes().get("torch"), recipes().get("triton")


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    # Every torch has its package, and ROCm's module goes into it.
    (folder / "torch").mkdir(exist_ok=True)
    return folder


def git(folder: Path, *words: str, when: str = "2025-10-16T12:00:00Z") -> str:
    return git_repos.git(folder, *words, GIT_AUTHOR_DATE=when, GIT_COMMITTER_DATE=when)


def test_a_tree_without_git(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "version.txt": "2.9.0a0\n",
            "setup.py": "",
            "CMakeLists.txt": "",
            "requirements.txt": "numpy\n",
            "pyproject.toml": '[build-system]\nrequires = ["numpy", "ninja; sys_platform != \'x\'"]\n'
            'build-backend = "scikit_build_core.build"\n',
        },
    )
    assert read_tree(TORCH, tmp_path) == SourceFacts(
        directory=str(tmp_path),
        version="2.9.0a0",
        commit="",
        source_date=None,
        setup=".",
        backend="scikit_build_core.build",
        requires=("numpy", "ninja; sys_platform != 'x'"),
        build_env={},
        requirements_files=("requirements.txt",),
        cmake=True,
    )


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("CMakeLists.txt", "project(x LANGUAGES CXX HIP)\n", True),
        (
            "CMakeLists.txt",
            "project(\n  x\n  LANGUAGES CXX\n)\nif(GPU)\n  enable_language ( HIP )\nendif()\n",
            True,
        ),
        ("cmake/gpu/hip.cmake", b"# \xe9\nENABLE_LANGUAGE(HIP OPTIONAL)\n", True),
        ("CMakeLists.txt", "# enable_language(HIP)\nproject(hipster LANGUAGES CXX) # and HIP\n", False),
        ("CMakeLists.txt", "project(x LANGUAGES CXX)\nfind_package(HIP REQUIRED)\n", False),
        (
            "CMakeLists.txt",
            "project(my-hip LANGUAGES CXX)\nproject(HIP CXX)\nproject(x DESCRIPTION HIP)\n",
            False,
        ),
        (
            "CMakeLists.txt",
            'project(x DESCRIPTION "LANGUAGES HIP )")\n#[[\nenable_language(HIP)\n]]\n',
            False,
        ),
        ("CMakeLists.txt", "project(x # )\n  LANGUAGES CXX\n  HIP)\n", True),
        ("CMakeLists.txt", "enable_language(HIP)\nhip_add_library(x x.hip)\n", False),
        ("cmake/hip.cmake", "enable_language(HIP)\nfind_package_and_tell(HIP 1.0)\n", False),
        ("cmake/hip.cmake", "enable_language(HIP)\nfind_package(hip CONFIG)\n", True),
        ("csrc/hip.cmake", "enable_language(HIP)\n", False),
    ],
)
def test_hip_is_a_language_where_cmake_is_told_so(
    tmp_path: Path, file: str, text: str | bytes, expected: bool
) -> None:
    write(tmp_path, {"version.txt": "1\n", "setup.py": ""})
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert read_tree(TORCH, tmp_path).hip_language == expected


def test_setup_py_is_looked_for_in_both_places(tmp_path: Path) -> None:
    older, newer = tmp_path / "older", tmp_path / "newer"
    write(older, {"python/setup.py": "", "python/requirements.txt": ""})
    write(
        newer,
        {
            "setup.py": "",
            "build_env.json": '{"TRITON_WHEEL_VERSION_SUFFIX": ""}',
            "cmake/llvm-hash.txt": "8957e64a20fc7f4277565c6cfe3e555c119783ce\n",
        },
    )
    assert read_tree(TRITON, older).setup == "python"
    found = read_tree(TRITON, newer)
    assert (found.setup, found.build_env) == (".", {"TRITON_WHEEL_VERSION_SUFFIX": ""})
    assert found.llvm_hash == "8957e64a"


def test_a_project_file_alone_will_do(tmp_path: Path) -> None:
    write(tmp_path, {"version.txt": "2.9.0", "pyproject.toml": "[build-system]\nrequires = []\n"})
    found = read_tree(recipes().get("torchaudio"), tmp_path)
    assert (found.setup, found.has_setup) == (".", False)
    known = trees("/b/") | {"torchaudio": found}
    assert one("torchaudio", trees=known).argv == ("python", "-m", "build", "--wheel", "--no-isolation")


def test_the_commit_is_upstreams_under_hipify_and_ones_own_otherwise(tmp_path: Path) -> None:
    write(tmp_path, {"version.txt": "2.9.0", "setup.py": ""})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "upstream", when="2025-10-16T12:00:00Z")
    upstream = git(tmp_path, "rev-parse", "HEAD")
    found = read_tree(TORCH, tmp_path)
    assert (found.commit, found.source_date) == (upstream, 1_760_616_000)
    git(tmp_path, "tag", "THEROCK_UPSTREAM_DIFFBASE")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "hipify", when="2026-01-01T00:00:00Z")
    git(tmp_path, "tag", "THEROCK_HIPIFY_DIFFBASE")
    found = read_tree(TORCH, tmp_path)
    assert (found.commit, found.source_date) == (upstream, 1_760_616_000)
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "mine", when="2026-01-02T00:00:00Z")
    found = read_tree(TORCH, tmp_path)
    assert (found.commit, found.source_date) == (git(tmp_path, "rev-parse", "HEAD"), 1_767_312_000)


def test_a_folder_of_another_repository_is_no_checkout(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "around")
    inner = write(tmp_path / "pytorch", {"version.txt": "2.9.0", "setup.py": ""})
    assert read_tree(TORCH, inner).commit == ""


@pytest.mark.parametrize(
    ("files", "error", "words", "where"),
    [
        ({"setup.py": ""}, InvalidInput, r"version\.txt is missing", "version.txt"),
        ({"setup.py": "", "version.txt": ""}, InvalidInput, "says '', which is not a version", "version.txt"),
        ({"setup.py": "", "version.txt": "main\n"}, InvalidInput, "says 'main', which", "version.txt"),
        ({"setup.py": "", "version.txt": "2.9+cpu"}, InvalidInput, r"says '2\.9\+cpu'; what", "version.txt"),
        ({"version.txt": "1"}, InvalidInput, r"torch has no setup\.py", ""),
        (
            {"version.txt": "1", "setup.py": "", "pyproject.toml": "[build"},
            InvalidData,
            "is not valid TOML",
            "pyproject.toml",
        ),
        (
            {"version.txt": "1", "setup.py": "", "pyproject.toml": '[build-system]\nrequires = ["=="]'},
            InvalidData,
            "requires '=='",
            "pyproject.toml",
        ),
        (
            {"version.txt": "1", "setup.py": "", "build_env.json": '{"A": 1}'},
            InvalidData,
            "is not a table of variables",
            "build_env.json",
        ),
        (
            {"version.txt": "1", "setup.py": "", "build_env.json": '{"LD_PRELOAD": "/tmp/x.so"}'},
            InvalidData,
            "sets 'LD_PRELOAD', which changes what the programs of a build load, run or trust",
            "build_env.json",
        ),
    ],
)
def test_a_tree_that_cannot_be_built_is_named(
    tmp_path: Path, files: dict[str, str], error: type[InvalidInput], words: str, where: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "torch").mkdir()
    with pytest.raises(error, match=words) as caught:
        read_tree(TORCH, tmp_path)
    assert caught.value.where == str(tmp_path / where)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"version.txt": "1", "setup.py": ""})
    (tmp_path / "version.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match=r"version\.txt cannot be read: it is not UTF-8"):
        read_tree(TORCH, tmp_path)
    (tmp_path / "version.txt").write_text("1")
    (tmp_path / "pyproject.toml").mkdir()
    with pytest.raises(InvalidInput, match=r"pyproject\.toml cannot be read: Is a directory"):
        read_tree(TORCH, tmp_path)


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a directory") as caught:
        read_tree(TORCH, tmp_path / "none")
    assert "rocwright checkout torch" in str(caught.value)
    # Everything else can be planned all the same, for a dev build as well.
    known = trees("/b/") | {"torch": absent_tree(TORCH, tmp_path / "none")}
    assert one("torch", trees=known, release_type="dev").version == "0+git00000000.rocm7.10.0"


# ---- targets ----

KNOWN = Rocm(version="7", root="/r", bin="/r", cmake="/r", targets=("gfx942", "gfx1100"))

GENERIC = msgspec.structs.replace(KNOWN, targets=("gfx11-generic", "gfx1100", "gfx9-generic"))


@pytest.mark.parametrize(
    ("flag", "variable", "rocm", "targets"),
    [
        ("gfx90a,gfx942", "gfx906", KNOWN, ("gfx90a", "gfx942")),
        ("gfx90a;gfx942 gfx90a", None, KNOWN, ("gfx90a", "gfx942")),
        ("gfx90a:xnack+", None, KNOWN, ("gfx90a:xnack+",)),
        ("gfx120X-all", None, KNOWN, ("gfx1200", "gfx1201")),
        (None, "gfx906 gfx908", KNOWN, ("gfx906", "gfx908")),
        ("", "", KNOWN, ("gfx942", "gfx1100")),
        (" , ", None, KNOWN, ("gfx942", "gfx1100")),
        ("all", None, KNOWN, ("gfx942", "gfx1100")),
        # The package of gfx1100 brings the generic one; alone it was asked for.
        (None, None, GENERIC, ("gfx1100", "gfx9-generic")),
        ("all", None, GENERIC, ("gfx1100", "gfx9-generic")),
        ("gfx11-generic", None, GENERIC, ("gfx11-generic",)),
    ],
)
def test_targets_of_flag_variable_and_rocm(
    flag: str | None, variable: str | None, rocm: Rocm, targets: tuple[str, ...]
) -> None:
    caller = {} if variable is None else {"PYTORCH_ROCM_ARCH": variable}
    assert parse_build_targets(flag, caller, rocm) == targets


def test_all_without_a_rocm_is_the_whole_table() -> None:
    found = parse_build_targets("all", {}, unknown_rocm())
    assert {"gfx900", "gfx90a", "gfx942", "gfx1100", "gfx1201", "gfx1250"} <= set(found)
    assert found.index("gfx90a") < found.index("gfx1100")


def test_no_target_and_a_wrong_one_name_where_to_put_it_right() -> None:
    with pytest.raises(UsageError, match="no GPU target") as caught:
        parse_build_targets(None, {}, unknown_rocm())
    assert "--pytorch-rocm-arch" in str(caught.value)
    with pytest.raises(InvalidTarget, match="--pytorch-rocm-arch: 'gfx' is not a GPU target, nor a family"):
        parse_build_targets("gfx942,gfx", {}, KNOWN)
    with pytest.raises(InvalidTarget, match="PYTORCH_ROCM_ARCH: 'mi300'") as wrong:
        parse_build_targets(None, {"PYTORCH_ROCM_ARCH": "mi300"}, KNOWN)
    assert "gfx94X-dcgpu" in str(wrong.value)


# ---- requirements ----

TOOLS = ("build==1.3.0", "setuptools==80.9.0")


@pytest.mark.parametrize(
    ("asked", "result"),
    [
        ((), TOOLS),
        (("setuptools", "wheel"), (*TOOLS, "wheel")),
        (("setuptools>=70.1.0,<82", "numpy==2.1"), (*TOOLS, "numpy==2.1")),
        (("Setuptools<80",), ("build==1.3.0", "Setuptools<80")),
        (("setuptools[toml]",), ("build==1.3.0", "setuptools[toml]")),
        (("setuptools @ file:///x.whl",), ("build==1.3.0", "setuptools @ file:///x.whl")),
        (
            ("cmake; python_version<'3.12'", "cmake; python_version<'3.12'"),
            (*TOOLS, "cmake; python_version<'3.12'"),
        ),
    ],
)
def test_a_trees_own_requirement_wins_where_the_pin_does_not_fit(
    asked: tuple[str, ...], result: tuple[str, ...]
) -> None:
    assert build_requirements(TOOLS, asked) == result
