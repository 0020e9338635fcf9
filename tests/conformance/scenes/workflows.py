"""The workflows of CI and of releases: their files, what starts them, what they do and in which order.

Plans come from the commands; a stand-in for GitHub's runners (contract.workflows) follows the clone's
workflows with them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from conformance.table import CASES, Row, row, rows
from conformance.world import Shell, Transcript, World
from contract.workflows.github_runner import DONE, FAILED, SKIPPED, Runner, files_of
from contract.workflows.plans import CI, RELEASE, Steps
from rocwright.model.plan import Plan, parse_plan

PLACE = {
    "linux": "linux/cp312/release-2.13/gfx94X-dcgpu",
    "windows": "windows/cp312/release-2.12/gfx110X-all",
}
# What is asked for with the profiles of CI and of a release: as they are, and each with the other's choice of
# whether device code is split off.
PROFILES = {"ci": "ci", "nightly": "nightly", "ci-split": "ci --split", "nightly-whole": "nightly --no-split"}
GROUPS = {"linux": "build_portable_linux", "windows": "build_windows"}
# Event, what is said about it, and what follows.
ASKED = {
    "labels": "--event pull_request --label ci:pytorch --label pytorch_ref:nightly --label python:3.13 "
    "--label pytorch:torch-only",
    "inputs": "--event workflow_dispatch --input build_pytorch=true --input pytorch_git_ref=nightly "
    "--input python_version=3.13 --input pytorch_projects=torch",
    "unasked": "--event pull_request --label ci:no-pytorch",
    "dispatched": "--event workflow_dispatch --input build_pytorch=false",
    "one": "--event workflow_dispatch --input amdgpu_families=gfx94X-dcgpu --input python_version=3.12 "
    "--input pytorch_git_ref=release/2.13 --input artifact_run_id=17123441166 --platforms linux",
}


def workflows(world: World) -> Transcript:
    """Whether they are as they are rendered, what runs would do, and what events ask for."""

    def play(shell: Shell) -> None:
        shell.world.activate(shell)
        shell("rocwright pipeline render --check", "AG-4", "AG-5", "FD-51", "FD-52", "FD-53", "FD-54")
        plan = "rocwright pipeline plan --sources upstream --json --profile"
        linux = "--platforms linux --families gfx94X-dcgpu --python-versions 3.12"
        for name, words in PROFILES.items():
            line = f"{plan} {words} {linux} --pytorch-git-refs release/2.13 > $HOME/{name}.json"
            shell(line, "AG-3", "AG-4", "AG-8", "NM-29", "NM-31", "FD-62")
        shell(f"{plan} ci --platforms windows --families gfx110X-all > $HOME/windows.json", "AG-5", "FD-05")
        shell(
            f"{plan} ci {linux.replace('gfx94X-dcgpu', 'gfx900')} --pytorch-git-refs release/2.13 "
            "> $HOME/idle.json",
            "AG-3",
        )
        for name, words in ASKED.items():
            shell(
                f"python build_tools/github_actions/configure_ci.py {words} --sources upstream --no-record "
                f"--json > $HOME/{name}.json",
                *("AG-6", "NM-24", "FD-04"),
            )
        for type_ in ("ci", "nightly", "prerelease"):
            shell(
                "python build_tools/github_actions/configure_pytorch_release_matrix.py "
                f"--release-type {type_} --platform linux --json",
                "NM-28",
            )
        summary = "python build_tools/github_actions/workflow_summary.py --needs-json"
        for result, code in (("success", 0), ("skipped", 0), ("failure", 1)):
            needs = json.dumps({"test_pytorch_wheels": {"result": result}})
            shell(f"{summary} '{needs}'", "AG-3", code=code)

    return world.scene("workflows", play)


def planned(world: World, name: str) -> Plan:
    """A plan that a command printed; that of a setup stands in its answer."""
    text = (workflows(world).home / f"{name}.json").read_text()
    held = json.loads(text)
    return parse_plan(json.dumps(held.get("plan", held)), where=name)


@cache
def _files(root: Path) -> Mapping[str, dict[str, Any]]:
    return files_of(root)


def file(world: World, name: str) -> dict[str, Any]:
    """A workflow of the clone, read."""
    return _files(world.clone())[f".github/workflows/{name}.yml"]


@dataclass
class Telling(Steps):
    """Also tells where PyTorch's wheels of the build are."""

    def __call__(self, command: str, env: Mapping[str, str]) -> dict[str, str] | None:
        said = super().__call__(command, env)
        if said and env.get("ID", "").startswith("build_pytorch_wheels"):
            said |= {"pytorch_package_find_links_url": f"page of {env['ID']}"}
        return said


def run(
    world: World, name: str, *, start: str = CI, broken: str = "", inputs: Mapping[str, str] | None = None
) -> tuple[Telling, Runner, str]:
    """Start a workflow with a plan: what was done, on which machines, how it ended."""
    steps = Telling(planned(world, name), frozenset([broken] if broken else []))
    github = {"workflow": "CI", "run_id": "1", "event_name": "push", "event": {}}
    runner = Runner(_files(world.clone()), steps, github)
    return steps, runner, runner.start(start, inputs).result


def names(steps: Steps) -> list[str]:
    """The jobs that were done, in order, without their places."""
    return [id_.split("/")[0] for id_ in steps.did]


def _machine(runner: Runner, job: str) -> list[str]:
    return [label for _, name, label in runner.jobs if name == job]


@row("AG-4", "AG-5", "FD-51")
def the_chain_runs_from_artifacts_to_tests(world: World, row: Row) -> None:
    workflows(world).of(row.id)
    for platform in {"AG-4": ("linux",), "AG-5": ("windows",)}.get(row.id, ("linux", "windows")):
        plan, place = ("ci" if platform == "linux" else platform), PLACE[platform]
        steps, _, ended = run(world, plan)
        group = "/".join(place.split("/")[::3])
        chain = [
            f"build_artifacts/{group}",
            f"build_python_packages/{group}",
            f"test_rocm_wheels/{group}",
            f"build_pytorch_wheels/{place}",
            f"test_pytorch_wheels/{place}",
        ]
        assert ended == DONE
        # Ids of tests end with their family besides.
        found = [id_ for id_ in steps.did if id_.startswith(tuple(chain))]
        assert found == [next(id_ for id_ in steps.did if id_.startswith(one)) for one in chain]
        # Without ROCm's packages of the run there is no PyTorch of it, and without PyTorch no test of it.
        for lost, missing in ((chain[1], chain[3]), (chain[3], chain[4])):
            steps, _, ended = run(world, plan, broken=lost)
            assert ended == FAILED and not [id_ for id_ in steps.did if id_.startswith(missing)]
        jobs = file(world, f"ci_{platform}")["jobs"]
        assert f"{GROUPS[platform]}_python_packages" in jobs["build_pytorch_wheels"]["needs"]
        build = jobs["build_pytorch_wheels"]["uses"].removeprefix("./.github/workflows/").removesuffix(".yml")
        tests = file(world, build)["jobs"]["test_pytorch_wheels"]
        assert tests["uses"].endswith("/test_pytorch_wheels.yml")
        assert "build_pytorch_wheels" in tests["needs"]
        kinds = {cell.kind for cell in planned(world, plan).cells}
        assert ("build-triton" in kinds) == (platform == "linux")
        assert {"build-torch", "build-torchaudio", "build-torchvision"} <= kinds


@row("AG-3")
def tests_run_with_both_pages_or_are_told_apart(world: World, row: Row) -> None:
    scene = workflows(world)
    steps, runner, ended = run(world, "ci")
    (id_,) = [one for one in steps.did if one.startswith("test_pytorch_wheels/")]
    assert steps.seen[id_]["PACKAGE_FIND_LINKS_URL"] == f"page of build_pytorch_wheels/{PLACE['linux']}"
    page = steps.seen[id_]["ROCM_PACKAGE_FIND_LINKS_URL"]
    assert page == "rocm_package_find_links_url of build_python_packages/linux/gfx94X-dcgpu"
    (label,) = _machine(runner, "test_pytorch_wheels_linux")
    assert ended == DONE and label.startswith("linux-gfx942-")
    # Only where no machine has such a GPU it is left out, and that is not how a test that passed ends.
    idle = planned(world, "idle")
    (cell,) = [cell for cell in idle.cells if cell.kind == "test-pytorch"]
    assert cell.skip and not cell.runner
    steps, runner, ended = run(world, "idle")
    assert ended == DONE and "test_pytorch_wheels" not in names(steps)
    assert _machine(runner, "test_pytorch_wheels_linux") == [SKIPPED]
    passed, skipped, failed = (done.out for done in scene.calling("workflow_summary.py"))
    assert "passed | `test_pytorch_wheels` | success" in passed
    assert "left out | `test_pytorch_wheels` | skipped" in skipped
    assert "failed | `test_pytorch_wheels` | failure" in failed


@row("AG-6", "NM-24")
def what_ci_builds_of_pytorch_is_said_by_inputs_and_labels(world: World, row: Row) -> None:
    scene = workflows(world)
    scene.of(row.id)
    said = {name: json.loads((scene.home / f"{name}.json").read_text()) for name in ASKED}
    for name in ("labels", "inputs"):
        choice = said[name]["decision"]["choice"]
        assert choice["build_pytorch"] is True
        assert (choice["pythons"], choice["refs"], choice["projects"]) == (["3.13"], ["nightly"], ["torch"])
        builds = {(cell.python, cell.ref) for cell in planned(world, name).cells if cell.python}
        assert builds == {("3.13", "nightly")}
        kinds = {cell.kind for cell in planned(world, name).cells}
        assert "build-torch" in kinds and not kinds & {"build-torchaudio", "build-torchvision"}
    for name in ("unasked", "dispatched"):
        assert said[name]["decision"]["choice"]["build_pytorch"] is False
        assert not [cell for cell in planned(world, name).cells if cell.python]
    inputs = file(world, "ci")["on"]["workflow_dispatch"]["inputs"]
    assert {"build_pytorch", "pytorch_git_ref", "python_version", "pytorch_projects"} <= inputs.keys()
    assert (inputs["build_pytorch"]["type"], inputs["build_pytorch"]["default"]) == ("boolean", True)


@row("AG-8", "NM-31", "FD-54", "NM-29")
def ci_and_releases_differ_in_inputs_only(world: World, row: Row) -> None:
    scene = workflows(world)
    scene.of("AG-8")
    plans = {name: planned(world, name) for name in PROFILES}
    digests = {name: {cell.id: cell.digest for cell in plan.cells} for name, plan in plans.items()}
    assert all(all(one.values()) for one in digests.values())
    # As they are, a release splits device code off and CI does not; that adds one step to the same job.
    split = f"split/{PLACE['linux']}"
    assert digests["nightly"].keys() - digests["ci"].keys() == {split}
    assert digests["ci"].keys() < digests["nightly"].keys()
    jobs = {name: {job.id: job.cells for job in plan.jobs} for name, plan in plans.items()}
    assert jobs["ci"].keys() == jobs["nightly"].keys()
    wheels = f"build_pytorch_wheels/{PLACE['linux']}"
    assert {job for job, cells in jobs["ci"].items() if cells != jobs["nightly"][job]} == {wheels}
    assert [one for one in jobs["nightly"][wheels] if one != split] == [*jobs["ci"][wheels]]
    # What is built is the same, of the same inputs, settings and code; what is made of split wheels is not.
    same = {id_.split("/")[0] for id_, digest in digests["ci"].items() if digests["nightly"][id_] == digest}
    assert {"build-torch", "build-torchaudio", "build-torchvision", "rocm-packages", "lock-sources"} <= same
    assert not {"check", "upload-pytorch", "stage", "promote"} & same
    # With the same choice in both, split or not, the two plans are one but for the profile's name.
    for ours, theirs in (("ci", "nightly-whole"), ("ci-split", "nightly")):
        assert (plans[ours].profile, plans[theirs].profile) == ("ci", "nightly")
        assert digests[ours] == digests[theirs]
        texts = [json.loads((scene.home / f"{name}.json").read_text()) for name in (ours, theirs)]
        assert [one.pop("profile") for one in texts] == ["ci", "nightly"]
        assert texts[0] == texts[1]
    did = [run(world, "ci")[0].did, run(world, "nightly", start=RELEASE)[0].did]
    assert did[0] == did[1]
    started = {"ci": "ci", "release": "release_portable_linux_pytorch_wheels"}
    calls = {
        name: [job["uses"] for job in file(world, entry)["jobs"].values() if "uses" in job]
        for name, entry in started.items()
    }
    assert calls == {
        "ci": ["./.github/workflows/ci_linux.yml", "./.github/workflows/ci_windows.yml"],
        "release": ["./.github/workflows/ci_linux.yml"],
    }
    # Options A and C would have a workflow of CI's own, or actions that both assemble.
    found = {Path(path).name for path in _files(world.clone()) if "/workflows/" in path}
    assert "build_ci_pytorch_wheels.yml" not in found
    builders = {name for name in found if name.startswith("build_")}
    assert builders == {"build_portable_linux_pytorch_wheels.yml", "build_windows_pytorch_wheels.yml"}
    # People, changes and the clock start them.
    assert {"pull_request", "push", "workflow_dispatch"} == file(world, "ci")["on"].keys()
    release = file(world, started["release"])["on"]
    assert release.keys() == {"schedule", "workflow_dispatch"}
    assert "dev" in release["workflow_dispatch"]["inputs"]["release_type"]["options"]


@row("FD-04", "FD-05")
def a_single_build_can_be_dispatched(world: World, row: Row) -> None:
    platform = "linux" if row.id == "FD-04" else "windows"
    workflows(world).of(row.id)
    build = "build_portable_linux" if platform == "linux" else "build_windows"
    path = f".github/workflows/{build}_pytorch_wheels.yml"
    inputs = file(world, f"{build}_pytorch_wheels")["on"]["workflow_call"]["inputs"]
    assert {"artifact_group", "amdgpu_families", "python_version", "pytorch_git_ref"} <= inputs.keys()
    assert {"rocm_package_find_links_url", "rocm_version"} <= inputs.keys()
    if platform == "windows":
        steps, runner, ended = run(world, "windows")
    else:
        # Its wrapper's inputs are one place of the matrix, and the ROCm of a run that there is already.
        asked = {"release_type": "dev", "python_version": "3.12", "pytorch_git_ref": "release/2.13"}
        steps, runner, ended = run(world, "one", start=RELEASE, inputs=asked)
        assert steps.seen["setup"]["PROFILE"] == "dev"
        assert "take_python_packages" in names(steps) and "build_artifacts" not in names(steps)
    assert ended == DONE
    builds = [label for file_, name, label in runner.jobs if (file_, name) == (path, "build_pytorch_wheels")]
    assert len(builds) == len({(cell.python, cell.ref) for cell in steps.plan.cells if cell.python})
    assert SKIPPED not in builds
    entry = file(world, f"release_{'portable_' if platform == 'linux' else ''}{platform}_pytorch_wheels")
    assert "workflow_dispatch" in entry["on"]


@row("FD-52")
def the_release_workflow_is_a_thin_matrix(world: World, row: Row) -> None:
    workflows(world).of(row.id)
    entry = file(world, "release_portable_linux_pytorch_wheels")
    (called,) = [job for job in entry["jobs"].values() if "uses" in job]
    assert called["strategy"]["matrix"] == {"row": "${{ fromJSON(needs.setup.outputs.linux_groups) }}"}
    assert {"release_type", "pytorch_git_ref", "python_version", "amdgpu_families"} <= entry["on"][
        "workflow_dispatch"
    ]["inputs"].keys()
    # Of its own it has what decides and what tells, and no step that builds.
    assert [name for name, job in entry["jobs"].items() if "uses" not in job] == [
        *("setup", "lock_sources", "ci_summary"),
    ]


@row("FD-53")
def the_test_workflow_gets_the_pages_of_the_run(world: World, row: Row) -> None:
    workflows(world).of(row.id)
    inputs = file(world, "test_pytorch_wheels")["on"]["workflow_call"]["inputs"]
    assert {
        *("amdgpu_family", "test_runs_on", "python_version", "torch_version", "pytorch_git_ref"),
        *("package_find_links_url", "rocm_package_find_links_url"),
    } <= inputs.keys()
    assert inputs["test_runs_on"]["default"] == ""
    # A page, an index, or both are what the tool takes that makes its environment.
    CASES["NM-27"](world, row)


@row("FD-62")
def jobs_are_called_as_in_the_document(world: World, row: Row) -> None:
    workflows(world).of(row.id)
    _, runner, _ = run(world, "ci")
    order = [name for _, name, label in runner.jobs if label != SKIPPED]
    documented = [
        *("build_portable_linux_artifacts", "build_portable_linux_python_packages", "test_rocm_wheels"),
        *("build_pytorch_wheels", "test_pytorch_wheels"),
    ]
    found = [next(name for name in order if name.startswith(one)) for one in documented]
    assert sorted(order.index(one) for one in found) == [order.index(one) for one in found]


@row("NM-28")
def releases_are_for_every_python_and_ci_is_for_one(world: World, row: Row) -> None:
    ci, nightly, release = (json.loads(done.out) for done in workflows(world).all_of(row.id))
    assert {one["python_version"] for one in ci} == {"3.12"}
    for rows_ in (nightly, release):
        assert {"3.11", "3.12", "3.13"} <= {one["python_version"] for one in rows_}
        refs = {one["pytorch_git_ref"] for one in rows_}
        assert len(rows_) == len(refs) * len({one["python_version"] for one in rows_})


@row("NM-32")
def every_goal_is_met(world: World, row: Row) -> None:
    goals = [one for one in rows() if one.id.startswith("AG-")]
    assert len(goals) == 8
    for goal in goals:
        CASES[goal.id](world, goal)
