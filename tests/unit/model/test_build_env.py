"""Variables that a lock, a row or a recipe sets reach a project's build and take over nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocwright.builder.decide.recipe import load_recipes, recipes
from rocwright.cli import main
from rocwright.data.overlay import read_overlay
from rocwright.errors import InvalidData
from rocwright.model.build_env import variable_problem

_COMMIT = "a" * 40


@pytest.mark.parametrize(
    "name",
    [
        "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "GLIBC_TUNABLES", "GCONV_PATH",
        "PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME", "PERL5OPT", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS",
        "BASH_ENV", "BASH_FUNC_cc%%", "ENV", "IFS", "PS4", "PATH", "Path", "HOME", "TMPDIR",
        "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "SSH_ASKPASS", "PIP_INDEX_URL", "UV_INDEX_URL", "HTTPS_PROXY",
        "https_proxy", "SSL_CERT_FILE", "CC", "CXX", "CMAKE_CXX_COMPILER_LAUNCHER", "CMAKE_TOOLCHAIN_FILE",
        "MAKEFLAGS", "RUSTC_WRAPPER", "COMPILER_PATH", "ROCWRIGHT_PLACES", "A=B", "",
    ],
)  # fmt: skip
def test_what_would_take_a_build_over_is_refused(name: str) -> None:
    assert variable_problem(name, "/tmp/x") is not None


@pytest.mark.parametrize(
    "name",
    [
        "TRITON_WHEEL_VERSION_SUFFIX", "USE_ROCM", "MAX_JOBS", "CFLAGS", "CXXFLAGS", "CMAKE_ARGS",
        "FORCE_CUDA", "DISTUTILS_USE_SDK", "PYTORCH_ROCM_ARCH", "BUILD_TEST", "TORCH_CUDA_ARCH_LIST",
        "ENVIRONMENT", "IFSPEC", "PATHS", "OLD_CC", "HIPFLAGS",
    ],
)  # fmt: skip
def test_what_projects_read_is_allowed(name: str) -> None:
    assert variable_problem(name, "1") is None


def test_only_a_recipe_chooses_tools() -> None:
    assert variable_problem("HIP_CLANG_PATH", own=True) is None
    assert variable_problem("HIP_CLANG_PATH") is not None
    assert variable_problem("LD_PRELOAD", own=True) is not None


def test_every_variable_of_the_tables_is_allowed() -> None:
    """They were read, so none was refused; that there are some is what makes the test one."""
    assert sum(len(one.env) for one in recipes().recipe) > 5


def test_a_lock_from_elsewhere_cannot_preload_and_nothing_is_checked_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = {
        "project": "triton", "origin": "https://host.test/triton.git", "ref": _COMMIT, "commit": _COMMIT,
        "why": "flag", "directory": "triton", "hipify": False, "submodules": False,
        "build_env": {
            "TRITON_WHEEL_VERSION_SUFFIX": "", "LD_PRELOAD": "/tmp/x.so", "GIT_SSH_COMMAND": "sh -c id"
        },
    }  # fmt: skip
    lock = tmp_path / "sources.lock.json"
    lock.write_text(json.dumps({"schema": 1, "platform": "linux", "sources": [source]}))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["checkout", "--locked", "--lock-file", str(lock), "--directory", str(tmp_path / "src")])
    said = capsys.readouterr().err
    assert ended.value.code == InvalidData.exit_code
    assert "sources[0].build_env 'LD_PRELOAD' changes what the programs of a build load, run or trust" in said
    assert "sources[0].build_env 'GIT_SSH_COMMAND'" in said
    assert "TRITON" not in said
    assert not (tmp_path / "src").exists()


@pytest.mark.parametrize(
    "text",
    [
        '[[recipes.recipe]]\nproject = "mine"\n[recipes.recipe.env]\nLD_PRELOAD = "/tmp/x.so"\n',
        '[[recipes.recipe]]\nproject = "mine"\n[recipes.recipe.shared_env]\nBASH_ENV = "/tmp/x"\n',
        '[[recipes.recipe]]\nproject = "mine"\nversion_file = "v"\nversion_env = "PATH"\n',
    ],
)
def test_a_recipe_of_a_configuration_cannot_either(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rocwright.toml"
    path.write_text(text)
    with pytest.raises(InvalidData, match=r"changes what the programs of a build load, run or trust"):
        load_recipes(read_overlay(path))
