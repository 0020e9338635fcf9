"""The real sccache before a real compiler: a bucket that is only read, or refuses, a server that dies."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from real.store.servers import Moto, S3Server, running
from rocwright.builder.decide.family import FamilyPlan
from rocwright.builder.decide.plan import BuildPlan
from rocwright.builder.rocm.rocm import Rocm
from rocwright.builder.run.caching import Caching
from rocwright.builder.units.caches import find_cache
from rocwright.builder.units.launch import launcher_environment
from rocwright.pipeline.steps.compilers import bucket_settings

UNIT = "int answer() { return 42; }"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running(Moto(tmp_path_factory.mktemp("moto"))) as one:
        yield one


@pytest.fixture
def s3(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return server


class Refusing(BaseHTTPRequestHandler):
    """A stand-in for S3 that denies everything."""

    def do_GET(self) -> None:
        body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
        self.send_response(403)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


class Build:
    """Translation units through the launchers of a work directory, with a bucket at an endpoint."""

    def __init__(self, work: Path, endpoint: str, bucket: str, *, writes: bool = True) -> None:
        self.work = work
        self.notes: list[str] = []
        where = {"region": "us-east-1", "endpoint": endpoint}
        settings = bucket_settings(bucket, "cache/ci", where, writes=writes)
        settings["SCCACHE_SERVER_UDS"] = str(work / "socket")
        self.env = launcher_environment(work, cache="sccache", cache_settings=settings, exact=True)
        rocm = Rocm("7.1", str(work), str(work), str(work))
        build = BuildPlan("torch", "/src", "2.9", ("python",), self.env)
        work.mkdir()
        plan = FamilyPlan("linux", "nightly", (), rocm, (build,))
        self.caching = Caching(plan, "sccache", work, self.notes.append)
        self.caching.begin(work, cache_hip=True)

    def compile(self, text: str = UNIT) -> bytes:
        """The object."""
        (self.work / "unit.cpp").write_text(text)
        command = [self.work / "bin" / "record-host", "c++", "-O1", "-c", "unit.cpp", "-o", "unit.o"]
        subprocess.run(command, cwd=self.work, env={**os.environ, **self.env}, check=True)
        return (self.work / "unit.o").read_bytes()


def empty(server: S3Server, bucket: str) -> int:
    """Delete everything; gives how much there was."""
    there = server.client().list_objects_v2(Bucket=bucket)["Contents"]
    for one in there:
        server.client().delete_object(Bucket=bucket, Key=one["Key"])
    return len(there)


def test_a_run_that_may_not_write_reads_what_others_made(s3: S3Server, tmp_path: Path) -> None:
    bucket = s3.new_bucket()
    first = Build(tmp_path / "work", s3.endpoint, bucket)
    made = first.compile()
    use = first.caching.end()
    assert use is not None and (use.hits, use.misses, use.errors) == (0, 1, 0)
    shutil.rmtree(tmp_path / "work")
    reading = Build(tmp_path / "work", s3.endpoint, bucket, writes=False)
    assert reading.compile() == made
    reading.compile("int other() { return 7; }")
    use = reading.caching.end()
    assert use is not None and (use.hits, use.misses) == (1, 1)
    assert first.notes == reading.notes == []
    assert empty(s3, bucket) == 2, "the first result, and what sccache tries the bucket with"


def test_a_bucket_that_refuses_or_is_not_there_costs_a_warning(s3: S3Server, tmp_path: Path) -> None:
    refusing = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=refusing.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    refused = f"http://127.0.0.1:{refusing.server_port}"
    for name, endpoint, reason in (
        ("refused", refused, "AccessDenied"),
        ("absent", s3.endpoint, "NoSuchBucket"),
        ("unreachable", "http://127.0.0.1:9", "cache storage failed to read"),
    ):
        build = Build(tmp_path / name, endpoint, "nobody-has-it")
        (note,) = build.notes
        assert note.startswith("warning: compilers run without sccache, which cannot be used: ")
        assert reason in note
        assert build.compile()
        use = build.caching.end()
        assert use is not None and reason in use.line
    refusing.shutdown()
    refusing.server_close()


def test_a_server_that_dies_costs_results_and_no_build(s3: S3Server, tmp_path: Path) -> None:
    bucket = s3.new_bucket()
    build = Build(tmp_path / "work", s3.endpoint, bucket)
    made = build.compile()
    stop = [find_cache("sccache"), "--stop-server"]
    subprocess.run(stop, env={**os.environ, **build.env}, check=True, capture_output=True)
    empty(s3, bucket)
    s3.client().delete_bucket(Bucket=bucket)
    # No server, and none can be started: the bucket is gone.
    assert build.compile() == made
    build.caching.end()
