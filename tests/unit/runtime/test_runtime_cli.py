"""The `rocm-sdk` command and the console commands of core."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import fake_rocm as fake
import pytest


@pytest.fixture
def no_devel(tmp_path: Path, wheels) -> Path:
    return fake.unpack(tmp_path / "plain", wheels["rocm"], wheels["core"], wheels["libraries"])


def test_paths_are_of_the_devel_tree_when_installed(site: Path) -> None:
    tree = f"{site}/_rocm_sdk_devel"
    assert fake.rocm_sdk(site, "path", "--root").stdout == f"{tree}\n"
    assert fake.rocm_sdk(site, "path", "--bin").stdout == f"{tree}/bin\n"
    assert fake.rocm_sdk(site, "path", "--cmake").stdout == f"{tree}/lib/cmake\n"


def test_paths_are_of_core_else(no_devel: Path) -> None:
    assert fake.rocm_sdk(no_devel, "path", "--root").stdout == f"{no_devel}/_rocm_sdk_core\n"
    assert fake.rocm_sdk(no_devel, "path", "--bin").stdout == f"{no_devel}/_rocm_sdk_core/bin\n"
    done = fake.rocm_sdk(no_devel, "path", "--cmake")
    assert (done.returncode, done.stdout) == (1, "")
    assert 'install them with: pip install "rocm[libraries,devel]==5.2.3"' in done.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["path"], ["path", "--root", "--bin"], ["nix"], ["env", "--shell", "x"]]
)
def test_wrong_usage(site: Path, arguments: list[str]) -> None:
    done = fake.rocm_sdk(site, *arguments)
    assert (done.returncode, done.stdout) == (2, "")


def test_version(site: Path, no_devel: Path) -> None:
    assert fake.rocm_sdk(site, "version").stdout == "5.2.3\n"
    assert json.loads(fake.rocm_sdk(no_devel, "version", "--json").stdout) == {
        "rocm": "5.2.3",
        "mode": "legacy",
        "family": "gfx90X-dcgpu",
        "selected_by": "environment",
        "packages": {"core": "5.2.3", "libraries": "5.2.3", "devel": None, "profiler": None},
        "devices": {},
        "libraries": ["amd_comgr", "amdhip64", "rocblas"],
        "sources": {"clr": "0123abc"},
    }
    done = fake.python(site, "import runpy, sys; sys.argv[1:] = ['version']; runpy.run_module('rocm_sdk')")
    assert done.returncode == 0


def test_targets_are_the_installed_ones(no_devel: Path, wheels, tmp_path: Path) -> None:
    assert fake.rocm_sdk(no_devel, "targets").stdout == "gfx906;gfx90a\n"
    fake.unpack(no_devel, wheels["other"])
    assert fake.rocm_sdk(no_devel, "targets").stdout == "gfx1030;gfx1031;gfx906;gfx90a\n"
    bare = fake.unpack(tmp_path / "bare", wheels["rocm"], wheels["core"])
    done = fake.rocm_sdk(bare, "targets")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "rocm-sdk: the package rocm-sdk-libraries-gfx90X-dcgpu is not installed; "
        'install it with: pip install "rocm[libraries]==5.2.3"\n'
    )


def test_environment(site: Path) -> None:
    tree = f"{site}/_rocm_sdk_devel"
    done = fake.rocm_sdk(site, "env", "--shell", "json", PATH="/usr/bin:/bin", CMAKE_PREFIX_PATH="/x")
    expected = {
        "ROCM_PATH": tree,
        "ROCM_HOME": tree,
        "HIP_PATH": tree,
        "HIP_PLATFORM": "amd",
        "CMAKE_PREFIX_PATH": f"{tree}:/x",
        "PATH": f"{tree}/bin:/usr/bin:/bin",
    }
    assert json.loads(done.stdout) == expected
    bash = fake.rocm_sdk(site, "env", PATH="/usr/bin:/bin", CMAKE_PREFIX_PATH="/x").stdout
    told = subprocess.run(
        ["bash", "-c", f"{bash}\nenv -0"],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = dict(line.split("=", 1) for line in told.stdout.split("\0") if line)
    assert {name: lines[name] for name in expected} == expected


def test_environment_names_the_newest_clangs_device_libraries(no_devel: Path) -> None:
    core = no_devel / "_rocm_sdk_core"

    def bitcode() -> str | None:
        return json.loads(fake.rocm_sdk(no_devel, "env", "--shell", "json").stdout).get("HIP_DEVICE_LIB_PATH")

    assert bitcode() is None
    (core / "amdgcn/bitcode").mkdir(parents=True)
    assert bitcode() == f"{core}/amdgcn/bitcode"
    for version in ("9.0.1", "15.0.7"):
        (core / f"lib/llvm/lib/clang/{version}/amdgcn/bitcode").mkdir(parents=True)
    assert bitcode() == f"{core}/lib/llvm/lib/clang/15.0.7/amdgcn/bitcode"


def test_init(site: Path, no_devel: Path) -> None:
    assert fake.rocm_sdk(site, "init", "--quiet").stdout == ""
    assert (site / "_rocm_sdk_devel/bin/hipcc").is_file()
    assert fake.rocm_sdk(site, "init").stdout == f"development files: {site}/_rocm_sdk_devel\n"
    done = fake.rocm_sdk(no_devel, "init")
    assert done.returncode == 1
    assert 'not installed; install it with: pip install "rocm[devel]==5.2.3"' in done.stderr


COMMAND = "import sys; from rocm_sdk_core._cli import {0}; sys.exit({0}())"


def test_compiler_commands_run_from_the_devel_tree_information_from_core(site: Path) -> None:
    done = fake.python(site, COMMAND.format("rocminfo"), "-x")
    assert done.stdout == f"rocminfo from {site}/_rocm_sdk_core/bin -x\n"
    assert not (site / "_rocm_sdk_devel").exists()
    done = fake.python(site, COMMAND.format("hipcc"), "a b", "-c")
    assert done.stdout == f"hipcc from {site}/_rocm_sdk_devel/bin a b -c\n"
    # Not in this devel tree, so core's own.
    done = fake.python(site, COMMAND.format("amdclangpp"))
    assert done.stdout.startswith(f"amdclang++ from {site}/_rocm_sdk_core/lib/llvm/bin")


def test_commands_without_devel_and_without_rocm(no_devel: Path, tmp_path: Path, wheels) -> None:
    assert fake.python(no_devel, COMMAND.format("hipcc")).stdout.startswith(
        f"hipcc from {no_devel}/_rocm_sdk_core"
    )
    alone = fake.unpack(tmp_path / "alone", wheels["core"])
    assert fake.python(alone, COMMAND.format("hipcc")).stdout.startswith(
        f"hipcc from {alone}/_rocm_sdk_core/bin"
    )
    done = fake.python(alone, COMMAND.format("rocm_smi"))
    assert (done.returncode, done.stderr) == (
        1,
        f"rocm: the program of this command is not in {alone}/_rocm_sdk_core; reinstall rocm-sdk-core\n",
    )


def test_a_compiler_command_says_why_it_has_no_tree(site: Path) -> None:
    (site / "rocm_sdk_devel/_devel.tar").write_bytes(b"")
    done = fake.python(site, COMMAND.format("hipcc"))
    assert done.returncode == 1
    assert done.stderr.startswith("rocm: the installed rocm-sdk-devel is damaged (")


def checks(site: Path, **environ: str) -> tuple[int, dict[str, dict]]:
    done = fake.rocm_sdk(site, "test", "--json", **environ)
    assert done.stderr == ""
    report = json.loads(done.stdout)
    verdicts = [check["verdict"] for check in report["checks"]]
    assert report["counts"] == {name: verdicts.count(name) for name in ("passed", "failed", "skipped")}
    found = {check["id"]: check for check in report["checks"]}
    assert len(found) == len(report["checks"])
    assert all(check["cause"] for check in report["checks"] if check["verdict"] != "passed")
    return done.returncode, found


def test_one_bad_library_fails_one_check(site: Path) -> None:
    # librocblas of the fixture cannot be loaded alone: it does not name the library it needs.
    status, found = checks(site, PATH="/nowhere")
    assert status == 1
    bad = {name for name, check in found.items() if check["verdict"] == "failed"}
    load = f"load:{fake.LIBRARIES}/lib/librocblas.so.0"
    assert bad == {load}
    assert "undefined symbol: hip_answer" in found[load]["cause"]
    assert "rocm-sdk-libraries-gfx90X-dcgpu==5.2.3" in found[load]["fix"]
    skipped = {name for name, check in found.items() if check["verdict"] == "skipped"}
    assert {"load:_rocm_sdk_core/lib/libplugin-x.so", "run:hipconfig"} <= skipped
    assert set(found) >= {
        "package:core",
        "library:rocblas",
        "load:_rocm_sdk_core/lib/libamdhip64.so.5",
        "command:hipcc",
        "command:amdclang++",
        "run:clang",
        "devel:expand",
        "devel:layout",
    }


def test_a_healthy_installation_without_gpu_passes(no_devel: Path) -> None:
    module = no_devel / fake.LIBRARIES / "lib/librocblas.so.0"
    module.write_bytes((no_devel / "_rocm_sdk_core/lib/libamd_comgr.so.2").read_bytes())
    status, found = checks(no_devel)
    assert status == 0
    assert found["package:devel"]["cause"] == "rocm-sdk-devel is not installed"
    if not Path("/dev/kfd").exists():
        assert found["gpu"]["cause"] == "no AMD GPU could be read: there is none"
    human = fake.rocm_sdk(no_devel, "test")
    assert human.returncode == 0
    assert human.stdout.splitlines()[0] == "passed  package:core"
    assert human.stdout.splitlines()[-1].endswith("skipped")


def test_failures_have_causes(site: Path, libraries) -> None:
    core = site / "_rocm_sdk_core"
    (core / "__init__.py").write_bytes(fake.init("5.3.0", LIBRARIES=fake.CORE_LIBRARIES))
    (core / "lib/libamd_comgr.so.2").unlink()
    (core / "bin/rocminfo").unlink()
    (core / "lib/llvm/bin/clang").write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    _, found = checks(site)
    assert found["package:core"]["cause"] == "it is version 5.3.0, rocm is 5.2.3"
    assert found["library:amd_comgr"]["cause"] == f"{core}/lib/libamd_comgr.so.2 is missing"
    assert found["command:rocminfo"]["cause"] == f"its program is not in {core}"
    assert found["command:hipcc"]["verdict"] == "passed"
    assert found["run:clang"]["cause"] == f"{core}/lib/llvm/bin/clang --version: broken (status 3)"


def test_a_changed_devel_tree_fails_its_layout(site: Path) -> None:
    fake.rocm_sdk(site, "init")
    tree = site / "_rocm_sdk_devel"
    (tree / "bin/tool").write_text("changed")
    (tree / "lib/libamdhip64.so").unlink()
    _, found = checks(site)
    assert found["devel:layout"]["cause"] == (
        "bin/tool was changed; lib/libamdhip64.so is missing or leads nowhere"
    )
    assert found["devel:clang++"]["verdict"] == "passed"


def test_a_library_that_crashes_or_hangs_fails_alone(in_process) -> None:
    from rocm_sdk import _checks

    assert _checks.failure(["sh", "-c", "kill -SEGV $$"], 10) == "no message (signal 11)"
    assert _checks.failure(["sleep", "20"], 0.2) == "no message (no end after 0.2 s)"


@pytest.mark.parametrize(
    ("targets", "verdicts"),
    [
        (["gfx90a", "gfx906"], ["passed", "passed"]),
        (["gfx1030", "gfx90a"], ["skipped", "passed"]),
        (["gfx1030"], ["failed"]),
        (["gfx1201"], ["failed"]),
    ],
)
def test_gpu_and_family_that_do_not_fit(no_devel: Path, targets, verdicts) -> None:
    fake.with_gpus(no_devel, *targets)
    _, found = checks(no_devel)
    found = {name: check for name, check in found.items() if name.startswith("gpu:")}
    assert [check["verdict"] for check in found.values()] == verdicts
    if targets == ["gfx1030"]:
        assert found["gpu:0"]["fix"] == (
            "pip cache remove rocm; ROCM_SDK_TARGET_FAMILY=gfx103X-dgpu "
            'pip install --force-reinstall --no-cache-dir "rocm[libraries]==5.2.3"'
        )
    if targets == ["gfx1201"]:
        assert found["gpu:0"]["fix"] == (
            "ROCm 5.2.3 as Python packages has no device code for gfx1201; "
            "it has: gfx1030 gfx1031 gfx906 gfx90a"
        )


@pytest.mark.parametrize(
    "arguments", [["version"], ["path", "--root"], ["path", "--bin"], ["path", "--cmake"]]
)
def test_what_builds_call_often_loads_little(site: Path, arguments: list[str]) -> None:
    fake.rocm_sdk(site, "init", "--quiet")
    code = "import sys; from rocm_sdk._cli import main; before = set(sys.modules); main(sys.argv[1:]); "
    code += "print(*sorted(set(sys.modules) - before))"
    loaded = fake.python(site, code, *arguments).stdout.splitlines()[-1].split()
    ours = {"rocm_sdk._devel", "rocm_sdk._dist", "rocm_sdk._places", "rocm_sdk._stamp", "rocm_sdk_devel"}
    assert {name for name in loaded if not name.startswith("_rocm_sdk_")} <= ours


def test_a_replaced_manifest_or_core_is_noticed_without_reading_them(site: Path) -> None:
    first = fake.rocm_sdk(site, "path", "--root").stdout
    stamp = site / "_rocm_sdk_devel/.rocm-sdk-expanded"
    text = stamp.read_text()
    assert [line.split(" ")[-1] for line in text.splitlines()[2:]] == [
        "rocm_sdk_devel/_devel.json",
        "rocm_sdk_core-5.2.3.dist-info/RECORD",
        "rocm_sdk_libraries_gfx90x_dcgpu-5.2.3.dist-info/RECORD",
    ]
    # As a copy of the environment has it: the same content with other states is still the same tree.
    record = site / "rocm_sdk_core-5.2.3.dist-info/RECORD"
    content = record.read_bytes()
    record.unlink()
    record.write_bytes(content)
    inode = (site / "_rocm_sdk_devel").stat().st_ino
    assert fake.rocm_sdk(site, "path", "--root").stdout == first
    assert (site / "_rocm_sdk_devel").stat().st_ino == inode
    assert stamp.read_text() != text
    # A change of the same size with the old time is not missed.
    before = record.stat()
    record.write_bytes(content.replace(b"bin/hipcc,", b"bin/hipcC,"))
    os.utime(record, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert fake.rocm_sdk(site, "path", "--root").stdout == first
    assert (site / "_rocm_sdk_devel").stat().st_ino != inode


def test_powershell_quotes_by_doubling(in_process) -> None:
    from rocm_sdk import _environment

    text = _environment.render({"A": "C:\\it's", "B": "a\u2019b $x"}, "pwsh")
    assert text == "$env:A = 'C:\\it''s'\n$env:B = 'a\u2019\u2019b $x'"


def test_github_gets_files_or_lines(no_devel: Path, tmp_path: Path) -> None:
    core = no_devel / "_rocm_sdk_core"
    places = {"GITHUB_ENV": str(tmp_path / "env"), "GITHUB_PATH": str(tmp_path / "path")}
    done = fake.rocm_sdk(
        no_devel, "env", "--shell", "github", PATH="/usr/bin", CMAKE_PREFIX_PATH="", **places
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "path").read_text() == f"{core}/bin\n"
    lines = (tmp_path / "env").read_text().splitlines()
    assert lines == [
        f"ROCM_PATH={core}",
        f"ROCM_HOME={core}",
        f"HIP_PATH={core}",
        "HIP_PLATFORM=amd",
        f"CMAKE_PREFIX_PATH={core}",
    ]
    done = fake.rocm_sdk(no_devel, "env", "--shell", "github", PATH="/usr/bin", CMAKE_PREFIX_PATH="")
    assert done.stdout.splitlines() == [*lines, f"PATH={core}/bin:/usr/bin"]
    done = fake.rocm_sdk(no_devel, "env", "--shell", "github", CMAKE_PREFIX_PATH="/a\nEVIL=1", **places)
    assert done.returncode == 1
    assert "CMAKE_PREFIX_PATH has a line break" in done.stderr


def test_another_rocm_on_the_search_path_is_found(no_devel: Path, tmp_path: Path, libraries) -> None:
    """LD_LIBRARY_PATH with libraries of the same names is a finding; so is what is mapped through it."""
    other = tmp_path / "opt"
    other.mkdir()
    (other / "libamd_comgr.so.2").write_bytes(libraries["libamd_comgr.so.2"])
    # A core library that does not say where its dependency lies, as today's RUNPATH lets happen.
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-Wl,--no-as-needed", "-L", other]
    command += ["-l:libamd_comgr.so.2", "-o", no_devel / "_rocm_sdk_core/lib/libamdhip64.so.5"]
    subprocess.run(command, check=True)
    _, found = checks(no_devel, LD_LIBRARY_PATH=f"{no_devel}/_rocm_sdk_core/lib")
    assert found["search-path:LD_LIBRARY_PATH"]["verdict"] == "passed"
    _, found = checks(no_devel, LD_LIBRARY_PATH=str(other))
    assert found["search-path:LD_LIBRARY_PATH"]["cause"] == (
        f"LD_LIBRARY_PATH leads to other libraries of the same names: {other} has libamd_comgr.so.2"
    )
    assert found["search-path:mapped"]["cause"] == (
        f"loading the libraries brought in: {other}/libamd_comgr.so.2"
    )


def test_commands_of_a_compiler_that_is_part_of_devel(site: Path, no_devel: Path) -> None:
    code = "from rocm_sdk_devel._cli import hipcc; hipcc()"
    done = fake.python(site, code, "-c")
    assert done.stdout == f"hipcc from {site}/_rocm_sdk_devel/bin -c\n"
    done = fake.python(site, code.replace("hipcc", "amdflang"))
    assert done.stderr == (
        f"rocm: the program of this command is not in {site}/_rocm_sdk_devel; reinstall rocm-sdk-devel\n"
    )


def test_programs_of_windows_are_meant_without_their_suffix(tmp_path: Path, monkeypatch) -> None:
    cli = fake.load_file(fake.RUNTIME / "core/rocm_sdk_core/_cli.py")
    monkeypatch.setattr(cli, "SUFFIX", ".exe")
    (tmp_path / "bin").mkdir()
    for name in ("hipcc", "hipcc.exe", "hipcc.bat", "amdclang++.exe"):
        (tmp_path / "bin" / name).touch(0o755)
    assert cli.find_program("hipcc", str(tmp_path)) == f"{tmp_path}/bin/hipcc.exe"
    assert cli.find_program("amdclangpp", str(tmp_path)) == f"{tmp_path}/bin/amdclang++.exe"
    assert cli.find_program("hipcc_bat", str(tmp_path)) is None
