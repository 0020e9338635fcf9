"""Runs on real S3 servers: uploaded and fetched by the documented scripts, installed by real pip."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from contract.test_store_scripts import FETCH, UPLOAD, artifact, call, no_workflow, packages, pip, rocwright
from real.store.servers import KEY, SECRET, S3Server, use

__all__ = ["no_workflow"]
KINDS = ["juicefs", "moto"]


def public(server: S3Server, bucket: str) -> None:
    """Let everybody read, as the buckets of ROCm's CI do."""
    everybody = {"Effect": "Allow", "Principal": {"AWS": ["*"]}}
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {**everybody, "Action": ["s3:GetObject"], "Resource": [f"arn:aws:s3:::{bucket}/*"]},
            {**everybody, "Action": ["s3:ListBucket"], "Resource": [f"arn:aws:s3:::{bucket}"]},
        ],
    }
    server.client().put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    found: S3Server = request.getfixturevalue(request.param)
    use(monkeypatch, found.environment())
    return found


def test_packages_of_a_run_are_installed_from_the_bucket(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = server.new_bucket()
    public(server, bucket)
    packages(tmp_path / "packages/dist")
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    words = ("--input-packages-dir=packages", "--run-id=42", "--artifact-group=gfx94X-dcgpu")
    for _ in range(2):
        assert call(UPLOAD, *words, "--platform=linux", f"--bucket={bucket}") == 0
    said = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
    url = said["package_find_links_url"]
    assert url == f"{server.endpoint}/{bucket}/42-linux/python/gfx94X-dcgpu/index.html"
    pip(tmp_path / "one", "torchx", "--pre", f"--find-links={url}")
    pip(tmp_path / "two", "torchx", "--pre", f"--find-links={said['run_find_links_url']}")
    assert (tmp_path / "two/rocmx/__init__.py").is_file()
    everything = capsys.readouterr()
    assert SECRET not in everything.out + everything.err
    assert KEY not in everything.out + everything.err


def test_a_public_bucket_is_read_without_credentials_and_a_private_one_is_not(
    juicefs: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, juicefs.environment())
    artifact(tmp_path / "in", "base_lib_generic")
    buckets = {"public": juicefs.new_bucket(), "private": juicefs.new_bucket()}
    public(juicefs, buckets["public"])
    for bucket in buckets.values():
        words = ["--kind=artifacts", "--input-dir=in/archives", "--run-id=5", "--multiarch"]
        assert call(UPLOAD, *words, "--platform=linux", f"--bucket={bucket}") == 0
    anonymous = {name: text for name, text in juicefs.environment().items() if "KEY" not in name}
    use(monkeypatch, {**anonymous, "HOME": str(tmp_path)})
    words = ["--platform=linux", "--output-dir=out"]
    assert call(FETCH, *words, f"--bucket={buckets['public']}") == 0
    assert (tmp_path / "out/base_lib_generic/artifact_manifest.txt").is_file()
    assert call(FETCH, "--platform=linux", "--output-dir=no", f"--bucket={buckets['private']}") == 3
    assert "does not let" in capsys.readouterr().err


def test_bytes_that_changed_are_refused(server: S3Server, tmp_path: Path) -> None:
    bucket = server.new_bucket()
    for text, code in (("x\n", 0), ("y\n", 6)):
        artifact(tmp_path / "in", "base_lib_generic", text)
        words = ["--kind=artifacts", "--input-dir=in/archives", "--run-id=5", "--multiarch"]
        assert call(UPLOAD, *words, "--platform=linux", f"--bucket={bucket}") == code
    assert call(FETCH, "--platform=linux", f"--bucket={bucket}", "--output-dir=out") == 0
    assert (tmp_path / "out/base_lib_generic/stage/share/base_lib_generic.txt").read_text() == "x\n"


def test_a_fetch_that_is_killed_again_and_again_ends_whole(server: S3Server, tmp_path: Path) -> None:
    bucket = server.new_bucket()
    stems = [f"blas{number}_lib_generic" for number in range(12)]
    texts = {stem: random.Random(stem).randbytes(3 << 20).hex() for stem in stems}
    for stem, text in texts.items():
        artifact(tmp_path / "in", stem, text)
    words = ("--run-id=7", "--platform=linux", f"--bucket={bucket}")
    rocwright("store", "upload", "--kind=artifacts", "--input-dir=in/archives", "--multiarch", *words)
    command = [sys.executable, str(FETCH), *words, "--output-dir=out", "--jobs=3"]
    whole: set[str] = set()
    for pause in (0.3, 0.45, 0.6, 0.75, 0.9):
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, env=dict(os.environ)) as run:
            time.sleep(pause)
            run.send_signal(signal.SIGKILL)
        there = {path.name for path in (tmp_path / "out").glob("blas*")}
        # What is there is whole, and stays.
        assert whole <= there
        for stem in there:
            assert (tmp_path / "out" / stem / f"stage/share/{stem}.txt").read_text() == texts[stem]
        whole = there
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for stem, text in texts.items():
        assert (tmp_path / "out" / stem / f"stage/share/{stem}.txt").read_text() == text
    hidden = {path.name for path in (tmp_path / "out").iterdir() if path.name not in stems}
    assert hidden == {".rocwright-fetch.json"}
