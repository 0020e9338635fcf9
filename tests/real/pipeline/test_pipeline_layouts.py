"""ROCm in the layouts that AMD's packages and builds have: imitations, named as such, with a small ROCm.

What a first job decides and what the jobs after it take goes over an S3 server: an index with a folder for
each family, an index for all GPUs, and the bucket that TheRock's runs leave their artifacts in.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from command_line import Ended, Run
from index_server import IndexServer, serving
from real.store.faults import Stutter
from real.store.servers import Moto, S3Server, running, use
from rocwright.sdk.build import build_packages
from rocwright.sdk.plan.release import Packaging
from rocwright.store.objects.address import open_store
from unit.sdk.artifact_trees import FAMILIES, VERSION, artifacts, read, rows, write_artifacts

FAMILY = "gfx94X-dcgpu"
RUN = "17"
_EVERY = ("rocm", "rocm_sdk_core", "rocm_sdk_devel", "rocm_profiler")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running(Moto(tmp_path_factory.mktemp("moto"))) as started:
        yield started


@pytest.fixture
def store(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    use(monkeypatch, server.environment())
    told = ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT")
    for name in ("ROCWRIGHT_ROCM", "ROCWRIGHT_SOURCES", *told):
        monkeypatch.delenv(name, raising=False)
    return f"s3://{server.new_bucket()}/wheels"


@pytest.fixture(scope="module")
def by_family(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IndexServer]:
    """An imitation of AMD's index of a family: packages with its device code inside, below its name."""
    root = tmp_path_factory.mktemp("by-family")
    others = tuple(f"_{name}" for name in FAMILIES if name != FAMILY)
    ours = [row for row in rows(split=False) if not row.artifact.endswith(others)]
    write_artifacts(root / "artifacts", ours)
    build_packages(read(root / "artifacts"), root / "dist", Packaging())
    with serving(root / "dist", below=f"v2/{FAMILY}/") as index:
        yield index


@pytest.fixture(scope="module")
def for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IndexServer]:
    """An imitation of AMD's index for all GPUs: device code in packages of its own."""
    dist = tmp_path_factory.mktemp("for-all") / "dist"
    build_packages(read(artifacts(tmp_path_factory, split=True)), dist, Packaging())
    with serving(dist) as index:
        yield index


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Archives as a run of TheRock uploads them, by name: the artifacts of ROCm with a family's, in small."""
    found = {}
    for tree in sorted(artifacts(tmp_path_factory, split=False).iterdir()):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            # The manifest comes first, as in archives of ROCm's own build.
            archive.add(tree / "artifact_manifest.txt", "artifact_manifest.txt")
            for entry in sorted(tree.iterdir()):
                if entry.name != "artifact_manifest.txt":
                    archive.add(entry, entry.name)
        found[f"{tree.name}.tar.zst"] = zstandard.compress(packed.getvalue())
    return found


def upload(server: S3Server, archives: dict[str, bytes], *, without: str = " ", cut: str = " ") -> str:
    """A bucket of TheRock's runs with one: archives and their digests, no record; gives its name."""
    bucket, client = server.new_bucket(), server.client()
    for name, data in archives.items():
        if without in name:
            continue
        key, digest = f"{RUN}-linux/{name}", hashlib.sha256(data).hexdigest()
        client.put_object(Bucket=bucket, Key=key, Body=data[: len(data) // 2] if cut in name else data)
        client.put_object(Bucket=bucket, Key=f"{key}.sha256sum", Body=f"{digest}  {name}\n".encode())
    return bucket


class Steps:
    """A first job and those after it, each with a work directory of its own, over one store."""

    def __init__(self, rocwright: Run, store: str, rocm: str, config: str = "") -> None:
        self.rocwright, self.store, self.rocm = rocwright, store, rocm
        Path("rocwright.toml").write_text(config)

    def setup(self, *words: str) -> Ended:
        asked = ["--event", "workflow_dispatch", "--sources", "upstream", "--platforms", "linux", "--record"]
        asked += ["--rocm", self.rocm, "--python-versions", "3.12", *(words or ("--families", FAMILY))]
        return self.rocwright("pipeline", "setup", *asked, "--run-id", "9", "--store", self.store)

    def step(self, kind: str) -> Ended:
        place = ["--run-id", "9", "--store", self.store, "--work-dir", f"machine-{kind}", "--json"]
        return self.rocwright("pipeline", "step", f"{kind}/linux/{FAMILY}", *place)

    def value(self, kind: str) -> dict[str, Any]:
        done = self.step(kind)
        assert done.code == 0, done.err
        (record,) = done.json
        found: dict[str, Any] = record["value"]
        return found

    def require_taken(self, names: set[str]) -> None:
        """From the first job to packages that hold the wheel contract."""
        ready = self.setup()
        assert ready.code == 0, ready.err
        self.value("rocm-artifacts")
        packages = self.value("rocm-packages")
        assert packages["version"].removesuffix(".dev0") == VERSION
        assert {one["name"].split("-")[0] for one in packages["files"]} == {*_EVERY, *names}
        checked = self.value("check-rocm")
        # An index for all GPUs offers more than is taken of it.
        assert checked["errors"] == 0 and all("[set-extras]" in one for one in checked["findings"])
        assert set(self.value("upload-rocm")["files"]) == {one["name"] for one in packages["files"]}


def layout(url: str) -> str:
    row = {"name": "each", "layout": "per-family", "url": url}
    return "[[indexes.index]]\n" + "".join(f'{key} = "{value}"\n' for key, value in row.items())


def test_an_imitation_of_an_index_with_a_folder_for_each_family(
    rocwright: Run, store: str, by_family: IndexServer
) -> None:
    steps = Steps(rocwright, store, "index:each", layout(by_family.url("v2/")))
    steps.require_taken({"rocm_sdk_libraries_gfx94x_dcgpu"})
    assert {one.path.split("/")[2] for one in by_family.asked if one.status == 200} == {FAMILY}


def test_an_imitation_of_an_index_for_all_gpus(rocwright: Run, store: str, for_all: IndexServer) -> None:
    steps = Steps(rocwright, store, f"index:{for_all.url()}")
    steps.require_taken({"rocm_sdk_libraries", "rocm_sdk_device", "rocm_sdk_device_gfx942"})


def test_an_imitation_of_the_bucket_of_a_run_of_therock(
    rocwright: Run, store: str, server: S3Server, archives: dict[str, bytes]
) -> None:
    bucket = upload(server, archives)
    steps = Steps(rocwright, store, f"therock:{RUN}", f'[channels.buckets]\nruns = "{bucket}"\n')
    steps.require_taken({"rocm_sdk_libraries_gfx94x_dcgpu"})


# -- what is not there, or not all of it


def test_a_family_without_a_folder_ends_it_before_it_begins(
    rocwright: Run, store: str, by_family: IndexServer
) -> None:
    steps = Steps(rocwright, store, "index:each", layout(by_family.url("v2/")))
    alone = steps.setup("--families", "gfx110X-all")
    assert alone.code == 3
    assert "gfx110X-all on linux: " in alone.err and f"{by_family.url('v2/')}gfx110X-all/" in alone.err
    assert "next: leave these families or the platform out" in alone.err
    both = steps.setup("--families", f"gfx110X-all;{FAMILY}", "--group", "two")
    assert both.code == 2 and "a folder for each family, and the group two on linux has 2" in both.err
    assert open_store(store).list("") == (), "and nothing is recorded"


def test_an_index_that_nobody_knows_is_told_with_those_that_are_known(rocwright: Run, store: str) -> None:
    told = Steps(rocwright, store, "index:nihgtly").setup()
    assert told.code == 2
    assert "nihgtly" in told.err and "nightly" in told.err.partition("next: ")[2]


@pytest.mark.parametrize(
    ("uploaded", "kind", "code", "said"),
    [
        ({"without": "_"}, "rocm-artifacts", 3, f"the store has no artifacts of run {RUN} on linux"),
        ({"without": FAMILY}, "rocm-artifacts", 3, f"the run has no artifacts for {FAMILY}"),
        ({"without": "core-hip"}, "rocm-packages", 3, "artifacts are missing: core-hip (of core)"),
        ({"cut": f"blas_lib_{FAMILY}"}, "rocm-packages", 6, f"blas_lib_{FAMILY}.tar.zst has sha256"),
    ],
    ids=["none", "no-family", "without-hip", "cut"],
)
def test_a_run_of_therock_that_is_not_all_there_ends_at_the_step_that_needs_it(
    uploaded: dict[str, str], kind: str, code: int, said: str,
    rocwright: Run, store: str, server: S3Server, archives: dict[str, bytes], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    bucket = upload(server, archives, **uploaded)
    steps = Steps(rocwright, store, f"therock:{RUN}", f'[channels.buckets]\nruns = "{bucket}"\n')
    assert steps.setup().code == 0
    if kind == "rocm-packages":
        steps.value("rocm-artifacts")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "page.md")
    ended = steps.step(kind)
    assert ended.code == code and said in ended.err and "next: " in ended.err
    page = Path("page.md").read_text()
    assert f"### ❌ `{kind}/linux/{FAMILY}` failed" in page
    assert said.split(" (")[0] in page.replace("\\", "") and "next: " in page
    # The last job finds what failed, and is red.
    monkeypatch.setenv("NEEDS_JSON", json.dumps({"linux_build_and_test": {"result": "failure"}}))
    place = ["--run-id", "9", "--store", store, "--work-dir", "machine-summary"]
    assert rocwright("pipeline", "step", "summary", *place).code == 1
    assert said.split(" (")[0] in Path("page.md").read_text()[len(page) :].replace("\\", "")


def test_a_bucket_that_may_not_be_written_to_ends_it_with_the_right_that_lacks(
    rocwright: Run, store: str, server: S3Server, by_family: IndexServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(rocwright, store, "index:each", layout(by_family.url("v2/")))
    with Stutter(server.port) as between:
        use(monkeypatch, {**server.environment(), "AWS_ENDPOINT_URL": between.endpoint})
        between.answer_instead("PUT", 999, 403, "AccessDenied")
        told = steps.setup()
    assert told.code == 3
    assert "does not let these credentials write" in told.err and "s3:PutObject" in told.err
