"""Which repository and branch a run asks for, by the branch of torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocwright.data import load_table
from rocwright.model.project import ProjectTable
from rocwright.pipeline.options import RunOptions, Workspace
from rocwright.pipeline.steps.sources import Origins, request_for
from rocwright.sources.resolve import Request

TABLE = load_table("projects", ProjectTable)


def options(ref: str, tmp_path: Path) -> RunOptions:
    return RunOptions(
        Workspace(tmp_path), tmp_path / "cache", targets=("gfx942",), torch_ref=ref, sources="upstream"
    )


@pytest.mark.parametrize(("ref", "line"), [("release/2.12", "2.12"), ("nightly", "nightly")])
def test_a_known_branch_brings_its_repository_and_the_others_branches(
    ref: str, line: str, tmp_path: Path
) -> None:
    for project in ("torch", "torchvision"):
        assert request_for(project, options(ref, tmp_path), TABLE) == Request(project, line=line)


def test_another_branch_is_torchs_alone(tmp_path: Path) -> None:
    own = options("users/me/try", tmp_path)
    assert request_for("torch", own, TABLE) == Request("torch", ref="users/me/try")
    assert request_for("torchvision", own, TABLE) == Request("torchvision")


def test_the_miniature_is_asked_for_where_it_lies(tmp_path: Path) -> None:
    origins = Origins("/work/origins", {})
    own = options("release/2.9", tmp_path)
    assert request_for("torch", own, TABLE, origins).origin == "file:///work/origins/pytorch"
    assert request_for("torchaudio", own, TABLE, origins) == Request(
        "torchaudio", "file:///work/origins/audio"
    )
