"""What rendered workflows do and in which order, against the plan: for any choice, failure and definition."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path, PurePosixPath
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.workflows.github_runner import DONE, FAILED, SKIPPED, Failed, Runner, files_of, load
from contract.workflows.plans import CI, RELEASE, Steps, expected, run_plan
from rocwright.data import load_table
from rocwright.errors import InvalidInput
from rocwright.model.plan import Choice, Group, Grouping, Plan, Publication, Rocm
from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.define.cells import Row, make_cells, make_jobs
from rocwright.pipeline.define.inputs import known, profiles
from rocwright.pipeline.define.kinds import SUMMARY, Axis, Kind
from rocwright.pipeline.define.plan import make_plan
from rocwright.pipeline.render.job_kinds import every_kind, job_kinds
from rocwright.pipeline.render.steps import step_action
from rocwright.pipeline.render.workflows import github_files, workflow_text, workflows
from rocwright.pipeline.setup.run import workflow_outputs

ROOT = Path(__file__).resolve().parents[3]
TABLE = load_table("workflows", WorkflowTable)
KNOWN, PROFILES = known(environment={}), profiles()
FILES = files_of(ROOT)
MANY = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
OPEN = Publication(True, True)
TESTS = ".github/workflows/test_pytorch_wheels.yml"


def planned(choice: Choice, publication: Publication = OPEN) -> Plan:
    return make_plan(PROFILES.named(choice.profile), choice, KNOWN, publication)


def asked(
    profile: str, families: tuple[str, ...], pythons: tuple[str, ...], parts: int | None = None
) -> Choice:
    """On Linux, for PyTorch's main branch."""
    return Choice(
        profile=profile,
        run_id="1",
        platforms=("linux",),
        pythons=pythons,
        refs=("nightly",),
        families=families,
        sources="upstream",
        device_groups=parts,
    )


def _some(draw: st.DrawFn, words: list[str]) -> tuple[str, ...]:
    return tuple(draw(st.lists(st.sampled_from(words), min_size=1, max_size=2, unique=True)))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    families = ["gfx94X-dcgpu", "gfx110X-all", "gfx1151", "gfx906"]
    pytorch = draw(st.booleans())
    choice = Choice(
        profile=draw(st.sampled_from([row.name for row in PROFILES.profile])),
        run_id="1",
        platforms=draw(st.sampled_from([("linux",), ("linux", "windows")])),
        pythons=_some(draw, ["3.11", "3.12", "3.14t"]) if pytorch else (),
        refs=_some(draw, ["release/2.13", "nightly"]) if pytorch else (),
        families=_some(draw, families),
        sources="upstream",
        rocm=draw(st.sampled_from([None, Rocm("packages", at="7")])) if pytorch else None,
        build_pytorch=pytorch,
        split=draw(st.booleans()) if pytorch else None,
    )
    publication = draw(st.sampled_from([OPEN, Publication(True, False), Publication(False, False)]))
    return planned(choice, publication)


@MANY
@given(data=st.data())
def test_each_job_runs_once_after_what_it_needs(data: st.DataObject) -> None:
    plan = data.draw(plans())
    ids = [job.id for job in plan.jobs if job.name != "ci_summary"]
    broken = frozenset(data.draw(st.lists(st.sampled_from(ids), max_size=2))) if ids else frozenset[str]()
    steps, _, ended = run_plan(FILES, plan, broken=broken)
    ends = expected(plan, broken)
    if not plan.publication.upload:
        assert steps.did == []
        return
    assert steps.did[-1] == "summary"
    # Matrices and calls are waited for as a whole: one that fails can stop more than the plan says.
    assert set(steps.did[:-1]) <= set(ends)
    if not broken:
        assert set(steps.did[:-1]) == set(ends)
    jobs, good = {job.id: job for job in plan.jobs}, set[str]()
    for number, id_ in enumerate(steps.did[:-1]):
        later = set(steps.did[number:])
        assert not later.intersection(jobs[id_].needs)
        assert set(jobs[id_].needs) <= good or id_.startswith("gate/")
        good |= {id_} - broken
    assert ended == (FAILED if broken.intersection(steps.did) else DONE)


def test_parts_are_built_before_they_are_merged() -> None:
    choice = asked("release", ("gfx110X-all",), ("3.12",), 2)
    steps, _, ended = run_plan(FILES, planned(choice), start=RELEASE)
    place = "linux/cp312/nightly/gfx110X-all"
    parts = [f"build_torch_part/{place}/gfx1100+gfx1101", f"build_torch_part/{place}/gfx1102+gfx1103"]
    assert ended == DONE
    assert [id_ for id_ in steps.did if id_.endswith(place) or "part" in id_][1:] == [
        *parts,
        f"build_pytorch_wheels/{place}",
        f"install_pytorch_wheels/{place}",
        f"test_pytorch_on_host/{place}",
        *[id_ for id_ in steps.did if id_.startswith("test_pytorch_wheels")],
        f"stage_pytorch_wheels/{place}",
        f"gate/{place}",
        f"promote/{place}",
    ]
    assert steps.seen["setup"]["PROFILE"] == "nightly"
    assert steps.seen["setup"]["PLATFORMS"] == "linux"


def test_a_build_that_fails_stops_no_other() -> None:
    choice = asked("ci", ("gfx906",), ("3.11", "3.12"))
    broken = "build_pytorch_wheels/linux/cp311/nightly/gfx906"
    steps, _, ended = run_plan(FILES, planned(choice), broken=frozenset([broken]))
    assert ended == FAILED
    assert "promote/linux/cp312/nightly/gfx906" in steps.did
    assert [id_ for id_ in steps.did if "cp311" in id_] == [broken, "gate/linux/cp311/nightly/gfx906"]
    # The last one tells what became of each.
    assert '"linux_build_and_test"' in steps.seen["summary"]["NEEDS_JSON"]


def test_a_family_without_runner_is_skipped_and_the_rest_goes_on() -> None:
    choice = asked("ci", ("gfx900-dgpu",), ("3.12",))
    plan = planned(choice)
    assert [cell.skip for cell in plan.cells if cell.kind == "test-pytorch"] != [""]
    steps, runner, ended = run_plan(FILES, plan)
    assert ended == DONE
    assert (TESTS, "test_pytorch_wheels_linux", SKIPPED) in runner.jobs
    assert not [id_ for id_ in steps.did if "test_pytorch_wheels" in id_ or "test_rocm" in id_]
    assert "promote/linux/cp312/nightly/gfx900-dgpu" in steps.did


def test_tests_run_on_the_label_of_the_family() -> None:
    choice = asked("ci", ("gfx94X-dcgpu",), ("3.12",))
    plan = planned(choice)
    (job,) = [job for job in plan.jobs if job.name == "test_pytorch_wheels"]
    assert job.runner
    steps, runner, _ = run_plan(FILES, plan)
    assert (
        ".github/workflows/test_pytorch_wheels.yml",
        "test_pytorch_wheels_linux",
        job.runner,
    ) in runner.jobs
    # Both sources of packages, for who reads the log.
    log = steps.seen[job.id]
    assert log["TORCH_VERSION"].startswith("torch_version of build_pytorch_wheels/")
    assert log["ROCM_PACKAGE_FIND_LINKS_URL"].endswith("of build_python_packages/linux/gfx94X-dcgpu")


def test_a_run_that_may_not_write_assumes_no_role_and_takes_no_machine() -> None:
    choice = asked("ci", ("gfx94X-dcgpu",), ("3.12",))
    steps, runner, ended = run_plan(FILES, planned(choice, Publication(False, False, "a fork")))
    assert ended == DONE
    assert not [name for name, _ in runner.actions if name.startswith("aws-actions/")]
    assert steps.did == []
    assert [name for _, name, label in runner.jobs if label != SKIPPED] == ["setup"]


@pytest.mark.parametrize(
    ("head", "store", "role", "results"),
    [
        ("somebody/r", "s3://b/x", "", "artifacts"),
        # Of a repository that is itself a fork, a change in it is no other's.
        ("o/r", "s3://b/x", "arn:aws:iam::1:role/ci", "store"),
        # Without a store nothing is to be written that needs a role.
        ("o/r", "", "", "artifacts"),
    ],
)
def test_a_role_is_taken_only_for_a_store_of_ones_own(head: str, store: str, role: str, results: str) -> None:
    event = {"pull_request": {"number": 3, "head": {"repo": {"fork": True, "full_name": head}}}}
    github = {"workflow": "CI", "run_id": "1", "event_name": "pull_request", "event": event}
    steps = Steps(planned(asked("ci", ("gfx900-dgpu",), ("3.12",))))
    variables = {"ROCWRIGHT_CI_ROLE": "arn:aws:iam::1:role/ci", "ROCWRIGHT_STORE": store}
    runner = Runner(FILES, steps, {**github, "repository": "o/r"}, variables)
    assert runner.start(CI).result == DONE
    assert {seen["ROCWRIGHT_ROLE"] for seen in steps.seen.values()} == {role}
    assert {seen["ROCWRIGHT_CARRY"] for seen in steps.seen.values()} == {results}
    assert {seen["ROCWRIGHT_STORE"] for seen in steps.seen.values()} == {store if role else ""}
    assert len([name for name, _ in runner.actions if name.startswith("aws-")]) == (
        len(steps.seen) if role else 0
    )
    taken = {given["pattern"] for name, given in runner.actions if name == "actions/download-artifact"}
    # What is done for a group sees its files; whatever else, only records.
    groups = {"rocwright.records.*", "rocwright.{records,gfx900-dgpu}.*"}
    assert taken == (groups if results == "artifacts" else set())


def test_what_a_step_hands_on_is_kept_also_where_it_failed() -> None:
    build = "build_pytorch_wheels/linux/cp312/nightly/gfx900-dgpu"
    steps = Steps(planned(asked("ci", ("gfx900-dgpu",), ("3.12",))), frozenset([build]))

    def act(command: str, env: Mapping[str, str]) -> dict[str, str]:
        told, name = steps(command, env), env.get("ID", "setup")
        if told is None:
            raise Failed({"carried_records": f"r {name}", "carried_files": f"f {name}"})
        return {**told, "carried_records": f"r {name}"} if "pipeline" in command else {}

    runner = Runner(FILES, act, {"workflow": "CI", "run_id": "1", "event_name": "push", "event": {}})
    assert runner.start(CI).result == FAILED
    kept = {row["name"]: row["path"] for name, row in runner.actions if name == "actions/upload-artifact"}
    assert kept["r setup"] == kept["r summary"] == kept[f"r {build}"] == "run/carried/out/records"
    assert [name for name, path in kept.items() if path == "run/carried/out/files"] == [f"f {build}"]


def test_a_role_that_is_refused_ends_the_run_red_and_its_summary_is_told() -> None:
    steps = Steps(planned(asked("ci", ("gfx900-dgpu",), ("3.12",))))
    github = {"workflow": "CI", "run_id": "1", "event_name": "push", "event": {}}
    variables = {"ROCWRIGHT_CI_ROLE": "arn:aws:iam::1:role/ci", "ROCWRIGHT_STORE": "s3://b"}
    refused = frozenset(["aws-actions/configure-aws-credentials"])
    runner = Runner(FILES, steps, github, variables, refused=refused)
    assert runner.start(CI).result == FAILED
    assert steps.seen["setup"]["ROCWRIGHT_ROLE"] == "arn:aws:iam::1:role/ci"
    assert steps.did == ["summary"]
    assert json.loads(steps.seen["summary"]["NEEDS_JSON"])["setup"]["result"] == FAILED


@pytest.mark.parametrize(
    ("type_", "profile", "role"),
    [("", "nightly", "N"), ("nightly", "nightly", "N"), ("prerelease", "release", "R"), ("dev", "dev", "")],
)
def test_a_release_type_has_its_own_profile_and_role(type_: str, profile: str, role: str) -> None:
    steps = Steps(planned(asked("release", ("gfx900-dgpu",), ("3.12",))))
    variables = {"ROCWRIGHT_STORE": "s3://b", "ROCWRIGHT_NIGHTLY_ROLE": "N", "ROCWRIGHT_RELEASE_ROLE": "R"}
    runner = Runner(FILES, steps, {"workflow": "r", "run_id": "1", "event_name": "", "event": {}}, variables)
    runner.start(RELEASE, {"release_type": type_} if type_ else {})
    assert (steps.seen["setup"]["PROFILE"], steps.seen["setup"]["ROLE"]) == (profile, role)
    # Of another type no role is ever taken instead.
    given = {row["role-to-assume"] for name, row in runner.actions if name.startswith("aws-")}
    assert given == ({role} if role else set())


def test_nothing_to_do_ends_green_and_a_lost_setup_does_not() -> None:
    github = {"workflow": "CI", "run_id": "1", "event_name": "push", "event": {}}
    idle = {
        "run": "false",
        "upload": "false",
        "linux_groups": "[]",
        "windows_groups": "[]",
        "lock_sources": "[]",
    }
    runner = Runner(FILES, lambda command, env: idle if "setup" in command else {}, github)
    assert runner.start(CI).result == DONE
    assert [name for _, name, label in runner.jobs if label != SKIPPED] == ["setup"]
    lost = Runner(FILES, lambda command, env: None if "pipeline" in command else {}, github)
    assert lost.start(CI).result == FAILED
    assert [name for _, name, label in lost.jobs if label != SKIPPED] == ["setup", "ci_summary"]


def test_the_largest_matrix_fits_what_github_passes_on() -> None:
    # Outputs of a job: a megabyte, two bytes for each character. Jobs of a matrix: 256.
    for profile, platform, grouping in product(
        ("nightly", "release"), ("linux", "windows"), get_args(Grouping)
    ):
        choice = Choice(profile=profile, run_id="1", platforms=(platform,), grouping=grouping)
        told = workflow_outputs(planned(choice))
        assert sum(map(len, told.values())) * 2 < 1_000_000
        groups = json.loads(told[f"{platform}_groups"])
        # Families that are tested, and those that nobody tests.
        assert 2 < len(groups) <= 256 if grouping == "family" else len(groups) == 2
        assert {len(group["builds"]) <= 256 for group in groups} == {True}


# --- any definition

_SHAPES: tuple[tuple[tuple[Axis, ...], bool], ...] = (
    (("platform", "ref"), False),
    (("platform", "group"), False),
    (("platform", "group", "family"), True),
    (("platform", "python", "ref", "group"), False),
    (("platform", "python", "ref", "group", "part"), False),
    (("platform", "python", "ref", "group", "family"), True),
)
_LEVEL = (0, 1, 1, 2, 2, 2)
_NUMBERS = st.lists(st.sampled_from(range(len(_SHAPES))), min_size=1, max_size=7)


@st.composite
def definitions(draw: st.DrawFn) -> tuple[Kind, ...]:
    """Kinds in any order of need that workflows can have: what a group has waits for none of its builds."""
    found: list[tuple[int, Kind]] = []
    for number, shape in enumerate(
        draw(st.lists(st.sampled_from(range(len(_SHAPES))), min_size=1, max_size=7))
    ):
        axes, gpu = _SHAPES[shape]
        # A test is needed by what is last only.
        open_ = [kind.name for level, kind in found if level <= _LEVEL[shape] and not kind.gpu]
        needs = draw(st.lists(st.sampled_from(open_), unique=True, max_size=3)) if open_ else []
        found.append((_LEVEL[shape], Kind(f"k{number}", f"job_{number}", axes, tuple(needs), gpu=gpu)))
    return tuple(kind for _, kind in found)


def plan_of(kinds: tuple[Kind, ...]) -> Plan:
    groups = (
        Group("g1", ("gfx906",), ("gfx906", "other"), platform="linux"),
        Group("g2", (), ("f",), platform="linux"),
    )
    rows = [
        Row("linux", python, ref, group, ("a", "b"))
        for group in groups
        for python in ("3.11", "3.12")
        for ref in ("x/1", "y")
    ]
    cells = make_cells(
        kinds,
        rows,
        settings=lambda kind, row: {},
        runner=lambda family, _: ("", "none") if family == "other" else (family, ""),
    )
    return Plan(1, "ci", "1", "upstream", Rocm(), OPEN, groups, cells, make_jobs(cells))


@pytest.mark.slow
@MANY
@given(kinds=definitions(), data=st.data())
def test_any_definition_is_rendered_in_its_order(kinds: tuple[Kind, ...], data: st.DataObject) -> None:
    runs = dict.fromkeys(("linux", "windows"), ((*kinds, SUMMARY),))
    files: dict[str, dict[str, Any]] = {
        f".github/workflows/{name}.yml": load(workflow_text(workflow, TABLE))
        for name, workflow in workflows(runs, PROFILES, TABLE).items()
    }
    action = workflow_text(step_action(TABLE, ("rocm_package_find_links_url", "torch_version")), TABLE)
    files[".github/actions/step/action.yml"] = load(action)
    plan = plan_of(kinds)
    broken = frozenset(data.draw(st.lists(st.sampled_from([job.id for job in plan.jobs]), max_size=2)))
    steps, _, _ = run_plan(files, plan, broken=broken)
    done: list[str] = []
    for id_ in steps.did[:-1]:
        (job,) = [job for job in plan.jobs if job.id == id_]
        assert set(job.needs) <= set(done), f"{id_} before {job.needs}"
        done += [] if id_ in broken else [id_]
    # Matrices are waited for as a whole, and so are calls: one that breaks can stop more than the plan says.
    wanted = set(expected(plan, broken))
    assert set(steps.did[:-1]) <= wanted
    if not broken:
        assert set(steps.did[:-1]) == wanted


def test_a_kind_that_is_added_is_a_job() -> None:
    axes: tuple[Axis, ...] = ("platform", "python", "ref", "group")
    jax = Kind("build-jax", "build_jax_wheels", axes, ("upload-rocm", "build-torch"))
    kinds = tuple((*run, jax) for run in every_kind(KNOWN.projects["linux"]))
    files = workflows({"linux": kinds, "windows": kinds}, PROFILES, TABLE)
    job = files["build_portable_linux_pytorch_wheels"].jobs["build_jax_wheels"]
    assert set(job.needs) == {"build_pytorch_wheels", "build_torch_part"}
    assert "build_jax_wheels" not in files["ci_linux"].jobs


def test_a_group_cannot_wait_for_its_builds() -> None:
    kinds = (
        Kind("wheel", "builds", ("platform", "python", "ref", "group")),
        Kind("all", "collects", ("platform", "group"), ("wheel",)),
    )
    with pytest.raises(InvalidInput, match="collects of each group waits for builds"):
        job_kinds([kinds])


# --- the files of this repository


def test_the_workflows_are_as_they_are_rendered() -> None:
    for path, text in github_files(KNOWN.projects, PROFILES, TABLE).items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, f"stale: {path} (rocwright pipeline render)"


def test_documented_names() -> None:
    there = {PurePosixPath(path).stem for path in FILES if "workflows" in path}
    assert there == {
        *("ci", "ci_linux", "ci_windows", "rocwright", "test_pytorch_wheels", "test_rocm_wheels"),
        *("build_portable_linux_pytorch_wheels", "build_windows_pytorch_wheels"),
        *("release_portable_linux_pytorch_wheels", "release_windows_pytorch_wheels"),
    }
    group, build = (
        FILES[f".github/workflows/{name}.yml"] for name in ("ci_linux", "build_portable_linux_pytorch_wheels")
    )
    assert {
        *("build_portable_linux_artifacts", "build_portable_linux_python_packages"),
        *("test_rocm_wheels", "build_pytorch_wheels"),
    } <= group["jobs"].keys()
    assert {"build_pytorch_wheels", "test_pytorch_wheels", "gate", "promote"} <= build["jobs"].keys()
    assert {"setup", "ci_summary"} <= FILES[CI]["jobs"].keys()
    call = build["on"]["workflow_call"]
    assert {"pytorch_package_find_links_url", "torch_version"} <= call["outputs"].keys()
    assert {
        *("artifact_group", "amdgpu_families", "python_version", "pytorch_git_ref"),
        *("rocm_package_find_links_url", "rocm_version"),
    } <= call["inputs"].keys()
    test = FILES[".github/workflows/test_pytorch_wheels.yml"]["on"]["workflow_call"]["inputs"]
    assert {
        *("amdgpu_family", "test_runs_on", "package_find_links_url", "python_version"),
        *("torch_version", "pytorch_git_ref"),
    } <= test.keys()


def test_every_job_asks_for_the_least() -> None:
    for path, workflow in FILES.items():
        if "workflows" not in path:
            continue
        for name, job in workflow["jobs"].items():
            allowed = [{"contents": "read"}, {"contents": "read", "id-token": "write"}]
            assert job["permissions"] in allowed, (path, name)
            # Only a machine that a variable names takes longer than GitHub's own.
            assert "uses" in job or limits(job)[1] <= 360, (path, name)
            assert "uses" in job or limits(job)[0] <= 720, (path, name)
            commands = [step["run"] for step in job.get("steps", []) if "run" in step]
            assert all("\n" not in command for command in commands), "logic belongs into the tool"
            assert "/etc/" not in str(job.get("container")), "a file that only some machines have"
            image = job.get("container", {}).get("image", "@sha256:")
            assert "@sha256:" in image
            if "vars." in image:
                # A repository names another one, or none.
                assert image.endswith("|| '' }}") and "!= 'none'" in image
        assert "pull_request_target" not in workflow["on"]


def test_every_wait_fits_the_limits_of_roles() -> None:
    for path, workflow in FILES.items():
        for job in workflow.get("jobs", {}).values():
            for step in job.get("steps", []):
                if step.get("uses", "").startswith("./"):
                    wanted = tuple(max(900, min(minutes * 60, 43200)) for minutes in limits(job))
                    assert pair(step["with"]["seconds"]) == wanted, path


def limits(job: dict[str, Any]) -> tuple[int, int]:
    """Minutes on a machine that a variable names, and on GitHub's own."""
    return pair(job["timeout-minutes"])


def pair(value: int | str) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    found = re.fullmatch(r"\$\{\{ vars\.ROCWRIGHT_(?:LINUX|WINDOWS)_RUNNER && (\d+) \|\| (\d+) \}\}", value)
    assert found, value
    return int(found[1]), int(found[2])


def test_only_where_paths_are_short_on_windows_is_the_machine_changed() -> None:
    for path, workflow in FILES.items():
        for name, job in workflow.get("jobs", {}).items():
            if "steps" not in job or "workflows/rocwright" in path:
                continue
            windows = "windows" in str(job["runs-on"]).lower() or name.endswith("_windows")
            lines = [step["run"] for step in job["steps"] if step.get("continue-on-error") and "run" in step]
            work = {**workflow.get("env", {}), **job.get("env", {})}.get("ROCWRIGHT_WORK_DIR", "")
            assert bool(work) is windows, (path, name)
            assert ("git config --system core.longpaths true" in lines) is windows, (path, name)
            assert any("LongPathsEnabled" in line for line in lines) is windows, (path, name)


def test_the_checks_of_this_repository_trust_its_files_and_ask_for_no_role() -> None:
    (job,) = FILES[".github/workflows/rocwright.yml"]["jobs"].values()
    runs = [step["run"] for step in job["steps"] if "run" in step]
    assert 'git config --global --add safe.directory "$GITHUB_WORKSPACE"' in runs[:-1]
    assert job["permissions"] == {"contents": "read"}
