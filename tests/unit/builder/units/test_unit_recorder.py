"""The generated launchers: compilers keep streams, exit codes and signals, whatever becomes of records."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from needs import needs
from rocwright.builder.units.launch import write_launchers
from rocwright.builder.units.logs import UnitRecord, read_units

SILENT: dict[str, str] = {}


class Bench:
    """A work directory with launchers, and stand-ins for compilers beside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / "out work"
        self.programs = root / "programs"
        self.programs.mkdir()

    def launchers(self, cache: str = "", caller: dict[str, str] = SILENT) -> None:
        write_launchers(self.work, cache=cache, caller=caller)

    def program(self, name: str, script: str) -> Path:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def command(self, launcher: str, *words: str | Path) -> list[str]:
        return [str(self.work / "bin" / launcher), *map(str, words)]

    def run(self, launcher: str, *words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(launcher, *words),
            cwd=self.root,
            env={**os.environ, **env},
            input="typed\n",
            text=True,
            capture_output=True,
        )

    @property
    def records(self) -> list[UnitRecord]:
        return read_units(self.work / "units")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_compiler_keeps_its_streams_and_exit_code(bench):
    bench.launchers()
    compiler = bench.program("cc", 'read line; echo "out $line $*"; echo err >&2; exit 7')
    done = bench.run("record-host", compiler, "-c", "a b.cpp", "-o", "a b.o", ROCWRIGHT_BUILD="torch 3.12")
    assert (done.returncode, done.stderr) == (7, "err\n")
    assert done.stdout == "out typed -c a b.cpp -o a b.o\n"
    (record,) = bench.records
    assert (record.kind, record.source, record.output) == ("host", "a b.cpp", "a b.o")
    assert (record.project, record.python, record.exit) == ("torch", "3.12", 7)
    assert record.object == str(bench.root / "a b.o")


@pytest.mark.parametrize(
    ("launcher", "line", "expected"),
    [
        ("record-host", "-O2 -c x.cpp -o x.o", ("host", "x.cpp", "x.o")),
        ("record-host", "-MD -MT x.o -MF x.o.d -o x.o -c /src/x.cc", ("host", "/src/x.cc", "x.o")),
        ("record-host", "-x hip -c x.cpp -o x.o", ("hip", "x.cpp", "x.o")),
        ("record-hip", "--offload-arch=gfx90a -c x.cpp -o x.o", ("hip", "x.cpp", "x.o")),
        ("record-hip", "-c x.hip -o x.o", ("hip", "x.hip", "x.o")),
        ("record-hip", "-c x.cpp -o x.o", ("host", "x.cpp", "x.o")),
        ("record-host", "-E x.cpp -o x.i", ("other", "x.cpp", "x.i")),
        ("record-hip", "-M x.hip -o x.d", ("other", "x.hip", "x.d")),
        ("record-host", "--version", ("other", "", "")),
        ("record-link", "-shared -o libx.so a.o b.o -lm", ("link", "", "libx.so")),
        ("record-host", "-o prog main.cpp", ("link", "main.cpp", "prog")),
    ],
)
def test_kinds_of_calls(bench, launcher, line, expected):
    bench.launchers()
    bench.run(launcher, bench.program("cc", "exit 0"), *shlex.split(line))
    (record,) = bench.records
    assert (record.kind, record.source, record.output) == expected


def test_seconds_and_memory_are_those_of_the_compiler(bench):
    bench.launchers()
    work = "x = bytearray(200_000_000)\nfor _ in range(4_000_000): pass"
    compiler = bench.program("cc", f"{shlex.quote(sys.executable)} -c {shlex.quote(work)}")
    bench.run("record-host", compiler, "-c", "a.cpp", "-o", "a.o")
    (record,) = bench.records
    assert 200_000_000 <= record.peak_rss < 400_000_000
    assert 0 < record.cpu_s <= record.wall_s * os.cpu_count() + 0.05


def test_device_seconds_go_to_their_targets(bench):
    """Lines as clang 15 writes them: programs with their options, then what each took, in the same order."""
    bench.launchers()
    options = [
        ' "/llvm/clang" "-cc1" "-triple" "amdgcn-amd-amdhsa" "-target-cpu" "gfx906" "-o" "/tmp/gfx906.o"',
        ' "/llvm/lld" "-flavor" "gnu" "-plugin-opt=mcpu=gfx906" "-o" "/tmp/gfx906.out"',
        ' "/llvm/clang" "-cc1" "-triple" "amdgcn-amd-amdhsa" "-target-cpu" "gfx9-generic" "-o" "/tmp/b.o"',
        ' "/llvm/clang-offload-bundler" "-targets=host,hipv4-amdgcn-amd-amdhsa--gfx906"',
        ' "/llvm/clang" "-cc1" "-target-cpu" "x86-64" "-fcuda-include-gpubinary" "/tmp/gfx906.hipfb"',
    ]
    seconds = [
        '"clang","a, b.o",958632,700000,143620',
        '"lld","a, b.o",41791,50000,72284',
        '"clang","a, b.o",669351,561114,143856',
        '"clang-offload-bundler","a, b.o",26172,8000,72284',
        '"clang","a, b.o",691664,540000,140712',
    ]
    wrote = [f"echo '[Logging clang options]'\necho {shlex.quote(line)}" for line in options]
    script = "{\n" + "\n".join(wrote) + '\n} > "$CC_PRINT_OPTIONS_FILE"\n'
    script += f"printf '%s\\n' {shlex.join(seconds)} > \"$CC_PRINT_PROC_STAT_FILE\""
    bench.run("record-hip", bench.program("clang++", script), "-x", "hip", "-c", "k.hip", "-o", "a, b.o")
    (record,) = bench.records
    assert record.devices == {"gfx906": 0.75, "gfx9-generic": 0.5611, "host": 0.548}
    assert sorted(path.name for path in (bench.work / "units").iterdir()) == ["calls.jsonl"]


def test_names_of_all_kinds_survive(bench):
    bench.launchers()
    odd = 'q"uo\\te\n\u00e9\U0001f600.cpp'
    bench.run("record-host", bench.program("cc", "exit 0"), "-c", odd, "-o", "o.o")
    (record,) = bench.records
    assert record.source == odd


def test_a_name_that_is_no_utf8_costs_at_most_the_record(bench):
    bench.launchers()
    compiler = bench.program("cc", 'printf %s "$2" | od -An -tx1 | tr -d " \\n"')
    words = [os.fsencode(word) for word in bench.command("record-host", compiler)]
    done = subprocess.run([*words, b"-c", b"\xff.cpp", b"-o", b"x.o"], capture_output=True, cwd=bench.root)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"ff2e637070", b"")


def test_records_of_compilers_that_end_together_do_not_mix(bench):
    bench.launchers()
    compiler = bench.program("cc", "exit 0")
    with ThreadPoolExecutor(8) as pool:
        names = [f"{number:03d}-{'x' * 900}.cpp" for number in range(80)]
        list(pool.map(lambda name: bench.run("record-host", compiler, "-c", name, "-o", "x.o"), names))
    assert sorted(record.source for record in bench.records) == names


@pytest.mark.parametrize("state", ["removed", "a file", "a directory for the calls", "read only"])
def test_what_happens_to_records_never_breaks_a_compilation(bench, state):
    bench.launchers()
    units = bench.work / "units"
    if state == "a directory for the calls":
        (units / "calls.jsonl").mkdir()
    elif state == "read only":
        units.chmod(stat.S_IRUSR | stat.S_IXUSR)
    else:
        shutil.rmtree(units)
        if state == "a file":
            units.write_text("")
    compiler = bench.program("cc", "echo compiled")
    for launcher in ("record-host", "record-hip"):
        done = bench.run(launcher, compiler, "-c", "x.hip", "-o", "x.o")
        assert (done.returncode, done.stdout, done.stderr) == (0, "compiled\n", "")


@pytest.mark.parametrize("kept", [0, 12, 40, 1000])
def test_half_a_file_of_pythons_is_passed_over_and_goes_with_the_next_build(bench, kept):
    """As Python leaves it on a full disk: whole by its head, cut off behind it."""
    bench.launchers()
    words = ("record-host", bench.program("cc", "echo compiled"), "-c", "x.c", "-o", "x.o")
    bench.run(*words)
    compiled = list(bench.work.glob("bin/*/__pycache__/*.pyc"))
    assert {path.name.partition(".")[0] for path in compiled} == {"recorder", "by_target"}
    for path in compiled:
        path.write_bytes(path.read_bytes()[:kept])
    done = bench.run(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "compiled\n", "")
    assert len(bench.records) == 2
    bench.launchers()
    assert not any(path.exists() for path in compiled)


def test_a_work_directory_may_be_elsewhere_when_its_launchers_are_called(bench):
    bench.launchers()
    compiler = bench.program("cc", "echo compiled")
    bench.work = bench.work.rename(bench.root / "moved \u00e9")
    for environment in ({}, {"LC_ALL": "C"}):
        done = bench.run("record-host", compiler, "-c", "x.c", "-o", "x.o", **environment)
        assert (done.returncode, done.stdout) == (0, "compiled\n")


def test_a_compiler_that_is_not_there(bench):
    bench.launchers()
    done = bench.run("record-host", bench.root / "nowhere" / "cc", "-c", "x.c", "-o", "x.o")
    assert done.returncode == 127
    assert "nowhere/cc: No such file or directory" in done.stderr


def test_a_compiler_that_crashes_is_seen_to_crash(bench):
    bench.launchers()
    done = bench.run("record-host", bench.program("cc", "kill -SEGV $$"), "-c", "x.c", "-o", "x.o")
    assert done.returncode == -signal.SIGSEGV


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopping_the_launcher_stops_the_compiler(bench, number):
    bench.launchers()
    started, ended = bench.root / "started", bench.root / "ended"
    script = f"trap 'echo trapped > {shlex.quote(str(ended))}; exit 3' TERM INT\n"
    script += f"echo > {shlex.quote(str(started))}\nwhile :; do sleep 0.02; done"
    words = bench.command("record-host", bench.program("cc", script), "-c", "x.c", "-o", "x.o")
    with subprocess.Popen(words, cwd=bench.root) as child:
        deadline = time.monotonic() + 20
        while not started.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        child.send_signal(number)
        assert child.wait(20) == 3
    assert ended.read_text() == "trapped\n"


def test_the_cache_stands_between_and_what_it_says_is_recorded(bench, monkeypatch):
    monkeypatch.setenv("PATH", f"{bench.programs}{os.pathsep}{os.environ['PATH']}")
    log = "case $4 in *1.cpp) say=direct_cache_hit;; *2.cpp) say=cache_miss;; *) say=called_for_link;; esac\n"
    log += 'printf "# $4\\n$say\\n" >> "$CCACHE_STATSLOG"\n'
    log += 'echo "check=$CCACHE_COMPILERCHECK"; exec "$@"'
    bench.program("ccache", log)
    bench.launchers("ccache")
    compiler = bench.program("cc", 'echo "compiled $3"')
    for name in ("1.cpp", "2.cpp", "3.cpp"):
        done = bench.run("record-hip", compiler, "-c", "-v", name, "-x", "hip", "-o", "x.o")
        assert done.stdout == f"check=content\ncompiled {name}\n"
    assert [record.cache for record in bench.records] == ["hit", "miss", "called_for_link"]


def test_without_the_cache_the_compiler_runs_alone(bench, monkeypatch):
    bench.program("ccache", "exit 0")
    monkeypatch.setenv("PATH", f"{bench.programs}{os.pathsep}{os.environ['PATH']}")
    bench.launchers("ccache")
    (bench.programs / "ccache").unlink()
    done = bench.run("record-host", bench.program("cc", "echo compiled"), "-c", "x.c", "-o", "x.o")
    assert (done.returncode, done.stdout) == (0, "compiled\n")


@pytest.mark.parametrize(("code", "ran"), [(2, "compiled\n"), (1, "")])
def test_where_the_cache_itself_failed_the_compiler_runs_alone(bench, monkeypatch, code, ran):
    """sccache ends with 2 where its server died and none can be started; a compiler's own errors are 1."""
    monkeypatch.setenv("PATH", f"{bench.programs}{os.pathsep}{os.environ['PATH']}")
    bench.program("sccache", f"exit {code}")
    bench.launchers("sccache")
    done = bench.run("record-host", bench.program("cc", "echo compiled"), "-c", "x.c", "-o", "x.o")
    assert (done.returncode, done.stdout) == (0 if ran else code, ran)


def test_a_callers_own_launcher_runs_behind_the_recorder(bench):
    mine = bench.program("my cache", 'echo "mine $1"; shift; exec "$@"')
    bench.launchers(caller={"CMAKE_CXX_COMPILER_LAUNCHER": f"{mine};--fast"})
    done = bench.run("record-host", bench.program("cc", "echo compiled"), "-c", "x.c", "-o", "x.o")
    assert done.stdout == "mine --fast\ncompiled\n"


def test_a_recorder_below_a_recorder_leaves_the_record_to_the_outer_one(bench):
    bench.launchers()
    compiler = bench.program("cc", "echo compiled")
    inner = bench.command("record-hip", compiler)
    done = bench.run("record-host", *inner, "-c", "x.c", "-o", "x.o")
    assert done.stdout == "compiled\n"
    assert len(bench.records) == 1


def test_device_libraries_are_part_of_what_the_cache_goes_by(bench, monkeypatch):
    monkeypatch.setenv("PATH", f"{bench.programs}{os.pathsep}{os.environ['PATH']}")
    bench.program("ccache", 'echo "$CCACHE_EXTRAFILES"')
    bench.launchers("ccache")
    (bench.root / "ocml.bc").write_text("")
    done = bench.run(
        "record-hip", "cc", "-x", "hip", "-c", "k.hip", "-o", "k.o", HIP_DEVICE_LIB_PATH=str(bench.root)
    )
    assert done.stdout == f"{bench.root}/ocml.bc\n"


@needs("clang-19" if shutil.which("clang-19") else "clang")
def test_a_real_clang_tells_its_seconds_by_target(bench):
    """Bundled bitcode, so that neither ROCm's device library nor a linker for it is needed."""
    bench.launchers()
    (bench.root / "k.hip").write_text("__attribute__((device)) int twice(int x) { return x + x; }\n")
    clang = shutil.which("clang-19") or shutil.which("clang")
    options = "-x hip -fgpu-rdc -nogpuinc -nogpulib --offload-arch=gfx90a --offload-arch=gfx906"
    done = bench.run("record-hip", str(clang), *options.split(), "-c", "k.hip", "-o", "k.o")
    assert done.returncode == 0, done.stderr
    (record,) = bench.records
    assert set(record.devices) == {"gfx906", "gfx90a", "host"}
    assert 0 < sum(record.devices.values()) <= record.cpu_s + 0.1


def test_a_record_is_one_line_of_json(bench):
    bench.launchers()
    bench.run("record-host", bench.program("cc", "exit 0"), "-c", "x.c", "-o", "x.o")
    text = (bench.work / "units" / "calls.jsonl").read_text()
    assert text.count("\n") == 1
    assert json.loads(text)["exit"] == 0
