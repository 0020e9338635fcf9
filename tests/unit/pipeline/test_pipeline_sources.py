"""What is built is what was locked: one decision for all projects, replayed, verified before a build."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from rocwright.engine.graph import Inputs
from rocwright.engine.run import RunReport, run
from rocwright.errors import IntegrityError
from rocwright.pipeline.demo import demo_graph
from rocwright.pipeline.options import RunOptions, Workspace
from rocwright.pipeline.steps.sources import LockedSources, SourceTree
from rocwright.sources.lock import read_lock

pytestmark = pytest.mark.slow

PROJECTS = {"torch", "triton", "torchaudio", "torchvision", "apex"}
WANTED = ("checkout-torch", "checkout-torchaudio")


@pytest.fixture
def options(tmp_path: Path) -> RunOptions:
    return RunOptions(
        workspace=Workspace(tmp_path / "work"),
        cache=tmp_path / "cache",
        targets=("gfx90a",),
        torch_ref="release/2.9",
        rocm_prefix=tmp_path,
    )


def value(report: RunReport, step: str, kind: type[msgspec.Struct]) -> msgspec.Struct:
    (raw,) = [record.value for record in report.steps if record.id == step]
    return msgspec.json.decode(raw, type=kind)


def test_all_projects_are_locked_at_once_and_checked_out_from_the_lock(options: RunOptions) -> None:
    whole = demo_graph(options)
    assert all(whole[f"checkout-{project}"].needs == ("lock-sources", "origins") for project in PROJECTS)
    assert "lock-sources" in whole["stage"].needs
    graph = whole.closure(WANTED)
    report = run(graph, options.workspace.state)
    locked = value(report, "lock-sources", LockedSources)
    assert isinstance(locked, LockedSources)
    assert read_lock(Path(locked.path)) == locked.lock
    assert {source.project for source in locked.lock.sources} == PROJECTS
    assert locked.lock.get("torchaudio").why == "pin"
    torch = value(report, "checkout-torch", SourceTree)
    assert isinstance(torch, SourceTree)
    assert torch.locked.commit == locked.lock.get("torch").commit
    assert torch.locked.outcome is not None
    assert torch.locked.outcome.hipify_commit == torch.locked.outcome.tip
    assert torch.submodules == 1
    again = run(graph, options.workspace.state)
    assert {record.state for record in again.steps} == {"cached"}


def test_a_checkout_that_was_moved_since_is_not_built(options: RunOptions) -> None:
    whole = demo_graph(options)
    report = run(whole.closure(["checkout-torchaudio"]), options.workspace.state)
    tree = value(report, "checkout-torchaudio", SourceTree)
    assert isinstance(tree, SourceTree)
    subprocess.run(["git", "checkout", "-q", "HEAD~1"], cwd=tree.directory, check=True)
    with pytest.raises(IntegrityError, match="torchaudio"):
        whole["build-torchaudio"].act(Inputs({"checkout-torchaudio": tree}), lambda _: None)
