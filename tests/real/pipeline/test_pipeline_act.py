"""The rendered workflows as they are, run by act: another engine of GitHub's workflows than our own stand-in.

ROCm comes from an index on loopback with the distribution's ROCm as packages split by GPU, an imitation of
AMD's index for all GPUs; the miniature family is built. A night goes to the very end, after an attempt that
failed, where os-release is that of the image which act leaves out; the other events go as far as they differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from index_server import serving
from real.pipeline.act_engine import ROLE, Acted, Attempts, Workshop
from real.store.servers import Moto, running, use
from rocwright.pipeline.records import read_plan
from rocwright.store.objects.address import open_store
from rocwright.store.objects.serve import serving as serving_store

CI, RELEASE = "ci.yml", "release_portable_linux_pytorch_wheels.yml"
# act counts no runs: each is the first of its store.
RUN = "1"
CALLED = ("build_portable_linux_artifacts", "build_portable_linux_python_packages")


@pytest.fixture(scope="module")
def workshop(real_sets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with running(Moto(tmp_path_factory.mktemp("moto"))) as server, serving(real_sets.kpack) as index:
        yield Workshop(tmp_path_factory.mktemp("act"), server, index)


@pytest.fixture
def keys(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process reads what a run wrote, and is no step of a workflow itself."""
    use(monkeypatch, workshop.server.environment())
    for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)


def variables(store: str, role: str) -> dict[str, str]:
    """Those of a repository whose role of this name may write to the store; it tests on any GPU it has."""
    return {"ROCWRIGHT_STORE": store, role: ROLE, "ROCWRIGHT_TEST_FAMILIES": "auto"}


@pytest.fixture(scope="module")
def night(workshop: Workshop) -> Attempts:
    """The store of a night, its attempt while the index lacks a file that it lists, and the next one."""
    store = workshop.new_store()
    said = variables(store, "ROCWRIGHT_NIGHTLY_ROLE")
    (core,) = (name for name in workshop.index.names() if name.startswith("rocm_sdk_core-"))
    workshop.index.manner.absent.add(core)
    failed = workshop.act("schedule", RELEASE, {}, **said)
    workshop.index.manner.absent.clear()
    within = workshop.almalinux
    again = workshop.act("schedule", RELEASE, {}, attempt=2, within=within, **said)
    return Attempts(store, failed, again)


def require_green(acted: Acted) -> None:
    assert acted.code == 0, acted.log()[-6000:]
    assert set(acted.jobs.values()) == {"success"}


# -- a night


def test_a_step_that_fails_ends_the_night_and_its_page_says_why(night: Attempts) -> None:
    failed = night.failed
    assert failed.code != 0
    assert failed.jobs == {"setup": "success", "lock_sources": "success", CALLED[0]: "failure"}
    page = failed.pages[CALLED[0]]
    assert page.startswith("### ❌ `rocm-artifacts/linux/miniature` failed\n")
    assert "is not whole" in page and "404 Not Found next: name another version with --rocm-version" in page


def test_the_next_attempt_does_nothing_again_and_comes_to_the_end(night: Attempts) -> None:
    failed, again = night.failed, night.again
    require_green(again)
    assert "done: lock-sources/linux/release-2.9" in failed.log("lock_sources")
    assert "cached: lock-sources/linux/release-2.9" in again.log("lock_sources")
    assert "done: rocm-artifacts/linux/miniature" in again.log(CALLED[0])
    assert set(again.jobs) == {
        "setup", "lock_sources", *CALLED, "build_pytorch_wheels", "stage_pytorch_wheels",
        "install_pytorch_wheels", "gate", "promote", "ci_summary",
    }  # fmt: skip


def test_each_page_of_the_night_tells_its_part(workshop: Workshop, night: Attempts) -> None:
    pages = night.again.pages
    group = "| linux | `miniature` | `gfx906` `gfx90a` `gfx1030` |"
    assert f"{group} index {workshop.index.url()} |" in pages["setup"]
    assert "### ✅ Checks of ROCm packages" in pages[CALLED[1]]
    for name in ("ROCm", "PyTorch"):
        assert f"### [{name} packages](" in pages[CALLED[1]] + pages["build_pytorch_wheels"]
    tested = pages["install_pytorch_wheels"]
    assert tested.count("## PyTorch Test Report") == 2, "with pip and with uv"
    assert "❌" not in tested and tested.count("| ✅ passed | smoke |") == 2
    assert "### ✅ The gate is open: bypassed" in pages["gate"]
    assert "stand-ins and not PyTorch" in pages["gate"] and "local folder" not in pages["gate"]
    assert " is released](" in pages["promote"] and "pip install --index-url" in pages["promote"]
    assert pages["ci_summary"].startswith("## ✅ The run is complete\n")
    assert "## ✅ All required jobs ended well" in pages["ci_summary"]


def test_the_night_ran_where_os_release_is_that_of_the_image(workshop: Workshop, night: Attempts) -> None:
    if not workshop.almalinux:
        pytest.skip("no mounts are allowed here: os-release stays this machine's")
    for job in (*CALLED, "build_pytorch_wheels"):
        log = night.again.log(job)
        assert "on AlmaLinux 8.10" in log
        # Nobody asks the distribution for packages of ROCm.
        assert "are not known here" not in log and "apt-get" not in log and "dnf" not in log


def test_what_a_night_released_is_installed_from_its_channel(
    night: Attempts, keys: None, tmp_path: Path
) -> None:
    listed = night.again.output("release_index_url")
    assert "/v2/" in listed, "a channel, not staging"
    python = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", python], check=True)
    with serving_store(open_store(night.store)) as base:
        words = ["install", "-q", "--index-url", f"{base}v2/{listed.partition('/v2/')[2]}", "torch"]
        # Nothing but the channel is asked, whatever this machine's pip is told.
        own = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
        subprocess.run([python / "bin/pip", *words], check=True, env=own)
    asked = "import torch; print(torch.__version__, torch.version.hip)"
    said = subprocess.run([python / "bin/python", "-c", asked], check=True, capture_output=True, text=True)
    assert said.stdout.startswith("2.9.0+rocm5.2.3 5.2.")


# -- the other events, as far as they differ


@pytest.fixture(scope="module")
def push(workshop: Workshop) -> Attempts:
    """The store of a push, its attempt while the role is refused to a job, and the next one."""
    store = workshop.new_store()
    said = variables(store, "ROCWRIGHT_CI_ROLE")
    pushed = {"ref": "refs/heads/main"}
    workshop.refused.write_text("lock_sources\n")
    refused = workshop.act("push", CI, pushed, **said)
    workshop.refused.unlink()
    again = workshop.act("push", CI, pushed, "-j", "lock_sources", attempt=2, **said)
    return Attempts(store, refused, again)


def test_a_role_that_is_refused_ends_the_push_and_the_summary_is_red(push: Attempts) -> None:
    refused = push.failed
    assert refused.code != 0
    assert refused.jobs == {"setup": "success", "lock_sources": "failure", "ci_summary": "failure"}
    assert "was refused" in refused.pages["lock_sources"]
    page = refused.pages["ci_summary"]
    assert page.startswith("## ❌ 14 of 20 steps did not end well\n"), "nothing ran"
    assert "| ⚠️ missing | `lock-sources/linux/release-2.9` |" in page
    assert "## ❌ 1 of 4 jobs did not end well" in page and "| ❌ failed | `lock_sources` | failure |" in page


def test_a_push_takes_the_steps_of_a_night(push: Attempts, night: Attempts, keys: None) -> None:
    require_green(push.again)
    pushed, nightly = (
        {cell.kind: cell.digest for cell in read_plan(open_store(place), RUN).cells}
        for place in (push.store, night.store)
    )
    assert nightly.keys() - pushed.keys() == {"split"}, "which the nightly's profile asks for"
    assert {kind for kind, digest in pushed.items() if nightly[kind] == digest} == {
        "rocm-artifacts", "rocm-packages", "check-rocm", "upload-rocm", "lock-sources",
        "build-triton", "build-torch", "build-torchaudio", "build-torchvision", "build-apex",
    }, "up to the split; a night's tests are of another level"  # fmt: skip


def test_a_dispatch_builds_what_its_inputs_say_and_publishes_only_when_asked(workshop: Workshop) -> None:
    inputs = {"release_type": "prerelease", "pytorch_projects": "torch", "publish": "false"}
    said = variables(workshop.new_store(), "ROCWRIGHT_RELEASE_ROLE")
    acted = workshop.act("workflow_dispatch", RELEASE, {"inputs": inputs}, "-j", "setup", **said)
    require_green(acted)
    page = acted.pages["setup"]
    assert page.startswith("## release: 9 jobs, 18 steps\n") and "this run was started by hand" in page
    assert "| linux | 3.11 | `release/2.9` | `miniature` | torch |" in page
    assert "to no channel: channels are changed only with --publish." in page
    assert "Run Main Assume the role" in acted.log()
    (group,) = json.loads(acted.output("linux_groups"))
    (build,) = group["builds"]
    assert set(build["jobs"]) == {"build_pytorch_wheels", "install_pytorch_wheels", "test_pytorch_wheels"}
    assert acted.output("run") == acted.output("upload") == "true"


def test_an_index_without_rocm_ends_the_run_red_before_it_builds(workshop: Workshop) -> None:
    nowhere = f"index:{workshop.index.url('nothing-here/')}"
    said = {**variables(workshop.new_store(), "ROCWRIGHT_CI_ROLE"), "ROCWRIGHT_ROCM": nowhere}
    acted = workshop.act("push", CI, {"ref": "refs/heads/main"}, **said)
    assert acted.code != 0
    assert acted.jobs == {"setup": "failure"}
    told = acted.log("setup")
    assert "ROCm is not there for what is to be built" in told and "say where else ROCm comes from" in told
