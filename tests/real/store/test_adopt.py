"""Adopted sets as users meet them: installed by pip and uv from a store that has none of their files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from index_server import TARGETS, IndexServer, wheel
from index_server import serving as serving_index
from real.store.clients import PIPS, Client, files_asked
from rocwright.store.objects.address import open_store
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.serve import serving
from rocwright.store.sets.records import read_set, recorded_sets

ROCM = "7.12.0a20260430"
TORCH = f"2.10.0+rocm{ROCM}"
# As PyPI has had it since July 2023.
PIP_WHEEL = "pip-23.2.1-py3-none-any.whl"
PIP_SHA256 = "7ccf472345f20d35bdc9d1841ff5f313260c2c33fe417f48c30ac46cccabf5be"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[IndexServer]:
    """A multi-arch index of one build, all of wheels."""
    folder = tmp_path / "index"
    brings = [f'amd-torch-device-{one}=={TORCH}; extra == "device-{one}"' for one in TARGETS]
    wheel(
        folder,
        "torch",
        TORCH,
        extras=[f"device-{one}" for one in TARGETS],
        requires=[f"rocm[libraries]=={ROCM}", *brings],
    )
    wheel(
        folder, "rocm", ROCM, extras=["libraries"], requires=[f'rocm-sdk-core=={ROCM}; extra == "libraries"']
    )
    wheel(folder, "rocm-sdk-core", ROCM, padding=3_000_000)
    for one in TARGETS:
        wheel(folder, f"amd-torch-device-{one}", TORCH, requires=[f"torch=={TORCH}"])
    with serving_index(folder) as server:
        yield server


def command(tmp_path: Path, *words: str) -> tuple[list[str], dict[str, str]]:
    argv = [sys.executable, "-m", "rocwright", "set", "create", *words]
    return argv, {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}


def create(tmp_path: Path, *words: str) -> dict:
    argv, environment = command(tmp_path, *words, "--json")
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["uv", *(f"pip-{version}" for version in PIPS)])
@pytest.mark.parametrize("json_pages", [False, True])
def test_an_adopted_set_installs_from_its_own_index(
    index: IndexServer, clients: dict[str, Client], tmp_path: Path, name: str, json_pages: bool
) -> None:
    index.manner.json = json_pages
    said = create(tmp_path, "--from-index", index.url(), "--store", "store")
    assert (len(said["files"]), index.whole()) == (6, [])
    assert not [one for one in said["metadata"]["findings"] if one["rule"].startswith("set-")]
    requests: list[str] = []
    with serving(tmp_path / "store", requests=requests) as url:
        there = clients[name].install(
            tmp_path / "target",
            "--index-url",
            f"{url}sets/{said['set']}/",
            "--pre" if name != "uv" else "--prerelease=allow",
            "torch[device-gfx942]",
        )
    assert there == {
        "amd-torch-device-gfx942": TORCH,
        "rocm": ROCM,
        "rocm-sdk-core": ROCM,
        "torch": TORCH,
    }
    assert files_asked(requests) == [], "no file lies in the store"
    assert len(index.whole()) == 4


@pytest.mark.parametrize("kind", ["juicefs", "moto"])
def test_a_set_is_adopted_into_a_bucket(
    index: IndexServer, addresses: Callable[[str], str], tmp_path: Path, kind: str
) -> None:
    address = addresses(kind)
    said = create(tmp_path, "--from-index", index.url(), "--store", address, "--download", "--no-resolve")
    store = open_store(address)
    assert recorded_sets(store) == (said["set"],)
    for entry in read_set(store, said["set"]).files:
        assert store.digest(f"files/{entry.sha256}/{entry.name}") == entry.sha256


def test_killed_at_any_time_nothing_half_is_recorded_and_the_next_run_completes(
    index: IndexServer, tmp_path: Path
) -> None:
    words = ("--from-index", index.url(), "--store", "store", "--download", "--no-resolve")
    argv, environment = command(tmp_path, *words)
    store = LocalStore(tmp_path / "store")
    index.manner.hangs = "files/amd_torch_device_gfx942-2.10.0+rocm7.12.0a20260430-py3-none-linux_x86_64.whl"
    index.manner.sidecars = True
    for wait in (0.3, 0.6, 0.9, 1.2, 1.5, 2.0, 3.0):
        running = subprocess.Popen(
            argv, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(wait)
        running.send_signal(signal.SIGKILL)
        running.wait()
        assert recorded_sets(store) == ()
    index.manner.hangs = ""
    said = create(tmp_path, *words)
    assert recorded_sets(store) == (said["set"],)
    for entry in read_set(store, said["set"]).files:
        assert store.digest(f"files/{entry.sha256}/{entry.name}") == entry.sha256


def test_a_project_of_the_public_index(tmp_path: Path) -> None:
    address = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple/")
    words = ("--from-index", address, "--project", "pip", "--version", "23.2.1", "--store", "store")
    found = create(tmp_path, *words, "--no-resolve")
    assert found["files"] == [PIP_WHEEL, "pip-23.2.1.tar.gz"]
    assert PIP_WHEEL not in found["downloaded"]
    brought = create(tmp_path, *words, "--no-resolve", "--download")
    assert brought["set"] == found["set"], "what the index says is what its files say"
    store = LocalStore(tmp_path / "store")
    [entry, _] = read_set(store, found["set"]).files
    assert entry.sha256 == PIP_SHA256
    assert store.digest(f"files/{PIP_SHA256}/{PIP_WHEEL}") == PIP_SHA256
