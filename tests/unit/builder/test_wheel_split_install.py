"""Split wheels installed by pip and uv: the library finds its code through the marker, as at run time."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from fat_wheels import ALPHA, BETA, FILENAME, GAMMA, VERSION, fat_bytes, usual
from fat_wheels import write as write_fat

from oracle import loader
from rocwright.cli import main
from rocwright.device_code.wheel.wheel import split_wheel

# Many processes of git, pip or compilers: seconds each.
pytestmark = pytest.mark.slow

TAG = "py3-none-any"
ANY = f"mini_torch-{VERSION}-{TAG}.whl"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A split wheel that any Python installs."""
    place = tmp_path_factory.mktemp("dist")
    source = write_fat(place / "in", usual(fat_bytes(place / "fat")), filename=ANY)
    split_wheel(source, place / "out")
    return place / "out"


def installers() -> list[object]:
    uv = Path(sys.executable).with_name("uv")
    found = str(uv) if uv.exists() else shutil.which("uv")
    missing = pytest.mark.skipif(found is None, reason="uv is not installed")
    return [
        pytest.param([sys.executable, "-m", "pip"], id="pip"),
        pytest.param([found or "uv", "pip"], id="uv", marks=missing),
    ]


@pytest.fixture(params=installers())
def installer(request: pytest.FixtureRequest) -> list[str]:
    command: list[str] = request.param
    return command


def run(command: Sequence[str | Path]) -> str:
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=keep)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(place: Path) -> Path:
    """An empty virtual environment's interpreter."""
    run([sys.executable, "-m", "venv", "--without-pip", place / "venv"])
    return place / "venv" / "bin" / "python"


def site_packages(python: Path) -> Path:
    return Path(run([python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"]).strip())


def command(installer: list[str], python: Path, verb: str, *arguments: str | Path) -> list[str | Path]:
    if installer[-1] == "pip" and len(installer) == 3:
        return [*installer, "--python", python, "--no-cache-dir", verb, *arguments]
    return [*installer, verb, "--python", python, "--no-cache", *arguments]


def objects(library: Path, isa: str, workdir: Path) -> dict[int, bytes]:
    """Wrapper number → code object that the stand-in runtime finds for it."""
    found = loader.load(library, isa=isa, workdir=workdir)
    assert found and not found.error
    return {one.low: one.read() for one in found if not one.reason}


def test_an_extra_brings_the_code_of_one_target(dist: Path, installer: list[str], tmp_path: Path) -> None:
    python = environment(tmp_path)
    wanted = f"mini-torch[device-gfx1100]=={VERSION}"
    run(command(installer, python, "install", "--no-index", "--find-links", dist, wanted))
    site = site_packages(python)
    packages = {path.name.split("-")[0] for path in site.glob("*.dist-info")}
    # The files for the group that gfx1100 belongs to come with it.
    assert {name for name in packages if "mini" in name} == {
        "mini_torch",
        "amd_mini_torch_device_gfx1100",
        "amd_mini_torch_device_gfx11",
    }
    library = site / "torch/lib/libraw.so"
    assert objects(library, "gfx1100", tmp_path / "a") == {0: ALPHA["gfx1100"]}
    assert objects(site / "torch/_C.so", "gfx1100", tmp_path / "b") == {0: BETA["gfx1100"]}
    assert objects(library, "gfx942", tmp_path / "c") == {}
    assert (site / "torch/lib/aotriton.images/amd-gfx11xx/flash/x.aks2").exists()


def test_all_brings_what_the_wheel_held(dist: Path, installer: list[str], tmp_path: Path) -> None:
    python = environment(tmp_path)
    wanted = f"mini-torch[device-all]=={VERSION}"
    run(command(installer, python, "install", "--no-index", "--find-links", dist, wanted))
    site = site_packages(python)
    library = site / "torch/lib/libraw.so"
    for isa, expected in [
        ("gfx942", {0: ALPHA["gfx942"], 1: GAMMA["gfx942"]}),
        ("gfx90a:sramecc+:xnack-", {0: ALPHA["gfx90a:xnack-"]}),
        ("gfx90a:sramecc+:xnack+", {0: ALPHA["gfx90a:xnack+"]}),
        ("gfx1100", {0: ALPHA["gfx1100"]}),
    ]:
        assert objects(library, isa, tmp_path / isa.replace(":", "_")) == expected
    assert (site / "torch/lib/rocblas/library/Kernels_gfx942.hsaco").exists()
    assert os.access(site / "torch/bin/tool", os.X_OK)


def test_a_device_wheel_goes_without_its_host(dist: Path, installer: list[str], tmp_path: Path) -> None:
    python = environment(tmp_path)
    wheels = [dist / ANY, dist / f"amd_mini_torch_device_gfx942-{VERSION}-{TAG}.whl"]
    run(command(installer, python, "install", "--no-index", "--no-deps", *wheels))
    site = site_packages(python)
    assert objects(site / "torch/_C.so", "gfx942", tmp_path / "a") == {0: BETA["gfx942"]}
    yes = ["-y"] if len(installer) == 3 else []
    run(command(installer, python, "uninstall", *yes, "amd-mini-torch-device-gfx942"))
    left = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    assert not any("gfx942" in path for path in left) and not list((site / "torch").rglob("*gfx*"))
    rows = (site / f"mini_torch-{VERSION}.dist-info/RECORD").read_text().splitlines()
    listed = {row.split(",")[0] for row in rows}
    assert {path for path in listed if path.startswith("torch/")} <= left
    assert objects(site / "torch/_C.so", "gfx942", tmp_path / "b") == {}


# -- the command -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("command")
    return write_fat(place / "in", usual(fat_bytes(place / "fat")))


def test_the_command_says_what_became_of_each_wheel(
    fat: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = write_fat(
        tmp_path / "in",
        {"plain.py": b"", "plain/lib/rocblas/library/K_gfx999.co": b"x"},
        filename="plain-1.0-py3-none-any.whl",
        metadata=b"Metadata-Version: 2.1\nName: plain\nVersion: 1.0\n",
    )
    main_ok(["wheel", "split", str(fat), str(plain), "--output-dir", str(tmp_path / "out"), "--jobs", "1"])
    out = capsys.readouterr().out
    assert f"{FILENAME}: " in out and " kB -> host " in out and " + 4 device wheels " in out
    assert f"amd_mini_torch_device_gfx1100-{VERSION}" in out
    assert "7/7 code objects identical" in out
    assert re.search(r"plain-1.0-py3-none-any.whl: .*, has no device code to split; copied as it is", out)
    assert "left in the host: plain/lib/rocblas/library/K_gfx999.co: rocblas: gfx999" in out
    assert len(list((tmp_path / "out").iterdir())) == 6


def test_the_command_as_json(fat: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["wheel", "split", str(fat), "--output-dir", str(tmp_path), "--json", "--overlay-root", "torch"]
    words += ["--device-package-prefix", "amd-torch-device-"]
    words += ["--device-requires-dist", "rocm-sdk-device-@GFXARCH@ == 7.1", "--level", "9"]
    main_ok(words)
    (one,) = json.loads(capsys.readouterr().out)["wheels"]
    assert one["seconds"] >= 0
    assert one["split"]["overlay_root"] == "torch"
    assert one["split"]["objects"] == one["split"]["identical"] == 7
    names = [Path(device["path"]).name.split("-")[0] for device in one["split"]["device"]]
    assert names == [f"amd_torch_device_{target}" for target in ("gfx90a", "gfx942", "gfx1100", "gfx11")]


def main_ok(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code in (0, None)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "nothing to split"),
        (["a/x-1-py3-none-any.whl", "b/x-1-py3-none-any.whl"], "is given twice"),
        (
            ["x-1-py3-none-any.whl", "y-1-py3-none-any.whl", "--device-package-prefix", "d-"],
            "several projects",
        ),
        (["x-1-py3-none-any.whl", "--level", "23"], "not between 1 and 22"),
    ],
)
def test_options_that_make_no_sense(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["wheel", "split", *words])
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_the_example_of_the_real_pytorch_compares_what_is_registered(tmp_path: Path) -> None:
    """Its script, on a small library of torch's name; both wrappers of it have code for gfx942."""
    script = Path(__file__).resolve().parents[3] / "examples/real-pytorch/loader.py"
    fat = usual(fat_bytes(tmp_path / "fat"))
    fat["torch/lib/libtorch_hip.so"] = fat.pop("torch/lib/libraw.so")
    source = write_fat(tmp_path / "in", fat, filename=ANY)
    split_wheel(source, tmp_path / "out")
    parts = sorted((tmp_path / "out").glob("*.whl"))
    said = run([sys.executable, script, "gfx942", source, *parts]).splitlines()
    assert said[0].startswith("libtorch_hip.so: 2 fat wrappers, ")
    assert said[1].startswith("libtorch_hip.so: 2 split wrappers, ")
    assert said[2] == "2 of 2 wrappers lead to the same code object"
    # Without the wheel that has the code.
    host = [part for part in parts if "device" not in part.name]
    alone = subprocess.run(
        [sys.executable, script, "gfx942", source, *host], capture_output=True, text=True, check=False
    )
    assert alone.returncode == 1
    assert "libtorch_hip.so: wrapper 0 leads to no code object: " in alone.stderr
