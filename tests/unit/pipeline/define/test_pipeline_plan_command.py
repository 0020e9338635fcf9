"""`rocwright pipeline plan` as a user meets it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import msgspec
import pytest

from command_line import run_program
from rocwright.model.plan import Plan
from rocwright.pipeline.records import read_plan
from rocwright.store.objects.address import open_store


def run(cwd: Path, *words: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return run_program("pipeline", "plan", *words, cwd=cwd, env=env)


def told(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def test_the_view_says_what_would_be_done_and_written(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0
    text = done.stdout
    assert text.startswith("Run local of the profile ci: 21 steps in 12 jobs, 1 build of torch\n")
    for line in (
        "build_python_packages  linux 1 3 rocm-packages check-rocm upload-rocm build_artifacts",
        "local-linux/python/debian12/ upload-rocm/linux/debian12",
        "v2/debian12/ promote/linux/cp",
        "note: the miniature family is built",
        "2 debian12 is not tested on linux",
    ):
        assert " ".join(line.split()) in " ".join(text.split())
    # Nothing is made by looking.
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "env", "why"),
    [
        (
            ("--store", "s3://bucket/x"),
            {},
            "there are no credentials for the store",
        ),
        (
            ("--profile", "release", "--store", "shared", "--sources", "miniature"),
            {},
            "channels are changed only with --publish",
        ),
        (("--profile", "ci", "--store", "shared", "--publish"), {}, "own folder only"),
    ],
)
def test_a_dry_run_says_so_and_why(
    words: tuple[str, ...], env: dict[str, str], why: str, tmp_path: Path
) -> None:
    done = run(tmp_path, *words, env=env)
    assert done.returncode == 0
    assert "Not written: " in done.stdout and why in done.stdout


def test_json_is_the_plan_and_can_be_planned_from(tmp_path: Path) -> None:
    first = run(tmp_path, "--run-id", "77", "--device-groups", 2, "--json")
    plan = msgspec.json.decode(first.stdout, type=Plan)
    assert plan.run_id == "77"
    assert any(cell.kind == "merge-torch" for cell in plan.cells)
    (tmp_path / "plan.json").write_text(first.stdout)
    again = run(tmp_path, "--json", env={"ROCWRIGHT_PLAN": "plan.json"})
    assert again.stdout == first.stdout
    told(run(tmp_path, "--plan", "plan.json", "--split"), 2, "plan.json says what the run has")
    (tmp_path / "plan.json").write_text(first.stdout.replace('"kind"', '"kin"', 1))
    told(run(tmp_path, "--plan", "plan.json"), 3, "plan.json is not a plan of a run", "`kin`")


def test_ids_are_lines_that_can_be_chosen_from(tmp_path: Path) -> None:
    everything = run(tmp_path, "--ids").stdout.splitlines()
    assert len(everything) == 21 and everything[-1] == "summary"
    some = run(tmp_path, "--ids", "--only", "build-*", "--only", "gate/*")
    chosen = [id_ for id_ in everything if id_.startswith(("build-", "gate"))]
    assert some.stdout.splitlines() == chosen
    view = run(tmp_path, "--only", "build-torch/*")
    assert "note: taken from the records of the run, not done: rocm-packages/linux/debian12" in view.stdout
    assert "what it does, in order " in view.stdout
    told(run(tmp_path, "--only", "biuld-*"), 3, "no step 'biuld-*'", "build-")


@pytest.mark.slow
def test_recorded_plans_are_found_by_other_machines(tmp_path: Path) -> None:
    done = run(tmp_path, "--record", "--json", "--run-id", "5", "--store", "shared")
    assert done.returncode == 0, done.stderr
    there = read_plan(open_store(str(tmp_path / "shared")), "5")
    assert [cell.id for cell in there.cells] == [cell["id"] for cell in json.loads(done.stdout)["cells"]]
    told(run(tmp_path, "--record", "--only", "gate*"), 2, "--only selects a part of it")
    told(run(tmp_path, "--record", "--store", "s3://b/x"), 2, "the plan cannot be recorded")


@pytest.mark.slow
def test_variables_name_the_run_and_empty_ones_name_nothing(tmp_path: Path) -> None:
    def run_id(env: dict[str, str]) -> str:
        return str(json.loads(run(tmp_path, "--json", env=env).stdout)["run_id"])

    names = ("ROCWRIGHT_STORE", "ROCWRIGHT_RUN_ID", "ROCWRIGHT_PLAN", "ROCWRIGHT_SOURCES")
    empty = dict.fromkeys(names, "")
    assert run_id(empty) == "local"
    assert run_id({**empty, "GITHUB_RUN_ID": "123"}) == "123"
    assert run_id({"ROCWRIGHT_RUN_ID": "mine", "GITHUB_RUN_ID": "123"}) == "mine"
    told(run(tmp_path, env={"ROCWRIGHT_SOURCES": "x"}), 2, "ROCWRIGHT_SOURCES is 'x'")


_PROFILE = """
[[profiles.profile]]
name = "ours"
release_type = "dev"
platforms = ["linux"]
pythons = ["3.13"]
refs = ["main"]
tier = "nightly"
stage = "staging"
"""


def test_a_profile_and_a_family_of_ones_own(tmp_path: Path) -> None:
    more = '[families.families]\nours-all = ["gfx942"]\n[[families.family]]\nname = "ours-all"\n'
    more += 'tier = "presubmit"\nlinux = { pools = [{ label = "our-machine" }] }\n'
    (tmp_path / "rocwright.toml").write_text(more + _PROFILE)
    done = run(tmp_path, "--profile", "ours", "--families", "ours-all", "--json")
    plan = msgspec.json.decode(done.stdout, type=Plan)
    tests = [cell for cell in plan.cells if cell.kind == "test-pytorch"]
    assert [(cell.id, cell.runner) for cell in tests] == [
        ("test-pytorch/linux/cp313/main/ours-all", "our-machine")
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("nightly", "nigthly", "`$.profiles.profile[0].tier`"),
        ("3.13", "3", "profile ours has the Python '3'"),
        ("refs = [", "ref = [", "unknown field `ref`"),
        ('"staging"', '"stagin"', "stage = 'stagin', which is not a channel"),
        ('"main"', '"main", "main"', "profile ours gives one of its refs twice"),
        ('["linux"]', '["macos"]', "profile ours has the platform 'macos'"),
        ('"ours"', '"Ours!"', "'Ours!' is not a valid name of a profile"),
        ('["main"]', "[]", "profile ours has no refs"),
        ("[[profiles", "[[profils", "a table 'profils'"),
        ('refs = ["main"]', 'refs = ["main"', "line "),
    ],
)
def test_a_malformed_profile_is_told_by_file_and_field(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in _PROFILE
    (tmp_path / "rocwright.toml").write_text(_PROFILE.replace(old, new, 1))
    told(run(tmp_path, "--profile", "ours"), 3, "rocwright.toml", said)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--profile", "cii"), 3, "perhaps ci"),
        (("--rocm-prefix", "/opt", "--artifact-run-id", "1"), 2, "--rocm-prefix and --artifact-run-id"),
        (("--no-pytorch", "--pytorch-git-refs", "main"), 2, "--pytorch-git-refs"),
        (("--families", "gfx9999"), 3, "known families: "),
        (("--json", "--mermaid"), 2, "give one of them"),
    ],
)
def test_mistakes_end_with_their_code(words: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    told(run(tmp_path, *words), code, said)


def test_the_whole_release_matrix_has_the_cells_it_should(tmp_path: Path) -> None:
    targets = "gfx900 gfx906 gfx908 gfx90a gfx942 gfx950 gfx1010 gfx1011 gfx1012 gfx1030 gfx1031 gfx1032"
    targets += " gfx1033 gfx1034 gfx1035 gfx1036 gfx1100 gfx1101 gfx1102 gfx1103"
    release = ("--profile", "release", "--families", targets)
    done = run(tmp_path, *release, "--grouping", "family", "--json")
    plan = msgspec.json.decode(done.stdout, type=Plan)
    rows = 5 * 3 * 20
    # On Linux five projects, on Windows three; then split, check, upload, pip, uv, host, GPU, stage, gate and
    # promote.
    # ROCm: five for each group and platform. Branches are locked once a platform; one summary.
    assert len(plan.cells) == rows * (5 + 10) + rows * (3 + 10) + 2 * 20 * 5 + 2 * 3 + 1
    # Where it is said that all are tested: one build for all of them; ROCm once for a platform.
    done = run(tmp_path, *release, "--test-families", targets)
    steps = 15 * (5 + 9 + 20) + 15 * (3 + 9 + 20) + 2 * (4 + 20) + 2 * 3 + 1
    assert f": {steps} steps in " in done.stdout
    assert ", 30 builds of torch" in done.stdout
