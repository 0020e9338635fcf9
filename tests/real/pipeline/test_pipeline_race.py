"""Processes of the real command that race for cells over one store, and are killed or put to sleep meanwhile.

Most have the toy steps of the unit tests in place of the real ones: files that take a while to write and
differ each time, so that a half-written one and one of two writers show. One test takes a real step.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from real.store.servers import JuiceFS, Moto, S3Server, running, use
from rocwright.pipeline.records import Record, done_key
from rocwright.store.objects.address import open_store
from rocwright.store.objects.protocol import ObjectStore
from unit.pipeline.cells.toy import IDS, toy_plan

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

TESTS = Path(__file__).resolve().parents[2]
ENDLESS_S = 120
A = "make-a/linux/one"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], S3Server]]:
    """The real S3 servers, started when they are asked for."""
    from contextlib import ExitStack

    kinds = {"juicefs": JuiceFS, "moto": Moto}
    started: dict[str, S3Server] = {}
    with ExitStack() as stack:

        def server(kind: str) -> S3Server:
            if kind not in started:
                started[kind] = stack.enter_context(running(kinds[kind](tmp_path_factory.mktemp(kind))))
            return started[kind]

        yield server


@pytest.fixture(params=["folder", "moto", "juicefs"])
def address(
    request: pytest.FixtureRequest,
    servers: Callable[[str], S3Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """An empty store; the environment leads to its server."""
    monkeypatch.setenv("ROCWRIGHT_LEASE_S", "3")
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    for name in ("ROCWRIGHT_STORE", "ROCWRIGHT_PLAN", "ROCWRIGHT_RUN_ID", "GITHUB_RUN_ID", "GITHUB_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    if request.param == "folder":
        use(monkeypatch, {})
        return str(tmp_path / "store")
    server = servers(request.param)
    use(monkeypatch, server.environment())
    return f"s3://{server.new_bucket()}/some/prefix"


class Racer:
    """One machine: its own directory, the store of all."""

    def __init__(self, root: Path, name: str, address: str, *, seconds: float) -> None:
        self.root, self.name, self.address, self.seconds = root, name, address, seconds
        plan = root / "plan.json"
        if not plan.exists():
            plan.write_bytes(msgspec.json.encode(toy_plan()))
        self.log = root / f"{name}.log"

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "unit.pipeline.cells.toy", "pipeline", *words]
        argv += ["--plan", str(self.root / "plan.json"), "--run-id", "7", "--store", self.address]
        argv += ["--work-dir", str(self.root / self.name), "--jobs", "2"]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                argv, cwd=self.root, stdout=log, stderr=log, env={**os.environ, "TOY_S": str(self.seconds)}
            )

    def text(self) -> str:
        return self.log.read_text(errors="replace")


@contextmanager
def ended(*children: subprocess.Popen[bytes] | subprocess.Popen[str]) -> Iterator[None]:
    """Whatever happens, no child outlives the test."""
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()


def until(what: str, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + ENDLESS_S
    while not holds():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.05)


def holders(store: ObjectStore, cell: str) -> list[int]:
    """Numbers of the processes that hold a lease of the cell."""
    found = []
    for one in store.list(f"_leases/_pipeline/7/{cell}/"):
        try:
            by = json.loads(store.read(one.key))["by"]
        except Exception:
            continue
        found.append(int(re.search(r", process (\d+) ", by)[1]))
    return found


def done_records(store: ObjectStore) -> dict[str, list[Record]]:
    """The records of done cells, by cell; each as the store has it now."""
    found: dict[str, list[Record]] = {}
    for one in store.list("_pipeline/7/cells/"):
        if one.key.count(".") == 1:
            record = msgspec.json.decode(store.read(one.key), type=Record)
            assert one.key == done_key("7", record.cell, record.inputs)
            found.setdefault(record.cell, []).append(record)
    return found


def require_all_whole(store: ObjectStore) -> dict[str, Record]:
    """What records name is in the store with these bytes, at any moment; gives the records by cell."""
    found = {}
    for cell, records in done_records(store).items():
        assert len(records) == 1, f"{cell} was recorded with several inputs"
        for output in records[0].outputs:
            assert hashlib.sha256(store.read(output.key)).hexdigest() == output.sha256
        found[cell] = records[0]
    return found


def require_published_once(store: ObjectStore, records: dict[str, Record]) -> None:
    """What was published is what the record of the build says; nothing else was."""
    published = [one.key for one in store.list("published/")]
    assert published == ["published/7/join.txt"]
    built = next(output for output in records["join/linux/three"].outputs if output.path.endswith("join.txt"))
    assert hashlib.sha256(store.read(published[0])).hexdigest() == built.sha256


def test_one_that_is_killed_is_taken_over(tmp_path: Path, address: str) -> None:
    # Long beside the moments in which a busy machine looks at nothing: the holder is to be killed at work.
    racers = [Racer(tmp_path, name, address, seconds=6.0) for name in ("left", "right")]
    store = open_store(address)
    children = [racer.start("step", A) for racer in racers]
    with ended(*children):
        pids = {child.pid for child in children}
        works: set[int] = set()

        def one_works() -> bool:
            before = set(works)
            works.clear()
            works.update(pids & set(holders(store, A)))
            if len(works) == 1 and works == before:
                return True
            # Who only tries holds one for a moment, and that is long where the server has much to do.
            time.sleep(0.7)
            return False

        until("one works and the other waits", one_works)
        holder = next(child for child in children if child.pid in works)
        holder.kill()
        other = next(child for child in children if child is not holder)
        assert other.wait(timeout=ENDLESS_S) == 0, "".join(racer.text() for racer in racers)
    assert set(require_all_whole(store)) == {A}
    assert "taking over" in "".join(racer.text() for racer in racers)


def test_one_that_sleeps_for_long_is_overtaken_and_takes_the_first_result(
    tmp_path: Path, address: str
) -> None:
    # It is to fall asleep in the middle, however busy the machine is that sends it there.
    left = Racer(tmp_path, "left", address, seconds=6.0)
    right = Racer(tmp_path, "right", address, seconds=0.5)
    store = open_store(address)
    sleeper = left.start("step", A)
    with ended(sleeper):
        until("the first one works", lambda: holders(store, A) == [sleeper.pid])
        until("it writes", lambda: (tmp_path / "left/linux/one/make-a.txt").exists())
        sleeper.send_signal(signal.SIGSTOP)
        other = right.start("step", A)
        with ended(other):
            assert other.wait(timeout=ENDLESS_S) == 0, right.text()
        first = require_all_whole(store)[A]
        sleeper.send_signal(signal.SIGCONT)
        assert sleeper.wait(timeout=ENDLESS_S) == 0, left.text()
    assert require_all_whole(store)[A] == first
    assert "its result is kept" in left.text()


def test_two_runs_that_are_killed_at_random_moments_finish(tmp_path: Path, address: str) -> None:
    chance = random.Random(f"{address.partition(':')[0]} 10")
    racers = [Racer(tmp_path, name, address, seconds=0.4) for name in ("left", "right")]
    store = open_store(address)
    children = [racer.start("run") for racer in racers]
    killed = 0
    try:
        for _ in range(5):
            time.sleep(chance.uniform(0.6, 2.2))
            number = chance.randrange(2)
            if children[number].poll() is None:
                children[number].send_signal(signal.SIGKILL)
                killed += 1
            children[number].wait()
            require_all_whole(store)
            children[number] = racers[number].start("run")
        for child, racer in zip(children, racers, strict=True):
            assert child.wait(timeout=ENDLESS_S) == 0, racer.text()
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert killed > 0
    records = require_all_whole(store)
    assert set(records) == set(IDS) - {"tested/linux/two"}
    require_published_once(store, records)


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
@pytest.mark.parametrize("address", ["folder"], indirect=True)
def test_an_interrupted_run_gives_its_claims_back_and_resumes(
    tmp_path: Path, address: str, sig: signal.Signals
) -> None:
    racer = Racer(tmp_path, "only", address, seconds=3.0)
    store = open_store(address)
    child = racer.start("run")
    with ended(child):
        until("two cells are at work", lambda: len(store.list("_leases/")) == 2)
        child.send_signal(sig)
        assert child.wait(timeout=30) == 130, racer.text()
    assert store.list("_leases/") == ()
    # A toy step goes on until the process ends, and may have ended before that.
    require_all_whole(store)
    racer.seconds = 0.0
    again = racer.start("run")
    with ended(again):
        assert again.wait(timeout=ENDLESS_S) == 0, racer.text()
    require_published_once(store, require_all_whole(store))


@pytest.mark.parametrize("address", ["folder"], indirect=True)
def test_a_real_step_is_raced_for_and_killed(tmp_path: Path, address: str) -> None:
    """The miniature family's sources are locked, by the command itself, from a directory of its own."""
    command = [str(Path(sys.executable).with_name("rocwright")), "pipeline"]
    ids = subprocess.run(
        [*command, "plan", "--ids"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    lock = next(id_ for id_ in ids.stdout.split() if id_.startswith("lock-sources/"))
    store = open_store(address)

    def start(name: str) -> subprocess.Popen[str]:
        argv = [*command, "step", lock, "--store", address, "--work-dir", str(tmp_path / name), "--json"]
        return subprocess.Popen(
            argv, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    chance = random.Random(10)
    children = [start("left"), start("right")]
    with ended(*children):
        # On a busy machine it may be over before we look.
        kept = ("_leases/_pipeline/local/", "_pipeline/local/cells/")
        until("one works", lambda: any(store.list(prefix) for prefix in kept))
        time.sleep(chance.uniform(0.0, 1.0))
        children[0].kill()
        out, _ = children[1].communicate(timeout=ENDLESS_S)
        assert children[1].returncode == 0
    record = json.loads(out)[0]
    assert (record["cell"], record["state"]) == (lock, "done")
    assert [one.key for one in store.list("_pipeline/local/cells/")] == [
        done_key("local", lock, record["inputs"])
    ]
    third = start("third")
    with ended(third):
        out, _ = third.communicate(timeout=ENDLESS_S)
    assert json.loads(out)[0]["why"] == "its result was there", "a third machine agrees on the inputs"
