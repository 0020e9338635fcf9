"""From staging to a release: the policy's script, sets that the gate holds back, and tables of families."""

from __future__ import annotations

import json
import re

from command_line import day
from conformance.scenes.ci_run import begin, given_and_missed, told
from conformance.table import CASES, Row, row
from conformance.world import Done, Shell, Transcript, World
from contract.test_store_scripts import served
from index_server import serving, wheel
from unit.builder.rocm import rocm_wheels
from wheels import LOCAL, write_family

FAMILY = "gfx110X-all"
SET = f"--family {FAMILY} --store $HOME/release"
SCRIPTS = "python build_tools/github_actions"
SHA = "0123456789abcdef0123456789abcdef01234567"
# Results of build and tests, runner, bypass, branch; whether wheels go to the release, and by which rule.
POLICY = {
    "success success gpu-1 - main": (True, "passed"),
    "success failure gpu-1 - main": (False, "tests"),
    "success cancelled gpu-1 - main": (False, "tests"),
    "success skipped gpu-1 - main": (False, "tests"),
    "success failure gpu-1 true main": (False, "tests"),
    "success skipped - - main": (False, "untested"),
    "success skipped - false main": (False, "untested"),
    "success skipped - true main": (True, "bypassed"),
    "failure success gpu-1 true main": (False, "build"),
    "failure skipped - - release/therock-7.10": (False, "build"),
    "success failure gpu-1 - release/therock-7.10": (True, "branch"),
}
VARIABLES = ("BUILD_RESULT", "TEST_RESULT", "TEST_RUNS_ON", "BYPASS_TESTS_FOR_RELEASES", "GITHUB_REF_NAME")


def gate(world: World) -> Transcript:
    """Every row of the policy, a set through the gate, another one without a machine, and the tables."""

    def play(shell: Shell) -> dict[str, object]:
        shell.world.activate(shell)
        _policy(shell)
        _sets(shell)
        _tables(shell)
        with served(shell.home) as address:
            # It answers, but as no S3 does: what is asked for is known before.
            shell.variables["AWS_ENDPOINT_URL"] = address.rstrip("/")
            for type_ in ("nightly", "dev"):
                shell(
                    f"{SCRIPTS}/upload_python_packages.py --input-packages-dir=$HOME/dist --run-id=1 "
                    f"--artifact-group={FAMILY} --release-type={type_} --dry-run",
                    *("NM-08", f"NM-08-{type_}"),
                )
        return {"asked": _subdirectory(shell)}

    return world.scene("ci-gate", play)


def _policy(shell: Shell) -> None:
    begin(shell, "policy")
    for case in POLICY:
        given = " ".join(
            f"{name}={value.strip('-')}" for name, value in zip(VARIABLES, case.split(), strict=True)
        )
        script = f"{SCRIPTS}/promote_wheels_based_on_policy.py"
        shell(f"{given} {script}", "FD-57", "EV-11", "NM-07", "NM-06")
    shell(f"BUILD_RESULT=success BYPASS_TESTS_FOR_RELEASES=no {script}", "EV-11", code=3)


def _sets(shell: Shell) -> None:
    """What a nightly build makes goes to staging, and on only when its tests passed on these bytes."""
    write_family(shell.home / "dist")
    rocm_wheels.make_wheel(shell.home / "dist", "7.10.0")
    # What stands in for compiled files holds no code of GPUs.
    waiver = "--allow device-missing --reason 'stand-ins' --expires 2099-01-31"
    made = shell(
        f"rocwright set create $HOME/dist --target gfx1100 --stage --no-install {SET} {waiver}",
        "NM-06",
        "FD-60",
    )
    id_ = made.out.split()[0]
    on = f"rocwright set promote newest {SET}"
    shell(on, "NM-06", "NM-06-staged", code=10)
    state = f"rocwright set state {id_} --store $HOME/release"
    shell(f"{state} --build success")
    for suite in ("rocm-sdk", "smoke-host"):
        shell(f"{state} --suite {suite} --result passed")
    gpu = f"{state} --suite smoke-gpu --target gfx1100"
    shell(f"{gpu} --result skipped --no-runner")
    shell(on, "NM-07", "NM-07-blocked", code=10)
    bypass = f"--bypass --reason 'too few machines' --expires {day(30)}"
    shell(f"{gpu} {bypass}")
    shell(f"{on} --dry-run", "NM-07", "NM-07-bypassed")
    # A machine was found, and the tests failed: the bypass helps no longer.
    shell(f"{gpu} --result failed --attempt 2")
    shell(on, "NM-06", "NM-06-failed", "NM-07", code=10)
    shell(f"{gpu} --result passed --attempt 3")
    shell(on, "NM-06", "NM-06-passed", "FD-60")
    with served(shell.home / "release") as address:
        shell(
            "pip download -q --no-deps --dest $HOME/downloaded --platform linux_x86_64 "
            f"--python-version 3.12 --only-binary=:all: --index-url {address}v2/{FAMILY}/ torch triton",
            "FD-60",
        )


def _tables(shell: Shell) -> None:
    shell(f"{SCRIPTS}/amdgpu_family_matrix.py --json", "FD-19")
    shell(f"{SCRIPTS}/amdgpu_family_matrix.py --amdgpu-families 'gfx94X-dcgpu;{FAMILY}'", "FD-19")
    begin(shell, "contract")
    matrix = f"{SCRIPTS}/configure_pytorch_release_matrix.py --platform linux --json"
    shell(f"RELEASE_TYPE=ci {matrix}", "EV-14", "EV-14-ci")
    shell(matrix, "EV-14", "EV-14-dev")
    setup = f"{SCRIPTS}/configure_ci.py --event push --branch main --no-record --store $HOME/runs"
    for said in ("true", "false"):
        begin(shell, f"fork-{said}")
        shell(f"IS_PR_FROM_FORK={said} {setup}", "EV-14")
    begin(shell, "version")
    version = "compute_rocm_package_version.py --release-type dev --override-base-version 7.10.0"
    shell(f"GITHUB_SHA={SHA} python build_tools/{version}", "EV-14")


def _subdirectory(shell: Shell) -> list[str]:
    """An index below an address, with slashes between them and without, alone and beside a page of links.

    Returns the paths that were asked for.
    """
    wheel(shell.home / "index", "rocm-sdk-core", "7.10.0", padding=9, tag="py3-none-any")
    # One that is there is used; made so, it has no pip to be unpacked.
    shell("python -m venv --without-pip $HOME/venv")
    setup = "python build_tools/setup_venv.py $HOME/venv --packages rocm-sdk-core"
    with serving(shell.home / "index") as index:
        root = index.url("")
        for address, below in ((root, "/simple/"), (root.rstrip("/"), "simple")):
            shell(f"{setup} --index-url {address} --index-subdir {below} --json", "FL-12")
            shell("rm -rf $HOME/venv/lib/python3*/site-packages/rocm_sdk_core*")
        shell(f"{setup} --index-subdir simple", "FL-12", "FL-12-alone", code=2)
        wheel(shell.home / "page", "more", "1", padding=9, tag="py3-none-any")
        both = f"{setup} --packages more --index-url {root}simple/"
        shell(f"{both} --find-links $HOME/page --json", "NM-27", "NM-27-both")
        shell(f"{both} --index-name nightly --index-subdir {FAMILY}", "NM-27", "NM-27-two", code=2)
        return sorted({one.path for one in index.asked})


def decided(world: World) -> dict[str, Done]:
    """The answer of the policy's script to every case."""
    return dict(zip(POLICY, gate(world).all_of("FD-57"), strict=True))


@row("FD-57", "EV-11", "NM-07")
def the_policy_answers_as_its_table_says(world: World, row: Row) -> None:
    scene = gate(world)
    lines = (scene.home / "jobs/policy/GITHUB_ENV").read_text().splitlines()
    for (case, (upload, rule)), done in zip(POLICY.items(), decided(world).values(), strict=True):
        line = f"upload={'true' if upload else 'false'}"
        assert done.out.splitlines() == [line], case
        assert done.err.startswith(f"rule {rule}: "), (case, done.err)
        assert lines.pop(0) == line, case
    # A bypass that is neither true nor false decides nothing.
    assert lines == []
    refused = scene.of("EV-11")
    assert refused.code == 3 and "write true or false" in refused.err
    if row.id == "NM-07":
        blocked, open_ = scene.of("NM-07-blocked"), scene.of("NM-07-bypassed")
        assert (blocked.code, open_.code) == (10, 0)
        assert "bypass" in open_.out + open_.err
        assert scene.of("NM-06-failed").code == 10


@row("NM-06")
def pytorch_goes_to_staging_and_on_when_its_tests_passed(world: World, row: Row) -> None:
    scene = gate(world)
    release = scene.home / "release"
    for id_, code in (("NM-06-staged", 10), ("NM-06-failed", 10), ("NM-06-passed", 0)):
        assert scene.of(id_).code == code, id_
    for project in ("torch", "torchaudio", "torchvision", "triton"):
        pages = [(release / channel / FAMILY / project / "index.html") for channel in ("v2-staging", "v2")]
        staged, promoted = (
            re.findall(r">([^<]+\.whl)</a>|#sha256=([0-9a-f]{64})", page.read_text()) for page in pages
        )
        # What was staged and tested is what is served, byte by byte.
        assert staged == promoted and any(f"{project}-" in name for name, _ in staged)


@row("FD-60")
def pages_of_a_release_are_an_index_for_pip(world: World, row: Row) -> None:
    scene = gate(world)
    scene.of(row.id)
    found = sorted(path.name for path in (scene.home / "downloaded").iterdir())
    assert found == [
        f"torch-2.9.0+{LOCAL}-cp312-cp312-linux_x86_64.whl",
        f"triton-3.5.1+{LOCAL}-cp312-cp312-linux_x86_64.whl",
    ]
    for name in found:
        assert (scene.home / "downloaded" / name).read_bytes() == (scene.home / "dist" / name).read_bytes()
    root = (scene.home / "release/v2" / FAMILY / "index.html").read_text()
    assert re.findall(r'href="([^"]+)"', root) == [
        f"{name}/" for name in ("apex", "rocm", "torch", "torchaudio", "torchvision", "triton")
    ]


@row("NM-08")
def each_channel_has_its_bucket(world: World, row: Row) -> None:
    for type_ in ("nightly", "dev"):
        done = gate(world).of(f"NM-08-{type_}")
        assert f"s3://therock-{type_}-python" in done.err
        assert f"would go to 1-linux/python/{FAMILY}/" in done.out


@row("FD-19")
def the_table_of_families_says_which_may_do_without_tests(world: World, row: Row) -> None:
    table, targets = gate(world).all_of(row.id)
    rows = {(one["family"], one["platform"]): one for one in json.loads(table.out)}
    assert {("gfx94X-dcgpu", "linux"), (FAMILY, "linux"), (FAMILY, "windows")} <= rows.keys()
    assert rows["gfx94X-dcgpu", "linux"]["bypass_tests_for_releases"] is False
    assert rows[FAMILY, "linux"]["bypass_tests_for_releases"] is True
    assert rows["gfx900", "linux"]["test-runs-on"] == ""
    assert rows["gfx94X-dcgpu", "linux"]["test-runs-on"]
    assert targets.out.strip() == "gfx942,gfx1100,gfx1101,gfx1102,gfx1103"


@row("FL-12")
def a_subdirectory_is_joined_with_one_slash(world: World, row: Row) -> None:
    scene = gate(world)
    *done, alone = scene.all_of(row.id)
    assert len(done) == 2
    for one in done:
        assert json.loads(one.out)["installed"]["rocm-sdk-core"] == "7.10.0"
    assert alone.code == 2 and "--index-subdir" in alone.err
    asked = scene.facts["asked"]
    assert isinstance(asked, list) and asked
    assert [path for path in asked if "//" in path] == []
    assert "/simple/rocm-sdk-core/" in asked


@row("NM-27")
def tests_install_from_one_index_or_pages_or_both(world: World, row: Row) -> None:
    CASES["CL-69"](world, row)
    scene = gate(world)
    installed = json.loads(scene.of("NM-27-both").out)["installed"]
    assert (installed["rocm-sdk-core"], installed["more"]) == ("7.10.0", "1")
    two = scene.of("NM-27-two")
    assert two.code == 2 and "--index-name" in two.err


@row("EV-14")
def variables_of_workflows_are_kept_to_and_missed_without_harm(world: World, row: Row) -> None:
    scene = gate(world)
    # RELEASE_TYPE; without it, what a developer's build is.
    ci, dev = (json.loads(scene.of(f"EV-14-{name}").out) for name in ("ci", "dev"))
    assert {one["pytorch_git_ref"] for one in ci} == {"release/2.12", "release/2.13"}
    assert {one["pytorch_git_ref"] for one in dev} == {"release/2.13"}
    # IS_PR_FROM_FORK: nothing of a fork is uploaded.
    assert told(scene.home, "fork-true")["upload"] == "false"
    assert told(scene.home, "fork-false")["upload"] == "true"
    assert "fork" in (scene.home / "jobs/fork-true/GITHUB_STEP_SUMMARY").read_text()
    # GITHUB_SHA is part of a developer's version, GITHUB_OUTPUT and GITHUB_ENV are written to.
    assert told(scene.home, "version")["rocm_package_version"].endswith(f"+{SHA}")
    given_and_missed(world)
