"""Nothing is published that the checks refuse, and nothing counts as installed that was not tried."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

from rocwright.engine.graph import Inputs, Step, make_graph
from rocwright.engine.run import run
from rocwright.errors import ContractBroken, MissingTool
from rocwright.pipeline.demo import demo_graph
from rocwright.pipeline.options import RunOptions, Workspace
from rocwright.pipeline.steps.publish import Checked, check_rocm_step, check_step, upload_rocm_step
from rocwright.sdk.build import BuiltPackages, PackageFile

NAME = "rocm_sdk_core-7-py3-none-linux_x86_64.whl"


@pytest.fixture
def options(tmp_path: Path) -> RunOptions:
    return RunOptions(
        workspace=Workspace(tmp_path / "work"),
        cache=tmp_path / "cache",
        targets=("gfx90a",),
        torch_ref="release/2.9",
        rocm_prefix=tmp_path,
    )


@pytest.fixture
def packages(tmp_path: Path) -> BuiltPackages:
    """One package, whose wheel lacks everything but a file."""
    with zipfile.ZipFile(tmp_path / NAME, "w") as archive:
        archive.writestr("_rocm_sdk_core/lib/x.so", "no library")
    return BuiltPackages(
        version="7",
        mode="legacy",
        family="fam",
        targets=("gfx90a",),
        directory=str(tmp_path),
        files=(PackageFile(NAME, "a" * 64, 1, 1),),
        rpath_edits=0,
        notes=(),
    )


def test_rocm_is_uploaded_and_installed_only_after_its_check(options: RunOptions) -> None:
    graph = demo_graph(options)
    assert "check-rocm" in graph["upload-rocm"].needs
    assert "upload-rocm" in graph["build-env"].needs
    assert "check" in graph["upload-pytorch"].needs


def test_rocm_packages_with_errors_are_not_uploaded(options: RunOptions, packages: BuiltPackages) -> None:
    made = Step(id="rocm-packages", result=BuiltPackages, act=lambda *_: packages)
    graph = make_graph([made, check_rocm_step(options), upload_rocm_step(options)])
    with pytest.raises(ContractBroken, match="dist-info") as caught:
        run(graph, options.workspace.state)
    assert NAME in str(caught.value)
    assert not options.workspace.store.exists()


@pytest.mark.parametrize("missing", ["pip", "uv"])
def test_a_set_is_not_passed_without_both_installers(
    options: RunOptions,
    packages: BuiltPackages,
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A check of somebody's own warns; what is to be published must be proved."""
    there = tmp_path / "bin"
    there.mkdir()
    for program in {"pip", "uv"} - {missing}:
        (there / program).write_text("#!/bin/sh\n")
        (there / program).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(there / "python"))
    monkeypatch.setenv("PATH", str(there))
    inputs = Inputs({"rocm-packages": packages})
    with pytest.raises(MissingTool, match=missing):
        check_step(options, ("rocm-packages",)).act(inputs, lambda _: None)


def test_what_a_check_found_survives_its_stamp(options: RunOptions) -> None:
    """The report goes through JSON into a statement; a later run must read the same."""
    report = {"passed": True, "sizes": {"files": {"rocm sdist": {"size": 3, "targets": {}}}}, "changes": []}
    value = Checked(files=1, rules=2, errors=0, warnings=0, findings=(), report=report)
    assert msgspec.json.decode(msgspec.json.encode(value), type=Checked) == value
    assert check_rocm_step(options).summary(value) == "1 files, 2 rules: 0 errors, 0 warnings"
