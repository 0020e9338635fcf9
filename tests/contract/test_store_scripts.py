"""The documented scripts of uploads, artifacts, pages and the policy, called as the documents call them."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import zstandard

from rocwright.cli import main
from rocwright.cli.documented import run
from unit.sdk.artifact_trees import small_artifacts
from wheels import write_wheel

ROOT = Path(__file__).parents[2]
INDEXER = ROOT / "third-party/indexer/indexer.py"
UPLOAD = ROOT / "build_tools/github_actions/upload_python_packages.py"
BUILD = ROOT / "build_tools/build_python_packages.py"
FETCH = ROOT / "build_tools/fetch_artifacts.py"
MANAGER = ROOT / "build_tools/artifact_manager.py"
POLICY = ROOT / "build_tools/github_actions/promote_wheels_based_on_policy.py"
WORKFLOW = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STEP_SUMMARY", "GITHUB_REPOSITORY", "GITHUB_RUN_ID",
            "GITHUB_API_URL", "GITHUB_TOKEN", "GITHUB_REF_NAME", "ROCWRIGHT_STORE", "ROCWRIGHT_PUBLIC_URL",
            "BUILD_RESULT", "TEST_RESULT", "TEST_RUNS_ON", "BYPASS_TESTS_FOR_RELEASES")  # fmt: skip


@pytest.fixture(autouse=True)
def no_workflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in WORKFLOW:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def call(script: Path, *words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        run(str(script), list(map(str, words)))
    return int(ended.value.code or 0)


def rocwright(*words: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, words)))
    assert not ended.value.code


def packages(folder: Path) -> Path:
    """What a build of ROCm's packages and one of PyTorch leave, in small, and files beside."""
    text = {"rocmx/__init__.py": "version = '7.10.0'\n"}
    write_wheel(folder, "rocmx", "7.10.0", text, tag="py3-none-any")
    files = {"torchx/__init__.py": "import rocmx\n"}
    write_wheel(folder, "torchx", "2.9.0+rocm7.10.0", files, requires=["rocmx==7.10.0"], tag="py3-none-any")
    (folder / "build.log").write_text("")
    return folder


def pip(target: Path, *words: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment |= {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    argv = [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--no-index", "--target", str(target)]
    done = subprocess.run([*argv, *words], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A plain web server, as a bucket with a web site is one; yields its address, ending with `/`."""

    class Quiet(SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def pack(tree: Path, folder: Path) -> Path:
    """An archive of an artifact directory, its manifest first, as ROCm's build makes them."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(tree / "artifact_manifest.txt", "artifact_manifest.txt")
        for entry in sorted(tree.iterdir()):
            if entry.name != "artifact_manifest.txt":
                archive.add(entry, entry.name)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{tree.name}.tar.zst"
    path.write_bytes(zstandard.compress(packed.getvalue()))
    return path


def artifact(folder: Path, stem: str, text: str = "x\n") -> Path:
    tree = folder / "trees" / stem
    (tree / "stage/share").mkdir(parents=True, exist_ok=True)
    (tree / "artifact_manifest.txt").write_text("stage\n")
    (tree / "stage/share" / f"{stem.replace(':', '')}.txt").write_text(text)
    return pack(tree, folder / "archives")


def stored(folder: Path, run_id: str, *stems: str, text: str = "x\n") -> Path:
    """A store with a run's artifacts, uploaded by the command."""
    for number, stem in enumerate(stems):
        path = artifact(folder / run_id, stem, text)
        assert number or path.exists()
    words = ("--input-dir", folder / run_id / "archives", "--run-id", run_id, "--platform", "linux")
    rocwright("store", "upload", "--kind", "artifacts", *words, "--multiarch", "--store", folder / "store")
    return folder / "store"


# indexer.py


@pytest.mark.slow
def test_pip_installs_from_the_page_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dist = packages(tmp_path / "packages/dist")
    assert call(INDEXER, dist, "--filter", "*.whl", "*.tar.gz") == 0
    page = (dist / "index.html").read_text()
    assert "torchx-2.9.0%2Brocm7.10.0-py3-none-any.whl#sha256=" in page
    assert page.count("<a ") == 2
    assert capsys.readouterr().out == f"{dist}/index.html: 2 files\n"
    # As the document writes it, and as a web server has it.
    pip(tmp_path / "one", "torchx", "--pre", f"--find-links={dist}/index.html")
    with served(dist) as address:
        pip(tmp_path / "two", "torchx==2.9.0+rocm7.10.0", "--find-links", address + "index.html")
    for name in ("one", "two"):
        assert (tmp_path / name / "rocmx/__init__.py").read_text() == "version = '7.10.0'\n"
    assert call(INDEXER, dist, "--filter", "*.whl", "*.tar.gz") == 0
    assert (dist / "index.html").read_text() == page


def test_the_indexer_as_a_program_of_its_own(tmp_path: Path) -> None:
    dist = packages(tmp_path / "a & b" / "dist")
    write_wheel(dist / "more", "deep", "1", {"deep.py": ""}, tag="py3-none-any")
    done = subprocess.run(
        [sys.executable, INDEXER, dist, "--filter=*.whl", "-o", "links.html", "-r", "-v"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "listed: deep-1-py3-none-any.whl",
        "listed: rocmx-7.10.0-py3-none-any.whl",
        "listed: torchx-2.9.0+rocm7.10.0-py3-none-any.whl",
    ]
    assert 'href="more/deep-1-py3-none-any.whl#' in (dist / "links.html").read_text()


def test_the_indexer_writes_no_page_with_a_damaged_wheel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dist = packages(tmp_path / "dist")
    wheel = next(dist.glob("rocmx*"))
    wheel.write_bytes(wheel.read_bytes()[:-40])
    assert call(INDEXER, dist) == 3
    assert f"error (InvalidWheel): {wheel.name} cannot be read" in capsys.readouterr().err
    assert not (dist / "index.html").exists()


# upload_python_packages.py


@pytest.mark.slow
def test_the_layout_of_ci_in_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    packages(tmp_path / "packages/dist")
    for name in ("OUTPUT", "STEP_SUMMARY"):
        monkeypatch.setenv(f"GITHUB_{name}", str(tmp_path / name))
    monkeypatch.setenv("GITHUB_REPOSITORY", "ROCm/TheRock")
    words = ["--input-packages-dir", "packages", "--run-id=21440027240", "--artifact-group", "gfx110X-all"]
    assert call(UPLOAD, *words, "--platform", "linux", "--output-dir", "out put") == 0
    prefix = tmp_path / "out put/21440027240-linux/python/gfx110X-all"
    assert {path.name for path in prefix.iterdir()} == {
        "_records",
        "index.html",
        "rocmx-7.10.0-py3-none-any.whl",
        "rocmx-7.10.0-py3-none-any.whl.metadata",
        "torchx-2.9.0+rocm7.10.0-py3-none-any.whl",
        "torchx-2.9.0+rocm7.10.0-py3-none-any.whl.metadata",
    }
    url = (prefix / "index.html").as_uri()
    both = (tmp_path / "out put/21440027240-linux/_combined/gfx110X-all/index.html").as_uri()
    lines = [f"package_find_links_url={url}", "kpack_split=false", f"run_find_links_url={both}"]
    assert (tmp_path / "OUTPUT").read_text().splitlines() == lines
    said = capsys.readouterr()
    assert said.out.splitlines() == lines
    assert "warning" not in said.err
    assert f"pip install rocmx torchx --pre --find-links={url}" in (tmp_path / "STEP_SUMMARY").read_text()
    pip(tmp_path / "target", "torchx", "--pre", f"--find-links={url}")
    # Over HTTP pip asks for the METADATA that the page names, and compares it.
    with served(tmp_path / "out put") as address:
        page = f"{address}21440027240-linux/_combined/gfx110X-all/index.html"
        pip(tmp_path / "again", "torchx", "--pre", f"--find-links={page}")


def test_without_a_workflow_outputs_are_printed_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packages(tmp_path / "dist")
    assert call(UPLOAD, "--input-packages-dir=dist", "--run-id=1", "--multiarch", "--output-dir=out") == 0
    said = capsys.readouterr()
    assert "warning: GITHUB_OUTPUT is not set" in said.err
    assert "package_find_links_url=file://" in said.out
    platform = "windows" if sys.platform == "win32" else "linux"
    assert (tmp_path / f"out/1-{platform}/python/index.html").is_file()


def test_a_run_of_a_fork_stands_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages(tmp_path / "dist")
    monkeypatch.setenv("GITHUB_REPOSITORY", "someone/TheRock")
    words = ("--input-packages-dir=dist", "--run-id=1", "--artifact-group=g", "--platform=windows")
    assert call(UPLOAD, *words, "--output-dir=out", "--kind=pytorch") == 0
    assert (tmp_path / "out/someone-TheRock/1-windows/pytorch/g/index.html").is_file()


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packages(tmp_path / "dist")
    words = ("--input-packages-dir=dist", "--run-id=1", "--artifact-group=g", "--platform=linux")
    assert call(UPLOAD, *words, "--output-dir=out", "--dry-run") == 0
    said = capsys.readouterr().out
    assert "would go to 1-linux/python/g/" in said
    assert "rocmx-7.10.0-py3-none-any.whl" in said
    assert call(UPLOAD, *words, "--output-dir=out", "--dry-run", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert [entry["project"] for entry in plan["new"]] == ["rocmx", "torchx"]
    assert not (tmp_path / "out").exists()


def test_a_dry_run_needs_neither_credentials_nor_the_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    packages(tmp_path / "dist")
    with served(tmp_path) as address:
        # It answers, but as no S3 does.
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("AWS_ENDPOINT_URL", address.rstrip("/"))
        words = ("--input-packages-dir=dist", "--run-id=1", "--artifact-group=g", "--dry-run")
        assert call(UPLOAD, *words) == 0
    said = capsys.readouterr()
    assert "warning: what the store already has could not be read: s3://therock-ci-artifacts" in said.err
    assert "rocmx-7.10.0-py3-none-any.whl" in said.out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--output-dir=out"], 2, "give --artifact-group"),
        (["--artifact-group=g", "--output-dir=out", "--bucket=b"], 2, "one of --output-dir, --bucket"),
        (["--artifact-group=../g", "--output-dir=out"], 3, "not a valid artifact group"),
        (["--artifact-group=g", "--output-dir=out", "--repository=x"], 3, "not a GitHub repository"),
        (["--artifact-group=g", "--output-dir=out", "--run-id=../1"], 3, "not a valid run id"),
    ],
)
def test_an_upload_that_cannot_be_meant_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, message: str
) -> None:
    packages(tmp_path / "dist")
    given = words if any("run-id" in word for word in words) else [*words, "--run-id=1"]
    assert call(UPLOAD, "--input-packages-dir=dist", *given) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_bytes_that_changed_are_not_uploaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dist = packages(tmp_path / "dist")
    words = ("--input-packages-dir=dist", "--run-id=1", "--artifact-group=g", "--output-dir=out")
    assert call(UPLOAD, *words) == 0
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    next(dist.glob("rocmx*")).unlink()
    write_wheel(dist, "rocmx", "7.10.0", {"rocmx/__init__.py": "rebuilt\n"}, tag="py3-none-any")
    write_wheel(dist, "aaa", "1", {"aaa.py": ""}, tag="py3-none-any")
    assert call(UPLOAD, *words) == 6
    assert "refusing to replace them: rocmx-7.10.0" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before


# fetch_artifacts.py and artifact_manager.py


@pytest.mark.parametrize("form", ["--target={}", "--artifact-group={}", "--target {}", "--artifact-group {}"])
def test_artifacts_of_a_run_are_fetched_into_a_new_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    store = stored(
        tmp_path, "17123441166", "base_lib_generic", "blas_lib_gfx110X-all", "blas_lib_gfx94X-dcgpu"
    )
    monkeypatch.setenv("ROCWRIGHT_STORE", str(store))
    output = tmp_path / "home/.therock/17123441166/artifacts"
    words = ("--run-id=17123441166", *form.format("gfx110X-all").split(), f"--output-dir={output}")
    assert call(FETCH, *words, "--platform=linux") == 0
    assert sorted(path.name for path in output.iterdir()) == [
        ".rocwright-fetch.json",
        "base_lib_generic",
        "blas_lib_gfx110X-all",
    ]
    assert (output / "blas_lib_gfx110X-all/stage/share/blas_lib_gfx110X-all.txt").read_text() == "x\n"
    assert (output / "blas_lib_gfx110X-all/artifact_manifest.txt").read_text() == "stage\n"


def test_split_artifacts_are_fetched_as_the_document_does(tmp_path: Path) -> None:
    targets = ["gfx942", "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1151", "gfx1200", "gfx1201"]
    stems = ["base_lib_generic", *(f"blas_lib_{target}" for target in targets), "blas_lib_gfx90a"]
    store = stored(tmp_path, "21440027240", *stems, "miopen_lib_gfx942:xnack+")
    words = ["fetch", "--stage", "all", "--output-dir=out", "--run-id=21440027240", "--platform", "linux"]
    words += ["--amdgpu-families", "gfx94X-dcgpu;gfx120X-all", "--amdgpu-targets", ",".join(targets)]
    assert call(MANAGER, *words, "--store", store) == 0
    found = {path.name for path in (tmp_path / "out/artifacts").iterdir() if path.is_dir()}
    assert found == {*stems, "miopen_lib_gfx942:xnack+"} - {"blas_lib_gfx90a"}


TOPOLOGY = """\
[build_stages.compiler]
artifact_groups = ["compiler", "base"]
[build_stages.math-libs]
artifact_groups = ["math"]
[artifacts.base]
artifact_group = "base"
[artifacts.blas]
artifact_group = "math"
"""


def build(tmp_path: Path) -> Path:
    """What a build leaves: two artifacts as directories, one for a family, and a file that is none."""
    for name, file in (("base_lib_generic", "lib/libbase.so"), ("blas_lib_gfx94X-dcgpu", "lib/libblas.so")):
        path = tmp_path / "build/artifacts" / name / "stage" / file
        path.parent.mkdir(parents=True)
        path.write_text(name)
        (tmp_path / "build/artifacts" / name / "artifact_manifest.txt").write_text("stage\n")
    (tmp_path / "build/artifacts/build.log").write_text("")
    (tmp_path / "BUILD_TOPOLOGY.toml").write_text(TOPOLOGY)
    return tmp_path / "build"


def archives(store: Path, run: str) -> list[str]:
    return sorted(
        path.name for path in (store / f"{run}-linux").glob("*.tar.*") if path.suffix != ".sha256sum"
    )


def test_artifacts_of_a_build_are_pushed_and_fetched_again(tmp_path: Path) -> None:
    store = tmp_path / "store"
    run = ["--run-id", "7", "--platform", "linux", "--store", store]
    assert call(MANAGER, "push", "--stage", "all", "--build-dir", build(tmp_path), *run) == 0
    assert archives(store, "7") == ["base_lib_generic.tar.zst", "blas_lib_gfx94X-dcgpu.tar.zst"]
    packed = store / "7-linux/base_lib_generic.tar.zst"
    said = (store / "7-linux/base_lib_generic.tar.zst.sha256sum").read_text().split()
    assert said == [hashlib.sha256(packed.read_bytes()).hexdigest(), packed.name]
    assert call(FETCH, "--output-dir", tmp_path / "here", *run) == 0
    assert (tmp_path / "here/base_lib_generic/stage/lib/libbase.so").read_text() == "base_lib_generic"
    # The same again is fine; other bytes under a name are refused.
    assert call(MANAGER, "push", "--stage", "all", "--build-dir", tmp_path / "build", *run) == 0
    (tmp_path / "build/artifacts/base_lib_generic/stage/lib/libbase.so").write_text("another")
    assert call(MANAGER, "push", "--stage", "all", "--build-dir", tmp_path / "build", *run) == 6


def test_a_stage_pushes_what_the_topology_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "store"
    words = ["push", "--build-dir", build(tmp_path), "--run-id", "7", "--platform", "linux", "--store", store]
    assert call(MANAGER, *words, "--stage", "math-libs") == 2
    assert "name it with --topology" in capsys.readouterr().err
    assert call(MANAGER, *words, "--stage", "media", "--topology", tmp_path / "BUILD_TOPOLOGY.toml") == 2
    assert "there is no stage media" in capsys.readouterr().err
    assert not store.exists()
    assert call(MANAGER, *words, "--stage", "math-libs", "--topology", tmp_path / "BUILD_TOPOLOGY.toml") == 0
    assert archives(store, "7") == ["blas_lib_gfx94X-dcgpu.tar.zst"]


def test_a_build_without_artifacts_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["push", "--stage", "all", "--build-dir", tmp_path, "--run-id", "7"]
    assert call(MANAGER, *words, "--store", tmp_path / "store") == 3
    assert "the build has no artifacts" in capsys.readouterr().err


def test_artifacts_are_copied_from_run_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "store"
    where = ["--platform", "linux", "--store", store]
    assert (
        call(MANAGER, "push", "--stage", "all", "--build-dir", build(tmp_path), "--run-id", "7", *where) == 0
    )
    words = ["copy", "--source-run-id", "7", "--stage", "all", *where]
    assert call(MANAGER, *words, "--run-id", "8", "--generic-only", "--dry-run") == 0
    assert not (store / "8-linux").exists()
    assert call(MANAGER, *words, "--run-id", "8", "--generic-only") == 0
    assert archives(store, "8") == ["base_lib_generic.tar.zst"]
    assert call(MANAGER, *words, "--run-id", "8", "--amdgpu-families", "gfx94X-dcgpu") == 0
    assert archives(store, "8") == archives(store, "7")
    # Both copies are of one run, which is whole.
    assert call(FETCH, "--run-id", "8", "--output-dir", tmp_path / "here", *where) == 0
    assert (tmp_path / "here/blas_lib_gfx94X-dcgpu/stage/lib/libblas.so").exists()
    assert call(MANAGER, *words, "--run-id", "8", "--amdgpu-families", "gfx110X-all") == 3
    assert "no artifacts for gfx110X-all" in capsys.readouterr().err
    assert call(MANAGER, *words, "--run-id", "7") == 2
    assert "both runs are the same" in capsys.readouterr().err
    assert call(MANAGER, *words[:1], "--source-run-id", "9", "--run-id", "8", "--stage", "all", *where) == 3


def test_a_second_call_keeps_what_is_there_and_mends_what_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = stored(tmp_path, "5", "base_lib_generic", "blas_lib_gfx942")
    words = ("--run-id=5", "--platform=linux", "--output-dir=out", "--store", store)
    assert call(FETCH, *words) == 0
    (tmp_path / "out/blas_lib_gfx942/stage/share/blas_lib_gfx942.txt").unlink()
    kept = (tmp_path / "out/base_lib_generic").stat().st_ino
    subprocess.run(["rm", "-r", "out/blas_lib_gfx942"], check=True)
    capsys.readouterr()
    assert call(FETCH, *words, "--json") == 0
    done = json.loads(capsys.readouterr().out)
    assert done["kept"] == ["base_lib_generic"]
    assert (tmp_path / "out/base_lib_generic").stat().st_ino == kept
    assert (tmp_path / "out/blas_lib_gfx942/stage/share/blas_lib_gfx942.txt").is_file()


def test_an_artifact_that_was_uploaded_anew_replaces_the_one_that_was_fetched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = stored(tmp_path, "5", "base_lib_generic", "blas_lib_gfx942")
    words = ("--run-id=5", "--platform=linux", "--output-dir=out", "--store", store)
    assert call(FETCH, *words) == 0
    shutil.rmtree(store / "5-linux")
    stored(tmp_path, "5", "blas_lib_gfx942", text="newer\n")
    capsys.readouterr()
    assert call(FETCH, *words, "--json") == 0
    assert json.loads(capsys.readouterr().out)["kept"] == ["base_lib_generic"]
    assert (tmp_path / "out/blas_lib_gfx942/stage/share/blas_lib_gfx942.txt").read_text() == "newer\n"


def test_runs_do_not_mix_in_one_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path, "5", "base_lib_generic")
    store = stored(tmp_path, "6", "base_lib_generic", text="newer\n")
    words = ("--platform=linux", "--output-dir=out", "--store", store)
    assert call(FETCH, "--run-id=5", *words) == 0
    assert call(FETCH, "--run-id=6", *words) == 3
    assert "contains artifacts of another run" in capsys.readouterr().err
    assert (tmp_path / "out/base_lib_generic/stage/share/base_lib_generic.txt").read_text() == "x\n"
    # Nor over what somebody built there.
    (tmp_path / "own/base_lib_generic").mkdir(parents=True)
    assert call(FETCH, "--run-id=6", "--platform=linux", "--output-dir=own", "--store", store) == 3
    assert "were not fetched into it: base_lib_generic" in capsys.readouterr().err
    assert list((tmp_path / "own/base_lib_generic").iterdir()) == []


def test_without_a_run_the_latest_successful_one_is_fetched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path, "9", "base_lib_generic", text="nine\n")
    store = stored(tmp_path, "10", "base_lib_generic", text="ten\n")
    (tmp_path / "store/11-linux").mkdir()
    assert call(FETCH, "--platform=linux", "--output-dir=out", "--store", store) == 0
    assert "the latest successful run is 10" in capsys.readouterr().err
    assert (tmp_path / "out/base_lib_generic/stage/share/base_lib_generic.txt").read_text() == "ten\n"


def test_a_damaged_archive_is_not_unpacked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = stored(tmp_path, "5", "base_lib_generic", "blas_lib_gfx942")
    path = store / "5-linux/blas_lib_gfx942.tar.zst"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()
    path.write_bytes(data)
    words = ("--run-id=5", "--platform=linux", "--output-dir=out", "--store", store)
    assert call(FETCH, *words) == 6
    said = capsys.readouterr().err
    assert "blas_lib_gfx942.tar.zst has sha256" in said
    assert not (tmp_path / "out/blas_lib_gfx942").exists()


def test_an_archive_that_leads_out_is_not_unpacked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("artifact_manifest.txt", "../../evil.txt"):
            archive.addfile(tarfile.TarInfo(name))
    folder = tmp_path / "store/5-linux"
    folder.mkdir(parents=True)
    data = zstandard.compress(packed.getvalue())
    (folder / "base_lib_generic.tar.zst").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    (folder / "base_lib_generic.tar.zst.sha256sum").write_text(f"{digest}  base_lib_generic.tar.zst\n")
    words = ("--run-id=5", "--platform=linux", "--output-dir=deep/er/out", "--store=store")
    assert call(FETCH, *words) == 3
    assert "leads out of the archive" in capsys.readouterr().err
    assert list(tmp_path.rglob("evil.txt")) == []
    assert not (tmp_path / "deep/er/out/base_lib_generic").exists()


def test_archives_can_be_kept_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = stored(tmp_path, "5", "base_lib_generic", "base_dev_generic", "blas_lib_gfx942")
    words = ("--run-id=5", "--platform=linux", "--output-dir=out", "--store", store, "--no-extract")
    assert call(FETCH, "base", *words, "--exclude", "*_dev_*", "--dry-run") == 0
    assert not (tmp_path / "out").exists()
    assert "base_lib_generic" in capsys.readouterr().out
    for _ in range(2):
        assert call(FETCH, "base", *words, "--exclude", "*_dev_*") == 0
        assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.name[0] != ".") == [
            "base_lib_generic.tar.zst",
            "base_lib_generic.tar.zst.sha256sum",
        ]
    name = "base_lib_generic.tar.zst"
    assert (tmp_path / "out" / name).read_bytes() == (store / "5-linux" / name).read_bytes()
    done = subprocess.run(["sha256sum", "-c", f"{name}.sha256sum"], cwd="out", capture_output=True)
    assert done.returncode == 0


def test_a_run_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = stored(tmp_path, "5", "base_lib_generic")
    words = ("--platform=linux", "--output-dir=out", "--store", store)
    assert call(FETCH, "--run-id=55", *words) == 3
    assert "runs it has: 5" in capsys.readouterr().err
    assert call(FETCH, "--run-id=5", "--target=gfx942", *words) == 3
    assert "no artifacts for gfx942" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_from_artifacts_to_an_installed_rocm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees = small_artifacts(tmp_path / "built", split=True)
    for tree in sorted(trees.iterdir()):
        pack(tree, tmp_path / "archives")
    run_id, store = "21440027240", tmp_path / "store"
    words = ("--run-id", run_id, "--platform", "linux", "--store", store)
    rocwright("store", "upload", "--kind", "artifacts", "--input-dir", "archives", "--multiarch", *words)
    assert call(FETCH, *words, "--output-dir=fetched") == 0
    rocwright(
        "sdk", "build", "--artifact-dir", "fetched", "--dest-dir", "packages", "--version", "7.12.0.dev0"
    )
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    assert call(UPLOAD, "--input-packages-dir", "packages", "--multiarch", *words) == 0
    said = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
    assert said["kpack_split"] == "true"
    target = ["rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-device-gfx942"]
    pip(tmp_path / "target", *target, "--pre", f"--find-links={said['package_find_links_url']}")
    assert (tmp_path / "target/rocm_sdk_device_gfx942-7.12.0.dev0.dist-info/METADATA").is_file()


# promote_wheels_based_on_policy.py


@pytest.mark.parametrize(
    ("environment", "line"),
    [
        ({"BUILD_RESULT": "success", "TEST_RESULT": "success", "TEST_RUNS_ON": "gpu-1"}, "upload=true"),
        (
            {"BUILD_RESULT": "success", "TEST_RESULT": "failure", "TEST_RUNS_ON": "gpu-1"},
            "upload=false",
        ),
        ({"BUILD_RESULT": "success", "TEST_RESULT": "skipped"}, "upload=false"),
        (
            {"BUILD_RESULT": "success", "TEST_RESULT": "skipped", "BYPASS_TESTS_FOR_RELEASES": "true"},
            "upload=true",
        ),
        ({"BUILD_RESULT": "failure", "GITHUB_REF_NAME": "release/therock-7.10"}, "upload=false"),
        ({"BUILD_RESULT": "success", "GITHUB_REF_NAME": "release/therock-7.10"}, "upload=true"),
    ],
)
def test_the_policy_tells_the_workflow(tmp_path: Path, environment: dict[str, str], line: str) -> None:
    (tmp_path / "env").write_text("earlier=1\n")
    done = subprocess.run(
        [sys.executable, POLICY],
        env={**os.environ, **environment, "GITHUB_ENV": str(tmp_path / "env")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "env").read_text().splitlines() == ["earlier=1", line]
    assert done.stdout.splitlines() == [line]
    assert done.stderr.startswith("rule ")


def test_a_bypass_that_is_neither_true_nor_false_stops_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ENV", str(tmp_path / "env"))
    monkeypatch.setenv("BUILD_RESULT", "success")
    monkeypatch.setenv("BYPASS_TESTS_FOR_RELEASES", "no")
    assert call(POLICY) == 3
    assert "write true or false" in capsys.readouterr().err
    assert not (tmp_path / "env").exists()
