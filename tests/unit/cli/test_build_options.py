"""Options of `rocwright build` and `build_prod_wheels.py` as a user meets them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import Ended, Run
from rocwright.cli import parse
from rocwright.cli.build import passed_on
from rocwright.cli.documented.build_script import command_first, run_script, script_app
from rocwright.errors import UsageError

Call = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).resolve().parents[3]
MINI = ROOT / "examples" / "mini-pytorch"
SCRIPT = ROOT / "external-builds/pytorch/build_prod_wheels.py"

# Every flag of the documented builder, with both signs where it is a switch.
DOCUMENTED = re.findall(
    r"--\S+",
    """
--index-url --find-links --pip-cache-dir --rocm-sdk-version --pre --no-pre --rocm-extras
--install-rocm --no-install-rocm --output-dir --use-ccache --use-sccache --sccache-no-wrap --root-checkout-dir
--pytorch-dir --pytorch-audio-dir --pytorch-vision-dir --triton-dir --apex-dir
--pytorch-rocm-arch --pytorch-build-number
--build-triton --no-build-triton --build-pytorch-audio --no-build-pytorch-audio
--build-pytorch-vision --no-build-pytorch-vision --build-apex --no-build-apex
--enable-pytorch-flash-attention --no-enable-pytorch-flash-attention
--enable-pytorch-flash-attention-windows --no-enable-pytorch-flash-attention-windows
--enable-pytorch-flash-attention-linux --no-enable-pytorch-flash-attention-linux
--enable-pytorch-fbgemm-genai-linux --no-enable-pytorch-fbgemm-genai-linux
--version-suffix --release-type --clean --no-clean
""",
)
OURS = re.findall(
    r"--\S+",
    """
--rocm-environment --rocm-prefix --install-wheels --no-install-wheels --python --platform --dry-run --json
--work-dir --resume --no-resume --editable --split-device --lock --jobs --report-units --no-report-units
""",
)


@pytest.fixture
def call(rocwright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    # The active environment has no packages at all.
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho '{}'\n")
    python.chmod(0o755)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    for name in ("PYTORCH_ROCM_ARCH", "CMAKE_PREFIX_PATH", "USE_KINETO", "MAX_JOBS"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: object) -> Ended:
        """`rocwright build`; nothing may be written."""
        ended = rocwright("build", *words)
        assert not (tmp_path / "out").exists() and not (tmp_path / "out-work").exists()
        return ended

    return run


def dry(call: Call, *words: object, arch: str = "gfx1100") -> dict[str, Any]:
    """The plan of a dry run as JSON."""
    targets = ["--pytorch-rocm-arch", arch] if arch else []
    code, out, err = call("--dry-run", "--json", "--output-dir", "out", *targets, *words)
    assert code == 0, err
    plan: dict[str, Any] = json.loads(out)
    return plan


def projects(plan: dict[str, Any]) -> list[str]:
    return [build["project"] for build in plan["builds"]]


@pytest.mark.parametrize("door", ["command", "script"])
def test_every_documented_flag_is_there(door: str) -> None:
    app = parse.app["build"] if door == "command" else script_app(SCRIPT)["build"]
    known = {name for argument in app.assemble_argument_collection() for name in argument.names}
    assert [flag for flag in [*DOCUMENTED, *OURS] if flag not in known] == []


def test_the_script_shows_no_line_of_another_program() -> None:
    with pytest.raises(UsageError, match=r"give --output-dir; `build_prod_wheels.py build --help` says more"):
        run_script(SCRIPT, ["build"])


def test_help_of_the_script_looks_like_that_of_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_script(SCRIPT, ["build", "--help"])
    shown = capsys.readouterr().out
    assert shown.startswith(
        "Usage: build_prod_wheels.py build --output-dir PATH [OPTIONS]\n\nBuild wheels of "
    )
    assert "\n  --output-dir PATH  Where the wheels go; made if it is not there (required).\n" in shown
    assert re.search(r"\n\nOlder spellings:\n  --enable-", shown)


def test_the_help_names_them(call: Call) -> None:
    """Of a flag the spelling that changes something."""
    shown = set(re.findall(r"--[a-z][\w-]*", call("--help")[1]))
    other = {flag: f"--{flag[5:]}" if flag.startswith("--no-") else f"--no-{flag[2:]}" for flag in DOCUMENTED}
    assert [flag for flag in DOCUMENTED if not {flag, other[flag]} & shown] == []


def test_what_the_issue_shows(call: Call) -> None:
    plan = dry(call, "--platform", "windows", "--pytorch-dir", MINI / "pytorch")
    (torch,) = plan["builds"]
    assert (plan["platform"], plan["targets"], torch["project"]) == ("windows", ["gfx1100"], "torch")
    assert torch["env"]["PYTORCH_ROCM_ARCH"] == "gfx1100"
    assert torch["env"]["USE_KINETO"] == "OFF"
    assert plan["rocm"]["origin"] == "unknown"


def test_the_human_view_has_the_same(call: Call) -> None:
    words = ["--dry-run", "--output-dir", "out", "--pytorch-rocm-arch", "gfx90a;gfx942"]
    code, out, err = call(*words, "--root-checkout-dir", MINI, "--rocm-sdk-version", "==7.10.0")
    assert code == 0, err
    assert "targets  gfx90a gfx942" in out
    assert "7.10.0, not looked at" in out
    for project in ("triton", "torch", "torchaudio", "torchvision", "apex"):
        assert f"\n{project} " in out
    assert "  PYTORCH_ROCM_ARCH='gfx90a;gfx942'\n" in out
    assert "  set        USE_CUDA=OFF\n" in out
    assert "  run        python " in out


def test_further_pythons_are_told_by_what_differs(call: Call) -> None:
    words = ["--dry-run", "--output-dir", "out", "--pytorch-rocm-arch", "gfx942", "--python", "3.11,3.12"]
    code, out, err = call(
        *words, "--pytorch-dir", MINI / "pytorch", "--pytorch-audio-dir", MINI / "pytorch_audio"
    )
    assert code == 0, err
    torch = out.partition("for Python 3.12: as for 3.11, but\n")[2].partition("\n\n")[0]
    assert torch.splitlines() == ["  remove     build/CMakeCache.txt"]
    assert out.endswith("for Python 3.12: as for 3.11\n")


def test_what_lies_in_the_root_directory_is_built_in_order(call: Call) -> None:
    plan = dry(call, "--root-checkout-dir", MINI)
    assert projects(plan) == ["triton", "torch", "torchaudio", "torchvision", "apex"]
    plan = dry(call, "--root-checkout-dir", MINI, "--no-build-triton", "--no-build-apex")
    assert projects(plan) == ["torch", "torchaudio", "torchvision"]
    assert {"triton", "apex"} <= set(plan["left_out"])


def test_the_current_directory_is_looked_in(call: Call, tmp_path: Path) -> None:
    (tmp_path / "pytorch").symlink_to(MINI / "pytorch")
    assert projects(dry(call)) == ["torch"]


def test_a_directory_is_named_for_each_project(call: Call) -> None:
    plan = dry(
        call,
        *("--pytorch-dir", MINI / "pytorch"),
        *("--pytorch-audio-dir", MINI / "pytorch_audio"),
        *("--project-dir", f"torchvision={MINI / 'pytorch_vision'}"),
    )
    assert projects(plan) == ["torch", "torchaudio", "torchvision"]


def test_several_pythons(call: Call) -> None:
    plan = dry(call, "--pytorch-dir", MINI / "pytorch", "--python", "3.11,3.13t")
    assert [build["python"] for build in plan["builds"]] == ["3.11", "3.13t"]


def test_versions_follow_the_release_type_and_the_suffix(call: Call) -> None:
    torch = ("--pytorch-dir", MINI / "pytorch")
    base = (MINI / "pytorch/version.txt").read_text().strip()
    (plain,) = dry(call, *torch, "--rocm-sdk-version", "==7.10.0")["builds"]
    assert plain["env"]["PYTORCH_BUILD_VERSION"] == f"{base}+rocm7.10.0"
    own = ("--version-suffix", "+ours.1", "--pytorch-build-number", "7")
    (suffixed,) = dry(call, *torch, *own)["builds"]
    assert suffixed["env"]["PYTORCH_BUILD_VERSION"] == f"{base}+ours.1"
    assert suffixed["env"]["PYTORCH_BUILD_NUMBER"] == "7"
    refused = call(
        "--dry-run",
        "--output-dir",
        "out",
        "--pytorch-rocm-arch",
        "gfx942",
        *torch,
        "--version-suffix",
        "ours",
    )
    assert refused[0] in (2, 3)
    assert "+" in refused[2]


FLASH = "USE_FLASH_ATTENTION"


@pytest.mark.parametrize(
    ("platform", "words", "on"),
    [
        ("linux", ["--no-enable-pytorch-flash-attention"], False),
        ("linux", ["--no-enable-pytorch-flash-attention-linux"], False),
        ("linux", ["--enable-pytorch-flash-attention-linux"], True),
        ("linux", ["--no-enable-pytorch-flash-attention-windows"], True),
        ("windows", ["--enable-pytorch-flash-attention-windows"], True),
        ("windows", ["--no-enable-pytorch-flash-attention-windows"], False),
        ("windows", ["--no-enable-pytorch-flash-attention-linux"], True),
    ],
    ids=lambda value: (
        value if isinstance(value, str) else " ".join(value) if isinstance(value, list) else str(value)
    ),
)
def test_spellings_of_flash_attention(call: Call, platform: str, words: list[str], on: bool) -> None:
    # gfx1100 and triton allow it, so that it is on where nothing is said for this platform.
    plan = dry(call, "--root-checkout-dir", MINI, "--platform", platform, *words)
    torch = next(build for build in plan["builds"] if build["project"] == "torch")
    assert torch["env"][FLASH] == ("1" if on else "0")


@pytest.mark.parametrize(("word", "value"), [("--", "1"), ("--no-", "0")])
def test_torch_itself_decides_about_fbgemm_genai(call: Call, word: str, value: str) -> None:
    words = ["--dry-run", "--output-dir", "out", "--pytorch-rocm-arch", "gfx942", "--root-checkout-dir", MINI]
    flag = f"{word}enable-pytorch-fbgemm-genai-linux"
    code, _, err = call(*words, "--platform", "linux", flag)
    assert code == 0
    assert f"{flag} is deprecated and has no effect" in err
    assert f"USE_FBGEMM_GENAI={value}" in err


def test_older_spellings_are_announced(call: Call) -> None:
    words = ["--dry-run", "--output-dir", "out", "--pytorch-rocm-arch", "gfx942", "--root-checkout-dir", MINI]
    _, _, err = call(*words, "--platform", "linux", "--no-enable-pytorch-flash-attention-windows")
    assert "--no-enable-pytorch-flash-attention-windows is deprecated, and has no effect on linux" in err
    assert "give --no-enable-pytorch-flash-attention" in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--use-ccache", "--use-sccache"], "--use-ccache and --use-sccache contradict each other"),
        (["--sccache-no-wrap"], "--sccache-no-wrap is an option for sccache"),
        (["--jobs", "0"], "--jobs 0 is not 1 or more"),
        (
            ["--rocm-prefix", "x", "--find-links", "."],
            "--rocm-prefix and --find-links name two different ROCms",
        ),
        (["--rocm-prefix", "x", "--install-rocm"], "--rocm-prefix and --install-rocm"),
        (["--rocm-environment", "x", "--index-url", "https://x.example"], "add --install-rocm"),
        (["--install-rocm"], "--install-rocm has no place to take ROCm from"),
        (["--install-rocm", "--index-url", "", "--find-links="], "--install-rocm has no place"),
        (["--install-wheels", "--find-links", "."], "--install-wheels needs the environment"),
        (
            [
                "--enable-pytorch-flash-attention",
                "--no-enable-pytorch-flash-attention-linux",
                "--platform",
                "linux",
            ],
            "flash attention is switched on and off at once",
        ),
        (["--project-dir", "vllm"], "--project-dir vllm is not NAME=DIR"),
        (["--project-dir", f"torch={MINI}"], "the directory of torch is given twice"),
        (["--version-suffix", "+a b"], "version suffix '+a b' must start with '+', followed by letters"),
        (["--find-links", ".", "--rocm-sdk-version", "7.10"], "'7.10' is not a version specifier"),
        (["--find-links", ".", "--rocm-extras", "a;b"], "'a;b' is not a name of an extra"),
        (["--work-dir", ""], "--work-dir: the path is empty"),
        (["--rocm-prefix", ""], "--rocm-prefix: the path is empty"),
        (["--triton-dir="], "--triton-dir: the path is empty"),
        (["--python", "three"], "--python three is neither a version nor a path"),
        (["--root-checkout-dir", "nowhere"], "there is no directory nowhere"),
        (["--build-apex"], "apex"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_options_that_make_no_sense_together(call: Call, words: list[str], told: str) -> None:
    torch = ["--pytorch-dir", MINI / "pytorch", "--pytorch-rocm-arch", "gfx942"]
    code, out, err = call("--dry-run", "--output-dir", "out", *torch, *words)
    assert (code, out) == (2, "")
    assert told in err


def test_an_empty_output_directory_is_not_the_current_one(call: Call) -> None:
    code, out, err = call("--dry-run", "--output-dir", "", "--pytorch-dir", MINI / "pytorch")
    assert (code, out) == (2, "")
    assert "--output-dir" in err and "the path is empty" in err


def test_an_empty_suffix_counts_as_not_given(call: Call) -> None:
    torch = ("--pytorch-dir", MINI / "pytorch", "--rocm-sdk-version", "==7.10.0")
    (plan,) = dry(call, *torch, "--version-suffix", "")["builds"]
    assert plan["version"] == "2.9.0+rocm7.10.0"


def test_a_directory_of_another_project_is_found_out(call: Call) -> None:
    words = ("--pytorch-rocm-arch", "gfx942", "--pytorch-dir", MINI / "pytorch_vision")
    code, _, err = call("--dry-run", "--output-dir", "out", *words)
    assert code == 3
    assert "the torch wheel contains torch/_rocm_init.py, but there is no directory for it here" in err
    assert f"in: {MINI / 'pytorch_vision'}" in err


def test_a_python_that_is_not_there(call: Call, tmp_path: Path) -> None:
    torch = ("--pytorch-dir", MINI / "pytorch", "--pytorch-rocm-arch", "gfx942")
    code, _, err = call("--dry-run", "--output-dir", "out", *torch, "--python", "./nope")
    assert code == 4
    assert f"there is no Python {tmp_path}/nope" in err
    assert "next: give the path of a python3 program, or a version such as 3.12" in err


def test_another_platform_is_for_dry_runs(call: Call) -> None:
    code, _, err = call("--platform", "windows", "--output-dir", "out", "--pytorch-dir", MINI / "pytorch")
    assert code == 2
    assert "wheels for windows are built on windows" in err
    assert "--dry-run" in err


def test_nothing_to_build(call: Call, tmp_path: Path) -> None:
    code, _, err = call("--dry-run", "--output-dir", "out", "--pytorch-rocm-arch", "gfx942")
    assert code == 2
    assert f"no source tree to build: {tmp_path} has none of pytorch," in err
    assert "rocwright checkout all" in err


def test_targets_are_needed(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = ("--pytorch-dir", MINI / "pytorch")
    code, _, err = call("--dry-run", "--output-dir", "out", *torch)
    assert code == 2
    assert "--pytorch-rocm-arch" in err
    monkeypatch.setenv("PYTORCH_ROCM_ARCH", "gfx90a gfx942")
    assert dry(call, *torch, arch="")["targets"] == ["gfx90a", "gfx942"]


def test_the_caller_s_kineto_wins(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    # CL-46.
    torch = ("--pytorch-dir", MINI / "pytorch", "--platform", "linux")
    assert dry(call, *torch)["builds"][0]["env"]["USE_KINETO"] == "ON"
    monkeypatch.setenv("USE_KINETO", "OFF")
    (editable,) = dry(call, *torch, "--editable", "torch")["builds"]
    assert editable["env"]["USE_KINETO"] == "OFF"
    assert editable["editable"] is True


def test_requirements_have_no_braces(call: Call) -> None:
    # CL-66: the older instructions' =={$(rocm-sdk version)} leaves braces in the wheel.
    (torch,) = dry(call, "--pytorch-dir", MINI / "pytorch", "--rocm-sdk-version", "==7.10.0")["builds"]
    assert torch["env"]["PYTORCH_EXTRA_INSTALL_REQUIREMENTS"] == "rocm[libraries]==7.10.0"
    # CL-67.
    assert "def initialize():" in torch["generated"]["torch/_rocm_init.py"]


def test_exit_codes_of_commands_are_passed_on() -> None:
    assert [passed_on(status) for status in (1, 2, 255, -9, -11)] == [1, 2, 255, 137, 139]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--index-url U install-rocm", "install-rocm --index-url U"),
        ("install-rocm --index-url U", "install-rocm --index-url U"),
        ("--pre --index-url=U build --output-dir O", "build --pre --index-url=U --output-dir O"),
        # The word build may also be a value.
        ("--output-dir build build --clean", "build --output-dir build --clean"),
        (
            "--find-links build --output-dir install-rocm build",
            "build --find-links build --output-dir install-rocm",
        ),
        ("--no-clean build", "build --no-clean"),
        ("--help", "--help"),
    ],
    ids=str,
)
def test_the_sub_command_may_stand_anywhere(words: str, expected: str) -> None:
    assert command_first(script_app(SCRIPT), words.split()) == expected.split()


@pytest.mark.parametrize("words", ["--output-dir out", "--index-url install-rocm", "--index-url"])
def test_a_sub_command_that_is_missing_is_told(words: str) -> None:
    with pytest.raises(UsageError, match="no sub-command is given") as told:
        run_script(SCRIPT, words.split())
    assert "add build or install-rocm" in str(told.value)
