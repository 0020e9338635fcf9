"""The Quickstart from top to bottom: an environment, three checkouts, one command that builds, checks."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

from conformance import origins
from conformance.scenes.packages import family_packages
from conformance.table import Row, row
from conformance.world import Done, Shell, Transcript, World
from real import sdk_index

NIGHTLY = "https://rocm.nightlies.amd.com/v2/gfx110X-all/"
SCRIPTS = "rocwright/external-builds/pytorch"
ROCM = "5.2.3.dev0"
VERSIONS = {
    "torch": "2.9.0+devrocm5.2.3.dev0",
    "torchaudio": "2.9.0+devrocm5.2.3.dev0",
    "torchvision": "0.24.0+devrocm5.2.3.dev0",
}
FOLDERS = {"torch": "pytorch", "torchaudio": "pytorch_audio", "torchvision": "pytorch_vision"}
# Other trees of the same projects: their folders in ~/src, and versions that no default has.
ELSEWHERE = {"torch": ("one", "2.9.7"), "torchaudio": ("two", "2.9.6"), "torchvision": ("three", "0.24.5")}
BUILD = "python build_prod_wheels.py build"
OUTPUT = "--output-dir $HOME/tmp/pyout"
# Every script's help, in one process.
HELPED = """
import runpy, sys
for script in sys.argv[1:]:
    sys.argv = [script, "--help"]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        print(f"{script} ended with {ended.code}")
"""


def install_as_told(shell: Shell, refused: Done, *ids: str) -> None:
    """Type the line that a script without rocwright printed; the wheel of the clone stands for the clone."""
    (told,) = re.findall(r"^  next: (.*)$", refused.err, re.MULTILINE)
    clone = str(shell.home / "rocwright")
    assert told.endswith(f" -m pip install {clone}"), refused.said
    shell(told, *ids, run=f"{told.removesuffix(clone)}-q {shell.world.wheel()}")


def quickstart(world: World) -> Transcript:
    """What it leaves: checkouts beside the scripts, wheels in ~/tmp/pyout, all of them installed in .venv."""

    def play(shell: Shell) -> dict[str, object]:
        origins.turn_to(shell)
        with sdk_index.serving(Path(str(family_packages(world).facts["dist"]))) as index:
            shell.local[NIGHTLY] = index.url
            shell("cd external-builds/pytorch")
            shell("python -m venv .venv && source .venv/bin/activate", "CL-01", "FD-14")
            refused = shell("python pytorch_torch_repo.py checkout", "CL-01", code=1)
            install_as_told(shell, refused, "CL-01")
            for project in ("torch", "audio", "vision"):
                shell(f"python pytorch_{project}_repo.py checkout", "CL-01")
            before = sorted(path.name for path in shell.home.iterdir())
            shell(
                f"{BUILD} --install-rocm --index-url {NIGHTLY} {OUTPUT}",
                *("CL-09", "FL-08", "FL-09", "FL-13", "FD-06", "FD-13", "EV-08", "NM-05"),
            )
            asked = sorted(index.projects())
            shell("rocm-sdk test", "CL-13")
            shell('python -c "import torch; print(torch.cuda.is_available())"', "CL-13")
            _install_rocm_alone(shell)
        _what_builds_see(shell)
        _build_from_elsewhere(shell)
        _every_tool_starts(shell)
        return {"asked": asked, "before": before}

    return world.scene("quickstart", play)


def _install_rocm_alone(shell: Shell) -> None:
    """The other way to install ROCm, into an environment that has none yet."""
    fresh = shell.cwd / ".venv-rocm"
    shell("python -m venv .venv-rocm", more="--without-pip")
    shell(
        f"build_prod_wheels.py --index-url {NIGHTLY} install-rocm",
        *("CL-17", "NM-05"),
        run=f"./build_prod_wheels.py --index-url {NIGHTLY} install-rocm",
        env={"VIRTUAL_ENV": str(fresh)},
    )
    shell(".venv-rocm/bin/rocm-sdk path --root", "CL-17")


def _what_builds_see(shell: Shell) -> None:
    """Plans for the ROCm that is installed, what that ROCm says of itself, sources that options name."""
    for id_, option in (("EV-02", "--cmake"), ("EV-07", "--root"), ("EV-01", "--bin")):
        shell(f"rocm-sdk path {option}", id_)
    plan = "--dry-run --json"
    shell(f"{BUILD} {OUTPUT}", "EV-01", "EV-02", "EV-03", "EV-07", "EV-08", more=plan)
    shell(f"USE_KINETO=OFF {BUILD} {OUTPUT}", "EV-03", more=plan)
    shell(f"{BUILD} {OUTPUT} --platform windows", "EV-03", more=f"--pytorch-rocm-arch gfx1100 {plan}")
    shell(f"{BUILD} --output-dir=~/tmp/pyout", "EV-08", more=plan)
    shell("cd $HOME")
    shell(
        "--pytorch-dir, --pytorch-audio-dir, --pytorch-vision-dir",
        *("FL-14", "FD-06"),
        run=f"python {SCRIPTS}/build_prod_wheels.py build {OUTPUT} --no-install-wheels "
        f"--pytorch-dir {SCRIPTS}/pytorch --pytorch-audio-dir {SCRIPTS}/pytorch_audio "
        f"--pytorch-vision-dir {SCRIPTS}/pytorch_vision",
    )


def _build_from_elsewhere(shell: Shell) -> None:
    """Trees in directories that are nobody's default, while those beside the scripts are there, too."""
    options = ""
    for project, (folder, version) in ELSEWHERE.items():
        name = FOLDERS[project]
        script = f"{SCRIPTS}/pytorch_{project.removeprefix('torch') or 'torch'}_repo.py"
        shell(f"python {script} checkout --checkout-dir $HOME/src/{folder}")
        shell(f"echo {version} > src/{folder}/version.txt")
        options += f" --{name.replace('_', '-')}-dir $HOME/src/{folder}"
    shell(
        "--pytorch-dir, --pytorch-audio-dir, --pytorch-vision-dir",
        "FL-14",
        run=f"python {SCRIPTS}/build_prod_wheels.py build --output-dir $HOME/out --no-install-wheels "
        f"{options}",
    )


def _every_tool_starts(shell: Shell) -> None:
    scripts = "external-builds/pytorch"
    found = f"find {scripts}/*.py {scripts}/skip_tests build_tools third-party -name '*.py'"
    (shell.home / "helped.py").write_text(HELPED)
    shell("cd $HOME/rocwright")
    shell("--help", "CL-01", run=f"{found} | xargs python $HOME/helped.py")


# -- what it left --------------------------------------------------------------------------------------------


def wheel_of(folder: Path, project: str) -> Path:
    """The only wheel of a project there."""
    (found,) = folder.glob(f"{project}-*.whl")
    return found


def requirements(wheel: Path) -> list[str]:
    """What a wheel's metadata requires."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist") or []


def targets_of(wheel: Path) -> set[str]:
    """GPU targets of the bundles of device code in a wheel's libraries, by the bundles' own entries."""
    found: set[bytes] = set()
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".so"):
                found |= set(re.findall(rb"amdgcn-amd-amdhsa--(gfx[0-9a-f]+)", archive.read(name)))
    return {target.decode() for target in found}


def torch_log(work: Path) -> Path:
    """The log of torch's build, for the one Python that it was built for."""
    (found,) = work.glob("log/cp3*-torch.log")
    return found


def built_with(log: Path) -> dict[str, str]:
    """The variables that the command of a build was given, by the line in the build's own log."""
    (line,) = (text for text in log.read_text().splitlines() if " -m build --wheel --no-isolation " in text)
    return dict(word.split("=", 1) for word in shlex.split(line) if re.match(r"[A-Za-z_]+=", word))


def torch_env(done: Done) -> dict[str, str]:
    """The variables that torch's build is going to see, of a plan printed as JSON."""
    plan: dict[str, Any] = json.loads(done.out)
    (torch,) = (build for build in plan["builds"] if build["project"] == "torch")
    return dict(torch["env"])


def distributions(environment: Path) -> dict[str, str]:
    """Name to version of what is installed there, by the directories of their metadata."""
    found = environment.glob("lib/python3*/site-packages/*.dist-info")
    return dict(path.name.removesuffix(".dist-info").split("-", 1) for path in found)


@row("CL-01", "FD-14")
def a_plain_environment_is_enough(world: World, row: Row) -> None:
    scene = quickstart(world)
    done = scene.all_of(row.id)
    environment = scene.home / SCRIPTS / ".venv"
    config = (environment / "pyvenv.cfg").read_text()
    assert "include-system-site-packages = false" in config
    assert (environment / "bin/activate").is_file()
    if row.id == "CL-01":
        refused, installed, *checkouts, tools = done[1:]
        lines = refused.err.splitlines()
        assert lines[0] == "error: this Python has no rocwright"
        assert lines[1].startswith(f"  next: {environment}/bin/python -m pip install ")
        assert refused.out == "" and len(lines) == 2
        assert [one.code for one in (installed, *checkouts)] == [0] * 4
        assert len(re.findall(r"^\S+\.py ended with 0$", tools.out, re.MULTILINE)) == 34


@row("CL-09", "FL-13", "NM-05", "FD-06")
def one_command_builds_what_is_checked_out(world: World, row: Row) -> None:
    scene = quickstart(world)
    assert "next: rocwright check" in scene.all_of("CL-09")[0].out
    scene.of(row.id)
    output, scripts = scene.home / "tmp/pyout", scene.home / SCRIPTS
    assert sorted(path.name.split("-")[0] for path in output.iterdir()) == sorted(VERSIONS)
    for project, version in VERSIONS.items():
        wheel = wheel_of(output, project)
        assert wheel.name.split("-")[1] == version
        assert targets_of(wheel) == {"gfx1100"}
        status = ["git", "-C", str(scripts / FOLDERS[project]), "status", "--porcelain"]
        assert subprocess.run(status, capture_output=True, text=True, check=True).stdout == ""
        expected = f"rocm[libraries]=={ROCM}" if project == "torch" else f"torch=={VERSIONS['torch']}"
        assert expected in requirements(wheel)
    with zipfile.ZipFile(wheel_of(output, "torch")) as archive:
        init = archive.read("torch/_rocm_init.py").decode().replace('"', "'")
    assert f"check_version='{ROCM}'" in init and "'amdhip64'" in init and "'miopen'" in init
    installed = distributions(scripts / ".venv")
    assert {name: installed[name] for name in VERSIONS} == VERSIONS


@row("FD-13")
def wheels_go_where_the_option_says_and_nowhere_else(world: World, row: Row) -> None:
    scene = quickstart(world)
    done = scene.of(row.id)
    assert done.line.endswith("--output-dir $HOME/tmp/pyout")
    # The directory and the one above it are made; what is not a wheel lies beside it.
    assert "tmp" not in str(scene.facts["before"])
    output = scene.home / "tmp/pyout"
    made = {f"{name}-{version}" for name, version in VERSIONS.items()}
    assert {"-".join(path.name.split("-")[:2]) for path in output.iterdir()} == made
    assert all(path.suffix == ".whl" for path in output.iterdir())
    assert {path.name for path in output.parent.iterdir()} == {"pyout", "pyout-work"}
    # Beside the script, in a checkout's dist, where the command was typed: no wheel of these anywhere.
    found = {path for path in scene.home.rglob("*.whl") if path.parent != scene.home / "out"}
    assert found == set(output.iterdir())
    # They are what the command says it made, and what it installed.
    assert all(path.name in done.out for path in found)
    for project in VERSIONS:
        with zipfile.ZipFile(wheel_of(output, project)) as archive:
            names = [name for name in archive.namelist() if name.endswith(f"{project}/__init__.py")]
            (place,) = (scene.home / SCRIPTS / ".venv").glob(f"lib/python3*/site-packages/{names[0]}")
            assert place.read_bytes() == archive.read(names[0])


@row("FL-08", "FL-09")
def rocm_comes_from_the_index_that_is_named_and_nothing_else_does(world: World, row: Row) -> None:
    scene = quickstart(world)
    scene.of(row.id)
    packages = ["rocm", "rocm-sdk-core", "rocm-sdk-devel", "rocm-sdk-libraries-gfx110x-all"]
    assert scene.facts["asked"] == packages
    installed = distributions(scene.home / SCRIPTS / ".venv")
    assert {installed[name.replace("-", "_")] for name in packages} == {ROCM}


@row("CL-13")
def torch_answers_whether_there_is_a_gpu(world: World, row: Row) -> None:
    tested, asked = quickstart(world).all_of(row.id)
    assert re.search(r"^\d+ passed, 0 failed", tested.out, re.MULTILINE)
    assert asked.out.strip() == str(Path("/dev/kfd").exists())


@row("CL-17")
def rocm_is_installed_alone_with_an_option_before_the_sub_command(world: World, row: Row) -> None:
    scene = quickstart(world)
    done, root = scene.all_of(row.id)
    fresh = scene.home / SCRIPTS / ".venv-rocm"
    installed = distributions(fresh)
    assert {name: installed[name] for name in installed if name.startswith("rocm")} == dict.fromkeys(
        ("rocm", "rocm_sdk_core", "rocm_sdk_devel", "rocm_sdk_libraries_gfx110x_all"), ROCM
    )
    assert re.search(rf"^version +{re.escape(ROCM)}$", done.out, re.MULTILINE)
    assert Path(root.out.strip()).is_relative_to(fresh)
    assert (Path(root.out.strip()) / "bin/hipcc").exists()


@row("EV-01", "EV-02", "EV-07")
def a_build_sees_the_rocm_that_rocm_sdk_tells(world: World, row: Row) -> None:
    scene = quickstart(world)
    said, plan = scene.all_of(row.id)
    planned, built = torch_env(plan), built_with(torch_log(scene.home / "tmp/pyout-work"))
    if row.id == "EV-01":
        # The build's own environment of tools stands before it.
        tools, rocm, *_ = built["PATH"].split(":")
        assert Path(tools).is_relative_to(scene.home / "tmp/pyout-work/env")
        assert rocm == planned["PATH"].split(":")[0] == said.out.strip()
    else:
        name = {"EV-02": "CMAKE_PREFIX_PATH", "EV-07": "ROCM_HOME"}[row.id]
        assert built[name] == planned[name] == said.out.strip()


@row("EV-03")
def the_caller_decides_about_kineto(world: World, row: Row) -> None:
    scene = quickstart(world)
    plain, asked, windows = map(torch_env, scene.all_of(row.id))
    assert built_with(torch_log(scene.home / "tmp/pyout-work"))["USE_KINETO"] == "ON"
    assert (plain["USE_KINETO"], asked["USE_KINETO"], windows["USE_KINETO"]) == ("ON", "OFF", "OFF")


@row("EV-08")
def the_home_directory_may_be_a_variable_or_a_tilde(world: World, row: Row) -> None:
    scene = quickstart(world)
    _, variable, tilde = scene.all_of(row.id)
    assert variable.out == tilde.out
    launcher = torch_env(tilde)["CMAKE_CXX_COMPILER_LAUNCHER"]
    assert launcher.startswith(f"{scene.home}/tmp/pyout-work/")


@row("FL-14")
def sources_are_where_options_say(world: World, row: Row) -> None:
    scene = quickstart(world)
    same, elsewhere = scene.all_of(row.id)
    # The same sources, so the wheels of before are taken as they are.
    assert len(re.findall("is there from an earlier run", same.err)) == 3
    assert re.findall(
        r"finished by an earlier run: .*torch .*torchaudio .*torchvision$", same.out, re.MULTILINE
    )
    # Other ones, and each option's tree is the one that its project is built from.
    assert "earlier run" not in elsewhere.out + elsewhere.err
    output, logs = scene.home / "out", scene.home / "out-work/log"
    assert len(list(output.iterdir())) == 3
    for project, (folder, version) in ELSEWHERE.items():
        tree = scene.home / "src" / folder
        assert (tree / "version.txt").read_text() == f"{version}\n"
        wheel = wheel_of(output, project)
        assert wheel.name.split("-")[1] == f"{version}+devrocm{ROCM}"
        if project != "torch":
            assert f"torch=={ELSEWHERE['torch'][1]}+devrocm{ROCM}" in requirements(wheel)
        (log,) = logs.glob(f"cp3*-{project}.log")
        lines = [line for line in log.read_text().splitlines() if line.startswith("$ cd ")]
        (built,) = (line for line in lines if re.search(r"(-m build --wheel|setup\.py bdist_wheel)\b", line))
        assert built.startswith(f"$ cd {tree} && ")
    # What lies beside the script at the same time is not touched.
    for project, folder in FOLDERS.items():
        default = (scene.home / SCRIPTS / folder / "version.txt").read_text()
        assert default.strip() == VERSIONS[project].partition("+")[0]
