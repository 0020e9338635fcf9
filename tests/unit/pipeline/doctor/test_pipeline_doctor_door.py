"""`rocwright pipeline doctor` at its door: what GitHub says, and what it says badly."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from command_line import Run
from index_server import multi_arch, serving
from rocwright.errors import UsageError
from rocwright.pipeline.doctor.repository import find_repository
from unit.pipeline.doctor.imitation import Bad, Imitation, runner
from unit.pipeline.doctor.visits import of, visited

UPSTREAM = {"ROCWRIGHT_ROCM": "index:http://127.0.0.1:9/simple/", "ROCWRIGHT_TEST_FAMILIES": "auto"}


def test_nothing_is_missing_without_a_bucket(github: Imitation) -> None:
    well, found = visited()
    assert well
    assert {one["id"]: one["verdict"] for one in found} == {
        "checkout": "ok",
        "github": "ok",
        "actions": "ok",
        "workflows": "ok",
        "variables": "ok",
        "images": "ok",
        "store": "note",
        "runners": "ok",
        "rocm": "note",
    }
    assert "results are GitHub's artifacts" in of(found, "store")["detail"]


def test_people_see_a_table_and_commands(github: Imitation, rocwright: Run) -> None:
    github.permissions["enabled"] = False
    done = rocwright("pipeline", "doctor", "--repository", "me/rocwright")
    assert done.code == 16
    assert "me/rocwright, profile ci" in done.out
    command = (
        "gh api --method PUT repos/me/rocwright/actions/permissions -F enabled=true -f allowed_actions=all"
    )
    assert f"next for actions: {command}" in done.lines
    assert "error (NotSetUp): 1 thing is missing or wrong" in done.err


@pytest.mark.parametrize(
    ("remote", "found"),
    [
        ("git@github.com:you/wheels.git", ("you/wheels", "github.com")),
        ("https://github.com/you/wheels", ("you/wheels", "github.com")),
        ("https://user:secret@github.com/you/wheels.git", ("you/wheels", "github.com")),
        ("ssh://git@git.example.org:22/you/wheels.x.git", ("you/wheels.x", "git.example.org")),
    ],
)
def test_the_remote_of_the_checkout_names_the_repository(
    remote: str, found: tuple[str, str], tmp_path: Path
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", remote], check=True)
    assert find_repository("", tmp_path, {}) == found
    assert find_repository("", tmp_path, {"GITHUB_REPOSITORY": "a/b"}) == ("a/b", "github.com")
    assert find_repository("c/d", tmp_path, {"GITHUB_SERVER_URL": "https://git.example.com"}) == (
        "c/d",
        "git.example.com",
    )


def test_a_token_goes_to_no_host_that_a_remote_names(
    github: Imitation, tmp_path: Path, rocwright: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_API_URL")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    remote = "https://127.0.0.1/me/rocwright"
    subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", remote], check=True)
    done = rocwright("pipeline", "doctor", "--json")
    condition = of(done.json["findings"], "github")
    assert condition["verdict"] == "unlooked"
    assert condition["next_step"] == "export GITHUB_API_URL=https://127.0.0.1/api/v3"
    # An Enterprise Server lends no machines.
    assert {one["verdict"] for one in done.json["findings"] if one["id"] == "runners"} == {"unlooked"}


def test_a_remote_that_is_a_folder_names_nothing(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", "/srv/git/x.git"], check=True)
    with pytest.raises(UsageError, match="nothing names a repository"):
        find_repository("", tmp_path, {})


def test_without_a_repository_nothing_is_asked(github: Imitation, rocwright: Run) -> None:
    assert rocwright("pipeline", "doctor").code == 2
    done = rocwright("pipeline", "doctor", "--repository", "not-a-name")
    assert done.code == 2
    assert "OWNER/NAME" in done.err
    assert github.asked == []


def test_stale_workflows_of_the_checkout_are_named(github: Imitation) -> None:
    well, found = visited(stale=("a.yml", "b.yml"))
    assert not well
    assert of(found, "checkout")["verdict"] == "wrong"
    assert of(found, "checkout")["detail"] == "a.yml and 1 more are not as rendered"


def test_without_a_token_the_shell_is_looked_at_and_that_is_said(
    github: Imitation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GH_TOKEN")
    monkeypatch.setenv("ROCWRIGHT_SOURCES", "minature")
    well, found = visited()
    assert github.asked == []
    assert not well
    assert of(found, "github")["verdict"] == "unlooked"
    assert of(found, "github")["next_step"] == 'export GH_TOKEN="$(gh auth token)"'
    assert of(found, "variables", "ROCWRIGHT_SOURCES")["verdict"] == "wrong"


# -- GitHub answers badly


LIMIT = {"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795651200"}


@pytest.mark.parametrize(
    ("bad", "said", "step"),
    [
        (Bad(401, b'{"message": "Bad credentials"}'), "does not accept the token", "gh auth token"),
        # 1795651200 is 2026-11-26 00:00:00 UTC.
        (Bad(403, b"{}", LIMIT), "until 00:00:00 UTC: its limit is reached", "run again after 00:00:00 UTC"),
        (Bad(403, b"{}", {"Retry-After": "77"}), "to wait for 77 s", "run again in 77 s"),
        (Bad(404, b"{}"), "GitHub has no repository me/rocwright, or hides it", "--repository OWNER/NAME"),
        (Bad(200, b"<html>Sign in to the proxy</html>"), "is not GitHub's API", "GITHUB_API_URL"),
        (Bad(200, b'{"full_name": "me/roc'), "is not GitHub's API", "GITHUB_API_URL"),
        (Bad(200, b'{"full_name": "me/rocwright"}'), "is not GitHub's API", "GITHUB_API_URL"),
        (Bad(200, b'{"full_name": "me/roc', cut=True), "ended after", "check the address"),
        (Bad(418, b"short and stout"), "answers 418", "run again later"),
    ],
)
def test_a_bad_answer_is_told_once_with_what_to_do(bad: Bad, said: str, step: str, github: Imitation) -> None:
    github.bad["/repos/me/rocwright"] = bad
    well, found = visited()
    assert not well
    github_ = of(found, "github")
    assert github_["verdict"] == "wrong"
    assert said in github_["detail"]
    assert step in github_["next_step"]
    assert [one["id"] for one in found if one["verdict"] == "wrong"] == ["github"]
    assert of(found, "variables")["verdict"] == "unlooked"


def test_the_token_is_shown_nowhere(github: Imitation, rocwright: Run) -> None:
    github.bad["/repos/me/rocwright"] = Bad(200, b"<html>")
    done = rocwright("pipeline", "doctor", "--repository", "me/rocwright")
    assert "ghp_imitated" not in done.out + done.err


def test_a_right_that_the_token_lacks_is_named_and_no_fault(
    github: Imitation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCWRIGHT_SOURCES", "upstream")
    for name, value in UPSTREAM.items():
        monkeypatch.setenv(name, value)
    for path in ("/actions/variables", "/actions/permissions", "/actions/runners"):
        github.bad[path] = Bad(403, b'{"message": "Resource not accessible by integration"}')
    well, found = visited()
    assert of(found, "variables")["verdict"] == "unlooked"
    assert of(found, "variables")["next_step"] == "give the token the right Variables: read"
    assert of(found, "actions")["next_step"] == "give the token the right Administration: read"
    assert {one["verdict"] for one in found if one["id"] == "gpu-runners"} == {"unlooked"}
    assert well


def test_every_page_is_read(github: Imitation) -> None:
    github.variables = {f"OTHER_{number:03}": "x" for number in range(61)} | {
        "ROCWRIGHT_SOURCES": "miniature"
    }
    github.variables["ROCWRIGHT_LINUX_RUNNER"] = "the-last"
    github.runners = [runner(f"r{number}", "other") for number in range(200)] + [runner("big", "the-last")]
    well, found = visited()
    assert well
    assert of(found, "runners", "the-last")["verdict"] == "ok"
    pages = [path.partition("?")[2] for path in github.asked if "/actions/variables" in path]
    assert pages == [f"per_page=30&page={number}" for number in (1, 2, 3)]


def test_a_list_that_stops_short_is_not_taken_for_all(github: Imitation) -> None:
    github.bad["/actions/variables"] = Bad(200, b'{"total_count": 2, "variables": []}')
    well, found = visited()
    assert not well
    assert "GitHub counts 2 variables and shows 0" in of(found, "variables")["detail"]


# -- Actions, workflows


def test_workflows_of_a_new_fork_are_off(github: Imitation) -> None:
    github.workflows[".github/workflows/ci.yml"] = "disabled_fork"
    del github.workflows[".github/workflows/ci_linux.yml"]
    well, found = visited()
    assert not well
    assert of(found, "workflows", "ci.yml")["next_step"].startswith(
        "gh workflow enable ci.yml --repo me/rocwright"
    )
    assert "not on the default branch" in of(found, "workflows", "ci_linux.yml")["detail"]


@pytest.mark.parametrize(
    ("allowed", "selected", "verdict", "said"),
    [
        ("local_only", {}, "wrong", "and workflows use actions/checkout, "),
        (
            "selected",
            {"github_owned_allowed": True},
            "wrong",
            "do not allow aws-actions/configure-aws-credentials",
        ),
        ("selected", {"github_owned_allowed": True, "verified_allowed": True}, "ok", ""),
        ("selected", {"patterns_allowed": ["actions/*", "aws-actions/*"]}, "ok", ""),
    ],
)
def test_actions_that_may_not_be_used(
    allowed: str, selected: dict[str, object], verdict: str, said: str, github: Imitation
) -> None:
    github.permissions["allowed_actions"] = allowed
    github.selected = {
        "github_owned_allowed": False,
        "verified_allowed": False,
        "patterns_allowed": [],
    } | selected
    _, found = visited()
    assert of(found, "actions")["verdict"] == verdict
    assert said in of(found, "actions")["detail"]


# -- variables


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ROCWRIGHT_STROE", "s3://bucket", "perhaps ROCWRIGHT_STORE was meant"),
        ("ROCWRIGHT_STORE", "/srv/store", "is no bucket, and machines of a run share no folder"),
        ("ROCWRIGHT_REGION", "Ohio", "'Ohio' is not a region"),
        ("ROCWRIGHT_SOURCES", "upsteam", "'upsteam' is not one of"),
        ("ROCWRIGHT_ROCM", "index:nightlies", "ROCWRIGHT_ROCM"),
        ("ROCWRIGHT_ROCM", "idnex:nightly", "does not say where ROCm comes from"),
    ],
)
def test_values_that_no_run_could_use(name: str, value: str, said: str, github: Imitation) -> None:
    github.variables[name] = value
    well, found = visited()
    assert not well
    condition = of(found, "variables", name)
    assert (condition["verdict"], said in condition["detail"]) == ("wrong", True), condition
    assert condition["next_step"].startswith("gh variable set ")


def test_variables_of_others_are_nobodys_business(github: Imitation) -> None:
    github.about["owner"]["type"] = "Organization"
    github.shared = {"THEIR_VARIABLE": "1", "ROCWRIGHT_TEST_IMAGE": "none", "ROCWRIGHT_SOURCES": "upstream"}
    well, found = visited()
    assert well
    assert of(found, "variables")["detail"] == "set: ROCWRIGHT_SOURCES, ROCWRIGHT_TEST_IMAGE"
    assert of(found, "images", "ROCWRIGHT_TEST_IMAGE")["verdict"] == "note"
    # The repository's own come before those of its organisation.
    assert of(found, "rocm")["verdict"] == "note"


@pytest.mark.parametrize(
    ("image", "verdict"),
    [
        ("none", "note"),
        ("ghcr.io/me/build:1", "note"),
        (f"ghcr.io:5000/me/build@sha256:{'a' * 64}", "ok"),
        ("ghcr.io/me/build@sha256:abc", "wrong"),
        ("https://ghcr.io/me/build", "wrong"),
    ],
)
def test_images_that_variables_name(image: str, verdict: str, github: Imitation) -> None:
    github.variables["ROCWRIGHT_BUILD_IMAGE"] = image
    well, found = visited()
    assert of(found, "images", "ROCWRIGHT_BUILD_IMAGE")["verdict"] == verdict
    assert well == (verdict != "wrong")


# -- runners


def test_a_label_that_nobody_serves(github: Imitation) -> None:
    github.variables["ROCWRIGHT_LINUX_RUNNER"] = "big-linux"
    github.runners = [runner("one", "BIG"), runner("two", "small-linux")]
    well, found = visited()
    assert not well
    condition = of(found, "runners", "big-linux")
    assert condition["verdict"] == "missing"
    assert "nobody serves it" in condition["detail"]
    step = "gh variable set ROCWRIGHT_LINUX_RUNNER --repo me/rocwright --body LABEL"
    assert condition["next_step"] == f"register a runner with this label; or {step}"

    github.runners.append(runner("three", "big-linux", status="offline"))
    assert of(visited()[1], "runners", "big-linux")["verdict"] == "wrong"
    # GitHub compares labels without case.
    github.runners.append(runner("four", "Big-Linux"))
    assert of(visited()[1], "runners", "big-linux")["verdict"] == "ok"


def test_runners_of_an_organisation_count_where_they_are_shown(github: Imitation) -> None:
    github.variables["ROCWRIGHT_LINUX_RUNNER"] = "big-linux"
    github.about["owner"]["type"] = "Organization"
    github.of_organisation = [runner("ours", "big-linux")]
    assert of(visited()[1], "runners", "big-linux")["verdict"] == "ok"
    github.of_organisation, github.lent = [], ["big-linux"]
    assert of(visited()[1], "runners", "big-linux")["verdict"] == "ok"
    github.lent = []
    assert of(visited()[1], "runners", "big-linux")["verdict"] == "missing"
    github.bad["/orgs/me/actions/runners"] = Bad(403, b"{}")
    condition = of(visited()[1], "runners", "big-linux")
    assert condition["verdict"] == "unlooked"
    assert condition["next_step"] == "give the token the right Self-hosted runners: read, of the organisation"


def test_tests_of_families_that_no_runner_serves(github: Imitation) -> None:
    github.variables = dict(UPSTREAM)
    github.runners = [runner("gpu", "linux-gfx942-1gpu-ccs-ossci-rocm")]
    well, found = visited()
    assert not well
    stand = {one["about"]: one["verdict"] for one in found if one["id"] == "gpu-runners"}
    assert stand == {
        "linux-gfx942-1gpu-ccs-ossci-rocm": "ok",
        # Each of several pools may be chosen.
        "linux-gfx942-1gpu-ccs-csp-ossci-rocm": "missing",
        "windows-gfx110X-gpu-rocm": "missing",
    }
    condition = of(found, "gpu-runners", "windows-gfx110X-gpu-rocm")
    assert "gfx110X-all on windows would wait for a day" in condition["detail"]
    assert condition["next_step"].startswith("register a runner with this label; or ")
    assert of(found, "rocm")["verdict"] == "unlooked"


# -- ROCm


def test_an_index_without_a_family_is_found(
    github: Imitation, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with serving(multi_arch(tmp_path_factory.mktemp("index"))) as index:
        github.variables = {"ROCWRIGHT_ROCM": f"index:{index.url()}"}
        well, found = visited()
    assert not well
    condition = of(found, "rocm", "gfx1151 on linux")
    assert condition["verdict"] == "missing"
    assert "has no code for gfx1151 on linux" in condition["detail"]
