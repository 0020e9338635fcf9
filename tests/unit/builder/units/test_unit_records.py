"""Records over several runs, ninja's log as a second source, and the report of both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocwright.builder.decide.plan import CacheUse
from rocwright.builder.units.logs import (
    NinjaStep,
    UnitRecord,
    find_ninja_logs,
    peaks,
    read_ninja_log,
    read_units,
    start_units,
)
from rocwright.builder.units.report import KindTotal, build_report, write_report


def record(source: str, **fields: object) -> UnitRecord:
    """A call of a C++ compiler in /src that took two seconds, unless `fields` say otherwise."""
    values = {
        "at": 1.0,
        "kind": "host",
        "source": source,
        "output": f"{source}.o",
        "directory": "/src",
        "wall_s": 2.0,
        "cpu_s": 1.5,
        "peak_rss": 100,
        "build": "torch 3.12",
        **fields,
    }
    return UnitRecord(**values)


def write(directory: Path, *records: UnitRecord, extra: str = "") -> None:
    directory.mkdir(exist_ok=True)
    lines = [json.dumps({name: getattr(row, name) for name in row.__struct_fields__}) for row in records]
    (directory / "calls.jsonl").write_text("".join(line + "\n" for line in lines) + extra)


def test_half_a_line_of_a_killed_run_is_skipped(tmp_path):
    write(tmp_path, record("a.cpp"), extra='{"at":1.0,"build":"to')
    assert [row.source for row in read_units(tmp_path)] == ["a.cpp"]


def test_no_records(tmp_path):
    assert read_units(tmp_path / "none") == []
    assert peaks(tmp_path / "none", "torch") == []


def test_peaks_outlive_the_run(tmp_path):
    """A unit's newest figure counts; failed calls and questions to the compiler do not."""
    units = tmp_path / "units"
    write(units, record("a.cpp", peak_rss=900), record("b.cpp", peak_rss=500))
    start_units(units)
    assert read_units(units) == []
    assert peaks(units, "torch") == [900, 500]
    write(
        units,
        record("a.cpp", peak_rss=700, build="torch 3.13"),
        record("c.cpp", peak_rss=9000, exit=1),
        record("d.cpp", peak_rss=8000, kind="other"),
        record("v.cpp", peak_rss=50, build="torchvision"),
    )
    assert peaks(units, "torch") == [700, 500]
    start_units(units)
    assert peaks(units, "torch") == [700, 500]
    assert peaks(units, "torchvision") == [50]


def test_peaks_that_cannot_be_read_are_as_if_there_were_none(tmp_path):
    (tmp_path / "peaks.json").write_text("{")
    assert peaks(tmp_path, "torch") == []
    start_units(tmp_path)


def test_what_killed_calls_left_goes(tmp_path):
    (tmp_path / ".notes-12-34.options").write_text("")
    start_units(tmp_path)
    assert list(tmp_path.iterdir()) == []


NINJA_5 = """# ninja log v5
0\t1500\t1700000000\tcaffe2/CMakeFiles/torch_cpu.dir/Ops.cpp.o\taa
10\t9010\t1700000000\tcaffe2/CMakeFiles/torch_hip.dir/MatMul.hip.o\tbb
9020\t9520\t1700000000\tlib/libtorch_hip.so\tcc
9020\t9520\t1700000000\tlib/libtorch_hip.so.2\tcc
5\t6\t1700000000\tgen/ops.h\tdd
broken line
0\t2500\t1700000001\tcaffe2/CMakeFiles/torch_cpu.dir/Ops.cpp.o\taa
"""
STEPS = [
    NinjaStep("caffe2/CMakeFiles/torch_cpu.dir/Ops.cpp.o", 2.5, "host"),
    NinjaStep("caffe2/CMakeFiles/torch_hip.dir/MatMul.hip.o", 9.0, "hip"),
    NinjaStep("lib/libtorch_hip.so", 0.5, "link"),
    NinjaStep("gen/ops.h", 0.001, "other"),
]


@pytest.mark.parametrize("version", ["5", "6", "7"])
def test_ninjas_log(tmp_path, version):
    log = tmp_path / ".ninja_log"
    log.write_text(NINJA_5.replace("v5", f"v{version}"))
    assert read_ninja_log(log) == STEPS


@pytest.mark.parametrize("text", ["", "# ninja log v4\n0\t1\t0\ta.o\taa\n", "no log"])
def test_a_log_that_is_not_understood_gives_nothing(tmp_path, text):
    log = tmp_path / ".ninja_log"
    log.write_text(text)
    assert read_ninja_log(log) == []
    assert read_ninja_log(tmp_path / "absent") == []


def test_where_logs_lie(tmp_path):
    built = ["build/.ninja_log", "build/temp.linux-x86_64-cpython-312/.ninja_log"]
    for name in (*built, "third_party/.ninja_log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert [path.relative_to(tmp_path).as_posix() for path in find_ninja_logs(tmp_path)] == built


def test_the_report_sums_up_kinds_targets_memory_and_cache(tmp_path):
    rows = [
        record("a.cpp", wall_s=1.0, cpu_s=1.0, cache="hit"),
        record("b.cpp", wall_s=4.0, cpu_s=3.5, cache="miss", peak_rss=2100),
        record(
            "k.hip", kind="hip", wall_s=9.0, cpu_s=8.5, cache="miss", devices={"gfx942": 5.0, "host": 3.0}
        ),
        record("l.hip", kind="hip", wall_s=3.0, cpu_s=2.5, devices={"gfx942": 1.25, "gfx1100": 1.0}),
        record("", kind="link", output="lib/libtorch.so", wall_s=5.0, cpu_s=4.5),
        record("probe.c", kind="other", wall_s=70.0),
        record("bad.cpp", exit=1, wall_s=0.5, cpu_s=0.5),
    ]
    report = build_report(rows)
    assert [unit.source for unit in report.slowest[:3]] == ["k.hip", "lib/libtorch.so", "b.cpp"]
    assert report.kinds == {
        "host": KindTotal(calls=3, wall_s=5.5, cpu_s=5.0, hits=1, misses=1),
        "hip": KindTotal(calls=2, wall_s=12.0, cpu_s=11.0, hits=0, misses=1),
        "link": KindTotal(calls=1, wall_s=5.0, cpu_s=4.5),
    }
    assert report.targets == {"gfx1100": 1.0, "gfx942": 6.25, "host": 3.0}
    assert (report.peak_rss, report.largest, report.failed) == (2100, "b.cpp", 1)
    write_report(report, tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["targets"]["gfx942"] == 6.25


def test_twenty_units_are_the_slowest():
    rows = [record(f"{number:02d}.cpp", wall_s=float(number)) for number in range(30)]
    slowest = build_report(rows).slowest
    assert [unit.source for unit in slowest] == [f"{number:02d}.cpp" for number in range(29, 9, -1)]


def test_an_object_that_was_made_twice_is_named():
    rows = [record("a.cpp"), record("a.cpp", build="torch 3.13"), record("b.cpp", exit=1), record("b.cpp")]
    assert build_report(rows).repeated == ("/src/a.cpp.o",)


def test_projects_without_records_are_told_by_ninja(tmp_path):
    log = tmp_path / ".ninja_log"
    log.write_text(NINJA_5)
    report = build_report([record("a.cpp")], {"torch": [log], "torchvision": [log]})
    assert report.from_ninja == ("torchvision",)
    assert report.kinds["hip"] == KindTotal(calls=1, wall_s=9.0)
    assert [(unit.project, unit.wall_s) for unit in report.slowest[:2]] == [
        ("torchvision", 9.0),
        ("torchvision", 2.5),
    ]


def test_sccache_counts_by_language_so_the_kinds_have_its_figures():
    use = CacheUse("sccache", hits=10, misses=4, hip_hits=7, hip_misses=1)
    kinds = build_report([record("a.cpp"), record("k.hip", kind="hip")], cache=use).kinds
    assert (kinds["host"].hits, kinds["host"].misses) == (3, 3)
    assert (kinds["hip"].hits, kinds["hip"].misses) == (7, 1)
    assert (kinds["link"].hits, kinds["link"].misses) == (0, 0)


def test_nothing_was_compiled():
    report = build_report([])
    assert (report.slowest, report.targets, report.peak_rss, report.largest) == ((), {}, 0, "")
