"""Carrying out a build with a setup.py that needs nothing but Python."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from one_build import run_build
from oracle.fat_library import build_library, bundle, code_object
from rocwright.builder.decide.plan import BuildPlan
from rocwright.errors import CommandFailed, InvalidWheel
from rocwright.system import venv
from rocwright.system.venv import Environment

SETUP = """
import os, sys, zipfile
from pathlib import Path
assert sys.argv[1:3] == ["bdist_wheel", "--dist-dir"], sys.argv
dist = Path(sys.argv[3])
print("compiling for", os.environ["PYTORCH_ROCM_ARCH"])
assert Path("toy/_generated.py").read_text() == "made = 1\\n"
behave = Path("behave").read_text().split() if Path("behave").exists() else []
if "compile" in behave:
    there = Path("build/a.o").exists()
    Path("build").mkdir(exist_ok=True)
    Path("build/a.o").write_text("compiled")
    print("found" if there else "compiled")
if "killed" in behave:
    print(Path("words").read_text())
    sys.exit(1)
if "fail" in behave:
    for number in range(100):
        print("warning", number)
    print("toy/kernel.hip:7:3: error: use of undeclared identifier", file=sys.stderr)
    sys.exit(1)
dist.mkdir(parents=True)
versions = [w.removeprefix("version=") for w in behave if w.startswith("version=")]
versions = versions or [os.environ["TOY_VERSION"]]
tag = next((w.removeprefix("tag=") for w in behave if w.startswith("tag=")), "py3-none-any")
if "none" in behave:
    versions = []
for version in versions:
    info = f"toy-{version}.dist-info"
    with zipfile.ZipFile(dist / f"toy-{version}-{tag}.whl", "w") as wheel:
        wheel.writestr("toy/__init__.py", f"version = {version!r}\\n")
        wheel.writestr("toy/_generated.py", Path("toy/_generated.py").read_text())
        for library in Path().glob("*.so"):
            wheel.write(library, f"toy/{library}")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: toy\\nVersion: {version}\\n")
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: {tag}\\n")
        names = [*wheel.namelist(), f"{info}/RECORD"]
        wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\\n" for name in names))
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "src"
    (root / "toy").mkdir(parents=True)
    (root / "setup.py").write_text(SETUP)
    # The user's, and not to be taken for this build's.
    (root / "dist").mkdir()
    (root / "dist" / "toy-0.1-py3-none-any.whl").write_text("old")
    return root


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    made = Environment(tmp_path / "env")
    made.bin.mkdir(parents=True)
    made.python.symlink_to(sys.executable)
    return made


def plan(source: Path, **changes: object) -> BuildPlan:
    values: dict[str, object] = {
        "project": "toy",
        "directory": str(source),
        "version": "1.0+rocm7",
        "argv": ("python", "setup.py", "bdist_wheel"),
        "env": {"TOY_VERSION": "1.0+rocm7", "PYTORCH_ROCM_ARCH": "gfx90a", "PATH": os.environ["PATH"]},
        "generated": {"toy/_generated.py": "made = 1\n"},
        "install": False,
        **changes,
    }
    return BuildPlan(**values)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_one_wheel_in_the_output_and_a_tree_as_it_was(
    source: Path, environment: Environment, tmp_path: Path
) -> None:
    output, log = tmp_path / "out", tmp_path / "log"
    built = run_build(plan(source), environment, output, log=log)
    assert names(output) == ["toy-1.0+rocm7-py3-none-any.whl"]
    data = (output / "toy-1.0+rocm7-py3-none-any.whl").read_bytes()
    assert (built.project, built.version, built.path) == (
        "toy",
        "1.0+rocm7",
        str(output / "toy-1.0+rocm7-py3-none-any.whl"),
    )
    assert (built.sha256, built.size) == (hashlib.sha256(data).hexdigest(), len(data))
    assert built.wall_s > 0 and built.peak_rss > 1 << 20
    assert names(source) == ["dist", "setup.py", "toy"]
    assert names(source / "dist") == ["toy-0.1-py3-none-any.whl"]
    assert names(source / "toy") == []
    assert "compiling for gfx90a" in log.read_text()


@pytest.mark.parametrize("split", [False, True], ids=["whole", "split"])
def test_device_code_leaves_the_wheel_where_that_is_asked_for(
    source: Path, environment: Environment, tmp_path: Path, split: bool
) -> None:
    code = [("gfx90a", code_object(0x3F, b"code " * 900)), ("gfx942", code_object(0x4C, b"code " * 900))]
    fat = build_library(tmp_path / "fat", bundles=[bundle(code), bundle(code[1:])], name="libfat.so")
    shutil.copy(fat, source)
    run_build(plan(source, split=split), environment, tmp_path / "out", log=tmp_path / "log")
    wheel = "toy-1.0+rocm7-py3-none-any.whl"
    device = [f"amd_toy_device_{target}-1.0+rocm7-py3-none-any.whl" for target in ("gfx90a", "gfx942")]
    assert names(tmp_path / "out") == [*(device if split else []), wheel]
    with zipfile.ZipFile(tmp_path / "out" / wheel) as archive:
        assert (archive.read("toy/libfat.so") == fat.read_bytes()) == (not split)


def test_building_again_gives_the_same_output_and_no_leftovers(
    source: Path, environment: Environment, tmp_path: Path
) -> None:
    for _ in range(2):
        run_build(plan(source), environment, tmp_path / "out", log=tmp_path / "log")
    assert names(tmp_path / "out") == ["toy-1.0+rocm7-py3-none-any.whl"]


@pytest.mark.parametrize(
    ("behave", "error", "words"),
    [
        ("fail", CommandFailed, "exit code 1"),
        ("none", InvalidWheel, "its build was to make one wheel, and made none"),
        (
            "version=1.0+rocm7 version=2.0",
            InvalidWheel,
            r"made toy-1\.0\+rocm7-py3-none-any\.whl, toy-2\.0-py3-none-any\.whl",
        ),
        ("version=1.0", InvalidWheel, r"toy built version 1\.0, expected 1\.0\+rocm7"),
    ],
    ids=["compiler", "no-wheel", "two-wheels", "other-version"],
)
def test_a_build_that_goes_wrong_changes_no_output_and_leaves_nothing_generated(
    source: Path, environment: Environment, tmp_path: Path, behave: str, error: type[Exception], words: str
) -> None:
    (source / "behave").write_text(behave)
    output = tmp_path / "out"
    output.mkdir()
    (output / "torch-earlier.whl").write_text("kept")
    with pytest.raises(error, match=words):
        run_build(plan(source), environment, output, log=tmp_path / "log")
    assert names(output) == ["torch-earlier.whl"]
    assert names(source / "toy") == []


@pytest.mark.parametrize("how", ["fail", "none"])
def test_a_build_goes_on_where_the_one_before_it_ended_and_leaves_a_repository_as_it_was(
    source: Path, environment: Environment, tmp_path: Path, how: str
) -> None:
    output, log = tmp_path / "out", tmp_path / "log"
    (source / "behave").write_text(f"compile {how}")
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(source)]
    subprocess.run([*git[:1], "init", "-q", source], check=True)
    for words in (["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    (source / "behave").write_text(f"compile {how} again")
    for _ in range(2):
        with pytest.raises((CommandFailed, InvalidWheel)):
            run_build(plan(source), environment, output, log=log)
        assert (source / "build" / "a.o").exists()
    (source / "behave").write_text("compile")
    run_build(plan(source), environment, output, log=log)
    assert "found" in log.read_text().splitlines()
    status = subprocess.check_output([*git, "status", "--porcelain"], text=True)
    assert status.split() == ["M", "behave"]


def test_the_compilers_last_lines_are_in_the_error(
    source: Path, environment: Environment, tmp_path: Path
) -> None:
    (source / "behave").write_text("fail")
    with pytest.raises(CommandFailed) as caught:
        run_build(plan(source), environment, tmp_path / "out", log=tmp_path / "log")
    text = str(caught.value)
    assert "    toy/kernel.hip:7:3: error: use of undeclared identifier" in text
    assert "    warning 99" in text
    assert "warning 10\n" not in text
    assert f"  directory: {source}" in text
    assert str(tmp_path / "log") in text
    assert "warning 10\n" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("words", "is_scarce"),
    [
        ("g++: fatal error: Killed signal terminated program cc1plus", True),
        ("clang-19: error: unable to execute command: Killed", True),
        ("error: exit status -9 from\n  c++ -c a.cpp", True),
        ("FAILED: [code=137] a.o", True),
        ("Killed", True),
        ("error: exit status -11 from\n  c++ -c a.cpp", False),
        ("a.cpp:9:1: error: 'Killed' was not declared", False),
    ],
)
def test_a_compiler_that_was_killed_for_memory_is_told_from_a_failing_one(
    source: Path, environment: Environment, tmp_path: Path, words: str, is_scarce: bool
) -> None:
    (source / "behave").write_text("killed")
    (source / "words").write_text(words)
    with pytest.raises(CommandFailed) as caught:
        run_build(plan(source), environment, tmp_path / "out", log=tmp_path / "log")
    assert ("fewer --jobs" in str(caught.value)) == is_scarce


@pytest.mark.parametrize(
    ("fenced", "told"),
    [
        (False, "wants something from the network and did not reach it: see"),
        (True, "wants something from the network, which builds do not reach: see"),
    ],
)
def test_a_build_without_the_network_that_it_wants_says_so(
    source: Path, environment: Environment, tmp_path: Path, fenced: bool, told: str
) -> None:
    (source / "behave").write_text("killed")
    (source / "words").write_text("fatal: unable to access 'https://example.org/nccl/': gone")
    with pytest.raises(CommandFailed) as caught:
        run_build(plan(source, fenced=fenced), environment, tmp_path / "out", log=tmp_path / "log")
    text = str(caught.value)
    assert f"the build of toy {told} {tmp_path / 'log'} for what" in text
    assert ("--allow-downloads" in text) == fenced


def test_a_generated_file_gives_way_to_the_trees_own(
    source: Path, environment: Environment, tmp_path: Path
) -> None:
    """A tree that has such a file already is left as it was found."""
    (source / "toy" / "_generated.py").write_text("upstream = True\n")
    run_build(plan(source), environment, tmp_path / "out", log=tmp_path / "log")
    assert (source / "toy" / "_generated.py").read_text() == "upstream = True\n"


def test_a_wheel_that_later_projects_need_is_installed(source: Path, tmp_path: Path) -> None:
    environment = venv.create(tmp_path / "env")
    run_build(plan(source, install=True), environment, tmp_path / "out", log=tmp_path / "log")
    done = environment.run(["python", "-c", "import toy; print(toy.version)"])
    assert done.stdout == "1.0+rocm7\n"
    assert venv.installed(environment) == {"toy": "1.0+rocm7"}


def test_a_wheel_that_cannot_be_installed_is_not_put_out(source: Path, tmp_path: Path) -> None:
    (source / "behave").write_text("tag=cp27-cp27mu-linux_x86_64")
    environment = venv.create(tmp_path / "env")
    with pytest.raises(CommandFailed, match="not a supported wheel"):
        run_build(plan(source, install=True), environment, tmp_path / "out", log=tmp_path / "log")
    assert names(tmp_path / "out") == []


def test_nothing_of_the_caller_reaches_the_build(
    source: Path, environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, str(tmp_path))
    text = (source / "setup.py").read_text()
    check = "import os\nassert not {'PYTHONPATH', 'LD_LIBRARY_PATH', 'VIRTUAL_ENV'} & set(os.environ)\n"
    (source / "setup.py").write_text(check + text)
    run_build(plan(source), environment, tmp_path / "out", log=tmp_path / "log")
    shown = (tmp_path / "log").read_text().partition("\n")[0]
    assert shown.startswith(f"$ cd {source} && env -u LD_LIBRARY_PATH ")
    assert "-u PYTHONPATH" in shown and "-u VIRTUAL_ENV" in shown
    # The environment's own programs come before the plan's.
    assert f" PATH={environment.bin}:" in shown
