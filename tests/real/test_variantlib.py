"""variantlib's own commands and `rocwright check` agree on what a variant is, and on what is none."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import Run
from rocwright.check.run import check_paths
from rocwright.system.venv import uv_command
from wheels import write_wheel

VERSION, TAG = "2.9.0+rocm7.1", "py3-none-linux_x86_64"
TARGETS = ("gfx942", "gfx1151")
STATED = f"lynx_device-{VERSION}-variants.json"
PROJECT = """
[variant.default-priorities]
namespace = ["amd"]
[variant.providers.amd]
requires = ["rocm-bootstrap"]
plugin-api = "rocm_bootstrap.variant_provider:AMDVariantPlugin"
"""


@pytest.fixture(scope="module")
def variantlib(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """variantlib's command, with AMD's provider beside it."""
    place = tmp_path_factory.mktemp("variantlib") / "venv"
    subprocess.run([uv_command(), "venv", "-q", "--python", sys.executable, place], check=True)
    # Its command that makes variants imports `build`, and does not require it.
    wanted = ["variantlib==0.2.2", "rocm-bootstrap==0.3.0", "build"]
    install = [uv_command(), "pip", "install", "-q", "--python", place / "bin/python", *wanted]
    subprocess.run(install, check=True)
    return place / "bin/variantlib"


def lines_of(command: Path, *words: str | Path) -> str:
    done = subprocess.run([command, *words], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def made(variantlib: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Variants that `make-variant` made, what `generate-index-json` states of them."""
    root = tmp_path_factory.mktemp("made")
    folder, plain = root / "dist", root / "plain"
    folder.mkdir()
    (root / "pyproject.toml").write_text(PROJECT)
    about = ("--pyproject-toml", root / "pyproject.toml", "--no-isolation", "-o", folder)
    for target in TARGETS:
        write_wheel(folder, f"lynx-device-{target}", VERSION, {}, tag=TAG)
        needs = [f"lynx-device-{target}=={VERSION}"]
        wheel = write_wheel(plain, "lynx-device", VERSION, {}, tag=TAG, requires=needs)
        chosen = ("-p", f"amd :: gfx_arch :: {target}")
        # One under a word, one under the digest that it computes.
        label = ("--variant-label", target) if target == "gfx942" else ()
        lines_of(variantlib, "make-variant", "-f", wheel, *chosen, *label, *about)
    none = write_wheel(folder, "lynx-device", VERSION, {}, tag=TAG)
    lines_of(variantlib, "make-variant", "-f", none, "--null-variant", *about)
    lines_of(variantlib, "generate-index-json", "-d", folder)
    return folder


def test_what_variantlib_makes_breaks_no_rule(made: Path) -> None:
    assert {one.name.removesuffix(".whl").rpartition("-")[2] for one in made.glob("lynx_device-*.whl")} == {
        "linux_x86_64", "gfx942", "e56f00bc", "null",
    }  # fmt: skip
    assert check_paths([made], closed=True).findings == ()
    assert check_paths([made], closed=True, targets=TARGETS).findings == ()


def test_it_is_shown_as_variantlib_shows_it(variantlib: Path, made: Path, rocwright: Run) -> None:
    for wheel in made.glob("lynx_device-*-*-*-*-*.whl"):
        told = lines_of(variantlib, "analyze-wheel", "-i", wheel)
        shown = rocwright("wheel", "show", wheel).out
        label = wheel.stem.rpartition("-")[2]
        assert f"Variant: `{label}`" in told and f"variant     {label}" in shown
        for target in TARGETS:
            assert (f"amd :: gfx_arch :: {target}" in told) == (f"amd :: gfx_arch :: {target}" in shown)


def test_it_is_adopted_with_what_is_stated_of_it(made: Path, tmp_path: Path, rocwright: Run) -> None:
    words = ("--project", "lynx-device", "--store", tmp_path / "store", "--no-resolve", "--no-install")
    ended = rocwright("set", "create", "--from-folder", made, *words)
    assert ended.code == 0, ended.err
    stated, theirs = (
        json.loads(path.read_text()) for path in (*(tmp_path / "store").rglob(STATED), made / STATED)
    )
    assert {key: stated[key] for key in ("default-priorities", "variants")} == {
        key: theirs[key] for key in ("default-priorities", "variants")
    }
    assert stated["providers"]["amd"]["requires"] == theirs["providers"]["amd"]["requires"]


@pytest.mark.parametrize(
    "broken",
    [
        {"variants": {"gfx942": {"amd": {"gfx_arch": ["GFX942"]}}}},
        {"variants": {"null": {"amd": {"gfx_arch": ["gfx942"]}}}},
        {"variants": {"gfx942": {}}},
        {"variants": {"gfx942": {"lynx": {"claws": ["sharp"]}}}},
        {"default-priorities": {"namespace": ["amd", "lynx"]}},
        {"providers": {"amd": {"requires": ["lynx"], "static-properties": {"gfx_arch": ["gfx942"]}}}},
        {"providers": {"amd": {"optional": True}}},
    ],
    ids=["upper case", "null has some", "none but null", "no provider", "priority", "two", "nothing"],
)
def test_what_variantlib_refuses_is_an_error(
    variantlib: Path, made: Path, tmp_path: Path, broken: dict[str, object]
) -> None:
    folder = shutil.copytree(made, tmp_path / "dist")
    stated = {**json.loads((folder / STATED).read_text()), **broken}
    (folder / STATED).write_text(json.dumps(stated))
    read = "import json, sys, variantlib.variants_json as v; v.VariantsJson(json.load(sys.stdin))"
    python = variantlib.with_name("python")
    done = subprocess.run([python, "-c", read], input=json.dumps(stated), text=True, capture_output=True)
    assert "ValidationError" in done.stderr
    assert "variants-json" in {one.rule for one in check_paths([folder]).findings}
