"""`rocwright set create --variants`: what is made of wheels that were split, and what becomes of the set."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

from cli_sets import created, kept, run, wheels

from command_line import Run
from wheels import write_sdist, write_wheel

__all__ = ["run"]
VERSION, TARGETS, TAG = "1.0+rocm7.1", ("gfx942", "gfx1151"), "cp312-cp312-linux_x86_64"
FOR = ("--family", "fam", "--target", "gfx942,gfx1151")
CHOOSES = f"amd_mylib_device-{VERSION}-py3-none-linux_x86_64"


def split_wheels(folder: str = "dist", *, version: str = VERSION) -> Path:
    """A host and a device wheel for each target, as a split leaves them."""
    here, extras = Path(folder), [f"device-{one}" for one in TARGETS]
    pins = [f'amd-mylib-device-{one}=={version} ; extra == "device-{one}"' for one in TARGETS]
    body = {"mylib/__init__.py": ""}
    write_wheel(here, "mylib", version, body, tag=TAG, extras=extras, requires=pins)
    for one in TARGETS:
        device = {f"mylib/{one}.txt": one}
        write_wheel(here, f"amd-mylib-device-{one}", version, device, tag=TAG, requires=[f"mylib=={version}"])
    return here


def with_variants(run: Run, *words: object, folder: str = "dist") -> str:
    """The id of a set that was made with variants."""
    done = run("create", split_wheels(folder), *FOR, "--variants", *words)
    assert done.code == 0, done.err
    [digest] = done.lines
    return digest


def manifest_of(digest: str) -> dict:
    return json.loads(Path("store/sets", digest, "manifest.json").read_bytes())


def test_the_set_has_selectors_and_a_host_that_requires_them(run: Run) -> None:
    before = {path.name: path.read_bytes() for path in split_wheels().iterdir()}
    files = {one["name"]: one for one in manifest_of(with_variants(run))["files"]}
    assert sorted(files) == sorted(
        [*before, f"{CHOOSES}.whl", *(f"{CHOOSES}-{label}.whl" for label in ("null", *TARGETS))]
    )
    assert {one["variant"]["variants"].popitem()[0] for one in files.values() if "variant" in one} == {
        "null",
        *TARGETS,
    }
    host = f"mylib-{VERSION}-{TAG}.whl"
    assert files[host]["depends"] == [
        "amd-mylib-device",
        *(f"amd-mylib-device-{one}" for one in sorted(TARGETS)),
    ]
    # Given files stay what they are, and so do the device wheels in the set.
    assert {path.name: path.read_bytes() for path in Path("dist").iterdir()} == before
    for name, data in before.items():
        assert (files[name]["sha256"] == hashlib.sha256(data).hexdigest()) == (name != host)


def test_the_host_differs_in_what_it_requires_alone(run: Run) -> None:
    digest = with_variants(run)
    host = next(one for one in manifest_of(digest)["files"] if one["project"] == "mylib")
    with (
        zipfile.ZipFile(Path("dist", host["name"])) as old,
        zipfile.ZipFile(Path("store/files", host["sha256"], host["name"])) as new,
    ):
        differing = {name for name in old.namelist() if old.read(name) != new.read(name)}
        assert old.namelist() == new.namelist() and {name.rpartition("/")[2] for name in differing} == {
            "METADATA",
            "RECORD",
        }
        lines = {archive.read(f"mylib-{VERSION}.dist-info/METADATA").decode() for archive in (old, new)}
    assert {
        line for one in lines for line in one.splitlines() if any(line not in each for each in lines)
    } == {f"Requires-Dist: amd-mylib-device=={VERSION}"}


def test_again_gives_the_same_set(run: Run) -> None:
    first = with_variants(run)
    stored = kept()
    assert with_variants(run) == first
    assert kept() == stored


def test_files_that_have_variants_already_give_the_same_set(run: Run) -> None:
    first = with_variants(run)
    again = Path("again")
    again.mkdir()
    for one in manifest_of(first)["files"]:
        Path(again, one["name"]).write_bytes(Path("store/files", one["sha256"], one["name"]).read_bytes())
    for words in ((), ("--variants",)):
        done = run("create", again, *FOR, *words)
        assert done.code == 0 and done.lines == [first], done.err


def test_a_set_tells_its_variants(run: Run) -> None:
    done = run("show", with_variants(run))
    assert f"variants   amd-mylib-device {VERSION}: gfx1151 gfx942 null\n" in done.out
    assert "variants" not in run("show", created(run)).out


def test_a_dry_run_writes_nothing(run: Run) -> None:
    done = run("create", split_wheels(), *FOR, "--variants", "--dry-run", "--json")
    assert done.code == 0, done.err
    keys = [one["key"] for one in json.loads(done.out)["objects"]]
    assert any(key.endswith(f"{CHOOSES}-gfx942.whl") for key in keys)
    assert not Path("store").exists()


def test_what_was_not_split_is_refused(run: Run) -> None:
    done = run("create", wheels("plain", "1.0"), "--family", "fam", "--target", "gfx942", "--variants")
    assert done.code == 3 and "none of the files offers device packages" in done.err
    assert "leave --variants out" in done.err
    assert not Path("store").exists()


def test_a_project_of_that_name_is_not_replaced(run: Run) -> None:
    write_sdist(split_wheels(), "amd-mylib-device", VERSION)
    done = run("create", "dist", *FOR, "--variants")
    assert done.code == 3
    assert (
        f"amd_mylib_device-{VERSION}.tar.gz is of the project that is to choose device packages" in done.err
    )
    assert not Path("store").exists()


def test_an_index_is_adopted_as_it_is(run: Run) -> None:
    done = run("create", "--from-folder", split_wheels(), "--variants")
    assert done.code == 2 and "--variants only with files" in done.err


def test_a_new_version_takes_its_variants_along(run: Run) -> None:
    """A candidate's selectors choose the candidate's packages, the release's those of the release."""
    version = "1.0+rocm7.1rc1"
    done = run("create", split_wheels("rc", version=version), *FOR, "--variants")
    assert done.code == 0, done.err
    done = run("reversion", done.lines[0], "--to", "release")
    assert done.code == 0, done.err
    digest = done.lines[-1].split()[-1]
    fresh = run("create", split_wheels("final"), *FOR, "--variants")
    found, wanted = manifest_of(digest)["files"], manifest_of(fresh.lines[0])["files"]
    selectors = [one for one in found if one["project"] == "amd-mylib-device"]
    assert len(selectors) == 4
    # The same as those that are made for this version: a channel may list both.
    assert selectors == [one for one in wanted if one["project"] == "amd-mylib-device"]


def test_a_promoted_set_has_its_variants_where_it_goes(run: Run) -> None:
    digest = with_variants(run, "--stage")
    for suite in ("rocm-sdk", "smoke-host"):
        assert run("state", digest, "--suite", suite, "--result", "passed").code == 0
    for one in TARGETS:
        words = ("--suite", "smoke-gpu", "--target", one, "--result", "passed")
        assert run("state", digest, *words).code == 0
    done = run("promote", digest, "--to", "release")
    assert done.code == 0, done.err
    [stated] = Path("store/v2/fam/_variants").rglob("*-variants.json")
    assert list(json.loads(stated.read_bytes())["variants"]) == ["gfx1151", "gfx942", "null"]
    assert run("verify", "release:fam").code == 0
