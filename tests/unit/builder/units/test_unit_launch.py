"""Which variables put launchers before compilers; values from the build description's tables."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rocwright.builder.units.launch import launcher_environment, plan_launchers, stand_ins, write_launchers
from rocwright.builder.units.logs import read_units

WORK = Path("/home/u/w/out-work")
HOST, HIP, LINK = (f"/home/u/w/out-work/bin/record-{kind}" for kind in ("host", "hip", "link"))
RECORDED = {
    "CMAKE_C_COMPILER_LAUNCHER": HOST,
    "CMAKE_CXX_COMPILER_LAUNCHER": HOST,
    "CMAKE_HIP_COMPILER_LAUNCHER": HIP,
    "HIP_CLANG_LAUNCHER": HIP,
    "CMAKE_C_LINKER_LAUNCHER": LINK,
    "CMAKE_CXX_LINKER_LAUNCHER": LINK,
}

# The server of a slow build does not end, and if it does the build goes on.
ALIVE = {"SCCACHE_IDLE_TIMEOUT": "0", "SCCACHE_IGNORE_SERVER_IO_ERROR": "1"}


def test_recorded_without_a_cache():
    assert launcher_environment(WORK) == RECORDED


@pytest.mark.parametrize(
    ("cache", "settings"),
    [
        ("ccache", {"CCACHE_NOHASHDIR": "1", "CCACHE_BASEDIR": "/home/u/w"}),
        ("sccache", {**ALIVE, "SCCACHE_BASEDIRS": "/home/u/w"}),
    ],
)
def test_keys_of_a_cache_are_free_of_the_places_of_work_and_sources(cache, settings):
    roots = [Path("/home/u/w/src/pytorch"), Path("/home/u/w/src/triton")]
    assert launcher_environment(WORK, cache=cache, roots=roots) == RECORDED | settings


@pytest.mark.parametrize(("cache", "settings"), [("ccache", {}), ("sccache", ALIVE)])
def test_an_exact_cache_gives_nothing_of_another_place(cache, settings):
    """Whose name may stand in an object: messages of assertions have the path of their source."""
    place = {f"{cache.upper()}_DIR": "/kept"}
    values = launcher_environment(
        WORK, cache=cache, roots=[Path("/home/u/w/src/pytorch")], cache_settings=place, exact=True
    )
    assert values == RECORDED | settings | place


def test_places_with_only_the_root_in_common_are_no_base():
    """With `/` as base, paths of the system's headers would depend on how deep the checkout lies."""
    values = launcher_environment(WORK, cache="ccache", roots=[Path("/src/pytorch")])
    assert "CCACHE_BASEDIR" not in values


def test_without_records_the_cache_is_the_launcher():
    host = {"CMAKE_C_COMPILER_LAUNCHER": "sccache", "CMAKE_CXX_COMPILER_LAUNCHER": "sccache"}
    device = {"CMAKE_HIP_COMPILER_LAUNCHER": "sccache", "HIP_CLANG_LAUNCHER": "sccache"}
    settings = {**ALIVE, "SCCACHE_BASEDIRS": "/home/u/w"}
    assert launcher_environment(WORK, cache="sccache", record=False) == host | device | settings
    assert launcher_environment(WORK, cache="sccache", record=False, cache_hip=False) == host | settings
    assert launcher_environment(WORK, record=False) == {}


@pytest.mark.parametrize(
    ("cache", "expected"),
    [
        ("", {}),
        (
            "ccache",
            {
                "CMAKE_C_COMPILER_LAUNCHER": "ccache",
                "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
                "CMAKE_MSVC_DEBUG_INFORMATION_FORMAT": "Embedded",
            },
        ),
        ("sccache", {"CMAKE_C_COMPILER_LAUNCHER": "sccache", "CMAKE_CXX_COMPILER_LAUNCHER": "sccache"}),
    ],
)
def test_windows(cache, expected):
    assert launcher_environment(WORK, cache=cache, platform="windows") == expected


def test_a_work_directory_with_a_space_or_a_semicolon():
    """hipcc pastes its launcher into a shell command, CMake reads a list."""
    spaced = launcher_environment(Path("/home/u/my work"))
    assert set(spaced) == set(RECORDED) - {"HIP_CLANG_LAUNCHER"}
    for odd in ("a;b", "it's", 'a"b', "a$b", "a`b"):
        assert launcher_environment(Path("/home/u") / odd) == {}


def test_what_the_caller_sets_wins():
    caller = {"CCACHE_BASEDIR": "/mine", "CMAKE_HIP_COMPILER_LAUNCHER": "mine"}
    values = launcher_environment(WORK, cache="ccache", caller=caller)
    assert not {"CCACHE_BASEDIR", "CMAKE_HIP_COMPILER_LAUNCHER"} & set(values)
    assert values["CMAKE_CXX_COMPILER_LAUNCHER"] == HOST


def test_without_a_cache_of_ours_the_callers_launchers_run_behind_the_recorder():
    caller = {"CMAKE_CXX_COMPILER_LAUNCHER": "icecc;-x", "HIP_CLANG_LAUNCHER": "/opt/my\\ cache"}
    assert launcher_environment(WORK, caller=caller) == RECORDED
    host, hip, link, *_ = plan_launchers(caller=caller)
    assert (host.behind, hip.behind, link.behind) == (("icecc", "-x"), ("/opt/my cache",), ())


def test_the_device_compiler_is_left_alone_on_request():
    host, hip, link, *_ = plan_launchers(cache="sccache", cache_hip=False)
    assert (host.behind, hip.behind, link.behind) == (("sccache",), (), ())


def test_results_of_host_and_device_compilers_have_keys_of_their_own():
    host, hip, link, *_ = plan_launchers(cache="sccache", keys=("h", "d"))
    assert (host.extra, hip.extra, link.extra) == (
        {"SCCACHE_C_CUSTOM_CACHE_BUSTER": "h"},
        {"SCCACHE_C_CUSTOM_CACHE_BUSTER": "d"},
        {},
    )
    host, hip, *_ = plan_launchers(cache="ccache", keys=("h", "d"))
    assert host.extra == {"CCACHE_NAMESPACE": "h"}
    assert hip.extra == {"CCACHE_NAMESPACE": "d", "CCACHE_COMPILERCHECK": "content"}


def test_launchers_that_run_already_are_not_written_again(tmp_path):
    write_launchers(tmp_path)
    launcher = tmp_path / "bin" / "record-host"
    before = launcher.stat().st_ino
    write_launchers(tmp_path)
    assert (launcher.stat().st_ino, os.access(launcher, os.X_OK)) == (before, True)
    launcher.write_text("half")
    (module,) = launcher.parent.glob("*/recorder.py")
    module.write_text("half")
    write_launchers(tmp_path)
    assert launcher.read_text().startswith("#!/bin/sh\n")
    assert "def run(" in module.read_text()


def test_launchers_that_others_may_write_to_stay_so(tmp_path):
    """A work directory of several users: only the owner of a file may change its mode."""
    write_launchers(tmp_path)
    launcher = tmp_path / "bin" / "record-host"
    launcher.chmod(0o775)
    write_launchers(tmp_path)
    assert launcher.stat().st_mode & 0o777 == 0o775
    launcher.chmod(0o664)
    write_launchers(tmp_path)
    assert os.access(launcher, os.X_OK)


def test_a_build_without_launchers_gets_programs_that_stand_in_for_its_compilers(tmp_path):
    environment = launcher_environment(tmp_path) | {"CC": "gcc '-DA=b c'", "CXX": " "}
    bin_dir = tmp_path / "bin"
    assert stand_ins(environment) == {
        "ROCWRIGHT_CC": "gcc\n-DA=b c",
        "CC": str(bin_dir / "record-cc"),
        "ROCWRIGHT_CXX": "c++",
        "CXX": str(bin_dir / "record-cxx"),
    }
    # That of its Python has options of its own.
    assert "CC" not in stand_ins(launcher_environment(tmp_path))
    assert stand_ins({"CMAKE_CXX_COMPILER_LAUNCHER": "ccache"}) == {}
    for name in ("my work", "R&D"):
        assert stand_ins(launcher_environment(tmp_path / name)) == {}
    # The build says what is wrong with such a one.
    assert "CC" not in stand_ins(launcher_environment(tmp_path) | {"CC": "gcc 'a"})


def test_what_stands_in_is_the_compiler_to_all_who_ask(tmp_path):
    write_launchers(tmp_path)
    (tmp_path / "a.cpp").write_text("int a;\n")
    env = {"PATH": os.environ["PATH"], "ROCWRIGHT_CXX": "echo\nof a"}
    program = tmp_path / "bin" / "record-cxx"
    words = ["-c", "a.cpp", "-o", "a.o"]
    said = subprocess.check_output([program, *words], env=env, cwd=tmp_path, text=True)
    assert said == "of a -c a.cpp -o a.o\n"
    assert subprocess.check_output([program, "-v"], env=env, cwd=tmp_path, text=True) == "of a -v\n"
    del env["ROCWRIGHT_CXX"]
    lost = subprocess.run([program, "-v"], env=env, stderr=subprocess.PIPE, text=True, check=False)
    assert (lost.returncode, lost.stderr) == (
        1,
        "record-cxx: ROCWRIGHT_CXX is not set: rocwright build sets it\n",
    )
    records = read_units(tmp_path / "units")
    assert [(record.kind, record.source, record.output) for record in records] == [
        ("host", "a.cpp", "a.o"),
        ("other", "", ""),
    ]
