"""PyTorch in CI: one run from ROCm's packages to PyTorch's wheels, checked, uploaded, installed together."""

from __future__ import annotations

import email
import hashlib
import json
import re
import zipfile
from pathlib import Path
from urllib.parse import unquote

from conformance.scenes.packages import RUN_ID, family_packages
from conformance.table import Row, row
from conformance.world import ROOT, Shell, Transcript, World
from contract.test_store_scripts import served
from contract.workflows.github_runner import files_of
from real import sdk_index

GROUP, ROCM = "gfx110X-all", "5.2.3.dev0"
PREFIX = f"{RUN_ID}-linux"
FAMILY = {
    "torch": "2.9.0",
    "torchaudio": "2.9.0",
    "torchvision": "0.24.0",
    "triton": "3.5.0",
    "apex": "1.9.0",
}
REPOSITORIES = {
    "torch": "pytorch",
    "audio": "audio",
    "vision": "vision",
    "triton": "triton",
    "apex": "apex",
}
TOLD = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")
BUILD = "python external-builds/pytorch/build_prod_wheels.py build --install-rocm"


def ci_run(world: World) -> Transcript:
    """What each job of the chain does, by the documented scripts; a web server has what was uploaded."""

    def play(shell: Shell) -> dict[str, object]:
        dist = Path(str(family_packages(world).facts["dist"]))
        store = shell.home / "store"
        store.mkdir()
        with served(store) as address:
            shell.variables |= {
                "GITHUB_RUN_ID": RUN_ID,
                "GITHUB_REPOSITORY": "ROCm/TheRock",
                "GITHUB_SHA": "0123456789abcdef0123456789abcdef01234567",
                "ROCWRIGHT_PUBLIC_URL": address,
            }
            shell("python -m venv .venv && source .venv/bin/activate")
            shell(f"pip install -q {world.wheel()}")
            _upload_rocm(shell, dist)
            _check_out(shell)
            _build(shell)
            _test(shell)
        asked = _release(shell, dist)
        _at_a_desk(shell)
        return {"address": address, "asked": asked}

    return world.scene("ci-run", play)


def begin(shell: Shell, job: str) -> None:
    """The files that a workflow gives to each of its jobs."""
    place = shell.home / "jobs" / job
    place.mkdir(parents=True)
    for name in TOLD:
        (place / name).touch()
        shell.variables[name] = str(place / name)


def told(home: Path, job: str, name: str = "GITHUB_OUTPUT") -> dict[str, str]:
    """The names and values that a job wrote into one of its files."""
    lines = (home / "jobs" / job / name).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def _upload_rocm(shell: Shell, dist: Path) -> None:
    begin(shell, "build_portable_linux_python_packages")
    shell(
        f"python build_tools/github_actions/upload_python_packages.py --input-packages-dir={dist} "
        f"--artifact-group={GROUP} --output-dir=$HOME/store",
        *("AG-1", "NM-25", "NM-30", "EV-14"),
    )


def _check_out(shell: Shell) -> None:
    """The sources of the miniature family, as a run of CI for the branch release/2.9 takes them."""
    origins = shell.home / "origins"
    shell(f"python {ROOT}/examples/mini-pytorch/make_origins.py {origins}")
    # git takes submodules of this machine only where it is told to.
    shell("git config --global protocol.file.allow always")
    for project, name in REPOSITORIES.items():
        shell(
            f"python external-builds/pytorch/pytorch_{project}_repo.py checkout "
            f"--gitrepo-origin file://{origins}/{name} --repo-hashtag release/2.9"
        )


def _build(shell: Shell) -> None:
    """PyTorch from the page of its own run: built, checked, its versions told, uploaded beside ROCm."""
    page = told(shell.home, "build_portable_linux_python_packages")["package_find_links_url"]
    begin(shell, "build_pytorch_wheels")
    shell(f"{BUILD} --find-links {page} --output-dir $HOME/wheels --no-install-wheels", "AG-1", "FL-10")
    check = "python external-builds/pytorch/sanity_check_wheel.py"
    shell(f"{check} $HOME/wheels", "FD-55")
    # Nothing at all, and a file of the right name that is no wheel.
    shell(f"mkdir $HOME/nothing && {check} $HOME/nothing", "FD-55", code=1)
    shell("cp $HOME/wheels/torch-* $HOME/nothing && truncate -s 200K $HOME/nothing/*.whl")
    shell(f"{check} $HOME/nothing", "FD-55", code=1)
    versions = "python build_tools/github_actions/write_torch_versions.py"
    shell(f"PACKAGE_DIST_DIR=$HOME/wheels {versions}", "FD-56", "EV-12", "NM-26")
    shell(
        "python build_tools/github_actions/upload_python_packages.py --input-packages-dir=$HOME/wheels "
        f"--kind pytorch --artifact-group={GROUP} --output-dir=$HOME/store",
        *("AG-2", "FD-61", "NM-26", "NM-30"),
    )


def _test(shell: Shell) -> None:
    """What the job on a machine with a GPU does until it needs one."""
    rocm = told(shell.home, "build_portable_linux_python_packages")["package_find_links_url"]
    build = told(shell.home, "build_pytorch_wheels")
    torch, page = build["torch_version"], build["package_find_links_url"]
    begin(shell, "test_pytorch_wheels")
    shell(
        f"python build_tools/setup_venv.py $HOME/test --index-url= --find-links {rocm} "
        f'--find-links-url {page} --packages "torch=={torch} torchaudio torchvision" '
        "--activate-in-future-github-actions-steps --json",
        *("CL-69", "FL-11", "FD-58", "EV-14"),
    )
    shell("$HOME/test/bin/python -c 'import torch; print(torch.__version__)'", "CL-69")


def _release(shell: Shell, dist: Path) -> list[str]:
    """As a release does it: ROCm from an index, by the same command; returns what was asked for there."""
    with sdk_index.serving(dist) as index:
        shell(
            "pip install",
            "CL-68",
            # One wheel is enough to see where ROCm comes from.
            run=f"mkdir $HOME/alone && cp -r external-builds/pytorch/triton $HOME/alone && {BUILD} "
            f"--index-url {index.url} --root-checkout-dir $HOME/alone --output-dir $HOME/released "
            "--no-install-wheels",
        )
        return sorted(index.projects())


def _at_a_desk(shell: Shell) -> None:
    """The same scripts where no workflow is."""
    for name in [name for name in shell.variables if name.startswith("GITHUB_")]:
        del shell.variables[name]
    shell(
        "python build_tools/github_actions/write_torch_versions.py --dist-dir $HOME/wheels", "EV-14", "EV-12"
    )


def read(path: Path) -> tuple[str, list[str]]:
    """The name, version and requirements that a wheel states."""
    with zipfile.ZipFile(path) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        message = email.message_from_bytes(archive.read(name))
    return f"{message['Name']}-{message['Version']}", message.get_all("Requires-Dist") or []


def page_of(scene: Transcript, kind: str) -> str:
    """The page of packages of this kind, in the layout of the bucket of CI."""
    return f"{scene.facts['address']}{PREFIX}/{kind}/{GROUP}/index.html"


@row("AG-1", "FL-10", "NM-25")
def pytorch_is_built_of_the_packages_of_its_own_run(world: World, row: Row) -> None:
    scene = ci_run(world)
    said = told(scene.home, "build_portable_linux_python_packages")
    assert said["package_find_links_url"] == page_of(scene, "python")
    built = scene.of("FL-10")
    assert f"--find-links {page_of(scene, 'python')} " in built.line
    # No index was named, and nowhere else are packages of this version.
    assert "--index-url" not in built.line
    (torch,) = (scene.home / "wheels").glob("torch-*.whl")
    name, required = read(torch)
    assert name == f"torch-{FAMILY['torch']}+devrocm{ROCM}"
    assert [one for one in required if one.startswith("rocm")] == [f"rocm[libraries]=={ROCM}"]


@row("AG-2", "FD-61", "NM-30")
def wheels_lie_in_the_layout_of_ci_with_a_page(world: World, row: Row) -> None:
    scene = ci_run(world)
    scene.of(row.id)
    for kind, wheels in (
        ("python", ["rocm_profiler", "rocm_sdk_core", "rocm_sdk_devel", "rocm_sdk_libraries_gfx110x_all"]),
        ("pytorch", sorted(FAMILY)),
    ):
        place = scene.home / "store" / PREFIX / kind / GROUP
        found = sorted(path.name for path in place.glob("*.whl"))
        assert [name.split("-")[0] for name in found] == wheels
        page = (place / "index.html").read_text()
        listed = re.findall(r'href="([^"#]+)#sha256=([0-9a-f]{64})"', page)
        files = {name: hashlib.sha256((place / name).read_bytes()).hexdigest() for name in found}
        assert {unquote(name): digest for name, digest in listed if name.endswith(".whl")} == files


@row("FD-55")
def the_wheels_of_the_run_pass_the_check_and_damaged_ones_do_not(world: World, row: Row) -> None:
    scene = ci_run(world)
    good, *bad = scene.all_of(row.id)
    assert good.code == 0 and "0 errors" in good.out
    for project in FAMILY:
        assert f"{project}-" in good.out
    assert [one.code for one in bad] == [1, 1]


@row("FD-56", "EV-12", "NM-26")
def versions_are_told_to_later_jobs(world: World, row: Row) -> None:
    scene = ci_run(world)
    versions = {f"{name}_version": f"{version}+devrocm{ROCM}" for name, version in FAMILY.items()}
    said = told(scene.home, "build_pytorch_wheels")
    assert versions.items() <= said.items()
    assert said["package_find_links_url"] == page_of(scene, "pytorch")
    # What a workflow passes on is called after the packages.
    outputs = files_of(world.clone())[".github/workflows/build_portable_linux_pytorch_wheels.yml"]["on"][
        "workflow_call"
    ]["outputs"]
    assert {"pytorch_package_find_links_url", "torch_version"} <= outputs.keys()
    printed = dict(line.split("=", 1) for line in scene.of("EV-12").out.splitlines())
    assert printed == versions


@row("CL-68")
def a_release_installs_rocm_from_an_index(world: World, row: Row) -> None:
    scene = ci_run(world)
    done = scene.of(row.id)
    assert "--install-rocm --index-url" in done.line and "--find-links" not in done.line
    assert {"rocm", "rocm-sdk-core", "rocm-sdk-devel"} <= set(scene.facts["asked"])
    (wheel,) = (scene.home / "released").glob("*.whl")
    assert wheel.name.startswith(f"triton-{FAMILY['triton']}+devrocm{ROCM}-")


@row("CL-69", "FL-11", "FD-58")
def both_pages_together_are_enough_to_install_from(world: World, row: Row) -> None:
    scene = ci_run(world)
    done = scene.calling("setup_venv.py")[0]
    assert f"--find-links {page_of(scene, 'python')} " in done.line
    assert f"--find-links-url {page_of(scene, 'pytorch')} " in done.line
    installed = json.loads(done.out)["installed"]
    wanted = {name: f"{version}+devrocm{ROCM}" for name, version in FAMILY.items() if name != "apex"}
    assert wanted.items() <= installed.items()
    assert installed["rocm"] == installed["rocm-sdk-core"] == ROCM
    assert scene.of("CL-69").out.strip() == wanted["torch"]


def given_and_missed(world: World) -> None:
    """What the run was told by variables and told through files; the same script with none of them."""
    scene = ci_run(world)
    # GITHUB_RUN_ID and GITHUB_REPOSITORY are in the address: no option has said which run it is.
    assert f"/{RUN_ID}-linux/" in page_of(scene, "python")
    assert not [done for done in scene.calling("upload_python_packages.py") if "--run-id" in done.line]
    jobs = scene.home / "jobs"
    summary = (jobs / "build_pytorch_wheels/GITHUB_STEP_SUMMARY").read_text()
    # The line to copy names the page that has both kinds of packages.
    assert page_of(scene, "pytorch") in summary
    assert f"--find-links={page_of(scene, '_combined')}" in summary
    venv = scene.home / "test"
    assert (jobs / "test_pytorch_wheels/GITHUB_PATH").read_text() == f"{venv}/bin\n"
    assert told(scene.home, "test_pytorch_wheels", "GITHUB_ENV") == {"VIRTUAL_ENV": str(venv)}
    desk = scene.of("EV-12")
    assert desk.code == 0 and "warning: GITHUB_OUTPUT is not set" in desk.err
