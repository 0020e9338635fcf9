"""The example that builds the real PyTorch, as far as it can be looked at without building it."""

from __future__ import annotations

import re
import shlex
import subprocess
from datetime import date
from pathlib import Path

import msgspec
import pytest
from packaging.requirements import Requirement

from needs import need
from rocwright.builder.decide.recipe import load_recipes
from rocwright.check.loading import load_contract
from rocwright.cli.parse import app
from rocwright.data.overlay import read_overlay
from rocwright.sdk.intake.distribution import named_distribution

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "real-pytorch"
OVERLAY = read_overlay(EXAMPLE / "rocwright.toml")
# What the recipe may say otherwise than the built-in one; Debian is no Windows.
OWN = {"requirements", "env", "env_windows", "copied_windows", "uninstalled_windows"}


def test_debian_sid_is_described() -> None:
    sid = named_distribution("debian-sid", OVERLAY)
    assert sid.name == "debian-sid"
    # Places that PyTorch and clang look at.
    assert sid.destination("usr/lib/x86_64-linux-gnu/librocblas.so.5.2") == "lib/librocblas.so.5.2"
    assert (
        sid.destination("usr/lib/x86_64-linux-gnu/rocblas/5.2.0/library/TensileLibrary.dat")
        == "lib/rocblas/5.2.0/library/TensileLibrary.dat"
    )
    assert (
        sid.destination("usr/lib/x86_64-linux-gnu/cmake/hip/FindHIP.cmake") == "lib/cmake/hip/FindHIP.cmake"
    )
    assert sid.destination("usr/lib/llvm-22/bin/clang") == "lib/llvm/bin/clang"
    assert sid.destination("usr/lib/x86_64-linux-gnu/libzstd.so.1") == "lib/rocm_sysdeps/lib/libzstd.so.1"
    # Would need libcurl.
    assert sid.destination("usr/lib/llvm-22/bin/llvm-objdump") is None
    assert sid.destination("usr/lib/llvm-22/bin/llvm-objcopy") == "lib/llvm/bin/llvm-objcopy"
    # PyTorch's CMake files ask the header of rocm-core for ROCm's version.
    assert "librocm-core-dev" in sid.packages


def test_the_recipe_is_the_built_in_one_with_what_this_environment_needs() -> None:
    ours, built_in = load_recipes(OVERLAY).get("torch"), load_recipes(None).get("torch")
    for name in {field.name for field in msgspec.structs.fields(ours)} - OWN:
        assert getattr(ours, name) == getattr(built_in, name), name
    assert built_in.env.items() <= ours.env.items()
    assert [Requirement(text).name for text in ours.requirements] == ["pybind11"]


def test_what_its_contract_takes_away_has_a_reason_and_a_last_day() -> None:
    contract = load_contract(OVERLAY, date(2026, 1, 1))
    assert {one.field for one in contract.overrides} == {"provided"}


def test_prepare_reads_the_packages_out_of_the_overlay() -> None:
    """With the words of the script itself, sed's and grep's."""
    (line,) = [line for line in (EXAMPLE / "prepare.sh").read_text().splitlines() if "names=$(" in line]
    command = line.strip().removeprefix("names=$(").removesuffix(")")
    done = subprocess.run(
        ["sh", "-c", command],
        env={"here": str(EXAMPLE), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    sid = named_distribution("debian-sid", OVERLAY)
    assert tuple(done.stdout.split()) == sid.packages


def test_the_patch_leaves_out_no_kernel_that_hipify_makes(tmp_path: Path) -> None:
    """CMake runs the lines of the patch: native/hip also holds what hipify makes of native/cuda."""
    need("cmake")
    (patch,) = (EXAMPLE / "patches/pytorch").glob("*composable_kernel*.patch")
    lines = [line[1:] for line in patch.read_text().splitlines() if re.match(r"\+(file|list|set)\(", line)]
    kernels = tmp_path / "native/hip"
    (kernels / "bgemm_kernels").mkdir(parents=True)
    for name in ("SoftMax", "Backtrack_ck_", "ck_gemm_half", "bgemm_kernels/bgemm_kernel_bf16"):
        (kernels / f"{name}.hip").touch()
    script = tmp_path / "CMakeLists.cmake"
    script.write_text("\n".join([*lines, 'message("${native_hip_hip}")']))
    done = subprocess.run(["cmake", "-P", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [Path(name).stem for name in done.stderr.strip().split(";")] == ["Backtrack_ck_", "SoftMax"]


@pytest.mark.parametrize("name", ["prepare.sh", "repository.sh", "inside.sh", "clang++"])
def test_scripts_are_ones_for_sh(name: str) -> None:
    script = EXAMPLE / name
    assert script.read_text().startswith("#!/bin/sh\n")
    assert script.stat().st_mode & 0o111
    subprocess.run(["sh", "-n", script], check=True)


def test_the_compiler_of_device_code_runs_behind_the_launcher(tmp_path: Path) -> None:
    compiler = tmp_path / "rocm/lib/llvm/bin/clang++"
    launcher = tmp_path / "launcher"
    compiler.parent.mkdir(parents=True)
    for path, text in ((compiler, 'echo "clang $@"'), (launcher, 'echo launched; exec "$@"')):
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    words = [EXAMPLE / "clang++", "-c", "a b.hip"]
    env = {"ROCM_PATH": str(tmp_path / "rocm"), "PATH": "/usr/bin:/bin"}
    plain = subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout
    assert plain == "clang -c a b.hip\n"
    env["HIP_CLANG_LAUNCHER"] = str(launcher)
    behind = subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout
    assert behind == "launched\nclang -c a b.hip\n"


def test_every_command_of_the_readme_parses() -> None:
    text = (EXAMPLE / "README.md").read_text().replace("\\\n", " ")
    calls = re.findall(r"^# root (?:sh -c ')?rocwright ([^'\n]+)'?$", text, re.MULTILINE)
    assert len(calls) >= 12
    for call in calls:
        app.parse_args(shlex.split(call), exit_on_error=False, print_error=False)
