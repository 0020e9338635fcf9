"""ROCm's own tests: which an installation holds, and what ctest says of them. ctest is a stand-in here."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocwright.data import load_table
from rocwright.gputest.components import find_components, run_component
from rocwright.gputest.skips.entries import families_table
from rocwright.gputest.smoke import verdicts_of
from rocwright.model.suites import SuiteTable
from rocwright.system.venv import Environment
from trees import script

TABLE = load_table("tests", SuiteTable)
FAMILIES = dict(families_table())
JUNIT = """<?xml version="1.0"?><testsuite name="x" tests="2" failures="{failures}">
<testcase name="rocblas_quick" classname="rocblas_quick" time="1.5" status="run">{body}</testcase>
<testcase name="rocblas_more" classname="rocblas_more" time="0.5" status="run"/></testsuite>"""


def found(bin_directory: Path, **asked: object):
    usual = {"platform": "linux", "family": "gfx94X-dcgpu", "families": FAMILIES, "gpus": 1}
    return find_components(bin_directory, TABLE, **{**usual, **asked})


def test_packages_without_tests_are_told_part_by_part(tmp_path: Path) -> None:
    (tmp_path / "rocblas").mkdir()
    (tmp_path / "rocblas" / "CTestTestfile.cmake").write_text("")
    held = found(tmp_path)
    assert [row.name for row in held.there] == ["rocblas"]
    assert {"hipBLAS", "rocSOLVER", "MIOpen"} <= {row.title for row in held.absent}
    assert "rocSHMEM needs several GPUs" in held.unfit


def test_what_a_family_or_platform_is_not_for_is_no_want(tmp_path: Path) -> None:
    assert "rocRoller is not for gfx110X-all" in found(tmp_path, family="gfx110X-all").unfit
    windows = found(tmp_path, platform="windows")
    assert "rocSOLVER is not tested on windows" in windows.unfit
    assert "rocSOLVER" not in {row.title for row in windows.absent}
    named = found(tmp_path, names=("rocprim", "rocblas"))
    assert [row.name for row in named.absent] == ["rocblas", "rocprim"]


@pytest.mark.parametrize(
    ("writes", "counts", "whole"),
    [
        (JUNIT.format(failures=0, body=""), (2, 0), True),
        (JUNIT.format(failures=1, body="<failure message='wrong sum'/>"), (1, 1), True),
        ("<?xml version='1.0'?><testsuite name='x' tests='0'></testsuite>", (0, 0), True),
        ("", (0, 1), False),
    ],
    ids=["passed", "failed", "none-of-this-label", "no-report"],
)
def test_ctest_is_believed_by_its_report(
    tmp_path: Path, writes: str, counts: tuple[int, int], whole: bool
) -> None:
    bin_directory, environment = tmp_path / "rocm" / "bin", Environment(tmp_path / "env")
    (bin_directory / "rocblas").mkdir(parents=True)
    environment.bin.mkdir(parents=True)
    (tmp_path / "report").write_text(writes)
    script(
        environment.bin / "ctest",
        f'#!/bin/sh\necho "$ROCM_PATH $@" > {tmp_path}/called\n'
        "for word; do last=$word; done\n"
        f"[ -s {tmp_path}/report ] && cp {tmp_path}/report $last\nexit 8\n",
    )
    row = next(row for row in TABLE.component if row.name == "rocblas")
    results, complete = run_component(
        environment, bin_directory, row, "standard", tmp_path / "reports", log=tmp_path / "log"
    )
    verdicts = verdicts_of(results)
    assert ((verdicts.passed, verdicts.failed), complete) == (counts, whole)
    called = (tmp_path / "called").read_text()
    assert called.startswith(f"{tmp_path}/rocm --test-dir {bin_directory}/rocblas --label-regex ^standard$ ")
