"""`rocwright data refresh` at the door: what is told of each source, and what stops it."""

from __future__ import annotations

import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from command_line import Run
from git_repos import git
from index_server import serving, wheel
from rocwright.system.days import today
from trees import write
from unit.refresh import refresh_pages as pages


def told(run: Run, *words: object) -> list[dict[str, Any]]:
    """The changes of a run that succeeds, without that a source was read again."""
    done = run("data", "refresh", "--json", *words)
    assert done.code == 0, done.err
    return [one for one in done.json["changes"] if one["table"] != "sources"]


def by_key(changes: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {one["key"]: one for one in changes}


def test_families_are_added_changed_and_vanished(rocwright: Run, tmp_path: Path) -> None:
    clone = pages.therock(tmp_path / "clone")
    found = by_key(told(rocwright, "--from", f"therock-targets={clone}"))
    assert {key: one["kind"] for key, one in found.items()} == {
        "families.families.gfx129X-all": "added",
        "families.families.gfx94X-all": "changed",
        "families.families.gfx90a-dcgpu": "vanished",
    }
    assert found["families.families.gfx94X-all"]["old"] == ["gfx942"]
    assert found["families.families.gfx94X-all"]["new"] == ["gfx942", "gfx950"]
    assert found["families.families.gfx129X-all"]["url"] == (
        "https://github.com/ROCm/TheRock/blob/main/cmake/therock_amdgpu_targets.cmake"
    )


def test_people_see_a_diff_of_rows_with_their_source(rocwright: Run, tmp_path: Path) -> None:
    clone = pages.therock(tmp_path / "clone")
    done = rocwright("data", "refresh", "--from", f"therock-targets={clone}")
    assert done.code == 0
    text = "\n".join(done.lines)
    assert "cmake/therock_amdgpu_targets.cmake, as of" in text
    assert "changed  families.families.gfx94X-all\n" in text
    assert '    - "gfx94X-all" = ["gfx942"]\n    + "gfx94X-all" = ["gfx942", "gfx950"]\n' in text
    assert 'vanished families.families.gfx90a-dcgpu\n    ! ["gfx90a"]' in text
    assert not (tmp_path / "rocwright.toml").exists()


@pytest.mark.parametrize("bare", [False, True])
def test_a_clone_is_read_at_its_head_and_dated_by_it(rocwright: Run, tmp_path: Path, bare: bool) -> None:
    work = pages.therock(tmp_path / "work")
    git(work, "init", "--quiet")
    git(work, "add", ".")
    git(work, "commit", "--quiet", "-m", "all")
    # What is not committed is not read.
    write(work / "cmake/therock_amdgpu_targets.cmake", "broken")
    where = work
    if bare:
        where = tmp_path / "bare.git"
        git(tmp_path, "clone", "--quiet", "--bare", str(work), str(where))
    found = told(rocwright, "--from", f"therock-targets={where}")
    # Commits of these tests are of November 2023, and the table is younger: only what it lacks is told.
    assert {one["as_of"] for one in found} == {"2023-11-15"}
    assert [one["kind"] for one in found] == ["added", "noted"]
    assert "it is of 2023-11-15, the tables are of 2026-08-22" in found[1]["says"]


def test_the_matrices_are_read_and_not_run(rocwright: Run, tmp_path: Path) -> None:
    clone = pages.therock(tmp_path / "clone")
    found = by_key(told(rocwright, "--from", f"therock={clone}"))
    assert not (tmp_path / "ran").exists()
    family = found["families.family.gfx90a"]
    # postsubmit before; on Windows nobody builds it any more.
    assert (family["kind"], family["new"]["tier"], "windows" in family["new"]) == (
        "changed",
        "nightly",
        False,
    )
    assert found["families.family.gfx950-dcgpu"]["kind"] == "vanished"
    release = found["profiles.profile.release"]["new"]
    assert (release["pythons"], release["refs"]) == (["3.12", "3.15"], ["release/2.14", "release/2.15"])
    assert release["refs_windows"] == ["release/2.14"]
    nightly = found["profiles.profile.nightly"]["new"]
    assert nightly["refs"] == ["release/2.14", "release/2.15", "nightly"]
    assert (
        found["projects.line"]["says"] == "release/2.15 is built, and no version of PyTorch has this branch"
    )
    halo = found["gpus.chip.Strix Halo"]
    assert halo["new"]["processors"] == [*halo["old"]["processors"], "Ryzen AI Max+ PRO 999"]
    assert found["compat_libraries.release"]["says"].startswith("ROCm 99.0.0 is being made; ")


@pytest.mark.parametrize("form", ["folder", "wheel"])
def test_rocm_bootstrap_is_parsed_and_never_imported(rocwright: Run, tmp_path: Path, form: str) -> None:
    place = pages.bootstrap(tmp_path / "site")
    if form == "wheel":
        place = tmp_path / "rocm_bootstrap-9.1.0-py3-none-any.whl"
        with zipfile.ZipFile(place, "w") as archive:
            for file in sorted((tmp_path / "site").rglob("*.*")):
                if file.is_file():
                    archive.write(file, file.relative_to(tmp_path / "site").as_posix())
    found = by_key(told(rocwright, "--from", f"rocm-bootstrap={place}"))
    # gfx942 is known; a target that no table has becomes a family of its own name.
    new = found["families.families.gfx1299"]
    assert (new["kind"], new["new"], new["as_of"]) == ("added", ["gfx1299"], "9.1.0")
    owners = [one for key, one in found.items() if key.startswith("families.owners")]
    assert owners and "gfx1299" in str(owners)


def test_rocm_bootstrap_that_is_installed_is_read(
    rocwright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(pages.bootstrap(tmp_path / "site")))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    done = rocwright("data", "refresh", "--json")
    assert done.code == 0
    assert done.json["read"] == ["rocm-bootstrap"]
    assert "families.families.gfx1299" in by_key(done.json["changes"])
    # What was not reached is told.
    assert "not read: amdgpu-ids: " in done.err and "not read: pci-ids: " in done.err


def test_names_and_ids_of_boards_come_together_in_a_chip(rocwright: Run, tmp_path: Path) -> None:
    ids = write(tmp_path / "tree/usr/share/libdrm/amdgpu.ids", pages.IDS).parents[3]
    pci = write(tmp_path / "pci.ids", pages.PCI)
    changes = told(rocwright, "--from", f"amdgpu-ids={ids}", "--from", f"pci-ids={pci}")
    (arcturus,) = [one for one in changes if one["key"] == "gpus.chip.Arcturus"]
    # Two revisions of one name share a key.
    assert arcturus["new"]["names"]["738c:01 02"] == "AMD Instinct MI100"
    names, later = [one for one in changes if one["key"] == "gpus.chip.Navi 31"]
    assert names["new"]["names"]["744c:c8"] == "AMD Radeon RX 9999 XTX"
    # pci.ids adds its id to what amdgpu.ids has changed: neither sound, nor a device of somebody else.
    assert later["new"]["names"] == names["new"]["names"]
    assert set(later["new"]["ids"]) - set(names["new"]["ids"]) == {"74ff"}
    assert later["as_of"] == "2027-01-02"
    (gone,) = [one for one in changes if one["key"] == "gpus.chip.Navi 31.names.744c:cc"]
    assert (gone["kind"], gone["old"]) == ("vanished", "AMD Radeon RX 7900 XT")
    assert any(one["kind"] == "noted" and "1309" in one["says"] for one in changes)


def test_a_name_that_several_chips_go_by_says_no_target(rocwright: Run, tmp_path: Path) -> None:
    # Both are known, and of two chips: gfx942 and gfx950.
    text = "# Date: 2027-01-02\n1002  AMD\n\t74a1  Aqua Vanjaram [MI300X]\n\t75a0  Aqua Vanjaram [MI350X]\n"
    file = write(tmp_path / "pci.ids", text + "\t75fe  Aqua Vanjaram [MI3xx]\n\t99ff  Unheard of\n")
    (change,) = told(rocwright, "--from", f"pci-ids={file}")
    assert (change["kind"], change["says"]) == (
        "noted",
        "Aqua Vanjaram: 75fe may be any of Aqua Vanjaram, MI350",
    )


def test_a_matrix_of_before_the_tables_changes_nothing_of_them(rocwright: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "matrix.csv", "ROCm Version,6.0.0\n      :doc:`RCCL <rccl:index>`,9.9.9\n")
    (change,) = told(rocwright, "--from", f"rocm-matrix={file}")
    assert change["says"] == "it is of ROCm 6.0.0, the tables are of ROCm 7.1.1; only what they lack is told"


def test_ids_of_the_driver_are_those_of_vendor_and_chip(rocwright: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "amdgpu_drv.c", pages.DRIVER)
    (change,) = told(rocwright, "--from", f"linux-amdgpu={file}")
    assert change["key"] == "gpus.chip.Topaz"
    assert set(change["new"]["ids"]) - set(change["old"]["ids"]) == {"69ff"}


def test_releases_of_rocm_come_from_its_matrix(rocwright: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "matrix.csv", pages.CSV)
    found = by_key(told(rocwright, "--from", f"rocm-matrix={file}"))
    new = found["compat_libraries.release.99.1.0"]
    assert new["kind"] == "added"
    assert new["new"] == {
        "rocm": "99.1.0",
        "source": "https://github.com/ROCm/ROCm/blob/develop/docs/compatibility/compatibility-matrix-historical-6.0.csv",
        "torch": ["2.19", "2.18"],
        "targets": ["gfx1201", "gfx942"],
        "versions": {"RCCL": "9.9.9"},
        "absent": ["rocJPEG"],
    }
    # What the table says of 6.0.0 and the matrix says, too, is no change.
    assert "compat_libraries.release.6.0.0" not in found


@pytest.mark.parametrize("json", [False, True])
def test_an_index_tells_its_device_packages_and_newest_versions(
    rocwright: Run, tmp_path: Path, json: bool
) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    for project, version in (
        ("rocm-sdk-device-gfx942", "9.0"),
        ("rocm-sdk-device-gfx1299", "9.0"),
        ("rocm-sdk-device-evil", "9.0"),
        ("torch", "2.99.0+rocm9.0"),
        ("torch", "2.98.1"),
        ("rocm", "9.0.1"),
    ):
        wheel(folder, project, version, padding=0)
    with serving(folder) as index:
        index.manner.json = json
        found = told(rocwright, "--from", f"index={index.url('simple/')}")
    assert by_key(found)["families.families.gfx1299"]["kind"] == "added"
    says = {one["says"] for one in found if one["kind"] == "noted"}
    assert says == {
        "rocm-sdk-device-evil is the package of no GPU target",
        "the newest rocm is 9.0.1",
        "the newest torch is 2.99.0+rocm9.0",
    }


def test_a_url_is_read_in_place_of_the_sources_own(rocwright: Run, tmp_path: Path) -> None:
    pages.therock(tmp_path / "served")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "served"))
    handler.func.log_message = lambda *_: None  # type: ignore[attr-defined,method-assign]
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_address[1]}/"
        found = by_key(told(rocwright, "--from", f"therock-targets={base}"))
        server.shutdown()
    assert found["families.families.gfx129X-all"]["new"] == ["gfx1299"]
    assert found["families.families.gfx129X-all"]["as_of"] == str(today())


BOMB = "[" * 5000
HOSTILE = {
    "import in the matrix": (
        "therock-pytorch", "pytorch", 'RELEASE_PYTHON_VERSIONS = __import__("os").listdir(".")\n',
    ),
    "a call in a list": ("therock-pytorch", "pytorch", "RELEASE_PYTHON_VERSIONS = [str(3)]\n"),
    "a branch that is an option": (
        "therock-pytorch", "pytorch", pages.PYTORCH.replace("release/2.15", "--upload-pack=x"),
    ),
    "deep nesting": ("therock-pytorch", "pytorch", f"RELEASE_PYTHON_VERSIONS = {BOMB}"),
    "a NUL": ("therock-pytorch", "pytorch", "x = 1\0"),
    "a family with a path": ("therock-matrix", "matrix", pages.MATRIX.replace("gfx94X-dcgpu", "../../etc")),
    "a target with a separator": (
        "therock-targets", "cmake", 'therock_add_amdgpu_target(gfx942/../x "MI" FAMILY all)\n',
    ),
    "a target in another alphabet": (
        "therock-targets", "cmake", 'therock_add_amdgpu_target(gfx94\uff12 "MI" FAMILY all)\n',
    ),
    "nothing at all": ("therock-targets", "cmake", ""),
    "a page of an error": ("therock-targets", "cmake", "<html>502 Bad Gateway</html>"),
    "a name that turns the line": (
        "therock-extras", "releases", pages.EXTRAS.replace("AMD Instinct MI100", "AMD \u202e001IM"),
    ),
    "an extra of another target": (
        "therock-extras", "releases", pages.EXTRAS.replace("`device-gfx908`", "`device-gfx90a`"),
    ),
    "a version of words": ("therock-version", "version", '{"rocm-version": "latest"}'),
    "no object": ("therock-version", "version", "[]"),
    "deep JSON": ("therock-version", "version", "[" * 100_000),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_page_that_is_not_what_it_should_be_is_an_error_and_nothing_is_written(
    rocwright: Run, tmp_path: Path, case: str
) -> None:
    source, file, text = HOSTILE[case]
    clone = pages.therock(tmp_path / "clone", **{file: text})
    done = rocwright("data", "refresh", "--from", f"{source}={clone}", "--overlay", "new.toml")
    assert done.code == 3, done.out
    assert "nothing was written" in done.err and "nothing of it is taken" in done.err
    assert not (tmp_path / "new.toml").exists()


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("amdgpu-ids", "744C,\tC8,\tAMD \x1b[31m\n"),
        ("amdgpu-ids", "744C; C8; AMD\n"),
        ("amdgpu-ids", "# nothing\n"),
        ("pci-ids", "1003  ULSI Systems\n\t744c  Navi 31\n"),
        ("linux-amdgpu", "int main(void) { return 0; }\n"),
        ("rocm-matrix", "ROCm Version,latest\n"),
        ("rocm-matrix", ""),
    ],
)
def test_a_list_that_is_not_what_it_should_be_is_an_error(
    rocwright: Run, tmp_path: Path, source: str, text: str
) -> None:
    done = rocwright("data", "refresh", "--from", f"{source}={write(tmp_path / 'list', text)}")
    assert done.code == 3
    assert "nothing of it is taken" in done.err


def test_what_is_no_text_and_what_is_too_large_is_refused(rocwright: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "amdgpu.ids", b"\xff\xfe")
    assert "is not UTF-8" in rocwright("data", "refresh", "--from", f"amdgpu-ids={file}").err
    with file.open("wb") as stream:
        stream.truncate(1 << 30)
    done = rocwright("data", "refresh", "--from", f"amdgpu-ids={file}")
    assert done.code == 3 and "which is more than can be right" in done.err


@pytest.mark.parametrize(
    ("targets", "owners"),
    [
        (pages.TARGETS.replace('"gfx1299"', '"gfx12/99"'), pages.OWNERS),
        (pages.TARGETS.replace("    GFX1299,", "    *make(),"), pages.OWNERS),
        ("ALL_TARGETS = ()\n", pages.OWNERS),
        (pages.TARGETS, "_OVERRIDE_PACKAGE_OWNERS = open('x').read()\n"),
        (pages.TARGETS, '_OVERRIDE_PACKAGE_OWNERS = {"gfx942": "../gfx"}\n'),
    ],
)
def test_a_bootstrap_that_is_not_what_it_should_be_is_an_error(
    rocwright: Run, tmp_path: Path, targets: str, owners: str
) -> None:
    place = pages.bootstrap(tmp_path / "site", targets, owners)
    done = rocwright("data", "refresh", "--from", f"rocm-bootstrap={place}")
    assert done.code == 3 and "nothing of it is taken" in done.err


def test_without_a_network_it_says_which_sources_were_not_reached_and_what_to_give(
    rocwright: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_installed(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    # rocm-bootstrap may be there for other tests, and is read without a network then.
    monkeypatch.setattr(metadata, "distribution", not_installed)
    done = rocwright("data", "refresh")
    assert done.code == 5
    assert "no source could be read" in done.err
    for name in ("therock-targets", "amdgpu-ids", "pci-ids", "rocm-matrix"):
        assert f"  {name}: " in done.err
    assert "--from therock=CLONE" in done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--from", "therock"), "--from therock is not NAME=PLACE"),
        (("--from", "=x"), "is not NAME=PLACE"),
        (("--from", "therok=x"), "no source is called so"),
        (("--overlay", "a", "--patch", "b"), "exclude each other"),
    ],
)
def test_a_wrong_line_is_refused(rocwright: Run, words: tuple[str, ...], says: str) -> None:
    done = rocwright("data", "refresh", *words)
    assert done.code == 2 and says in done.err


def test_a_place_that_is_not_there_is_told(rocwright: Run, tmp_path: Path) -> None:
    done = rocwright("data", "refresh", "--from", f"amdgpu-ids={tmp_path / 'absent'}")
    assert done.code == 5 and "is not there" in done.err
    (tmp_path / "empty").mkdir()
    done = rocwright("data", "refresh", "--from", f"amdgpu-ids={tmp_path / 'empty'}")
    assert done.code == 5 and "has no data/amdgpu.ids" in done.err
