"""Whole runs at the door, with a double of what they build: what failed is said, and none of it is listed."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from command_line import status
from rocwright.engine.graph import Inputs, Note, Step
from rocwright.errors import NoSpace
from rocwright.gputest.smoke import Verdicts
from rocwright.model.plan import Cell, Plan
from rocwright.pipeline.cells import act as acting
from rocwright.pipeline.records import Machine
from rocwright.pipeline.steps.of_cell import steps_of as real_steps_of
from rocwright.pipeline.steps.own_tests import GpuTested, SuiteRun
from rocwright.pipeline.steps.publish import Checked, UploadedRun
from rocwright.pipeline.steps.sources import LockedSources
from rocwright.pipeline.steps.testing import Tested
from rocwright.sdk.build import BuiltPackages
from rocwright.sources.lock import SourceLock
from rocwright.store.runs.upload import upload_run
from wheels import ANY, write_wheel

WHEEL = "torch-2.9.0-py3-none-any.whl"
_REAL = ("stage", "gate", "promote", "summary")
_READ = (BuiltPackages, LockedSources, Checked, UploadedRun, Tested, GpuTested)
GOOD = Verdicts(5, 0, 2, (), ("test_host_x.py: no AMD GPU",))


class Built(msgspec.Struct, frozen=True):
    """Stands for results that nobody here reads."""

    kind: str


class RunDouble:
    """Gives the steps of cells; `broken` kinds raise, `verdicts` are what a kind of tests saw.

    A run builds one small wheel called torch. What decides and what publishes are the real steps.
    """

    def __init__(self) -> None:
        self.broken: dict[str, Exception] = {}
        self.verdicts: dict[str, Verdicts] = {}
        self.done: list[str] = []

    def steps_of(self, cell: Cell, plan: Plan, machine: Machine) -> list[Step]:
        """As `rocwright.pipeline.steps.of_cell.steps_of`."""
        real = real_steps_of(cell, plan, machine)
        if cell.kind in _REAL:
            return [real[-1]]

        def act(inputs: Inputs, note: Note) -> msgspec.Struct:
            self.done.append(cell.id)
            if cell.kind in self.broken:
                raise self.broken[cell.kind]
            return self._result(cell, plan, machine, inputs, real[-1].result)

        own = real[-1]
        given = {step.id for step in real}
        needs = tuple(need for need in own.needs if need not in given)
        kind = own.result if own.result in _READ else Built
        return [Step(cell.kind, kind, act, needs=needs, facts=lambda: str(self.verdicts.get(cell.kind)))]

    def _result(
        self, cell: Cell, plan: Plan, machine: Machine, inputs: Inputs, kind: type[msgspec.Struct]
    ) -> msgspec.Struct:
        verdicts = self.verdicts.get(cell.kind, GOOD)
        if kind is BuiltPackages:
            return BuiltPackages("7.1", "legacy", cell.group, ("gfx90a",), "", (), 0, ())
        if kind is LockedSources:
            return LockedSources("", SourceLock(1, "linux", ()))
        if kind is Checked:
            return Checked(1, 1, 0, 0, (), {"passed": True, "files": [WHEEL]})
        if kind is UploadedRun and cell.kind == "upload-pytorch":
            wheel = write_wheel(machine.work, "torch", "2.9.0", {"torch.py": ""}, tag=ANY)
            done = upload_run(machine.store, [wheel], plan.run_id, "linux", cell.group, "pytorch")
            return UploadedRun(done.prefix, done.url, {entry.name: entry.sha256 for entry in done.files})
        if kind is UploadedRun:
            return UploadedRun("", "", {})
        files = inputs.get("upload-pytorch", UploadedRun).files if kind in (Tested, GpuTested) else {}
        if kind is Tested:
            return Tested(cell.kind, {"torch": "2.9.0"}, 1.0, (), Verdicts(2, 0, 0), verdicts, files)
        if kind is GpuTested:
            return GpuTested("fam", {}, "", (SuiteRun("smoke-gpu", "gfx90a", verdicts, True),), files)
        return Built(cell.kind)


pytestmark = pytest.mark.slow

BAD = Verdicts(4, 1, 0, ("test_it: 1 != 2",))
FULL = NoSpace("no room for the environment", next_step="free 2 GB")
PLACE = ("--run-id", "7", "--work-dir", "run")
SMALL = ("--projects", "torch")


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("NEEDS_JSON", "GITHUB_EVENT_NAME", "GITHUB_EVENT_PATH", "GITHUB_OUTPUT", "GITHUB_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    for name in ("GITHUB_STEP_SUMMARY", "ROCWRIGHT_STORE", "ROCWRIGHT_SOURCES", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> RunDouble:
    made = RunDouble()
    monkeypatch.setattr(acting, "real_steps_of", made.steps_of)
    return made


def pipeline(*words: str) -> int:
    """The command's exit code."""
    return status("pipeline", *words)


def run(*words: str) -> int:
    return pipeline("run", *PLACE, *SMALL, "--json", *words)


def shown(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    capsys.readouterr()
    assert pipeline("show", *PLACE, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    return {cell["kind"]: cell for cell in said["cells"]} | {"": said}


def listed(store: Path) -> list[str]:
    """Channels that list the wheel."""
    found = [name for name in ("v2-staging", "v2") if list((store / name).rglob("index.html"))]
    return [
        name for name in found if any(WHEEL in page.read_text() for page in (store / name).rglob("*.html"))
    ]


STORE = Path("run/store")


def test_a_good_run_is_listed_and_good(double: RunDouble, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    assert listed(STORE) == ["v2-staging", "v2"]
    cells = shown(capsys)
    assert cells[""]["counts"] == {"skipped": 3, "done": len(cells) - 4}
    assert pipeline("step", "summary", *PLACE) == 0
    assert "counts" in summary(capsys)
    before = list(double.done)
    assert run() == 0
    assert double.done == before, "nothing is done twice"


def summary(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    capsys.readouterr()
    pipeline("step", "summary", *PLACE, "--json")
    (record,) = msgspec.json.decode(capsys.readouterr().out)
    value = record["value"]
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("kind", ["test-pip", "test-uv"])
def test_a_test_that_fails_in_itself_is_the_runs_failure(
    double: RunDouble, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    double.verdicts = {kind: BAD}
    assert run() == 1
    said = capsys.readouterr().err
    first, closed = said.index("error (SuiteFailed)"), said.index("error (GateClosed)")
    assert first < closed, "the cause comes first"
    assert "smoke: 1 failed (test_it: 1 != 2)" in said
    assert listed(STORE) == ["v2-staging"]
    check_bad(capsys, {kind: "failed", "gate": "failed", "promote": "blocked"})


@pytest.mark.parametrize("kind", ["test-pip", "test-uv"])
def test_a_test_without_a_result_keeps_the_gate_closed_whatever_another_says(
    double: RunDouble, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    double.broken = {kind: FULL}
    assert run() == NoSpace.exit_code
    said = capsys.readouterr().err
    assert said.index("error (NoSpace)") < said.index("error (GateClosed)")
    assert "rocm-sdk on debian12 cancelled" in said
    assert listed(STORE) == ["v2-staging"]
    check_bad(capsys, {kind: "failed", "gate": "failed", "promote": "blocked"})
    # Mended, the run goes on to its end.
    double.broken = {}
    assert run() == 0
    assert listed(STORE) == ["v2-staging", "v2"]


def check_bad(capsys: pytest.CaptureFixture[str], states: dict[str, str]) -> None:
    cells = shown(capsys)
    assert {kind: cells[kind]["state"] for kind in states} == states
    counts = cells[""]["counts"]
    value = summary(capsys)
    assert value["good"] is False
    told = value["counts"]
    assert isinstance(told, dict)
    assert isinstance(counts, dict)
    # The summary counts what show does, but for itself.
    assert told == {**counts, "done": counts["done"] - 1}
    assert pipeline("step", "summary", *PLACE) == 1
    assert "did not end well" in capsys.readouterr().err


def test_nothing_is_said_of_a_set_that_is_not_there(
    double: RunDouble, capsys: pytest.CaptureFixture[str]
) -> None:
    double.broken = {"check": FULL}
    assert run() == NoSpace.exit_code
    said = capsys.readouterr().err
    assert said.count("error (") == 1, "only the cause is an error"
    assert "error (NoSpace)" in said
    check_bad(capsys, {"check": "failed", "gate": "blocked", "promote": "blocked", "test-pip": "blocked"})
    why = str(shown(capsys)["gate"]["why"])
    assert why.startswith("there is no set to decide about: stage/linux/")
    assert "check/linux/" in why
    assert listed(STORE) == []
    # The step alone has no other cause to tell.
    gate = str(shown(capsys)["gate"]["id"])
    assert pipeline("step", gate, *PLACE) == 12
    assert "no set to decide about" in capsys.readouterr().err


def test_failed_tests_are_red_where_nothing_could_be_published(
    double: RunDouble, capsys: pytest.CaptureFixture[str]
) -> None:
    double.verdicts = {"test-pip": BAD}
    assert run("--store", "shared") == 1
    assert "error (GateClosed)" in capsys.readouterr().err
    assert listed(Path("shared")) == []


@pytest.mark.parametrize("needs", [None, "good", "bad"])
def test_the_last_step_of_a_workflow_is_red(
    double: RunDouble, monkeypatch: pytest.MonkeyPatch, needs: str | None
) -> None:
    """With what GitHub says, and without; a good record does not make up for a job that was lost."""
    if needs != "bad":
        double.broken = {"test-uv": FULL}
    run()
    if needs:
        result = "failure" if needs == "bad" else "success"
        monkeypatch.setenv("NEEDS_JSON", json.dumps({"install": {"result": result}}))
    assert pipeline("step", "summary", *PLACE) == 1


# ---- publishing ----

RELEASE = ("--profile", "release", "--sources", "miniature", "--no-split")
ONE = ("--python-versions", "3.11", "--pytorch-git-refs", "release/2.9", "--platforms", "linux")


@pytest.mark.parametrize(
    ("words", "channels", "said"),
    [
        ((), ["v2-staging", "v2"], ""),
        (("--store", "shared"), [], "the profile ci publishes to a run's own folder only"),
        (("--store", "shared", "--publish"), [], "the profile ci publishes to a run's own folder only"),
        (("--store", "shared", *RELEASE, *ONE), [], "channels are changed only with --publish"),
        (("--store", "shared", "--publish", *RELEASE, *ONE), ["v2-staging", "v2"], ""),
    ],
    ids=["embedded", "named-ci", "named-ci-publish", "named-release", "named-release-publish"],
)
def test_channels_are_changed_by_the_table_alone(
    double: RunDouble,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    channels: list[str],
    said: str,
) -> None:
    assert run(*words) == 0
    store = Path("shared") if "--store" in words else STORE
    assert listed(store) == channels
    assert (store / "_pipeline/7").is_dir()
    assert list((store / "7-linux/pytorch").rglob(WHEEL)), "the run's own folder has it in any case"
    promote = next(
        one for one in msgspec.json.decode(capsys.readouterr().out) if one["cell"][:7] == "promote"
    )
    assert promote["value"]["why"] == said
    assert (f"not promoted: {said}" in promote["summary"]) is bool(said)


def test_a_forks_run_writes_nothing_and_says_so(
    double: RunDouble, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    event = {
        "pull_request": {
            "head": {"repo": {"full_name": "someone/fork"}, "sha": "a" * 40},
            "base": {"repo": {"full_name": "rocwright/rocwright"}, "sha": "b" * 40, "ref": "main"},
        },
        "repository": {"full_name": "rocwright/rocwright"},
    }
    Path("event.json").write_text(json.dumps(event))
    monkeypatch.setenv("GITHUB_EVENT_NAME", "pull_request")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(Path("event.json").resolve()))
    assert run("--store", "shared") == 0
    captured = capsys.readouterr()
    assert "a dry run: the pull request is a fork's: nothing is uploaded" in captured.err
    assert {one["state"] for one in msgspec.json.decode(captured.out)} == {"dry", "skipped"}
    assert (double.done, Path("shared").exists()) == ([], False)


def test_a_bucket_without_credentials_is_only_looked_at(
    double: RunDouble, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pipeline("plan", "--run-id", "7", *SMALL, "--store", "s3://bucket/prefix", "--json") == 0
    publication = msgspec.json.decode(capsys.readouterr().out)["publication"]
    assert (publication["upload"], publication["channels"]) == (False, False)
    assert "no credentials for the store" in publication["why"]


LENIENT = """
[[extensions.extension]]
project = "upon"
needs = ["under"]

[[profiles.profile]]
name = "lenient"
release_type = "dev"
platforms = ["linux"]
pythons = ["3.12"]
refs = ["release/2.13"]
tier = "presubmit"
sources = "miniature"
stage = "staging"
promote = "release"
publish = "embedded"
extensions_may_fail = true
"""
EXTENSIONS = ("--extensions", "under==1", "upon==1", "other==1")


def test_an_extension_that_fails_keeps_back_its_set(
    double: RunDouble, capsys: pytest.CaptureFixture[str]
) -> None:
    double.broken = {"build-extension-under": FULL}
    assert run(*EXTENSIONS) == FULL.exit_code
    assert listed(STORE) == []
    assert shown(capsys)["build-extension-under"]["state"] == "failed"


@pytest.mark.parametrize("kind", ["lock-extension-under", "build-extension-under"])
def test_an_extension_that_may_fail_is_told_and_its_set_is_listed(
    double: RunDouble, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    Path("rocwright.toml").write_text(LENIENT)
    double.broken = {kind: FULL}
    assert run("--profile", "lenient", *EXTENSIONS) == 0
    said = capsys.readouterr().err
    assert said.count("error (NoSpace)") == 1
    assert f"warning: {kind}/linux" in said and "warning: build-extension-upon/linux" in said
    assert listed(STORE) == ["v2-staging", "v2"]
    cells = shown(capsys)
    lost = {name for name, cell in cells.items() if name and cell["state"] == "tolerated"}
    assert lost == {kind, "build-extension-under", "build-extension-upon"}
    assert cells["build-extension-other"]["state"] == "done"
    # A job of a workflow ends well, too, and so does the last one.
    assert pipeline("step", str(cells[kind]["id"]), *PLACE) == 0
    assert summary(capsys)["good"] is True

    double.broken = {}
    assert run("--profile", "lenient", *EXTENSIONS) == 0
    assert "warning: " not in capsys.readouterr().err
    assert not [name for name, cell in shown(capsys).items() if name and cell["state"] == "tolerated"]
