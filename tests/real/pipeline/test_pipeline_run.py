"""The pipeline on real ROCm: a whole run on a laptop, and the same cells each on a machine of its own.

The built family is the miniature one. Machines are work directories that are removed after their cell: what
the next one needs comes out of the store.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import index_server
from miniature_extension import miniature_sdist
from real.store.servers import Moto, S3Server, running
from rocwright.store.objects.serve import serving

# Begins early: it takes minutes.
pytestmark = pytest.mark.long

RUN = "4711"


@dataclass
class Run:
    """A finished run: its work directory and the records that it printed, by cell."""

    work: Path
    records: dict[str, dict[str, Any]]

    def of_kind(self, kind: str) -> dict[str, Any]:
        return next(record for id_, record in self.records.items() if id_.split("/")[0] == kind)

    def value(self, kind: str) -> dict[str, Any]:
        return self.of_kind(kind)["value"]


@pytest.fixture(scope="module")
def laptop(newcomer, cache) -> Iterator[Run]:
    """`rocwright pipeline run --profile ci` by somebody without rights, in an empty directory."""
    work = newcomer.home / "laptop"
    done = newcomer.rocwright(
        *("pipeline", "run", "--profile", "ci", "--run-id", RUN, "--json"),
        *("--work-dir", work, "--cache-dir", cache),
    )
    yield Run(work, {record["cell"]: record for record in json.loads(done.stdout)})
    newcomer.run("rm", "-rf", work)


def released(run: Run) -> dict[str, str]:
    """Digests by name of what stands in the set."""
    return {file["name"]: file["sha256"] for file in run.value("stage")["manifest"]["files"]}


def test_the_whole_chain_runs_on_a_laptop(laptop: Run) -> None:
    states = {id_.split("/")[0]: record["state"] for id_, record in laptop.records.items()}
    left_out = {kind for kind, state in states.items() if state != "done"}
    assert left_out <= {"test-rocm", "test-units", "test-pytorch"}, "what needs a GPU, or PyTorch itself"
    assert all(laptop.of_kind(kind)["why"] for kind in left_out), "and each says why"
    for kind in ("test-pip", "test-uv"):
        tested = laptop.value(kind)
        assert tested["rocm_sdk"]["failed"] == tested["smoke"]["failed"] == 0
        assert tested["smoke"]["passed"] > 20
        assert tested["files"] == {name: sha for name, sha in released(laptop).items() if "cp3" in name}
    assert laptop.value("promote")["why"] == ""


def test_what_was_released_is_what_was_built_and_tested(laptop: Run) -> None:
    for key in laptop.value("promote")["files"]:
        path = laptop.work / "store" / key
        assert hashlib.sha256(path.read_bytes()).hexdigest() == released(laptop)[path.name]
    uploaded = laptop.work / "store" / f"{RUN}-linux" / "pytorch" / "debian12"
    assert {path.name for path in uploaded.glob("*.whl")} == set(laptop.value("test-pip")["files"])


def test_the_release_installs_by_name(laptop: Run, newcomer) -> None:
    place = newcomer.home / "of-the-laptop"
    newcomer.run("/usr/bin/python3", "-m", "venv", place)
    with serving(laptop.work / "store") as url:
        uv = newcomer.clone / ".venv/bin/uv"
        index = ["--no-cache-dir", "--no-config", "--index-url", f"{url}v2/debian12/"]
        newcomer.run(uv, "pip", "install", "--python", place / "bin/python", *index, "torch", "torchvision")
    said = newcomer.run(place / "bin/python", "-c", "import torch; print(torch.version.hip)").stdout
    assert said.startswith("5.2.")
    newcomer.run("rm", "-rf", place)


def test_a_second_run_does_nothing_again(laptop: Run, newcomer, cache) -> None:
    done = newcomer.rocwright(
        *("pipeline", "run", "--profile", "ci", "--run-id", RUN, "--json"),
        *("--work-dir", laptop.work, "--cache-dir", cache),
    )
    again = {record["cell"]: record for record in json.loads(done.stdout)}
    built = [id_ for id_ in again if id_.startswith(("build-", "rocm-packages", "test-pip"))]
    assert len(built) == 7
    assert {again[id_]["value"]["wall_s"] for id_ in built if id_.startswith("build-")} == {
        laptop.records[id_]["value"]["wall_s"] for id_ in built if id_.startswith("build-")
    }
    assert all("was there" in again[id_]["why"] for id_ in built)


# Three projects of the miniature family's kind: one needs another, one compiles nowhere.
EXTENSIONS = ("mini-upon==1.0", "mini-areas==1.0", "mini-broken==1.0")
LAB = """
[[extensions.extension]]
project = "mini-upon"
needs = ["mini-areas"]

[[profiles.profile]]
name = "lab"
release_type = "ci"
platforms = ["linux"]
pythons = ["3.12"]
refs = ["release/2.13"]
tier = "presubmit"
sources = "miniature"
projects = ["torch"]
split = true
device_groups = 2
extensions_may_fail = true
"""


@pytest.fixture(scope="module")
def index(newcomer) -> Iterator[dict[str, str]]:
    """The user's own index with their sdists, before the one that has all else."""
    folder = newcomer.home / "sdists"
    miniature_sdist(folder, "mini-areas")
    miniature_sdist(folder, "mini-upon", requires=("mini-areas",))
    miniature_sdist(folder, "mini-broken", broken=True)
    other = newcomer.environment.get("PIP_INDEX_URL", "https://pypi.org/simple/")
    with index_server.serving(folder) as served:
        yield {"PIP_INDEX_URL": served.url("simple/"), "PIP_EXTRA_INDEX_URL": other}


@pytest.fixture(scope="module")
def lab(laptop: Run, newcomer, cache, index: dict[str, str]) -> tuple[Run, str]:
    """One run for several: nothing of ROCm is built; torch in two parts, what stands on it, all split."""
    newcomer.run("rm", "-rf", laptop.work / "linux" / "debian12" / "rocm")
    tables = newcomer.home / "lab.toml"
    tables.write_text(LAB)
    only = ["rocm-*", "upload-*", "lock-*", "build-*", "merge-*", "split*", "check*", "test-pip*"]
    done = newcomer.rocwright(
        *("pipeline", "run", "--profile", "lab", "--run-id", "4712", "--artifact-run-id", RUN, "--json"),
        *("--extensions", *EXTENSIONS, "--config", tables),
        *("--work-dir", laptop.work, "--cache-dir", cache),
        *(word for glob in only for word in ("--only", glob)),
        **index,
    )
    return Run(laptop.work, {record["cell"]: record for record in json.loads(done.stdout)}), done.stderr


def test_what_stands_on_torch_is_in_its_set_and_one_that_fails_is_told(lab: tuple[Run, str]) -> None:
    """Miniatures: stand-ins upon a stand-in, which compile for real."""
    run, said = lab
    states = {id_.split("/")[0]: record["state"] for id_, record in run.records.items()}
    assert states.pop("build-extension-mini-broken") == "failed"
    assert set(states.values()) == {"done"}, "and the run ended well"
    assert "warning: build-extension-mini-broken/linux/" in said
    built = run.value("build-extension-mini-upon")
    assert built["version"] == "1.0+torch2.9.0.rocm5.2.3"
    names = set(run.value("test-pip")["files"])
    for name in ("mini_areas", "mini_upon"):
        assert {f"amd_{name}_device_{target}" for target in ("gfx906", "gfx90a", "gfx1030")} <= {
            one.partition("-")[0] for one in names
        }
    assert not any("broken" in one for one in names)
    installed = run.value("test-pip")["installed"]
    assert installed["mini-upon"] == installed["mini-areas"] == "1.0+torch2.9.0.rocm5.2.3"
    assert installed["amd-mini-areas-device-gfx90a"]


def test_device_code_is_split_and_an_earlier_runs_rocm_is_reused(
    laptop: Run, lab: tuple[Run, str], newcomer
) -> None:
    run = lab[0]
    assert not any(id_.startswith(("rocm-artifacts", "check-rocm")) for id_ in run.records)
    before, now = laptop.value("rocm-packages")["files"], run.value("rocm-packages")["files"]
    assert {one["name"]: one["sha256"] for one in before} == {one["name"]: one["sha256"] for one in now}
    names = set(run.value("test-pip")["files"])
    device = {name.split("-")[0] for name in names if "_device_" in name}
    assert {f"amd_torch_device_{target}" for target in ("gfx906", "gfx90a", "gfx1030")} <= device
    assert f"{RUN}-linux/python/debian12/" == run.value("upload-rocm")["prefix"]
    assert run.value("test-pip")["smoke"]["failed"] == 0
    assert run.value("test-pip")["installed"]["amd-torch-device-gfx90a"]
    # The store stays; 3 GB are not wanted any more.
    newcomer.run("rm", "-rf", laptop.work / "linux")


def compiled_again(
    place: Path,
    records: dict[str, Any],
    cells: list[dict[str, Any]],
    server: S3Server,
    address: str,
    rocwright: Callable[..., str],
    cache: Path,
) -> None:
    """torch on a fresh machine as that of its first build: all from the bucket's cache, the same bytes."""
    number = next(number for number, one in enumerate(cells) if one["kind"] == "build-torch")
    id_ = cells[number]["id"]
    cold = records[id_]["value"]
    assert (cold["cache"]["cache"], cold["cache"]["hits"], cold["cache"]["errors"]) == ("sccache", 0, 0)
    name, _, prefix = address.removeprefix("s3://").partition("/")
    kept = server.client().list_objects_v2(Bucket=name, Prefix=f"{prefix}/cache/nightly/")["Contents"]
    assert len(kept) > cold["cache"]["misses"] > 0, "and what sccache tries the bucket with"
    record = server.client().list_objects_v2(Bucket=name, Prefix=f"{prefix}/_pipeline/{RUN}/cells/{id_}/")
    for one in record["Contents"]:
        server.client().delete_object(Bucket=name, Key=one["Key"])
    machine = place / f"machine-{number}"
    said = json.loads(rocwright("step", id_, "--work-dir", machine, "--cache-dir", cache, "--json"))
    warm = said[0]["value"]
    assert warm["sha256"] == cold["sha256"], "bit for bit"
    # sccache's own figures, as it printed them.
    (log,) = machine.rglob("log/cache.log")
    told = [json.loads(line)["stats"] for line in log.read_text().splitlines() if line.startswith('{"stats"')]
    assert told[-1]["cache_misses"]["counts"] == {}
    hits = told[-1]["cache_hits"]["counts"]
    assert set(hits) == {"C/C++", "HIP"} and sum(hits.values()) == cold["cache"]["misses"]
    figures = (warm["cache"]["hits"], warm["cache"]["misses"], warm["cache"]["hip_hits"])
    assert figures == (sum(hits.values()), 0, hits["HIP"])
    shutil.rmtree(machine)


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[S3Server, str]]:
    """An empty bucket of a real server."""
    with running(Moto(tmp_path_factory.mktemp("moto"))) as server:
        yield server, f"s3://{server.new_bucket()}/some/prefix"


def test_every_cell_on_its_own_machine_builds_the_same_bytes(
    laptop: Run, bucket: tuple[S3Server, str], cache: Path, tmp_path: Path
) -> None:
    """Over an S3 store, and with the profile of nightly releases; what follows the builds is act's night."""
    server, address = bucket
    environment = {**os.environ, **server.environment(), "ROCWRIGHT_STORE": address, "ROCWRIGHT_RUN_ID": RUN}

    def rocwright(*words: object) -> str:
        argv = [sys.executable, "-m", "rocwright", "pipeline", *map(str, words)]
        done = subprocess.run(argv, cwd=tmp_path, env=environment, text=True, capture_output=True)
        assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    asked = ["--profile", "nightly", "--sources", "miniature", "--no-split", "--publish"]
    few = ["--projects", "triton", "torch"]
    plan = tmp_path / "plan.json"
    plan.write_text(rocwright("plan", *asked, *few, "--json"))
    environment["ROCWRIGHT_PLAN"] = str(plan)
    cells = json.loads(plan.read_text())["cells"]
    built = next(number for number, cell in enumerate(cells) if cell["kind"] == "check")
    made: dict[str, str] = {}
    records = {}
    for number, cell in enumerate(cells[:built]):
        machine = tmp_path / f"machine-{number}"
        said = rocwright("step", cell["id"], "--work-dir", machine, "--cache-dir", cache, "--json")
        records[cell["id"]] = json.loads(said)[0]
        made |= {Path(one["path"]).name: one["sha256"] for one in records[cell["id"]]["outputs"]}
        shutil.rmtree(machine, ignore_errors=True)
    compiled_again(tmp_path, records, cells, server, address, rocwright, cache)
    whole = released(laptop)
    both = made.keys() & whole.keys()
    assert {name.partition("-")[0] for name in whole.keys() - both} == {"torchvision", "torchaudio", "apex"}
    assert {name: made[name] for name in both} == {name: whole[name] for name in both}, "bit for bit"
    del environment["ROCWRIGHT_PLAN"]
    ci = json.loads(rocwright("plan", "--profile", "ci", *few, "--json", "--store", laptop.work / "store"))
    kinds = ("rocm-packages", "build-torch", "check", "test-pip")
    digests = [{c["kind"]: c["digest"] for c in one if c["kind"] in kinds} for one in (ci["cells"], cells)]
    assert digests[0] == digests[1], "CI and release take the same steps"
