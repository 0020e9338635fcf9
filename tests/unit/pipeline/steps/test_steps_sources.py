"""Which repository and branch a run asks for, by the branch of torch, and what only the miniature has."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rocwright.data import load_table
from rocwright.model.plan import Sources
from rocwright.model.project import ProjectTable
from rocwright.pipeline.options import RunOptions, Workspace
from rocwright.pipeline.steps.sources import (
    Origins,
    checkout_step,
    lock_sources_step,
    origin_steps,
    request_for,
)
from rocwright.pipeline.steps.testing import installation_step
from rocwright.sources.resolve import Request
from rocwright.system.files import content_digest, shipped_directory

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


@pytest.mark.parametrize("sources", ["miniature", "upstream"])
def test_the_smoke_tests_are_those_of_the_family_that_is_built(sources: Sources, tmp_path: Path) -> None:
    own = msgspec.structs.replace(options("release/2.12", tmp_path), sources=sources)
    step = installation_step(own, "pip", ())
    theirs = {
        "miniature": shipped_directory("examples") / "mini-pytorch" / "smoke-tests",
        "upstream": shipped_directory("external-builds") / "pytorch" / "smoke-tests",
    }
    digests = {name: content_digest(folder) for name, folder in theirs.items()}
    assert len(set(digests.values())) == 2
    assert step.facts()["tests"] == digests[sources]


def test_only_the_miniature_family_has_repositories_made_here(tmp_path: Path) -> None:
    upstream = options("release/2.12", tmp_path)
    assert origin_steps(upstream) == []
    assert lock_sources_step(upstream, ("a",)).needs == ("a",)
    assert checkout_step(upstream, "torch").needs == ("lock-sources",)
    mini = msgspec.structs.replace(upstream, sources="miniature")
    assert [step.id for step in origin_steps(mini)] == ["origins"]
    assert lock_sources_step(mini, ("a",)).needs == ("a", "origins")
    assert checkout_step(mini, "torch").needs == ("lock-sources", "origins")
