"""PyTorch in CI: one run from ROCm's packages to PyTorch's wheels, checked, uploaded, installed together."""

from __future__ import annotations

import json
import re
from pathlib import Path

from conformance.cases import row
from conformance.scenes.packages import RUN_ID, family_packages
from conformance.table import Row
from conformance.world import ROOT, Shell, Transcript, World
from contract.test_store_scripts import served
from real import sdk_index

GROUP, ROCM = "gfx110X-all", "5.2.3.dev0"
PREFIX = f"{RUN_ID}-linux"
FAMILY = {"torch": "2.9.0", "torchaudio": "2.9.0", "torchvision": "0.24.0", "triton": "3.5.0", "apex": "1.9.0"}
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
    shell(f"{BUILD} --find-links {page} --output-dir $HOME/wheels", "AG-1", "FL-10")
    shell("python external-builds/pytorch/sanity_check_wheel.py $HOME/wheels", "FD-55")
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
        *("CL-69", "FL-11", "FD-58", "NM-27", "EV-14"),
    )
    shell("$HOME/test/bin/python -c 'import torch; print(torch.__version__)'", "CL-69")


def _release(shell: Shell, dist: Path) -> list[str]:
    """As a release does it: ROCm from an index, by the same command; returns what was asked for there."""
    with sdk_index.serving(dist) as index:
        shell(
            "pip install",
            "CL-68",
            run=f"{BUILD} --index-url {index.url} --no-build-pytorch-audio --no-build-pytorch-vision "
            "--no-build-triton --dry-run --json",
        )
        return sorted(index.projects())


def _at_a_desk(shell: Shell) -> None:
    """The same scripts where no workflow is."""
    for name in [name for name in shell.variables if name.startswith("GITHUB_")]:
        del shell.variables[name]
    shell(
        "python build_tools/github_actions/write_torch_versions.py --dist-dir $HOME/wheels", "EV-14", "EV-12"
    )
