"""A published wheel with another version: pip and uv install it, and every other byte is the same."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from rocwright.check.run import CheckRequest, gather_paths
from rocwright.pipeline.check_set import serve_files
from rocwright.system.venv import pip_command, uv_command
from rocwright.wheel.reversion.plan import plan_reversion
from rocwright.wheel.reversion.versions import parse_rule
from rocwright.wheel.reversion.write import write_reversion

# Compiled code, scripts, hundreds of files; its own version stays what it is.
PROJECT, VERSION = "numpy", "2.2.6"
LOCAL = "+rocm7.13.0rc2"


def as_candidate(wheel: Path, folder: Path) -> Path:
    """The published wheel under a candidate's version, made with zipfile alone."""
    old, new = f"{PROJECT}-{VERSION}.dist-info/", f"{PROJECT}-{VERSION}{LOCAL}.dist-info/"
    path = folder / wheel.name.replace(VERSION, f"{VERSION}{LOCAL}", 1)
    folder.mkdir()
    rows = []
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(path, "w") as target:
        for info in source.infolist():
            name = info.filename.replace(old, new)
            if name == f"{new}RECORD":
                continue
            data = source.read(info)
            if name == f"{new}METADATA":
                line = f"Version: {VERSION}\n".encode()
                assert line in data
                data = data.replace(line, f"Version: {VERSION}{LOCAL}\n".encode(), 1)
            info.filename = name
            target.writestr(info, data)
            if name.endswith("/"):
                continue
            digest = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(data)}\n")
        target.writestr(f"{new}RECORD", "".join([*rows, f"{new}RECORD,,\n"]))
    return path


@pytest.fixture(scope="module")
def candidate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("reversion")
    wanted = [f"{PROJECT}=={VERSION}", "--no-deps", "--only-binary", ":all:", "--dest", str(root)]
    subprocess.run([*pip_command(), "download", "--quiet", *wanted], check=True)
    return as_candidate(next(root.glob("*.whl")), root / "candidate")


@pytest.fixture(scope="module")
def release(candidate: Path) -> Path:
    plan = plan_reversion([candidate], parse_rule("release"))
    return write_reversion(plan, candidate.parent.parent / "release", verify=True)[0].path


def test_every_other_byte_is_the_same(candidate: Path, release: Path) -> None:
    assert release.name == candidate.name.replace("7.13.0rc2", "7.13.0")
    with zipfile.ZipFile(candidate) as before, zipfile.ZipFile(release) as after:
        assert after.testzip() is None
        old, new = before.infolist(), after.infolist()
        assert len(old) == len(new) > 500
        for first, second in zip(old, new, strict=True):
            assert second.filename == first.filename.replace("7.13.0rc2", "7.13.0")
            kept = ("external_attr", "date_time", "compress_type", "create_system", "extra", "flag_bits")
            assert [getattr(first, name) for name in kept] == [getattr(second, name) for name in kept]
            if not second.filename.endswith((".dist-info/METADATA", ".dist-info/RECORD")):
                assert before.read(first) == after.read(second)


def test_the_wheel_contract_finds_what_it_found_before(candidate: Path, release: Path) -> None:
    found = [
        {(one.rule, one.severity) for one in gather_paths(CheckRequest((path,))).judged().findings}
        for path in (candidate, release)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_installers_take_it(tmp_path: Path, release: Path, installer: str) -> None:
    root = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root], check=True)
    python = root / "bin/python"
    with serve_files([release], tmp_path / "index") as index:
        wanted = [f"{PROJECT}=={VERSION}+rocm7.13.0", "--index-url", index.url, "--no-cache-dir"]
        command = [*pip_command(), "--python", python, "install"]
        if installer == "uv":
            command = [uv_command(), "pip", "install", "--python", python]
        subprocess.run([*command, *wanted], check=True, capture_output=True)
    program = (
        "import importlib.metadata as m, numpy; d = m.distribution('numpy');"
        "print(d.version, numpy.ones(3).sum(), all(p.locate().is_file() for p in d.files))"
    )
    said = subprocess.run([python, "-c", program], check=True, capture_output=True, text=True)
    assert said.stdout.split() == [f"{VERSION}+rocm7.13.0", "3.0", "True"]
