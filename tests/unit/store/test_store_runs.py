from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import zstandard

from rocwright.device_code.wheel.selectors import DeviceChoice, Selector, write_selectors
from rocwright.errors import IntegrityError, InvalidData, InvalidInput, Unreachable
from rocwright.model.channels import Runs
from rocwright.model.variants import InvalidVariant
from rocwright.store.layout import check_key
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import download
from rocwright.store.pool import describe_files
from rocwright.store.runs.artifacts import ArtifactChoice, choose, find_artifacts, upload_artifacts, words
from rocwright.store.runs.latest import find_run, successful_runs
from rocwright.store.runs.policy import known, may_upload
from rocwright.store.runs.run import Run, external_repo, records_of, runs_in
from rocwright.store.runs.upload import folder_page, install_line, plan_upload, upload_run
from wheels import AMD, write_variant

MakeWheel = Callable[..., Path]
FAMILIES = {"gfx94X-dcgpu": ("gfx942",), "gfx120X-all": ("gfx1200", "gfx1201"), "gfx110X-all": ("gfx1100",)}
ABOUT = Runs(repository="ROCm/TheRock", workflow="ci.yml", branch="main")


def artifact(folder: Path, stem: str, body: bytes = b"x", *, members: dict[str, bytes] | None = None) -> Path:
    """An artifact's archive with one stage directory."""
    folder.mkdir(parents=True, exist_ok=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in (members or {"artifact_manifest.txt": b"stage\n", "stage/lib/x.so": body}).items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    path = folder / f"{stem}.tar.zst"
    path.write_bytes(zstandard.compress(packed.getvalue()))
    return path


def keys(store: LocalStore, prefix: str) -> list[str]:
    return [stored.key.removeprefix(prefix) for stored in store.list(prefix)]


def test_upload_of_a_run(tmp_path: Path, make_wheel: MakeWheel, make_sdist: Callable[..., Path]) -> None:
    store = LocalStore(tmp_path / "store")
    wheel, sdist = make_wheel("a", "1+r"), make_sdist("rocm", "7.1")
    uploaded = upload_run(store, [wheel, sdist], "42", "linux", "fam", "python")
    prefix = "42-linux/python/fam/"
    assert uploaded.prefix == prefix
    assert uploaded.url == (tmp_path / "store" / prefix / "index.html").as_uri()
    assert keys(store, "42-linux/") == [
        "_combined/fam/index.html",
        "_run/python/fam.json",
        "python/fam/_records/a-1+r-py3-none-any.whl.json",
        "python/fam/_records/rocm-7.1.tar.gz.json",
        "python/fam/a-1+r-py3-none-any.whl",
        "python/fam/a-1+r-py3-none-any.whl.metadata",
        "python/fam/index.html",
        "python/fam/rocm-7.1.tar.gz",
    ]
    page = store.read(prefix + "index.html").decode()
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert f'href="a-1%2Br-py3-none-any.whl#sha256={digest}"' in page
    combined = store.read("42-linux/_combined/fam/index.html").decode()
    assert f'href="../../python/fam/a-1%2Br-py3-none-any.whl#sha256={digest}"' in combined
    [record] = records_of(store, Run("42", "linux"), "python")
    assert record.result == "success"
    assert {file.name: file.sha256 for file in record.files}[wheel.name] == digest
    before = {stored.key: store.digest(stored.key) for stored in store.list("")}
    upload_run(store, [sdist, wheel], "42", "linux", "fam", "python")
    assert {stored.key: store.digest(stored.key) for stored in store.list("")} == before


def test_the_record_is_written_last(tmp_path: Path, make_wheel: MakeWheel) -> None:
    class Dies(LocalStore):
        def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
            if "/_run/" in key:
                raise KeyboardInterrupt
            super().put_bytes(key, data, overwrite=overwrite)

    with pytest.raises(KeyboardInterrupt):
        upload_run(Dies(tmp_path / "store"), [make_wheel("a", "1")], "1", "linux", "fam", "python")
    store = LocalStore(tmp_path / "store")
    assert store.exists("1-linux/_combined/fam/index.html")
    assert records_of(store, Run("1", "linux"), "python") == ()


def test_both_kinds_of_a_run_are_on_one_page(tmp_path: Path, make_wheel: MakeWheel) -> None:
    store = LocalStore(tmp_path / "store")
    upload_run(store, [make_wheel("rocm", "1")], "42", "linux", "fam", "python")
    shared = make_wheel("triton", "1")
    upload_run(store, [make_wheel("torch", "1"), shared], "42", "linux", "fam", "pytorch")
    upload_run(store, [shared], "42", "linux", "fam", "python")
    upload_run(store, [make_wheel("torch", "2")], "42", "linux", "other", "pytorch")
    page = store.read("42-linux/_combined/fam/index.html").decode()
    assert page.count("<a ") == 3
    assert '"../../pytorch/fam/torch-1-py3-none-any.whl#' in page
    with pytest.raises(IntegrityError, match=r"other bytes.*triton-1"):
        upload_run(
            store,
            [make_wheel("triton", "1", body="new", folder=tmp_path / "new")],
            "42",
            "linux",
            "fam",
            "pytorch",
        )


def test_a_second_job_of_a_run_adds_to_the_page(tmp_path: Path, make_wheel: MakeWheel) -> None:
    store = LocalStore(tmp_path / "store")
    upload_run(store, [make_wheel("a", "1")], "42", "linux", "fam", "pytorch")
    upload_run(store, [make_wheel("b", "1")], "42", "linux", "fam", "pytorch")
    page = store.read("42-linux/pytorch/fam/index.html").decode()
    assert "a-1-py3-none-any.whl" in page
    assert "b-1-py3-none-any.whl" in page


def test_a_job_that_comes_in_between_is_not_left_off_the_page(tmp_path: Path, make_wheel: MakeWheel) -> None:
    first, second = make_wheel("a", "1"), make_wheel("b", "1")

    class Interleaved(LocalStore):
        """Another job uploads all of its own just before this one writes its first page."""

        done = False

        def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
            if key.endswith("index.html") and not self.done:
                self.done = True
                upload_run(LocalStore(tmp_path / "store"), [second], "42", "linux", "fam", "pytorch")
            super().put_bytes(key, data, overwrite=overwrite)

    upload_run(Interleaved(tmp_path / "store"), [first], "42", "linux", "fam", "pytorch")
    store = LocalStore(tmp_path / "store")
    for page in ("pytorch/fam/index.html", "_combined/fam/index.html"):
        assert store.read(f"42-linux/{page}").count(b"<a ") == 2
    [record] = records_of(store, Run("42", "linux"), "pytorch")
    assert [file.name for file in record.files] == [first.name, second.name]


def test_jobs_at_the_same_time_lose_no_file(tmp_path: Path, make_wheel: MakeWheel) -> None:
    wheels = [make_wheel(f"p{number}", "1", folder=tmp_path / str(number)) for number in range(6)]
    store = LocalStore(tmp_path / "store")
    for run_id in map(str, range(8)):
        with ThreadPoolExecutor(len(wheels)) as pool:
            jobs = [pool.submit(upload_run, store, [one], run_id, "linux", "g", "python") for one in wheels]
            for job in jobs:
                job.result()
        for page in ("python/g/index.html", "_combined/g/index.html"):
            assert store.read(f"{run_id}-linux/{page}").count(b"<a ") == len(wheels)
        [record] = records_of(store, Run(run_id, "linux"), "python")
        assert len(record.files) == len(wheels)


def test_an_upload_without_files_or_with_changed_ones_changes_nothing(
    tmp_path: Path, make_wheel: MakeWheel
) -> None:
    store = LocalStore(tmp_path / "store")
    with pytest.raises(InvalidInput, match="no wheels"):
        upload_run(store, [], "42", "linux", "fam", "python")
    upload_run(store, [make_wheel("a", "1")], "42", "linux", "fam", "python")
    before = keys(store, "")
    changed = make_wheel("a", "1", body="changed", folder=tmp_path / "second")
    with pytest.raises(IntegrityError, match=r"refusing to replace them: a-1"):
        upload_run(store, [make_wheel("0", "1"), changed], "42", "linux", "fam", "python")
    assert keys(store, "") == before


def test_packages_of_all_gpus_lie_in_the_folder_itself(tmp_path: Path, make_wheel: MakeWheel) -> None:
    store = LocalStore(tmp_path / "store")
    wheels = [make_wheel("rocm", "1"), make_wheel("rocm_sdk_device_gfx942", "1")]
    done = upload_run(store, wheels, "7", "windows", None, "python", external_repo="me-fork/")
    assert store.exists("me-fork/7-windows/python/rocm-1-py3-none-any.whl")
    assert done.split
    assert install_line(done, "python") == (
        f'pip install "rocm[libraries,devel,device-gfx942]" --pre --find-links={done.url}'
    )
    page = store.read("me-fork/7-windows/_combined/index.html").decode()
    assert 'href="../python/rocm-1-py3-none-any.whl#' in page
    torch = upload_run(store, [make_wheel("torch", "1")], "7", "windows", None, "pytorch")
    assert install_line(torch, "pytorch") == f"pip install torch --pre --find-links={torch.combined_url}"
    assert not torch.split


def test_the_line_of_a_run_names_no_selector(tmp_path: Path, make_wheel: MakeWheel) -> None:
    """They come with the wheel that requires them; the run's page lists them as files like others."""
    same = ("amd-torch-device", "1", "torch", "py3-none-any")
    wanted = (Selector(*same, None), Selector(*same, "gfx942", "gfx942", "amd-torch-device-gfx942"))
    selectors = write_selectors([DeviceChoice("", "", (), wanted)], tmp_path / "selectors")
    store = LocalStore(tmp_path / "store")
    done = upload_run(store, [make_wheel("torch", "1"), *selectors], "7", "linux", "fam", "pytorch")
    assert install_line(done, "pytorch") == f"pip install torch --pre --find-links={done.combined_url}"
    page = store.read("7-linux/pytorch/fam/index.html").decode()
    assert all(f">{path.name}</a>" in page for path in selectors)


def test_pages_of_a_run_state_its_variants(tmp_path: Path) -> None:
    """uv reads them from a flat page as well; each page leads to a file that lies beside it."""
    host = ("amd-torch-device", "2.9+rocm7", "torch", "py3-none-linux_x86_64")
    chosen = [Selector(*host, None), Selector(*host, "null"), Selector(*host, "gfx942", "gfx942", "p-gfx942")]
    selectors = write_selectors([DeviceChoice(host[0], "", (), tuple(chosen))], tmp_path / "wheels")
    store = LocalStore(tmp_path / "store")
    upload_run(store, selectors, "42", "linux", "fam", "pytorch")
    for place in ("42-linux/pytorch/fam/", "42-linux/_combined/fam/"):
        page = store.read(f"{place}index.html").decode()
        [(way, digest)] = re.findall(r'href="(_variants/[^"#]*)#sha256=([0-9a-f]{64})"', page)
        data = store.read(place + way.replace("%2B", "+"))
        assert hashlib.sha256(data).hexdigest() == digest
        assert way.endswith("/amd_torch_device-2.9%2Brocm7-variants.json")
        stated = json.loads(data)
        assert sorted(stated["variants"]) == ["gfx942", "null"]
        assert stated["providers"]["amd"]["requires"] == ["rocm-bootstrap"]


def test_a_run_of_variants_that_contradict_each_other_is_not_begun(tmp_path: Path) -> None:
    def variant(label: str, plugin: str) -> Path:
        by = {"amd": {**AMD, "plugin-api": plugin}}
        return write_variant(tmp_path / "w", "x", "1", label, {"amd": {"gfx_arch": [label]}}, providers=by)

    with pytest.raises(InvalidVariant, match="do not agree on the provider of amd"):
        files = [variant("gfx942", "one:Plugin"), variant("gfx950", "other:Plugin")]
        upload_run(LocalStore(tmp_path / "store"), files, "42", "linux", "fam", "pytorch")
    assert not (tmp_path / "store").exists()


def test_a_plan_says_what_is_new(tmp_path: Path, make_wheel: MakeWheel) -> None:
    store = LocalStore(tmp_path / "store")
    wheels = [make_wheel("a", "1")]
    upload_run(store, wheels, "42", "linux", "fam", "python")
    entries = describe_files([*wheels, make_wheel("b", "1")])
    plan = plan_upload(store, entries, Run("42", "linux"), "fam", "python")
    assert [entry.project for entry in plan.new] == ["b"]
    assert [entry.project for entry in plan.known] == ["a"]
    assert plan.files == entries


@pytest.mark.parametrize("run_id", ["../1", "1/2", "", "a b", "..", "1\n"])
def test_a_run_cannot_leave_its_place(tmp_path: Path, make_wheel: MakeWheel, run_id: str) -> None:
    with pytest.raises(InvalidInput, match="run id"):
        upload_run(LocalStore(tmp_path), [make_wheel("a", "1")], run_id, "linux", "fam", "python")


def test_a_damaged_record_is_named(tmp_path: Path, make_wheel: MakeWheel) -> None:
    store = LocalStore(tmp_path / "store")
    upload_run(store, [make_wheel("a", "1")], "42", "linux", "fam", "python")
    key = "42-linux/python/fam/_records/a-1-py3-none-any.whl.json"
    store.put_bytes(key, b"{", overwrite=True)
    with pytest.raises(InvalidData, match=r"a-1-py3-none-any\.whl\.json is not a record"):
        upload_run(store, [make_wheel("b", "1")], "42", "linux", "fam", "python")


def test_the_repository_of_a_fork_stands_in_front() -> None:
    assert external_repo(None, "ROCm/TheRock") == ""
    assert external_repo("ROCm/TheRock", "ROCm/TheRock") == ""
    assert external_repo("some-one/The.Rock_2", "ROCm/TheRock") == "some-one-The.Rock_2/"
    for wrong in ("noslash", "a/b/c", "../x", "a/", "/b"):
        with pytest.raises(InvalidInput, match="not a GitHub repository"):
            external_repo(wrong, "ROCm/TheRock")


def test_runs_are_ordered_by_number(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for name in ("9-linux", "10-linux", "local-linux", "8-windows", "v2", "sets"):
        store.put_bytes(f"{name}/x", b"")
    assert [run.run_id for run in runs_in(store, "linux", "")] == ["10", "9", "local"]


# Which artifacts


LEGACY = ["base_lib_generic.tar.xz", "blas_lib_gfx94X-dcgpu.tar.xz", "blas_lib_gfx110X-all.tar.xz"]
SPLIT = [
    "base_lib_generic.tar.zst",
    "blas_lib_generic.tar.zst",
    "blas_lib_gfx942.tar.zst",
    "blas_lib_gfx942:xnack+.tar.zst",
    "blas_lib_gfx1200.tar.zst",
    "blas_lib_gfx1201.tar.zst",
    "blas_dbg_gfx1100.tar.zst",
]
NONE = ["index.html", "base_lib_generic.tar.xz.sha256sum", "nothing.tar.xz"]


@pytest.mark.parametrize(
    ("files", "wanted", "chosen"),
    [
        (LEGACY, ArtifactChoice(), {0, 1, 2}),
        (LEGACY, ArtifactChoice(families=("gfx110X-all",)), {0, 2}),
        (LEGACY, ArtifactChoice(families=("GFX110x-ALL",)), {0, 2}),
        (SPLIT, ArtifactChoice(families=("GFX120x-all",), targets=("GFX1201",)), {0, 1, 5}),
        # A group with a suffix has the artifacts of its family.
        (LEGACY, ArtifactChoice(families=("gfx94X-dcgpu-asan",)), {0, 1}),
        # Of a family that was not split, a target comes with the rest of it.
        (LEGACY, ArtifactChoice(families=("gfx94X-dcgpu",), targets=("gfx942",)), {0, 1}),
        (SPLIT, ArtifactChoice(families=("gfx120X-all",)), {0, 1, 4, 5}),
        (SPLIT, ArtifactChoice(families=("gfx942",)), {0, 1, 2, 3}),
        (SPLIT, ArtifactChoice(families=("gfx120X-all",), targets=("gfx1201",)), {0, 1, 5}),
        (SPLIT, ArtifactChoice(families=("gfx94X-dcgpu",), targets=("gfx942", "gfx1100")), {0, 1, 2, 3, 6}),
        (SPLIT, ArtifactChoice(targets=("gfx942:xnack+",)), {0, 1, 3}),
        (SPLIT, ArtifactChoice(families=("gfx110X-all",), exclude=("blas_dbg",), include=("blas",)), {1}),
        (SPLIT, ArtifactChoice(include=("*_dbg_*",)), {6}),
    ],
)
def test_which_artifacts_are_fetched(files: list[str], wanted: ArtifactChoice, chosen: set[int]) -> None:
    found = choose([*files, *NONE], wanted, FAMILIES)
    assert {one.file for one in found} == {files[number] for number in chosen}


@pytest.mark.parametrize(
    ("files", "wanted", "message"),
    [
        (NONE, ArtifactChoice(), "no artifacts"),
        (LEGACY, ArtifactChoice(families=("gfx120X-all", "gfx94X-dcgpu")), "no artifacts for gfx120X-all\n"),
        (SPLIT, ArtifactChoice(targets=("gfx942", "gfx90a")), "no artifacts for gfx90a"),
        (
            ["base_lib_generic.tar.xz"],
            ArtifactChoice(families=("gfx94X-dcgpu",)),
            "no artifacts for gfx94X-dcgpu",
        ),
        (SPLIT, ArtifactChoice(include=("fft",)), "has such a name"),
    ],
)
def test_what_a_run_lacks_is_named(files: list[str], wanted: ArtifactChoice, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        choose(files, wanted, FAMILIES)


def test_of_two_forms_of_an_archive_one_is_taken() -> None:
    [one] = choose(["a_lib_generic.tar.xz", "a_lib_generic.tar.zst"], ArtifactChoice(), FAMILIES)
    assert one.file == "a_lib_generic.tar.zst"


def test_lists_are_separated_by_whatever_stands_in_the_documents() -> None:
    assert words(["gfx942, gfx1100;gfx1101  gfx942"]) == ("gfx942", "gfx1100", "gfx1101")


def test_a_target_with_features_is_part_of_a_key_but_a_drive_is_not() -> None:
    check_key("42-linux/blas_lib_gfx942:xnack+.tar.zst")
    for bad in ("C:/x", "c:x", ":x", "a/D:"):
        with pytest.raises(InvalidInput):
            check_key(bad)


# Finding a run, and downloading


def test_digests_come_from_the_record_or_from_sidecars(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    path = artifact(tmp_path / "in", "base_lib_generic")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    upload_artifacts(store, [path], Run("5", "linux"), "fam")
    assert store.read("5-linux/base_lib_generic.tar.zst.sha256sum").decode().split() == [digest, path.name]
    found = find_artifacts(store, Run("5", "linux"), ArtifactChoice(), FAMILIES)
    assert [(one.artifact, one.sha256) for one in found.archives] == [("base_lib_generic", digest)]
    assert found.result == "success"
    # A bucket of somebody else.
    for name, data in ((path.name, path.read_bytes()), (f"{path.name}.sha256sum", f"{digest} *x".encode())):
        store.put_bytes(f"6-linux/{name}", data)
    found = find_artifacts(store, Run("6", "linux"), ArtifactChoice(), FAMILIES)
    assert (found.archives[0].sha256, found.result) == (digest, None)
    store.put_bytes(f"6-linux/{path.name}.sha256sum", b"<Error>", overwrite=True)
    with pytest.raises(InvalidInput, match="contains no sha256"):
        find_artifacts(store, Run("6", "linux"), ArtifactChoice(), FAMILIES)
    with pytest.raises(InvalidInput, match="no artifacts of run 7") as caught:
        find_artifacts(store, Run("7", "linux"), ArtifactChoice(), FAMILIES)
    assert caught.value.next_step == "runs it has: 6 5"
    for number in range(1, 5):
        store.put_bytes(f"{number}-linux/{path.name}", b"")
    with pytest.raises(InvalidInput, match="no artifacts of run 7") as caught:
        find_artifacts(store, Run("7", "linux"), ArtifactChoice(), FAMILIES)
    assert caught.value.next_step == "runs it has: 6 5 4 3 2"


def test_artifacts_of_a_run_are_not_replaced(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    run = Run("5", "linux")
    upload_artifacts(store, [artifact(tmp_path / "a", "base_lib_generic")], run, "one")
    upload_artifacts(
        store,
        [artifact(tmp_path / "a", "base_lib_generic"), artifact(tmp_path / "a", "blas_lib_gfx942")],
        run,
        "two",
    )
    before = keys(store, "")
    with pytest.raises(IntegrityError, match=r"base_lib_generic\.tar\.zst"):
        upload_artifacts(
            store,
            [artifact(tmp_path / "b", "0_lib_generic"), artifact(tmp_path / "b", "base_lib_generic", b"y")],
            run,
            "two",
        )
    assert keys(store, "") == before
    with pytest.raises(InvalidInput, match="not an archive of an artifact"):
        upload_artifacts(store, [tmp_path / "x.tar.gz"], run, "one")


def latest(store: LocalStore, wanted: ArtifactChoice = ArtifactChoice(), **environment: str) -> str:  # noqa: B008
    said: list[str] = []
    found = find_run(
        store,
        None,
        "linux",
        None,
        wanted,
        families=FAMILIES,
        about=ABOUT,
        environment=environment,
        note=said.append,
    )
    assert said == [f"the latest successful run is {found.run.run_id}"]
    return found.run.run_id


def test_the_latest_run_is_the_newest_that_succeeded_and_has_all(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    both = [artifact(tmp_path, "base_lib_generic"), artifact(tmp_path, "blas_lib_gfx942")]
    upload_artifacts(store, both, Run("9", "linux"), "fam")
    upload_artifacts(store, both[:1], Run("10", "linux"), "fam")
    upload_artifacts(store, both, Run("11", "linux"), "fam", result="failure")
    upload_artifacts(store, both, Run("12", "windows"), "fam")
    # Killed before its record.
    store.put_file(both[0], f"13-linux/{both[0].name}")
    assert latest(store) == "10"
    assert latest(store, ArtifactChoice(families=("gfx94X-dcgpu",))) == "9"


@contextmanager
def stand_in_for_github(answers: dict[str, tuple[int, object]]) -> Iterator[tuple[str, list[str]]]:
    """A stand-in for GitHub's API on loopback: answers by path and query, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers.get('Authorization')}")
            status, answer = answers.get(self.path.partition("?")[0], (404, {"message": "Not Found"}))
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/api/v3", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


RUNS = "/api/v3/repos/ROCm/TheRock/actions/workflows/ci.yml/runs"


def test_without_records_github_says_which_runs_succeeded(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    data = artifact(tmp_path, "base_lib_generic").read_bytes()
    for run in ("30", "31", "33"):
        store.put_bytes(f"{run}-linux/base_lib_generic.tar.zst", data)
    runs = [{"id": 33, "conclusion": "failure"}, {"id": 32, "conclusion": "success"}, {"id": 31}, {"id": 30}]
    with stand_in_for_github({RUNS: (200, {"total_count": 4, "workflow_runs": runs})}) as (url, asked):
        assert latest(store, GITHUB_API_URL=url) == "31"
    assert asked == [f"{RUNS}?branch=main&status=success&per_page=20 None"]


def test_the_token_is_sent_and_never_shown(tmp_path: Path) -> None:
    with stand_in_for_github({}) as (url, asked):
        environment = {"GITHUB_API_URL": url, "GITHUB_TOKEN": "ghp_secret/token"}
        with pytest.raises(InvalidInput, match=r"no workflow ci\.yml of me/fork") as caught:
            successful_runs("me/fork", ABOUT, environment)
    # x-access-token:ghp_secret/token
    assert asked[0].endswith(" Basic eC1hY2Nlc3MtdG9rZW46Z2hwX3NlY3JldC90b2tlbg==")
    assert "ghp_secret" not in f"{caught.value}{caught.value.__cause__}"


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        (403, {"message": "API rate limit exceeded"}, "does not say which runs"),
        (401, {"message": "Bad credentials"}, "does not say which runs"),
        (200, b"<html>", "does not answer as GitHub does"),
        (200, {"runs": []}, "does not answer as GitHub does"),
        (200, b"\xff\xfe", "does not answer as GitHub does"),
    ],
)
def test_an_answer_that_does_not_help_is_named(status: int, answer: object, message: str) -> None:
    with stand_in_for_github({RUNS: (status, answer)}) as (url, _), pytest.raises(Unreachable, match=message):
        successful_runs("ROCm/TheRock", ABOUT, {"GITHUB_API_URL": url})


def test_an_api_address_is_one() -> None:
    with pytest.raises(InvalidInput, match="GITHUB_API_URL"):
        successful_runs("ROCm/TheRock", ABOUT, {"GITHUB_API_URL": "file:///etc/passwd"})


def test_a_store_without_runs_has_no_latest(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no successful run on linux"):
        latest(LocalStore(tmp_path / "store"))


class Breaks(LocalStore):
    """A store whose connection is lost in front of each of these places; a stand-in."""

    def __init__(self, root: Path, *places: int) -> None:
        super().__init__(root)
        self.places = list(places)
        self.read_from: list[int] = []

    def read_range(self, key: str, start: int, length: int) -> bytes:
        if self.places and start >= self.places[0]:
            self.places.pop(0)
            raise Unreachable("the connection was lost")
        self.read_from.append(start)
        return super().read_range(key, start, length)


def test_a_download_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocwright.store.objects.protocol._PIECE", 10)
    data = bytes(range(35))
    digest = hashlib.sha256(data).hexdigest()
    store = Breaks(tmp_path / "store", 20)
    store.put_bytes("run/file", data)
    target = tmp_path / "file"
    with pytest.raises(Unreachable):
        download(store, "run/file", target, digest)
    assert not target.exists()
    assert download(store, "run/file", target, digest) == digest
    assert target.read_bytes() == data
    assert store.read_from == [0, 10, 20, 30]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "store"]


def test_a_damaged_rest_is_fetched_again_and_a_damaged_object_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocwright.store.objects.protocol._PIECE", 10)
    data = bytes(range(35))
    digest = hashlib.sha256(data).hexdigest()
    store = Breaks(tmp_path / "store", 20)
    store.put_bytes("run/file", data)
    target = tmp_path / "in" / "file"
    with pytest.raises(Unreachable):
        download(store, "run/file", target, digest)
    [partial] = target.parent.iterdir()
    partial.write_bytes(b"damaged!" + bytes(12))
    assert download(store, "run/file", target, digest) == digest
    assert target.read_bytes() == data
    with pytest.raises(IntegrityError, match=f"sha256 {digest}, but {'0' * 64} was recorded"):
        download(store, "run/file", tmp_path / "other" / "file", "0" * 64)
    assert list((tmp_path / "other").iterdir()) == []


# Pages of folders


def test_a_page_of_folders_lists_each_package_once(tmp_path: Path, make_wheel: MakeWheel) -> None:
    one, two = tmp_path / "one", tmp_path / "a & b"
    make_wheel("a", "1+r", folder=one)
    make_wheel("a", "1+r", folder=two)
    make_wheel("b", "10", folder=two / "deeper")
    make_wheel("b", "9", folder=two)
    (one / "notes.txt").write_text("")
    page = folder_page([one, two], ["*.whl"], None)
    assert page.path == one / "index.html"
    assert [entry.name for entry in page.files] == ["a-1+r-py3-none-any.whl", "b-9-py3-none-any.whl"]
    assert 'href="a-1%2Br-py3-none-any.whl#sha256=' in page.text
    assert 'href="../a%20%26%20b/b-9-py3-none-any.whl#sha256=' in page.text
    # No sidecar lies there, so no client may be sent for one.
    assert "core-metadata" not in page.text
    assert 'data-requires-python="&gt;=3.10"' in page.text
    deep = folder_page([two, one], [], Path("links.html"), recursive=True)
    assert deep.path == two / "links.html"
    assert "<title>a &amp; b</title>" in deep.text
    assert [path.name for path in deep.ignored] == ["notes.txt"]
    # Versions are ordered as versions.
    assert deep.text.index("b-9-") < deep.text.index("deeper/b-10-")
    assert folder_page([two, one], [], Path("links.html"), recursive=True).text == deep.text


def test_a_page_names_a_sidecar_only_where_it_fits(tmp_path: Path, make_wheel: MakeWheel) -> None:
    wheel = make_wheel("a", "1")
    sidecar = wheel.with_name(wheel.name + ".metadata")
    sidecar.write_bytes(b"of another one")
    assert "core-metadata" not in folder_page([wheel.parent], [], None).text
    text = b"Metadata-Version: 2.1\nName: a\nVersion: 1\nRequires-Python: >=3.10\n"
    sidecar.write_bytes(text)
    page = folder_page([wheel.parent], [], None)
    assert f'data-core-metadata="sha256={hashlib.sha256(text).hexdigest()}"' in page.text


def test_folders_that_make_no_page(tmp_path: Path, make_wheel: MakeWheel) -> None:
    with pytest.raises(InvalidInput, match="is not a directory"):
        folder_page([tmp_path / "gone"], [], None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="no wheel or sdist"):
        folder_page([tmp_path / "empty"], [], None)
    folders = [make_wheel("a", "1", folder=tmp_path / "x").parent]
    folders.append(make_wheel("a", "1", body="other", folder=tmp_path / "y").parent)
    with pytest.raises(InvalidInput, match="twice, with different bytes"):
        folder_page(folders, [], None)


# The policy of a workflow


OK, NO = True, False


@pytest.mark.parametrize(
    ("build", "tests", "runner", "bypass", "branch", "upload", "rule"),
    [
        # A release branch does not make up for a failed build.
        ("failure", "success", "gpu", "true", "release/therock-7.10", NO, "build"),
        ("cancelled", "success", "gpu", "true", "main", NO, "build"),
        ("skipped", "skipped", "", "true", "main", NO, "build"),
        ("", "success", "gpu", "true", "main", NO, "build"),
        ("success", "failure", "gpu", "false", "release/therock-7.10", OK, "branch"),
        ("success", "", "", "", "release/therock-7.10", OK, "branch"),
        ("success", "success", "gpu", "false", "release/7.10", OK, "passed"),
        ("success", "failure", "gpu", "true", "users/x/release/therock-7", NO, "tests"),
        ("success", "failure", "gpu", "true", "main", NO, "tests"),
        ("success", "cancelled", "gpu", "1", "main", NO, "tests"),
        ("success", "skipped", "gpu", "TRUE", "main", NO, "tests"),
        ("success", "", "gpu", "true", "main", NO, "tests"),
        ("success", "success", "gpu", "", "main", OK, "passed"),
        ("success", "skipped", "", "false", "main", NO, "untested"),
        ("success", "success", " ", "0", "main", NO, "untested"),
        ("success", "skipped", "", "", "main", NO, "untested"),
        ("success", "skipped", "", "True", "main", OK, "bypassed"),
        ("success", "", "", "true", "", OK, "bypassed"),
    ],
)
def test_truth_table(
    build: str, tests: str, runner: str, bypass: str, branch: str, upload: bool, rule: str
) -> None:
    environment = {
        "BUILD_RESULT": build,
        "TEST_RESULT": tests,
        "TEST_RUNS_ON": runner,
        "BYPASS_TESTS_FOR_RELEASES": bypass,
        "GITHUB_REF_NAME": branch,
    }
    decision = may_upload(known(environment))
    assert (decision.upload, decision.rule) == (upload, rule)
    assert decision.reason


def test_nothing_known_uploads_nothing() -> None:
    assert not may_upload(known({})).upload


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BYPASS_TESTS_FOR_RELEASES", "no"),
        ("BYPASS_TESTS_FOR_RELEASES", "yes"),
        ("BUILD_RESULT", "passed"),
        ("TEST_RESULT", "Success"),
    ],
)
def test_text_that_is_no_answer_is_an_error(name: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        known({"BUILD_RESULT": "success", name: value})
