"""A cache around the builds of a plan: left out where it cannot be used, and what its keys hold."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rocwright.builder.decide.family import FamilyPlan
from rocwright.builder.decide.plan import BuildPlan, CacheUse
from rocwright.builder.rocm.rocm import Rocm
from rocwright.builder.run.caching import Caching, device_compiler, keys_of

DIRECT = {"CMAKE_C_COMPILER_LAUNCHER": "sccache", "HIP_CLANG_LAUNCHER": "sccache"}
RECORD = "_rocm_sdk_core/lib/llvm/bin/clang,sha256={clang},9\n_rocm_sdk_core/share/x.py,,\n"
RECORD += "../../../bin/hipcc,sha256={script},5\nrocm_sdk_core-1.dist-info/METADATA,sha256={about},3\n"


def packages(root: Path, *, clang: str = "AAA", script: str = "x", about: str = "y") -> Rocm:
    """ROCm's packages as an installer left them in `root`."""
    info = root / "rocm_sdk_core-1.dist-info"
    info.mkdir(parents=True)
    (info / "RECORD").write_text(RECORD.format(clang=clang, script=script, about=about))
    return Rocm("7.1", f"{root}/_rocm", f"{root}/_rocm/bin", f"{root}/_rocm/lib/cmake", site=str(root))


def plan(rocm: Rocm, **env: str) -> FamilyPlan:
    return FamilyPlan("linux", "nightly", (), rocm, (BuildPlan("torch", "/src", "2.9", ("python",), env),))


@pytest.fixture
def refusing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for sccache in front of a bucket that refuses."""
    program = tmp_path / "programs" / "sccache"
    program.parent.mkdir()
    said = "sccache: error: Server startup failed: cache storage failed to read: PermissionDenied"
    program.write_text(f'#!/bin/sh\ntest "$1" != --start-server || {{ echo "{said}" >&2; exit 2; }}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


def test_a_cache_that_refuses_is_a_warning_and_no_compiler_runs_behind_it(
    refusing: None, tmp_path: Path
) -> None:
    notes: list[str] = []
    caching = Caching(
        plan(packages(tmp_path / "site"), **DIRECT, CC="gcc"), "sccache", tmp_path, notes.append
    )
    caching.begin(tmp_path, cache_hip=True)
    reason = "cache storage failed to read: PermissionDenied"
    assert notes == [f"warning: compilers run without sccache, which cannot be used: {reason}"]
    assert caching.plan.builds[0].env == {"CC": "gcc"}
    launchers = [path for path in (tmp_path / "bin").iterdir() if path.is_file()]
    assert {path.name for path in launchers} == {
        "record-host",
        "record-hip",
        "record-link",
        "record-cc",
        "record-cxx",
    }
    for launcher in launchers:
        assert "sccache" not in launcher.read_text().rpartition("sys.exit(run(")[2]
    assert caching.end() == CacheUse("sccache", note=f"could not be used: {reason}")


def test_the_device_compiler_is_known_by_its_content_wherever_it_is_installed(tmp_path: Path) -> None:
    """Scripts that an installer writes name the place."""
    one = device_compiler(packages(tmp_path / "one"))
    assert device_compiler(packages(tmp_path / "two", script="z", about="w")) == one
    assert device_compiler(packages(tmp_path / "three", clang="BBB")) != one


def test_another_compiler_or_a_flag_of_the_environment_is_another_key(tmp_path: Path) -> None:
    """A cache sees neither: it looks at the program that is called, and at its arguments."""
    rocm, newer = packages(tmp_path / "one"), packages(tmp_path / "two", clang="BBB")
    host, device = keys_of(plan(rocm), {"PATH": "/usr/bin"})
    assert keys_of(plan(newer), {"PATH": "/usr/bin"}) != (host, device)
    # What is compiled for the host does not depend on tonight's ROCm.
    assert keys_of(plan(newer), {"PATH": "/usr/bin"})[0] == host
    # Unless ROCm's own clang compiles for it, too.
    for each in (rocm, newer):
        clang = Path(each.root, "llvm", "bin", "clang")
        clang.parent.mkdir(parents=True)
        clang.write_text("the same small program before another library")
        clang.chmod(0o755)
    both = [
        keys_of(plan(each, CC=f"{each.root}/llvm/bin/clang", CXX="none"), {})[0] for each in (rocm, newer)
    ]
    assert both[0] != both[1]
    flags = keys_of(plan(rocm), {"PATH": "/usr/bin", "HIPCC_COMPILE_FLAGS_APPEND": "-O0"})
    assert flags[0] != host and flags[1] != device
    assert keys_of(plan(rocm), {"PATH": "/usr/bin", "HOME": "/else", "MAX_JOBS": "3"}) == (host, device)
    assembler = tmp_path / "bin" / "as"
    assembler.parent.mkdir()
    assembler.write_text("another")
    assembler.chmod(0o755)
    other = plan(rocm, PATH=f"{assembler.parent}:/usr/bin")
    assert keys_of(other, {}) != (host, device) and keys_of(other, {})[1] == device


def test_without_a_recorder_one_key_stands_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "programs" / "ccache"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ntest "$1" != --print-stats || printf "cache_miss\\t0\\n"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    rocm = packages(tmp_path / "site")
    launched = {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache", "CMAKE_C_COMPILER_LAUNCHER": "ccache"}
    caching = Caching(plan(rocm, **launched), "ccache", tmp_path, print)
    caching.begin(tmp_path, cache_hip=True)
    env = caching.plan.builds[0].env
    assert env == {**launched, "CCACHE_NAMESPACE": env["CCACHE_NAMESPACE"]}
    recorded = plan(rocm, CMAKE_CXX_COMPILER_LAUNCHER="/w/bin/record-host")
    behind = Caching(recorded, "ccache", tmp_path, print)
    behind.begin(tmp_path, cache_hip=True)
    assert msgspec.to_builtins(behind.plan.builds) == msgspec.to_builtins(recorded.builds)
    text = (tmp_path / "bin" / "record-hip").read_text()
    assert "'CCACHE_NAMESPACE': " in text and "'CCACHE_COMPILERCHECK': 'content'" in text
