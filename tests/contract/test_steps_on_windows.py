"""Steps and builds of Windows on a simulated one (`windows_host`): planned here, done there.

Neither compilers nor an environment are part of it: no test runs on Windows.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from trees import script
from windows_host import as_on_windows
from windows_tree import FAMILY, TARGETS, windows_prefix

EXAMPLES = Path(__file__).parents[2] / "examples/mini-pytorch"
# Each line of arguments is a command; what it ended with is printed behind its output.
COMMANDS = """
from rocwright.cli import main
for line in sys.argv[4:]:
    try:
        main(line.split(" "))
    except SystemExit as end:
        print("ended with", end.code or 0)
"""


def test_steps_of_windows_are_done_there_and_leave_rocm_in_the_store(rocwright, tmp_path: Path) -> None:
    windows_prefix(tmp_path / "rocm")
    words = [
        "--platforms",
        "windows",
        "--families",
        FAMILY,
        "--sources",
        "upstream",
        "--no-pytorch",
        "--test-families",
        "none",
    ]
    plan = rocwright("pipeline", "plan", *words, "--rocm", f"prefix:{tmp_path / 'rocm'}", "--json").json
    # The small ROCm has code for half of the family.
    for cell in plan["cells"]:
        if "targets" in cell["settings"]:
            cell["settings"]["targets"] = " ".join(TARGETS)
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    to = f"--plan {tmp_path / 'plan.json'} --store {tmp_path / 'store'} --work-dir {tmp_path / 'b'}"
    kinds = ("rocm-artifacts", "rocm-packages", "check-rocm", "upload-rocm")
    steps = [f"pipeline step {kind}/windows/{FAMILY} {to}" for kind in kinds]
    modules = "rocwright.cli.pipeline.run rocwright.store.objects.local"
    done = as_on_windows(modules, COMMANDS, *steps, f"pipeline step summary {to}")
    assert done.stdout.count("ended with 0") == 5, done.stdout + done.stderr
    assert "done: summary" in done.stderr
    page = tmp_path / f"store/local-windows/python/{FAMILY}/index.html"
    for name in ("core", f"libraries_{FAMILY.lower().replace('-', '_')}", "devel"):
        assert f"rocm_sdk_{name}-7.0.2-py3-none-win_amd64.whl" in page.read_text()


def test_a_build_is_planned_there_for_windows(tmp_path: Path) -> None:
    windows_prefix(tmp_path / "rocm")
    words = f"build --output-dir out --pytorch-dir {EXAMPLES / 'pytorch'} --rocm-prefix {tmp_path / 'rocm'}"
    words += " --pytorch-rocm-arch gfx1100"
    done = as_on_windows("rocwright.cli.build", COMMANDS, f"{words} --dry-run --json", words)
    text, _, end = done.stdout.partition("\nended with 0\n")
    plan = json.loads(text)
    assert plan["platform"] == "windows"
    assert plan["builds"][0]["env"]["CC"].endswith("/lib/llvm/bin/clang-cl.exe")
    (note,) = (note for note in plan["notes"] if "vcvars64.bat" in note)
    assert "vswhere" in note and "C:/b" in note
    # The build itself begins no work without a compiler, and says where one is had.
    assert end == "ended with 12\n"
    assert "cl was not found on PATH" in done.stderr
    assert "open the x64 Native Tools Command Prompt of Visual Studio 2022" in done.stderr


def test_a_build_sets_microsofts_compilers_up_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`vswhere` and `cmd` are stand-ins: one names a directory with a space, the other prints variables."""
    windows_prefix(tmp_path / "rocm")
    studio, programs = tmp_path / "Visual Studio/2022", tmp_path / "Program Files (x86)"
    vswhere = programs / "Microsoft Visual Studio/Installer/vswhere.exe"
    script(vswhere, f'#!/bin/sh\necho "{studio}"\n')
    sets = "echo VCToolsRedistDir=C:/r"
    script(tmp_path / "bin2/cmd", f'#!/bin/sh\necho "$*" >"{tmp_path / "asked"}"; {sets}\n')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin2'}:{os.environ['PATH']}")
    monkeypatch.setenv("ProgramFiles(x86)", str(programs))
    words = f"build --output-dir out --pytorch-dir {EXAMPLES / 'pytorch'} --rocm-prefix {tmp_path / 'rocm'}"
    done = as_on_windows("rocwright.cli.build", COMMANDS, f"{words} --pytorch-rocm-arch gfx1100")
    assert f"Microsoft's compilers: those of {studio}/VC (vcvars64.bat)" in done.stderr
    expected = f"/d /c call {studio}/VC/Auxiliary/Build/vcvars64.bat && set\n"
    assert (tmp_path / "asked").read_text() == expected
    # What the script set is what the build goes by.
    assert "but C:\\r\\debug_nonredist" in done.stderr
