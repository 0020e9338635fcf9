"""PyTorch's own test files from a plan of the pipeline, on a real torch: PyPI's for the CPU.

What comes before `test-units` is a stand-in: nobody builds PyTorch here. Its repository is Debian's source of
PyTorch 2.6.0 with one commit, its upload the wheels that pip downloads, and the records of both are written
by hand. The torch is 2.13.0, so the tests are not of its commit: a rocwright.toml allows that, and what has
changed since stands in a skip entry.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from real.gputest import userland
from real.sources import debian
from rocwright.model.plan import parse_plan
from rocwright.pipeline.records import Record, write_record
from rocwright.store.objects.local import LocalStore

# Begins early: it takes minutes.
pytestmark = pytest.mark.long

TORCH = "2.13.0+cpu"
PLACE = "linux/cp311/release-2.6/gfx94X-dcgpu"
CONFIG = """
[tests.units]
match = "any"

[tests.shards]
minutes = 0.01
most = 2

[[tests.level]]
name = "quick"
host = ["test_indexing.py", "test_shape_ops.py"]

[[skips.entry]]
id = "rot90-of-2.6"
tests = ["test_shape_ops.py::TestShapeOps*::test_rot90*"]
kind = "skip"
reason = "the error's type has changed since PyTorch 2.6"
added = 2026-11-25
matches = 1
"""


@dataclass
class Bench:
    """A store with what a run has before its tests, and the wheels by name and digest."""

    newcomer: Any
    root: Path
    wheels: dict[str, str]
    commit: str

    @property
    def store(self) -> Path:
        return self.root / "store"

    def rocwright(self, *words: str | Path, run: str, ok: bool = True):
        where = ["--run-id", run, "--store", self.store, "--config", self.root / "rocwright.toml"]
        return self.newcomer.rocwright("pipeline", *words, *where, ok=ok)

    def planned(self, run: str) -> list[str]:
        """Record the plan of a run, with what stands in for its first steps; ids of the tests on the host."""
        what = ["--profile", "dev", "--sources", "upstream", "--families", "gfx94X-dcgpu"]
        what += ["--pytorch-git-refs", "release/2.6", "--python-versions", "3.11", "--platforms", "linux"]
        done = self.rocwright("plan", *what, "--record", "--json", run=run)
        plan = parse_plan(done.stdout.encode(), where="plan")
        prefix = f"{run}-linux/pytorch/gfx94X-dcgpu/"
        folder = self.store / prefix
        self.newcomer.run("mkdir", "-p", folder)
        self.newcomer.run("cp", "-l", *(self.root / "wheels" / name for name in self.wheels), folder)
        links = "".join(f'<a href="{name}">{name}</a>\n' for name in self.wheels)
        page = self.root / "index.html"
        page.write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
        self.newcomer.run("cp", page, folder)
        torch = {name: digest for name, digest in self.wheels.items() if name.startswith("torch-")}
        uploaded = {"prefix": prefix, "find_links": "", "files": torch, "rocm": prefix}
        locked = {
            "project": "torch",
            "origin": (self.root / "origin").as_uri(),
            "ref": "refs/heads/release/2.6",
            "commit": self.commit,
            "why": "flag",
            "directory": "pytorch",
            "hipify": False,
            "submodules": False,
        }
        lock = {"path": "", "lock": {"schema": 1, "platform": "linux", "sources": [locked]}}
        store = LocalStore(self.store)
        for id_, value in (
            (f"upload-pytorch/{PLACE}", uploaded),
            ("lock-sources/linux/release-2.6", lock),
        ):
            raw = msgspec.Raw(msgspec.json.encode(value))
            write_record(store, run, Record(1, id_, "0" * 64, "done", raw, (), "a stand-in", 0.0, "hand"))
        self.newcomer.own(self.store)
        return [cell.id for cell in plan.cells if cell.kind == "test-units"]

    def step(self, id_: str, run: str, *, ok: bool = True):
        words = ["step", id_, "--work-dir", self.root / f"work-{run}", "--json"]
        return self.rocwright(*words, run=run, ok=ok)

    def reports(self, run: str) -> list[dict[str, Any]]:
        found = (self.store / "_pipeline" / "reports" / run).glob("*.json")
        return [json.loads(path.read_text()) for path in found]


@pytest.fixture(scope="module")
def bench(newcomer) -> Iterator[Bench]:
    root = newcomer.home / "levels"
    root.mkdir()
    (root / "rocwright.toml").write_text(CONFIG)
    origin = userland.make_checkout(root / "origin")
    # These tests need nothing below: thousands of files less to commit and check out.
    for folder in (origin / "tools", *filter(Path.is_dir, (origin / "test").iterdir())):
        shutil.rmtree(folder)
    debian.git(origin, "init", "-q", "--template=", f"--initial-branch={debian.BRANCH}")
    debian.git(origin, "add", "--all", "--force")
    debian.git(origin, "commit", "-q", "-m", f"The tests of PyTorch in Debian's {debian.VERSION}")
    commit = debian.git(origin, "rev-parse", "HEAD")
    newcomer.own(root)
    newcomer.run("/usr/bin/python3", "-m", "venv", root / "fetch")
    pip = [root / "fetch/bin/python", "-m", "pip", "download", "--quiet", "--dest", root / "wheels"]
    newcomer.run(*pip, f"torch=={TORCH}")
    wheels = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (root / "wheels").glob("*.whl")
    }
    yield Bench(newcomer, root, wheels, commit)
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def first(bench: Bench) -> dict[str, Any]:
    """The whole level, of a run that knows no times."""
    assert bench.planned("first") == [f"test-units/{PLACE}"]
    (record,) = json.loads(bench.step(f"test-units/{PLACE}", "first").stdout)
    return record


def test_a_plan_runs_pytorchs_own_files_on_a_real_torch(bench: Bench, first: dict[str, Any]) -> None:
    assert (first["state"], first["value"]["installed"]["torch"]) == ("done", TORCH)
    (suite,) = first["value"]["suites"]
    assert (suite["suite"], suite["target"], suite["complete"]) == ("units", "", True)
    # Counted with plain pytest, by hand.
    assert (suite["verdicts"]["passed"], suite["verdicts"]["failed"]) == (174, 0)


def test_the_report_is_a_statement_about_the_wheels(bench: Bench, first: dict[str, Any]) -> None:
    (said,) = bench.reports("first")
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    (name,) = (name for name in bench.wheels if name.startswith("torch-"))
    assert said["subject"] == [{"name": name, "digest": {"sha256": bench.wheels[name]}}]
    told = said["predicate"]
    assert (told["level"], told["device"], told["complete"]) == ("quick", "none", True)
    assert (told["ran"]["suite"], told["ran"]["torch"]) == ("units", TORCH)
    assert set(told["files"]) == {"test_indexing.py", "test_shape_ops.py"}


def test_the_next_plan_is_sharded_by_what_they_took(bench: Bench, first: dict[str, Any]) -> None:
    shards = bench.planned("second")
    assert len(shards) == 2, shards
    assert shards[0] == f"test-units/{PLACE}/1of{len(shards)}"
    (record,) = json.loads(bench.step(shards[-1], "second").stdout)
    (suite,) = record["value"]["suites"]
    assert 0 < suite["verdicts"]["passed"] < 174
    (said,) = bench.reports("second")
    assert said["predicate"]["ran"]["shard"] == said["predicate"]["ran"]["shards"] == len(shards)
