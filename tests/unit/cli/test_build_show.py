"""What `rocwright build` prints at its end, and how it ends when a command has failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocwright import cli
from rocwright.builder.decide.plan import BuildRequest, BuiltWheel, CacheUse
from rocwright.builder.order import Order
from rocwright.builder.rocm.place import RocmPlace
from rocwright.builder.run.family import FamilyResult
from rocwright.builder.units.report import BuildReport, KindTotal, SlowUnit, Uncompiled
from rocwright.cli import build as door
from rocwright.cli.build import show_result
from rocwright.errors import CommandFailed

MINI = Path(__file__).resolve().parents[3] / "examples" / "mini-pytorch"
TORCH = "torch-2.9.0+rocm7.10.0-cp312-cp312-linux_x86_64.whl"
VISION = "torchvision-0.24.0+rocm7.10.0-cp312-cp312-linux_x86_64.whl"
REPORT = BuildReport(
    slowest=(
        SlowUnit("torch", "hip", "aten/SortStable.hip", 94.04, 90.0, 2_100_000_000),
        SlowUnit("torch", "host", "dynamo/guards.cpp", 44.0),
    ),
    kinds={
        "host": KindTotal(1700, 5000.0, 4000.26),
        "hip": KindTotal(255, 900.0, 800.0),
        "link": KindTotal(),
    },
    targets={"gfx942": 500.04, "host": 300.0},
    peak_rss=2_100_000_000,
    largest="aten/SortStable.hip",
    failed=0,
    cache=CacheUse("sccache", 10, 5, 2, hip_hits=3, hip_misses=1),
    uncompiled={
        "torch": (
            Uncompiled("aten/src/ATen/native/hip", tuple(f"K{n}.hip" for n in range(211)), 215),
            Uncompiled("c10/hip/test", ("one.hip", "two.hip"), 2),
        ),
        "torchvision": (),
    },
)


def built(project: str, name: str, **more: object) -> BuiltWheel:
    fields = {"version": "x", "sha256": "ab", "size": 184_000_000, "wall_s": 61.26, "cpu_s": 110.0}
    return BuiltWheel(project=project, path=f"/out/{name}", peak_rss=1, python="3.12", **{**fields, **more})


def order(output: str = "/my out") -> Order:
    return Order(RocmPlace("own"), BuildRequest({}, "linux", ()), output, "/my out-work")


def test_wheels_costs_and_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    device = "amd_torch_device_gfx942-2.9.0+rocm7.10.0-cp312-cp312-linux_x86_64.whl"
    wheels = (built("torch", TORCH, device=(f"/out/{device}",)), built("torchvision", VISION, size=12_000))
    show_result(FamilyResult(wheels, ("cp312-torchvision",), report=REPORT), order())
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if line.startswith("torch")] == [
        ["torch", "184.0", "MB", "61.3", "110.0", TORCH],
        ["torchvision", "12.0", "kB", "-", "-", VISION],
        ["torch", "hip", "94.0", "2.1", "GB", "aten/SortStable.hip"],
        ["torch", "host", "44.0", "-", "dynamo/guards.cpp"],
    ]
    assert device in lines
    assert "CPU time: host 4000.3 s in 1700 calls, hip 800.0 s in 255 calls; largest 2.1 GB" in lines
    assert "device code: gfx942 500.0 s, host code beside it 300.0 s" in lines
    assert "sccache: 10 found, 5 compiled, 2 not kept; of device code 3 found, 1 compiled" in lines
    missed = lines.index("no compiler saw these device sources of torch:")
    assert lines[missed + 1 : missed + 3] == [
        "  aten/src/ATen/native/hip: 211 of 215 (K0.hip, K1.hip, K2.hip, K3.hip, …)",
        "  c10/hip/test: 2 of 2 (one.hip, two.hip)",
    ]
    assert not any("torchvision:" in line for line in lines)
    assert "finished by an earlier run: cp312-torchvision" in lines
    assert lines[-1] == "next: rocwright check '/my out'/*.whl"


def test_what_is_installed_in_place_is_no_wheel_to_check(capsys: pytest.CaptureFixture[str]) -> None:
    torch = BuiltWheel("torch", "2.9.0", "/src/pytorch", "", 0, 5.0, 9.0, 1, "3.12")
    show_result(FamilyResult((torch,)), order())
    said = capsys.readouterr().out
    assert "/src/pytorch (in place)" in said
    assert "rocwright check" not in said


@pytest.mark.parametrize(("status", "code"), [(1, 1), (2, 2), (77, 77), (-9, 137)])
def test_the_exit_code_of_a_failed_command_is_passed_on(
    status: int,
    code: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(order: Order, *_: object, **__: object) -> None:
        units = Path(order.work_dir) / "units"
        units.mkdir(parents=True)
        (units / "report.json").write_text(json.dumps({"cache": {"cache": "ccache", "hits": 4}, **EMPTY}))
        raise CommandFailed("ninja -C build", status, cwd="/src", tail="FAILED: x.o", log="/my.log")

    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    monkeypatch.setattr(door, "build_family", failing)
    words = ["--output-dir", str(tmp_path / "out"), "--pytorch-dir", str(MINI / "pytorch"), "--find-links"]
    with pytest.raises(SystemExit) as ended:
        cli.main(["build", *words, str(tmp_path)])
    assert ended.value.code == code
    said = capsys.readouterr()
    assert said.out == ""
    for part in ("ninja -C build", "directory: /src", "FAILED: x.o", "log: /my.log"):
        assert part in said.err
    # What the cache did until then.
    assert "ccache: 4 found, 0 compiled, 0 not kept" in said.err


EMPTY: dict[str, object] = {
    "slowest": [],
    "kinds": {},
    "targets": {},
    "peak_rss": 0,
    "largest": "",
    "failed": 1,
}
