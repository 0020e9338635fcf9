"""`rocwright pipeline setup` and its neighbours as a workflow runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import status
from rocwright import cli
from rocwright.cli.documented import run as run_script
from rocwright.data import load_table
from rocwright.model.gpu import Families
from rocwright.model.plan import Plan, parse_plan
from rocwright.model.runners import Runners
from rocwright.pipeline.records import read_plan
from rocwright.pipeline.setup.run import latest_packages
from rocwright.store.objects.address import open_store
from rocwright.store.runs.run import Result, Run, RunFile, run_record, save_record

ROOT = Path(__file__).resolve().parents[4]
SCRIPTS = ROOT / "build_tools" / "github_actions"
FILES = (RunFile("rocm-1.tar.gz", "0" * 64, 1),)
DROPPED = ("GITHUB_", "ROCWRIGHT_", "AWS_", "ROCM_THEROCK", "RUNNER_")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the machine that runs the tests, and an empty directory."""
    import os

    for name in list(os.environ):
        if name.startswith(DROPPED):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)


def call(*words: str) -> int:
    """The exit code of a command."""
    return status("pipeline", *words)


def script(name: str, *words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        run_script(str(SCRIPTS / name), words)
    return int(ended.value.code or 0)


def told(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def workflow(monkeypatch: pytest.MonkeyPatch, name: str, payload: object, **more: str) -> Path:
    """A workflow's environment with faked files; the answer is the file of outputs."""
    Path("event.json").write_text(json.dumps(payload))
    Path("output").touch()
    for key, value in {
        "GITHUB_EVENT_NAME": name,
        "GITHUB_EVENT_PATH": "event.json",
        "GITHUB_OUTPUT": "output",
        "GITHUB_STEP_SUMMARY": "summary.md",
        "GITHUB_RUN_ID": "100",
        "GITHUB_REF_NAME": "main",
        "ROCWRIGHT_STORE": "store",
        **more,
    }.items():
        monkeypatch.setenv(key, value)
    return Path("output")


def uploaded(run: str, groups: tuple[str, ...], platform: str = "linux", result: Result = "success") -> None:
    """What `store upload` records of a run's ROCm packages."""
    there = Run(run, platform)
    for group in groups:
        save_record(open_store("store"), there, run_record(there, "python", group, result, FILES))


PRESUBMIT = Runners(load_table("families", Families).family).tier_families("linux", "presubmit")


def test_a_workflow_is_told_what_to_run_and_the_plan_is_recorded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = workflow(
        monkeypatch, "workflow_dispatch", {"inputs": {"linux_amdgpu_families": "gfx94X,gfx1151"}}
    )
    assert call("setup", "--sources", "upstream") == 0
    found = told(output.read_text())
    assert (found["run"], found["upload"], found["run_id"], found["test_level"]) == (
        "true",
        "true",
        "100",
        "quick",
    )
    groups = json.loads(found["linux_groups"])
    assert [group["group"] for group in groups] == ["gfx94X-dcgpu", "gfx1151"]
    assert json.loads(found["windows_groups"]) == []
    plan = read_plan(open_store("store"), "100")
    assert {job.id for job in plan.jobs} >= {groups[0]["jobs"]["build_python_packages"]}
    # Stdout is data, and a workflow reads its file.
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "this run was started by hand" in captured.err
    assert "gfx1151" in Path("summary.md").read_text()


def test_a_fork_uploads_nothing_and_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pull = {"head": {"repo": {"full_name": "me/r"}}, "base": {"repo": {"full_name": "o/r"}, "ref": "main"}}
    output = workflow(monkeypatch, "pull_request", {"pull_request": pull})
    assert call("setup") == 0
    found = told(output.read_text())
    assert (found["run"], found["upload"]) == ("true", "false")
    assert "fork" in capsys.readouterr().err
    assert not Path("store").exists()


def test_without_credentials_nothing_is_asked_of_the_bucket(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    output = workflow(
        monkeypatch, "schedule", {}, ROCWRIGHT_STORE="s3://bucket-of-nobody", HOME=str(tmp_path)
    )
    assert call("setup") == 0
    assert told(output.read_text())["upload"] == "false"
    assert "credentials" in capsys.readouterr().err


def test_nothing_to_run_is_told_in_every_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pull = {"labels": [{"name": "ci:skip"}]}
    output = workflow(monkeypatch, "pull_request", {"pull_request": pull})
    assert call("setup") == 0
    found = told(output.read_text())
    assert found["run"] == "false"
    assert [found[name] for name in ("linux_groups", "windows_groups", "lock_sources")] == ["[]"] * 3
    assert "ci:skip" in Path("summary.md").read_text()
    assert not Path("store").exists()


def test_no_text_of_others_becomes_an_output_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = [{"name": "ci:\nupload=true\nrun=false"}, {"name": "test:x\nupload=true"}]
    head = {"repo": {"full_name": "me/r"}}
    output = workflow(monkeypatch, "pull_request", {"pull_request": {"labels": labels, "head": head}})
    assert call("setup") == 0
    lines = output.read_text().splitlines()
    assert [line for line in lines if line.startswith(("run=", "upload="))] == ["run=true", "upload=false"]
    assert len({line.partition("=")[0] for line in lines}) == len(lines)


def test_a_run_that_is_attempted_again_keeps_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    workflow(monkeypatch, "schedule", {})
    assert call("setup", "--python-versions", "3.12") == 0
    first = read_plan(open_store("store"), "100")
    # Not without an attempt of its own: plans of one run never mix.
    assert call("setup", "--python-versions", "3.13") == 3
    monkeypatch.setenv("GITHUB_RUN_ATTEMPT", "2")
    Path("output").write_text("")
    assert call("setup", "--python-versions", "3.13") == 0
    assert read_plan(open_store("store"), "100") == first
    assert "cp312" in Path("output").read_text() and "cp313" not in Path("output").read_text()


def decided(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[dict[str, object], Plan | None]:
    assert call("setup", "--json", "--store", "store", *words) == 0
    found = json.loads(capsys.readouterr().out)
    plan = found["plan"]
    return found["decision"], None if plan is None else parse_plan(json.dumps(plan).encode(), where="stdout")


def test_a_change_of_pytorch_runs_no_step_of_rocm(capsys: pytest.CaptureFixture[str]) -> None:
    uploaded("98", PRESUBMIT)
    uploaded("99", PRESUBMIT[:-1])
    words = ("--event", "pull_request", "--platforms", "linux", "--sources", "upstream")
    changed = ("--changed-file", "external-builds/pytorch/build_prod_wheels.py")
    _, plan = decided(capsys, *words, *changed)
    assert plan is not None
    kinds = {cell.kind for cell in plan.cells}
    assert "build-torch" in kinds
    assert not kinds & {"rocm-artifacts", "check-rocm", "test-rocm"}
    assert {cell.settings["rocm"] for cell in plan.cells if cell.kind == "rocm-packages"} == {"packages 98"}
    _, built = decided(capsys, *words, "--changed-file", "src/rocwright/sdk/build.py")
    assert built is not None and "rocm-artifacts" in {cell.kind for cell in built.cells}


def test_the_decision_as_lines_for_a_local_try(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("setup", "--event", "pull_request", "--changed-file", "docs/x.md") == 0
    captured = capsys.readouterr()
    assert told(captured.out)["run"] == "false"
    assert "docs/x.md (documentation)" in captured.err
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        ((), 3, "nothing says which event"),
        (("--label", "x"), 2, "no --event names it"),
        (("--event", "push", "--input", "a=1"), 2, "a push has no inputs"),
        (("--event", "push", "--changed-file", "a", "--changed-since", "HEAD"), 2, "both say what changed"),
        (("--event", "push", "--changed-since", "v9"), 3, "'v9'"),
        (("--event", "schedule", "--profile", "nightyl"), 3, "nightyl"),
        (("--event", "schedule", "--plan", "plan.json"), 2, "plan.json is a plan already"),
        (("--event", "pull_request", "--label", "gfx77"), 3, "the label gfx77"),
        (("--event", "pull_request", "--label", "ci:pytorch", "--label", "ci:no-pytorch"), 2, "contradict"),
    ],
)
def test_mistakes_are_named(
    words: tuple[str, ...], code: int, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("setup", *words) == code
    captured = capsys.readouterr()
    assert named in captured.err and captured.out == ""
    assert list(Path().iterdir()) == []


# ---- reuse


def test_the_latest_run_with_all_of_it_is_taken() -> None:
    store = open_store("store")
    wanted = {"linux": ("a", "b"), "windows": ("a",)}
    assert latest_packages(store, wanted, own="100") == ""
    uploaded("7", ("a", "b"))
    uploaded("7", ("a",), "windows")
    uploaded("8", ("a", "b"))
    uploaded("9", ("a",))
    uploaded("9", ("b",), result="failure")
    uploaded("9", ("a",), "windows")
    uploaded("100", ("a", "b"))
    uploaded("100", ("a",), "windows")
    # 8 has nothing for Windows, a group of 9 failed, 100 is the run that asks.
    assert latest_packages(store, wanted, own="100") == "7"
    assert latest_packages(store, {"linux": ("a", "b")}, own="100") == "8"
    assert latest_packages(store, wanted, own="101") == "100"
    assert latest_packages(store, {}, own="1") == ""


# ---- the documented scripts


def test_families_expand_to_targets_and_extras(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--amdgpu-families", "gfx94X-dcgpu;gfx120X-all")
    assert script("expand_amdgpu_families.py", *words) == 0
    assert capsys.readouterr().out == "gfx942,gfx1200,gfx1201\n"
    monkeypatch.setenv("GITHUB_OUTPUT", "output")
    assert script("expand_amdgpu_families.py", *words, "--output-mode=device-extras") == 0
    assert capsys.readouterr().out == "device-gfx942,device-gfx1200,device-gfx1201\n"
    assert Path("output").read_text() == "device_extras=device-gfx942,device-gfx1200,device-gfx1201\n"
    assert script("expand_amdgpu_families.py", "--amdgpu-families", "GFX94x-dcgpu GFX1201") == 0
    assert capsys.readouterr().out == "gfx942,gfx1201\n"
    both = ("--amdgpu-families", "gfx125X-dcgpu;gfx1250-strict")
    assert script("expand_amdgpu_families.py", *both) == 0
    assert capsys.readouterr().out == "gfx1250,gfx1250-strict\n"
    assert script("expand_amdgpu_families.py", *both, "--output-mode=device-extras") == 0
    assert capsys.readouterr().out == "device-gfx1250\n"
    assert script("expand_amdgpu_families.py", "--amdgpu-families", "gfx94X-dcgpu;gfx9") == 3
    captured = capsys.readouterr()
    assert "'gfx9'" in captured.err and "gfx120X-all" in captured.err and captured.out == ""


def test_the_table_of_families_under_the_names_of_workflows(capsys: pytest.CaptureFixture[str]) -> None:
    assert script("amdgpu_family_matrix.py", "--json", "--platform", "linux", "--tier", "presubmit") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["family"] for row in rows] == list(PRESUBMIT)
    assert rows[0]["test-runs-on"] == "linux-gfx942-1gpu-ccs-csp-ossci-rocm"
    assert rows[0]["test-runs-on-multi-gpu"] == "linux-gfx942-8gpu-ossci-rocm"
    assert [row["bypass_tests_for_releases"] for row in rows] == [False, True, True, True]
    assert call("families", "--tier", "presubmit") == 0
    table = capsys.readouterr().out
    assert all(row["family"] in table for row in rows)
    assert "bypass until" in " ".join(table.split())


def test_another_label_from_the_variable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCM_THEROCK_TEST_RUNNERS", '{"gfx1151": "my-strix"}')
    assert (
        script(
            "configure_pytorch_test_matrix.py", "--build-amdgpu-families", "gfx1151", "--platform", "linux"
        )
        == 0
    )
    assert told(capsys.readouterr().out) == {
        "enabled": "true",
        "matrix": '{"include":[{"amdgpu_family":"gfx1151","test_runs_on":"my-strix"}]}',
    }
    monkeypatch.setenv("ROCM_THEROCK_TEST_RUNNERS", "{gfx1151: x}")
    assert call("families") == 3
    assert "ROCM_THEROCK_TEST_RUNNERS" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "platform", "rows"), [("ci", "linux", 2), ("ci", "windows", 1), ("nightly", "linux", 20)]
)
def test_the_matrix_of_builds(
    kind: str, platform: str, rows: int, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--release-type", kind, "--platform", platform)
    assert script("configure_pytorch_release_matrix.py", *words) == 0
    found = json.loads(told(capsys.readouterr().out)["pytorch_matrix"])
    assert len(found) == rows
    assert set(found[0]) == {"python_version", "pytorch_git_ref", "amdgpu_families", "test_amdgpu_families"}


def test_the_release_type_may_stand_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RELEASE_TYPE", "ci")
    assert script("configure_pytorch_release_matrix.py", "--platform", "windows") == 0
    assert len(json.loads(told(capsys.readouterr().out)["pytorch_matrix"])) == 1
    # An option goes before it.
    assert (
        script("configure_pytorch_release_matrix.py", "--platform", "windows", "--release-type=nightly") == 0
    )
    assert len(json.loads(told(capsys.readouterr().out)["pytorch_matrix"])) == 20


def test_the_matrix_of_builds_leaves_out_what_a_branch_does_not_support(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("--platform", "linux", "--amdgpu-families", "gfx90c;gfx94X-dcgpu", "--python-versions", "3.12")
    refs = ("--pytorch-git-refs", "release/2.13, nightly")
    assert script("configure_pytorch_release_matrix.py", *words, *refs) == 0
    found = json.loads(told(capsys.readouterr().out)["pytorch_matrix"])
    assert [row["amdgpu_families"] for row in found] == ["gfx94X-dcgpu", "gfx90c;gfx94X-dcgpu"]
    assert [row["test_amdgpu_families"] for row in found] == ["gfx94X-dcgpu"] * 2
    only = ("--amdgpu-families", "gfx90c", "--pytorch-git-refs", "release/2.13", "--platform", "linux")
    assert script("configure_pytorch_release_matrix.py", *only) == 0
    assert told(capsys.readouterr().out) == {"pytorch_matrix": "[]"}


@pytest.mark.parametrize(
    ("tested", "families", "said"),
    [
        ("auto", ["gfx94X-dcgpu"], "gfx906 is not tested: there is no runner"),
        ("none", [], "no family is to be tested"),
        ("gfx94X-dcgpu", ["gfx94X-dcgpu"], ""),
    ],
)
def test_the_matrix_of_tests(
    tested: str, families: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--build-amdgpu-families", "gfx94X-dcgpu;gfx906", "--test-amdgpu-families", tested)
    assert script("configure_pytorch_test_matrix.py", *words, "--platform", "linux") == 0
    captured = capsys.readouterr()
    found = told(captured.out)
    assert found["enabled"] == ("true" if families else "false")
    assert [row["amdgpu_family"] for row in json.loads(found["matrix"])["include"]] == families
    assert said in captured.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            ("--build-amdgpu-families", "gfx906", "--test-amdgpu-families", "gfx1151"),
            "gfx1151, which is not built",
        ),
        (
            ("--build-amdgpu-families", "gfx906", "--test-amdgpu-families", "auto;gfx906"),
            "together with other names",
        ),
        (("--build-amdgpu-families", "gfx9"), "gfx94X-dcgpu"),
    ],
)
def test_a_matrix_of_tests_that_means_nothing(
    words: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script("configure_pytorch_test_matrix.py", *words) in (2, 3)
    assert named in capsys.readouterr().err


def test_the_documented_name_of_setup(capsys: pytest.CaptureFixture[str]) -> None:
    assert script("configure_ci.py", "--event", "pull_request", "--changed-file", "README.md") == 0
    assert told(capsys.readouterr().out)["run"] == "false"


def test_the_miniature_family_is_built_on_the_packages_of_an_earlier_run_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("--event", "push", "--sources", "miniature", "--changed-file")
    _, built = decided(capsys, *words, "src/rocwright/sdk/build.py")
    assert built is not None
    (group,) = built.groups
    uploaded("99", (group.name,))
    _, taken = decided(capsys, *words, "src/rocwright/builder/order.py")
    assert taken is not None
    # The same name: that is where the packages lie.
    assert (taken.rocm.at, taken.groups) == ("99", built.groups)


# --- what a repository lacks


def page() -> str:
    return Path("summary.md").read_text("utf-8")


FORK = {
    "pull_request": {
        "head": {"repo": {"full_name": "me/r"}},
        "base": {"repo": {"full_name": "o/r"}, "ref": "main"},
    }
}
DAY_ONE = {"ROCWRIGHT_STORE": "", "ROCWRIGHT_CARRY": "artifacts", "ROCWRIGHT_SOURCES": "miniature"}


@pytest.mark.parametrize(
    ("name", "payload", "why"),
    [("push", {}, "no store is named"), ("pull_request", FORK, "the pull request is a fork's")],
)
def test_without_a_store_it_builds_and_tests_and_hands_its_plan_on(
    monkeypatch: pytest.MonkeyPatch, name: str, payload: object, why: str
) -> None:
    output = workflow(monkeypatch, name, payload, **DAY_ONE)
    assert call("setup", "--projects", "torch") == 0
    found = told(output.read_text())
    assert (found["run"], found["upload"]) == ("true", "true")
    (group,) = json.loads(found["linux_groups"])
    (build,) = group["builds"]
    assert {"build_pytorch_wheels", "install_pytorch_wheels"} <= build["jobs"].keys()
    # Nothing that changes a channel, or decides about it.
    assert not {"stage_pytorch_wheels", "gate", "promote"} & build["jobs"].keys()
    assert found["carried_records"] == "rocwright.records.setup.1"
    assert Path("run/carried/out/records/carried.json").is_file()
    assert f"{why}" in page() and "nothing is published" in page()


def test_to_publish_without_a_store_is_refused_with_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    workflow(monkeypatch, "workflow_dispatch", {"inputs": {"publish": "true"}}, **DAY_ONE)
    assert call("setup", "--profile", "nightly") == 3
    assert "### ❌ `setup` failed" in page()
    assert "nothing can be published" in page()
    assert "set ROCWRIGHT\\_STORE to s3://BUCKET/PREFIX and the variable ROCWRIGHT\\_NIGHTLY\\_ROLE" in page()


def test_a_night_without_a_store_builds_and_publishes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    output = workflow(monkeypatch, "schedule", {}, **DAY_ONE)
    assert call("setup", "--profile", "nightly", "--platforms", "linux", "--projects", "torch") == 0
    assert told(output.read_text())["run"] == "true"
    assert "nothing is published" in page()


def test_a_store_that_nobody_may_write_to_is_no_green_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    more = {"ROCWRIGHT_STORE": "s3://bucket-of-nobody", "ROCWRIGHT_CARRY": "store", "HOME": str(tmp_path)}
    workflow(monkeypatch, "push", {}, **more)
    assert call("setup", "--sources", "miniature") == 3
    assert "there are no credentials for the store" in page()
    assert "set the variable ROCWRIGHT\\_CI\\_ROLE" in page()


def test_a_role_that_was_refused_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    role = {"ROCWRIGHT_ROLE": "arn:aws:iam::1:role/ci", "ROCWRIGHT_ROLE_OUTCOME": "failure"}
    workflow(monkeypatch, "push", {}, **role)
    assert call("setup") == 3
    assert "the role arn:aws:iam::1:role/ci was refused" in page()
    assert "trust policy" in page()


@pytest.mark.parametrize(
    ("store", "code", "said"),
    [("/proc/rocwright", 3, "/proc/rocwright"), ("gopher://x", 3, "is not the address of a store")],
)
def test_a_store_that_cannot_be_written_is_named_on_the_page(
    monkeypatch: pytest.MonkeyPatch, store: str, code: int, said: str
) -> None:
    workflow(monkeypatch, "workflow_dispatch", {}, ROCWRIGHT_STORE=store)
    assert call("setup", "--sources", "miniature") == code
    assert "### ❌ `setup` failed" in page() and said in page()


def test_an_unknown_index_is_named_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    workflow(monkeypatch, "workflow_dispatch", {"inputs": {"rocm": "index:nihgtly"}})
    assert call("setup") == 2
    assert "### ❌ `setup` failed" in page() and "nihgtly" in page() and "next: " in page()


@pytest.mark.parametrize(
    ("fork", "said", "run"),
    [(False, "", "true"), (False, "off", "false"), (True, "", "false"), (True, "on", "true")],
)
def test_the_schedule_of_a_fork_starts_nothing_unless_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, fork: bool, said: str, run: str
) -> None:
    payload = {"repository": {"full_name": "me/r", "fork": fork}}
    output = workflow(monkeypatch, "schedule", payload, ROCWRIGHT_SCHEDULE=said)
    assert call("setup", "--sources", "miniature") == 0
    assert told(output.read_text())["run"] == run
    assert ("ROCWRIGHT\\_SCHEDULE" in page()) is (run == "false")


def test_what_hosted_machines_are_too_small_for_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = {"ROCWRIGHT_LINUX_RUNNER": "", "ROCWRIGHT_WINDOWS_RUNNER": "mine"}
    labels = {"inputs": {"amdgpu_families": "gfx110X-all"}}
    workflow(monkeypatch, "workflow_dispatch", labels, **machines)
    assert call("setup", "--sources", "upstream", "--rocm", "prefix:/opt/rocm") == 0
    assert "PyTorch is built on ubuntu-24.04: GitHub stops its jobs after 360 minutes" in page()
    assert "about 14 GB of disk" in page() and "ROCWRIGHT\\_LINUX\\_RUNNER" in page()
    assert "ROCWRIGHT\\_WINDOWS\\_RUNNER" not in page()


def test_no_test_waits_for_a_machine_with_a_gpu_that_nobody_named(monkeypatch: pytest.MonkeyPatch) -> None:
    output = workflow(monkeypatch, "workflow_dispatch", {"inputs": {"linux_amdgpu_families": "gfx94X-dcgpu"}},
                      ROCWRIGHT_TEST_FAMILIES="none")  # fmt: skip
    assert call("setup", "--sources", "upstream", "--rocm", "prefix:/opt/rocm") == 0
    (group,) = json.loads(told(output.read_text())["linux_groups"])
    rows = [row for build in group["builds"] for row in build["jobs"].get("test_pytorch_wheels", [])]
    assert {row["runner"] for row in rows} <= {""}
    assert "set the variable ROCWRIGHT\\_TEST\\_FAMILIES to auto" in page()
