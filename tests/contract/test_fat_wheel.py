"""`windows_patch_fat_wheel.py WHEEL ROCM_DIR [--output-path W]`, the documented name of `wheel fat`."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rocwright.cli.documented import run
from wheels import write_torch
from windows_tree import windows_prefix

# Many processes of git, pip or compilers: seconds each.
pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "external-builds/pytorch/windows_patch_fat_wheel.py"
TAG = "cp312-cp312-win_amd64"
LOOP = "import os\n\ndll_paths = []\nfor dll_path in dll_paths:\n    os.add_dll_directory(dll_path)\n"
FAT = f"torch-2.9.0+rocm.rocm7.10.0-{TAG}.whl"


@pytest.fixture
def rocm(tmp_path: Path) -> Path:
    windows_prefix(tmp_path / "rocm")
    return tmp_path / "rocm"


def torch(folder: Path, init: str = LOOP) -> Path:
    files = {"torch/__init__.py": init, "torch/_rocm_init.py": None}
    return write_torch(folder, tag=TAG, files=files)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Exit code, stdout and stderr."""

    def call(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            run(str(SCRIPT), list(map(str, words)))
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call


Call = Callable[..., tuple[int, str, str]]


def test_the_documented_script_works_from_any_directory(tmp_path: Path, rocm: Path) -> None:
    wheel = torch(tmp_path / "dist")
    done = subprocess.run(
        [sys.executable, SCRIPT, f"dist/{wheel.name}", "rocm"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "dist" / FAT) as archive:
        assert "torch/lib/rocm/bin/amdhip64_7.dll" in archive.namelist()
    assert FAT in done.stdout and "no longer requires rocm[libraries]==7.10.0" in done.stdout


def test_the_documented_name_of_the_output_is_that_version(tmp_path: Path, rocm: Path, call: Call) -> None:
    documented = tmp_path / f"torch-2.9.0+rocm_rocm7.10.0-{TAG}.whl"
    code, out, err = call(torch(tmp_path / "dist"), rocm, "--output-path", documented, "--json")
    assert code == 0, err
    plan = json.loads(out)
    assert (plan["platform"], plan["rocm_version"]) == ("windows", "7.0.2")
    assert plan["wheels"][0]["version"] == "2.9.0+rocm.rocm7.10.0"
    with zipfile.ZipFile(documented) as archive:
        assert "torch-2.9.0+rocm.rocm7.10.0.dist-info/METADATA" in archive.namelist()
    assert "note: torch was built for rocm[libraries]==7.10.0, but this is ROCm 7.0.2" in err


def test_a_dry_run_writes_nothing(tmp_path: Path, rocm: Path, call: Call) -> None:
    wheel = torch(tmp_path / "dist")
    code, out, _ = call(wheel, rocm, "--dry-run")
    assert code == 0 and FAT in out
    assert [path.name for path in wheel.parent.iterdir()] == [wheel.name]


def test_a_torch_without_the_marker_fails(tmp_path: Path, rocm: Path, call: Call) -> None:
    wheel = torch(tmp_path / "dist", init="import os\n")
    code, _, err = call(wheel, rocm)
    assert code == 3
    assert "has no loop `for dll_path in dll_paths:`" in err and "next:" in err
    assert [path.name for path in wheel.parent.iterdir()] == [wheel.name]


def test_no_file_is_a_mistake_in_the_call(tmp_path: Path, rocm: Path, call: Call) -> None:
    code, _, err = call(tmp_path / "none.whl", rocm)
    assert code == 2 and "none.whl is not a file" in err
