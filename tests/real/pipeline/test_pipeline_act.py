"""The rendered workflows as they are, run by act: another engine of GitHub's workflows than our own stand-in.

ROCm comes from an index on loopback with the distribution's ROCm as packages split by GPU, an imitation of AMD's
multi-arch layout; the miniature family is built. A night goes to the very end, after an attempt that failed; the
other events go as far as they differ from it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from index_server import serving
from real.pipeline.act_engine import OWN, ROLE, Acted, Workshop
from real.store.servers import Moto, running
from rocwright.pipeline.records import read_plan
from rocwright.store.objects.address import open_store
from rocwright.store.objects.serve import serving as serving_store

CI, RELEASE = "ci.yml", "release_portable_linux_pytorch_wheels.yml"
# act counts no runs: without a number of its own, every run is the first.
RUN = "1"


@pytest.fixture(scope="module")
def workshop(real_sets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with running(Moto(tmp_path_factory.mktemp("moto"))) as server, serving(real_sets.kpack) as index:
        yield Workshop(tmp_path_factory.mktemp("act"), server, index)


@pytest.fixture
def keys(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process reads what the run wrote."""
    for name, value in workshop.server.environment().items():
        monkeypatch.setenv(name, value)


def require_green(acted: Acted) -> None:
    assert acted.code == 0, acted.log()[-6000:]
    assert set(acted.jobs.values()) == {"success"}


@pytest.fixture(scope="module")
def night(workshop: Workshop) -> tuple[str, Acted, Acted]:
    """The store of a night, its attempt while the index lacks a file that it lists, and the next one."""
    store = workshop.new_store()
    variables = {"ROCWRIGHT_STORE": store, "ROCWRIGHT_NIGHTLY_ROLE": ROLE}
    (core,) = (name for name in workshop.index.names() if name.startswith("rocm_sdk_core-"))
    workshop.index.manner.absent.add(core)
    failed = workshop.act("schedule", RELEASE, {}, **variables)
    workshop.index.manner.absent.clear()
    return store, failed, workshop.act("schedule", RELEASE, {}, attempt=2, **variables)


def test_a_job_that_fails_turns_the_summary_red_and_says_why(night: tuple[str, Acted, Acted]) -> None:
    _, failed, _ = night
    assert failed.code != 0
    print(failed.jobs, failed.pages)


def test_the_next_attempt_goes_on_where_it_was(night: tuple[str, Acted, Acted]) -> None:
    _, _, again = night
    require_green(again)


def test_a_night_releases_what_it_built_and_tested(
    workshop: Workshop, night: tuple[str, Acted, Acted], keys: None, tmp_path: Path
) -> None:
    store, _, acted = night
    require_green(acted)
    assert f"of {workshop.index.url()}" in acted.log("build_portable_linux_artifacts")
    listed = acted.output("release_index_url")
    python = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", python], check=True)
    with serving_store(open_store(store)) as base:
        words = ["install", "-q", "--index-url", f"{base}v2/{listed.split('/v2/')[1]}", "torch"]
        subprocess.run([python / "bin/pip", *words], check=True)
    said = subprocess.run(
        [python / "bin/python", "-c", "import torch; print(torch.__version__, torch.version.hip)"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert said.stdout.startswith("2.9.0+rocm")


def test_a_push_takes_the_steps_of_a_night(
    workshop: Workshop, night: tuple[str, Acted, Acted], keys: None
) -> None:
    store = workshop.new_store()
    variables = {"ROCWRIGHT_STORE": store, "ROCWRIGHT_CI_ROLE": ROLE}
    acted = workshop.act("push", CI, {"ref": "refs/heads/main"}, "-j", "lock_sources", **variables)
    require_green(acted)
    pushed, nightly = (read_plan(open_store(place), RUN) for place in (store, night[0]))
    print({c.id: c.digest for c in pushed.cells}, {c.id: c.digest for c in nightly.cells})
