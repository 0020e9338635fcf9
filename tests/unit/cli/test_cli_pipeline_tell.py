"""The commands that say how a run stands, at the door: documented scripts, a store, a workflow's files."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from command_line import status
from rocwright.cli import documented
from rocwright.model.plan import SCHEMA, Cell, Plan, Publication, Rocm
from rocwright.model.sets import canonical_json
from rocwright.pipeline.define.cells import make_jobs
from rocwright.pipeline.records import Record, record_plan, write_record
from rocwright.pipeline.tell.state import find_run
from rocwright.store.lease import LEASES
from rocwright.store.objects.local import LocalStore
from wheels import write_wheel

SCRIPTS = Path(__file__).resolve().parents[3] / "build_tools/github_actions"
VARIABLES = ("OUTPUT", "STEP_SUMMARY", "REPOSITORY", "RUN_ID", "API_URL", "TOKEN")


@pytest.fixture(autouse=True)
def _outside_of_workflows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*(f"GITHUB_{one}" for one in VARIABLES), "RUNNER_TEMP", "ROCWRIGHT_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def script(name: str, *words: str) -> int:
    """Exit code of a documented script, run in this process."""
    with pytest.raises(SystemExit) as ended:
        documented.run(str(SCRIPTS / name), list(words))
    return int(ended.value.code or 0)


def command(*words: str) -> int:
    return status("pipeline", *words)


def needs(**results: str) -> str:
    return json.dumps({name: {"result": result, "outputs": {}} for name, result in results.items()})


def test_success_and_skipped_are_fine(capsys: pytest.CaptureFixture[str]) -> None:
    assert script("workflow_summary.py", "--needs-json", needs(setup="success", build="skipped")) == 0
    out = capsys.readouterr().out
    assert out.startswith("## ✅ All required jobs ended well\n")
    assert "| ⏭️ left out | `build` | skipped |" in out


@pytest.mark.parametrize("result", ["failure", "cancelled", "timed_out", ""])
def test_anything_else_fails_with_1_and_is_named(result: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert script("workflow_summary.py", "--needs-json", needs(setup="success", build=result)) == 1
    told = capsys.readouterr()
    mark = "🚫 was cancelled" if result == "cancelled" else "❌ failed"
    assert f"| {mark} | `build` |" in told.out and "build" in told.err and "Traceback" not in told.err


@pytest.mark.parametrize(("said", "code"), [("true", 0), ("True", 0), ("1", 0), ("false", 1), ("", 1)])
def test_a_job_may_say_that_it_can_fail(said: str, code: int) -> None:
    given = {"flaky": {"result": "failure", "outputs": {"continue_on_error": said}}}
    assert script("workflow_summary.py", "--needs-json", json.dumps(given)) == code


def test_a_required_job_that_was_skipped_is_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    given = needs(build="skipped", test="skipped")
    assert script("workflow_summary.py", "--needs-json", given, "--require", "build") == 1
    told = capsys.readouterr()
    assert "| ⛔ is required, but was left out | `build` | skipped |" in told.out
    assert "| ⏭️ left out | `test` | skipped |" in told.out
    assert "build (required, but skipped)" in told.err
    assert command("workflow-summary", "--needs-json", given, "--require", "nope") == 2


@pytest.mark.parametrize("given", ["", "[]", '{"a": 1}', '{"a": {}}', "not json"])
def test_other_json_is_refused_and_says_what_to_give(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("workflow-summary", "--needs-json", given) == 3
    assert "toJSON(needs)" in capsys.readouterr().err


class FakeGitHub(BaseHTTPRequestHandler):
    """Stands for GitHub's list of the jobs of a run: two pages, two failures."""

    def do_GET(self) -> None:
        page = int(self.path.rpartition("page=")[2])
        jobs = [{"name": f"j{page}-{n}", "conclusion": "success", "html_url": "x"} for n in range(100)]
        name = "linux / build_pytorch_wheels (3.12)"
        failed = {"name": name, "conclusion": "failure", "html_url": f"https://example.org/job/{page}"}
        jobs = [failed, *jobs[:99]] if page == 1 else [{**failed, "conclusion": "cancelled"}]
        data = json.dumps({"jobs": jobs if self.path.startswith("/repos/o/r/actions/runs/7/jobs") else []})
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def github() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeGitHub)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_failed_jobs_of_called_workflows_are_linked(
    github: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_API_URL", github)
    words = ["--needs-json", needs(linux="failure"), "--github-repository", "o/r", "--github-run-id", "7"]
    assert script("workflow_summary.py", *words) == 1
    told = capsys.readouterr()
    for page in (1, 2):
        assert f"* [linux / build\\_pytorch\\_wheels (3.12)](<https://example.org/job/{page}>)" in told.out
    assert "https://example.org/job/1" in told.err


@pytest.mark.slow
def test_without_an_answer_the_verdict_stands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("GITHUB_REPOSITORY", "o/r")
    monkeypatch.setenv("GITHUB_RUN_ID", "7")
    monkeypatch.setenv("GITHUB_TOKEN", "secret-token")
    assert script("workflow_summary.py", "--needs-json", needs(linux="failure")) == 1
    told = capsys.readouterr()
    assert "is not known" in told.out
    assert "secret-token" not in told.out + told.err


def test_summaries_of_a_job_are_kept_and_given_as_an_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script("capture_job_summary.py") == 0
    monkeypatch.setenv("RUNNER_TEMP", str(tmp_path))
    # Each step has a file of its own.
    for number in (1, 2):
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / f"step{number}.md"))
        words = ["--torch-version", f"2.{number}", "--index-url", "https://example.org/i"]
        assert script("summarize_test_pytorch_workflow.py", *words) == 0
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "out"))
    capsys.readouterr()
    assert script("capture_job_summary.py", "--output-name", "told") == 0
    lines = (tmp_path / "out").read_text("utf-8").splitlines()
    assert (lines[0], lines[-1]) == ("told<<END", "END")
    assert "* Torch version: `2.1`" in lines and "* Torch version: `2.2`" in lines
    assert capsys.readouterr().out.rstrip("\n") == "\n".join(lines[1:-1])
    assert script("capture_job_summary.py", "--output-name", "a=b") == 2


def test_no_line_of_a_summary_ends_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_TEMP", str(tmp_path))
    (tmp_path / "rocwright-job-summary.md").write_text("a\nEND\nother=1\nEND_\n", "utf-8")
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "out"))
    assert script("capture_job_summary.py") == 0
    lines = (tmp_path / "out").read_text("utf-8").splitlines()
    assert lines == ["summary<<END__", "a", "END", "other=1", "END_", "END__"]


def test_the_test_report_has_the_documented_parts(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--torch-version=2.7.1+rocm7.10", "--pytorch-git-ref=release/2.7", "--python-version=3.12"]
    where = ["--index-url=https://example.org/v2-staging//", "--index-subdir=/gfx110X-dgpu/"]
    assert script("summarize_test_pytorch_workflow.py", *words, *where, "--platform=linux") == 0
    out = capsys.readouterr().out
    index = "https://example.org/v2-staging/gfx110X-dgpu/"
    assert out.startswith("## PyTorch Test Report\n")
    for line in (
        "* Torch version: `2.7.1+rocm7.10`",
        "* Python version: `3.12`",
        "* GPU target: `gfx110X-dgpu`",
        f"* Package index: <{index}>",
        "* PyTorch source code: <https://github.com/ROCm/pytorch/tree/release/2.7>",
        "git clone --branch release/2.7 --origin rocm https://github.com/ROCm/pytorch.git",
        f"pip install torch==2.7.1+rocm7.10 \\\n    --index-url {index}",
        "pip install -r pytorch/.ci/docker/requirements-ci.txt",
    ):
        assert line in out
    device = ["--device-extras=device-gfx942", "--index-url=https://example.org/all", "--platform=windows"]
    assert script("summarize_test_pytorch_workflow.py", *device) == 0
    out = capsys.readouterr().out
    assert 'pip install "torch[device-gfx942]" --pre ^\n    --index-url https://example.org/all/\n' in out
    assert "git clone --branch nightly https://github.com/pytorch/pytorch.git" in out


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--index-url", "https://a/", "--find-links", "https://b/"),
        ("--find-links", "https://b/", "--index-subdir", "x"),
    ],
)
def test_a_report_needs_one_place_of_packages(words: tuple[str, ...]) -> None:
    assert command("test-summary", *words) == 2


@pytest.mark.slow
def test_the_block_of_a_report_sets_the_same_up_when_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    version = "2.9.0+rocm7.10.0"
    torch, rocm = tmp_path / "torch wheels", tmp_path / "rocm"
    needed = ["rocm==7.10.0"]
    write_wheel(torch, "torch", version, {"torch/__init__.py": ""}, requires=needed, tag="py3-none-any")
    write_wheel(rocm, "rocm", "7.10.0", {"rocm_sdk/__init__.py": ""}, tag="py3-none-any")
    pages = [word for folder in (torch, rocm) for word in ("--find-links", folder.as_uri())]
    assert command("test-summary", "--torch-version", version, *pages, "--platform", "linux") == 0
    block = capsys.readouterr().out.partition("```bash\n")[2].partition("```")[0]
    setup = block.partition("# The sources")[0]
    assert "git clone" in block and "git clone" not in setup
    place = tmp_path / "place"
    place.mkdir()
    script = f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH\nset -eu\n{setup}pip list\n"
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        ["sh", "-c", script], cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()[-3:] if "rocm" in line] == [
        ["rocm", "7.10.0"],
        ["torch", version],
    ]


def made_run(store: LocalStore) -> None:
    """Three cells of a run: one done, one that a machine holds, one that waits."""
    cells = (
        Cell("rocm-packages/linux/g", "rocm-packages", "packages", "linux", "g"),
        Cell(
            "upload-rocm/linux/g", "upload-rocm", "packages", "linux", "g", needs=("rocm-packages/linux/g",)
        ),
        Cell("build-torch/linux/g", "build-torch", "torch", "linux", "g", needs=("upload-rocm/linux/g",)),
    )
    plan = Plan(
        SCHEMA, "ci", "r1", "miniature", Rocm(), Publication(True, True), (), cells, make_jobs(cells), ("x",)
    )
    record_plan(store, plan)
    done = {"schema": 1, "cell": cells[0].id, "inputs": "1" * 64, "state": "done", "value": {}, "outputs": []}
    text = canonical_json({**done, "summary": "2 packages", "wall_s": 61.5, "by": "node1"})
    write_record(store, "r1", msgspec.json.decode(text, type=Record))
    store.put_bytes(f"{LEASES}_pipeline/r1/{cells[1].id}/holder", b"{}")


def test_show_says_how_a_run_stands_and_writes_its_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_run(LocalStore(tmp_path / "s"))
    words = ["--store", str(tmp_path / "s"), "--run-id", "r1"]
    assert command("show", *words, "--html", "run.html") == 0
    told = capsys.readouterr()
    assert "1 running, 1 waiting, 1 done; the longest chain took 1 min 02 s" in told.out
    assert "stand-ins under the real names" in told.out and "wrote run.html" in told.err
    page = (tmp_path / "run.html").read_text("utf-8")
    assert "<title>Run r1</title>" in page and "▸ packages" in page
    assert command("show", *words, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["counts"] == {"running": 1, "waiting": 1, "done": 1}
    assert [one["state"] for one in found["cells"]] == ["done", "running", "waiting"]


def test_a_lease_that_nobody_renews_is_no_work(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "s")
    made_run(store)
    now = datetime.now(timezone.utc)
    assert find_run(store, "r1", now)[1].counts == {"running": 1, "waiting": 1, "done": 1}
    later = now + timedelta(minutes=10)
    assert find_run(store, "r1", later)[1].counts == {"waiting": 2, "done": 1}


def test_addresses_of_a_store_in_the_directory_of_the_run_are_those_of_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = LocalStore(tmp_path / "a b" / "store")
    made_run(store)
    page = "file://${work}/store/r1-linux/python/g/index.html"
    value = msgspec.Raw(msgspec.json.encode({"find_links": page, "prefix": "r1-linux/python/g/"}))
    write_record(
        store, "r1", Record(1, "upload-rocm/linux/g", "2" * 64, "done", value, (), "2 files", 1.0, "node1")
    )
    assert command("show", "--store", str(tmp_path / "a b" / "store"), "--run-id", "r1") == 0
    place = (tmp_path / "a b").as_uri()
    assert f"upload-rocm/linux/g: {place}/store/r1-linux/python/g/index.html" in capsys.readouterr().out


def test_a_run_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("show", "--store", str(tmp_path / "s"), "--run-id", "nope") == 3
    assert "nope" in capsys.readouterr().err
